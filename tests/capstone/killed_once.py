"""`python -m distlib.capstone …`, of which the last rank is killed after a checkpoint, when it runs for the first time.

killed_once.py STEP MARK additions …        MARK: a file that says that it has happened
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from distlib.capstone.__main__ import main
from distlib.launch.checkpoints import Checkpoints, good_steps

STEP, MARK = int(sys.argv[1]), Path(sys.argv[2])
_save = Checkpoints.save


def save_and_die(self: Checkpoints, step: int, state: Any) -> None:
    """What `save` does, and then the end, without a word: when rank 0 has saved that step, too."""
    _save(self, step, state)
    comm = self._comm
    if step == STEP and comm.rank == comm.world_size - 1 and not MARK.exists():
        of_rank_0 = self._folder.with_name(f"rank-0-of-{comm.world_size}")
        while STEP not in good_steps(of_rank_0):
            time.sleep(0.01)
        MARK.touch()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Checkpoints.save = save_and_die  # type: ignore[method-assign]
    sys.exit(main(sys.argv[3:]))

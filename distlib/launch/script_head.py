"""The head of a script that becomes a rank in the middle of its own lines: a process that rank 0 starts.

It is not forked, as that of `distlib launch` is: by then the script may have threads, or use a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from distlib.launch.environment import Placement
from distlib.launch.rendezvous import Rendezvous
from distlib.launch.watch import be_head
from distlib.worlds import pickling

NAME = 'the backend "distlib"'


def start_head(placement: Placement, patience: float) -> subprocess.Popen[bytes]:
    """Start the head of the ranks that `placement` is one of, next to this process."""
    told = json.dumps({"placement": asdict(placement), "parent": os.getpid(), "patience": patience})
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-m", __spec__.name], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.write(told.encode())
    process.stdin.close()
    return process


def main() -> int:
    """Be the head."""
    from distlib.launch.script_rank import hand_over, meeting_of

    told: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    given = told["placement"]
    placement = Placement(**{**given, "store": tuple(given["store"]) if given["store"] else None})
    patience = float(told["patience"])

    def find() -> Rendezvous:
        return meeting_of(placement, patience)

    return be_head(
        placement, find, pickling.pack_call(hand_over, (), {}), int(told["parent"]), patience=patience, name=NAME
    )


if __name__ == "__main__":
    sys.exit(main())

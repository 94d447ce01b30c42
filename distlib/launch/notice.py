"""Notice that a job is about to end, in time to write a checkpoint, and the status that asks for its next turn.

    Slurm ──SIGUSR1 (or SIGTERM)──► each rank that srun has started ─┐
    Slurm ──SIGUSR1 (or SIGTERM)──► distlib launch --ranks ──file──► ├─► ends_soon(comm) is True, on all ranks at once
                                                                     └─► the function writes, and returns REQUEUE

When to signal is asked for in the job script: `#SBATCH --signal=USR1@60`, a minute before the limit, to all that srun
has started, or `--signal=B:USR1@60`, to the script itself (sbatch(1)). SIGTERM comes at the limit, SIGKILL KillWait
seconds later (slurm.conf(5)). SIGTERM is such a notice only where the function has asked `ends_soon`; else it ends the
ranks, as ever.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from distlib.collectives import all_reduce
from distlib.communicator import Communicator, ReduceOp

REQUEUE = 75  # EX_TEMPFAIL of sysexits.h: try again later
SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)


class Notice:
    """What one process knows about its end.

    Attributes:
        given: whether notice has been given.
        wanted: whether the function has asked for it.
        file: by whose existence another process gives notice; None if this process gets the signals itself.
    """

    def __init__(self) -> None:
        self.given = self.wanted = False
        self.file: Path | None = None

    def look(self) -> bool:
        """Whether notice has been given, also by the file. From now on it is wanted."""
        if self.file is not None and not self.wanted:
            _wanted_mark(self.file).touch()
        self.wanted = True
        self.given = self.given or (self.file is not None and self.file.exists())
        return self.given

    @contextlib.contextmanager
    def by(self, file: Path | None) -> Iterator[None]:
        """In this block, the file gives notice."""
        self.given, self.wanted, self.file = False, False, file
        try:
            yield
        finally:
            self.file = None


of_this_process = Notice()


def ends_soon(comm: Communicator) -> bool:
    """Whether the end of the job is near. All ranks must ask, such as after each step; all get the same answer.

    Costs an all-reduce of one number. After True: write a checkpoint, and return REQUEUE.
    """
    number = torch.tensor([int(of_this_process.look())])
    all_reduce(comm, number, ReduceOp.MAX)
    return bool(number)


def give_notice() -> None:
    """Give notice to this process, as one of the SIGNALS does."""
    of_this_process.given = True


def status_of(results: list[Any]) -> int:
    """The exit status of a launch whose ranks have returned these: REQUEUE if one of them has, else 0."""
    return REQUEUE if any(type(result) is int and result == REQUEUE for result in results) else 0


@contextlib.contextmanager
def passed_on_by_file() -> Iterator[Path]:
    """In this block, the SIGNALS that this process gets make a file, which is notice to its ranks.

    SIGTERM ends this process, with status 143, if no rank has asked, or if it comes again. Only for the main thread.
    """
    with tempfile.TemporaryDirectory(prefix="distlib-") as folder:
        file = Path(folder) / "notice"

        def on_signal(number: int, frame: object) -> None:
            if number == signal.SIGTERM and (file.exists() or not _wanted_mark(file).exists()):
                signal.signal(number, signal.SIG_DFL)
                raise SystemExit(128 + number)  # so that ranks and folders are cleared away
            file.touch()

        before = {number: signal.signal(number, on_signal) for number in SIGNALS}
        try:
            yield file
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _wanted_mark(file: Path) -> Path:
    return file.with_suffix(".wanted")

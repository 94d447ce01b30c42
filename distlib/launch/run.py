"""`distlib launch`: run a function of a script on ranks, started here, by torchrun, or by srun.

distlib launch --ranks 4 train.py:main                             a World on this machine
distlib launch --elastic 2:4 train.py:main                         the same; lost ranks are done without
torchrun --nproc-per-node 4 -m distlib.cli launch train.py:main    torchrun starts the processes, one per rank
srun --ntasks 4 distlib launch train.py:main                       Slurm does
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from distlib.launch.elastic import run_elastic
from distlib.launch.environment import LaunchError, Placement
from distlib.launch.head_process import be_head
from distlib.launch.notice import passed_on_by_file, status_of
from distlib.launch.rank import be_rank
from distlib.launch.rendezvous import FileRendezvous, Rendezvous, StoreRendezvous, default_directory
from distlib.launch.script import Target, call_target
from distlib.launch.secret_file import VARIABLE, own_secret, secret_path
from distlib.worlds import pickling
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.cards import cards_here


@dataclass(frozen=True)
class Options:
    """How to launch.

    Attributes:
        ranks: how many to start here, on this machine.
        fewest: how many must be left for an elastic run to go on; None if all must.
        silence: seconds; see `elastic`.
        directory: where the processes meet; None for one in the home, or, of several machines, torchrun's store.
        patience: seconds for all of them to come.
        backend: "gloo" or "nccl"; None for NCCL if there are 2 to 16 ranks, each with a GPU of its own, else gloo.
    """

    ranks: int | None = None
    fewest: int | None = None
    silence: float | None = None
    directory: Path | None = None
    patience: float = 120.0
    backend: str | None = None


def launch(target: Target, placement: Placement | None, options: Options) -> int:
    """Run the function on all ranks. A process that torchrun or srun has started is one of them, and ends here.

    Args:
        placement: of this process; None if neither of them has started it.

    Returns:
        The exit status: 0, REQUEUE if the function has returned that (see notice), or 1 if the run has failed. What
        went wrong is printed, once.

    Raises:
        LaunchError: the ranks can't start, or can't find each other.
    """
    if placement is None:
        return _run_here(target, options)
    if options.ranks is not None:
        raise LaunchError(
            f"{placement.launcher} has started {placement.world_size} ranks: leave out --ranks and --elastic."
        )
    _leave(_be_rank(placement, target, options))


def _be_rank(placement: Placement, target: Target, options: Options) -> int:
    if placement.rank > 0:
        card = card_of(placement, options.backend)
        return be_rank(placement, _rendezvous(placement, options), options.patience, card=card)
    head = HeadProcess(placement, target, options)
    try:
        rendezvous = _rendezvous(placement, options, opens=not placement.agent_store)
        card = card_of(placement, options.backend)
        return be_rank(placement, rendezvous, options.patience, head.has_ended, card=card)
    finally:
        head.wait()  # it may have something to say, and ends when all ranks have


def card_of(placement: Placement, backend: str | None) -> int | None:
    """The number of the GPU that a rank would take; None where it needs none, or there is none."""
    if backend == "gloo" or (backend is None and placement.world_size == 1) or not cards_here():
        return None
    return placement.local_rank % cards_here()


def _leave(status: int) -> NoReturn:
    """End this process, without the seconds that torch takes to clean up behind itself."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # nobody reads it any more; it was closed from the start
            stream.flush()
    os._exit(status)


def _run_here(target: Target, options: Options) -> int:
    if options.ranks is None:
        raise LaunchError("on how many ranks? Say distlib launch --ranks 4 …, or start it by torchrun or srun.")
    if options.backend is not None:
        raise LaunchError("--backend is for what torchrun or srun has started: leave it out.")
    fewest = options.fewest or options.ranks
    with passed_on_by_file() as notice:
        try:
            results = run_elastic(
                call_target, target, lowest=fewest, highest=options.ranks, silence=options.silence, notice=notice
            )
            return status_of(results)
        except RankError as error:
            print("\n".join(error._render_traceback_()), file=sys.stderr)
            return 1


_COPY_IT = f"Where they don't share the home, copy it to each of them, or name another one: {VARIABLE}=FILE."


def _rendezvous(placement: Placement, options: Options, opens: bool = False) -> Rendezvous:
    if options.directory is not None or placement.store is None or placement.one_machine:
        return FileRendezvous(options.directory or default_directory(), placement.meeting)
    advice = f"Was rank 0 started, and is {secret_path(os.environ)} the same file on all nodes? {_COPY_IT}"
    return StoreRendezvous(placement, own_secret(os.environ), advice, opens, options.patience)


# ── the head ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class HeadProcess:
    """The head's process, forked from that of rank 0, which must still have a single thread."""

    def __init__(self, placement: Placement, target: Target, options: Options) -> None:
        parent, self._ended = os.getpid(), False
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                status = _be_head(placement, target, options, parent)
            finally:
                os._exit(status)

    def has_ended(self) -> bool:
        """Whether the process of the head has ended."""
        if not self._ended:
            self._ended = os.waitpid(self._pid, os.WNOHANG)[0] != 0
        return self._ended

    def wait(self) -> None:
        """Wait until it is over."""
        if not self._ended:
            os.waitpid(self._pid, 0)
            self._ended = True


def _be_head(placement: Placement, target: Target, options: Options, parent: int) -> int:
    call = pickling.pack_call(call_target, (target,), {})
    find = partial(_rendezvous, placement, options)
    return be_head(placement, find, call, parent, patience=options.patience, backend=options.backend)

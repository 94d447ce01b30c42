"""A script of one's own becomes a rank where it says init_process_group("distlib"), under torchrun, srun or by hand.

    the script's lines            the rank's loop, as `distlib launch` has it
    import torch …
    init_process_group ─────────► join the head, wait until all ranks are there
         the communicator ◄────── run the function that the head names: hand_over
    training …
    the end, or an error ───────► hand_over returns, or raises: report it, exit with the status that the head names

Both sides are in one thread and take turns, as two greenlets. The head is a process that rank 0 starts; it sees what
each rank waits for, and prints rank, line and cause of whatever goes wrong.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing.util
import os
import secrets
import socket
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import greenlet

from distlib.communicator import Communicator
from distlib.launch.environment import LaunchError, Placement, read_placement
from distlib.launch.rank import be_rank
from distlib.launch.rendezvous import FileRendezvous, Rendezvous, StoreRendezvous, default_directory
from distlib.launch.run import card_of
from distlib.launch.secret_file import own_secret, secret_path
from distlib.torch_backend.default_group import use_for_process
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.endpoint import Stopped

_PASSES_ON = True  # see worlds.call_site

_MEETING = "distlib"
_BY_HAND = "init_process_group"
_HEAD = "distlib.launch.script_head"


def become_rank(options: Any) -> None:
    """Make this process a rank, with the others that call init_process_group("distlib").

    Args:
        options: torch's, of the default process group: which rank, of how many, in which store, and the time limit for
            all of them to come.

    Raises:
        RuntimeError: this is a notebook's process.
        LaunchError: the ranks can't find each other.
    """
    if "ipykernel" in sys.modules:
        raise RuntimeError(
            'the backend "distlib" needs a rank to run on, and this is the notebook\'s own process: call '
            "torch_distributed(comm) in a function that a World runs"
        )
    script = Script(_placement(options), options.timeout.total_seconds())
    use_for_process(script.enter())


class Script:
    """A script that has become a rank.

    Args:
        placement: which one.
        patience: seconds for all ranks to come.
    """

    def __init__(self, placement: Placement, patience: float) -> None:
        global _script
        self._pid = os.getpid()
        self._head = _start_head(placement, patience) if placement.rank == 0 else None
        self._lines = greenlet.getcurrent()
        self._loop = greenlet.greenlet(partial(self._be_rank, placement, patience))
        self._hook = sys.excepthook
        self._error: BaseException | None = None
        _script = self

    def _be_rank(self, placement: Placement, patience: float) -> int:
        hopeless = (lambda: self._head is not None and self._head.poll() is not None) if self._head else (lambda: False)
        rendezvous = meeting_of(placement, patience)
        return be_rank(placement, rendezvous, patience, hopeless, card=card_of(placement, None), is_script=True)

    def enter(self) -> Communicator:
        """Become the rank. Returns its communicator when all ranks are there."""
        got = self._loop.switch()
        if not isinstance(got, Communicator):  # the head has said why
            raise SystemExit(got)
        sys.excepthook = self._tell
        atexit.register(self.leave)
        multiprocessing.util.Finalize(None, self.leave, exitpriority=100)  # a process of multiprocessing has no atexit
        return got

    def hand_over(self, comm: Communicator) -> None:
        """The function that the head has every rank call: the rest of the script."""
        self._lines.switch(comm)
        if self._error is not None:
            raise self._error

    def leave(self) -> None:
        """The script is over: report how it ended, and wait until all ranks are."""
        if os.getpid() != self._pid or self._loop.dead:
            return
        self._error = self._error or sys.exc_info()[1]
        exits = isinstance(self._error, SystemExit)
        if isinstance(self._error, SystemExit) and not self._error.code:
            self._error = None  # it has ended as programs do
        status = self._loop.switch()
        if self._head is not None:
            self._head.wait()
        if status and not exits:  # else Python ends with the script's own status
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(status)

    def _tell(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """In place of sys.excepthook: this rank prints what is not the head's to say, and `leave` reports it."""
        self._error = error
        if not isinstance(error, RankError | Stopped):
            self._hook(kind, error, trace)


_script: Script | None = None


def hand_over(comm: Communicator) -> None:
    """What the head has each rank call: see `Script.hand_over`."""
    assert _script is not None
    _script.hand_over(comm)


def meeting_of(placement: Placement, patience: float) -> Rendezvous:
    """Where the ranks meet: in a file of this user's, or, of several machines, in the store of torchrun."""
    if placement.store is None or placement.one_machine:
        return FileRendezvous(default_directory(), placement.meeting)
    advice = f"Is {secret_path(os.environ)} the same file on all nodes?"
    return StoreRendezvous(placement, own_secret(os.environ), advice, opens=False, patience=patience)


def _placement(options: Any) -> Placement:
    """Which rank this is: as torchrun or srun say, if torch was told the same; else as torch was told."""
    rank, size, host = int(options.group_rank), int(options.group_size), socket.gethostname()
    with contextlib.suppress(LaunchError):
        found = read_placement(os.environ, host)
        if found is not None and (found.rank, found.world_size) == (rank, size):
            return found
    if rank == 0:
        options.store.set(_MEETING, secrets.token_hex(8))
    run = options.store.get(_MEETING).decode()
    return Placement(_BY_HAND, run, rank, size, rank, size, 0, 1, host)


def _start_head(placement: Placement, patience: float) -> subprocess.Popen[bytes]:
    """Start the head next to this process, that of rank 0."""
    told = json.dumps({"placement": asdict(placement), "parent": os.getpid(), "patience": patience})
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-m", _HEAD], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.write(told.encode())
    process.stdin.close()
    return process

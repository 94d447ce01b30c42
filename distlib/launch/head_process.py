"""The process of the head: it gathers the ranks, has them call a function, and says what went wrong."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from distlib.launch.environment import LaunchError, Placement
from distlib.launch.head import Head
from distlib.launch.notice import SIGNALS, status_of
from distlib.launch.rendezvous import Rendezvous
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.output_relay import print_output
from distlib.worlds.real.supervisor import RunSettings, Supervisor

_NO_LIMIT = 2**62  # bytes that ranks may print


def be_head(
    placement: Placement,
    find: Callable[[], Rendezvous],
    call: bytes,
    parent: int,
    *,
    patience: float,
    backend: str | None = None,
    name: str = "distlib launch",
) -> int:
    """Gather the ranks, and watch over a run of theirs. Returns the exit status, 1 after it has said what went wrong.

    Args:
        placement: of rank 0.
        find: makes the rendezvous.
        call: what every rank is to call, as `pickling.pack_call` writes it.
        parent: the process of rank 0: when it ends before all ranks have come, so does this one.
        patience: seconds for all of them to come.
        backend: see `Head`.
        name: who speaks, in front of an error.
    """
    os.setsid()  # torchrun and a terminal signal rank 0's whole group; the head is to tell what became of it
    for number in (*SIGNALS, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        with Head(placement, find(), backend=backend) as head:
            head.gather(patience, wanted=lambda: os.getppid() == parent)
            status = _watch(head, call)
            head.dismiss(status)
            return status
    except LaunchError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return 1


def _watch(head: Head, call: bytes) -> int:
    settings = RunSettings(1, None, False, 0, _NO_LIMIT, print_output)
    try:
        return status_of(Supervisor(head, settings, call).run())
    except RankError as error:
        head.name_nodes(error)
        print("\n".join(error._render_traceback_()), file=sys.stderr, flush=True)
        return 1

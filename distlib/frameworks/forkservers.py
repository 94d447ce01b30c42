"""The fork servers of demonstrations: each has imported TensorFlow or JAX, and is kept for the next demonstration.

To import TensorFlow takes ten seconds of the processor, a fork milliseconds: see `distlib.worlds.forkserver`. They are
not the ranks' fork server, since that has torch instead, and no network of its own (see `own_network`).

One that has imported a framework is kept when a demonstration has gone well: none of its processes are left, and the
next one starts in a fraction of a second. After an interrupt, a time limit or an exception it ends as well. What a
framework reads while it is imported can't be changed afterwards, so another environment means another fork server.
`prepare` begins one before the first demonstration.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distlib.frameworks import own_network
from distlib.worlds.forkserver.handle import ForkServer

_CLEAR_PATIENCE = 10.0  # seconds to end what it has forked: on a busy machine less than another import
_MOST_KEPT = 2  # that wait for another demonstration; one with TensorFlow takes 0.4 GB


@dataclass
class Setting:
    """What makes one fork server unlike another: what is there before anything is imported in it."""

    environment: dict[str, str]
    path: list[str]
    wrapper: tuple[str, ...]
    kernel: int


class FrameworkForkServer(ForkServer):
    """The kernel's handle of one. `setting`: what it begins with."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        module = "distlib.frameworks.in_process"
        super().__init__(module, setting.environment, processes="processes", wrapper=setting.wrapper)

    def clear(self) -> bool:
        """End all processes. Returns whether they are gone, and it can be used again."""
        try:
            self.ask("clear", patience=_CLEAR_PATIENCE)
        except (RuntimeError, OSError):
            return False
        self.ended.clear()
        return True


_kept: list[FrameworkForkServer] = []  # the one that was used last comes last


@contextlib.contextmanager
def borrowed(environment: dict[str, str], frameworks: Sequence[str]) -> Iterator[FrameworkForkServer]:
    """A fork server for one demonstration: one that was kept, or a new one. An exception in the block ends it.

    Args:
        environment: of the imports; processes may have more in theirs.
        frameworks: what it imports, if it can. Without any it is not worth keeping.
    """
    server = _take(environment)
    try:
        server.order("import", list(frameworks))
        yield server
        is_kept = bool(frameworks) and server.clear()
    except BaseException:
        server.close()
        raise
    if not is_kept:
        return server.close()
    _keep(server)


def prepare(environment: dict[str, str], frameworks: Sequence[str]) -> None:
    """Begin to import frameworks, for a demonstration to come. Returns at once. Arguments: see above."""
    server = _take(environment)
    server.order("import", list(frameworks))
    _keep(server)


def _take(environment: dict[str, str]) -> FrameworkForkServer:
    """One that was kept, or a new one."""
    wanted = Setting(environment, list(sys.path), own_network.wrapper(), os.getpid())
    _kept[:] = [kept for kept in _kept if kept.alive]
    found = next((kept for kept in reversed(_kept) if kept.setting == wanted), None)
    if found is None:
        return FrameworkForkServer(wanted)
    _kept.remove(found)
    return found


def _keep(server: FrameworkForkServer) -> None:
    _kept.append(server)
    while len(_kept) > _MOST_KEPT:
        _kept.pop(0).close()


@atexit.register
def end_kept() -> None:
    """End those that wait for another demonstration."""
    for server in _kept:
        if server.owner == os.getpid():
            server.close()
    _kept.clear()

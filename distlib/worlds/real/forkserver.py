"""The fork server of the ranks: it has imported torch. One for all worlds of a kernel. See worlds.forkserver."""

from __future__ import annotations

import atexit
import os
from collections.abc import Hashable, Sequence

from distlib.worlds.forkserver import service
from distlib.worlds.forkserver.channel import Channel
from distlib.worlds.forkserver.handle import ForkServer
from distlib.worlds.real.rank_settings import ENVIRONMENT, RankSettings


class RankForkServer(ForkServer):
    """The kernel's handle of it. Started in the background; what is asked first waits until it is ready.

    This module imports no torch, so that the kernel may import its own meanwhile.

    Attributes:
        variables: the environment of the kernel at that time.
    """

    def __init__(self) -> None:
        self.variables = dict(os.environ)
        super().__init__(__name__, {**self.variables, **ENVIRONMENT}, processes="ranks")

    def start_rank(self, settings: RankSettings, fds: Sequence[int], imports: Sequence[str]) -> int:
        """Fork a rank, which runs `rank_process.main(settings, fds)`. Returns its process id.

        Args:
            imports: modules that are there when the rank begins.
        """
        if imports:
            self.order("import", list(imports))
        return int(self.ask("spawn", rank_name(settings), settings, files=fds))

    def memory_problem(self) -> str | None:
        """Why ranks can't read each other's memory; None if they can. See shared_memory."""
        problem: str | None = self.ask("call", "distlib.worlds.real.shared_memory", "problem")
        return problem


def rank_name(settings: RankSettings) -> Hashable:
    """What the fork server calls a rank."""
    return settings.directory, settings.rank


_current: RankForkServer | None = None


def current() -> RankForkServer:
    """The kernel's fork server; started if there is none. Returns at once: it gets ready in the background."""
    global _current
    if _current is None or not _current.alive:
        _current = RankForkServer()
        atexit.register(_current.close)
    return _current


# ── in the fork server ───────────────────────────────────────────────────────────────────────────────────────────────


def serve(fd: int) -> None:
    """Fork ranks until the kernel is gone. fd: this end of the channel."""
    control = Channel.of(fd)
    with service.end_with(control):
        import torch.distributed  # noqa: F401  (what a rank needs, imported once for all of them)

        from distlib.worlds.real import rank_process

    parent = os.getpid()
    spawned = service.serve(control)
    if spawned is not None:
        service.die_with_parent(parent)
        rank_process.main(*spawned)
        os._exit(0)

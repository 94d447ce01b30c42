"""Functions as a check meets them: of a notebook, or on the ranks of a judge (without a sandbox)."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distlib.checks.absent_function import AnswerCell
from distlib.judge.remote.forkserver import SandboxForkServer
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.stand_in import RemoteFunction
from distlib.judge.remote.student_cells import RankCell
from distlib.judge.sandbox import Limits, choose_sandbox

_LIMITS = Limits()
SET_UP = "import torch\n\nfrom distlib import all_reduce, broadcast\n"


@contextmanager
def in_a_notebook(text: str, name: str) -> Iterator[Callable[..., Any]]:
    """The function or class `name` that a cell with this text defines. It travels to the ranks by value."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(SET_UP, "set_up.py", "exec"), names)
    exec(compile(text, "cell.py", "exec"), names)
    yield names[name]


@functools.cache
def shared_fork_server(limits: Limits = _LIMITS) -> SandboxForkServer:
    """A fork server for many tests: it takes two seconds to start one."""
    server = SandboxForkServer(choose_sandbox("none"), limits)
    atexit.register(server.close)
    return server


@contextmanager
def on_remote_ranks(text: str, name: str, secret: str = "a secret") -> Iterator[Callable[..., Any]]:
    """The same on ranks of their own, as when a class is graded with the seed `secret`."""
    cells = [RankCell(1, SET_UP), RankCell(2, text)]
    with shared_fork_server().for_submission() as server, RemoteRanks(cells, [name], server, secret) as ranks:
        ranks.advance(3)
        yield RemoteFunction(AnswerCell(name, 2, text), ranks)


PLACES = (in_a_notebook, on_remote_ranks)

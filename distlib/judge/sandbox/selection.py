"""Which sandbox a class is graded in."""

from __future__ import annotations

from distlib.judge.sandbox.bubblewrap import Bubblewrap
from distlib.judge.sandbox.docker import Docker
from distlib.judge.sandbox.kinds import Sandbox
from distlib.judge.sandbox.unconfined import Unconfined

KINDS: dict[str, type[Sandbox]] = {"bubblewrap": Bubblewrap, "docker": Docker, "none": Unconfined}


def choose_sandbox(kind: str = "auto") -> Sandbox:
    """The sandbox of a kind. "auto": bubblewrap where it works, else docker where it works, else none.

    The sandbox's `warning` must be shown to the instructor when it isn't empty.

    Raises:
        ValueError: there is no such kind.
        RuntimeError: it does not work on this machine. The message says why.
    """
    if kind == "auto":
        working = (sandbox for sandbox in (make() for make in KINDS.values()) if sandbox.problem() is None)
        return next(working, Unconfined())
    if kind not in KINDS:
        raise ValueError(f"expected one of the sandboxes auto, {', '.join(KINDS)}, got {kind!r}")
    sandbox = KINDS[kind]()
    problem = sandbox.problem()
    if problem is not None:
        raise RuntimeError(f"the sandbox {kind} can't be used: {problem}")
    return sandbox

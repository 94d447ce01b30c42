"""Which sandbox a class is graded in."""

from __future__ import annotations

from distlib.judge.sandbox.bubblewrap import Bubblewrap
from distlib.judge.sandbox.docker import Docker
from distlib.judge.sandbox.kinds import Sandbox
from distlib.judge.sandbox.unconfined import Unconfined

KINDS: dict[str, type[Sandbox]] = {"bubblewrap": Bubblewrap, "docker": Docker, "none": Unconfined}


def choose_sandbox(kind: str = "auto") -> Sandbox:
    """The sandbox of a kind. "auto": bubblewrap where it works, else docker where it works. None has to be asked for.

    The sandbox's `warning` must be shown to the instructor when it isn't empty.

    Raises:
        ValueError: there is no such kind.
        RuntimeError: it does not work on this machine. The message says why.
    """
    if kind == "auto":
        return _first_that_works()
    if kind not in KINDS:
        raise ValueError(f"expected one of the sandboxes auto, {', '.join(KINDS)}, got {kind!r}")
    sandbox = KINDS[kind]()
    problem = sandbox.problem()
    if problem is not None:
        raise RuntimeError(f"the sandbox {kind} can't be used: {problem}")
    return sandbox


def _first_that_works() -> Sandbox:
    problems = {}
    for name, make in KINDS.items():
        sandbox = make()
        if name != Unconfined.name:
            problems[name] = sandbox.problem()
            if problems[name] is None:
                return sandbox
    why = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
    raise RuntimeError(
        f"no sandbox works here, and without one the code of students would run with your rights. {why}. Install "
        "bubblewrap on Linux (apt install bubblewrap), or let it make user namespaces; `distlib doctor` tries it. "
        "Only if you have read all that was handed in: --sandbox none"
    )

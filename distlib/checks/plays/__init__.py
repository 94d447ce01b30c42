"""Plays: pieces of training that run on every rank around a student's function or class, and use it.

    def one_backward(comm, function, inputs, gate):
        comm        what the student's code is handed
        function    the student's function or class
        inputs      this rank's inputs: plain values and tensors. A play builds the module from them.
        gate        gate(k, values): lets virtual time pass, and returns a factor for the gradient (see `gated`)
        returns     plain values and tensors, which a check then looks at

A file may name modules in IMPORTED_LATE that are imported only when its plays run, and that take long. Its function
`get_ready()` is called after that, before anything of the student's runs; it starts no thread. Its function
`seconds_of(inputs, k)` says how long it takes to pass gate k.

When a class is graded, this code runs in the process of the student's code, in the sandbox. So it imports only torch,
and what is there (`distlib.judge.sandbox.contents`), and no expected value stands in it. What it returns could be
forged there, and so could each of its steps, but only from what this rank knows. So a play reports what it has found,
and no verdict about it. A check judges by values that need the other ranks' inputs, by messages, and by gates: a factor
is handed out when its gate is passed, and the judge, not the play, says when that was.
"""

from importlib import import_module
from types import ModuleType


def file_of_plays(name: str) -> ModuleType:
    """The module of this folder that is called `name`."""
    return import_module(f"{__name__}.{name}")


def import_plays(name: str) -> None:
    """Import a file of plays and its IMPORTED_LATE, so that plays need not wait for it, and let it get ready."""
    file = file_of_plays(name)
    for module in getattr(file, "IMPORTED_LATE", ()):
        import_module(module)
    if get_ready := getattr(file, "get_ready", None):
        get_ready()

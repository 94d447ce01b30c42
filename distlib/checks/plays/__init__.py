"""Plays: pieces of training that run on every rank around a student's function or class, and use it.

    def one_backward(comm, function, inputs, gate):
        comm        what the student's code is handed
        function    the student's function or class
        inputs      this rank's inputs: plain values and tensors. A play builds the module from them.
        gate        gate(k, values): lets virtual time pass, and returns a factor for the gradient (see `gated`)
        returns     plain values and tensors, which a check then looks at

Plays for any exercise are in this folder; those of one exercise lie in its own, in files whose names end with "plays".
A file may name modules in IMPORTED_LATE that are imported only when its plays run, and that take long. Its function
`get_ready()` is called after that, before anything of the student's runs; it starts no thread. Its function
`seconds_of(inputs, k)` says how long it takes to pass gate k. What of its models sends messages of its own, while the
student's code calls it, is listed in SPEAKS, by name, or by the full name if it stands in another file of plays: these
messages are neither the student's nor the library's. RUNS_TORCH says that the student's function is a program of
torch's: the play calls it inside of `torch_program.process_group`, and only torch's own calls send.

When a class is graded, this code runs in the process of the student's code, in the sandbox. So it imports only torch,
and what is there (`distlib.judge.sandbox.contents`), and no expected value stands in it. What it returns could be
forged there, and so could each of its steps, but only from what this rank knows. So a play reports what it has found,
and no verdict about it. A check judges by values that need the other ranks' inputs, by messages, and by gates: a factor
is handed out when its gate is passed, and the judge, not the play, says when that was.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

EXERCISES = "distlib.exercises"
SUFFIX = "plays"  # how the files of plays in an exercise's folder end


def are_plays(module: str) -> bool:
    """Whether a module holds plays: a file of this folder, or one of an exercise that is called so."""
    folder, _, name = module.rpartition(".")
    return folder == __name__ or (folder.startswith(f"{EXERCISES}.") and name.endswith(SUFFIX))


def all_plays() -> dict[str, Path]:
    """The files of all plays, by the names of their modules."""
    of_engine = {f"{__name__}.{path.stem}": path for path in Path(__path__[0]).glob("*.py") if path.stem != "__init__"}
    spec = find_spec(EXERCISES)
    folders = map(Path, spec.submodule_search_locations or ()) if spec else ()
    of_exercises = (path for folder in folders for path in folder.glob(f"*/*{SUFFIX}.py"))
    named = {f"{EXERCISES}.{path.parent.name}.{path.stem}": path for path in of_exercises}
    return dict(sorted({**of_engine, **named}.items()))


def module_of_plays(name: str) -> ModuleType:
    """The module of plays of this name.

    Raises:
        ValueError: it is none.
    """
    if not are_plays(name):
        raise ValueError(f"expected a module of plays, got {name!r}")
    return import_module(name)


def import_plays(name: str) -> None:
    """Import a module of plays and its IMPORTED_LATE, so that plays need not wait for it, and let it get ready."""
    module = module_of_plays(name)
    for late in getattr(module, "IMPORTED_LATE", ()):
        import_module(late)
    if get_ready := getattr(module, "get_ready", None):
        get_ready()

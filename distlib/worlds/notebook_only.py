"""What only the notebook's own process has: a keyboard, a debugger, IPython, widgets. What a rank has in their place.

input(), sys.stdin, pdb, breakpoint()   an error that says what to do
get_ipython(), %magic, !command         likewise
display(x)                              print(x)
exit(), quit()                          as in a program: SystemExit
tqdm.notebook                           tqdm's bar of text
processes of its own                    functions and classes of the notebook travel to those, too
"""

from __future__ import annotations

import builtins
import importlib
import io
import multiprocessing.reduction
import pdb
import sys
from types import FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import cloudpickle

from distlib.worlds import code_files

_PASSES_ON = True  # see worlds.call_site

_IPYTHON = (
    "get_ipython(), %magics and !commands work in the notebook's own process, and a rank is another one. "
    "Use plain Python here, such as time.perf_counter() or subprocess.run, or run the function on SimulatedWorld({}), "
    "whose ranks are in the notebook's process."
)
_KEYBOARD = (
    "a rank has no keyboard. Ask in the notebook, and pass the answer on as an argument; or run the function on "
    "SimulatedWorld({}), where input() works."
)
_DEBUGGER = (
    "a rank has no keyboard for a debugger. Print what you want to see, or run the function on SimulatedWorld({}), "
    "where pdb.set_trace() works."
)
_TEXT_BARS = {"tqdm": "tqdm", "tqdm_notebook": "tqdm", "trange": "trange", "tnrange": "trange"}


def live_without(world_size: int) -> None:
    """Make this process, one of `world_size` ranks, say what it has not."""
    sys.stdin = sys.__stdin__ = _NoKeyboard(_KEYBOARD.format(world_size))  # type: ignore[misc,assignment]
    debugger = _RefusingFunction(RuntimeError, _DEBUGGER.format(world_size))
    sys.breakpointhook = pdb.set_trace = debugger
    vars(builtins)["get_ipython"] = _RefusingFunction(
        NameError, _IPYTHON.format(world_size)
    )  # as in any process without it
    vars(builtins)["display"] = lambda *values, **_: print(*values)
    sys.modules["tqdm.notebook"] = _TextBars("tqdm.notebook")
    setattr(multiprocessing.reduction.ForkingPickler, "reducer_override", _by_value)  # noqa: B010


class _RefusingFunction:
    """A function that can't be called here."""

    def __init__(self, kind: type[Exception], text: str) -> None:
        self._kind, self._text = kind, text

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self._kind(self._text)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(self._text) if name.startswith("__") else self._kind(self._text)


class _NoKeyboard(io.TextIOBase):
    """What is read from here is an error, and not the end of a file, which a debugger takes for an answer."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, size: int | None = -1, /) -> NoReturn:
        raise RuntimeError(self._text)

    def readline(self, size: int = -1, /) -> NoReturn:  # type: ignore[override]
        raise RuntimeError(self._text)

    def __next__(self) -> NoReturn:
        raise RuntimeError(self._text)


class _TextBars(ModuleType):
    """Stands for tqdm.notebook, whose bars are widgets."""

    def __getattr__(self, name: str) -> Any:
        if name not in _TEXT_BARS:
            raise AttributeError(f"tqdm.notebook has no {name} in a rank")
        return getattr(importlib.import_module("tqdm.std"), _TEXT_BARS[name])


def _by_value(pickler: Any, value: Any) -> Any:
    """How multiprocessing pickles: a rank's own `__main__` has nothing of the notebook's."""
    if isinstance(value, FunctionType | type) and not _can_be_imported(value):
        return cloudpickle.loads, (code_files.dumps(value),)
    return NotImplemented


def _can_be_imported(value: FunctionType | type) -> bool:
    found: Any = sys.modules.get(value.__module__) if value.__module__ != "__main__" else None
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


# ── the notebook's IPython, in what is sent ──────────────────────────────────────────────────────────────────────────


def is_of_ipython(value: object) -> bool:
    """Whether it is the notebook's IPython shell, or its function `get_ipython`."""
    module = sys.modules.get("IPython.core.interactiveshell")
    if module is None:
        return False
    shell = value.__self__ if isinstance(value, MethodType) and value.__name__ == "get_ipython" else value
    return isinstance(shell, module.InteractiveShell)


def is_exit_of_ipython(value: object) -> bool:
    """Whether it is `exit` or `quit` of a notebook, which ends the notebook's process."""
    module = sys.modules.get("IPython.core.autocall")
    return module is not None and isinstance(value, module.ExitAutocall)


def of_ipython_here(is_function: bool) -> Any:
    """What the shell, or `get_ipython`, is in this process: in a rank, something that says that it isn't here."""
    function = getattr(builtins, "get_ipython", None) or importlib.import_module("IPython").get_ipython
    return function if is_function or isinstance(function, _RefusingFunction) else function()

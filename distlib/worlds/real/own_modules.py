"""The user's own modules, files next to the notebook: ranks have them as the notebook has them.

    notebook                                                      rank
      │ import helpers; helpers.RATE = 0.5; helpers.f = new_f       │
      │ run(…) ── text of helpers.py, as it was imported ──────────►│ imports it, or runs the new text in the module
      │        ── RATE, f: what is set in it ──────────────────────►│ sets them
      │ importlib.reload(helpers), or %autoreload                   │
      │ run(…) ── only what differs from what was sent before ─────►│

Modules of Python and of installed packages are not looked at, nor those that the function of a run does not use.

What is set in a module, or in a class of it: numbers, texts, small tensors, and lists, dictionaries … of these travel
whenever they differ; functions of the notebook and of other own modules, too. Other objects travel when they are
replaced after the first run that uses the module; until then a rank has those that it has made by importing it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import linecache
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from distlib.worlds import pickling
from distlib.worlds.call_site import is_own_module
from distlib.worlds.exception_text import text_of

_MOST_PLAIN = 1000  # objects in a list or dictionary that is looked at in each run
_MOST_BYTES = 65536  # likewise, of a text or tensor
_PLAIN = (int, float, complex, bool, type(None), torch.dtype, torch.device, range)


@dataclass(frozen=True)
class ModuleUpdate:
    """What a rank is told of one module.

    Attributes:
        text: its source; None if the rank has had it.
        values: what is set in it, by "name" or "Class.name", as `pickling.dumps` makes it; None likewise.
    """

    module: str
    text: str | None
    values: bytes | None


# ── in the notebook ──────────────────────────────────────────────────────────────────────────────────────────────────


class ModuleNews:
    """What the ranks of a world have been told of own modules."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, bytes]] = {}

    def forget(self) -> None:
        """Tell everything again: some rank may not have heard it to the end."""
        self._told.clear()

    def since_last(self, used: Iterable[str]) -> list[ModuleUpdate]:
        """What is new in the modules `used`, in those that they use, and in those told of before.

        Warns of what the ranks can't have as the notebook has it.
        """
        news = []
        for module in _with_what_they_use([*self._told, *used]):
            copy = _known(module)
            values = pickling.dumps(copy.values(vars(module)))
            text, before = self._told.get(module.__name__, (None, None))
            if (text, before) != (copy.text, values):
                self._told[module.__name__] = copy.text, values
                new_text = copy.text if text != copy.text else None
                news.append(ModuleUpdate(module.__name__, new_text, values if new_text or before != values else None))
        return news


class _ModuleAtFirst:
    """A module as it was when it was first looked at since its import, or its last reload."""

    def __init__(self, module: ModuleType) -> None:
        self.name = module.__name__
        self.text = _source(module)
        self._spec = module.__spec__
        self._codes = _codes(module)
        self._in_text = _codes_in(self.text, module.__file__ or "")
        self._first = {name: _reference(value) for name, value in vars(module).items()}
        self._unsendable: set[str] = set()
        missing = sorted(path for path in self._codes if self.text and path not in self._in_text)
        if missing:
            _say(
                f"{module.__file__} was edited after this notebook had imported {self.name}, and has no {missing[0]} "
                f"now: ranks import the new text. Import it again: importlib.reload({self.name})."
            )

    def is_of(self, module: ModuleType) -> bool:
        """Whether the module is still that: each reload makes a new spec; %autoreload may change functions instead."""
        return self._spec is module.__spec__ and self._codes == _codes(module)

    def values(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """What is set in the module, as far as it has to travel."""
        found: dict[str, Any] = {}
        for path, function in _own_functions(variables, self.name):
            if self.text and function.__code__ not in self._in_text.get(path, [function.__code__]):
                found[f"{path}.__code__"] = function.__code__
                found[f"{path}.__defaults__"] = function.__defaults__
        for name, value in list(variables.items()):
            if name.startswith("__") or isinstance(value, ModuleType):
                continue
            if isinstance(value, type) and value.__module__ == self.name:
                found.update(_set_in_class(value))
            elif _travels(value, self.name) or (self._is_new(name, value) and self._can_travel(name, value)):
                found[name] = value
        return found

    def _is_new(self, name: str, value: object) -> bool:
        is_own = isinstance(value, FunctionType) and value.__module__ == self.name and value.__qualname__ == name
        return not is_own and (name not in self._first or self._first[name]() is not value)

    def _can_travel(self, name: str, value: object) -> bool:
        try:
            pickling.dumps(value)
        except Exception as error:
            if name not in self._unsendable:
                self._unsendable.add(name)
                _say(
                    f"{self.name}.{name}, a {type(value).__name__}, can't be sent to the ranks ({text_of(error)}): "
                    "they go on with what they have. Pass it as an argument, or make it inside the function."
                )
            return False
        return True


_copies: dict[str, _ModuleAtFirst] = {}


def _known(module: ModuleType) -> _ModuleAtFirst:
    copy = _copies.get(module.__name__)
    if copy is None or not copy.is_of(module):
        copy = _copies[module.__name__] = _ModuleAtFirst(module)
    return copy


def _codes(module: ModuleType) -> dict[str, CodeType]:
    return {path: function.__code__ for path, function in _own_functions(vars(module), module.__name__)}


def _own_functions(variables: Mapping[str, Any], module: str, prefix: str = "") -> Iterator[tuple[str, FunctionType]]:
    """The functions that the text of a module defines, and the methods of its classes, with their names."""
    for name, value in list(variables.items()):
        if (
            not isinstance(value, FunctionType | type)
            or value.__module__ != module
            or value.__qualname__ != prefix + name
        ):
            continue
        if isinstance(value, type):
            yield from _own_functions(vars(value), module, f"{prefix}{name}.")
        elif value.__code__.co_name == name and not value.__code__.co_filename.startswith("<"):  # as of a dataclass
            yield prefix + name, value


def _codes_in(text: str, file: str) -> dict[str, list[CodeType]]:
    """The bodies of functions in a text, by their full name, several where a name is defined again."""
    found: dict[str, list[CodeType]] = {}
    with contextlib.suppress(SyntaxError):
        bodies = [compile(text, file, "exec", dont_inherit=True)]
        while bodies:
            inner = [const for const in bodies.pop().co_consts if isinstance(const, CodeType)]
            bodies += inner
            for code in inner:
                found.setdefault(code.co_qualname, []).append(code)
    return found


def _source(module: ModuleType) -> str:
    """The text of the module's file; "" if it can't be read."""
    with contextlib.suppress(Exception):
        return module.__spec__.loader.get_source(module.__name__) or ""  # type: ignore[union-attr]
    return ""


def _reference(value: Any) -> Callable[[], Any]:
    """Something that tells whether it is the same object, and does not keep large ones alive."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _with_what_they_use(names: Iterable[str]) -> Iterator[ModuleType]:
    """The own modules of these names and those that they have imported, these first."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[ModuleType]:
        if name in done or not is_own_module(name):
            return
        done.add(name)
        module = sys.modules[name]
        for used in {_origin(value) for value in list(vars(module).values())} - {""}:
            yield from visit(used)
        yield module

    for name in dict.fromkeys(names):
        yield from visit(name)


def _origin(value: Any) -> str:
    """The module that a function or class is of, or the name of a module; "" for anything else."""
    if isinstance(value, ModuleType):
        return value.__name__
    return value.__module__ or "" if isinstance(value, FunctionType | type) else ""


def _set_in_class(owner: type) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(owner).items()):
        if _travels(value, owner.__module__) and (not name.startswith("__") or isinstance(value, FunctionType)):
            yield f"{owner.__qualname__}.{name}", value


def _travels(value: Any, module: str) -> bool:
    """Whether a variable of `module` is told to the ranks in any case."""
    if isinstance(value, FunctionType):
        return value.__module__ != module and (value.__module__ == "__main__" or is_own_module(value.__module__))
    return _size(value) <= _MOST_PLAIN


def _size(value: Any, deep: int = 0) -> int:
    """How many objects a plain value is made of; more than _MOST_PLAIN for any other, or one with too many bytes."""
    too_much = _MOST_PLAIN + 1
    if isinstance(value, _PLAIN):
        return 1
    if isinstance(value, str | bytes):
        return 1 if len(value) <= _MOST_BYTES else too_much
    if type(value) is torch.Tensor and value.device.type == "cpu" and value.layout is torch.strided:
        return 1 if value.nbytes <= _MOST_BYTES and value.is_leaf else too_much
    if type(value) not in (list, tuple, set, frozenset, dict) or deep > 8 or len(value) > _MOST_PLAIN:
        return too_much
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return 1 + sum(_size(part, deep + 1) for part in parts)


def _say(text: str) -> None:
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and (frame.f_globals.get("__name__") or "").startswith("distlib."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


# ── on a rank ────────────────────────────────────────────────────────────────────────────────────────────────────────


def hear(news: Iterable[ModuleUpdate]) -> None:
    """Bring the modules of this process to the state that they have in the notebook.

    Raises:
        Exception: whatever the text of a module raises.
    """
    news = list(news)
    for each in news:
        if each.text is not None:
            _take_text(each.module, each.text)
    for each in news:
        if each.values is not None and each.module in sys.modules:
            for path, value in pickling.loads(each.values).items():
                _set(sys.modules[each.module], path, value)


def _take_text(name: str, text: str) -> None:
    if name not in sys.modules:
        with contextlib.suppress(ImportError):  # the function will say what it misses
            importlib.import_module(name)
        _texts[name] = _source(sys.modules[name]) if name in sys.modules else ""
    if text and name in sys.modules and _texts.get(name) != text:
        module = sys.modules[name]
        linecache.checkcache(module.__file__)
        exec(compile(text, module.__file__ or name, "exec", dont_inherit=True), vars(module))
        _texts[name] = text


_texts: dict[str, str] = {}  # by module: the text that this process has run


def _set(module: ModuleType, path: str, value: Any) -> None:
    """Set a variable, unless it has that value: then it stays the object that other modules may have imported, too."""
    with contextlib.suppress(AttributeError, TypeError, ValueError):  # a class that does not allow it
        *owners, name = path.split(".")
        owner: Any = module
        for each in owners:
            owner = getattr(owner, each)
        now = getattr(owner, name, _set) if isinstance(owner, FunctionType) else vars(owner).get(name, _set)
        if type(now) is not type(value) or not _equal(now, value):
            setattr(owner, name, value)


def _equal(one: Any, other: Any) -> bool:
    return pickling.dumps(one) == pickling.dumps(other)

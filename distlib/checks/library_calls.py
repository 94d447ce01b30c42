"""Noticing when the library does a student's work, in a function that does not communicate.

Python's profiler hook sees every call. What can't be seen: code made from a text (exec), a copy of the library's.

A framework makes a million calls of its own while it makes a graph, and the hook doubles the time of that. So where the
play says `MANY_CALLS`, it is only set for a function that could come to call the library: see `could_call`.

A module outside of `plays` that calls the student's function says so: `__calls_answers__ = True`. Calls of those and
of modules that only pass calls on (`_PASSES_ON`, see worlds.call_site) are not noted.
"""

from __future__ import annotations

import pickletools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from distlib import partition
from distlib.checks.plays import are_plays
from distlib.worlds import code_files, pickling
from distlib.worlds.call_site import function_name_of

_PASSES_ON = True

# The library, and what leads to a module without its name
_REACHES = re.compile(r"\b(distlib|importlib|__import__|sys|gc|globals|eval|exec|f_globals|f_back|__builtins__)\b")


@contextmanager
def library_calls(allowed: Sequence[str]) -> Iterator[list[str]]:
    """Note which functions of the library are called meanwhile, by something outside of it or as the student's own.

    Those of `distlib.partition` are not: like torch.tensor_split they only cut, and no exercise asks for that.

    Args:
        allowed: modules and functions that are not noted.
    """
    noted: list[str] = []
    passed_over: dict[int, dict[str, Any]] = {}  # names of modules, by their id; held, so that it stays theirs

    def note(frame: FrameType, event: str, argument: object) -> None:  # of each call and return: what counts is rare
        names = frame.f_globals
        if event != "call" or id(names) in passed_over:
            return
        if not _is_the_librarys(names) or _is_harmless(names, allowed):
            passed_over[id(names)] = names
        elif frame.f_code.co_name != "<module>" and _is_called_from_outside(frame):
            if (name := function_name_of(frame)) not in allowed:
                noted.append(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield noted
    finally:
        sys.setprofile(before)


def could_call(function: Callable[..., Any]) -> bool:
    """Whether a function, or what it takes along from its notebook, mentions the library, or a way to get at modules.

    True in doubt. Names, texts and modules count, of the function and of all that travels with it.
    """
    texts = (argument for _, argument, _ in pickletools.genops(pickling.dumps(function)))
    packed_by = code_files.__name__  # is in every function that is packed
    return any(isinstance(text, str) and text != packed_by and _REACHES.search(text) for text in texts)


def _is_called_from_outside(frame: FrameType) -> bool:
    """By something outside of the library, or by a check, which calls the student's function as its own."""
    caller = _caller(frame)
    if caller is None or caller.f_code.co_name == "<module>" or not _is_the_librarys(caller.f_globals):
        return True
    return _is_a_caller(caller.f_globals)


def _caller(frame: FrameType) -> FrameType | None:
    """Who called, looking through torch's wrappers, such as torch.no_grad."""
    caller = frame.f_back
    while caller is not None and _package(caller.f_globals) == "torch":
        caller = caller.f_back
    return caller


def _is_the_librarys(names: Mapping[str, Any]) -> bool:
    return _package(names) == "distlib"


def _is_a_caller(names: Mapping[str, Any]) -> bool:
    """Whether it is a check that calls here: the student's function, which could be one of the library."""
    return bool(names.get("__calls_answers__")) or are_plays(_module(names))


def _is_harmless(names: Mapping[str, Any], allowed: Sequence[str]) -> bool:
    passes_on, module = bool(names.get("_PASSES_ON")), _module(names)
    return passes_on or _is_a_caller(names) or module == partition.__name__ or module.startswith(tuple(allowed))


def _package(names: Mapping[str, Any]) -> str:
    return _module(names).partition(".")[0]


def _module(names: Mapping[str, Any]) -> str:
    return str(names.get("__name__") or "")

"""Noticing when the library does a student's work, in a function that does not communicate.

Python's profiler hook sees every call. What can't be seen: code made from a text (exec), a copy of the library's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from distlib.network import choose_all_reduce

_CALLERS = ("distlib.grading.pure_calls", "distlib.checks.plays")  # of the student's function
_HARMLESS = (
    *_CALLERS,
    "distlib.checks.case",
    "distlib.checks.library_calls",
    "distlib.checks.on_a_rank",
    "distlib.checks.student_communicator",
    "distlib.grading.scenario",
    "distlib.worlds.simulated",
)


@contextmanager
def library_calls(allowed: Sequence[str]) -> Iterator[list[str]]:
    """Note which functions of the library are called meanwhile, by something outside of it or as the student's own.

    Args:
        allowed: modules and functions that are not noted.
    """
    noted: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not _is_the_librarys(frame) or _module(frame).startswith((*_HARMLESS, *allowed)):
            return
        name, caller = f"{_module(frame)}.{frame.f_code.co_qualname}", _caller(frame)
        is_called_from_outside = caller is None or not _is_the_librarys(caller) or _is_a_caller(caller)
        if is_called_from_outside and name not in allowed:
            noted.append(name)

    choose_all_reduce.cache_clear()  # what it remembers would come without a call
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield noted
    finally:
        sys.setprofile(before)


def _is_the_librarys(frame: FrameType) -> bool:
    return _module(frame).partition(".")[0] == "distlib" and frame.f_code.co_name != "<module>"


def _caller(frame: FrameType) -> FrameType | None:
    """Who called, looking through torch's wrappers, such as torch.no_grad."""
    caller = frame.f_back
    while caller is not None and _module(caller).partition(".")[0] == "torch":
        caller = caller.f_back
    return caller


def _is_a_caller(frame: FrameType) -> bool:
    """Whether it is a check that calls here: the student's function, which could be one of the library."""
    return _module(frame).startswith(_CALLERS)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "")

"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it.

task, venues, case, seen, report      the engine: case ──► venue ──► seen ──► remark, or on to the next
rules/       what judges are made of: values, messages, sums
plays/       what runs on each rank around the student's function
supplied     functions that a check brings itself; those of several exercises are in `helpers`

The graded functions are in `distlib.exercises`, a folder for each exercise. No module here knows one of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distlib.checks.remark import CheckFailed
    from distlib.checks.report import Report
    from distlib.checks.student_communicator import StudentCommunicator

__all__ = ["CheckFailed", "Report", "StudentCommunicator"]
_HOMES = {"CheckFailed": "remark", "Report": "report", "StudentCommunicator": "student_communicator"}


def __getattr__(name: str) -> object:
    """A name of `__all__`. They take torch along, which a sandbox that starts need not wait for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

"""Checking the functions of a running notebook, as they are defined at that moment."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distlib.checks.remark import CheckFailed
from distlib.classroom.self_check.results import (
    FAILS,
    NOT_RUN,
    PASSES,
    FunctionRow,
    Result,
    Results,
    as_graded,
    result_of,
    row_of,
)
from distlib.classroom.self_check.table import Table
from distlib.living_line import waiting
from distlib.python_text import here, shown, why_not_python
from distlib.worlds.call_site import site_of_traceback
from distlib.worlds.diagnosis import source_excerpt

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from distlib.classroom.grader.definitions import Definitions
    from distlib.classroom.grader.submission import HandedCell

_LOOKED_AT = (
    "Looked at the functions as they are defined in this notebook now. After a change, run the function's cell first. "
    "It gives no marks."
)


def check_exercise(name: str) -> Table:
    """Run the tests of an exercise on the functions of this notebook; show a table of what passes.

    It takes as long as all the test cells together, some seconds. It looks at the functions as they are defined now,
    not at the saved file.

    Args:
        name: such as "02_all_reduce".

    Raises:
        ExerciseError: there is no notebook of this exercise here.
    """
    from distlib.classroom.my_course.after_check import finished
    from distlib.classroom.self_check.exercise import find_exercise  # takes nbgrader along, which test cells do without
    from distlib.classroom.uploads.unsaved import ran_in_this_kernel

    exercise = find_exercise(name)
    namespace = vars(sys.modules["__main__"])
    ran = ran_in_this_kernel()
    with waiting(f"the tests of {exercise.name}"):
        rows = [
            as_graded(_row(function, tests, namespace, ran), exercise.graded_with)
            for function, tests in exercise.tests.items()
        ]
    remarks = [f"{each.advice} {judged(each, exercise.handed, ran)}" for each in exercise.several]
    return Table(finished(Results(exercise.name, _LOOKED_AT, rows, remarks, exercise.by_hand), exercise.path))


def judged(function: Definitions, cells: Sequence[HandedCell], ran: Sequence[str]) -> str:
    """Which one of several definitions a running notebook has: a sentence.

    Args:
        function: that is defined in several cells.
        cells: of the saved notebook.
        ran: the text of every cell that the kernel has run, in that order.
    """
    from distlib.classroom.uploads.recognize import normal

    last = _last(function.function, ran)
    found = [index for index in function.cells if last is not None and normal(cells[index].source) == normal(last)]
    if not found:
        return "Judged here: the one that ran last."
    return f"Judged here: cell {function.number(found[-1])}, the last one that ran."


def _last(function: str, ran: Sequence[str]) -> str | None:
    """The text of the cell that ran last of those that define a function."""
    from distlib.classroom.uploads.bindings import bindings

    return next((text for text in reversed(ran) if any(function in each.names for each in bindings(text))), None)


def _row(function: str, tests: dict[str, NotebookNode], namespace: dict[str, Any], ran: Sequence[str]) -> FunctionRow:
    source = _last(function, ran)
    if function not in namespace:
        if source is None:
            return row_of(function, Result(NOT_RUN), None)
        return row_of(function, Result(FAILS, _why_not_there(function, source)), None, source)
    visible = _run(tests["visible"], namespace)
    hidden = _run(tests["hidden"], namespace) if visible.state == PASSES and "hidden" in tests else None
    return row_of(function, visible, hidden, source or "")


def _why_not_there(function: str, source: str) -> str:
    if problem := why_not_python(source, None, function):
        place = f"line {problem.line} of its cell, {problem.why}"
        return f"{function} is not defined: Python {shown(here())} can't read {place}. Mend it, and run the cell again."
    return f"{function} is not defined: its cell has run and stopped. Run it again, and look at what it says."


def _run(test: NotebookNode, namespace: dict[str, Any]) -> Result:
    """Run a test cell. What it defines itself does not stay."""
    name = f"<{test.metadata.nbgrader.grade_id}>"
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            exec(compile(test.source, name, "exec"), dict(namespace))
    except CheckFailed as error:
        return result_of(str(error), printed.getvalue())
    except Exception as error:
        return result_of("\n".join([f"{type(error).__name__}: {error}", *_own_lines(error)]), printed.getvalue())
    return result_of(None)


def _own_lines(error: Exception) -> list[str]:
    """Where an error came from: the line of the student's, with its neighbors; none if it is from nowhere there."""
    site = site_of_traceback(error.__traceback__)
    return [f"  {site.place}", *(f"  {line}" for line in source_excerpt(site))] if site else []

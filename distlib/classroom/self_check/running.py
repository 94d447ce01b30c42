"""Checking the functions of a running notebook, as they are defined at that moment."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING, Any

from distlib.checks.remark import CheckFailed
from distlib.classroom.self_check.results import FAILS, PASSES, Result, Results, Row, result_of, row_of
from distlib.classroom.self_check.table import Table

if TYPE_CHECKING:
    from nbformat import NotebookNode

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
    from distlib.classroom.self_check.exercise import find_exercise  # takes nbgrader along, which test cells do without

    exercise = find_exercise(name)
    namespace = vars(sys.modules["__main__"])
    rows = [_row(function, tests, namespace) for function, tests in exercise.tests.items()]
    return Table(Results(exercise.name, _LOOKED_AT, rows, exercise.remarks))


def _row(function: str, tests: dict[str, NotebookNode], namespace: dict[str, Any]) -> Row:
    if function not in namespace:
        told = f"{function} is not defined in this notebook. Run its cell, and look at what it says."
        return row_of(function, Result(FAILS, told), None)
    visible = _run(tests["visible"], namespace)
    hidden = _run(tests["hidden"], namespace) if visible.state == PASSES and "hidden" in tests else None
    return row_of(function, visible, hidden)


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
        return result_of(f"{type(error).__name__}: {error}", printed.getvalue())
    return result_of(None)

"""Checking a notebook as it is saved, with the judge that grades a class. The code is one's own: no sandbox."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distlib.classroom.self_check.results import (
    FAILS,
    ExerciseError,
    FunctionRow,
    Result,
    Results,
    as_graded,
    result_of,
    row_of,
)
from distlib.judge.remote.forkserver import CanNotGrade, SandboxForkServer
from distlib.judge.sandbox import KINDS, Limits
from distlib.worlds.diagnosis import places_in

if TYPE_CHECKING:
    from nbformat import NotebookNode


def check_saved(name: str, notebook: Path | None = None, start: Path | None = None) -> Results:
    """Run the tests of a saved notebook.

    Args:
        name, notebook, start: see `find_exercise`.

    Raises:
        ExerciseError: there is no such notebook, or this machine can't run the tests.
    """
    try:
        with SandboxForkServer(KINDS["none"](), Limits()) as first:
            # It imports torch, and so does this process meanwhile: with the judge.
            from distlib.classroom.my_course.after_check import finished
            from distlib.classroom.self_check.exercise import find_exercise
            from distlib.judge.remote.frameworks import frameworks_of
            from distlib.judge.remote.judge import judge_in

            exercise = find_exercise(name, notebook, start)
            with first.for_submission(frameworks_of(exercise.notebook)) as server:
                judged = judge_in(server, exercise.notebook)
    except (CanNotGrade, OSError) as error:
        raise ExerciseError(f"the tests can't run on this machine: {error}. `distlib doctor` may know more") from None
    cells = {_name(cell): cell for cell in judged.notebook.cells}
    rows = [
        as_graded(_row(function, tests, cells, judged.notebook), exercise.graded_with)
        for function, tests in exercise.tests.items()
    ]
    results = Results(
        exercise.name, _looked_at(exercise.path), rows, [*exercise.remarks, *judged.remarks], exercise.by_hand
    )
    return finished(results, exercise.path)


def _looked_at(path: Path) -> str:
    folder = Path.cwd()
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    saved = time.strftime("%H:%M:%S on %Y-%m-%d", time.localtime(path.stat().st_mtime))
    return f"Looked at {shown} as it was saved at {saved}."


def _row(
    function: str, tests: dict[str, NotebookNode], cells: dict[str, NotebookNode], notebook: NotebookNode
) -> FunctionRow:
    results = {kind: _result(cells[_name(test)], notebook) for kind, test in tests.items()}
    stopped = _error(cells[function])
    if results["visible"].state == FAILS and stopped and not _names_all(results["visible"].message, stopped):
        results["visible"] = Result(FAILS, f"the cell of {function} stops: {stopped}\n{results['visible'].message}")
    return row_of(function, results["visible"], results.get("hidden"), cells[function].source)


def _names_all(message: str, stopped: str) -> bool:
    """Whether a message already names the line where the cell stops."""
    return bool(places_in(stopped)) and set(places_in(stopped)) <= set(places_in(message))


def _result(cell: NotebookNode, notebook: NotebookNode) -> Result:
    from distlib.classroom.excerpts import with_excerpt

    printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    error = _error(cell)
    return result_of(error and with_excerpt(error, notebook), printed)


def _error(cell: NotebookNode) -> str | None:
    errors = ["\n".join(output.traceback) for output in cell.outputs if output.output_type == "error"]
    return errors[0] if errors else None


def _name(cell: NotebookNode) -> Any:
    return cell.metadata.get("nbgrader", {}).get("grade_id")

"""`distlib check`: which functions of an exercise pass their tests, in the notebook as it is saved."""

from __future__ import annotations

import sys
from pathlib import Path

from distlib.checks.patience import by_processes
from distlib.classroom.self_check.check_saved import check_saved
from distlib.classroom.self_check.results import ExerciseError, Results
from distlib.classroom.self_check.table import Table
from distlib.cli.saying import say
from distlib.cli.where_am_i import show_progress
from distlib.judge.sandbox import Limits
from distlib.living_line import waiting


def check(name: str, notebook: Path | None) -> int:
    """Run the tests and print the table. Returns 0 if everything passes, else 1.

    Args:
        name: the exercise, such as "02_all_reduce"; "": show where the student is.
        notebook: the student's notebook; without it, it is looked for.
    """
    if not name:
        return _without_a_name(notebook)
    try:
        results = run_check(name, notebook)
    except ExerciseError as error:
        say(str(error), sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("\nStopped.", sys.stderr)
        return 130
    return 0 if results.passes else 1


def run_check(name: str, notebook: Path | None) -> Results:
    """Run the tests and print the table. name, notebook: see `check`.

    Raises:
        ExerciseError: see `check_saved`.
    """
    limits = Limits()
    seconds = limits.cells_seconds + limits.submission_seconds + limits.reruns_seconds
    with waiting(f"the tests of {name}", seconds * by_processes()):
        results = check_saved(name, notebook)
    say(str(Table(results)))
    return results


def _without_a_name(notebook: Path | None) -> int:
    if notebook is not None:
        say("--notebook needs the name of an exercise, such as 02", sys.stderr)
        return 2
    return show_progress()

"""Whatever an exercise asks for: a function that nobody has touched is not written yet, and no failure."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from unittest.mock import patch

import pytest

import distlib
from distlib.checks import CheckFailed
from distlib.checks.venues import simulated_only
from distlib.classroom.self_check.results import NOT_WRITTEN, result_of
from distlib.judge.remote.frameworks import frameworks_in
from tests.answers_fast import ROOT, _NoWorld, cells_of

EXERCISES = sorted(path.name for path in (ROOT / "solutions").glob("[0-9]*"))
FRAMEWORKS = [name for name in EXERCISES if frameworks_in("\n".join(cell.source for cell in cells_of(name, ROOT)))]
IN_A_PROCESS = "import json; from tests.checks.test_untouched import told_of; print(json.dumps(told_of({exercise!r})))"


def told_of(exercise: str) -> dict[str, str]:
    """What each visible test of an exercise says of a notebook as students get it."""
    notebook: dict[str, Any] = {"__name__": "__main__"}
    told: dict[str, str] = {}
    with patch.object(distlib, "World", _NoWorld), patch.object(sys, "argv", ["test"]):
        for cell in cells_of(exercise, ROOT, "exercises"):
            if cell.points is None:
                exec(compile(cell.source, f"{cell.name}.py", "exec"), notebook)
            elif cell.name.endswith("_visible"):
                with simulated_only(), pytest.raises(CheckFailed) as failed:
                    exec(compile(cell.source, f"{cell.name}.py", "exec"), notebook)
                told[cell.name] = str(failed.value)
    return told


def assert_not_written(exercise: str, told: dict[str, str]) -> None:
    """Each test says so of each function that has no line of a student's."""
    assert told
    for name, words in told.items():
        stub = next(cell for cell in cells_of(exercise, ROOT, "exercises") if f"{cell.name}_visible" == name)
        if "raise NotImplementedError" in stub.source:
            assert result_of(words).state == NOT_WRITTEN, words


@pytest.mark.parametrize("exercise", sorted(set(EXERCISES) - set(FRAMEWORKS)))
def test_what_nobody_has_touched_is_not_written_yet(exercise: str) -> None:
    assert_not_written(exercise, told_of(exercise))


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("exercise", FRAMEWORKS)
def test_what_nobody_has_touched_in_a_framework_is_not_written_yet(exercise: str) -> None:
    """In a process of its own, in which nothing has computed before the set-up cell."""
    command = [sys.executable, "-c", IN_A_PROCESS.format(exercise=exercise)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    assert_not_written(exercise, json.loads(done.stdout.splitlines()[-1]))

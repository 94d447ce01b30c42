"""Whatever an exercise asks for: a function that nobody has touched is not written yet, and no failure."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import distlib
from distlib.checks import CheckFailed
from distlib.checks.venues import simulated_only
from distlib.classroom.self_check.results import NOT_WRITTEN, result_of
from distlib.judge.remote.frameworks import frameworks_in
from tests.answers_fast import ROOT, _NoWorld, cells_of

EXERCISES = sorted(path.name for path in (ROOT / "solutions").glob("[0-9]*"))
PLAIN = [name for name in EXERCISES if not frameworks_in("\n".join(cell.source for cell in cells_of(name, ROOT)))]


@pytest.mark.parametrize("exercise", PLAIN)
def test_what_nobody_has_touched_is_not_written_yet(exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distlib, "World", _NoWorld)
    monkeypatch.setattr(sys, "argv", ["test"])
    notebook: dict[str, Any] = {"__name__": "__main__"}
    told: dict[str, str] = {}
    for cell in cells_of(exercise, ROOT, "exercises"):
        if cell.points is None:
            exec(compile(cell.source, f"{cell.name}.py", "exec"), notebook)
        elif cell.name.endswith("_visible"):
            with simulated_only(), pytest.raises(CheckFailed) as failed:
                exec(compile(cell.source, f"{cell.name}.py", "exec"), notebook)
            told[cell.name] = str(failed.value)
    assert told
    for name, words in told.items():
        stub = next(cell for cell in cells_of(exercise, ROOT, "exercises") if f"{cell.name}_visible" == name)
        if "raise NotImplementedError" in stub.source:
            assert result_of(words).state == NOT_WRITTEN, words

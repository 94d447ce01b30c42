"""The submissions of tests/hostile can be made, and say what they deserve."""

import ast
import json
import shutil
from pathlib import Path

import pytest

from tests.tools.hostile_submissions import (
    FUNCTIONS,
    HostileSubmission,
    read_hostile,
    released_notebook,
    right_answers,
)

SUBMISSIONS = read_hostile()
LARGE = "has_300_megabytes_of_output"


def test_there_are_enough() -> None:
    assert len(SUBMISSIONS) >= 40


@pytest.mark.parametrize("submission", SUBMISSIONS, ids=lambda submission: submission.name)
def test_it_says_what_it_deserves_and_what_it_tries(submission: HostileSubmission) -> None:
    assert submission.deserves is None or set(submission.deserves) <= set(FUNCTIONS)
    second = submission.path.read_text().splitlines()[1]
    assert second.startswith("# ") and second.endswith(".")


@pytest.mark.parametrize(
    "submission",
    [pytest.param(each, id=each.name, marks=[pytest.mark.slow] if each.name == LARGE else []) for each in SUBMISSIONS],
)
def test_it_can_be_handed_in(submission: HostileSubmission, tmp_path: Path) -> None:
    answers = right_answers()
    submission.hand_in(tmp_path / "02", released_notebook(), answers)
    found = [path for path in (tmp_path / "02").glob("*.ipynb") if not path.is_symlink()]
    if submission.deserves is not None:
        text = found[0].read_text("utf-8-sig")
        cells = json.loads(text).get("cells") or json.loads(text)["worksheets"][0]["cells"]
        sources = ["".join(cell.get("source", cell.get("input", ""))) for cell in cells]
        assert all(any(f"def {name}(" in source for source in sources) for name in submission.deserves)
    shutil.rmtree(tmp_path / "02")  # LARGE is


@pytest.mark.parametrize("submission", SUBMISSIONS, ids=lambda submission: submission.name)
def test_what_it_adds_is_python(submission: HostileSubmission, tmp_path: Path) -> None:
    if submission.name == "is_half_finished" or submission.deserves is None:
        pytest.skip("not meant to be")
    names = {node.id for node in ast.walk(ast.parse(submission.path.read_text())) if isinstance(node, ast.Name)}
    assert "hand_in" not in names
    for node in ast.parse(submission.path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            ast.parse(str(node.value.value))

"""`make grade-demo`: three made-up students, graded by `distlib grade`."""

from __future__ import annotations

from pathlib import Path

import pytest

from distlib.classroom.class_folder import Classroom, marks_table
from distlib.classroom.demo import ASSIGNMENT, STUDENTS, grade_demo, main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

EXPECTED = """\
           naive_all_reduce  ring_reduce_scatter  ring_all_gather  ring_all_reduce      all
student-a             4 / 4                6 / 6            6 / 6            6 / 6  22 / 22
student-b             4 / 4                3 / 6            0 / 6            6 / 6  13 / 22
student-c             0 / 4                0 / 6            0 / 6            0 / 6   0 / 22"""


def test_the_demonstration_prints_the_right_marks(root: Path, tmp_path: Path) -> None:
    leftover = tmp_path / "demo" / "classroom" / "submitted" / "student-z" / "leftover"
    leftover.mkdir(parents=True)
    classroom = grade_demo(root, tmp_path / "demo")
    assert not leftover.exists()
    assert marks_table(classroom, STUDENTS) == EXPECTED
    assert (classroom.folder / "classroom" / "graded" / ASSIGNMENT / "report.html").exists()

    products = classroom.folder / "classroom"
    for student in STUDENTS:
        page = (products / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text(encoding="utf-8")
        assert page.count("# What this tests: ") == 4 and "HIDDEN TESTS" not in page and "seed=" not in page
    totals = [row.split(",") for row in (products / "grades.csv").read_text(encoding="utf-8").splitlines()]
    column = totals[0].index("score")
    assert [float(row[column]) for row in totals[1:]] == [22, 13, 0]

    assert "Success! Your notebook passes all the tests." in validate(classroom, "student-a")
    assert "Usual cause: the chunk of rank 1 was added to what was there before." in validate(classroom, "student-b")


def validate(classroom: Classroom, student: str) -> str:
    """What nbgrader's validate (the button in JupyterLab) says of a notebook that was handed in, on one line."""
    path = classroom.folder / "classroom" / "submitted" / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    return " ".join(classroom.nbgrader("validate", str(path)).split())


def test_elsewhere_it_says_where_to_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main() == 1
    assert "run it in the project's folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

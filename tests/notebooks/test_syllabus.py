"""The two syllabuses (solutions/SYLLABUS.md): their lessons exist, their hours are those that the lessons promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distlib.classroom.my_course.lesson_promise import promise_of
from distlib.classroom.student_copies.copy_paths import lesson_for
from distlib.classroom.student_copies.notebook_json import read_notebook
from distlib.cli import main
from distlib.exam.exam_sheet import TOPICS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "solutions" / "SYLLABUS.md").read_text(encoding="utf-8")
LONGEST_WEEK, LONGEST_DAY = 9.0, 8.0  # hours that one can ask for


def rows(head: str) -> list[list[str]]:
    """The cells of the table below a heading, without its heads."""
    section = TEXT.split(f"## {head}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def linked(cell: str) -> list[Path]:
    """The notebooks that a cell links to."""
    return [(ROOT / "solutions" / address).resolve() for address in re.findall(r"\]\(([^)]+)\)", cell)]


def minutes(notebook: Path) -> int:
    """What a lesson or an exercise says that it takes."""
    found = promise_of(read_notebook(notebook)).minutes
    assert found, notebook
    return found


@pytest.mark.parametrize(
    ("head", "number", "most"), [("Twelve weeks", 12, LONGEST_WEEK), ("Five days", 5, LONGEST_DAY)]
)
def test_the_hours_are_those_of_the_notebooks(head: str, number: int, most: float) -> None:
    *each, together = rows(head)
    assert [row[0] for row in each] == [str(place) for place in range(1, number + 1)]
    totals = [0, 0]
    for row in each:
        hours = [sum(minutes(path) for path in linked(cell)) for cell in row[1:3]]
        assert row[3:5] == [f"{part / 60:.1f}" for part in hours], row
        assert sum(hours) / 60 <= most, row
        totals = [total + part for total, part in zip(totals, hours, strict=True)]
    assert together[3:5] == [f"{total / 60:.1f}" for total in totals]


@pytest.mark.parametrize("head", ["Twelve weeks", "Five days"])
def test_no_lesson_comes_twice_and_each_exercise_after_its_lesson(head: str) -> None:
    *each, _ = rows(head)
    taught: list[str] = []
    for row in each:
        taught += [path.stem for path in linked(row[1])]
        exercises = [lesson_for(path.stem, ROOT) for path in linked(row[2])]
        assert exercises and set(exercises) <= set(taught), row
        assert set(row[5].split(", ")) <= set(TOPICS), row
    assert taught == sorted(set(taught))


def test_its_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"`distlib ([a-z-]+)(?: ([a-z-]+))?", " ".join(TEXT.split()))
    assert {words[0] for words in commands} == {"class", "questions"}
    for words in commands:
        with pytest.raises(SystemExit) as ended:
            main([*filter(None, words[: 2 if words[0] == "class" else 1]), "--help"])
        assert ended.value.code == 0
    assert "--answers" in capsys.readouterr().out and "\nslides:" in (ROOT / "Makefile").read_text()

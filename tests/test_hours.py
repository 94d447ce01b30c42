"""The minutes in the tables of the README and of lesson 00: those that the notebooks promise, and their sums."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distlib.classroom.my_course.lesson_promise import promise_of
from distlib.classroom.student_copies.notebook_json import read_notebook

ROOT = Path(__file__).parents[1]
TABLES = {"README.md": "course/", "course/00_start_here.py": ""}  # and what stands before a lesson's name in a link
LESSONS = [path.stem for path in sorted(ROOT.glob("course/[0-9]*.ipynb"))]


def minutes(stem: str) -> tuple[int, int]:
    """What a lesson and its exercise promise; 0 where there is no exercise."""
    exercise = ROOT / "exercises" / stem / f"{stem}.ipynb"
    lesson = promise_of(read_notebook(ROOT / "course" / f"{stem}.ipynb"))
    return lesson.minutes, promise_of(read_notebook(exercise)).minutes if exercise.exists() else 0


def is_optional(stem: str) -> bool:
    return promise_of(read_notebook(ROOT / "course" / f"{stem}.ipynb")).is_optional


def rows(document: str) -> list[tuple[str, int, int]]:
    """The rows of the table that end with minutes: what stands before these, and the two numbers."""
    found = re.findall(r"^(?:# )?\|(.*)\| ([\d,]+) \| ([\d,]*) ?\|$", (ROOT / document).read_text(), re.MULTILINE)
    return [(text, *(int(number.replace(",", "") or 0) for number in numbers)) for text, *numbers in found]  # type: ignore[misc]


@pytest.mark.parametrize("document", TABLES)
def test_each_lesson_has_the_minutes_that_it_promises(document: str) -> None:
    by_lesson = {}
    for text, *numbers in rows(document)[:-2]:
        link = re.search(rf"\({TABLES[document]}(\w+)\.ipynb\)", text)
        stem = link[1] if link else "00_start_here"  # which has no link to itself
        by_lesson[stem] = tuple(numbers)
        assert ("optional" in text) == is_optional(stem), text
    assert by_lesson == {stem: minutes(stem) for stem in LESSONS}


@pytest.mark.parametrize("document", TABLES)
def test_the_sums(document: str) -> None:
    whole, optional = rows(document)[-2:]
    for (text, *numbers), wanted in ((whole, False), (optional, True)):
        promised = [minutes(stem) for stem in LESSONS if is_optional(stem) == wanted]
        assert numbers == [sum(each) for each in zip(*promised, strict=True)]
        assert f": {sum(numbers) / 60:.0f} hours" in text


@pytest.mark.parametrize("document", TABLES)
def test_no_lesson_is_listed_that_does_not_exist(document: str) -> None:
    numbers = re.findall(r"^(?:# )?\| \[?(\d\d[a-z]?)\b", (ROOT / document).read_text(), re.MULTILINE)
    assert numbers == [stem.partition("_")[0] for stem in LESSONS]


def test_the_readme_calls_each_lesson_as_its_notebook_does() -> None:
    shown = re.findall(r"^\| \[\w+ (.+?)\]\(course/(\w+)\.ipynb\)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert [stem for _, stem in shown] == LESSONS
    for name, stem in shown:
        title = promise_of(read_notebook(ROOT / "course" / f"{stem}.ipynb")).short_title
        assert name.split()[-1].lower() in title.lower(), f"{name} is {title} in its notebook"


def test_the_first_screen_says_the_same_hours() -> None:
    text = (ROOT / "README.md").read_text()
    stated = re.search(r"(\d+) hours with all exercises; (\d+) more are optional", text)
    assert stated and f"together: {stated[1]} hours" in text and f"optional: {stated[2]} hours more" in text

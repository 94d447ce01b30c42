"""Where one was in each notebook: what is kept of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from distlib.classroom.my_course.kept_files import read_kept
from distlib.classroom.my_course.places import PLACES, keep_place, kept_places

LESSON, OTHER = "lessons/lesson_01_messages.ipynb", "lessons/lesson_02_all_reduce.ipynb"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    (tmp_path / "work" / "lessons").mkdir(parents=True)
    for name in (LESSON, OTHER):
        (tmp_path / "work" / name).write_text("{}")
    return tmp_path


def test_the_last_place_of_each_notebook_is_kept(course: Path) -> None:
    assert kept_places(course) == {}
    assert keep_place(course, LESSON, "cell-4") and keep_place(course, OTHER, "cell-2")
    assert keep_place(course, LESSON, "cell-7")
    assert kept_places(course) == {LESSON: "cell-7", OTHER: "cell-2"}
    (course / "work" / OTHER).unlink()
    assert keep_place(course, LESSON, "cell-8")
    assert read_kept(course, PLACES)["places"] == {LESSON: "cell-8"}


@pytest.mark.parametrize(
    ("path", "cell"),
    [
        ("lessons/none.ipynb", "cell-1"),
        ("../exercises/01.ipynb", "cell-1"),
        ("/etc/passwd", "cell-1"),
        ("lessons", "cell-1"),
        (LESSON, ""),
        (LESSON, "c" * 65),
    ],
)
def test_what_is_no_place_is_not_kept(course: Path, path: str, cell: str) -> None:
    assert not keep_place(course, path, cell)
    assert not (course / "work" / "progress").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}', '{"format": 1, "places": [1]}'])
def test_a_torn_file_costs_no_more_than_the_places_in_it(course: Path, content: str) -> None:
    (course / "work" / "progress").mkdir()
    (course / "work" / "progress" / PLACES).write_text(content)
    assert kept_places(course) == {}
    assert keep_place(course, LESSON, "cell-3")
    assert kept_places(course) == {LESSON: "cell-3"}

"""Which file is a copy of which, and the links between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

from distlib.classroom.student_copies.notebook_json import Cell, Notebook, text_of, without_outputs

FOLDER = "work"
LESSONS = f"{FOLDER}/lessons"
EXERCISES = f"{FOLDER}/exercises"
BACKUPS = f"{FOLDER}/backups"
ORIGINALS = f"{FOLDER}/.originals"
FOR_ASSISTANTS = Path(__file__).with_name("AGENTS.md")  # asks an assistant to tutor; in the student's folder, once

_LESSON_LINK = re.compile(r"\]\((?:\.\./\.\./course/)?(\d\w*\.ipynb)")
_FILE_LINK = re.compile(r"\]\(([^)#\s:]+)\)")


def lesson_copy(name: str) -> str:
    """The path of the copy of a lesson, from the course's folder. name: such as "02_all_reduce"."""
    return f"{LESSONS}/lesson_{name}.ipynb"


def exercise_copy(name: str) -> str:
    """Likewise of an exercise."""
    return f"{EXERCISES}/{name}/{name}.ipynb"


def lesson_of(copy: str) -> str:
    """The name that a lesson and its exercise share, from the path of a copy of one of them."""
    return copy.rpartition("/")[2].removesuffix(".ipynb").removeprefix("lesson_")


def lesson_for(exercise: str, course: Path) -> str:
    """The name of the lesson that an exercise is about: its own, or of "17b_more_patients" that of lesson 17.

    Args:
        exercise: its name.
        course: the course's folder.
    """
    lessons = [path.stem for path in sorted(course.glob("course/[0-9]*.ipynb"))]
    number = exercise.partition("_")[0].rstrip(ascii_lowercase)
    same_number = [name for name in lessons if name.startswith(f"{number}_")]
    return exercise if exercise in lessons or not same_number else same_number[0]


FIRST_LESSON = lesson_copy("00_start_here")


def copies(course: Path) -> dict[Path, Path]:
    """By the path of each copy: the notebook of the course that it is made from. course: the course's folder."""
    lessons = {course / lesson_copy(path.stem): path for path in course.glob("course/[0-9]*.ipynb")}
    released = [path for path in course.glob("exercises/*/*.ipynb") if path.parent.name == path.stem]
    exercises = {course / exercise_copy(path.stem): path for path in released}
    return dict(sorted((lessons | exercises).items()))


def as_copy(original: Notebook, folder: str) -> Notebook:
    """A notebook of the course as its fresh copy shall be: it has not run, and its links lead to copies.

    Args:
        original: a notebook. It is not changed.
        folder: LESSONS or EXERCISES.
    """
    lesson = r"](lesson_\1" if folder == LESSONS else r"](../../lessons/lesson_\1"
    cells = [{**without_outputs(cell), "source": _linked(cell, lesson)} for cell in original["cells"]]
    return {**original, "cells": cells}


def _linked(cell: Cell, lesson: str) -> str:
    return _LESSON_LINK.sub(lesson, text_of(cell)) if cell.get("cell_type") == "markdown" else text_of(cell)


def linked_files(original: Path, notebook: Notebook) -> Iterator[str]:
    """The files other than notebooks, such as pictures, that the text of a notebook of the course links to."""
    for cell in notebook["cells"]:
        for link in _FILE_LINK.findall(text_of(cell)) if cell.get("cell_type") == "markdown" else ():
            if not link.endswith(".ipynb") and (original.parent / link).is_file():
                yield link

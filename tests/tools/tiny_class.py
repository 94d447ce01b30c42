"""A large class in a tiny course, for `make bench`: what grading costs besides judging."""

from __future__ import annotations

import time
from pathlib import Path

from distlib.classroom.grader.class_run import grade_class
from distlib.classroom.grader.course import open_course
from tests.tools.tiny_course import NAME, RIGHT, make_tiny_course, simple_judges


def grade_tiny_class(folder: str, size: int) -> float:
    """Make a course in a folder, hand in as many notebooks, and grade them. Returns the seconds that grading took."""
    course = make_tiny_course(Path(folder))
    for number in range(size):
        wrong = {"double": f"def double(x):\n    return {number % 7}"} if number % 3 else {}
        course.hand_in(f"student-{number:03d}", {**RIGHT, **wrong})
    start = time.perf_counter()
    grade_class(open_course(course.root), NAME, simple_judges, jobs=2)
    return time.perf_counter() - start

"""Only one command at a time changes what was graded in a course."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from distlib.classroom.grader.course import Course, CourseError


@contextmanager
def one_grader(course: Course) -> Iterator[None]:
    """Hold the lock of a course. The system frees it when a process ends.

    Raises:
        CourseError: another command holds it, or it can't be written.
    """
    path = course.records("any").parent / ".lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise CourseError(f"{course.name(path)} can't be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CourseError("another distlib grade is running in this course; wait for its end") from None
        yield

"""`distlib progress`: what is done, what passes, what comes next. The same table stands in `work/my_course.md`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from distlib.classroom.my_course.course_reading import read_and_note
from distlib.classroom.my_course.own_course import OwnCourse
from distlib.classroom.my_course.progress_table import progress_text, write_page
from distlib.cli.course_folder import NO_COURSE, find_course
from distlib.cli.saying import say
from distlib.living_line import waiting


def show_progress() -> int:
    """Print where the student is. Returns 0; 1 without a course."""
    course = find_course(Path.cwd())
    if course is None:
        say(NO_COURSE, sys.stderr)
        return 1
    if course not in (Path.cwd(), *Path.cwd().parents):
        say(f"There is no course here. This is the one in {course}:\n", sys.stderr)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    say(progress_text(take_stock(course), width))
    return 0


def take_stock(course: Path) -> OwnCourse:
    """What a student has done. What would be forgotten is kept, and the page next to the notebooks is made anew.

    Args:
        course: the course's folder.
    """
    with waiting("a look at your notebooks"):
        own, told = read_and_note(course)
    if told:
        say(f"Remark: {told}", sys.stderr)
    write_page(course, own)
    return own

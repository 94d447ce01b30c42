"""What a check leaves behind: it is kept, the student's page is made anew, and it says what comes next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from distlib.classroom.my_course.course_reading import read_course
from distlib.classroom.my_course.last_check import keep_check
from distlib.classroom.my_course.own_course import OwnCourse, next_lesson
from distlib.classroom.my_course.progress_table import write_page
from distlib.classroom.self_check.results import Results
from distlib.classroom.student_copies.copy_paths import FOLDER
from distlib.classroom.uploads.receipt import moment
from distlib.course_root import course_folder


def finished(results: Results, notebook: Path) -> Results:
    """The results, with the next step where everything passes. They are kept if the notebook is the student's own.

    Args:
        results: of a check.
        notebook: what was checked. One outside `work/`, such as a file that somebody sent, is checked and forgotten.
    """
    course = course_folder(notebook.parent)
    if course is None or not notebook.is_relative_to(course / FOLDER):
        return results
    try:
        told = keep_check(course, results)
    except OSError as error:
        told = f"what passes could not be kept in {FOLDER}/: {error.strerror or error}"
    own = read_course(course)
    write_page(course, own)
    step = _next_step(own, results.name) if results.passes else ""
    return replace(results, remarks=[*results.remarks, *([told] if told else [])], then=step)


def _next_step(own: OwnCourse, name: str) -> str:
    """After an exercise that passes: hand it in, unless it was, and then the next lesson."""
    exercise = next((each for each in own.exercises if each.name == name), None)
    later = next_lesson(own.lessons, name)
    then = f"then open {later.title}" if later else "then make a page of it all: distlib report"
    if exercise is None or exercise.handed_in is None:
        return f"Next: hand it in, in the last cell or with distlib hand-in {name}; {then}."
    handed = f"Your last hand-in is of {moment(exercise.handed_in)}; if you changed it since, hand it in again."
    return f"{handed} Next: {then.removeprefix('then ')}."

"""`distlib export`: everybody's marks, as Canvas or Moodle imports them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from distlib.classroom.exports.canvas_file import canvas_file, read_canvas_file
from distlib.classroom.exports.moodle_file import moodle_file
from distlib.classroom.exports.score_table import ExportedFile, ScoreTable, read_scores
from distlib.classroom.grader.course import Course, CourseError, course_above, open_course
from distlib.classroom.register.class_register import classroom_of
from distlib.classroom.words import count, not_in_the_table
from distlib.cli.saying import say
from distlib.printable import printable


def export_marks(options: argparse.Namespace) -> int:
    """Write the file, and print what is in it. Returns 0; 1 if somebody is left out, or nothing was written.

    options: assignment, format, like, by, out_of, provisional, to, course; see `distlib export --help`.
    """
    try:
        course = open_course(options.course or course_above(Path.cwd()))
        names = [course.full_name(name) for name in options.assignment]
        table = read_scores(course, names, provisional=options.provisional)
        made = _made(table, options)
        path = options.to or classroom_of(course) / f"{options.format}.csv"
        _write(path, made.text)
    except CourseError as error:
        say(printable(str(error)), sys.stderr)
        return 1
    except OSError as error:
        say(f"{error.filename}: {error.strerror}", sys.stderr)
        return 1
    say("\n".join(_summary(course, path, table, made)))
    return 1 if made.left_out else 0


def _made(table: ScoreTable, options: argparse.Namespace) -> ExportedFile:
    if options.format == "moodle":
        return moodle_file(table, by=options.by, out_of=options.out_of)
    return canvas_file(table, read_canvas_file(options.like) if options.like else None, options.out_of)


def _write(path: Path, text: str) -> None:
    """In one move, so that there is never half of a file."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8", newline="")
    os.replace(new, path)


def _summary(course: Course, path: Path, table: ScoreTable, made: ExportedFile) -> list[str]:
    there = len(table.students) - len(made.left_out)
    lines = [f"{course.name(path)}: {count(there, 'student')}, {count(len(table.full), 'exercise')}"]
    for name, title in made.titles.items():
        number = sum(name in student.scores for student in table.students if student.id not in made.left_out)
        called = f", called {title}" if title != name else ""
        is_open = [student.id for student in table.students if name in student.open]
        waits = f"; {count(len(is_open), 'score')} not final: a mark by hand or a time is missing" if is_open else ""
        lines.append(f"  {name}{called}: {count(number, 'mark')}{waits}")
    lines += [f"left out: {printable(student)} {printable(why)}" for student, why in made.left_out.items()]
    return [*lines, printable(not_in_the_table(table.strangers))] if table.strangers else lines

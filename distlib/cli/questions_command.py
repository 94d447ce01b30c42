"""`distlib questions`: questions for practice or an exam, with other numbers for each seed or variant, and answers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from distlib.classroom.grader.course import CourseError, course_above, open_course
from distlib.classroom.register.class_register import classroom_of
from distlib.cli.saying import say
from distlib.exam.exam_sheet import choose_questions, json_sheet, markdown_sheet
from distlib.exam.variant import Variant, for_exam, for_practice, kept_secret


def print_questions(options: argparse.Namespace) -> int:
    """Print the sheet, or write it into a file. Returns 0, or 1 if there are no such questions.

    options: seed or variant and secret, format, topic, number, answers, to; see `distlib questions --help`.
    """
    try:
        variant = _variant(options)
        questions = choose_questions(variant, options.topic, options.number)
        if options.format == "json":
            text = json_sheet(questions, variant)
        else:
            text = markdown_sheet(questions, variant, answers=options.answers)
        if options.to:
            if options.answers or options.format == "json":
                options.to.touch(mode=0o600)  # answers are for nobody else on a shared machine
            options.to.write_text(text, encoding="utf-8")
    except (ValueError, OSError, CourseError) as error:
        say(str(error), sys.stderr)
        return 1
    say(f"{options.to}: {len(questions)} questions" if options.to else text.rstrip("\n"))
    return 0


def _variant(options: argparse.Namespace) -> Variant:
    if options.seed is not None:
        if options.secret:
            raise ValueError("a secret belongs to --variant; a sheet of --seed is for practice")
        return for_practice(options.seed)
    path = options.secret or _secret_of_class()
    if not path.exists():
        say(
            f"The secret is in {path}, and was drawn now. Without it nobody prints this exam's answers again.",
            sys.stderr,
        )
    return for_exam(options.variant, kept_secret(path))


def _secret_of_class() -> Path:
    try:
        folder = classroom_of(open_course(course_above(Path.cwd())))
    except CourseError:
        raise CourseError("no course is here or above: say where the secret is kept, with --secret FILE") from None
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "exam_secret"

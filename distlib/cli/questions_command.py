"""`distlib questions`: questions for an exam, with other numbers for each seed, and their answers."""

from __future__ import annotations

import argparse
import sys

from distlib.cli.saying import say
from distlib.exam.exam_sheet import choose_questions, json_sheet, markdown_sheet


def print_questions(options: argparse.Namespace) -> int:
    """Print the sheet, or write it into a file. Returns 0, or 1 if there are no such questions.

    options: seed, format, topic, number, answers, to; see `distlib questions --help`.
    """
    try:
        questions = choose_questions(options.seed, options.topic, options.number)
        if options.format == "json":
            text = json_sheet(questions, options.seed)
        else:
            text = markdown_sheet(questions, options.seed, answers=options.answers)
        if options.to:
            options.to.write_text(text, encoding="utf-8")
    except (ValueError, OSError) as error:
        say(str(error), sys.stderr)
        return 1
    say(f"{options.to}: {len(questions)} questions" if options.to else text.rstrip("\n"))
    return 0

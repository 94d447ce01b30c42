"""The words of `distlib class`, and of what is made of a class. Imports nothing of the course."""

from __future__ import annotations

import argparse
from pathlib import Path

from distlib.cli.command_arguments import ASSIGNMENT, add_course


def add_class_arguments(parser: argparse.ArgumentParser) -> None:
    """`distlib class due`, `late`, `extend`, `team`, `alias`, `same`, `report`, and what else is said about a class."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    due = _action(actions, "due", "set when an exercise is due; without a date, show it")
    due.add_argument("assignment", metavar="ASSIGNMENT", help=ASSIGNMENT)
    due.add_argument("date", nargs="?", default="", help='such as "2030-11-02 23:59 Europe/Berlin"')
    due.add_argument("--none", action="store_true", help="it has no due date any more")
    late = _action(actions, "late", "say what being late costs, in all exercises; without anything, show it")
    late.add_argument(
        "--per-day", type=_share, metavar="10%", help="what each day begun costs of the points; 100%% takes all at once"
    )
    late.add_argument(
        "--at-most", type=_share, default=1.0, metavar="50%", help="what is lost of the points at most; else all"
    )
    late.add_argument(
        "--grace", default="", metavar="10min", help="time after the due date that costs nothing; also 2h, 1d"
    )
    late.add_argument(
        "--slip-days",
        type=_whole,
        default=0,
        metavar="N",
        help="days late that cost nothing, in all exercises together",
    )
    late.add_argument("--none", action="store_true", help="it costs no points any more")
    extend = _action(actions, "extend", "give a student or a team more time; it replaces what they had")
    extend.add_argument("name", metavar="NAME", help="a student or a team")
    extend.add_argument("assignment", metavar="ASSIGNMENT", help=ASSIGNMENT)
    extend.add_argument("--days", type=_amount, default=0.0, metavar="N", help="more than others have")
    extend.add_argument("--hours", type=_amount, default=0.0, metavar="N", help="the same, in hours")
    extend.add_argument("--none", action="store_true", help="take it back")
    team = _action(actions, "team", "say who works together: a team hands in once; without a name, show all")
    team.add_argument("name", metavar="TEAM", nargs="?", default="")
    team.add_argument("students", metavar="NAME", nargs="*")
    team.add_argument("--none", action="store_true", help="end the team")
    alias = _action(actions, "alias", "say whose a name in uploads is; without a name, show all that was said")
    alias.add_argument("written", metavar="NAME", nargs="?", default="", help="as distlib collect has printed it")
    alias.add_argument("student", metavar="STUDENT", nargs="?", default="")
    alias.add_argument("--none", action="store_true", help="take it back")
    same = _action(actions, "same", "make two names one student's, in all exercises, gradebook and exports")
    same.add_argument("old", metavar="OLD", help="the name that goes")
    same.add_argument("new", metavar="NEW", help="the student's name, which stays")
    same.add_argument("--keep", metavar="NAME", default="", help="whose work counts where both have some")
    _action(actions, "report", "write pages about the whole course: typical wrong ideas, marks, who is missing")
    alike = _action(actions, "side-by-side", "write a page with answers that are more alike than is usual in the class")
    alike.add_argument("assignment", metavar="ASSIGNMENT", help=ASSIGNMENT)
    _action(actions, "pseudonyms", "give everybody a name that says nothing, and write who is who")
    marker = _action(actions, "second-marker", "write graded notebooks and marks without names into a folder")
    marker.add_argument("assignment", metavar="ASSIGNMENT", help=ASSIGNMENT)
    marker.add_argument("folder", metavar="FOLDER", type=Path, help="new or empty")


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, what: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    add_course(parser)
    return parser


def _amount(text: str) -> float:
    """A number above 0, such as 3.0 for "3"."""
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if 0 < amount <= 3660:
        return amount
    raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")


def _share(text: str) -> float:
    """0.1 for "10%" or "10"."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if 0 < share <= 1:
        return share
    raise argparse.ArgumentTypeError(f"expected a share such as 10%, at most 100%, got {text!r}")


def _whole(text: str) -> int:
    """A whole number, 0 or more."""
    if text.isdecimal() and len(text) <= 4:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", nargs="*", help=f"{ASSIGNMENT}; without it all")
    parser.add_argument("--format", choices=("canvas", "moodle"), required=True, help="who imports it")
    like = "the gradebook that Canvas has exported: its students and titles are used"
    parser.add_argument("--like", metavar="CSV", type=Path, help=like)
    parser.add_argument("--by", choices=("email", "id"), default="email", help="how Moodle finds a student; else email")
    parser.add_argument("--out-of", metavar="N", type=_amount, help="the points that can be had there, if they differ")
    parser.add_argument("--provisional", action="store_true", help="also scores that wait for a mark by hand or a time")
    parser.add_argument("--to", metavar="FILE", type=Path, help="else classroom/canvas.csv or classroom/moodle.csv")
    add_course(parser)


def add_questions_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--seed", type=int, metavar="N", help="for practice: whoever has the course can print the answers"
    )
    exam = "for an exam: the numbers come from this name, which the sheet shows, and from the secret, which it does not"
    which.add_argument("--variant", metavar="NAME", help=exam)
    secret = "made if it is not there, and needed for the answers; else exam_secret in the folder of the class"
    parser.add_argument("--secret", metavar="FILE", type=Path, help=secret)
    parser.add_argument("--format", choices=("md", "json"), default="md", help="json has answers and working, too")
    topic = 'such as "pipelines" or "times"; several are possible'
    parser.add_argument("--topic", metavar="TOPIC", nargs="+", action="extend", default=[], help=topic)
    parser.add_argument("--number", type=int, metavar="N", help="how many; else all")
    parser.add_argument("--answers", action="store_true", help="the same sheet with answers and working")
    parser.add_argument("--to", metavar="FILE", type=Path, help="else they are printed")

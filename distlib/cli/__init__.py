"""The command `distlib`. `distlib --help` lists what it can do."""

import argparse
import os
from pathlib import Path

DESCRIPTION = "The course in distributed training, from the command line."


def main(arguments: list[str] | None = None) -> int:
    """Runs one command. arguments: those after the program's name. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="distlib", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = "check this machine: Python, torch, ranks, GPUs, Jupyter, nbgrader; say what to do about a problem"
    commands.add_parser("doctor", help=doctor, description=doctor[0].upper() + doctor[1:] + ".")
    lab = "open JupyterLab on the first lesson; options that follow go to `jupyter lab`"
    commands.add_parser(
        "lab",
        help=lab,
        description=lab[0].upper() + lab[1:] + ".",
        epilog="Without a screen: distlib lab --no-browser --port=8899",
    )
    check = "show which functions of an exercise pass their tests, and what to do next; it gives no marks"
    _add_check_arguments(commands.add_parser("check", help=check, description=check[0].upper() + check[1:] + "."))
    grade = "grade what students have handed in: their code in a sandbox, its marks into nbgrader's gradebook"
    _add_grade_arguments(commands.add_parser("grade", help=grade, description=grade[0].upper() + grade[1:] + "."))
    options, rest = parser.parse_known_args(arguments)
    # The commands are imported only when they are called: doctor must run where Jupyter or torch is broken.
    if options.command == "lab":
        from distlib.cli.lab import open_lab

        return open_lab(rest)
    if rest:
        parser.error(f"unknown option {rest[0]}")
    if options.command == "check":
        from distlib.cli.check import check as check_notebook

        return check_notebook(options.assignment, options.notebook)
    if options.command == "grade":
        from distlib.cli.grade import grade_submissions

        return grade_submissions(options)
    from distlib.cli.doctor import run_doctor

    return run_doctor()


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 02_all_reduce")
    parser.add_argument("--notebook", metavar="PATH", type=Path, help="your notebook, if it is not in exercises/")


def _add_grade_arguments(parser: argparse.ArgumentParser) -> None:
    sandboxes = ("auto", "bubblewrap", "docker", "none")
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 02_all_reduce")
    parser.add_argument("--student", metavar="NAME", nargs="+", action="extend", default=[], help="only these")
    parser.add_argument("--jobs", metavar="N", type=_positive, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--sandbox", choices=sandboxes, default="auto", help="where the students' code runs")
    parser.add_argument("--course", metavar="DIR", type=Path, help="the course's folder, if it is not here or above")
    parser.add_argument("--again", action="store_true", help="also grade what has not changed since the last time")
    more = "that many times as much time as others, such as ada=3; kept for the next time"
    parser.add_argument(
        "--time-for", metavar="NAME=TIMES", type=_times, nargs="+", action="extend", default=[], help=more
    )


def _times(text: str) -> tuple[str, float]:
    """("ada", 3.0) for "ada=3"."""
    name, _, times = text.rpartition("=")
    try:
        if name and 1 <= float(times) <= 100:
            return name, float(times)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected NAME=TIMES with 1 to 100 times as much, such as ada=3, got {text!r}")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {number}")
    return number

"""The command `distlib`. `distlib --help` lists what it can do."""

import argparse
import os
from pathlib import Path
from typing import Any

from distlib.cli.class_arguments import add_class_arguments, add_export_arguments, add_questions_arguments

LAUNCHES = "On several machines: torchrun … -m distlib.cli launch train.py:main, or srun … distlib launch train.py:main"
JOB_SCRIPTS = ("lab", "train")
DESCRIPTION = "The course in distributed training, from the command line."


def main(arguments: list[str] | None = None) -> int:
    """Runs one command. arguments: those after the program's name. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="distlib", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = "check this machine: Python, torch, ranks, GPUs, Jupyter, nbgrader; say what to do about a problem"
    doctor_parser = commands.add_parser("doctor", help=doctor, description=doctor[0].upper() + doctor[1:] + ".")
    less = "only what a notebook needs to run, in a Jupyter that is not the course's own"
    doctor_parser.add_argument("--for-a-notebook", action="store_true", help=less)
    lab = "open JupyterLab on your copies of the lessons and exercises; other options go to `jupyter lab`"
    lab_parser = commands.add_parser(
        "lab",
        help=lab,
        description=lab[0].upper() + lab[1:] + ".",
        epilog="Without a screen: distlib lab --no-browser --port=8899",
    )
    lab_parser.add_argument("--instructor", action="store_true", help="the whole course, with nbgrader's formgrader")
    lab_parser.add_argument("--from-start", action="store_true", help="open lesson 00, and not where you were last")
    progress = "show where you are: what ran, what passes, what is handed in, marks, hours, and the next step"
    commands.add_parser("progress", help=progress, description=progress[0].upper() + progress[1:] + ".")
    report = "write one page about what you did, to show to others: your code, pictures of your runs, marks"
    report_parser = commands.add_parser("report", help=report, description=report[0].upper() + report[1:] + ".")
    report_parser.add_argument("--name", default="", help="your name, which stands on top; else none does")
    report_parser.add_argument("--to", metavar="FILE", type=Path, help="where to; else work/my_report.html")
    report_parser.add_argument("--unfolded", action="store_true", help="with the code open, as for printing it")
    update = "get a newer version of the course; what you have written stays"
    commands.add_parser("update", help=update, description=update[0].upper() + update[1:] + ".")
    fetch = "install what a later lesson needs, unless it is there: tensorflow for lesson 13, jax for lesson 14"
    fetch_parser = commands.add_parser("fetch", help=fetch, description=fetch[0].upper() + fetch[1:] + ".")
    fetch_parser.add_argument("framework", choices=["tensorflow", "jax"])
    check = "show which functions of an exercise pass their tests, and what to do next; it gives no marks. Without the "
    check += "name of an exercise it is `distlib progress`"
    _add_check_arguments(commands.add_parser("check", help=check, description=check[0].upper() + check[1:] + "."))
    hint = "show a hint for a graded function: 1 a nudge, 2 the idea, 3 the shape of the code; it costs nothing"
    _add_hint_arguments(commands.add_parser("hint", help=hint, description=hint[0].upper() + hint[1:] + "."))
    hand_in = "hand in an exercise: look at the saved notebook, make the file to upload or submit it, print a receipt"
    _add_hand_in_arguments(
        commands.add_parser("hand-in", help=hand_in, description=hand_in[0].upper() + hand_in[1:] + ".")
    )
    collect = "collect what students have uploaded: a folder, or the zip file of a learning platform"
    _add_collect_arguments(
        commands.add_parser("collect", help=collect, description=collect[0].upper() + collect[1:] + ".")
    )
    grade = "grade what students have handed in: their code in a sandbox, its marks into nbgrader's gradebook"
    _add_grade_arguments(commands.add_parser("grade", help=grade, description=grade[0].upper() + grade[1:] + "."))
    board = "show your best plays of the games; in an instructor's course, make the board of the class"
    _add_board_arguments(commands.add_parser("board", help=board, description=board[0].upper() + board[1:] + "."))
    launch = "run a function of a script on ranks: on this machine, or where torchrun or srun has started it"
    _add_launch_arguments(
        commands.add_parser("launch", help=launch, description=launch[0].upper() + launch[1:] + ".", epilog=LAUNCHES)
    )
    release = "write the course for students, a zip file or a folder: lessons, exercises, the package, no solutions"
    _add_release_arguments(
        commands.add_parser("release", help=release, description=release[0].upper() + release[1:] + ".")
    )
    klass = "due dates, extensions, teams that hand in once, pseudonyms for a second marker"
    add_class_arguments(commands.add_parser("class", help=klass, description=klass[0].upper() + klass[1:] + "."))
    export = "write everybody's marks as Canvas or Moodle imports them"
    add_export_arguments(commands.add_parser("export", help=export, description=export[0].upper() + export[1:] + "."))
    questions = "print questions for an exam, with computed answers; another seed, other numbers"
    add_questions_arguments(
        commands.add_parser("questions", help=questions, description=questions[0].upper() + questions[1:] + ".")
    )
    options, rest = parser.parse_known_args(arguments)
    # The commands are imported only when they are called: doctor must run where Jupyter or torch is broken.
    if options.command == "lab":
        from distlib.cli.lab import open_lab

        return open_lab(rest, instructor=options.instructor, from_start=options.from_start)
    if rest:
        parser.error(f"unknown {'option' if rest[0].startswith('-') else 'argument'} {rest[0]}")
    if options.command == "report":
        from distlib.cli.show_report import write_report

        return write_report(options)
    if options.command == "update":
        from distlib.cli.update import update as update_course

        return update_course()
    if options.command == "fetch":
        from distlib.cli.fetch import fetch_framework

        return fetch_framework(options.framework)
    if options.command == "progress" or options.command == "check" and not options.assignment:
        from distlib.cli.where_am_i import show_progress

        if options.command == "check" and options.notebook:
            parser.error("--notebook needs the name of an exercise, such as 02")
        return show_progress()
    if options.command == "check":
        from distlib.cli.check import check as check_notebook

        return check_notebook(options.assignment, options.notebook)
    if options.command == "hint":
        from distlib.cli.hint import show_hint

        return show_hint(options.function, options.number, options.exercise)
    if options.command == "hand-in":
        from distlib.cli.hand_in import hand_in_from_terminal

        return hand_in_from_terminal(options)
    if options.command == "collect":
        from distlib.cli.collect import collect_uploads

        return collect_uploads(options)
    if options.command == "release":
        from distlib.cli.release import release_course

        return release_course(options)
    if options.command == "board":
        from distlib.cli.board import board as show_board

        return show_board(options)
    if options.command == "launch":
        from distlib.cli.launch import launch_script

        return launch_script(options)
    if options.command == "questions":
        from distlib.cli.questions_command import print_questions

        return print_questions(options)
    if options.command == "export":
        from distlib.cli.export import export_marks

        return export_marks(options)
    if options.command == "class":
        from distlib.cli.class_commands import change_class

        return change_class(options)
    if options.command == "grade":
        from distlib.cli.grade import grade_submissions

        return grade_submissions(options)
    from distlib.cli.doctor import choose_checks, run_doctor

    return run_doctor(choose_checks(options.for_a_notebook))


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", nargs="?", default="", help="such as 02_all_reduce, or 02")
    parser.add_argument("--notebook", metavar="PATH", type=Path, help="your notebook, if it is not in work/exercises/")


def _add_hint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("function", metavar="FUNCTION", help="such as shift")
    parser.add_argument("number", metavar="NUMBER", type=_positive, nargs="?", default=1, help="1, 2 or 3; else 1")
    which = "such as 14, where functions of two exercises have the same name"
    parser.add_argument("--exercise", metavar="EXERCISE", default="", help=which)


def _add_hand_in_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 02_all_reduce, 02, or games")
    parser.add_argument("--name", default="", help="your name or student number; else you are asked, once")
    parser.add_argument("--notebook", metavar="PATH", type=Path, help="your notebook, if it is somewhere else")
    parser.add_argument("--yes", action="store_true", help="hand in also if nothing is answered")
    parser.add_argument("--again", action="store_true", help="hand in also if nothing has changed since the last time")


def _add_board_arguments(parser: argparse.ArgumentParser) -> None:
    mine = parser.add_mutually_exclusive_group()
    pseudonym = "the name under which you want to be on the board of the class; hand in your games, then"
    mine.add_argument("--as", metavar="NAME", dest="pseudonym", help=pseudonym)
    mine.add_argument("--leave", action="store_true", help="be on the board of the class no longer; hand in, then")
    parser.add_argument("--jobs", metavar="N", type=_positive, default=os.cpu_count() or 1, help="replays at a time")
    parser.add_argument("--course", metavar="DIR", type=Path, help="the course's folder, if it is not here or above")


def _add_collect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 02_all_reduce, 02, or games")
    parser.add_argument("uploads", metavar="FOLDER_OR_ZIP", type=Path, nargs="+", help="what students have uploaded")
    times = "the times of the files are those of handing in, in this time zone, such as Europe/Berlin"
    parser.add_argument("--times-in", metavar="ZONE", default="", help=times)
    parser.add_argument("--course", metavar="DIR", type=Path, help="the course's folder, if it is not here or above")


def _add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    started = parser.add_mutually_exclusive_group()
    started.add_argument("--ranks", metavar="N", type=_positive, help="how many to start, on this machine")
    elastic = "start MAX on this machine; when some are lost, start again with those that are left, at least MIN"
    started.add_argument("--elastic", metavar="MIN:MAX", type=_fewest_and_most, help=elastic)
    silence = "with --elastic: a rank that gives no sign of life for as long is lost; else 30"
    parser.add_argument("--silence", metavar="SECONDS", type=_positive, default=30, help=silence)
    where = "a directory that all nodes share, for what srun starts; else ~/.distlib/rendezvous"
    parser.add_argument("--rendezvous", metavar="DIR", type=Path, help=where)
    script = "print a job script for Slurm: a Jupyter session, or a training that goes on in the next job"
    parser.add_argument("--script", action=_PrintScript, choices=JOB_SCRIPTS, help=script)
    patience = "how long to wait for ranks of other nodes; else 120"
    parser.add_argument("--patience", metavar="SECONDS", type=_positive, default=120, help=patience)
    parser.add_argument("target", metavar="SCRIPT.py:FUNCTION", help="called as FUNCTION(comm, …) on each rank")
    given = "for the function: numbers and other Python values, else text; name=value for one by name. "
    given += "With options, such as --lr 0.1, all are for the script: its sys.argv"
    arguments = parser.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help=given)
    arguments.required = False  # Python 3.11 would name it next to a target that is missing


class _PrintScript(argparse.Action):
    """As --help: print, and nothing else."""

    def __call__(self, parser: argparse.ArgumentParser, options: object, name: Any, flag: str | None = None) -> None:
        from distlib.launch.jobs import job_script

        print(job_script(name), end="")
        parser.exit()


def _add_release_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="FILE.zip|FOLDER", type=Path, help="a folder must be new or empty")
    address = "where you publish it, as `git clone` wants it; it then has notebooks for Colab, too"
    parser.add_argument("--address", metavar="URL", default="", help=address)
    parser.add_argument("--course", metavar="DIR", type=Path, help="the course's folder, if it is not here or above")


def _add_grade_arguments(parser: argparse.ArgumentParser) -> None:
    sandboxes = ("auto", "bubblewrap", "docker", "none")
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 02_all_reduce, or 02")
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


def _fewest_and_most(text: str) -> tuple[int, int]:
    """(2, 4) for "2:4"."""
    fewest, _, most = text.partition(":")
    if fewest.isdecimal() and most.isdecimal() and 1 <= int(fewest) <= int(most):
        return int(fewest), int(most)
    raise argparse.ArgumentTypeError(f"expected MIN:MAX with MIN from 1 to MAX, such as 2:4, got {text!r}")


def _positive(text: str) -> int:
    """3 for "3"."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")

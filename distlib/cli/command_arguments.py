"""What the commands take. No package is imported for it: `distlib doctor` must run where torch or Jupyter is broken."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from distlib.classroom.grader.which_share import ClassShare, read_share

JOB_SCRIPTS = ("lab", "train")
ASSIGNMENT = "such as 02_all_reduce, or 02"


def add_nothing(parser: argparse.ArgumentParser) -> None:
    """Of a command without any."""


def add_course(parser: argparse.ArgumentParser) -> None:
    """Of whatever an instructor does with a course."""
    parser.add_argument("--course", metavar="DIR", type=Path, help="the course's folder, if it is not here or above")


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    less = "only what a notebook needs to run, in a Jupyter that is not the course's own"
    parser.add_argument("--for-a-notebook", action="store_true", help=less)


def add_lab_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `distlib lab`; what it does not know goes to `jupyter lab`."""
    parser.add_argument("--instructor", action="store_true", help="the whole course, with nbgrader's formgrader")
    parser.add_argument("--from-start", action="store_true", help="open lesson 00, and not where you were last")


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="", help="your name, which stands on top; else none does")
    parser.add_argument("--to", metavar="FILE", type=Path, help="where to; else work/my_report.html")
    parser.add_argument("--unfolded", action="store_true", help="with the code open, as for printing it")


def add_fetch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("framework", choices=["tensorflow", "jax"])


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", nargs="?", default="", help=ASSIGNMENT)
    parser.add_argument("--notebook", metavar="PATH", type=Path, help="your notebook, if it is not in work/exercises/")


def add_hint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("function", metavar="FUNCTION", help="such as shift")
    parser.add_argument("number", metavar="NUMBER", type=_positive, nargs="?", default=1, help="1, 2 or 3; else 1")
    which = "such as 14, where functions of two exercises have the same name"
    parser.add_argument("--exercise", metavar="EXERCISE", default="", help=which)


def add_hand_in_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 02_all_reduce, 02, or games")
    parser.add_argument("--name", default="", help="your name or student number; else you are asked, once")
    parser.add_argument("--notebook", metavar="PATH", type=Path, help="your notebook, if it is somewhere else")
    parser.add_argument("--yes", action="store_true", help="hand in also if nothing is answered")
    parser.add_argument("--again", action="store_true", help="hand in also if nothing has changed since the last time")


def add_board_arguments(parser: argparse.ArgumentParser) -> None:
    mine = parser.add_mutually_exclusive_group()
    pseudonym = "the name under which you want to be on the board of the class; hand in your games, then"
    mine.add_argument("--as", metavar="NAME", dest="pseudonym", help=pseudonym)
    mine.add_argument("--leave", action="store_true", help="be on the board of the class no longer; hand in, then")
    parser.add_argument("--jobs", metavar="N", type=_positive, default=os.cpu_count() or 1, help="replays at a time")
    add_course(parser)


def add_collect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("assignment", metavar="ASSIGNMENT", help="such as 02_all_reduce, 02, or games")
    parser.add_argument("uploads", metavar="FOLDER_OR_ZIP", type=Path, nargs="+", help="what students have uploaded")
    times = "take the times of the files, or of the table, as those of handing in, in this time zone: Europe/Berlin"
    parser.add_argument("--times-in", metavar="ZONE", default="", help=times)
    table = "times of handing in: columns id and time, or Moodle's grading worksheet"
    parser.add_argument("--times", metavar="TABLE", type=Path, help=table)
    believe = "take the times of the files also if all are alike"
    parser.add_argument("--believe-times", action="store_true", help=believe)
    add_course(parser)


def add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    started = parser.add_mutually_exclusive_group()
    started.add_argument("--ranks", metavar="N", type=_positive, help="how many to start, on this machine")
    elastic = "start MAX on this machine; when some are lost, start again with those that are left, at least MIN"
    started.add_argument("--elastic", metavar="MIN:MAX", type=_fewest_and_most, help=elastic)
    silence = "with --elastic: a rank that gives no sign of life for as long is lost; else 30"
    parser.add_argument("--silence", metavar="SECONDS", type=_positive, default=30, help=silence)
    where = "a directory that all nodes share, for what srun or torchrun starts; else ~/.distlib/rendezvous"
    parser.add_argument("--rendezvous", metavar="DIR", type=Path, help=where)
    backend = (
        "under torchrun and srun; else NCCL if there are 2 to 16 ranks, each with a GPU of its own, and gloo if not"
    )
    parser.add_argument("--backend", choices=["gloo", "nccl"], help=backend)
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


def add_release_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="FILE.zip|FOLDER", type=Path, help="a folder must be new or empty")
    address = "where you publish it, as `git clone` wants it; it then has notebooks for Colab, too"
    parser.add_argument("--address", metavar="URL", default="", help=address)
    python = "the Python that grades, such as 3.12, if that is not this one: hand-in reads answers with its grammar"
    parser.add_argument("--python", metavar="VERSION", default="", help=python)
    add_course(parser)


def add_grade_arguments(parser: argparse.ArgumentParser) -> None:
    sandboxes = ("auto", "bubblewrap", "docker", "none")
    parser.add_argument("assignment", metavar="ASSIGNMENT", help=ASSIGNMENT)
    parser.add_argument("--student", metavar="NAME", nargs="+", action="extend", default=[], help="only these")
    parser.add_argument("--jobs", metavar="N", type=_positive, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--sandbox", choices=sandboxes, default="auto", help="where the students' code runs")
    add_course(parser)
    parser.add_argument("--again", action="store_true", help="also grade what has not changed since the last time")
    share = "judge a share of the class, while others are judged elsewhere; grade without --share afterwards"
    parser.add_argument("--share", metavar="NUMBER/TOTAL|array", type=_share, help=share)
    more = "that many times as much time as others, such as ada=3; kept for the next time"
    parser.add_argument(
        "--time-for", metavar="NAME=TIMES", type=_times, nargs="+", action="extend", default=[], help=more
    )


def _share(text: str) -> ClassShare:
    """The share that "2/4" or, in a job array of Slurm's, "array" names."""
    try:
        return read_share(text, os.environ)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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
    """A whole number above 0, such as 3 for "3"."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")

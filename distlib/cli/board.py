"""`distlib board`: the own plays and the name on the page of the class; where there is a class, that page, too."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from distlib.classroom.board.class_board import ClassBoard, has_class, make_board
from distlib.classroom.board.own_board import own_board
from distlib.classroom.grader.course import Course, CourseError, course_above, open_course
from distlib.classroom.words import count
from distlib.cli.saying import say
from distlib.games.my_games import FILE, PlaysUnreadable, games_folder, keep_pseudonym, read_games
from distlib.games.pseudonyms import PseudonymError, check_pseudonym
from distlib.living_line import waiting
from distlib.printable import printable
from distlib.whole_file import make_private


def board(options: argparse.Namespace) -> int:
    """Show own plays, and make the page where there is a class. Returns 0; 1 if something should be looked at.

    Whoever studies alone has the solutions as well; a class is where something was handed in, or students are known.

    options: pseudonym, leave, jobs, course; see `distlib board --help`.
    """
    if options.leave or options.pseudonym is not None:
        return _told(_rename, options)
    root = (options.course or course_above(Path.cwd())).resolve()
    try:
        course = open_course(root) if (root / "solutions").is_dir() else None
    except CourseError as error:
        say(printable(str(error)), sys.stderr)
        return 1
    if course is None or not has_class(course):
        return _told(_show, options)
    mine = _told(_show, options) if (_folder(options) / FILE).exists() else 0
    return max(mine, _of_class(course, options.jobs))


def _told(what: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> int:
    """Do something with the own plays. Returns 0; 1 after an error, which is printed."""
    try:
        what(options)
        return 0
    except (PlaysUnreadable, PseudonymError) as error:
        say(f"{error}.", sys.stderr)
    except OSError as error:
        say(f"{error.filename}: {error.strerror}", sys.stderr)
    return 1


# ── a student ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _folder(options: argparse.Namespace) -> Path:
    return games_folder((options.course or Path.cwd()).resolve())


def _rename(options: argparse.Namespace) -> None:
    folder, name = _folder(options), "" if options.leave else check_pseudonym(options.pseudonym)
    make_private(folder)
    if said := keep_pseudonym(folder, name):
        say(said)
    who = f"you are {name}" if name else "you are there no longer"
    say(f"On the board of the class {who}, as soon as your instructor has your next hand-in: distlib hand-in games")


def _show(options: argparse.Namespace) -> None:
    games = read_games(_folder(options))
    with waiting("the authors' records, which are played again"):
        shown = own_board(games)
    say(shown)


# ── a class ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_class(course: Course, jobs: int) -> int:
    try:
        made = make_board(course, jobs, _tell)
    except CourseError as error:
        say(printable(str(error)), sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("\nStopped. The board is as it was.", sys.stderr)
        return 130
    say(_summary(made))
    return 1 if made.problems else 0


def _tell(done: int, total: int) -> None:
    """A line that changes, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[Kreplayed {done} of {total}" + ("\r\x1b[K" if done == total else ""))
        sys.stderr.flush()


def _summary(made: ClassBoard) -> str:
    lines = [
        f"{printable(student)}: {printable(problem)}" for student, found in made.problems.items() for problem in found
    ]
    if not made.students:
        lines.append("Nobody has handed in plays yet: distlib hand-in games, then distlib collect games UPLOADS.")
    on_it = f"{made.names} of {count(made.students, 'student')} on the board"
    plays = f"{count(made.plays, 'play')}, of which {made.replayed} differ and were replayed"
    plays += f"; {count(made.trainings, 'training')} from graded exercises" * bool(made.trainings)
    return "\n".join([*lines, f"{on_it}; {plays}.", f"to open in a browser:  {made.page.as_uri()}"])

"""`distlib board`: for an instructor the page of the class, for a student the own plays and the name on that page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from distlib.classroom.board.class_board import ClassBoard, make_board
from distlib.classroom.board.own_board import own_board
from distlib.classroom.grader.course import CourseError, course_above, open_course
from distlib.classroom.words import count
from distlib.cli.saying import say
from distlib.games.my_games import PlaysUnreadable, games_folder, keep_pseudonym, read_games
from distlib.games.pseudonyms import PseudonymError, check_pseudonym
from distlib.printable import printable


def board(options: argparse.Namespace) -> int:
    """Make the page, or show a student's own plays. Returns 0; 1 if something should be looked at.

    options: pseudonym, leave, jobs, course; see `distlib board --help`.
    """
    root = (options.course or course_above(Path.cwd())).resolve()
    if (root / "solutions").is_dir() and options.pseudonym is None and not options.leave:
        return _of_class(root, options.jobs)
    try:
        return _of_student(options)
    except (PlaysUnreadable, PseudonymError) as error:
        say(f"{error}.", sys.stderr)
    except OSError as error:
        say(f"{error.filename}: {error.strerror}", sys.stderr)
    return 1


# ── a student ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_student(options: argparse.Namespace) -> int:
    folder = games_folder((options.course or Path.cwd()).resolve())
    if options.leave or options.pseudonym is not None:
        name = "" if options.leave else check_pseudonym(options.pseudonym)
        folder.mkdir(exist_ok=True)
        if said := keep_pseudonym(folder, name):
            say(said)
        who = f"you are {name}" if name else "you are there no longer"
        say(f"On the board of the class {who}, as soon as your instructor has your next hand-in: distlib hand-in games")
        return 0
    say(own_board(read_games(folder)))
    return 0


# ── a class ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_class(root: Path, jobs: int) -> int:
    try:
        made = make_board(open_course(root), jobs, _tell)
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
    return "\n".join([*lines, f"{on_it}; {plays}.", f"to open in a browser:  {made.page.as_uri()}"])

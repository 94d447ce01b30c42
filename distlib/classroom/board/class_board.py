"""The board of a class, from what was handed in, and what the judge has measured, to the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distlib.classroom.board.board_page import board_html
from distlib.classroom.board.class_plays import StudentPlays, read_class
from distlib.classroom.board.graded_trainings import read_trainings
from distlib.classroom.board.pseudonym_owners import award, keep_held, read_held
from distlib.classroom.board.standings import BoardRun, standings
from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.register.class_register import classroom_of
from distlib.classroom.register.known_students import students_in_table, ways_of_writing
from distlib.classroom.words import count
from distlib.games.game_list import all_games
from distlib.games.handed_plays import HandedPlay
from distlib.games.replays import GameReplay, replay_plays
from distlib.whole_file import write_file

_HELD = "pseudonyms.json"
_MOST_PROBLEMS = 8  # of one student


@dataclass(frozen=True)
class ClassBoard:
    """What came of it.

    Attributes:
        page: where the page is.
        students: how many have handed in plays that can be replayed, or have a training that counts.
        names: how many of them appear on it.
        plays, replayed: how many plays there are, and how many distinct ones.
        trainings: how many trainings count, by students and settings.
        problems: by student, what the instructor should know; students without any are left out.
    """

    page: Path
    students: int
    names: int
    plays: int
    replayed: int
    trainings: int
    problems: dict[str, tuple[str, ...]]


def has_class(course: Course) -> bool:
    """Whether a folder of the course is that of a class: with collected plays, a list of students or a gradebook."""
    gradebook = course.settings.db_url.removeprefix("sqlite:///")
    files = [classroom_of(course) / "students.csv", Path(gradebook)]
    return any(path.exists() for path in files) or "://" in gradebook or bool(read_class(course))


def make_board(
    course: Course, jobs: int = 1, tell: Callable[[int, int], None] = lambda done, total: None
) -> ClassBoard:
    """Play what was handed in again, and write the page.

    Args:
        course: the course.
        jobs: how many replays at a time.
        tell: called with how many replays are done, of how many.

    Raises:
        CourseError: a file of the class can't be read or written.
    """
    folder = classroom_of(course)
    students = read_class(course)
    try:
        held, written = read_held(folder / _HELD), _names_in(course, students)
    except (OSError, ValueError) as error:
        raise CourseError(f"{course.name(folder)}: {_HELD} can't be used: {error}") from None
    games = all_games()
    records = {
        (game.name, level): HandedPlay(game.name, level, json.dumps(game.record(level), sort_keys=True))
        for game in games.values()
        for level in game.levels
    }
    plays = [play for each in students for play in each.plays]
    replays = replay_plays([*plays, *records.values()], jobs=jobs, tell=tell)
    trainings = read_trainings(course)
    runs = [*_runs_of_plays(students, replays), *(run for each in trainings for run in each.runs)]
    playing = {run.student for run in runs}  # only what counts earns a name: else one could take any number of them
    names, refused = award([each for each in students if each.student in playing], held, written)
    tables = standings([*games.values(), *(each.game for each in trainings)], runs, names)
    scores = {of: score for of, play in records.items() if (score := replays[play].score) is not None}
    there = {each.student for each in students if each.plays} | playing
    shown = playing & names.keys()
    html = board_html(tables, scores, len(there - names.keys()))
    try:
        write_file(page := folder / "board" / "board.html", html.encode())
        keep_held(folder / _HELD, held, names)
    except OSError as error:
        raise CourseError(f"{error.filename}: {error.strerror}") from None
    problems = {each.student: list(_problems(each, replays, refused)) for each in students}
    for each in trainings:
        for student, problem in each.problems.items():
            problems.setdefault(student, []).append(problem)
    told = {student: folded(found) for student, found in problems.items() if found}
    measured = sum(len(each.runs) for each in trainings)
    return ClassBoard(page, len(there), len(shown), len(plays), len(set(plays)), measured, told)


def folded(problems: Sequence[str]) -> tuple[str, ...]:
    """Each problem once, with how often it is there, and of many the first ones."""
    lines = [line + (f" ({number} times)" if number > 1 else "") for line, number in Counter(problems).items()]
    more = len(lines) - _MOST_PROBLEMS
    return (*lines[:_MOST_PROBLEMS], *([f"and {count(more, 'other problem')}"] if more > 0 else []))


def _runs_of_plays(students: Sequence[StudentPlays], replays: Mapping[HandedPlay, GameReplay]) -> Iterator[BoardRun]:
    for each in students:
        for play in each.plays:
            run = replays[play]
            if run.score is not None:
                yield BoardRun(each.student, play.game, play.level, run.score, play.choices, run.svg, run.alt)


def _names_in(course: Course, students: list[StudentPlays]) -> dict[str, list[str]]:
    """The ways in which names of the class are written, by student; a student without a row has the folder's."""
    names: dict[str, list[str]] = {each.student: [] for each in students}
    for known, row in (students_in_table(course) or {}).items():
        names.setdefault(known, []).extend(ways_of_writing(row))
    return names


def _problems(each: StudentPlays, replays: dict[HandedPlay, GameReplay], refused: dict[str, str]) -> tuple[str, ...]:
    games = all_games()
    unplayed = [
        f"{games[play.game].title}, level {play.level}: {problem}"
        for play in each.plays
        if (problem := replays[play].problem)
    ]
    return (*each.problems, *unplayed, *filter(None, [refused.get(each.student)]))

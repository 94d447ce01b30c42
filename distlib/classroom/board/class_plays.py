"""What the students of a class have handed in of the games: by `distlib hand-in games`, or with exercises.

    classroom/submitted/ada/games/games.ipynb              from uploads
    classroom/submitted/ada/02_all_reduce/my_games.json    from nbgrader's exchange

All plays of a student count, whatever file they are in: a later one takes nothing away. The pseudonym is that of the
file that was made last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.submission import read_timestamp
from distlib.games.handed_plays import ASSIGNMENT, BESIDES, HandedGames, HandedPlay, NotPlays, read_handed
from distlib.games.replays import why_unknown


@dataclass(frozen=True)
class StudentPlays:
    """What a student has handed in.

    Attributes:
        student: the name of the folder.
        plays: each distinct one once, of games and levels that there are.
        pseudonym: as it was handed in, not checked.
        time: when the plays were handed in, if that is known.
        problems: what the instructor should know, each with the file.
    """

    student: str
    plays: tuple[HandedPlay, ...]
    pseudonym: str
    time: datetime | None
    problems: tuple[str, ...]


def read_class(course: Course) -> list[StudentPlays]:
    """Of each student who has handed in plays, or something that should be some."""
    submitted = course.folder("submitted", "x", ASSIGNMENT).parents[1]
    folders = sorted(submitted.iterdir()) if submitted.is_dir() else []
    return [plays for folder in folders if (plays := _read_student(folder))]


def _read_student(folder: Path) -> StudentPlays | None:
    if folder.is_symlink():
        return StudentPlays(folder.name, (), "", None, ("the folder is a link; links are not followed",))
    files = list(_files(folder))
    if not files:
        return None
    read, problems = list[HandedGames](), list[str]()
    for path in files:
        name = path.relative_to(folder).as_posix()
        try:
            read.append(read_handed(path))
        except NotPlays as error:
            problems.append(f"{name}: {error}")
        else:
            problems += [f"{name}: {problem}" for problem in read[-1].problems]
    plays, unknown = _known_plays(read)
    last = max(read, key=lambda games: games.made, default=HandedGames())
    time = read_timestamp(folder / ASSIGNMENT)[0]
    return StudentPlays(folder.name, plays, last.pseudonym, time, tuple(problems + unknown))


def _files(folder: Path) -> Iterator[Path]:
    """Where plays may be; also links and pipes of such names, which are named."""
    if not folder.is_dir():
        return
    for below in sorted(folder.iterdir()):
        names = [f"{ASSIGNMENT}.ipynb"] if below.name == ASSIGNMENT else []
        if below.is_dir() and not below.is_symlink():
            yield from (path for name in [*names, BESIDES] if (path := below / name).is_symlink() or path.exists())
        elif names:
            yield below


def _known_plays(read: Sequence[HandedGames]) -> tuple[tuple[HandedPlay, ...], list[str]]:
    """The plays of games that there are, each once, at most one per level and file; and why others are none."""
    plays, problems = dict[HandedPlay, None](), list[str]()
    for games in read:
        levels = set[tuple[str, int]]()
        for play in games.plays:
            if why := why_unknown(play):
                problems.append(why)
            elif (play.game, play.level) in levels:
                problems.append(f"{play.game}, level {play.level}: it stands there twice, and the first one counts")
            else:
                levels.add((play.game, play.level))
                plays[play] = None
    return tuple(plays), problems

"""A student's best play of each game and level, in a file that the student can read: work/my_games.json.

    {"format": 1, "about": "…", "pseudonym": null,
     "plays": [{"game": "grid", "level": 1, "choices": {"rows": ["F0 F1 B0 B1", "F0 B0 F1 B1"]},
                "score": 20, "unit": "points", "at": "2026-11-27T13:20:00+00:00", "by": "cell", …}]}

Only lessons and `distlib board` write it, and nothing sends it. Scores and titles stand in it for the student, and for
nobody else: whoever gets the choices plays them again.

The file is replaced at once, so a reader never sees half of it. One that can't be read, or is of a newer version of the
course, is set aside under another name before a new one is begun.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from distlib.course_root import course_folder
from distlib.whole_file import write_file

FILE = "my_games.json"
FORMAT = 1
MOST_BYTES = 1 << 20
_MOST_EARLIER = 50

_REPLACED = {("golf", name) for name in ("the states", "long texts", "a slow network", "little room", "everything")}
"""Levels of earlier versions. Their choices and seconds say nothing about the level that has their number now."""

EARLIER = "earlier "
"""In front of the name of a game whose level was replaced: the play is kept, and compared with no other."""

_ABOUT = (
    "Your best play of each game and level, kept by the lessons of the course. Nothing sends this file. "
    "To see it: distlib board. Whoever gets your choices plays them again: scores count for you alone."
)


class PlaysUnreadable(ValueError):
    """The file is torn, or of a newer version. The message says which, and names it."""


@dataclass(frozen=True)
class BestPlay:
    """The best play of a game's level.

    Attributes:
        game: its short name, such as "grid".
        title: such as "Fill the grid".
        lesson: where it is played, such as "09_pipeline".
        level, level_name: from 1 on, and its name.
        score, unit: what it got, such as 23 points.
        less_is_better: whether a lower score is better, as of seconds.
        par: the score that is par.
        at: when it was played, in ISO 8601 with a time zone.
        choices: what was chosen, as JSON has it. Of a training it is empty: what was chosen there is a program.
        earlier: what was the best before, the latest last: when, and its score.
        by: how the student has chosen it, see `who_chose`; "" in files of earlier versions, which noted plays of the
            course's own cells as well.
    """

    game: str
    title: str
    lesson: str
    level: int
    level_name: str
    score: float
    unit: str
    less_is_better: bool
    par: float
    at: str
    choices: dict[str, Any] = field(hash=False)
    earlier: tuple[tuple[str, float], ...] = ()
    by: str = ""

    @property
    def key(self) -> tuple[str, int, bool]:
        """What there is one best play of: a level, and whether it is known who has chosen."""
        return self.game, self.level, bool(self.by)

    def beats(self, other: BestPlay) -> bool:
        """Whether this is better than another play of the same level."""
        return self.score < other.score if self.less_is_better else self.score > other.score


@dataclass(frozen=True)
class MyGames:
    """What the file holds.

    Attributes:
        plays: in the order of games and levels.
        pseudonym: the name that the student has chosen for the board of the class; "" if none.
    """

    plays: tuple[BestPlay, ...] = ()
    pseudonym: str = ""

    @property
    def to_play_again(self) -> tuple[BestPlay, ...]:
        """The best of each level with choices. Only these are handed in; trainings are graded with their exercise."""
        best: dict[tuple[str, int], BestPlay] = {}
        for play in self.plays:
            level = play.game, play.level
            is_earlier = play.game.startswith(EARLIER)
            if play.choices and not is_earlier and (level not in best or play.beats(best[level])):
                best[level] = play
        return tuple(best.values())

    def with_play(self, play: BestPlay) -> MyGames:
        """The same with a play, if that is the first or the best of its level; else this.

        Of what an earlier version has kept nobody knows who has chosen it. It stays next to what the student chooses.
        """
        before = next((each for each in self.plays if each.key == play.key), None)
        if before and not play.beats(before):
            return self
        if before:
            earlier = (*before.earlier, (before.at, before.score))
            play = replace(play, earlier=earlier[-_MOST_EARLIER:])
        plays = sorted([each for each in self.plays if each != before] + [play], key=lambda e: (e.lesson, e.level))
        return replace(self, plays=tuple(plays))


def games_folder(start: Path) -> Path:
    """The folder with a student's plays: work/ of the course that `start` is in, else `start`."""
    course = course_folder(start)
    return course / "work" if course else start


def is_kept_in(start: Path) -> bool:
    """Whether what is played in `start` is kept: not in the course itself, where authors work, outside of work/."""
    course = course_folder(start)
    return course is None or start.is_relative_to(course / "work")


def best_plays(folder: Path) -> tuple[BestPlay, ...]:
    """The best plays of a student, in the order of lessons and levels; none if there is no file.

    Args:
        folder: the student's own folder, work/ in a course.

    Raises:
        PlaysUnreadable: see there. The file stays as it is.
    """
    return read_games(folder).plays


def read_games(folder: Path) -> MyGames:
    """As `best_plays`, with the pseudonym.

    Raises:
        PlaysUnreadable: as there.
    """
    path = folder / FILE
    try:
        if not path.exists():
            return MyGames()
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise PlaysUnreadable(f"{FILE} is not a file of plays")
        return _games_in(json.loads(path.read_bytes()))
    except PlaysUnreadable:
        raise
    except OSError as error:
        raise PlaysUnreadable(f"{FILE} can't be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise PlaysUnreadable(f"{FILE} is torn: it does not hold what the lessons write") from None


def _games_in(data: Any) -> MyGames:
    number = data["format"]
    if isinstance(number, int) and number > FORMAT:
        raise PlaysUnreadable(f"{FILE} is of a newer version of the course (format {number}, here {FORMAT})")
    plays = tuple(_play_in(each) for each in data["plays"])
    pseudonym = data["pseudonym"] or ""
    if number != FORMAT or not isinstance(pseudonym, str):
        raise ValueError
    return MyGames(plays, pseudonym)


def _play_in(data: dict[str, Any]) -> BestPlay:
    earlier = tuple((at, score) for at, score in data["earlier"])
    known = {name: data[name] for name in BestPlay.__dataclass_fields__ if name not in ("earlier", "by")}
    play = BestPlay(**known, earlier=earlier, by=data.get("by", ""))
    if (play.game, play.level_name) in _REPLACED:
        play = replace(play, game=f"{EARLIER}{play.game}", title=f"{play.title}, earlier levels")
    texts = (play.game, play.title, play.lesson, play.level_name, play.unit, play.at, play.by)
    numbers = (play.level, play.score, play.par, *(score for _, score in earlier))
    if not all(isinstance(each, str) for each in texts) or not isinstance(play.choices, dict):
        raise TypeError
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in numbers):
        raise TypeError
    for at in (play.at, *(at for at, _ in earlier)):
        datetime.fromisoformat(at)
    return play


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def keep_best(folder: Path, plays: Sequence[BestPlay]) -> str:
    """Keep plays that are the first or the best of their level.

    Returns what the student should know: that an unreadable file was set aside; "" if there is nothing.

    Raises:
        OSError: the file can't be written.
    """
    with _alone(folder):
        games, said = _to_go_on_with(folder)
        new = games
        for play in plays:
            new = new.with_play(play)
        if new != games or said:
            _write(folder, new)
    return said


def keep_pseudonym(folder: Path, pseudonym: str) -> str:
    """Keep the name that the student has chosen for the board, "" for none. Returns and raises as `keep_best`."""
    with _alone(folder):
        games, said = _to_go_on_with(folder)
        _write(folder, replace(games, pseudonym=pseudonym))
    return said


def _to_go_on_with(folder: Path) -> tuple[MyGames, str]:
    """What is there, or nothing and where that was put which could not be read."""
    try:
        return read_games(folder), ""
    except PlaysUnreadable as error:
        aside = _set_aside(folder / FILE)
        return MyGames(), f"{error}. It is kept as {aside.name}, and a new one was begun."


def _set_aside(path: Path) -> Path:
    aside = next(
        other for n in range(1, 10_000) if not (other := path.with_name(f"{path.stem} (set aside {n}).json")).exists()
    )
    path.rename(aside)
    return aside


def _write(folder: Path, games: MyGames) -> None:
    data = {"format": FORMAT, "about": _ABOUT, "pseudonym": games.pseudonym or None}
    text = json.dumps(data | {"plays": [asdict(play) for play in games.plays]}, indent=1, ensure_ascii=False)
    write_file(folder / FILE, f"{text}\n".encode())


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two lessons may end a play at the same moment: one writes after the other."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""From scores to places: a table for each level of each game. Equal scores share a place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.classroom.board.class_plays import StudentPlays
from distlib.games.course_game import CourseGame
from distlib.games.handed_plays import HandedPlay
from distlib.games.replays import GameReplay


@dataclass(frozen=True)
class BoardPlace:
    """Those who share a place.

    Attributes:
        place: from 1 on; after two who share place 1 comes place 3.
        names: pseudonyms, in the order of the alphabet.
        score: what they reached.
        run: of one of them, with its picture.
        ways: by how many different choices they reached it.
    """

    place: int
    names: tuple[str, ...]
    score: float
    run: GameReplay
    ways: int


@dataclass(frozen=True)
class LevelTable:
    """The places of a level.

    Attributes:
        game, level: which.
        places: the best first.
        others: how many students play it without a pseudonym.
    """

    game: CourseGame[Any]
    level: int
    places: tuple[BoardPlace, ...]
    others: int


def standings(
    games: Sequence[CourseGame[Any]],
    students: Sequence[StudentPlays],
    replays: Mapping[HandedPlay, GameReplay],
    names: Mapping[str, str],
) -> list[LevelTable]:
    """The tables of all levels, in the order of the games.

    Args:
        games: all of them.
        students: what they have handed in.
        replays: of all their plays.
        names: the pseudonyms of those who have one.
    """
    return [
        _level_table(
            game, level, [(each.student, _best(game, level, each, replays)) for each in students], names, replays
        )
        for game in games
        for level in game.levels
    ]


def _best(
    game: CourseGame[Any], level: int, student: StudentPlays, replays: Mapping[HandedPlay, GameReplay]
) -> HandedPlay | None:
    """The student's best play of a level; the first in the order of its text, where several are equal."""
    plays = [each for each in student.plays if (each.game, each.level) == (game.name, level)]
    scored = [
        (game.in_order(score), each.choices, each) for each in plays if (score := replays[each].score) is not None
    ]
    return min(scored, key=lambda one: one[:2])[2] if scored else None


def _level_table(
    game: CourseGame[Any],
    level: int,
    best: Sequence[tuple[str, HandedPlay | None]],
    names: Mapping[str, str],
    replays: Mapping[HandedPlay, GameReplay],
) -> LevelTable:
    played = [(student, play) for student, play in best if play]
    by_score: dict[float, list[tuple[str, HandedPlay]]] = defaultdict(list)
    for student, play in played:
        score = replays[play].score
        if student in names and score is not None:
            by_score[score].append((names[student], play))
    places, before = list[BoardPlace](), 0
    for score in sorted(by_score, key=game.in_order):
        of_score = by_score[score]
        runs = sorted({play.choices: play for _, play in of_score}.items())
        who = tuple(sorted((name for name, _ in of_score), key=lambda name: (name.casefold(), name)))
        places.append(BoardPlace(before + 1, who, score, replays[runs[0][1]], len(runs)))
        before += len(of_score)
    return LevelTable(game, level, tuple(places), len(played) - before)

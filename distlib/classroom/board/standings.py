"""From scores to standings: a table for each level of each game. Equal scores share a position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from distlib.games.course_game import ScoredGame


@dataclass(frozen=True)
class BoardRun:
    """A run of a student's that counts.

    Attributes:
        student: the name of the folder.
        game, level: which.
        score: what it reached.
        made_of: what it came from, such as the choices, as text. Runs with equal texts are the same.
        svg, alt: its picture, and that in words.
    """

    student: str
    game: str
    level: int
    score: float
    made_of: str
    svg: str
    alt: str


@dataclass(frozen=True)
class BoardStanding:
    """Those who share a position.

    Attributes:
        position: from 1 on; after two who share position 1 comes position 3.
        names: pseudonyms, in the order of the alphabet.
        run: of one of them, with the score and its picture.
        ways: by how many different runs they reached it.
    """

    position: int
    names: tuple[str, ...]
    run: BoardRun
    ways: int


@dataclass(frozen=True)
class LevelTable:
    """The standings of a level.

    Attributes:
        game, level: which.
        standings: the best first.
        others: how many students have a score and no pseudonym.
    """

    game: ScoredGame
    level: int
    standings: tuple[BoardStanding, ...]
    others: int


def standings(games: Sequence[ScoredGame], runs: Iterable[BoardRun], names: Mapping[str, str]) -> list[LevelTable]:
    """The tables of all levels, in the order of the games.

    Args:
        games: all of them.
        runs: of all students; of several of one student and level the best counts.
        names: the pseudonyms of those who have one.
    """
    by_level: dict[tuple[str, int], list[BoardRun]] = defaultdict(list)
    for run in runs:
        by_level[run.game, run.level].append(run)
    return [_level_table(game, level, by_level[game.name, level], names) for game in games for level in game.levels]


def _level_table(game: ScoredGame, level: int, runs: Sequence[BoardRun], names: Mapping[str, str]) -> LevelTable:
    best: dict[str, BoardRun] = {}  # the first in the order of the texts, where several are equal
    for run in sorted(runs, key=lambda run: (game.in_order(run.score), run.made_of)):
        best.setdefault(run.student, run)
    by_score: dict[float, list[BoardRun]] = defaultdict(list)
    for run in best.values():
        if run.student in names:
            by_score[run.score].append(run)
    found, before = list[BoardStanding](), 0
    for score in sorted(by_score, key=game.in_order):
        of_score = by_score[score]
        who = sorted((names[run.student] for run in of_score), key=lambda name: (name.casefold(), name))
        different = {run.made_of: run for run in of_score}
        found.append(BoardStanding(before + 1, tuple(who), different[min(different)], len(different)))
        before += len(of_score)
    return LevelTable(game, level, tuple(found), len(best) - before)

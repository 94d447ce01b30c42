"""The page of the board: one file that loads nothing and runs nothing, the same to the bit for the same plays.

Each score has the picture of its run, as long as the pictures of a level take no more than its part of `MOST_PICTURES`;
the best come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby

from markupsafe import Markup, escape

from distlib.classroom.board.standings import BoardRun, BoardStanding, LevelTable
from distlib.classroom.pages import render
from distlib.games.course_game import ScoredGame

MOST_PICTURES = 3_000_000  # bytes of the whole page


@dataclass(frozen=True)
class _BoardRow:
    """A line of a table: its position, pseudonyms, score, how that is to par, and the picture of its run."""

    position: int
    names: tuple[str, ...]
    score: str
    verdict: str
    ways: int
    picture: Markup | None


@dataclass(frozen=True)
class _LevelSection:
    """A level as the page shows it."""

    level: int
    name: str
    par: str
    record: str | None
    rows: list[_BoardRow]
    others: int


def board_html(tables: Sequence[LevelTable], records: Mapping[tuple[str, int], float], left: int) -> str:
    """The page.

    Args:
        tables: of all levels, by game.
        records: the authors' scores, by game and level, where there are such.
        left: how many students have handed in runs that count, or plays, and do not appear.
    """
    room = MOST_PICTURES // max(1, len(tables))
    numbers = count()
    games = [
        (game, [_section(table, records.get((game.name, table.level)), room, numbers) for table in of_game])
        for game, of_game in groupby(tables, key=lambda table: table.game)
    ]
    shown = {name for table in tables for standing in table.standings for name in standing.names}
    return render("board.html", games=games, shown=len(shown), left=left)


def _section(table: LevelTable, record: float | None, room: int, numbers: Iterator[int]) -> _LevelSection:
    game, rows = table.game, list[_BoardRow]()
    for standing in table.standings:
        svg = standing.run.svg
        fits = len(svg.encode()) <= room
        room -= len(svg.encode()) if fits else room  # after the first that does not fit there is no other one
        rows.append(_row(game, table.level, standing, _picture(standing.run, next(numbers)) if fits else None))
    par = game.in_words(game.par(table.level))
    record_in_words = None if record is None else game.in_words(record)
    return _LevelSection(table.level, game.levels[table.level], par, record_in_words, rows, table.others)


def _row(game: ScoredGame, level: int, standing: BoardStanding, picture: Markup | None) -> _BoardRow:
    score, par = game.in_order(standing.run.score), game.in_order(game.par(level))
    verdict = "better than par" if score < par else "par" if score == par else ""
    return _BoardRow(
        standing.position, standing.names, game.in_words(standing.run.score), verdict, standing.ways, picture
    )


def _picture(run: BoardRun, number: int) -> Markup:
    """The drawing, whose hatchings have names of its own: those of a picture that is hidden would not be found."""
    svg = run.svg.replace("hatch-", f"hatch-{number}-").replace("<svg ", "<svg aria-hidden='true' ", 1)
    return Markup('<div class="wide" role="img" aria-label="{}" tabindex="0">{}</div>').format(
        escape(run.alt), Markup(svg)
    )

"""What a student sees alone: of every level par, the authors' record and the own best, and how that came about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from distlib.classroom.my_course.evidence import chosen_by_hand
from distlib.classroom.words import count
from distlib.games.game_list import all_games
from distlib.games.my_games import BestPlay, MyGames


def own_board(games: MyGames) -> str:
    """The table, as text: a line for each level that there is."""
    mine = {(play.game, play.level): play for play in (*_of_unknown_choice(games), *chosen_by_hand(games.plays))}
    rows = [row for game in all_games() for row in _rows(game, mine)]
    rows += [_row_of_training(play) for play in games.plays if play.game not in all_games()]
    widths = [max(len(row[column]) for _, row in rows) for column in range(4)]
    lines = list[str]()
    for title, of_game in groupby(rows, key=lambda row: row[0]):
        head = ["", "mine", "par", "record"]
        lines += ["", title, *(_line(each, widths) for each in [head, *(row for _, row in of_game)])]
    return "\n".join([_sentence(games), *lines])


def _rows(name: str, mine: dict[tuple[str, int], BestPlay]) -> Iterator[tuple[str, Sequence[str]]]:
    game = all_games()[name]
    for level, words in game.levels.items():
        record = game.score(game.play(level, game.record(level)))
        assert record is not None
        play = mine.get((name, level))
        cells = [game.in_words(play.score) if play else "–", game.in_words(game.par(level)), game.in_words(record)]
        yield f"{game.title}, lesson {game.lesson}", [f"{level} {words}", *cells, _history(play)]


def _row_of_training(play: BestPlay) -> tuple[str, Sequence[str]]:
    cells = [f"{play.score:,.3f} {play.unit}", f"{play.par:,.3f} {play.unit}", "–"]
    return f"{play.title}, lesson {play.lesson}", [f"{play.level} {play.level_name}", *cells, _history(play)]


def _history(play: BestPlay | None) -> str:
    """When it was played, and what was the best before."""
    if play is None:
        return ""
    earlier = [f"{score:g}" for _, score in play.earlier[-3:]]
    when = play.at[:10] + (f", before: {', '.join(earlier)}" if earlier else "")
    return when if chosen_by_hand([play]) else f"{when}, kept by an earlier version: who chose it was not noted"


def _of_unknown_choice(games: MyGames) -> list[BestPlay]:
    return [play for play in games.plays if not chosen_by_hand([play])]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers = cells[:4]
    aligned = [
        f"  {first:<{widths[0]}}",
        *(f"{each:>{width}}" for each, width in zip(numbers, widths[1:], strict=True)),
    ]
    return "   ".join([*aligned, *cells[4:]]).rstrip()


def _sentence(games: MyGames) -> str:
    chosen = chosen_by_hand(games.plays)
    played = f"You have played {count(len(chosen), 'level')}." if chosen else "You have not played yet."
    if games.pseudonym:
        return f"{played} On the board of the class you are {games.pseudonym}, from your next distlib hand-in games on."
    return f"{played} You are not on the board of the class; to be on it: distlib board --as NAME"

"""Plays of the games that go to nbgrader's exchange with an exercise: a file next to the notebook, which is copied.

Only of a student who has chosen a name for the board: nothing is sent that was not asked for.
"""

from __future__ import annotations

from pathlib import Path

from distlib.games.handed_plays import BESIDES, plays_to_hand_in
from distlib.games.my_games import PlaysUnreadable, games_folder, read_games


def put_plays_besides(notebook: Path, original: Path) -> None:
    """Put the plays next to a notebook that is about to be submitted, if its student is on the board.

    Args:
        notebook: the copy that is submitted.
        original: the student's notebook; the plays are those of its course.

    Raises:
        OSError: they can't be written.
    """
    try:
        games = read_games(games_folder(original.parent))
    except PlaysUnreadable:
        return  # the exercise is handed in all the same; `distlib board` tells about the file
    if games.pseudonym:
        (notebook.parent / BESIDES).write_text(plays_to_hand_in(games), encoding="utf-8")

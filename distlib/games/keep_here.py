"""Keeping a play in the student's file, from the folder where a notebook runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from distlib.games.my_games import BestPlay, games_folder, is_kept_in, keep_best


def keep_here(make_play: Callable[[], BestPlay | None]) -> None:
    """Keep a play, if it is the best of its level, where that is right; what hinders it is printed.

    make_play: makes the play, None if it does not count. It is called only where plays are kept.
    """
    here = Path.cwd()
    if not is_kept_in(here) or (play := make_play()) is None:
        return
    folder = games_folder(here)
    try:
        said = keep_best(folder, [play])
    except OSError as error:
        said = f"This play is not kept: {error.filename or folder}: {error.strerror}"
    if said:
        print(said)

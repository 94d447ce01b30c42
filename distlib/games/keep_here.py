"""Keeping a play in the student's file, from the folder where a notebook runs."""

from __future__ import annotations

from pathlib import Path

from distlib.games.my_games import BestPlay, games_folder, is_kept_in, keep_best


def keep_here(play: BestPlay) -> None:
    """Keep a play, if it is the best of its level, where that is right; what hinders it is printed."""
    here = Path.cwd()
    if not is_kept_in(here):
        return
    folder = games_folder(here)
    try:
        said = keep_best(folder, [play])
    except OSError as error:
        said = f"This play is not kept: {error.filename or folder}: {error.strerror}"
    if said:
        print(said)

"""Handing in plays of the games: a file to upload, made of the student's best plays. It holds choices, no scores."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from distlib.classroom.uploads.hand_in import Ask, HandInError, name_of_student
from distlib.classroom.uploads.upload_folder import UploadFolder
from distlib.classroom.words import count
from distlib.games.handed_plays import ASSIGNMENT, plays_notebook
from distlib.games.my_games import FILE, BestPlay, PlaysUnreadable, games_folder, read_games


@dataclass(frozen=True)
class GamesReceipt:
    """What was made: shows itself as text.

    Attributes:
        file: what is to be uploaded.
        plays: that are in it.
        pseudonym: "" if the student does not want to be on the board.
    """

    file: Path
    plays: Sequence[BestPlay]
    pseudonym: str

    def __str__(self) -> str:
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        alone = "You are not on the board of the class: distlib board --as NAME gives you a name there."
        on_board = f"On the board of the class you appear as {self.pseudonym}." if self.pseudonym else alone
        what = f"your best plays of {count(len(self.plays), 'level')}" if self.plays else "no play of yours"
        return "\n".join(
            [
                f"Made a file to upload, with {what}:",
                f"    {self.file}",
                f"SHA-256   {digest}",
                on_board,
            ]
        )


def hand_in_games(student: str = "", start: Path | None = None, ask: Ask = input) -> GamesReceipt:
    """Make the file to upload.

    Args:
        student: a name or a student number; asked for if it is not known from an earlier time.
        start: a folder in the course, by default the current one.
        ask: asks a question, and returns what is typed.

    Raises:
        HandInError: there are no plays, or no file could be made.
    """
    folder = games_folder((start or Path.cwd()).resolve())
    try:
        games = read_games(folder)
    except PlaysUnreadable as error:
        raise HandInError(f"{folder}: {error}") from None
    if not (folder / FILE).exists():
        raise HandInError(f"there is no {folder / FILE} yet. The lessons with games keep your plays there.")
    uploads = UploadFolder(folder / FILE)
    try:
        with tempfile.TemporaryDirectory(prefix="distlib-hand-in-") as temporary:
            made = Path(temporary, f"{ASSIGNMENT}.ipynb")
            made.write_text(plays_notebook(games), encoding="utf-8")
            return GamesReceipt(
                uploads.write(made, name_of_student(uploads, student, ask)), games.to_play_again, games.pseudonym
            )
    except OSError as error:
        raise HandInError(f"{error.filename or folder}: {error.strerror or error}") from None

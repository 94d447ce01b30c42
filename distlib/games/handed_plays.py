"""The plays that a student hands in: choices, and no scores. Made from the student's file; read as a stranger's.

    games.ipynb     what `distlib hand-in games` makes: a notebook, which every learning platform takes, with a cell of
                    text for people, and one of JSON, which is read
    my_games.json   the same JSON, next to an exercise that goes to nbgrader's exchange; nbgrader only copies it

    {"distlib_games": 1, "made": "2026-12-01T…", "pseudonym": "Night Owl",
     "plays": [{"game": "grid", "level": 1, "choices": {…}}]}

Whose they are, the folder says that they were collected into. No name in the file counts.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distlib.games.choice_values import shown
from distlib.games.my_games import MyGames

ASSIGNMENT = "games"
BESIDES = "my_games.json"
FORMAT = 1
MOST_BYTES = 1 << 18  # of a file
MOST_PLAYS = 200
MOST_BYTES_OF_CHOICES = 8_000  # of one play; the longest schedule takes 700
TEXT = (
    "# My plays of the games\n\nThe cell below holds what I chose in the games of the course: my best play of each "
    "level. The board of the class plays it again to get the scores."
)
_ENTRY = {"game", "level", "choices"}


@dataclass(frozen=True)
class HandedPlay:
    """A play as it was handed in. Nothing of it has been checked but its size.

    Attributes:
        game, level: as they stand there, of any type.
        choices: as JSON on one line, keys sorted: equal choices have equal text.
    """

    game: Any
    level: Any
    choices: str


@dataclass(frozen=True)
class HandedGames:
    """What one file holds.

    Attributes:
        plays: in the file's order.
        pseudonym: as it stands there, not checked; "" if there is none.
        made: when, as it stands there, in ISO 8601; "" if it is not. Among files of one student the latest counts.
        problems: what the instructor should know.
    """

    plays: tuple[HandedPlay, ...] = ()
    pseudonym: str = ""
    made: str = ""
    problems: tuple[str, ...] = field(default=())


class NotPlays(ValueError):
    """A file from which no play can be read. The message says why."""


# ── a student's side ─────────────────────────────────────────────────────────────────────────────────────────────────


def plays_to_hand_in(games: MyGames) -> str:
    """The JSON that is handed in."""
    plays = [{"game": play.game, "level": play.level, "choices": play.choices} for play in games.to_play_again]
    made = datetime.now(UTC).isoformat(timespec="seconds")
    data = {"distlib_games": FORMAT, "made": made, "pseudonym": games.pseudonym or None, "plays": plays}
    return json.dumps(data, indent=1, ensure_ascii=False)


def plays_notebook(games: MyGames) -> str:
    """The same as a notebook."""
    cells = [
        {"cell_type": "markdown", "id": "text", "metadata": {}, "source": TEXT},
        {"cell_type": "raw", "id": "plays", "metadata": {}, "source": plays_to_hand_in(games)},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


# ── an instructor's side ─────────────────────────────────────────────────────────────────────────────────────────────


def read_handed(path: Path) -> HandedGames:
    """What a file holds, whatever a stranger has put there. No link is followed, and no pipe waited for.

    Raises:
        NotPlays: nothing can be read from it.
    """
    content = _content(path)
    try:
        data = json.loads(content)
        if path.suffix == ".ipynb":
            data = json.loads(_raw_cell(data))
        return _games_in(data)
    except NotPlays:
        raise
    except RecursionError:
        raise NotPlays("it is nested too deeply") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise NotPlays("it is torn, or holds no plays") from None


def _content(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotPlays("it is a link" if path.is_symlink() else f"it can't be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotPlays("it is not a file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MOST_BYTES:
        raise NotPlays(f"it has more than {MOST_BYTES >> 10} KiB")
    return content


def _raw_cell(notebook: Any) -> str:
    found = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "raw"]
    if len(found) != 1:
        raise NotPlays(f"expected one raw cell with the plays, got {len(found)}")
    return found[0] if isinstance(found[0], str) else "".join(found[0])


def _games_in(data: Any) -> HandedGames:
    number, entries = data["distlib_games"], data["plays"]
    if type(number) is not int or number != FORMAT:
        raise NotPlays(f"it has format {shown(number)}, and this version of the course reads {FORMAT}")
    if type(entries) is not list or len(entries) > MOST_PLAYS:
        raise NotPlays(f"expected a list of at most {MOST_PLAYS} plays, got {shown(entries)}")
    plays, problems = list[HandedPlay](), list[str]()
    for position, entry in enumerate(entries, start=1):
        play, said = _play_in(entry)
        plays += [play] if play else []
        problems += [f"play {position}: {each}" for each in said]
    pseudonym = data.get("pseudonym")
    if pseudonym is not None and type(pseudonym) is not str:
        problems.append(f"the pseudonym is not a text: {shown(pseudonym)}")
    return HandedGames(
        tuple(plays), pseudonym if type(pseudonym) is str else "", _time_in(data.get("made")), tuple(problems)
    )


def _time_in(made: Any) -> str:
    try:
        return datetime.fromisoformat(made).astimezone(UTC).isoformat()
    except (TypeError, ValueError, OverflowError):
        return ""


def _play_in(entry: Any) -> tuple[HandedPlay | None, list[str]]:
    """The play, if it is one, and what is odd about it."""
    if type(entry) is not dict or not entry.keys() >= _ENTRY:
        return None, [f"expected game, level and choices, got {shown(entry)}"]
    choices = entry["choices"]
    if type(choices) is not dict:
        return None, [f"choices: expected names with values, got {shown(choices)}"]
    text = json.dumps(choices, sort_keys=True)
    if len(text) > MOST_BYTES_OF_CHOICES:
        return None, [f"its choices take {len(text):,} bytes; at most {MOST_BYTES_OF_CHOICES:,} are read"]
    return HandedPlay(entry["game"], entry["level"], text), list(_unread(entry))


def _unread(entry: dict[str, Any]) -> Iterator[str]:
    if extra := sorted(entry.keys() - _ENTRY):
        yield f"brings a value of its own for {shown(extra[0])[1:-1]}, which nobody reads"

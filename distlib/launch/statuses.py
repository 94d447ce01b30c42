"""A rank's status, on its way to the head: JSON, in which tuples stay tuples (see `worlds.real.status_board`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from distlib.worlds.real.status_board import Status


def write_status(status: Status, handled: Sequence[int]) -> bytes:
    """A status, and the senders of the messages that the rank has handled before it."""
    return json.dumps([status, handled]).encode()


def read_status(frame: bytes) -> tuple[Status, list[int]]:
    """What `write_status` has written."""
    (state, round_, waits, strangers, last_call), handled = json.loads(frame)
    return (state, round_, _tuples(waits), _tuples(strangers), _tuple(last_call)), handled


def _tuples(lists: list[Any]) -> list[tuple[Any, ...]]:
    return [_tuple(each) for each in lists]


def _tuple(value: Any) -> Any:
    """A copy with tuples in place of lists, inner ones too."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value

"""A question of the judge's to a rank, and what the rank tells about it.

    judge  ── {"job": "play", …, "question": 8125} ──►  rank
    judge  ◄── {"what": "send", …, "question": 8125} ──  rank      belongs to it
    judge  ◄── {"what": "done", …, "question": 7001} ──  rank      belongs to another one: dropped

A rank can send whatever it likes, whenever it likes. So what it tells counts only with the number of the question,
which is drawn anew each time. All else is dropped: what is said twice, ahead of the next question, or about cells that
nobody asked for does no harm to anything. Prints, and where a rank is, count without a number: threads may print when
nobody asks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from distlib.judge.remote.wire import Wire

_WITHOUT_NUMBER = ("print", "at")


class Question:
    """One question, from its sending on.

    Args:
        wire: to the rank.
        request: what the rank is to do.
        deadline: for sending it.
        drop: called for each thing that the rank tells and that does not belong to the question.

    Raises:
        WireError, WireClosed, WireTimeout.
    """

    def __init__(
        self, wire: Wire, request: Mapping[str, Any], deadline: float | None, drop: Callable[[], None]
    ) -> None:
        self._wire, self._drop = wire, drop
        self._number = secrets.randbits(52)
        wire.send({**request, "question": self._number}, deadline)

    def hear(self, deadline: float | None) -> dict[str, Any]:
        """What the rank tells next: a dict with a text "what".

        Raises:
            WireError, WireClosed, WireTimeout.
        """
        while True:
            told = self._wire.receive(deadline)
            if isinstance(told, dict) and self._belongs(told.get("what"), told.pop("question", None)):
                return told
            self._drop()

    def answer(self, value: Mapping[str, Any], deadline: float | None) -> None:
        """Answer something that the rank has asked for meanwhile.

        Raises:
            WireError, WireClosed, WireTimeout.
        """
        self._wire.send(dict(value), deadline)

    def _belongs(self, what: Any, number: Any) -> bool:
        if type(what) is not str or type(number) not in (int, type(None)):
            return False
        return what in _WITHOUT_NUMBER or bool(number == self._number)


def whole(value: Any, least: int, most: int) -> int:
    """A whole number from a stranger. Raises ValueError if it is none, or out of range."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"expected a whole number from {least} to {most}")
    return value


def text(value: Any, most: int) -> str:
    """A text from a stranger, of at most that many characters; the rest is cut off. Raises ValueError if it is none."""
    if type(value) is not str:
        raise ValueError("expected a text")
    return value[:most]

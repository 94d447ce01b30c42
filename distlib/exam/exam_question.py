"""What a question is, and the bank of all questions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Answer = int | float | str | list[int]


@dataclass(frozen=True)
class Asked:
    """A variant of a question, as its function returns it.

    Attributes:
        text: what is asked.
        answer: a number, a name, or a list of numbers.
        working: how one gets there, with the numbers of this variant.
        given: the numbers that were drawn, by name.
        unit: of the answer; "" without one.
    """

    text: str
    answer: Answer
    working: str
    given: dict[str, Any]
    unit: str = ""


@dataclass(frozen=True)
class BankQuestion:
    """A question of the bank. Call it with a key for a variant.

    Attributes:
        name: of its function.
        topic: what it is about, such as "pipelines".
        draw: makes a variant.
    """

    name: str
    topic: str
    draw: Callable[[random.Random], Asked]

    def __call__(self, key: str) -> Asked:
        """The variant of a key: always the same, whatever else is asked."""
        return self.draw(random.Random(f"{key}/{self.name}"))


BANK: dict[str, BankQuestion] = {}
"""All questions by name, in the order of the course. It is filled when the modules are imported."""


def asks_about(topic: str) -> Callable[[Callable[[random.Random], Asked]], Callable[[random.Random], Asked]]:
    """Decorator: put a question into the bank.

    Raises:
        ValueError: there is a question of this name.
    """

    def enter(draw: Callable[[random.Random], Asked]) -> Callable[[random.Random], Asked]:
        name = draw.__name__
        if name in BANK:
            raise ValueError(f"two questions are called {name}")
        BANK[name] = BankQuestion(name, topic, draw)
        return draw

    return enter

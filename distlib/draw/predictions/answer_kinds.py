"""What a prediction may be: a number, one of several choices, or several things put into an order.

Each kind reads an answer, says it in words, and judges it against what came out:

    Number("MB")                        "2*12" → 24.0        "Your number is 1.33 times that of the run."
    OneOf(("ring", "tree"))             "ring" → "ring"      "Not this time: what made the difference?"
    Order(("ring", "tree", "master"))   a list → a tuple     "Only ring and tree are swapped."
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Protocol

from distlib.draw.predictions.quantity import parse_quantity, units_agree
from distlib.draw.style import format_number

Value = float | str | tuple[str, ...]
"""A number, a choice, or an order."""


class Kind(Protocol):
    """How answers of one kind are read, said and judged.

    Attributes:
        name: "number", "choice" or "order".
        options: what there is to choose from or to order; () for a number.
        hint: how to answer, in a few words.
    """

    name: str
    options: tuple[str, ...]
    hint: str

    def read(self, given: Any) -> Any:
        """What was committed, as a value. Raises ValueError if it is no answer of this kind."""

    def find(self, actual: Any) -> Any:
        """What came out, as a value to compare with; None if it is not a number."""

    def say(self, value: Any) -> str:
        """A value in words."""

    def recall(self, value: Any, given: Any) -> str:
        """What was committed, in words. `given`: as it was typed."""

    def judge(self, predicted: Any, actual: Any, source: str) -> str:
        """One kind sentence about a prediction."""


class Number:
    """A number, perhaps with a unit."""

    name = "number"
    options: tuple[str, ...] = ()

    def __init__(self, unit: str = "") -> None:
        self.unit = unit
        self.hint = f"a number of {unit}" if unit else "a number, such as 24 or 2*(4-1)/4"

    def read(self, given: Any) -> float:
        return parse_quantity(str(given), self.unit)

    def find(self, actual: Any) -> float | None:
        try:
            return parse_quantity(actual, self.unit) if isinstance(actual, str) else float(actual)
        except Exception:  # whatever was given: a comparison of numbers never stops a notebook
            return None

    def say(self, value: float) -> str:
        one = self.unit[:-1] if len(self.unit) > 3 and self.unit.endswith("s") else self.unit
        word = one if value == 1 and units_agree(self.unit, one) else self.unit
        space = "" if word == "%" else " "
        return f"{format_number(value)}{space}{word}".strip()

    def recall(self, value: float, given: Any) -> str:
        """If it was typed as an expression or in another unit, both as typed and as a number."""
        typed = str(given).strip()
        plain = re.fullmatch(r"[-−]?[\d.,_e]+\s*([^\W\d_]*|%)", typed)
        same_unit = plain and (not plain[1] or units_agree(plain[1], self.unit))
        return self.say(value) if same_unit else f"{typed}, which is {self.say(value)}"

    def judge(self, predicted: float, actual: float, source: str) -> str:
        """Correct, close, or how far off and in which direction."""
        if math.isclose(predicted, actual):
            return "That is right."
        if min(predicted, actual) <= 0 or not math.isfinite(actual):
            return f"The difference is {format_number(abs(predicted - actual))}."
        ratio = max(predicted, actual) / min(predicted, actual)
        if ratio < 1.05:
            return f"That is close: within {format_number(float(f'{100 * (ratio - 1):.2g}'))} percent."
        times = format_number(float(f"{ratio:.3g}"))
        if predicted > actual:
            return f"Your number is {times} times that of {source}."
        return f"That of {source} is {times} times yours."


class OneOf:
    """One of several. Raises ValueError for fewer than two, or the same one twice."""

    name = "choice"
    hint = "choose one, then commit"

    def __init__(self, options: Iterable[Any]) -> None:
        self.options = _distinct(options, "choices")

    def read(self, given: Any) -> str:
        if str(given) not in self.options:
            raise ValueError(f"expected one of {_listed(self.options)}, got {_shown(given)}")
        return str(given)

    def find(self, actual: Any) -> str:
        return self.read(actual)

    def say(self, value: str) -> str:
        return value

    def recall(self, value: str, given: Any) -> str:
        return value

    def judge(self, predicted: str, actual: str, source: str) -> str:
        return "That is right." if predicted == actual else "Not this time: what made the difference?"


class Order:
    """Several things in an order. Raises ValueError for fewer than two, or the same one twice."""

    name = "order"
    hint = "press them in your order, the first one first; press again to take one back"

    def __init__(self, options: Iterable[Any]) -> None:
        self.options = _distinct(options, "order")

    def read(self, given: Any) -> tuple[str, ...]:
        items = tuple(map(str, given)) if isinstance(given, Sequence) and not isinstance(given, str) else None
        if items is None or sorted(items) != sorted(self.options):
            got = _shown(given) if items is None else _listed(items) or "none of them"
            raise ValueError(f"expected each of {_listed(self.options)} once, in an order, got {got}")
        return items

    def find(self, actual: Any) -> tuple[str, ...]:
        return self.read(actual)

    def say(self, value: tuple[str, ...]) -> str:
        return ", ".join(value)

    def recall(self, value: tuple[str, ...], given: Any) -> str:
        return self.say(value)

    def judge(self, predicted: tuple[str, ...], actual: tuple[str, ...], source: str) -> str:
        """Correct, a swapped pair, the other way round, or what is in its place."""
        in_place = [one for one, other in zip(predicted, actual, strict=True) if one == other]
        moved = [one for one in predicted if one not in in_place]
        if not moved:
            return "That is right."
        if predicted == actual[::-1]:
            return "It is just the other way round."
        if len(moved) == 2:
            return f"Only {moved[0]} and {moved[1]} are swapped."
        pairs = list(combinations(predicted, 2))
        kept = sum(actual.index(first) < actual.index(second) for first, second in pairs)
        start = f"In its place: {_listed(in_place)}. " if in_place else ""
        return f"{start}{kept} of {len(pairs)} pairs are in the order of {source}."


def _distinct(options: Iterable[Any], name: str) -> tuple[str, ...]:
    if isinstance(options, str):
        raise ValueError(f"expected {name}=[…], a list of at least 2 different words, got {options!r}")
    words = tuple(map(str, options))
    if len(words) < 2 or len(set(words)) < len(words) or not all(map(str.strip, words)):
        raise ValueError(f"expected {name}=[…] with at least 2 different words, got {list(words)}")
    return words


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words)


def _shown(given: Any) -> str:
    return "nothing" if given in (None, "") else repr(given)

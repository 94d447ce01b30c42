"""Reading choices that a stranger may have written: exactly the names that a game has, each of its type and range."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from distlib.games.course_game import ChoiceError, Choices
from distlib.printable import printable


def check_names(choices: Choices, names: Collection[str]) -> None:
    """Refuse names that the game does not have, and choices that are not there.

    Raises:
        ChoiceError: here and below.
    """
    if set(choices) != set(names):
        odd = sorted(map(str, set(choices) ^ set(names)))
        raise ChoiceError(f"expected the choices {', '.join(names)}; missing or unknown: {shown(odd[0])}")


def whole(choices: Choices, name: str, least: int, most: int) -> int:
    """A whole number from `least` to `most`."""
    value = choices[name]
    if type(value) is not int or not least <= value <= most:
        raise ChoiceError(f"{name}: expected a whole number from {least} to {most:,}, got {shown(value)}")
    return value


def number(choices: Choices, name: str, least: float, most: float) -> float:
    """A finite number from `least` to `most`."""
    value = choices[name]
    if type(value) not in (int, float) or not math.isfinite(value) or not least <= value <= most:
        raise ChoiceError(f"{name}: expected a number from {least:g} to {most:g}, got {shown(value)}")
    return float(value)


def yes_or_no(choices: Choices, name: str) -> bool:
    """A choice that is true or false."""
    value = choices[name]
    if type(value) is not bool:
        raise ChoiceError(f"{name}: expected true or false, got {shown(value)}")
    return value


def one_of(choices: Choices, name: str, values: Collection[str]) -> str:
    """One of some words."""
    value = choices[name]
    if type(value) is not str or value not in values:
        raise ChoiceError(f"{name}: expected one of {', '.join(values)}, got {shown(value)}")
    return value


def whole_numbers(choices: Choices, name: str, most_entries: int, most: int) -> tuple[int, ...]:
    """A list of whole numbers from 1 to `most`."""
    value = choices[name]
    if type(value) is not list or not 0 < len(value) <= most_entries:
        raise ChoiceError(f"{name}: expected a list with 1 to {most_entries} numbers, got {shown(value)}")
    return tuple(whole({name: each}, name, 1, most) for each in value)


def shown(value: Any) -> str:
    """A value on one short line. A long one is cut before it is turned into text."""
    if isinstance(value, dict | list):
        return f"a {'list' if isinstance(value, list) else 'table'} with {len(value)} entries"
    if isinstance(value, int) and abs(value) > 10**18:
        return "a huge number"
    return printable(repr(value[:40] if isinstance(value, str) else value))

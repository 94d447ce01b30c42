"""Numbers as people type them: "24 MB", "1/2", "2*(4-1)/4", "50%". Read without `eval`.

A quantity is an arithmetic expression and, after it, perhaps a unit. Units of bytes and of time are converted into the
unit that is asked for; any other word must be the one that is asked for.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

from distlib.draw.style import BYTE_UNITS, TIME_UNITS

_LONGEST = 100  # characters
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: lambda base, exponent: float(base) ** exponent,
}
_SPELLINGS = {"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**", "\u00a0": " "}
_WORDS = {
    "byte": "b",
    "bytes": "b",
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "us": "µs",
    "μs": "µs",
    "minutes": "min",
}


def parse_quantity(text: str, unit: str = "") -> float:
    """The number that `text` says, in `unit`.

    Args:
        text: an expression of numbers, + - * / ** ( ), and perhaps a unit or a percent sign after it.
        unit: a unit of bytes (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), of time (ns, µs, ms, s, min, h), "%", or any
            other word ("rounds"), or "" for a bare number.

    Raises:
        ValueError: it can't be read; the message says what can.
    """
    match = re.fullmatch(r"(.*?[\d).]?)\s*([^\W\d_]+|%)?", _clean(text))
    expected = f"expected a number of {unit}" if unit else "expected a number without a unit"
    try:
        number, factor = _evaluate(match[1] if match else ""), _factor(match[2] or "" if match else "", unit)
    except ZeroDivisionError:
        raise ValueError(f"{expected}, but {text!r} divides by zero") from None
    except OverflowError:
        raise ValueError(f"{expected}, but {text!r} is too large") from None
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{expected}, for example 24, 1/2 or 2*(4-1)/4, got {text!r}") from None
    return number * factor


def units_agree(one: str, other: str) -> bool:
    """Whether two units are the same: "round" and "rounds", "mb" and "MB", "s" and "seconds"."""
    return _normalize(one) == _normalize(other)


def _clean(text: str) -> str:
    if len(text) > _LONGEST:
        raise ValueError(f"expected at most {_LONGEST} characters, got {len(text)}")
    for spelling, plain in _SPELLINGS.items():
        text = text.replace(spelling, plain)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.strip())  # 1,000
    return re.sub(r"(?<=[\d)])\s*(?=\()", "*", text)  # 2(4-1)


def _evaluate(expression: str) -> float:
    number = _value(ast.parse(expression.strip(), mode="eval").body)
    if math.isinf(number):
        raise OverflowError
    return number


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return -_value(node.operand) if isinstance(node.op, ast.USub) else _value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return float(_OPERATORS[type(node.op)](_value(node.left), _value(node.right)))
    raise ValueError("not an arithmetic expression")


def _factor(given: str, unit: str) -> float:
    """What a number in the unit `given` is multiplied with to be in `unit`."""
    if given == "" or units_agree(given, unit):
        return 1.0
    if given == "%" and unit == "":
        return 0.01
    for table in _TABLES:
        if _normalize(given) in table and _normalize(unit) in table:
            return table[_normalize(given)] / table[_normalize(unit)]
    raise ValueError("another unit")


def _normalize(unit: str) -> str:
    word = unit.strip().lower()
    word = _WORDS.get(word, word)
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


_TABLES = tuple({_normalize(name): factor for name, factor in table.items()} for table in (BYTE_UNITS, TIME_UNITS))

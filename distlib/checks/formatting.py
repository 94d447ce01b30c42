"""How remarks write numbers, dtypes and lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def count(number: int, noun: str) -> str:
    """ "1 rank", "3 ranks", "2 batches", "1,200 bytes"."""
    plural = "es" if noun.endswith("tch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def were(number: int) -> str:
    """ "1 was expected", "3 were expected"."""
    return f"{number:,} {'was' if number == 1 else 'were'} expected"


def dtype_name(dtype: torch.dtype) -> str:
    """The name without "torch.": "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def listed(values: Iterable[int]) -> str:
    """Numbers with commas between them: "96, 32, 1,200"."""
    return ", ".join(f"{value:,}" for value in values)


def enumerated(values: Iterable[int]) -> str:
    """ "96, 32 and 1,200"."""
    *first, last = [f"{value:,}" for value in values]
    return f"{', '.join(first)} and {last}" if first else last

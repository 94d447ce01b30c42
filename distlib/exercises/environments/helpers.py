"""Exercise 16b: the function that its check supplies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from distlib.checks.supplied import helper
from distlib.exercises.environments.node_lists import all_numbers, written_out

MOST_NAMES, MOST_CHARACTERS = 10_000, 1_000


@helper()
def expand_nodelist(text: str) -> list[str]:
    """The names in a node list of Slurm's that is right, such as "node[01-03,07]".

    Raises:
        ValueError: it is longer than those of this exercise.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"expand_nodelist: expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    return written_out(text, _few_numbers, _few_choices)


def _few_numbers(ranges: str) -> list[str]:
    """The numbers between two brackets. Raises ValueError before it writes out too many."""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if int(last or first) - int(first) >= MOST_NAMES:
            raise ValueError(f"expand_nodelist: expected at most {MOST_NAMES:,} names, got {part}")
    return all_numbers(ranges)


def _few_choices(*each: list[str]) -> Iterator[tuple[str, ...]]:
    choices = itertools.product(*each)
    yield from itertools.islice(choices, MOST_NAMES)
    if next(choices, None) is not None:
        raise ValueError(f"expand_nodelist: expected at most {MOST_NAMES:,} names, got more")

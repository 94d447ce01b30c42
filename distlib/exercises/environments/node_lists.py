"""Node lists as Slurm writes them: the right names for a text, those that usual mistakes give, and what a text breaks.

node[01-03,07],gpu[8-11]-ib     node01 node02 node03 node07 gpu8-ib gpu9-ib gpu10-ib gpu11-ib
rack[1-2]node[1-2]              rack1node1 rack1node2 rack2node1 rack2node2
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from distlib.checks.sentences import Sentences

say = Sentences(__file__)
Numbers = Callable[[str], list[str]]


def written_out(
    text: str,
    numbers: Numbers | None = None,
    choose: Callable[..., Iterable[tuple[str, ...]]] = itertools.product,
) -> list[str]:
    """The names in a node list that is right.

    Args:
        numbers: what stands for the text between two brackets; by default `all_numbers`.
        choose: how the choices of several brackets are put together.
    """
    names = []
    for group in groups_of(text):
        pieces = re.split(r"\[(.*?)\]", group)  # fixed, in brackets, fixed, …
        choices = [(numbers or all_numbers)(piece) if k % 2 else [piece] for k, piece in enumerate(pieces)]
        names += ["".join(parts) for parts in choose(*choices)]
    return names


def groups_of(text: str) -> list[str]:
    """A list cut at the commas outside of brackets."""
    return re.split(r",(?![^\[]*\])", text)


def all_numbers(ranges: str, *, width: int | None = None, short: int = 0, by_last: bool = False) -> list[str]:
    """The numbers of "01-03,07": 01, 02, 03, 07.

    Args:
        width: how wide all numbers are; None: as the first one of their range.
        short: numbers that are left out at the end of each range.
        by_last: whether the last number of a range says how wide all are.
    """
    found = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        wide = len((last or first) if by_last else first) if width is None else width
        stop = int(last or first) + 1 - (short if last else 0)
        found += [f"{number:0{wide}}" for number in range(int(first), stop)]
    return found


def names_by_mistake(text: str) -> dict[str, Any]:
    """From the words for a usual mistake to what it makes of a list."""
    first, *_ = groups = groups_of(text)
    right = written_out(text)
    without_end = [group[: group.rfind("]") + 1] or group for group in groups]
    return {
        say("one_text"): ",".join(right),
        say("zeros_lost"): written_out(text, partial(all_numbers, width=0)),
        say("last_missing"): written_out(text, partial(all_numbers, short=1)),
        say("width_of_last"): written_out(text, partial(all_numbers, by_last=True)),
        say("zeros_added"): written_out(text, partial(all_numbers, width=2)),
        say("end_missing"): [name for group in without_end for name in written_out(group)],
        say("first_fastest"): written_out(text, choose=_crossed),
        say("side_by_side"): written_out(text, choose=_side_by_side),
        say("sorted"): sorted(right),
        say("once"): list(dict.fromkeys(right)),
        say("not_written_out"): groups,
        say("first_group"): written_out(first),
    }


def _crossed(*each: list[str]) -> Iterator[tuple[str, ...]]:
    return (parts[::-1] for parts in itertools.product(*each[::-1]))


def _side_by_side(*each: list[str]) -> Iterator[tuple[str, ...]]:
    longest = max(map(len, each))
    return zip(*(piece * longest if len(piece) == 1 else piece for piece in each), strict=False)


def drawn_list(draw: random.Random) -> str:
    """A node list that is right, of 1 to 4 groups."""
    return ",".join(_drawn_group(draw) for _ in range(draw.randint(1, 4)))


def _drawn_group(draw: random.Random) -> str:
    text = draw.choice(("node", "gpu", "n", "cn-a", "rack"))
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        text += f"[{','.join(_drawn_range(draw) for _ in range(draw.randint(1, 3)))}]{draw.choice(('', '-ib', 'x'))}"
    return text


def _drawn_range(draw: random.Random) -> str:
    width, first = draw.choice((1, 1, 2, 3)), draw.choice((draw.randint(0, 12), draw.randint(95, 100)))
    last = first + draw.choice((0, 1, 2, 3, 4, 6))
    return draw.choice((f"{first:0{width}}", f"{first:0{width}}-{last:0{width}}"))


def why_bad(group: str) -> str:
    """What is wrong with a group that can't be written out."""
    inside = re.findall(r"\[(.*?)\]", group)
    parts = [part for ranges in inside for part in ranges.split(",")]
    falling = [part for part in parts if re.fullmatch("[0-9]+-[0-9]+", part) and _falls(part)]
    if not group:
        return say("nothing")
    if re.search(r"\[[^\]]*\[", group) and group.count("[") == group.count("]"):
        return say("nested")
    if group.count("[") != group.count("]"):
        return say("no_partner")
    if falling:
        return say("falling", range=falling[0])
    return say("no_numbers")


def _falls(part: str) -> bool:
    first, last = part.split("-")
    return int(last) < int(first)

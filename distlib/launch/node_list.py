"""The names of nodes in Slurm's short form, written out.

    node[01-03,07]            node01 node02 node03 node07       zeros are kept
    login,gpu[8-10]-ib        login gpu8-ib gpu9-ib gpu10-ib
    rack[1-2]node[1-2]        rack1node1 rack1node2 rack2node1 rack2node2

Slurm gives a job its nodes in this form (SLURM_JOB_NODELIST, SLURM_STEP_NODELIST). The form is described in the manual
of scontrol(1), under "show hostnames", which prints the same names.
"""

from __future__ import annotations

import itertools
import re

MOST_NODES = 65_536  # names in a list; more are a mistake, such as [1-10000000]
_NAME = re.compile(r"[A-Za-z0-9._-]*")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def write_out(text: str) -> list[str]:
    """The names in a node list, in its order. One that stands there twice comes twice.

    Args:
        text: such as "node[01-03,07],login".

    Raises:
        ValueError: it is empty, a bracket or a name is missing, a range is not one, or there are too many names.
    """
    names: list[str] = []
    for group in _groups(text):
        names += _names(group, text)
        if len(names) > MOST_NODES:
            raise _error(text, f"it has more than {MOST_NODES:,} names")
    return names


def _groups(text: str) -> list[str]:
    """The list, split at the commas that stand outside of brackets."""
    groups, depth = [""], 0
    for character in text.strip():
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise _error(text, 'a "]" without a "["' if depth < 0 else 'a "[" inside of brackets')
        if character == "," and depth == 0:
            groups.append("")
        else:
            groups[-1] += character
    if depth:
        raise _error(text, 'a "[" without a "]"')
    return groups


def _names(group: str, text: str) -> list[str]:
    """The names of one group, such as "node[01-03]": every choice from its brackets, the last one changing first."""
    if not group:
        raise _error(text, "a name is missing")
    pieces = re.split(r"\[(.*?)\]", group)  # fixed, in brackets, fixed, …
    for fixed in pieces[::2]:
        if not _NAME.fullmatch(fixed):
            raise _error(text, f"{fixed!r} can't be part of a name")
    choices = [_numbers(piece, text) if index % 2 else [piece] for index, piece in enumerate(pieces)]
    names = itertools.islice(itertools.product(*choices), MOST_NODES + 1)
    return ["".join(parts) for parts in names]


def _numbers(ranges: str, text: str) -> list[str]:
    """What stands for a pair of brackets: "01-03,07" is 01, 02, 03, 07."""
    numbers: list[str] = []
    for part in ranges.split(","):
        numbers += _range(part, text)
    return numbers


def _range(part: str, text: str) -> list[str]:
    """The numbers of "01-03", as wide as its first one, or the one number of "07"."""
    found = _RANGE.fullmatch(part)
    if not found:
        raise _error(text, f"expected a number or a range in the brackets, such as 7 or 01-03, got {part!r}")
    first, last = found[1], found[2] or found[1]
    if int(last) < int(first):
        raise _error(text, f"the range {part} ends before it begins")
    if int(last) - int(first) >= MOST_NODES:
        raise _error(text, f"the range {part} has more than {MOST_NODES:,} numbers")
    return [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]


def _error(text: str, what: str) -> ValueError:
    return ValueError(f"{text!r} is not a list of nodes: {what}. One looks like node[01-03,07],login.")

"""Which share of a class this is: its number, of how many. No package is imported for it, see `command_arguments`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ARRAY = "array"
_VARIABLES = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT")


@dataclass(frozen=True)
class ClassShare:
    """One of several shares of a class.

    Attributes:
        number: which, from 1.
        total: how many there are.
    """

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def of(self, units: Iterable[Sequence[str]]) -> list[str]:
        """The students of this share. units: students who stay together."""
        mine = sorted(map(sorted, units))[self.number - 1 :: self.total]
        return sorted(student for unit in mine for student in unit)


def read_share(text: str, variables: Mapping[str, str]) -> ClassShare:
    """The share that "2/4" names, or "array" in a job array of Slurm.

    Args:
        text: as it was given.
        variables: of the environment.

    Raises:
        ValueError: it names none. The message says what was expected.
    """
    if text == ARRAY:
        return _share_of_array(variables)
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    share = ClassShare(*map(int, match.groups())) if match else ClassShare(0, 0)
    if not 1 <= share.number <= share.total:
        raise ValueError(f"expected NUMBER/TOTAL, such as 1/4, 2/4, 3/4 or 4/4, or {ARRAY}; got {text!r}")
    return share


def _share_of_array(variables: Mapping[str, str]) -> ClassShare:
    missing = [name for name in _VARIABLES if not re.fullmatch(r"[0-9]{1,9}", variables.get(name, ""))]
    if missing:
        what = f"{missing[0]} is {variables[missing[0]]!r}" if missing[0] in variables else f"there is no {missing[0]}"
        raise ValueError(f"{ARRAY} is for a job array of Slurm's, and {what}; elsewhere give NUMBER/TOTAL, such as 2/4")
    number, first, last, total = (int(variables[name]) for name in _VARIABLES)
    if (first, last) != (1, total) or not 1 <= number <= total:
        numbers = f"{total} numbers from {first} to {last}"
        raise ValueError(
            f"the array must have the numbers from 1, such as --array=1-4, and has {numbers}; to start one share "
            f"again, give its NUMBER/TOTAL, such as {number}/4"
        )
    return ClassShare(number, total)

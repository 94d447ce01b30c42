"""What a pipeline does, one action at a time: `2F0` is the forward pass of microbatch 0 through stage 2.

    F   forward
    B   backward: the gradient of the stage's input, and of its weights
    I   the first half of B: the gradient of the input, for which the stage before is waiting
    W   the second half: the gradient of the weights, for which nobody is waiting

A schedule is a list for each rank of the actions that it does, in this order:

    rank 0    0F0  0F1            0B0  0B1
    rank 1         1F0  1B0  1F1  1B1

The notation is that of torch.distributed.pipelining (https://docs.pytorch.org/docs/stable/distributed.pipelining.html).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from distlib.arguments import described

FORWARD, BACKWARD, INPUT, WEIGHT = KINDS = "FBIW"
_WRITTEN = re.compile(rf"(\d+)([{KINDS}])(\d+)")


class Action(NamedTuple):
    """One step of one stage. `str(Action(2, "F", 0))` is "2F0".

    Attributes:
        stage: from 0, the stage that gets the inputs.
        kind: "F", "B", "I" or "W"; see the module.
        microbatch: from 0.
    """

    stage: int
    kind: str
    microbatch: int

    def __repr__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    @classmethod
    def parse(cls, text: str) -> Action:
        """The action that is written "2F0".

        Raises:
            ValueError: it is written in another way.
        """
        found = _WRITTEN.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"expected an action as stage, F, B, I or W, microbatch, such as 2F0, got {text!r}")
        stage, kind, microbatch = found.groups()
        return cls(int(stage), kind, int(microbatch))


Schedule = Sequence[Sequence[Action]]
"""By rank, its actions in order."""


def parse_schedule(rows: Iterable[str]) -> list[list[Action]]:
    """A schedule from one text per rank, such as "0F0 0F1 0B0 0B1". Dots stand for waiting, and are left out.

    Raises:
        ValueError: a word that is not an action.
    """
    return [[Action.parse(word) for word in row.split() if word.strip(".")] for row in rows]


def actions_of(schedule: Schedule) -> Iterator[tuple[int, Action]]:
    """Every action of a schedule with its rank."""
    for rank, actions in enumerate(schedule):
        for action in actions:
            yield rank, action


def stages_in(schedule: Schedule) -> int:
    """The number of stages, on all ranks together."""
    return 1 + max((action.stage for _, action in actions_of(schedule)), default=-1)


def microbatches_in(schedule: Schedule) -> int:
    """The number of microbatches."""
    return 1 + max((action.microbatch for _, action in actions_of(schedule)), default=-1)


def ranks_of_stages(schedule: Schedule) -> dict[int, int]:
    """The rank that each stage lives on."""
    return {action.stage: rank for rank, action in actions_of(schedule)}


def check_actions(who: str, schedule: object) -> None:
    """Check that a schedule is a list of actions for each rank.

    Raises:
        TypeError: it is something else; the error names the function `who`.
    """
    rows = schedule if isinstance(schedule, Sequence) and not isinstance(schedule, str) else [schedule]
    for row in rows:
        if not isinstance(row, Sequence) or not all(isinstance(action, tuple) for action in row):
            example = "such as gpipe(4, 8), or parse_schedule of a text for each rank"
            raise TypeError(f"{who} expected for each rank a list of its actions, {example}, got {described(row)}")


def check_sizes(**sizes: int) -> None:
    """Check the sizes that a schedule is made for.

    Raises:
        ValueError: one is not an integer of at least 1.
    """
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"expected {name} to be an integer of at least 1, got {name}={size!r}")

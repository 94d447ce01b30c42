"""When each action of a schedule runs, in virtual time: at the earliest moment, given what each action takes.

    start = max(end of the action before on this rank, end of each action it waits for + transfer)
    end   = start + its cost

`transfer` is added where the action waited for is on another rank. Messages do not disturb each other here; on a
network where they do, run the schedule in a SimulatedWorld. The bubble is the part of the total in which ranks wait:

    bubble = 1 − (sum of all costs) / (ranks · seconds)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distlib.training.schedules.actions import (
    BACKWARD,
    FORWARD,
    INPUT,
    WEIGHT,
    Action,
    Schedule,
    check_actions,
    ranks_of_stages,
)
from distlib.training.schedules.execution import awaited_actions, execution_order

Seconds = float | Sequence[float]
"""One number for all stages, or one for each."""


@dataclass(frozen=True)
class Costs:
    """What each action takes, in seconds of virtual time.

    Attributes:
        forward: of F.
        backward: of B. The gradients of input and weights are each as much work as the forward pass, hence 2.
        input: of I; None for half of `backward`.
        weight: of W; None for what I leaves of `backward`.
        transfer: between two ranks, from the end of an action to the moment when its result is there.

    Raises:
        ValueError: a negative cost.
    """

    forward: Seconds = 1.0
    backward: Seconds = 2.0
    input: Seconds | None = None
    weight: Seconds | None = None
    transfer: float = 0.0

    def __post_init__(self) -> None:
        for name, seconds in vars(self).items():
            given = seconds if isinstance(seconds, Sequence) else [seconds or 0.0]
            if min(given, default=0.0) < 0:
                raise ValueError(f"expected a cost of at least 0 seconds, got {name}={seconds}")

    def of(self, action: Action) -> float:
        """What an action takes.

        Raises:
            ValueError: costs for fewer stages than there are.
        """
        return self._cost(action.kind, action.stage)

    def _cost(self, kind: str, stage: int) -> float:
        if kind == INPUT and self.input is None:
            return self._cost(BACKWARD, stage) / 2
        if kind == WEIGHT and self.weight is None:
            return self._cost(BACKWARD, stage) - self._cost(INPUT, stage)
        seconds = {FORWARD: self.forward, BACKWARD: self.backward, INPUT: self.input, WEIGHT: self.weight}[kind]
        assert seconds is not None
        if not isinstance(seconds, Sequence):
            return seconds
        if stage >= len(seconds):
            raise ValueError(f"expected a cost of {kind} for stage {stage}, got costs for {len(seconds)} stages")
        return seconds[stage]


@dataclass(frozen=True)
class ActionSpan:
    """An action that ran from `start` to `end`, in seconds."""

    action: Action
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True)
class Timing:
    """When each action ran.

    Attributes:
        spans: by rank, in the order in which it did them.
    """

    spans: Sequence[Sequence[ActionSpan]]

    @property
    def seconds(self) -> float:
        """From the start of the first action to the end of the last one."""
        ends = [span.end for spans in self.spans for span in spans]
        starts = [span.start for spans in self.spans for span in spans]
        return max(ends, default=0.0) - min(starts, default=0.0)

    @property
    def computing(self) -> list[float]:
        """By rank, the seconds in which it computed."""
        return [sum(span.seconds for span in spans) for spans in self.spans]

    @property
    def bubble(self) -> float:
        """The part of the total in which ranks wait: 0 if all of them compute all the time."""
        total = len(self.spans) * self.seconds
        return 1 - sum(self.computing) / total if total else 0.0


def time_schedule(schedule: Schedule, costs: Costs | None = None) -> Timing:
    """Time a schedule, action by action.

    Args:
        schedule: by rank, its actions in order.
        costs: by default 1 for F, 2 for B, 1 for each of I and W, and nothing for a transfer.

    Raises:
        ScheduleError: it cannot be executed.
        ValueError: `costs` has costs for fewer stages than the schedule.
    """
    check_actions("time_schedule", schedule)
    costs = costs or Costs()
    order, awaited, rank_of = execution_order(schedule), awaited_actions(schedule), ranks_of_stages(schedule)
    spans: list[list[ActionSpan]] = [[] for _ in schedule]
    end: dict[Action, float] = {}
    free = [0.0] * len(schedule)
    for action in order:
        rank = rank_of[action.stage]
        there = [end[each] + costs.transfer * (rank_of[each.stage] != rank) for each in awaited[action]]
        start = max([free[rank], *there])
        free[rank] = end[action] = start + costs.of(action)
        spans[rank].append(ActionSpan(action, start, end[action]))
    return Timing(spans)

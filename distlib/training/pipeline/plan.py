"""Which message each action of a schedule needs, and where its result goes.

    1F0 ──activations──► 2F0        each message is named by the action that produces it
    1B0 ◄──gradient───── 2B0

Made once per schedule, and checked first: a schedule that cannot be executed never reaches a rank's first message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from distlib.training.schedules.actions import (
    FORWARD,
    Action,
    Schedule,
    microbatches_in,
    ranks_of_stages,
    stages_in,
)
from distlib.training.schedules.execution import awaited_actions, check_schedule


@dataclass(frozen=True)
class PipelinePlan:
    """A schedule, and what follows from it.

    Attributes:
        rows: by rank, its actions in order.
        num_stages, num_microbatches: of the schedule.
        rank_of: by stage, the rank that it lives on.
        source: by action, the action of another stage whose result it needs; only actions that need one.
        target: the other way round.
        position: by action, how many actions its rank does before it.
    """

    rows: tuple[tuple[Action, ...], ...]
    num_stages: int
    num_microbatches: int
    rank_of: Mapping[int, int]
    source: Mapping[Action, Action]
    target: Mapping[Action, Action]
    position: Mapping[Action, int]

    def tag(self, action: Action) -> int:
        """The tag of the message with the result of an action: no two have the same, and none has 0."""
        number = action.stage * self.num_microbatches + action.microbatch
        return 1 + 2 * number + (action.kind != FORWARD)


def plan_of(schedule: Schedule) -> PipelinePlan:
    """Check a schedule and find its messages.

    Raises:
        ScheduleError: it cannot be executed.
    """
    return _plan_of(tuple(map(tuple, schedule)))


@lru_cache(maxsize=8)  # simulated ranks share a process: one of them makes the plan for all
def _plan_of(rows: tuple[tuple[Action, ...], ...]) -> PipelinePlan:
    check_schedule(rows)
    source = {
        action: other
        for action, awaited in awaited_actions(rows).items()
        for other in awaited
        if other.stage != action.stage
    }
    return PipelinePlan(
        rows,
        stages_in(rows),
        microbatches_in(rows),
        ranks_of_stages(rows),
        source,
        {other: action for action, other in source.items()},
        {action: position for row in rows for position, action in enumerate(row)},
    )

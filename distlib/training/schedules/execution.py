"""Can a schedule be executed, and in which order? Found before anything runs, and an error names what is waited for.

    2F0   waits for 1F0                    its input
    2B0   waits for 2F0, and for 3B0       what the forward pass left behind; the gradient of its output (or 3I0)
    2I0   as 2B0
    2W0   waits for 2I0

and every action waits for the one before it on its rank. A schedule can be executed if some order of all its actions
puts each one behind those it waits for ("happens before": L. Lamport, "Time, clocks, and the ordering of events in a
distributed system", CACM 1978). What comes out is such an order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice

from distlib.training.schedules.actions import (
    BACKWARD,
    FORWARD,
    INPUT,
    KINDS,
    WEIGHT,
    Action,
    Schedule,
    actions_of,
    check_actions,
    microbatches_in,
    ranks_of_stages,
    stages_in,
)


class ScheduleError(ValueError):
    """A schedule that cannot be executed: an action is missing, stands twice, or waits forever."""


def check_schedule(schedule: Schedule) -> None:
    """Check that a schedule can be executed.

    Raises:
        ScheduleError: which action is missing, stands twice or on a wrong rank, or what waits for what in a circle.
    """
    execution_order(schedule)


def execution_order(schedule: Schedule) -> list[Action]:
    """All actions of a schedule, each behind what it waits for.

    Raises:
        ScheduleError: as `check_schedule`.
    """
    check_actions("a schedule", schedule)
    _check_complete(schedule)
    awaited = awaited_actions(schedule)
    reached = [0] * len(schedule)
    done: dict[Action, None] = {}  # in the order in which they are done
    sleeping: dict[Action, list[int]] = {}  # what is waited for → the ranks that wait for it
    ready = deque(range(len(schedule)))
    while ready:
        rank = ready.popleft()
        for action in islice(schedule[rank], reached[rank], None):
            missing = next((each for each in awaited[action] if each not in done), None)
            if missing is not None:
                sleeping.setdefault(missing, []).append(rank)
                break
            reached[rank] += 1
            done[action] = None
            ready.extend(sleeping.pop(action, []))
    if len(done) < len(awaited):
        missing_by = {rank: action for action, ranks in sleeping.items() for rank in ranks}
        raise ScheduleError(_explain_circle(schedule, reached, missing_by))
    return list(done)


def awaited_actions(schedule: Schedule) -> dict[Action, list[Action]]:
    """For every action of a complete schedule, the actions of the same microbatch that it waits for."""
    present = {action for _, action in actions_of(schedule)}
    return {action: [each for each in _awaited_by(action) if each in present] for action in present}


def _awaited_by(action: Action) -> list[Action]:
    stage, kind, microbatch = action
    if kind == FORWARD:
        return [Action(stage - 1, FORWARD, microbatch)]
    if kind == WEIGHT:
        return [Action(stage, INPUT, microbatch)]
    gradients = [Action(stage + 1, kind, microbatch) for kind in (BACKWARD, INPUT)]  # a schedule has one of the two
    return [Action(stage, FORWARD, microbatch), *gradients]


# ── is everything there? ─────────────────────────────────────────────────────────────────────────────────────────────


def _check_complete(schedule: Schedule) -> None:
    ranks: dict[Action, int] = {}
    homes: dict[int, tuple[int, Action]] = {}
    for rank, action in actions_of(schedule):
        if not isinstance(action, Action) or action.kind not in KINDS or min(action.stage, action.microbatch) < 0:
            raise ScheduleError(f"expected actions such as 2F0 on rank {rank}, got {tuple(action)}")
        if action in ranks:
            raise ScheduleError(f"{action} stands twice, on rank {ranks[action]} and on rank {rank}: leave one out")
        ranks[action] = rank
        home, other = homes.setdefault(action.stage, (rank, action))
        if home != rank:
            raise ScheduleError(
                f"expected all actions of stage {action.stage} on one rank, "
                f"got {other} on rank {home} and {action} on rank {rank}"
            )
    stages, microbatches = range(stages_in(schedule)), range(microbatches_in(schedule))
    for stage in stages:
        for microbatch in microbatches:
            _check_passes(stage, microbatch, {kind for kind in KINDS if Action(stage, kind, microbatch) in ranks})


def _check_passes(stage: int, microbatch: int, kinds: set[str]) -> None:
    whole, halves = {FORWARD, BACKWARD}, {FORWARD, INPUT, WEIGHT}
    if kinds not in (whole, halves):
        named = [
            ", ".join(str(Action(stage, kind, microbatch)) for kind in KINDS if kind in of) for of in (kinds, whole)
        ]
        raise ScheduleError(
            f"stage {stage} and microbatch {microbatch}: expected {named[1]} "
            f"(or {INPUT} and {WEIGHT} in place of {BACKWARD}), got {named[0] or 'nothing'}"
        )


# ── what waits for what? ─────────────────────────────────────────────────────────────────────────────────────────────


def _explain_circle(schedule: Schedule, reached: Sequence[int], missing_by: Mapping[int, Action]) -> str:
    """Follow the ranks that wait, from one to the next, until one comes again.

    Args:
        reached: by rank, the place of the action at which it stands.
        missing_by: what this action waits for, for every rank that has not done all of its actions.
    """
    rank_of = ranks_of_stages(schedule)
    at = {rank: schedule[rank][reached[rank]] for rank in missing_by}
    path = [min(missing_by)]
    while (following := rank_of[missing_by[path[-1]].stage]) not in path:
        path.append(following)
    circle = path[path.index(following) :]
    links = [
        f"{at[rank]} waits for {missing_by[rank]}, which rank {after} does only after {at[after]}"
        for rank, after in zip(circle, [*circle[1:], circle[0]], strict=True)
    ]
    return (
        f"this schedule cannot be executed: {'; '.join(links)}. Every rank keeps to its order: "
        f"put {missing_by[circle[-1]]} before {at[circle[0]]}, for example"
    )

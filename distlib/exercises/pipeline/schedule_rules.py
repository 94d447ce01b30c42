"""Rules about schedules that a student returns: is it a table, is nothing missing, can it be executed, how fast is it?

    yield from is_a_schedule(seen[0], num_stages, num_microbatches)     list of lists of texts such as "2F0"
    rows = rows_of(seen[0])                                             the same, as actions

One stage for each rank, with a forward and a backward pass of each microbatch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import type_of
from distlib.checks.sentences import Sentences
from distlib.training.schedules import Action, ScheduleError, check_schedule, most_live, time_schedule

say = Sentences(__file__)
Rows = Sequence[Sequence[Action]]


def rows_of(found: Sequence[Sequence[str]]) -> list[list[Action]]:
    """The actions of a table of texts."""
    return [[Action.parse(action) for action in row] for row in found]


def shown(rows: Rows) -> tuple[str, ...]:
    """A schedule as the details of a remark."""
    return tuple(f"stage {stage}: {' '.join(map(str, row)) or 'nothing'}" for stage, row in enumerate(rows))


def is_a_schedule(found: Any, num_stages: int, num_microbatches: int) -> Iterator[Remark | None]:
    """What a function has returned must be a table, complete, in an order that can be executed."""
    yield _form(found, num_stages)
    rows = rows_of(found)
    for stage, row in enumerate(rows):
        yield from _complete(stage, row, num_microbatches)
    try:
        check_schedule(rows)
    except ScheduleError as error:
        yield say.remark("circle", *shown(rows), error=str(error).replace("rank", "stage"))


def _form(found: Any, num_stages: int) -> Remark | None:
    if found is None:
        return say.remark("returned_none")
    lists = count(num_stages, "list")
    if not isinstance(found, list | tuple) or not all(isinstance(row, list | tuple) for row in found):
        return say.remark("no_table", type=type_of(found), lists=lists)
    if len(found) != num_stages:
        rows, stages = count(len(found), "row"), count(num_stages, "stage")
        return say.remark("number_of_rows", rows=rows, stages=stages, lists=lists)
    return next(filter(None, (_is_an_action(action) for row in found for action in row)), None)


def _is_an_action(found: Any) -> Remark | None:
    try:
        action = Action.parse(found)
        if action.kind in "FB" and str(action) == found:
            return None
    except (ValueError, AttributeError):
        pass
    return say.remark("no_action", found=found)


def _complete(stage: int, row: Sequence[Action], num_microbatches: int) -> Iterator[Remark]:
    wanted = [Action(stage, kind, number) for kind in "FB" for number in range(num_microbatches)]
    times, details = Counter(row), shown([row])[0].replace("stage 0", f"stage {stage}", 1)
    for action in dict.fromkeys([*row, *wanted]):
        if action.stage != stage:
            yield say.remark("other_stage", details, stage=stage, action=action)
        elif action not in wanted:
            yield say.remark("other_microbatch", details, stage=stage, action=action, last=num_microbatches - 1)
        elif times[action] == 0:
            yield say.remark("left_out", details, action=action)
        elif times[action] > 1:
            yield say.remark("repeated", details, action=action, times=count(times[action], "time"))


# ── how it should be ─────────────────────────────────────────────────────────────────────────────────────────────────


def takes(rows: Rows, seconds: float, cause: str) -> Remark | None:
    """The schedule must take this long, where a forward pass takes 1 second and a backward pass 2."""
    found = time_schedule(rows).seconds
    return None if found == seconds else say.remark("slow", *shown(rows), found=found, seconds=seconds, cause=cause)


def all_forward_first(rows: Rows) -> Iterator[Remark]:
    """On every stage all forward passes must come before all backward passes, as in GPipe."""
    name = "between_one_by_one" if max(most_live(rows)) == 1 else "between"
    for row in rows:
        backward = next(index for index, action in enumerate(row) if action.kind == "B")
        for forward in (action for action in row[backward:] if action.kind == "F"):
            yield say.remark(name, *shown(rows), backward=row[backward], forward=forward)


def keeps_as_1f1b(rows: Rows, num_microbatches: int) -> Iterator[Remark]:
    """A stage must keep no more microbatches at the same time than there are stages from it on. (Fewer cost time.)"""
    for stage, kept in enumerate(most_live(rows)):
        right = min(num_microbatches, len(rows) - stage)
        if kept > right:
            cause = _why_kept(rows, stage, right)
            numbers = {"stage": stage, "kept": kept, "microbatches": num_microbatches, "right": right}
            yield say.remark("keeps_more", *shown(rows), **numbers, cause=cause)


def why_1f1b_is_slow(rows: Rows, num_microbatches: int) -> str:
    """The cause where a schedule that keeps as little as 1F1B takes longer."""
    if max(most_live(rows)) == 1:
        return say("one_by_one")
    for stage in range(len(rows)):
        right, warmup = min(num_microbatches, len(rows) - stage), _warmup(rows, stage)
        if warmup < right:
            return say("too_short", stage=stage, warmup=warmup, right=right)
    return say("orders")


def _why_kept(rows: Rows, stage: int, right: int) -> str:
    warmup = _warmup(rows, stage)
    if min(most_live(rows)) == len(rows[0]) // 2:
        return say("gpipe")
    return say("too_long", stage=stage, warmup=warmup, right=right) if warmup > right else say("turns")


def _warmup(rows: Rows, stage: int) -> int:
    return [action.kind for action in rows[stage]].index("B")

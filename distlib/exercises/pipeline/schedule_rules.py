"""Rules about schedules that a student returns: is it a table, is nothing missing, can it be executed, how fast is it?

    yield from is_a_schedule(seen[0], num_stages, num_microbatches)     list of lists of texts such as "2F0"
    rows = rows_of(seen[0])                                             the same, as actions

One stage for each rank, with a forward and a backward pass of each microbatch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from distlib.checks.remark import Remark
from distlib.checks.rules.returns import type_of
from distlib.checks.words import count
from distlib.training.schedules import Action, ScheduleError, check_schedule, most_live, time_schedule

Rows = Sequence[Sequence[Action]]

ORDER = (
    "a forward pass needs that of the stage before. A backward pass needs the forward pass of its own stage, and the "
    "backward pass of the stage behind."
)
TURNS = "After it, forward and backward passes take turns, one of each"
ONE_BY_ONE = "this is one microbatch after another, and only one stage works at a time."
TEXT = (
    'an action is a text: stage, F or B, microbatch, such as "0F0", without spaces or leading zeros. Both numbers '
    "count from 0."
)


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
        yield Remark(f"{str(error).replace('rank', 'stage')}.", shown(rows), ORDER)


def _form(found: Any, num_stages: int) -> Remark | None:
    wanted = f'return a list with {count(num_stages, "list")} in it, one for each stage, of texts such as "0F0".'
    if found is None:
        return Remark("it returned None; a list of lists was expected.", cause="the last line must return it.")
    if not isinstance(found, list | tuple) or not all(isinstance(row, list | tuple) for row in found):
        return Remark(f"it returned a {type_of(found)}; a list of lists was expected.", cause=wanted)
    if len(found) != num_stages:
        return Remark(f"it returned {count(len(found), 'row')} for {count(num_stages, 'stage')}.", cause=wanted)
    return next(filter(None, (_is_an_action(action) for row in found for action in row)), None)


def _is_an_action(found: Any) -> Remark | None:
    try:
        action = Action.parse(found)
        if action.kind in "FB" and str(action) == found:
            return None
    except (ValueError, AttributeError):
        pass
    return Remark(f"{found!r} is not an action.", cause=TEXT)


def _complete(stage: int, row: Sequence[Action], num_microbatches: int) -> Iterator[Remark]:
    wanted = [Action(stage, kind, number) for kind in "FB" for number in range(num_microbatches)]
    times, details = Counter(row), shown([row])[0].replace("stage 0", f"stage {stage}", 1)
    for action in dict.fromkeys([*row, *wanted]):
        if action.stage != stage:
            cause = f"row {stage} has the actions of stage {stage}, and each of them begins with {stage}."
            yield Remark(f"row {stage} contains {action}.", (details,), cause)
        elif action not in wanted:
            cause = f"the microbatches are 0 … {num_microbatches - 1}. Does a loop, such as a warm-up, go past them?"
            yield Remark(f"row {stage} contains {action}.", (details,), cause)
        elif times[action] == 0:
            cause = "every stage does a forward and a backward pass of every microbatch. Does a loop end too early?"
            yield Remark(f"{action} is missing.", (details,), cause)
        elif times[action] > 1:
            cause = "each pass is done once. Where one loop ends, does the next begin with the microbatch after that?"
            yield Remark(f"{action} stands in the table {count(times[action], 'time')}.", (details,), cause)


# ── how it should be ─────────────────────────────────────────────────────────────────────────────────────────────────


def takes(rows: Rows, seconds: float, cause: str) -> Remark | None:
    """The schedule must take this long, where a forward pass takes 1 second and a backward pass 2."""
    found = time_schedule(rows).seconds
    if found == seconds:
        return None
    text = f"it takes {found:g} seconds; {seconds:g} were expected. (Forward passes take 1, backward passes 2.)"
    return Remark(text, shown(rows), cause)


def all_forward_first(rows: Rows) -> Iterator[Remark]:
    """On every stage all forward passes must come before all backward passes, as in GPipe."""
    other = "With a backward pass between them it is another schedule, such as 1F1B."
    for row in rows:
        backward = next(place for place, action in enumerate(row) if action.kind == "B")
        for forward in (action for action in row[backward:] if action.kind == "F"):
            which = ONE_BY_ONE.capitalize() if max(most_live(rows)) == 1 else other
            cause = f"GPipe does all forward passes first, on every stage. {which}"
            yield Remark(f"{row[backward]} stands before {forward}.", shown(rows), cause)


def keeps_as_1f1b(rows: Rows, num_microbatches: int) -> Iterator[Remark]:
    """A stage must keep no more microbatches at the same time than there are stages from it on. (Fewer cost time.)"""
    for stage, kept in enumerate(most_live(rows)):
        right = min(num_microbatches, len(rows) - stage)
        if kept > right:
            text = f"stage {stage} keeps up to {kept} of {num_microbatches} microbatches at the same time; "
            yield Remark(f"{text}at most {right} expected.", shown(rows), _why_kept(rows, stage, right))


def why_1f1b_is_slow(rows: Rows, num_microbatches: int) -> str:
    """The cause where a schedule that keeps as little as 1F1B takes longer."""
    if max(most_live(rows)) == 1:
        return f"{ONE_BY_ONE} The warm-up is missing."
    for stage in range(len(rows)):
        if _warmup(rows, stage) < (right := min(num_microbatches, len(rows) - stage)):
            return _off(rows, stage, right, "short: the stage waits, although it could do a forward pass")
    return f"the warm-up is right. {TURNS}, and all stages take the microbatches in one order."


def _why_kept(rows: Rows, stage: int, right: int) -> str:
    if min(most_live(rows)) == len(rows[0]) // 2:
        return "this is GPipe: all forward passes come first, and memory grows with the number of microbatches."
    if _warmup(rows, stage) <= right:
        return f"the warm-up is not too long. {TURNS}."
    return _off(rows, stage, right, "long: it costs memory")


def _warmup(rows: Rows, stage: int) -> int:
    return [action.kind for action in rows[stage]].index("B")


def _off(rows: Rows, stage: int, right: int, off: str) -> str:
    passes = f"{_warmup(rows, stage)} forward passes"
    return (
        f"the warm-up is too {off}. Stage {stage} does {passes} before its first backward pass, and "
        f"should do {right}: one for each stage from itself to the last one, and not more than there are microbatches."
    )

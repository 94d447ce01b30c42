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
from distlib.training.schedules import Action, ScheduleError, check_schedule, time_schedule

Rows = Sequence[Sequence[Action]]

ORDER = (
    "a forward pass needs that of the stage before. A backward pass needs the forward pass of its own stage, and the "
    "backward pass of the stage behind."
)
TEXT = 'an action is a text: stage, F or B, microbatch, such as "0F0", without spaces. Both numbers count from 0.'


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
        yield Remark(f"{error}.", shown(rows), ORDER)


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
        if Action.parse(found).kind in "FB":
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
            cause = f"the microbatches are 0 … {num_microbatches - 1}."
            yield Remark(f"row {stage} contains {action}.", (details,), cause)
        elif times[action] == 0:
            cause = "every stage does a forward and a backward pass of every microbatch. Does a loop end too early?"
            yield Remark(f"{action} is missing.", (details,), cause)
        elif times[action] > 1:
            cause = "each pass is done once. Where one loop ends, does the next begin with the microbatch after that?"
            yield Remark(f"{action} stands in the table {count(times[action], 'time')}.", (details,), cause)


def takes(rows: Rows, seconds: float, cause: str) -> Remark | None:
    """The schedule must take this long, where a forward pass takes 1 second and a backward pass 2."""
    found = time_schedule(rows).seconds
    if found == seconds:
        return None
    text = f"it takes {found:g} seconds; {seconds:g} were expected. (Forward passes take 1, backward passes 2.)"
    return Remark(text, shown(rows), cause)

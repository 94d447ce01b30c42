"""Rules about going on from checkpoints: one step on all ranks, the right one, and what it holds on each.

yield from one_step(disks, [30, 30, 20])             by rank, what was returned
yield from goes_on(rank, told, held)                 model and optimizer of a rank, and its files
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.formatting import listed
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import nobody_returned, shown
from distlib.checks.rules.values import holds, is_equal
from distlib.checks.sentences import Sentences
from distlib.exercises.environments.checkpoint_disks import NAMES, STATES, DiskCase, Disks

say = Sentences(__file__)
FLOAT32 = 2**24  # the whole numbers up to here are exact in float32


def one_step(disks: Disks, found: Sequence[Any]) -> Iterator[Remark | None]:
    """All ranks have returned the newest step that is good on all of them."""
    ranks = ((rank, "an empty folder" if disk == "" else disk or "no folder") for rank, disk in enumerate(disks.ranks))
    table = tuple(f"rank {rank} has {disk}" for rank, disk in ranks)
    yield nobody_returned(found, "the step from each", say("returned_0_too"))
    for rank, step in enumerate(found):
        if type(step) is not int:
            yield say.remark("no_int", *table, rank=rank, found=shown(step), agreed=disks.agreed)
    if len(set(found)) > 1:
        yield say.remark("disagree", *table, steps=listed(found))
    if found[0] != disks.agreed:
        yield say.remark("wrong_step", *table, found=found[0], agreed=disks.agreed, cause=_why(disks, found[0]))


def _why(disks: Disks, step: int) -> str:
    """Why it is not this step."""
    good, agreed = [disks.good(rank) for rank in range(len(disks.ranks))], disks.agreed
    if agreed > FLOAT32:
        return say("rounded", agreed=agreed)
    lacking = [rank for rank, steps in enumerate(good) if step and step not in steps]
    if lacking:
        is_smallest = step == min(max(steps, default=0) for steps in good)
        return _why_not_good(disks, lacking[0], step, is_smallest)
    if step == 0 and disks.is_large:
        return say("read_in_part", agreed=agreed)
    if step == 0:
        return say("left_out" if len(good[0]) > 8 else "given_up", agreed=agreed)
    is_last_as_text = step == max(set.intersection(*good), key=str)
    return say("as_text" if is_last_as_text else "newest", agreed=agreed)


def _why_not_good(disks: Disks, rank: int, step: int, is_smallest: bool) -> str:
    """Why a rank has no good checkpoint of a step. `is_smallest`: whether it is the smallest of the newest steps."""
    state = dict(disks.states(rank)).get(step, "missing")
    if step >= 10**9:
        return say("ten_digits", rank=rank, step=step)
    if state in STATES:
        name = "smallest_damaged" if is_smallest else "damaged"
        return say(name, rank=rank, step=step, state=STATES[state])
    if is_smallest:
        return say("smallest_missing", rank=rank, step=step)
    return say("misnamed" if state in NAMES else "missing", rank=rank, step=step)


def goes_on(rank: int, told: Mapping[str, Any], held: DiskCase) -> Iterator[Remark | None]:
    """Model and optimizer of a rank hold what its checkpoint holds; nothing damaged was loaded."""
    for name in held.values[rank][0]:
        owner = "optimizer" if name == "velocity" else "model"
        yield _loaded(rank, name, owner, told["held"][name], held)
    for weight in told["loaded"]:
        if any(map(partial(is_equal, weight), held.damaged[rank])):
            yield say.remark("damaged_on_the_way", rank=rank)


def _loaded(rank: int, name: str, owner: str, found: torch.Tensor, held: DiskCase) -> Remark | None:
    values, step = held.values[rank], held.disks.agreed
    others = [each[name] for number, each in values.items() if number not in (0, step)]
    too_much = say("other_step", step=step) if step else say("none_agreed", owner=owner)
    mistakes = {
        say("not_loaded", owner=owner): values[0][name],
        too_much: others,
        say("damaged_loaded"): list(held.damaged[rank]),
    }
    what = f"on rank {rank} the {name} of the {owner}"
    return holds(what, found, values[step][name], mistakes, otherwise=say("own_part"))


def folder_untouched(
    rank: int, given: Mapping[str, torch.Tensor] | None, after: Mapping[str, Any], is_there: bool
) -> Iterator[Remark | None]:
    """A rank's folder holds what it held before. `given`: None if there was no folder."""
    before = given or {}
    if is_there != (given is not None):
        yield say.remark("folder_made" if is_there else "folder_removed", rank=rank)
    for name in sorted({*before, *after}):
        if is_equal(before.get(name), after.get(name)):
            continue
        if name not in after:
            yield say.remark("file_deleted", rank=rank, name=name)
        else:
            yield say.remark("file_changed" if name in before else "file_added", rank=rank, name=name)

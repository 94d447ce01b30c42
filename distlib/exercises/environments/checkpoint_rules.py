"""Rules about going on from checkpoints: one step on all ranks, the right one, and what it holds on each.

yield from one_step(disks, [30, 30, 20])             by rank, what was returned
yield from goes_on(rank, told, held)                 model and optimizer of a rank, and its files
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.remark import Remark
from distlib.checks.rules.returns import nobody_returned, shown
from distlib.checks.rules.values import holds, is_equal
from distlib.checks.words import listed
from distlib.exercises.environments.checkpoint_disks import NAMES, STATES, Disks, Held

CHECKSUM = (
    "a damaged file must be found out before anything of it is loaded: compare the checksum of all that follows with "
    "the first 32 bytes, and call torch.load only if both are the same."
)
SMALLEST = "The smallest of the ranks' newest steps need not be good on all: look for it in every list."
FLOAT32 = 2**24  # the whole numbers up to here are exact in float32
DIGITS = "Steps may have nine digits, and float32 rounds them: send whole numbers, such as torch.int64."
ALL_HAVE = "Only a step that all ranks have will do"
NAME = (
    "only a file called step-<number>.pt is a checkpoint, with a number from 1 on, of at most nine digits, without a "
    "zero in front. What ends with .tmp was never finished, whatever is in it, and others may leave files there, too."
)


def one_step(disks: Disks, found: Sequence[Any]) -> Iterator[Remark | None]:
    """All ranks have returned the newest step that is good on all of them."""
    ranks = ((rank, "an empty folder" if disk == "" else disk or "no folder") for rank, disk in enumerate(disks.ranks))
    table = tuple(f"rank {rank} has {disk}" for rank, disk in ranks)
    yield nobody_returned(found, "the step from each", "Every rank returns it, 0 too.")
    for rank, step in enumerate(found):
        if type(step) is not int:
            cause = "return the step on every rank, as a plain number: int(…), or .item() of a tensor."
            yield Remark(f"rank {rank} returned {shown(step)}; expected was {disks.agreed}, an int.", table, cause)
    if len(set(found)) > 1:
        cause = (
            "with different steps they would go on from different models. Each must know which steps are good on all "
            "others; then all choose the same."
        )
        yield Remark(f"the ranks do not agree: they returned {listed(found)}.", table, cause)
    if found[0] != disks.agreed:
        yield Remark(f"all ranks returned {found[0]}; expected was {disks.agreed}.", table, _why(disks, found[0]))


def _why(disks: Disks, step: int) -> str:
    """Why it is not this step."""
    good = [disks.good(rank) for rank in range(len(disks.ranks))]
    newest = f"step {disks.agreed} is good on all ranks."
    if disks.agreed > FLOAT32:
        return f"{newest} {DIGITS}"
    smallest = step == min(max(steps, default=0) for steps in good)
    for rank, steps in enumerate(good):
        state = dict(disks.states(rank)).get(step, "missing")
        if not step or step in steps:
            continue
        if step >= 10**9:
            return f"step-{step}.pt is on rank {rank}, but {NAME}"
        lacks = f"step-{step}.pt {STATES[state]}" if state in STATES else f"there is no step-{step}.pt"
        if smallest:
            return f"on rank {rank} {lacks}. {SMALLEST}"
        if state in STATES:
            return f"on rank {rank} {lacks}. {ALL_HAVE}, and {CHECKSUM}"
        return f"on rank {rank} {lacks}{': ' + NAME if state in NAMES else '. ' + ALL_HAVE + '.'}"
    if step == 0 and len(good[0]) > 8:
        return f"{newest} Do the numbers of all good files travel, also those of the oldest? There may be 16."
    if step == 0:
        return f"{newest} Does one damaged file, or one rank without a file, make you give up all others?"
    if step == max(set.intersection(*good), key=str):
        return f"{newest} Names are not numbers: as texts, step-9 comes after step-10. Compare int(…)."
    return f"{newest} Take the newest that is."


def goes_on(rank: int, told: Mapping[str, Any], held: Held) -> Iterator[Remark | None]:
    """Model and optimizer of a rank hold what its checkpoint holds; nothing damaged was loaded."""
    for name, owner in (("weight", "model"), ("bias", "model"), ("velocity", "optimizer")):
        yield _loaded(rank, name, owner, told["held"][name], held)
    for weight in told["loaded"]:
        if any(map(partial(is_equal, weight), held.damaged[rank])):
            seen = f"at the end rank {rank} has the right model, but on the way it has loaded a damaged one."
            yield Remark(seen, cause=CHECKSUM)


def _loaded(rank: int, name: str, owner: str, found: torch.Tensor, held: Held) -> Remark | None:
    values, step = held.values[rank], held.disks.agreed
    others = [each[name] for number, each in values.items() if number not in (0, step)]
    start = values[0][name]
    too_much = f"it was loaded, although no step is good on all ranks. Then the {owner} stays as it is."
    mistakes = {
        f"it is as it was at the start. Call {owner}.load_state_dict(…) with what the checkpoint holds.": start,
        f"it is another step's. Load step {step}, which is also returned." if step else too_much: others,
        f"it stands in a damaged file. {CHECKSUM}": list(held.damaged[rank]),
    }
    otherwise = "each rank has its own part of the model, and loads it from its own folder."
    what = f"on rank {rank} the {name} of the {owner}"
    return holds(what, found, values[step][name], mistakes, otherwise=otherwise)


def folder_untouched(
    rank: int, given: Mapping[str, torch.Tensor] | None, after: Mapping[str, Any], is_there: bool
) -> Iterator[Remark | None]:
    """A rank's folder holds what it held before. `given`: None if there was no folder."""
    before = given or {}
    if is_there != (given is not None):
        did = "made the folder" if is_there else "removed the folder"
        yield Remark(f"rank {rank} {did}.", cause="leave everything as it is: only look whether there is a folder.")
    for name in sorted({*before, *after}):
        if is_equal(before.get(name), after.get(name)):
            continue
        did = "was deleted" if name not in after else "was changed" if name in before else "was not there before"
        cause = "leave the folder as it is. A damaged file is evidence, and whoever looks for the fault needs it."
        yield Remark(f"on rank {rank} {name} {did}.", cause=cause)

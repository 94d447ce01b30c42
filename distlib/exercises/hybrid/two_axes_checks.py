"""Exercise 12: a training program with torch's own dp × tp. Judged by where parameters lie, values, and messages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.rules.block_training import (
    GATHER,
    NUMBER_BYTES,
    ROOT,
    SCATTER,
    Gradients,
    clipped,
    is_same_norm,
    norm_of,
)
from distlib.checks.rules.torch_messages import messages_by_size
from distlib.checks.rules.values import Mistakes, holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.hybrid.two_axes_cases import (
    CUT_DIMENSION,
    MeshAsOne,
    TwoAxes,
    groups_of,
    last_two,
    two_axes_case,
)

say = Sentences(__file__)
AT_THE_START = {"scatter", "broadcast"}  # by which torch cuts parameters along tp
PARTS = {GATHER, SCATTER, "all_gather_into_tensor_coalesced", "all_to_all_single"}

SIGNS: Signs = (
    ("must have the same mesh", say("two_meshes")),
    ("inputs with different meshes", say("norms_of_two_meshes")),
    ("got mixed torch.Tensor and DTensor", say("mixed")),
    ("Mesh dim indices should be in ascending order", say("order_of_axes")),
    ("Cannot slice a DeviceMesh without mesh_dim_names", say("no_names")),
    ("Cannot concatenate overlapping meshes", say("whole_mesh")),
    ("value was None when it should not be", say("no_mesh")),
    ("to a different device mesh", say("sharded_first")),
    ("must have same reduction dim", say("plan_exchanged")),
    ("has no attribute 'full_tensor'", say("no_dtensor")),
    ("has no attribute 'device_mesh'", say("no_dtensor")),
)


@task("model", "dp_size", "tp_size", "steps", "rate", "max_norm", errors=SIGNS, untouched=["steps"], seconds=8)
def check_train_on_mesh(draw: Draw, *, meshes: Sequence[TwoAxes]) -> Iterator[Case]:
    """`function(model, dp_size, tp_size, steps, rate, max_norm)`: blocks cut along tp, units sharded along dp."""
    for plan in meshes:
        yield two_axes_case(draw, plan)


@check_train_on_mesh.judge
def _(seen: Seen) -> Remarks:
    right = MeshAsOne(seen.case)
    for rank in seen.ranks:
        yield lies_on_both_axes(seen, rank)
    for rank in seen.ranks:
        yield sends_along_its_axis(seen, rank)
    yield from returns_norms(seen, right)
    yield from ends_as_one_process(seen, right)
    for rank in seen.ranks:
        yield from sends_as_told(seen, rank)


# ── where parameters lie ─────────────────────────────────────────────────────────────────────────────────────────────


def lies_on_both_axes(seen: Seen, rank: int) -> Remark | None:
    """Each parameter is a DTensor, and of the shape that the rank's part has."""
    plan: TwoAxes = seen.facts
    for name, whole in seen.given("state")[0].items():
        part = seen[rank]["parameters"][name]
        if not part["is_cut"]:
            return say.remark("whole", rank=rank, name=name)
        found, due = part["local"].shape, plan.part(name, whole, rank).shape
        if found != due:
            facts = {"rank": rank, "name": name, "found": list(found), "due": list(due)}
            return say.remark("shape", cause=_cause_of_shape(plan, name, whole, rank, found), **facts)
    return None


def _cause_of_shape(plan: TwoAxes, name: str, whole: torch.Tensor, rank: int, found: torch.Size) -> str:
    alone, exchanged = TwoAxes(plan.dp, 1, plan.widths, plan.blocks), TwoAxes(plan.tp, plan.dp, plan.widths, 1)
    renumbered = rank % plan.dp * plan.tp + rank // plan.dp  # as if dp varied fastest
    if found in (exchanged.part(name, whole, rank).shape, plan.part(name, whole, renumbered).shape):
        return say("axes_exchanged")
    if found == alone.part(name, whole, rank // plan.tp).shape:
        return say("not_cut_along_tp")
    return say("other_axis")


def sends_along_its_axis(seen: Seen, rank: int) -> Remark | None:
    """Shards travel between ranks that differ along dp alone, as torch's names of calls tell."""
    tp = seen.facts.tp
    units = set(seen.facts.unit_bytes().values())
    for message in seen.trace:
        is_shard = message.site.collective in (GATHER, SCATTER) and message.nbytes in units
        if message.src == rank and is_shard and message.dst % tp != rank % tp:
            return say.remark("across", rank=rank, dst=message.dst)
    return None


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def returns_norms(seen: Seen, right: MeshAsOne) -> Remarks:
    """A list with the norm of each step, on each rank."""
    for rank in seen.ranks:
        found = seen[rank]["norms"]
        if not isinstance(found, list) or len(found) != len(right.norms):
            shown = count(len(found), "entry") if isinstance(found, list) else type(found).__name__
            yield say.remark("no_list", rank=rank, steps=len(right.norms), found=shown)
            return
        for step, (one, norm) in enumerate(zip(found, right.norms, strict=True)):
            if one == "a DTensor":
                yield say.remark("norm_is_dtensor", rank=rank)
            mistakes = partial(_norm_mistakes, seen, right, rank, step)
            what = f"on rank {rank} the norm of step {step + 1}"
            yield holds(what, one, norm, mistakes, same=is_same_norm, otherwise=say("norm_values"))


def _norm_mistakes(seen: Seen, right: MeshAsOne, rank: int, step: int) -> Mistakes:
    plan: TwoAxes = seen.facts
    gradients, limit = right.gradients[step], seen.given("max_norm")[0]
    both, alone = (norm_of(each.values()) for each in groups_of(gradients))
    cut = norm_of(each for name, each in gradients.items() if last_two(name) in CUT_DIMENSION)
    uncut = norm_of(each for name, each in gradients.items() if last_two(name) not in CUT_DIMENSION)
    own = [plan.part(name, each, rank) for name, each in gradients.items()]
    of_tp = [plan.part_of_tp(name, each, rank % plan.tp) for name, each in gradients.items()]
    table: dict[str, Any] = {
        say("one_group"): [both, alone],
        say("norms_added"): both + alone,
        say("copies_counted"): [math.hypot(both, alone * k) for k in (plan.tp**0.5, plan.tp)]
        + [math.hypot(cut, uncut * k) for k in (plan.tp**0.5, plan.tp)],
        say("own_norm"): norm_of(own),
        say("norm_of_dp_group"): norm_of(of_tp),
        say("clipped_norm"): min(right.norms[step], limit),
    }
    return table | {words: [each.norms[step] for each in ways] for words, ways in _wrong_trainings(seen).items()}


def _wrong_trainings(seen: Seen) -> dict[str, list[MeshAsOne]]:
    """What usual mistakes make of the case."""
    case, dp = seen.case, seen.facts.dp
    return {
        say("unclipped"): [MeshAsOne(case, clip=lambda gradients, limit: gradients)],
        say("two_factors"): [MeshAsOne(case, clip=_each_by_its_own)],
        say("one_group_clipped"): [MeshAsOne(case, clip=partial(_only_one, number=number)) for number in (0, 1)],
        say("never_cleared"): [MeshAsOne(case, clears=False)],
        say("not_moved"): [MeshAsOne(case, moves=False, clears=clears) for clears in (True, False)],
        say("averaged_again"): [MeshAsOne(case, scale=1 / dp)],
    }


def _each_by_its_own(gradients: Gradients, limit: float) -> Gradients:
    both, alone = groups_of(gradients)
    return {**clipped(both, limit), **clipped(alone, limit)}


def _only_one(gradients: Gradients, limit: float, number: int) -> Gradients:
    """One group clipped by the norm of all."""
    return gradients | clipped(groups_of(gradients)[number], limit, norm_of(gradients.values()))


def ends_as_one_process(seen: Seen, right: MeshAsOne) -> Remarks:
    """Each rank has its part of the parameters that one process ends with."""
    plan: TwoAxes = seen.facts
    for rank in seen.ranks:
        for name, whole in right.state.items():

            def mistakes(name: str = name, rank: int = rank) -> Mistakes:
                wrong = _wrong_trainings(seen)
                return {words: [plan.part(name, each.state[name], rank) for each in wrong[words]] for words in wrong}

            found, due = seen[rank]["parameters"][name]["local"], plan.part(name, whole, rank)
            what = f"on rank {rank} its part of {name}"
            same = partial(is_close, relative=1e-5, absolute=1e-6)
            yield holds(what, found, due, mistakes, same=same, otherwise=say("parameter_values"))


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def sends_as_told(seen: Seen, rank: int) -> Remarks:
    """Units are gathered and scattered along dp; blocks make all-reduces along tp."""
    plan: TwoAxes = seen.facts
    if plan.dp > 1:
        yield from _sent_along_dp(plan, messages_by_size(seen.trace, rank), rank)
    if plan.tp > 1:
        yield _sent_along_tp(seen, rank)
    yield _others(seen, rank)


def _sent_along_dp(plan: TwoAxes, sent: Counter[tuple[str, int]], rank: int) -> Remarks:
    units = plan.unit_bytes()
    block, root = (sent[GATHER, units[name]] / (plan.dp - 1) for name in ("blocks.0", ROOT))
    if not (block and root):
        yield say.remark("other_units", rank=rank)
    due = 2 * plan.steps * plan.blocks
    if block != due:
        cause = say("kept_after_forward" if block < due else "gathered_again")
        facts = {"rank": rank, "steps": plan.steps, "blocks": plan.blocks}
        yield say.remark("blocks_gathered", found=f"{block:g}", due=due, cause=cause, **facts)


def _sent_along_tp(seen: Seen, rank: int) -> Remark | None:
    """Of activations only sums travel."""
    plan: TwoAxes = seen.facts
    parts = {plan.rows * width // plan.tp * NUMBER_BYTES for width in plan.widths[1:3]}
    for message in seen.trace:
        is_part = message.site.collective in PARTS and message.nbytes in parts
        if message.src == rank and is_part and message.dst % plan.tp != rank % plan.tp:
            return say.remark("activations", rank=rank, kind=message.site.collective)
    return None


def _others(seen: Seen, rank: int) -> Remark | None:
    """Besides, only the numbers of norms travel, and at the start the parts of tp."""
    plan: TwoAxes = seen.facts
    units = set(plan.unit_bytes().values())
    others: Counter[str] = Counter()
    for (kind, nbytes), number in messages_by_size(seen.trace, rank).items():
        is_known = kind in AT_THE_START or (kind in (GATHER, SCATTER) and nbytes in units)
        others[kind] += nbytes * number * (not is_known)
    others["all_reduce"] -= _bytes_of_all_reduces(seen, rank)
    names = list(plan.model().parameters())
    due = plan.steps * len(names) * 2 * (plan.dp + plan.tp - 2) * NUMBER_BYTES
    if others.total() <= due:
        return None
    kind, nbytes = others.most_common(1)[0]
    return say.remark("more_sent", rank=rank, sent=count(nbytes, "byte"), kind=kind)


def _bytes_of_all_reduces(seen: Seen, rank: int) -> int:
    """Of the outputs of blocks, as torch's names of calls tell."""
    begins = f"all_reduce({seen.facts.rows}×{seen.facts.widths[1]} "
    own = (message for message in seen.trace if message.src == rank)
    return sum(message.nbytes for message in own if (message.site.call or "").startswith(begins))

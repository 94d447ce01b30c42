"""Exercise 12: who is in a group with whom, the groups themselves, a step on them, and the norm of all gradients."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count
from distlib.checks.helpers import all_reduce
from distlib.checks.plays.calls import attempt, call_twice
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import called, every_call, returns, same, shown
from distlib.checks.rules.sent_messages import such_as
from distlib.checks.rules.values import explain_factor, holds, is_close, is_same_number, known, untouched
from distlib.checks.seen import Seen
from distlib.checks.senders import is_of_the_play
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.hybrid.axes import Groups, Sizes, first_axis_fastest, groups_by, in_blocks
from distlib.exercises.hybrid.cases import MeshPlan, WholeChain, drawn_plan, step_case
from distlib.exercises.hybrid.helpers import layout_memory, layout_seconds, mesh_groups
from distlib.exercises.hybrid.layouts import (
    Model,
    best_layout,
    layout_bytes,
    layouts_of,
    least_bytes,
    link_of,
    memory_parts,
    parameters_of_rank,
    seconds_parts,
)
from distlib.exercises.hybrid.plays import AXES, build, clip
from distlib.network import Cluster, Link
from distlib.trace import Message
from distlib.training.mesh.coordinates import coordinates_of, mesh_groups as groups_of, sizes_in_words

say = Sentences(__file__)


# ── mesh_groups ──────────────────────────────────────────────────────────────────────────────────────────────────────


@task("sizes", "axis")
def check_mesh_groups(draw: Draw, *, meshes: Sequence[Sizes], drawn: int = 0) -> Iterator[Case]:
    """`function(sizes, axis)`: the groups of an axis. Each mesh is asked for each of its axes.

    `drawn`: then this many more meshes, which no table of answers has.
    """
    for sizes in (*meshes, *(_drawn_mesh(draw) for _ in range(drawn))):
        for axis in sizes:
            yield replace(called(dict(sizes), axis, facts=(dict(sizes), axis)), play=call_twice)


def _drawn_mesh(draw: Draw) -> Sizes:
    return {axis: draw.randint(2, 4) for axis in draw.sample((*AXES, "cp", "ep"), draw.randint(2, 4))}


@check_mesh_groups.judge
def _(seen: Seen) -> Remarks:
    yield from every_call(seen[0], partial(_are_groups, *seen.facts))


def _are_groups(sizes: Sizes, axis: str, found: Any) -> Remarks:
    right = groups_of(sizes, axis)
    if same(found, right):
        return
    if not _is_list_of_lists(found):
        yield say.remark("no_lists", found=shown(found))
        return
    groups: Groups = [list(group) for group in found]
    yield say.remark("groups", f"expected {shown(right)}", f"found    {shown(groups)}", cause=_why(sizes, axis, groups))


def _is_list_of_lists(found: Any) -> bool:
    is_list = isinstance(found, list | tuple) and all(isinstance(group, list | tuple) for group in found)
    return is_list and all(type(rank) is int for group in found for rank in group)


def _why(sizes: Sizes, axis: str, groups: Groups) -> str:
    right = groups_of(sizes, axis)
    if sorted(map(sorted, groups)) == right:
        return say("order_of_groups")
    if sizes[axis] == 1:
        return say("axis_of_one", axis=axis)
    if groups == groups_by(sizes, axis):
        return say("alike_along_axis", axis=axis)
    if groups == in_blocks(sizes, axis):
        return say("in_blocks")
    if any(groups == groups_of(sizes, other) for other in sizes if other != axis):
        return say("other_axis")
    everyone = [rank for group in groups for rank in group]
    if sorted(everyone) != list(range(math.prod(sizes.values()))):
        return say("each_once")
    return say("which_groups")


# ── build_mesh ───────────────────────────────────────────────────────────────────────────────────────────────────────

BUILD_ERRORS = (
    ("waits to", say("split_together")),
    ("waits in split", say("split_together")),
    ("ranks have to make the same collective calls", say("split_together")),
    ("more than 8 times", say("split_once")),
    ("'NoneType'", say("no_group")),
)


@task("comm", "sizes", errors=BUILD_ERRORS, untouched=["sizes"])
def check_build_mesh(
    draw: Draw, *, meshes: Sequence[Sizes], refused: Sequence[tuple[int, Sizes]] = ()
) -> Iterator[Case]:
    """`function(comm, sizes)`: by axis, the group of this rank.

    `refused`: a number of ranks, and sizes that multiply out to another one.
    """
    for sizes in meshes:
        yield _build_case(draw, math.prod(sizes.values()), sizes)
    for ranks, sizes in refused:
        yield _build_case(draw, ranks, sizes)


def _build_case(draw: Draw, ranks: int, sizes: Sizes) -> Case:
    tokens = draw.sample(range(1, 1000), ranks)
    inputs = [{"sizes": dict(sizes), "token": torch.tensor([float(token)]).double()} for token in tokens]
    return Case(f"on {count(ranks, 'rank')}, {sizes_in_words(sizes)}", build, inputs, dict(sizes), ours=range(ranks))


@check_build_mesh.judge
def _(seen: Seen) -> Remarks:
    sizes, product = seen.facts, math.prod(seen.facts.values())
    for rank in seen.ranks:
        if "refused" in seen[rank] or product != seen.size:
            yield _refusal(rank, product, seen.size, seen[rank].get("refused"))
        elif "heard" not in seen[rank]:
            yield say.remark("no_mesh", rank=rank, axes=", ".join(sizes))
    if product != seen.size:
        return
    tokens = torch.cat(seen.given("token")).tolist()
    for axis in sizes:
        for rank in seen.ranks:
            yield _group(seen, sizes, axis, rank, tokens)
    spoken = Counter(message.src for message in seen.trace)
    for rank in seen.ranks:
        if spoken[rank] > sum(size - 1 for size in sizes.values()):
            yield say.remark("speaks", rank=rank)


def _refusal(rank: int, product: int, size: int, text: str | None) -> Remark | None:
    if product == size:
        return say.remark("fits", rank=rank, size=size, text=text)
    if text is None:
        return say.remark("fits_not", rank=rank, product=product, size=size)
    if str(product) in text and str(size) in text:
        return None
    return say.remark("both_numbers", rank=rank, product=product, size=size, text=text)


def _group(seen: Seen, sizes: Sizes, axis: str, rank: int, tokens: Sequence[float]) -> Remark | None:
    """Whether this rank's group of an axis holds the right ranks, in the right order."""
    right = _group_of(groups_of(sizes, axis), rank)
    heard = seen[rank]["heard"][axis].tolist()
    found = [tokens.index(token) if token in tokens else None for token in heard]
    if found == right:
        return None
    lines = f"expected {right}", f"found    {found}"
    return say.remark("group", *lines, rank=rank, axis=axis, cause=_why_group(sizes, axis, rank, found))


def _why_group(sizes: Sizes, axis: str, rank: int, found: Sequence[int | None]) -> str:
    if set(found) == set(_group_of(groups_of(sizes, axis), rank)):
        return say("numbers_in_group")
    if sizes[axis] == 1:
        return say("axis_of_one", axis=axis)
    if found == _group_of(groups_by(sizes, axis), rank):
        return say("alike_along_axis", axis=axis)
    others = [groups_of(sizes, other) for other in sizes if other != axis]
    if found in [_group_of(groups, rank) for groups in (*others, first_axis_fastest(sizes, axis))]:
        return say("other_axis")
    return say("color")


def _group_of(groups: Groups, rank: int) -> list[int]:
    return next(group for group in groups if rank in group)


# ── hybrid_step ──────────────────────────────────────────────────────────────────────────────────────────────────────

STEP_ERRORS = (
    ("has already returned", say("returned_early")),
    ("waits to send", say("circle")),
    ("waits to receive", say("circle")),
    ("ranks have to make the same collective calls", say("same_calls")),
    ("implicitly created", say("no_scalar")),
    ("a second time", say("second_time")),
    ("float32", say("float32")),
    ("receives into", say("wrong_buffer")),
    ("but the ranks are", say("no_such_rank")),
    ("NoneType", say("none")),
    ("inplace", say("reused_memory")),
)


def _step_errors(seen: Seen) -> Signs:
    """The usual causes; first of a message between ranks that are no neighbors along pp, where the axes are turned."""
    layout: MeshPlan = seen.facts.layout
    ranks = list(dict.fromkeys(int(rank) for rank in re.findall(r"rank (\d+)", str(seen.error))))[:2]
    if list(layout.sizes) == list(AXES) or len(ranks) < 2 or max(ranks) >= seen.size:
        return STEP_ERRORS
    one, other = map(layout.where, ranks)
    if one["pp"] != other["pp"]:
        return STEP_ERRORS
    by_place = say("by_place", one=ranks[0], other=ranks[1])
    return [*((sign, by_place) for sign in ("receives into", "waits to", "has already returned")), *STEP_ERRORS]


@task(
    "mesh",
    "stage",
    "shapes",
    "inputs",
    "targets",
    "loss_function",
    "global_batch_size",
    errors=_step_errors,
    helpers=[all_reduce],
)
def check_hybrid_step(
    draw: Draw, *, layouts: Sequence[MeshPlan], drawn: Sequence[tuple[int, int, int]] = ()
) -> Iterator[Case]:
    """`function(mesh, stage, …)`: loss and gradients of one process.

    `drawn`: sizes of dp, pp and tp of more layouts.
    """
    for layout in (*layouts, *(drawn_plan(draw, sizes) for sizes in drawn)):
        yield step_case(draw, layout)


@check_hybrid_step.judge
def _(seen: Seen) -> Remarks:
    alone: WholeChain = seen.facts
    for stage in range(alone.layout.sizes["pp"]):
        for rank in [rank for rank in seen.ranks if alone.layout.where(rank)["pp"] == stage]:
            yield from _forward(seen, alone, rank)
    for rank in seen.ranks:
        yield _loss(seen, alone, rank)
    for stage in reversed(range(alone.layout.sizes["pp"])):
        for rank in [rank for rank in seen.ranks if alone.layout.where(rank)["pp"] == stage]:
            yield from _gradients(seen, alone, rank)
    for rank in seen.ranks:
        yield from _given(seen, rank)
    yield from _messages(seen, alone)


def _forward(seen: Seen, alone: WholeChain, rank: int) -> Remarks:
    """Each forward pass of a rank began with what it should."""
    where, found = alone.layout.where(rank), seen[rank]["inputs"]
    values = [chain[where["pp"]] for chain in alone.values[where["dp"]]]
    if len(found) != len(values):
        yield say.remark("passes", rank=rank, found=count(len(found), "time"), microbatches=len(values))
        return
    others = [chain[where["pp"]] for own in alone.values for chain in own]
    for i, right in enumerate(values):
        mistakes = {say("another_input"): others, say("zero_input"): 0 * right}
        what = f"on rank {rank} the input of forward pass {i}"
        yield holds(what, found[i], right, mistakes, same=is_close, otherwise=say("input"))


def _loss(seen: Seen, alone: WholeChain, rank: int) -> Remark | None:
    """Ranks of the last stage have returned the mean loss over all samples, the others None."""
    layout, found = alone.layout, seen[rank]["loss"]
    right = alone.loss if layout.is_last(rank) else None
    own, N = alone.losses[layout.where(rank)["dp"]], layout.global_batch_size
    samples = layout.samples[layout.where(rank)["dp"]]
    means = sum(sum(losses) / sum(each) for losses, each in zip(alone.losses, layout.samples, strict=True))
    mistakes = {
        say("own_loss"): sum(own) / N,
        say("own_mean_loss"): sum(own) / sum(samples),
        say("own_batch"): [means, means / layout.sizes["dp"]],
        say("sum_of_losses"): alone.loss * N,
        say("last_loss"): own[-1] / N,
        say("loss_over_ranks"): alone.loss / layout.sizes["dp"],
        say("loss_over_tp"): [alone.loss * layout.sizes["tp"], alone.loss * seen.size]
        if layout.sizes["tp"] > 1
        else None,
    }
    is_number = right is not None and isinstance(found, float)
    what, otherwise = f"on rank {rank} what it returned", say("loss") if is_number else say("returned")
    return holds(what, found, right, mistakes if is_number else {}, same=is_same_number, otherwise=otherwise)


def _gradients(seen: Seen, alone: WholeChain, rank: int) -> Remarks:
    """The gradients of a rank's parameters are those of the mean loss; the parameters are as they were."""
    layout, where = alone.layout, alone.layout.where(rank)
    N, dp = layout.global_batch_size, layout.sizes["dp"]
    for name, found in seen[rank]["gradients"].items():
        part = partial(_part, alone, where["tp"], name)
        right = part(alone.gradient(where["pp"], name))
        own = part(alone.gradients[where["dp"]][where["pp"]][name])
        mistakes = {
            say("own_gradient"): own,
            say("averaged"): right / dp,
            say("own_batch"): _of_own_means(alone, where, part, name),
            say("reduced_in_loop"): _reduced_in_loop(alone, where, part, name),
            say("not_divided"): right * N,
            **_along_other_axes(alone, where, name),
        }
        otherwise = say("no_gradient") if found is None else explain_factor(found, right, say("gradient"))
        what = f"on rank {rank} the gradient of `{name}`"
        yield holds(what, found, right, mistakes, same=is_close, otherwise=otherwise)
        before = seen.case.inputs[rank]["parameters"][name]
        yield untouched(f"on rank {rank} `{name}`", seen[rank]["parameters"][name], before, say("no_step"))


def _of_own_means(
    alone: WholeChain, where: Mapping[str, int], part: Callable[[torch.Tensor], torch.Tensor], name: str
) -> list[torch.Tensor]:
    """The sum of the gradients of each replica's own mean, and their average."""
    N, samples = alone.layout.global_batch_size, alone.layout.samples
    scaled = [N / sum(each) * own[where["pp"]][name] for own, each in zip(alone.gradients, samples, strict=True)]
    total = part(torch.stack(scaled).sum(0))
    return [total, total / len(samples)]


def _reduced_in_loop(
    alone: WholeChain, where: Mapping[str, int], part: Callable[[torch.Tensor], torch.Tensor], name: str
) -> list[torch.Tensor]:
    """What an all-reduce after each backward pass leaves: what was added up before is added up again. Both orders."""
    dp = alone.layout.sizes["dp"]
    sums = [torch.stack([own[where["pp"]][name] for own in same]).sum(0) for same in zip(*alone.after, strict=True)]
    found = []
    for ordered in (sums, sums[::-1]):
        total = torch.zeros_like(ordered[0])
        for each in ordered:
            total = dp * total + each
        found.append(part(total))
    return found if dp > 1 and len(sums) > 1 else []


def _part(alone: WholeChain, tp: int, name: str, whole: torch.Tensor) -> torch.Tensor:
    return alone.part({name: whole}, tp)[name]


def _along_other_axes(alone: WholeChain, where: Mapping[str, int], name: str) -> dict[str, Any]:
    """The sums that come of an all-reduce along tp or pp, or over all ranks, in the place of dp or after it."""
    sizes, own = alone.layout.sizes, alone.gradients[where["dp"]]
    mine, whole = own[where["pp"]][name], [alone.gradient(stage, name) for stage in range(sizes["pp"])]
    found: dict[str, Any] = {}
    if sizes["tp"] > 1:
        found[say("along_tp")] = [_over_tp(alone, name, each) for each in (mine, whole[where["pp"]])]
    if sizes["pp"] > 1:
        stages = torch.stack([stage[name] for stage in own]).sum(0)
        everywhere = torch.stack(whole).sum(0)
        found[say("along_pp")] = [_part(alone, where["tp"], name, each) for each in (stages, everywhere)]
    return found


def _over_tp(alone: WholeChain, name: str, whole: torch.Tensor) -> torch.Tensor:
    """The sum of the parts of all ranks of tp."""
    return torch.stack([_part(alone, tp, name, whole) for tp in range(alone.layout.sizes["tp"])]).sum(0)


def _given(seen: Seen, rank: int) -> Remarks:
    """What a rank was given is as it was."""
    for name, found in seen[rank]["given"].items():
        if not same(found, seen.case.inputs[rank][name]):
            yield say.remark("argument_changed", rank=rank, name=name)
    if seen[rank]["requires_grad"]:
        yield say.remark("requires_gradient", rank=rank)


def _messages(seen: Seen, alone: WholeChain) -> Remarks:
    """Along pp outputs and gradients of inputs, along dp as much as an all-reduce takes, and nothing else."""
    layout = alone.layout
    pairs: dict[tuple[int, int], list[Message]] = {}
    for message in seen.trace:
        if message.nbytes and not is_of_the_play(message, seen.case):
            pairs.setdefault((message.src, message.dst), []).append(message)
    for (src, dst), messages in pairs.items():
        axes = [axis for axis in AXES if layout.where(src)[axis] != layout.where(dst)[axis]]
        if axes == ["pp"] and abs(layout.where(src)["pp"] - layout.where(dst)["pp"]) == 1:
            yield _along_pp(alone, src, dst, messages)
        elif axes != ["dp"]:
            yield say.remark("sends_nothing", such_as(messages[0]), src=src, dst=dst, cause=_why_nothing(axes))
    for group in groups_of(layout.sizes, "dp"):
        yield _along_dp(seen, alone, group, pairs)


def _why_nothing(axes: Sequence[str]) -> str:
    return say("nothing_along_tp") if axes == ["tp"] else say("nothing_across")


def _along_pp(alone: WholeChain, src: int, dst: int, messages: Sequence[Message]) -> Remark | None:
    layout = alone.layout
    samples = list(layout.samples[layout.where(src)["dp"]]) * layout.calls
    found = [message.nbytes / (8 * layout.features) for message in messages]
    if sorted(found) == sorted(samples):
        return None
    nbytes = sum(samples) * 8 * layout.features
    wrong = "packed" if sum(m.nbytes for m in messages) == nbytes else "along_pp_bytes"
    numbers = {"found": _numbers(found), "samples": _numbers(samples), "nbytes": count(nbytes, "byte")}
    return say.remark(wrong, src=src, dst=dst, **numbers)


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _along_dp(
    seen: Seen, alone: WholeChain, group: Sequence[int], pairs: Mapping[tuple[int, int], Sequence[Message]]
) -> Remark | None:
    """An all-reduce of S bytes over N ranks sends 2·(N − 1)·S in all, in a ring as in a tree."""
    layout = alone.layout
    gradients = sum(each.nbytes for each in seen.case.inputs[group[0]]["parameters"].values())
    nbytes = gradients + 8 * layout.is_last(group[0])
    most = 2 * (len(group) - 1) * nbytes * layout.calls
    found = sum(m.nbytes for (src, dst), messages in pairs.items() if src in group and dst in group for m in messages)
    if found <= most:
        return None
    loss = 16 * (len(group) - 1) * layout.calls
    cause = say("loss_of_last_stage" if found - most == loss else "gradients_once")
    numbers = {"found": count(found, "byte"), "most": count(most, "byte"), "nbytes": nbytes}
    return say.remark("along_dp_bytes", ranks=", ".join(map(str, group)), cause=cause, **numbers)


# ── clip_gradients ───────────────────────────────────────────────────────────────────────────────────────────────────

CLIP_ERRORS = (
    ("ranks have to make the same collective calls", say("same_sums")),
    ("waits to", say("same_sums")),
    ("has already returned", say("same_sums")),
    ("stack expects a non-empty", say("none_of_a_kind")),
    ("non-empty list", say("none_of_a_kind")),
)
MOST_NUMBERS = 2  # in a message


@task("mesh", "sharded", "replicated", "max_norm", errors=CLIP_ERRORS, helpers=[all_reduce])
def check_clip_gradients(
    draw: Draw, *, meshes: Sequence[Sizes], also: Sequence[Sequence[int]] = (), spread: float = 1.0
) -> Iterator[Case]:
    """`function(mesh, sharded, replicated, max_norm)`: the norm of all gradients, which are scaled in place.

    Each mesh is played with gradients that are too large, and with some that are not; the second time one stage has no
    sharded gradients, and another one, if there is one, no replicated ones.

    Args:
        also: shapes of further gradients, of both kinds.
        spread: of the numbers in all gradients.
    """
    for sizes in meshes:
        yield _clip_case(draw, sizes, also, spread, too_large=True)
        yield _clip_case(draw, sizes, also, spread, too_large=False)


def _drawn_shapes(draw: Draw) -> list[list[int]]:
    """Of one to four gradients, of one to three dimensions. Each has more numbers than a message of sums."""
    return [[draw.randint(2, 4) for _ in range(draw.randint(1, 3))] + [3] for _ in range(draw.randint(1, 4))]


def _clip_case(draw: Draw, sizes: Sizes, also: Sequence[Sequence[int]], spread: float, *, too_large: bool) -> Case:
    ranks = math.prod(sizes.values())
    where = [coordinates_of(rank, sizes) for rank in range(ranks)]
    gradients: dict[tuple[str, int, int], list[torch.Tensor]] = {}
    for stage in range(sizes["pp"]):
        shapes = {kind: [*_drawn_shapes(draw), *also] for kind in ("sharded", "replicated")}
        for tp in range(sizes["tp"]):
            gradients["sharded", stage, tp] = [spread * draw.normal(shape) for shape in shapes["sharded"]]
        gradients["replicated", stage, 0] = [spread * draw.normal(shape) for shape in shapes["replicated"]]
    if not too_large:
        for key in gradients:
            if key[:2] in (("sharded", 0), ("replicated", 1)):
                gradients[key] = []
    squares = math.fsum(float(each.square().sum()) for own in gradients.values() for each in own)
    norm = math.sqrt(squares)
    max_norm = spread * round(norm / spread * (0.4 if too_large else 1.02), 2)
    inputs = [
        {
            "sizes": dict(sizes),
            "sharded": [each.clone() for each in gradients["sharded", at["pp"], at["tp"]]],
            "replicated": [each.clone() for each in gradients["replicated", at["pp"], 0]],
            "max_norm": max_norm,
        }
        for at in where
    ]
    how = "a norm above max_norm" if too_large else "a norm below it, and no gradients of one kind on stage 0"
    return Case(f"on {count(ranks, 'rank')}, {sizes_in_words(sizes)}, {how}", clip, inputs, (dict(sizes), norm))


@check_clip_gradients.judge
def _(seen: Seen) -> Remarks:
    sizes, norm = seen.facts
    for rank in seen.ranks:
        yield _norm(seen, sizes, norm, rank)
    factor = min(1.0, seen.case.inputs[0]["max_norm"] / norm)
    for rank in seen.ranks:
        for kind in ("sharded", "replicated"):
            for k, given in enumerate(seen.case.inputs[rank][kind]):
                yield _scaled(seen, rank, kind, k, given, factor)
    for message in seen.trace:
        yield _small(sizes, message)


def _norm(seen: Seen, sizes: Sizes, norm: float, rank: int) -> Remark | None:
    found = seen[rank]["norm"]
    is_rounded = isinstance(found, float) and math.isclose(found, norm, rel_tol=1e-5)
    otherwise = say("norm") if isinstance(found, float) else say("norm_is_a_float")
    otherwise = say("float32") if is_rounded else otherwise
    what = f"on rank {rank} the norm that it returned"
    mistakes = partial(_wrong_norms, seen, sizes, norm, rank)
    return holds(what, found, norm, mistakes, same=is_same_number, otherwise=otherwise)


def _wrong_norms(seen: Seen, sizes: Sizes, norm: float, rank: int) -> dict[str, Any]:
    """What usual mistakes give; those that make no difference on this mesh are left out."""
    where = coordinates_of(rank, sizes)
    replica = [given for other, given in enumerate(seen.case.inputs) if coordinates_of(other, sizes)["dp"] == 0]
    squares = [_squares(given["sharded"]) + _squares(given["replicated"]) for given in replica]
    found = {
        say("without_tp"): _norm_of(seen, sizes, only_tp=where["tp"]),
        say("without_pp"): _norm_of(seen, sizes, only_pp=where["pp"]),
        say("replicated_often"): math.sqrt(sum(squares)),
        say("dp_counted"): norm * math.sqrt(sizes["dp"]),
        say("no_root"): norm**2,
        say("sum_of_norms"): sum(map(math.sqrt, squares)),
    }
    return {words: value for words, value in found.items() if not math.isclose(value, norm)}


def _squares(gradients: Sequence[torch.Tensor]) -> float:
    return math.fsum(float(each.square().sum()) for each in gradients)


def _norm_of(seen: Seen, sizes: Sizes, *, only_tp: int | None = None, only_pp: int | None = None) -> float:
    """The norm over the ranks of one replica, or of those of them that have this number along tp or pp."""
    squares = 0.0
    for rank, given in enumerate(seen.case.inputs):
        where = coordinates_of(rank, sizes)
        if where["dp"] or only_pp not in (None, where["pp"]) or only_tp not in (None, where["tp"]):
            continue
        squares += _squares(given["sharded"])
        if where["tp"] == (only_tp or 0):
            squares += _squares(given["replicated"])
    return math.sqrt(squares)


def _scaled(seen: Seen, rank: int, kind: str, k: int, given: torch.Tensor, factor: float) -> Remark | None:
    found, right = seen[rank][kind][k], given * factor
    max_norm, norm = seen.case.inputs[rank]["max_norm"], seen.facts[1]
    mistakes = {
        say("not_scaled"): given if factor < 1 else None,
        say("always_scaled"): given * max_norm / norm,
        say("scaled_twice"): given * factor**2,
    }
    what = f"on rank {rank} the {kind} gradient {k}"
    return holds(what, found, right, mistakes, same=is_close, otherwise=say("scaled"))


def _small(sizes: Sizes, message: Message) -> Remark | None:
    """Messages carry sums, no gradients, and go along tp or pp."""
    if message.nbytes > 8 * MOST_NUMBERS:
        return say.remark(
            "gradients_sent", such_as(message), src=message.src, dst=message.dst, numbers=message.nbytes // 8
        )
    where = [coordinates_of(rank, sizes) for rank in (message.src, message.dst)]
    if where[0]["dp"] != where[1]["dp"]:
        return say.remark("along_dp", such_as(message), src=message.src, dst=message.dst)
    return None


# ── layout_memory ────────────────────────────────────────────────────────────────────────────────────────────────────


def _layout(dp: int, pp: int, tp: int) -> dict[str, int]:
    return {"dp": dp, "pp": pp, "tp": tp}


def _drawn_model(draw: Draw) -> Model:
    return {
        "layers": 12 * draw.randint(1, 4),
        "features": 16 * draw.randint(2, 40),
        "heads": 12,
        "sequence": draw.randint(10, 500),
        "batch": 12 * draw.randint(1, 5),
    }


@task("model", "layout")
def check_layout_memory(
    draw: Draw, *, models: Sequence[Model], layouts: Sequence[tuple[int, int, int]], drawn: int = 0
) -> Iterator[Case]:
    """`function(model, layout)`: the bytes of a rank of the first stage.

    Args:
        layouts: sizes of dp, pp and tp; each is asked for with each model.
        drawn: this many more of both.
    """
    pairs = [(model, _layout(*sizes)) for model in models for sizes in layouts]
    pairs += [(_drawn_model(draw), _layout(*(draw.choice((1, 2, 3, 4)) for _ in AXES))) for _ in range(drawn)]
    for model, layout in pairs:
        title = f"{_as_title(layout)}, {_as_title(model)}"
        yield called(dict(model), dict(layout), facts=(model, layout), title=title)


def _as_title(named: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in named.items())


@check_layout_memory.judge
def _(seen: Seen) -> Remarks:
    model, layout = seen.facts
    states, activations = memory_parts(model, layout)
    each = 2 * parameters_of_rank(model, layout)
    terms = {"of_parameters": each, "of_states": states - 2 * each, "of_activations": activations}
    factors = _factors(layout, {})
    yield _number(seen, layout_bytes(model, layout), partial(_wrong_bytes, model, layout), terms, factors, "memory")


def _number(
    seen: Seen,
    right: float,
    mistakes: Callable[[], Mapping[str, Any]],
    terms: Mapping[str, float],
    factors: Mapping[str, float],
    otherwise: str,
) -> Remark | None:
    """The function must have returned this number.

    Args:
        mistakes: from the words for one to the values that belong to it.
        terms: what the number is the sum of, by the names of sentences. Smaller terms may be part of larger ones.
        factors: by which a usual mistake multiplies one of them, as they are written.
        otherwise: the name of the sentence for anything else.
    """
    found = seen[0]
    if same(found, right):
        return None
    cause = known(found, mistakes(), same)
    if not cause and isinstance(found, int | float):
        cause = _off_in_one_term(found, right, terms, factors)
    return returns(seen, right, otherwise=cause or say(otherwise))


def _off_in_one_term(found: float, right: float, terms: Mapping[str, float], factors: Mapping[str, float]) -> str:
    """The words for a sum in which one term alone is a multiple of what it should be; or for one that is rounded."""
    for name, term in terms.items():
        changes = {words: (factor - 1) * term for words, factor in factors.items()}
        fitting = [
            words
            for words, change in changes.items()
            if abs(change) > 1e-8 * right and math.isclose(found - right, change, rel_tol=1e-4)
        ]
        if fitting:
            return say(
                "term_missing" if fitting[0] == "0" else "term_times", term=say(name), factor=" = ".join(fitting)
            )
    return say("rounded") if float(found).is_integer() and math.isclose(found, right, rel_tol=0.02) else ""


def _factors(layout: Mapping[str, int], more: Mapping[str, float]) -> dict[str, float]:
    """Those of usual mistakes, as a student reads them: sizes that are missing, or stand where they should not."""
    sizes = {**layout, **more}
    turned = {f"1 / ({words})" if " " in words else f"1 / {words}": 1 / size for words, size in sizes.items()}
    return {"0": 0.0, "2": 2.0, "1 / 2": 0.5, "3": 3.0, "4": 4.0, "1 / 4": 0.25, **sizes, **turned}


def _wrong_bytes(model: Model, layout: Mapping[str, int]) -> dict[str, Any]:
    right, (states, activations) = layout_bytes(model, layout), memory_parts(model, layout)
    parameters, (dp, pp, tp) = parameters_of_rank(model, layout), (layout[axis] for axis in AXES)
    live = min(pp, model["batch"] // dp)
    found: dict[str, float | list[float]] = {
        say("states_only"): states,
        say("activations_only"): activations,
        say("not_sharded"): 16 * parameters + activations,
        say("all_sharded"): 16 / dp * parameters + activations,
        say("whole_model"): [each * states + activations for each in (pp * tp, pp, tp)],
        say("one_microbatch"): states + activations / live,
        say("all_microbatches"): states + activations / live * (model["batch"] // dp),
        say("as_many_as_stages"): states + activations / live * pp,
        say("activations_not_by_tp"): states + activations * tp,
        say("activations_of_all_layers"): states + activations * pp,
        say("activations_by_dp"): states + activations / dp,
    }
    return _different(found, right)


def _different(found: Mapping[str, float | list[float]], right: float) -> dict[str, Any]:
    """The values that usual mistakes give, without those that are right by chance."""
    lists = {words: values if isinstance(values, list) else [values] for words, values in found.items()}
    return {words: [each for each in own if not math.isclose(each, right)] for words, own in lists.items()}


# ── layout_seconds ───────────────────────────────────────────────────────────────────────────────────────────────────


def _drawn_cluster(draw: Draw, nodes: int, ranks_per_node: int) -> Cluster:
    """A cluster whose links between nodes are some ten times as slow as those inside."""
    intra = Link(draw.uniform(1.5e-6, 2.5e-6), draw.uniform(30e9, 50e9))
    inter = Link(draw.uniform(1.5e-5, 2.5e-5), draw.uniform(2.5e9, 3.5e9))
    return Cluster(nodes=nodes, ranks_per_node=ranks_per_node, intra=intra, inter=inter)


@task("model", "cluster", "speed", "layout", helpers=[mesh_groups], allowed=("distlib.network.cluster",))
def check_layout_seconds(
    draw: Draw, *, model: Model, clusters: Sequence[tuple[int, int]], speed: float
) -> Iterator[Case]:
    """`function(model, cluster, speed, layout)`: the seconds of a step, for all layouts of each cluster.

    Args:
        clusters: nodes, and ranks on each.
        speed: operations per second of a rank.
    """
    for nodes, ranks_per_node in clusters:
        cluster = _drawn_cluster(draw, nodes, ranks_per_node)
        for layout in layouts_of(model, cluster.world_size):
            title = f"{_as_title(layout)}, {count(nodes, 'node')} of {count(ranks_per_node, 'rank')}"
            facts = model, cluster, speed, layout
            yield called(dict(model), cluster, speed, dict(layout), facts=facts, title=title)


@check_layout_seconds.judge
def _(seen: Seen) -> Remarks:
    model, cluster, speed, layout = seen.facts
    right, steps = seconds_parts(*seen.facts), model["batch"] // layout["dp"] + layout["pp"] - 1
    latencies = seconds_parts(model, cluster, speed, layout, _without_bandwidth(cluster, layout))
    terms = {"all_of_compute": steps * right["compute"]}
    for axis, (whole, waiting, bytes_alone) in TERMS.items():
        times = steps if axis == "tp" else 1
        terms[whole], terms[waiting] = times * right[axis], times * latencies[axis]
        terms[bytes_alone] = times * (right[axis] - latencies[axis])
    factors = _factors(layout, {"m": model["batch"] // layout["dp"], "m + pp - 1": steps})
    yield _number(seen, right["together"], partial(_wrong_seconds, *seen.facts), terms, factors, "seconds")


TERMS = {
    "tp": ("all_of_tp", "latencies_of_tp", "bytes_of_tp"),
    "pp": ("all_of_pp", "latencies_of_pp", "bytes_of_pp"),
    "dp": ("all_of_dp", "latencies_of_dp", "bytes_of_dp"),
}


def _without_bandwidth(cluster: Cluster, layout: Mapping[str, int]) -> dict[str, Link]:
    """Links on which bytes take no time, but messages take as long as before."""
    return {axis: replace(link_of(axis, layout, cluster), bandwidth=math.inf) for axis in AXES}


def _wrong_seconds(model: Model, cluster: Cluster, speed: float, layout: Mapping[str, int]) -> dict[str, Any]:
    parts, (dp, pp, _) = seconds_parts(model, cluster, speed, layout), (layout[axis] for axis in AXES)
    right, microbatches, one = parts["together"], model["batch"] // dp, parts["compute"] + parts["tp"]
    before = right - (microbatches + pp - 1) * one

    def on(**links: Link) -> float:
        return seconds_parts(model, cluster, speed, layout, links)["together"]

    found = {
        say("tp_inside"): on(tp=cluster.intra),
        say("tp_outside"): on(tp=cluster.inter),
        say("dp_inside"): on(dp=cluster.intra),
        say("dp_outside"): on(dp=cluster.inter),
        say("pp_inside"): on(pp=cluster.intra),
        say("pp_outside"): on(pp=cluster.inter),
        say("no_bubble"): before + microbatches * one,
        say("bubble_of_all"): before + (microbatches + pp) * one,
        say("one_microbatch_only"): before + (1 + pp - 1) * one,
        say("batch_not_by_dp"): before + (model["batch"] + pp - 1) * one,
        say("no_tp"): right - (microbatches + pp - 1) * parts["tp"],
        say("tp_of_all_layers"): right + (microbatches + pp - 1) * parts["tp"] * (pp - 1),
        say("no_pp"): right - parts["pp"],
        say("pp_one_way"): right - parts["pp"] / 2,
        say("no_dp"): right - parts["dp"],
        say("dp_each_microbatch"): right + parts["dp"] * (microbatches - 1),
        say("forward_only"): right - (microbatches + pp - 1) * parts["compute"] * 2 / 3,
    }
    return _different(found, right)


# ── choose_strategy ──────────────────────────────────────────────────────────────────────────────────────────────────


@task(
    "model",
    "cluster",
    "memory",
    "speed",
    helpers=[mesh_groups, layout_memory, layout_seconds],
    errors=[("ZeroDivisionError", say("zero"))],
    allowed=("distlib.network.cluster",),
)
def check_choose_strategy(draw: Draw, *, model: Model, clusters: Sequence[tuple[int, int]]) -> Iterator[Case]:
    """`function(model, cluster, memory, speed)`: the fastest layout that fits.

    Each cluster has much memory first, then too little for the fastest layout, for two layouts, for one, and for none.
    """
    for nodes, ranks_per_node in clusters:
        cluster = _drawn_cluster(draw, nodes, ranks_per_node)
        for speed in (1e11 * draw.uniform(0.7, 1.3), 2e12 * draw.uniform(0.7, 1.3)):
            for memory, how in _memories(model, cluster, speed):
                title = f"{count(nodes, 'node')} of {count(ranks_per_node, 'rank')}, {speed / 1e9:g} Gflop/s, {how}"
                arguments = {"args": [dict(model), cluster, memory, speed], "kwargs": {}}
                yield Case(title, attempt, [arguments], (model, cluster, memory, speed))


def _memories(model: Model, cluster: Cluster, speed: float) -> Iterator[tuple[float, str]]:
    """Bytes of memory at which another layout is the best one."""
    layouts = list(layouts_of(model, cluster.world_size))
    needs = sorted({layout_bytes(model, layout) for layout in layouts})
    yield float(round(2 * needs[-1])), "room for all"
    best = best_layout(model, cluster, math.inf, speed)
    assert best is not None
    if (before := [each for each in needs if each < layout_bytes(model, best)]) and len(before) > 2:
        yield float(math.ceil(before[-1])), "no room for the fastest of all"
    if len(needs) > 2:
        yield float(math.ceil(needs[1])), "room for few"
    yield float(math.ceil(needs[0])), "room for the smallest"
    yield float(math.floor(needs[0]) - 1000), "room for none"


@check_choose_strategy.judge
def _(seen: Seen) -> Remarks:
    model, cluster, memory, speed = seen.facts
    right, told = best_layout(model, cluster, memory, speed), seen[0]
    if "refused" in told:
        yield _refused(told["refused"], right, least_bytes(model, cluster.world_size))
        return
    found = told["returned"]
    if not isinstance(found, dict) or set(found) != set(AXES) or not all(type(n) is int for n in found.values()):
        yield say.remark("no_layout", found=shown(found))
        return
    yield _possible(model, cluster, found)
    yield _fits(model, memory, found, right)
    yield _fastest(model, cluster, memory, speed, found)


def _refused(text: str, right: Mapping[str, int] | None, least: float) -> Remark | None:
    """What is wrong with a ValueError."""
    if right is not None:
        cause = "other_ranks" if "does not have" in text else "none_tried" if "empty" in text else "at_most"
        return say.remark("refused", f"such as {_as_title(right)}", text=text, cause=say(cause))
    if f"{least:.0f}" in text:
        return None
    has_separators = any(f"{least:,.0f}".replace(",", each) in text for each in (",", "_", " ", "'", "."))
    cause = "nothing_fits" if "empty" in text else "separators" if has_separators else "least"
    return say.remark("no_bytes", least=f"{least:.0f}", text=text, cause=say(cause))


def _possible(model: Model, cluster: Cluster, found: Mapping[str, int]) -> Remark | None:
    if found in list(layouts_of(model, cluster.world_size)):
        return None
    parts = _as_title({"layers": model["layers"], "heads": model["heads"], "batch": model["batch"]})
    return say.remark("not_possible", found=_as_title(found), ranks=cluster.world_size, parts=parts)


def _fits(model: Model, memory: float, found: Mapping[str, int], right: Mapping[str, int] | None) -> Remark | None:
    nbytes = layout_bytes(model, found)
    if nbytes <= memory:
        return None
    cause = say("must_refuse") if right is None else say("leave_out", right=_as_title(right))
    return say.remark("too_large", found=_as_title(found), nbytes=f"{nbytes:.0f}", memory=f"{memory:.0f}", cause=cause)


def _fastest(model: Model, cluster: Cluster, memory: float, speed: float, found: Mapping[str, int]) -> Remark | None:
    right = best_layout(model, cluster, memory, speed)
    assert right is not None
    seconds = [seconds_parts(model, cluster, speed, each)["together"] for each in (right, found)]
    if seconds[1] <= seconds[0] * (1 + 1e-9):
        return None
    lines = [f"{_as_title(each)}: {own:.4g} s" for each, own in zip((right, found), seconds, strict=True)]
    fitting = [each for each in layouts_of(model, cluster.world_size) if layout_bytes(model, each) <= memory]
    smallest = min(fitting, key=lambda each: layout_bytes(model, each))
    slowest = max(fitting, key=lambda each: seconds_parts(model, cluster, speed, each)["together"])
    if list(found) != list(AXES):
        cause = "order_of_axes"
    elif found == smallest:
        cause = "memory_alone"
    elif found == slowest:
        cause = "the_slowest"
    else:
        cause = "not_the_fastest"
    return say.remark("slower", f"expected {lines[0]}", f"found    {lines[1]}", cause=say(cause))

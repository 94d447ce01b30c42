"""Exercises 17 and 17b: three patients that stop with an error, or add up what does not belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.hang_clinic.checks import SUPPLIED, number_is, shapes, waiting
from distlib.exercises.hang_clinic.plays import average_dict, call_with_comm

say = Sentences(__file__)


# ── average_by_name ──────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = ("encoder.weight", "encoder.bias", "decoder.weight", "decoder.bias", "norm.scale", "norm.shift", "head.weight")
ALIKE, UNLIKE = "all of one shape", "of different shapes"


@task("comm", "gradients", helpers=SUPPLIED, errors=[*waiting(say("one_order")), ("NoneType", say("works_in_place"))])
def check_average_by_name(
    draw: Draw, *, models: Sequence[tuple[int, int, bool]], dimensions: int = 1
) -> Iterator[Case]:
    """`function(comm, gradients)`: each gradient becomes the mean of those with its name.

    Args:
        models: of each the ranks, the gradients, and whether all have one shape.
        dimensions: of a gradient, at most.
    """
    for ranks, number, alike in models:
        chosen = draw.sample(NAMES, number)
        different = _different_shapes(draw, ranks, number, dimensions)
        shape_of = dict(zip(chosen, [different[0]] * number if alike else different, strict=True))
        orders = _orders(draw, chosen, ranks)
        inputs = [{"names": order, "tensors": [draw.normal(shape_of[name]) for name in order]} for order in orders]
        title = f"on {count(ranks, 'rank')}, {count(number, 'gradient')} {ALIKE if alike else UNLIKE}"
        yield Case(title, average_dict, inputs)


def _different_shapes(draw: Draw, ranks: int, number: int, dimensions: int) -> list[tuple[int, ...]]:
    while True:
        drawn = list(shapes(draw, [[ranks, number]] * number, dimensions))
        if len(set(drawn)) == number:
            return drawn


def _orders(draw: Draw, names: Sequence[str], ranks: int) -> list[list[str]]:
    """By rank the names in its order. On rank 1 another one comes first than on rank 0."""
    while True:
        orders = [draw.sample(names, len(names)) for _ in range(ranks)]
        if ranks == 1 or orders[0][0] != orders[1][0]:
            return orders


@check_average_by_name.judge
def _(seen: Seen) -> Remarks:
    given = [dict(zip(own["names"], own["tensors"], strict=True)) for own in seen.case.inputs]
    for rank in seen.ranks:
        for name in sorted(given[rank]):
            same_name = torch.stack([own[name] for own in given])
            index = seen.case.inputs[rank]["names"].index(name)
            in_place = [own["tensors"][index] for own in seen.case.inputs]
            is_one_shape = len({each.shape for each in in_place}) == 1
            is_broadcast = seen.size > 1 and all(is_close(told.get(name), same_name[0]) for told in seen.results)
            mistakes: dict[str, Any] = {
                say("of_rank_0"): same_name[0] if is_broadcast else None,
                say("own_gradient"): given[rank][name],
                say("sum_of_gradients"): same_name.sum(0),
                say("by_place"): torch.stack(in_place).mean(0) if is_one_shape else None,
            }
            found, what = seen[rank].get(name), f"on rank {rank} the gradient of {name}"
            yield holds(what, found, same_name.mean(0), mistakes, same=is_close, otherwise=say("mean_by_name"))


# ── gather_predictions ───────────────────────────────────────────────────────────────────────────────────────────────

LIKE_PADDING = (0, -1)
GATHER_ERRORS = [
    *waiting(say("one_length")),
    ("must match the", say("own_length")),
    ("invalid for input of size", say("own_length")),
    ("NoneType", say("works_in_place")),
]


@task("comm", "predictions", helpers=SUPPLIED, errors=GATHER_ERRORS, untouched=["predictions"])
def check_gather_predictions(
    draw: Draw, *, lengths: Sequence[Sequence[int]], dtype: torch.dtype = torch.float64
) -> Iterator[Case]:
    """`function(comm, predictions)`: those of all ranks, in order. `lengths`: of each case, how many each rank has."""
    for numbers in lengths:
        inputs = [{"predictions": _predictions(draw, rank, number, dtype)} for rank, number in enumerate(numbers)]
        title = f"on {count(len(numbers), 'rank')}, {' + '.join(map(str, numbers))} predictions, {dtype_name(dtype)}"
        yield Case(title, call_with_comm, inputs)


def _predictions(draw: Draw, rank: int, number: int, dtype: torch.dtype) -> torch.Tensor:
    """Drawn ones. From two on, one of them, but not the last, looks like padding: 0 or -1."""
    drawn = draw.whole((number,), dtype, most=999)
    if dtype.is_floating_point:
        drawn += 0.25
    if number > 1:
        drawn[draw.randrange(number - 1)] = LIKE_PADDING[rank % 2]
    return drawn


@check_gather_predictions.judge
def _(seen: Seen) -> Remarks:
    parts = seen.given("predictions")
    longest, shortest = max(map(len, parts)), min(map(len, parts))
    padded = [torch.cat([part, part.new_zeros(longest - len(part))]) for part in parts]
    right = torch.cat(parts)
    by_value = [right[right != padding] for padding in LIKE_PADDING]
    for rank in seen.ranks:
        found = seen[rank]["returned"]
        mistakes = {
            say("own_predictions"): parts[rank],
            say("padding_left"): torch.cat(padded),
            say("cut_to_shortest"): torch.cat([part[:shortest] for part in parts]),
            say("removed_by_value"): [each for each in by_value if len(each) < len(right)],
            say("own_missing"): torch.cat([parts[0][:0], *parts[:rank], *parts[rank + 1 :]]),
            say("order_of_ranks"): [torch.cat([*parts[k:], *parts[:k]]) for k in seen.ranks],
        }
        otherwise = say("gathers_nothing" if found is None else "all_predictions")
        yield holds(f"what rank {rank} returned", found, right, mistakes, otherwise=otherwise)


# ── mean_over_samples ────────────────────────────────────────────────────────────────────────────────────────────────

MEAN_ERRORS = [
    ("int64", say("int_here")),
    ("float32", say("float_here")),
    *waiting(say("all_add")),
    ("division by zero", say("nobody_divides_by_zero")),
]


@task("comm", "losses", helpers=SUPPLIED, errors=MEAN_ERRORS, untouched=["losses"])
def check_mean_over_samples(draw: Draw, *, lengths: Sequence[Sequence[int]]) -> Iterator[Case]:
    """`function(comm, losses)`: the mean over the samples of all ranks. `lengths`: how many each rank has."""
    for numbers in lengths:
        inputs = [{"losses": [draw.uniform(0.1, 9.0) for _ in range(number)]} for number in numbers]
        title = f"on {count(len(numbers), 'rank')}, losses of {' + '.join(map(str, numbers))} samples"
        yield Case(title, call_with_comm, inputs)


@check_mean_over_samples.judge
def _(seen: Seen) -> Remarks:
    losses = seen.given("losses")
    number, total = sum(map(len, losses)), sum(map(sum, losses))
    means = [sum(own) / len(own) if own else 0.0 for own in losses]
    whole = sum(int(sum(own)) for own in losses)
    for rank in seen.ranks:
        found = seen[rank]["returned"]
        mistakes = {
            say("own_mean"): means[rank],
            say("mean_of_rank_means"): [sum(means) / seen.size, sum(means) / sum(map(bool, losses))],
            say("divided_by_ranks"): total / seen.size,
            say("total_loss"): total,
            say("rounded_to_whole"): whole / number,
        }
        yield number_is(f"what rank {rank} returned", found, total / number, mistakes, say("mean_of_samples"))

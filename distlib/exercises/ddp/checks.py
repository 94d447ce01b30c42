"""Exercises 05 and 05b: averages of gradients, buckets, and the sampler."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, dtype_name
from distlib.checks.helpers import all_reduce, broadcast
from distlib.checks.models import Gradients
from distlib.checks.plays.gradients import after_backward
from distlib.checks.remark import Remark
from distlib.checks.rules.flat_all_reduce import TOGETHER
from distlib.checks.rules.returns import called, returns, same
from distlib.checks.rules.values import explain_average, holds, is_close, is_equal, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.ddp import sampling_plays
from distlib.exercises.ddp.all_reduces import all_reduces, by_sender
from distlib.exercises.ddp.overlapped_ddp import SUPPLIED_ERRORS
from distlib.training.buckets import assign_buckets

say = Sentences(__file__)
SUPPLIED = (all_reduce, broadcast)


# ── average_gradients ────────────────────────────────────────────────────────────────────────────────────────────────
def _errors(seen: Seen) -> Signs:
    model: Gradients = seen.facts
    nothing = "no_gradient" if model.missing else "frozen_has_none" if model.frozen else "works_in_place"
    disagree = say("zeros_in_its_place" if model.missing else "same_calls")
    return (
        *SUPPLIED_ERRORS,
        *TOGETHER,
        ("NoneType", say(nothing)),
        ("zero-dimensional tensor", say("make_flat")),
        ("receives into", disagree),
        ("have to make the same collective calls", disagree),
        ("waits to", disagree),
        ("has already returned", disagree),
    )


@task("comm", "module", helpers=SUPPLIED, errors=_errors)
def check_average_gradients(draw: Draw, *, world_sizes: Sequence[int], models: Sequence[Gradients]) -> Iterator[Case]:
    """`function(comm, module)`: afterwards the gradient of every parameter is the average over all ranks.

    A gradient that is missing on a rank counts as zeros. All gradients go in one all-reduce.
    """
    for model, ranks in ((model, n) for model in models for n in world_sizes):
        missing = {*model.missing, *((rank, number) for rank in range(ranks) for number in model.frozen)}
        weights = [draw.whole(shape, model.dtype) for shape in model.shapes]
        lacking = sum(rank < ranks for rank, _ in model.missing)
        title = (
            f"on {count(ranks, 'rank')}, {count(len(weights), 'parameter')}"
            + f", {count(lacking, 'gradient')} missing" * bool(lacking)
            + f", {len(model.frozen)} frozen" * bool(model.frozen)
            + f", {dtype_name(model.dtype)}" * (model.dtype == torch.bfloat16)
        )
        inputs = [
            {
                "weights": weights,
                "frozen": list(model.frozen),
                "gradients": [
                    None if (rank, number) in missing else draw.whole(shape, model.dtype, most=99) / 10
                    for number, shape in enumerate(model.shapes)
                ],
            }
            for rank in range(ranks)
        ]
        yield Case(title, after_backward, inputs, model)


@check_average_gradients.judge
def _(seen: Seen) -> Remarks:
    model, first = seen.facts, seen.case.inputs[0]["weights"]
    for rank, number in itertools.product(seen.ranks, range(len(model.shapes))):
        yield _average(seen, rank, number)
    for rank, number in itertools.product(seen.ranks, range(len(model.shapes))):
        what = f"on rank {rank}, parameter {number} itself"
        yield untouched(what, seen[rank]["weights"][number], first[number], say("leave_parameters"))
    sizes = [first[number].nbytes for number in model.trained]
    every = sum(weight.nbytes for weight in first)
    if seen.size > 1:
        yield all_reduces(
            by_sender(seen),
            [model.nbytes],
            model.dtype,
            what="gradients",
            before="the averages are right, but ",
            mistakes={say("one_each"): [sizes, sizes[::-1]], say("frozen_sent"): [[every]]},
            otherwise=say("one_flat_tensor"),
        )


def _average(seen: Seen, rank: int, number: int) -> Remark | None:
    """Whether a parameter's gradient on a rank is the average, or None if it is frozen."""
    found, what = seen[rank]["gradients"][number], f"on rank {rank}, the gradient of parameter {number}"
    if number in seen.facts.frozen:
        return holds(what, found, None, otherwise=say("frozen"))
    size, given = seen.size, [gradients[number] for gradients in seen.given("gradients")]
    own, there = given[rank], [each for each in given if each is not None]
    total = sum(there, torch.zeros_like(seen.case.inputs[0]["weights"][number]))
    everywhere = all(close(seen[each]["gradients"][number], given[0]) for each in seen.ranks)
    mistakes = {
        say("broadcast"): given[0] if everywhere and size > 1 else None,
        say("own"): own,
        say("sum"): total,
        say("own_divided"): None if own is None else own / size,
        say("divided_twice"): total / size**2,
        say("added"): None if own is None else own + total / size,
    }
    otherwise = say("missing") if found is None else explain_average(found, total / size) or say("no_average")
    return holds(what, found, total / size, mistakes, same=close, otherwise=otherwise)


def close(found: object, right: object) -> bool:
    """Rounding is free, also in float32 and bfloat16."""
    is_coarse = isinstance(right, torch.Tensor) and right.dtype == torch.bfloat16
    return is_close(found, right, relative=2e-2, absolute=0.2) if is_coarse else is_close(found, right, absolute=1e-4)


# ── assign_buckets ───────────────────────────────────────────────────────────────────────────────────────────────────

Question = tuple[Sequence[int], int, int]  # sizes, bucket_bytes, first_bucket_bytes


@task("nbytes", "bucket_bytes", "first_bucket_bytes")
def check_assign_buckets(draw: Draw, *, questions: Sequence[Question], drawn: int = 0) -> Iterator[Case]:
    """`function(nbytes, bucket_bytes, first_bucket_bytes)`: buckets of indices, from the last parameter on.

    `drawn`: how many more questions come at the end, which no table of answers has.
    """
    more = [_question(draw) for _ in range(drawn)]
    for nbytes, limit, first in (*questions, *more):
        yield called(list(nbytes), limit, first, facts=(nbytes, limit, first))


def _question(draw: Draw) -> Question:
    return [draw.randint(0, 60) for _ in range(draw.randint(1, 12))], draw.randint(1, 120), draw.randint(1, 60)


@check_assign_buckets.judge
def _(seen: Seen) -> Remarks:
    right, mistakes = assign_buckets(*seen.facts), _wrong_buckets(*seen.facts)
    fitting = [words for words, value in mistakes.items() if same(seen[0], value)]  # with few parameters, several may
    yield returns(seen, right, otherwise=" Or: ".join(fitting[:2]) or _what_is_off(seen[0], len(seen.facts[0])))


def _wrong_buckets(nbytes: Sequence[int], limit: int, first: int) -> dict[str, list[list[int]] | None]:
    """The buckets of usual mistakes; None where one makes no others."""
    right, number, backwards = assign_buckets(nbytes, limit, first), len(nbytes), list(reversed(range(len(nbytes))))
    return {
        say("no_last_bucket"): right[:-1],
        say("from_the_end"): [[number - 1 - index for index in bucket] for bucket in right],
        say("empty_too"): [*right, []],
        say("bucket_turned"): [bucket[::-1] for bucket in right],
        say("buckets_turned"): right[::-1],
        say("from_the_first"): _filled(range(number), nbytes, limit, first),
        say("one_limit"): _filled(backwards, nbytes, limit, limit),
        say("exchanged"): _filled(backwards, nbytes, first, limit),
        say("always_first_limit"): _filled(backwards, nbytes, first, first),
        say("never_reset"): _filled(backwards, nbytes, limit, first, resets=False),
        say("beyond_limit"): _filled(backwards, nbytes, limit + 1, first + 1),
        say("closed_before"): _filled(backwards, nbytes, limit, first, closes_before=True),
        say("by_number"): _filled(backwards, [1] * number, limit, first),
        say("first_not_filled"): _filled(backwards, nbytes, limit, 0),
        say("one_bucket"): [backwards] if number else None,
        say("bucket_for_each"): [[index] for index in backwards],
        say("sizes"): [[nbytes[i] for i in bucket] for bucket in right],
    }


def _filled(
    order: Sequence[int],
    nbytes: Sequence[int],
    limit: int,
    first: int,
    closes_before: bool = False,
    resets: bool = True,
) -> list[list[int]]:
    """Buckets that are filled in another order, or by another rule."""
    buckets: list[list[int]] = [[]]
    for index in order:
        most = first if len(buckets) == 1 else limit
        held = sum(nbytes[i] for bucket in (buckets[-1:] if resets else buckets) for i in bucket)
        if buckets[-1] and (held + nbytes[index] > most if closes_before else held >= most):
            buckets.append([])
        buckets[-1].append(index)
    return [bucket for bucket in buckets if bucket]


def _what_is_off(found: Any, number: int) -> str:
    if not isinstance(found, list | tuple) or not all(isinstance(bucket, list | tuple) for bucket in found):
        return say("no_lists")
    if len(found) > 1 and all(bucket == found[0] for bucket in found):
        return say("same_list")
    times = Counter(index for bucket in found for index in bucket)
    if not all(found):
        return say("empty")
    if missing := set(range(number)) - set(times):
        several = len(missing) > 1
        return say("several_in_no_bucket", index=min(missing)) if several else say("in_no_bucket", index=min(missing))
    return say("in_two_buckets") if max(times.values(), default=0) > 1 else ""


# ── DistributedSampler ───────────────────────────────────────────────────────────────────────────────────────────────
# By its properties: nobody knows how it shuffles.

SHUFFLED_FROM = 8  # samples: with fewer, two random orders may be the same by chance
SAMPLER_ERRORS = (
    ("non-iterator", say("no_iterator")),
    ("attribute 'epoch'", say("no_epoch")),
    ("'float' object cannot be interpreted", say("fraction")),
)


@dataclass(frozen=True)
class Sampling:
    """The facts of a case: samples in the data set, what the sampler is made with, and the epochs in their order."""

    length: int
    drop_last: bool
    shuffle: bool
    epochs: Sequence[int]


@dataclass(frozen=True)
class Epoch:
    """What all ranks have got in one epoch, by rank."""

    parts: Sequence[Sequence[Any]]

    @property
    def order(self) -> list[Any]:
        """The samples in the order in which all ranks together take them: one of each rank, and again."""
        return list(itertools.chain.from_iterable(zip(*self.parts, strict=True)))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(f"rank {rank}: {_listed(part)}" for rank, part in enumerate(self.parts))


@task("comm", "dataset", "shuffle=True", "seed=0", "drop_last=False", helpers=SUPPLIED, errors=SAMPLER_ERRORS)
def check_sampler(
    draw: Draw,
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    drop_last: Sequence[bool] = (False, True),
    shuffle: Sequence[bool] = (True, False),
    epochs: tuple[int, int, int] = (1, 2, 3),
) -> Iterator[Case]:
    """The class `function(comm, dataset, shuffle=, seed=, drop_last=)` with set_epoch, len and iter.

    Every combination is a case. Of a data set only len is looked at. No message is sent.

    Args:
        epochs: that follow epoch 0. The first of them comes once more before the last.
    """
    one, two, three = epochs
    for ranks, length, drops, shuffles in itertools.product(world_sizes, lengths, drop_last, shuffle):
        facts = Sampling(length, drops, shuffles, (0, one, two, one, three))
        seeds = draw.sample(range(1_000_000), 2)
        notes = ", drop_last=True" * drops + ", shuffle=False" * (not shuffles)
        inputs = {
            "length": length,
            "options": [{"shuffle": shuffles, "seed": seed, "drop_last": drops} for seed in seeds],
            "epochs": list(facts.epochs),
            "random_seed": draw.getrandbits(60),
        }
        yield Case(
            f"on {count(ranks, 'rank')}, {count(length, 'sample')}{notes}",
            sampling_plays.epochs,
            [inputs] * ranks,
            facts,
        )


@check_sampler.judge
def _(seen: Seen) -> Remarks:
    samplers = [
        [Epoch([played["indices"][k][number] for played in seen.results]) for number in range(len(seen.facts.epochs))]
        for k in (0, 1)
    ]
    for epoch in itertools.chain.from_iterable(samplers):
        yield from _numbers(seen, epoch)
        yield from _cover(seen, epoch)
    yield from (_shuffled if seen.facts.shuffle else _unshuffled)(seen, samplers)
    for rank, played in enumerate(seen.results):
        if played["again"] != [indices[-1] for indices in played["indices"]]:
            yield say.remark("second_time", rank=rank)
        if played["unset"] != [indices[0] for indices in played["indices"]]:
            yield say.remark("before_set_epoch", rank=rank)
        random_state = torch.Generator().manual_seed(seen.case.inputs[rank]["random_seed"]).get_state()
        if not is_equal(played["random_state"], random_state):
            yield say.remark("torch_generator")
        for module in played["changed"]:
            yield say.remark("other_generator", module=module)
    if sent := len(seen.trace):
        yield say.remark("messages_sent", messages=count(sent, "message"))


def _numbers(seen: Seen, epoch: Epoch) -> Remarks:
    """What, and how much of it, a rank gets in one epoch."""
    length = seen.facts.length
    nearly = (length // seen.size, -(-length // seen.size))
    each = nearly[0] if seen.facts.drop_last else nearly[1]
    for rank, part in enumerate(epoch.parts):
        for index in part:
            if type(index) is not int or not 0 <= index < length:
                cause = say("tensors" if isinstance(index, torch.Tensor) else "samples")
                yield say.remark("no_index", rank=rank, index=index, last=length - 1, cause=cause)
        if len(part) != each:
            cause, samples = say(_why_another_number(seen, epoch, rank, each)), count(len(part), "sample")
            yield say.remark("wrong_number", *epoch.lines, rank=rank, samples=samples, each=each, cause=cause)
        for said in seen[rank]["lengths"]:
            if said != each:
                cause = say("len_rounds" if said in nearly else "len_of_this_rank")
                yield say.remark("wrong_len", rank=rank, said=said, each=each, cause=cause)


def _why_another_number(seen: Seen, epoch: Epoch, rank: int, each: int) -> str:
    """The name of the cause why a rank has not got `each` samples."""
    length, lengths = seen.facts.length, {len(part) for part in epoch.parts}
    if not epoch.parts[rank] and seen[rank]["unset"][0]:
        return "gone_through"
    if lengths <= {length, each * seen.size}:
        return "whole_data_set"
    if len(lengths) > 1 and not lengths <= {length // seen.size, -(-length // seen.size)}:
        return "every_nth"
    if len(lengths) > 1:
        return "fewer_drop" if seen.facts.drop_last else "fewer_repeat"
    return "drop" if seen.facts.drop_last else "repeat"


def _cover(seen: Seen, epoch: Epoch) -> Remarks:
    """Whether all samples are there, each as often as it must be."""
    length = seen.facts.length
    whole, more = epoch.order[:length], epoch.order[length:]
    if set(whole) == set(range(length)) and more != [whole[k % length] for k in range(len(more))]:
        yield say.remark("padding", *epoch.lines)
    twice = sorted(index for index, number in Counter(whole).items() if number > 1)
    if twice:
        what = {"samples": count(len(twice), "sample"), "which": _listed(twice), "cause": say(_why_twice(seen, epoch))}
        if more:
            yield say.remark("twice_before_padding", *epoch.lines, length=length, **what)
        else:
            yield say.remark("twice", *epoch.lines, **what)


def _why_twice(seen: Seen, epoch: Epoch) -> str:
    """The name of the cause why samples come more than once."""
    own = [index for part in epoch.parts for index, number in Counter(part).items() if number > 1]
    if any(played["hashes_text"] for played in seen.results):
        return "hash_of_text"
    if seen.size == 1 or (own and len(epoch.order) == seen.facts.length):
        return "each_once"
    return "too_early" if set(epoch.order) == set(range(seen.facts.length)) else "overlap"


def _unshuffled(seen: Seen, samplers: Sequence[Sequence[Epoch]]) -> Remarks:
    one, two = samplers[0][0], samplers[0][1]
    is_shuffled = seen.facts.length >= SHUFFLED_FROM and one.order != two.order
    for epoch in itertools.chain.from_iterable(samplers):
        if not _is_in_order(seen, epoch):
            cause = say("shuffled_anyway" if is_shuffled else "every_nth")
            yield say.remark("not_in_order", *epoch.lines, cause=cause)


def _shuffled(seen: Seen, samplers: Sequence[Sequence[Epoch]]) -> Remarks:
    first, second, _, second_again, _ = samplers[0]
    if seen.facts.length < SHUFFLED_FROM:
        return
    if _is_in_order(seen, first):
        cause = say("never_shuffled" if first.order == second.order else "epoch_0")
        yield say.remark("in_order", *first.lines, cause=cause)
    if second.order != second_again.order:
        yield say.remark("other_order_again")
    for one, two in itertools.combinations(dict(zip(seen.facts.epochs, samplers[0], strict=True)).items(), 2):
        if one[1].order == two[1].order:
            yield say.remark("same_order", one=one[0], other=two[0])
    if seen.size > 1 and all(_same_parts(one, two) for those in samplers for one, two in itertools.pairwise(those)):
        yield say.remark("same_parts")
    if first.order == samplers[1][0].order:
        cause = say("seed_and_epoch" if second.order == samplers[1][1].order else "product")
        yield say.remark("same_for_seeds", cause=cause)
    dropped = set(range(seen.facts.length)).difference(*(epoch.order for those in samplers for epoch in those))
    if dropped and len(dropped) == seen.facts.length - len(first.order):
        samples, which = count(len(dropped), "sample"), _listed(sorted(dropped))
        yield say.remark("always_dropped", samples=samples, which=which)


def _is_in_order(seen: Seen, epoch: Epoch) -> bool:
    """Whether the samples come as they are numbered, as far as they are not repeated."""
    return epoch.order[: seen.facts.length] == list(range(min(seen.facts.length, len(epoch.order))))


def _same_parts(one: Epoch, two: Epoch) -> bool:
    """Whether every rank has the same samples in both. In one pair of epochs that may happen by chance."""
    return all(set(these) == set(those) for these, those in zip(one.parts, two.parts, strict=True))


def _listed(numbers: Sequence[Any]) -> str:
    return ", ".join(map(str, numbers[:12])) + (" …" if len(numbers) > 12 else "")

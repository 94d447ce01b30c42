"""Exercise 11: how much each stage keeps, states that are cut, and gradients that are cut."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, dtype_name, listed
from distlib.checks.helpers import all_reduce
from distlib.checks.rules.flat_all_reduce import TOGETHER
from distlib.checks.rules.returns import called, returns, type_of
from distlib.checks.rules.values import Mistakes, compared, explain_factor, holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.zero.cases import (
    Clipping,
    Optimizing,
    WholeGradient,
    WholeOptimizer,
    clipping_case,
    optimizing_case,
)
from distlib.exercises.zero.helpers import all_gather, reduce_scatter

say = Sentences(__file__)
SUPPLIED = (all_gather, reduce_scatter, all_reduce)
OTHER_EPSILONS = (0, 1e-12, 1e-10, 1e-8, 1e-5, 1e-4, 1e-3)  # than 1e-6
BYTES = (2, 2, 12)  # of a number as parameter, gradient and states, by default

SIGNS: Signs = (
    ("has no 'all_reduce'", say("function")),
    ("has no 'all_gather'", say("function")),
    ("has no 'reduce_scatter'", say("function")),
    ("comm as the first argument", say("function")),
    ("Default process group", say("function")),
    ("DistStoreError", say("function")),
    ("have to make the same collective calls", say("same_calls")),
    ("receives into", say("same_calls")),
    ("waits to", say("same_calls")),
    ("unexpected keyword argument 'async_op'", say("no_async_op")),
    ("a leaf Variable that requires grad", say("leaf")),
)


def _same(found: Any, right: Any) -> bool:
    """Whether two tensors differ by rounding at most."""
    single = isinstance(right, torch.Tensor) and right.dtype == torch.float32
    return is_close(found, right, relative=1e-3, absolute=1e-4) if single else is_close(found, right, relative=1e-5)


# ── memory_by_stage ──────────────────────────────────────────────────────────────────────────────────────────────────


@task("lengths", "world_size", "parameter_bytes", "gradient_bytes", "state_bytes")
def check_memory_by_stage(draw: Draw, *, questions: Sequence[tuple[Any, ...]], drawn: int = 0) -> Iterator[Case]:
    """`function(lengths, world_size, …)`: the bytes of each stage.

    Args:
        questions: arguments.
        drawn: how many more there are, of any size.
    """
    for question in [*questions, *(_drawn_question(draw) for _ in range(drawn))]:
        yield called(*question, facts=question)


def _drawn_question(draw: Draw) -> tuple[Any, ...]:
    lengths = [draw.randint(1, 500) for _ in range(draw.randint(1, 5))]
    return lengths, draw.randint(2, 20), draw.randint(1, 8), draw.randint(1, 8), draw.randint(0, 16)


@check_memory_by_stage.judge
def _(seen: Seen) -> Remarks:
    lengths, ranks, *nbytes = seen.facts
    right = by_stage(lengths, ranks, nbytes or BYTES)
    mistakes = partial(_memory_mistakes, lengths, ranks, nbytes or BYTES)
    yield returns(seen, right, mistakes, otherwise=say("memory_values"))


def by_stage(lengths: Sequence[int], ranks: int, nbytes: Sequence[float], shards: float | None = None) -> list[float]:
    """The bytes that a rank keeps at stages 0 to 3.

    Args:
        nbytes: of a number as parameter, gradient and states.
        shards: how many numbers a rank has in its shards; by default of units that are padded.
    """
    whole = sum(lengths)
    own = sum(-(-length // ranks) for length in lengths) if shards is None else shards
    return [sum(nbytes[: 3 - stage]) * whole + sum(nbytes[3 - stage :]) * own for stage in range(4)]


def _memory_mistakes(lengths: Sequence[int], ranks: int, nbytes: Sequence[int]) -> Mistakes:
    right, whole = by_stage(lengths, ranks, nbytes), sum(lengths)
    padded = [-(-length // ranks) * ranks for length in lengths]
    parameters, gradients, states = nbytes
    return {
        say("first_three"): right[1:],
        say("all_ranks"): [ranks * each for each in right],
        say("padded_whole"): by_stage(padded, ranks, nbytes),
        say("not_padded"): by_stage(lengths, ranks, nbytes, whole / ranks),
        say("rounded_down"): by_stage(lengths, ranks, nbytes, sum(length // ranks for length in lengths)),
        say("one_buffer"): by_stage(lengths, ranks, nbytes, -(-whole // ranks)),
        say("one_buffer_rounded"): by_stage(lengths, ranks, nbytes, whole // ranks),
        say("largest_only"): by_stage(lengths, ranks, nbytes, -(-max(lengths) // ranks)),
        say("always_default"): by_stage(lengths, ranks, BYTES),
        say("adam_of_two"): by_stage(lengths, ranks, (parameters, gradients, states - 4)),
        say("parameters_first"): by_stage(lengths, ranks, (states, gradients, parameters)),
        say("gradients_first"): by_stage(lengths, ranks, (parameters, states, gradients)),
        say("one_kind_each"): _one_kind_each(lengths, ranks, nbytes),
        say("not_cut"): [right[0]] * 4,
        say("one_unit_only"): by_stage(lengths[:1], ranks, nbytes),
    }


def _one_kind_each(lengths: Sequence[int], ranks: int, nbytes: Sequence[int]) -> list[float]:
    """What the stages keep if each of them cuts one kind only: stage 3 the parameters, and nothing else."""
    whole, own = sum(lengths), sum(-(-length // ranks) for length in lengths)
    total = sum(nbytes) * whole
    return [total, *(total - each * (whole - own) for each in reversed(nbytes))]


# ── ShardedOptimizer ─────────────────────────────────────────────────────────────────────────────────────────────────

OPTIMIZER_SIGNS: Signs = (
    ("make_optimizer expected a list", say("list_of_tensors")),
    ("attempting to assign a gradient of size", say("gradient_of_shard")),
    ("assigned grad has data of a different size", say("gradient_of_shard")),
    ("must match the existing size", say("lengths")),
    ("must match the size of tensor", say("lengths")),
    ("is invalid for input of size", say("lengths")),
    ("split_with_sizes expects", say("lengths")),
    *SIGNS,
    *TOGETHER,
)


@task("comm", "parameters", "make_optimizer", helpers=SUPPLIED, errors=OPTIMIZER_SIGNS)
def check_sharded_optimizer(draw: Draw, *, runs: Sequence[Optimizing]) -> Iterator[Case]:
    """The class `function(comm, parameters, make_optimizer)`: states of its own shard, one all-gather in each step."""
    for run in runs:
        yield optimizing_case(draw, run)


@check_sharded_optimizer.judge
def _(seen: Seen) -> Remarks:
    plan: Optimizing = seen.facts
    for number in range(plan.number):
        yield from _steps_as_one(seen, number)
    for number in range(plan.number):
        yield from _cuts_states(seen, number)
    yield from _gathers_once(seen)
    yield from _keeps_no_copy(seen)


def _steps_as_one(seen: Seen, number: int) -> Remarks:
    """After each step the parameters are those of one process, on every rank."""
    whole, plan = WholeOptimizer(seen.case, number), seen.facts
    which = f" of optimizer {number + 1}" if plan.number > 1 else ""
    for step in range(plan.steps):
        for rank in seen.ranks:
            found, right = seen[rank]["values"][number][step], whole.flat[step + 1]
            for index, (piece, expected) in enumerate(zip(found, plan.pieces(right), strict=True)):
                if piece.shape != expected.shape:
                    yield say.remark("reshaped", *compared(expected, piece), rank=rank, index=index)
            flat = torch.cat([piece.reshape(-1) for piece in found])
            what = f"after step {step + 1}, on rank {rank}, the parameters{which}, one after the other,"
            mistakes = partial(_step_mistakes, seen.case, whole, number, rank, step)
            otherwise = say("written_only_once") if flat.isnan().any() else say("optimizer_values")
            yield holds(what, flat, right, mistakes, is_wrong=" are wrong.", same=_same, otherwise=otherwise)


def _step_mistakes(case: Case, whole: WholeOptimizer, number: int, rank: int, step: int) -> Mistakes:
    before, after, ranks = whole.flat[step], whole.flat[step + 1], case.world_size
    other = WholeOptimizer(case, number, start=1 - number).flat[step + 1] if case.facts.number > 1 else None
    return {
        say("nothing_written"): whole.flat[0],
        say("not_moved"): before,
        say("own_shard_only"): whole.seen_by(rank, step),
        say("others_zero"): whole.only(rank, step),
        say("states_lost"): WholeOptimizer(case, number, fresh=True).flat[step + 1],
        say("gradients_added"): WholeOptimizer(case, number, adds=True).flat[step + 1],
        say("added_up"): after + (ranks - 1) * before,
        say("averaged"): (after + (ranks - 1) * before) / ranks,
        say("another_optimizer"): other,
    }


def _cuts_states(seen: Seen, number: int) -> Remarks:
    """Each rank has states for its shard only."""
    plan: Optimizing = seen.facts
    for rank in seen.ranks:
        end = seen[rank]["ends"][number]
        of_each = listed(sum(map(sum, seen[each]["ends"][number]["made"])) for each in seen.ranks)
        details = f"numbers that optimizers are made for, by rank: {of_each}"
        facts = {"rank": rank, "shard": plan.shard, "calls": len(end["made"])}
        made = sum(map(sum, end["made"]))
        if len(end["made"]) > 1:
            yield say.remark("made_again", details, **facts)
        if made > plan.shard or end["states"] > plan.shard:
            cause = say("not_sharded" if made >= plan.length else "by_parameters")
            yield say.remark("too_many_states", details, made=count(made, "number"), **facts, cause=cause)


def _gathers_once(seen: Seen) -> Remarks:
    """Each step sends an all-gather of the parameters, and nothing else is sent."""
    plan: Optimizing = seen.facts
    once = (seen.size - 1) * plan.shard_bytes * plan.number
    sent, due = seen.trace.bytes_sent, once * plan.steps
    more = sum(sent) - seen.size * due
    for rank in seen.ranks:
        if sent[rank] > due:
            causes = {seen.size * due: say("sent_twice"), seen.size * once: say("sent_at_start")}
            is_even = min(sent) > due
            cause = causes.get(more, say("sent_too_much")) if is_even else say("one_rank_sends")
            yield _too_much(seen, rank, due, say("optimizer_costs", steps=count(plan.steps, "step")), cause)


def _too_much(seen: Seen, rank: int, due: int, what: str, cause: str) -> Any:
    largest, dtype = max(seen.trace, key=lambda message: message.nbytes), dtype_name(seen.facts.dtype)
    if largest.dtype != dtype:
        cause = say("sent_dtype", found=largest.dtype, right=dtype)
    each, sent = f"bytes sent by each rank: {listed(seen.trace.bytes_sent)}", seen.trace.bytes_sent[rank]
    return say.remark("too_much", each, rank=rank, sent=count(sent, "byte"), due=f"{due:,}", what=what, cause=cause)


def _keeps_no_copy(seen: Seen) -> Remarks:
    """Besides the parameters, no more is alive than the states and a few tensors of the length of a shard."""
    plan: Optimizing = seen.facts
    whole, most = plan.number * plan.ranks * plan.shard_bytes, plan.most_alive
    for rank in seen.ranks:
        alive = seen[rank]["alive"]
        if alive > most:
            facts = {"alive": count(alive, "byte"), "most": f"{most:,}", "whole": count(whole, "byte")}
            yield say.remark("copy_kept", rank=rank, **facts)


# ── shard_gradients ──────────────────────────────────────────────────────────────────────────────────────────────────

GRADIENT_SIGNS: Signs = (
    ("expected `return shard, norm`", say("two_values")),
    ("'NoneType' object has no attribute", say("gone_too_early")),
    ("must match the existing size", say("lengths")),
    ("must match the size of tensor", say("lengths")),
    *SIGNS,
    *TOGETHER,
)


@task("comm", "parameters", "max_norm", helpers=SUPPLIED, errors=GRADIENT_SIGNS)
def check_shard_gradients(draw: Draw, *, runs: Sequence[Clipping]) -> Iterator[Case]:
    """`function(comm, parameters, max_norm)`: its shard of the average, clipped; everything else is freed."""
    for run in runs:
        yield clipping_case(draw, run)


@check_shard_gradients.judge
def _(seen: Seen) -> Remarks:
    plan: Clipping = seen.facts
    for call in range(plan.calls):
        whole = WholeGradient(seen.case, call)
        yield from _returns_its_shard(seen, whole, call)
        yield from _knows_the_norm(seen, whole, call)
    yield from _leaves_parameters(seen)
    for call in range(plan.calls):
        yield from _frees_the_rest(seen, call)
    yield from _scatters_once(seen)


def _returns_its_shard(seen: Seen, whole: WholeGradient, call: int) -> Remarks:
    """Each rank returns its shard of the average, clipped."""
    every = [seen[rank]["calls"][call]["shard"] for rank in seen.ranks]
    for rank, (found, right) in enumerate(zip(every, whole.shards(), strict=True)):
        what = f"the shard that rank {rank} returns{_which(seen.facts, call)}"
        mistakes = partial(_shard_mistakes, whole, rank, every)
        yield holds(what, found, right, mistakes, same=_same, otherwise=_of_a_shard(whole, found, right))


def _which(plan: Clipping, call: int) -> str:
    return f" from call {call + 1}" if plan.calls > 1 else ""


def _of_a_shard(whole: WholeGradient, found: Any, right: torch.Tensor) -> str:
    if isinstance(found, torch.Tensor) and found.isnan().any():
        return say(
            "infinite" if math.isinf(whole.max_norm) and found.reshape(-1)[:1].isnan().any() else "padding_unwritten"
        )
    return explain_factor(found, right, say("shard_values"))


def _shard_mistakes(whole: WholeGradient, rank: int, every: Sequence[Any]) -> Mistakes:
    """The values that usual mistakes give on a rank. `every`: what the ranks have returned."""
    plan, average, factor = whole.plan, whole.average, whole.factor(whole.norm)
    by_own_norm = [whole.shards(whole.factor(norm))[k] for k, norm in enumerate(whole.shard_norms())]
    each_has_its_own = all(map(_same, every, by_own_norm))  # one alone may be below the limit, as if nobody clipped
    total = plan.ranks * average
    sums = [plan.shards(total)[rank] * each for each in (1.0, factor)]
    local = [plan.shards(whole.own[rank])[rank] * each for each in (1.0, factor, whole.factor(_norm(whole.own[rank])))]
    uneven = average.tensor_split(plan.ranks)[rank]
    flat = torch.cat(plan.shards(average))
    return {
        say("clipped_by_own_norm"): by_own_norm[rank] if each_has_its_own else None,
        say("shard_of_sum"): sums,
        say("shard_of_own"): local,
        say("not_clipped"): whole.shards(1.0)[rank],
        say("always_scaled"): whole.shards(whole.max_norm / (whole.norm + 1e-6))[rank],
        say("epsilon"): [whole.shards(whole.max_norm / (whole.norm + each))[rank] for each in OTHER_EPSILONS],
        say("clipped_to_one"): whole.shards(1 / (whole.norm + 1e-6))[rank],
        say("clipped_twice"): whole.shards(factor * factor)[rank],
        say("divided_twice"): whole.shards(factor / plan.ranks)[rank],
        say("shard_not_padded"): [uneven, uneven * factor, plan.shards(average)[rank][: len(uneven)] * factor],
        say("whole_average"): [average, average * factor, flat, flat * factor],
        say("another_shard"): [each for k, each in enumerate(whole.shards()) if k != rank],
    }


def _norm(values: torch.Tensor) -> float:
    return float(values.double().norm())


def _knows_the_norm(seen: Seen, whole: WholeGradient, call: int) -> Remarks:
    """Each rank returns the norm of the whole average, as it is before clipping."""
    every = [_as_number(seen[rank]["calls"][call]["norm"]) for rank in seen.ranks]
    for rank, found in enumerate(every):
        facts = {"rank": rank, "which": _which(seen.facts, call)}
        if found is None:
            yield say.remark("no_number", type=type_of(seen[rank]["calls"][call]["norm"]), **facts)
        elif not _is_norm(found, whole.norm):
            table = _norm_mistakes(whole, rank, is_alike=len(set(every)) == 1)
            cause = next((name for name, values in table.items() if any(_is_norm(found, each) for each in values)), "")
            details = (f"expected {whole.norm:.6g}", f"found    {found:.6g}")
            yield say.remark("wrong_norm", *details, cause=say(cause or "norm_values"), **facts)


def _as_number(found: Any) -> float | None:
    """A number, or a tensor with one: as a number. None: it is neither."""
    is_one = isinstance(found, torch.Tensor) and found.numel() == 1
    return float(found) if is_one or (isinstance(found, int | float) and not isinstance(found, bool)) else None


def _is_norm(found: float, right: float) -> bool:
    return math.isclose(found, right, rel_tol=1e-4)


def _norm_mistakes(whole: WholeGradient, rank: int, is_alike: bool) -> dict[str, list[float]]:
    """By name of a sentence the values that a usual mistake gives. `is_alike`: whether all ranks have the same."""
    plan, right, parts = whole.plan, whole.norm, list(whole.shard_norms())
    own = [_norm(each) for each in whole.own]
    return {
        "norm_of_own_shard": [] if is_alike else [parts[rank]],
        "norm_of_own_gradient": [] if is_alike else [own[rank]],
        "norm_of_sum": [plan.ranks * right],
        "sum_of_norms": [sum(parts)],
        "root_missing": [right**2],
        "average_of_squares": [right / math.sqrt(plan.ranks)],
        "average_of_norms": [sum(parts) / plan.ranks],
        "largest_norm": [max(parts)],
        "norm_after_clipping": [whole.max_norm],
        "norm_of_all_gradients": [math.sqrt(sum(each**2 for each in own)), sum(own), sum(own) / plan.ranks],
        "divided_by_ranks": [right / plan.ranks],
    }


def _leaves_parameters(seen: Seen) -> Remarks:
    for rank in seen.ranks:
        for found, before in zip(seen[rank]["parameters"], seen.case.inputs[rank]["parameters"], strict=True):
            yield untouched(f"on rank {rank} a parameter", found, before, say("parameters_stay"))


def _frees_the_rest(seen: Seen, call: int) -> Remarks:
    """Nothing but the shard is alive afterwards."""
    plan: Clipping = seen.facts
    which = _which(plan, call)
    for rank in seen.ranks:
        told, of_shard = seen[rank]["calls"][call], count(plan.shard_bytes, "byte")
        if told["left"]:
            yield say.remark("gradients_left", rank=rank, number=len(told["left"]), all=len(plan.shapes), which=which)
        if told["held"] > plan.shard_bytes:
            held = count(told["held"], "byte")
            yield say.remark("view_returned", rank=rank, held=held, shard=of_shard, which=which)
        if told["alive"] > plan.most_alive:
            alive = count(told["alive"], "byte")
            yield say.remark("buffer_kept", rank=rank, alive=alive, shard=of_shard, which=which)


def _scatters_once(seen: Seen) -> Remarks:
    """Each call sends a reduce-scatter of the gradients and a number for the norm, and nothing else."""
    plan: Clipping = seen.facts
    others = seen.size - 1
    scatter, norm = others * plan.shard_bytes * plan.calls, others * 8 * plan.calls
    sent = seen.trace.bytes_sent
    for rank in seen.ranks:
        if sent[rank] > scatter + norm:
            is_all_reduce = sum(sent) >= 2 * seen.size * scatter
            what = say("gradient_costs", calls=f" in each of {plan.calls} calls" * (plan.calls > 1))
            yield _too_much(seen, rank, scatter + norm, what, say("all_reduced" if is_all_reduce else "sent_more"))

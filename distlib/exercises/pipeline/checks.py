"""Exercise 09: schedules, judged by what must hold of every table; and a stage that runs its row of any schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.plays.calls import call_twice
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import LIVES_ON, called, every_call, same
from distlib.checks.rules.sent_messages import Way, sends
from distlib.checks.rules.values import explain_factor, holds, is_close, is_same_number, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.pipeline.cases import Alone, Plan, drawn_plan, stage_case
from distlib.exercises.pipeline.schedule_rules import (
    all_forward_first,
    is_a_schedule,
    keeps_as_1f1b,
    rows_of,
    takes,
    why_1f1b_is_slow,
)
from distlib.training.schedules import Action, most_live

say = Sentences(__file__)


# ── gpipe, one_forward_one_backward ──────────────────────────────────────────────────────────────────────────────────


def _sizes(draw: Draw, sizes: Sequence[tuple[int, int]], drawn: int) -> Iterator[Case]:
    """Calls with these numbers of stages and microbatches.

    `drawn`: then this many more, which no table of answers has.
    """
    more = [(draw.randint(2, 9), draw.randint(2, 17)) for _ in range(drawn)]
    yield from (replace(called(*numbers, facts=numbers), play=call_twice) for numbers in (*sizes, *more))


@task("num_stages", "num_microbatches")
def check_gpipe(draw: Draw, *, sizes: Sequence[tuple[int, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(num_stages, num_microbatches)`: by stage, all forward passes, then all backward passes.

    It is no slower than it must be.
    """
    yield from _sizes(draw, sizes, drawn)


@check_gpipe.judge
def _(seen: Seen) -> Remarks:
    yield from every_call(seen[0], partial(_is_gpipe, *seen.facts))


def _is_gpipe(stages: int, microbatches: int, found: Any) -> Remarks:
    yield from is_a_schedule(found, stages, microbatches)
    yield from all_forward_first(rows := rows_of(found))
    yield takes(rows, 3 * (microbatches + stages - 1), say("different_orders"))


@task("num_stages", "num_microbatches")
def check_one_forward_one_backward(draw: Draw, *, sizes: Sequence[tuple[int, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(num_stages, num_microbatches)`: as fast as GPipe, and stage s keeps min(m, p - s) microbatches."""
    yield from _sizes(draw, sizes, drawn)


@check_one_forward_one_backward.judge
def _(seen: Seen) -> Remarks:
    yield from every_call(seen[0], partial(_is_1f1b, *seen.facts))


def _is_1f1b(stages: int, microbatches: int, found: Any) -> Remarks:
    yield from is_a_schedule(found, stages, microbatches)
    yield from keeps_as_1f1b(rows := rows_of(found), microbatches)
    yield takes(rows, 3 * (microbatches + stages - 1), why_1f1b_is_slow(rows, microbatches))


# ── run_stage ────────────────────────────────────────────────────────────────────────────────────────────────────────

ERRORS = (
    ("has already returned", say("returned_early")),
    ("waits to send", say("waits_to_send")),
    ("implicitly created", say("no_scalar")),
    ("a second time", say("second_time")),
    ("NoneType", say("none")),
    ("inplace operation", say("reused_memory")),
    ("float32", say("float32")),
    ("receives into", say("wrong_buffer")),
    ("but the ranks are", say("no_such_rank")),
    ("waits to receive", say("waits_to_receive")),
    ("raised KeyError", say("key_error")),
    ("setup_context", say("no_backward")),
)


@task("comm", "module", "actions", "shapes", "inputs", "targets", "loss_function", errors=ERRORS)
def check_run_stage(draw: Draw, *, plans: Sequence[Plan], drawn: Sequence[tuple[int, int]] = ()) -> Iterator[Case]:
    """`function(comm, module, actions, …)`: loss and gradients of one process.

    `drawn`: ranks and microbatches of more plans.
    """
    for plan in (*plans, *(drawn_plan(draw, *numbers) for numbers in drawn)):
        yield stage_case(draw, plan)


@check_run_stage.judge
def _(seen: Seen) -> Remarks:
    alone = Alone(seen.case.inputs, seen.facts.samples)
    for rank, row in enumerate(seen.facts.schedule):
        yield from _forward(seen[rank], alone, rank, row)
    for rank in seen.ranks:
        yield _loss(seen, alone, rank)
    for rank in reversed(seen.ranks):
        yield from _output_gradients(seen, alone, rank)
        yield from _parameter_gradients(seen, alone, rank)
    for rank in seen.ranks:
        yield from _given(seen, rank)
    yield from _messages(seen, alone)
    yield from _memory(seen)


def _forward(told: dict[str, Any], alone: Alone, rank: int, row: Sequence[Action]) -> Remarks:
    """A rank has done the actions of its row, each once and in their order, and each forward pass began rightly."""
    order = [action.microbatch for action in row if action.kind == "F"]
    values, inputs = alone.values[rank], told["inputs"]
    is_repeated = len(inputs) > len(order) and all(any(is_close(found, value) for value in values) for found in inputs)
    for i, found in zip(order, () if is_repeated else inputs, strict=False):
        mistakes = {
            say("another_input"): list(values),
            say("whole_batch"): torch.cat(values),
            say("zero_input"): 0 * values[i],
        }
        what = f"on rank {rank} the input of {rank}F{i}"
        yield holds(what, found, values[i], mistakes, same=is_close, otherwise=say("input"))
    did = [f"{rank}{kind}{order[k] if k < len(order) else '?'}" for kind, k in told["did"]]
    if did != [str(action) for action in row]:
        compared = (f"expected {' '.join(map(str, row))}", f"found    {' '.join(did) or 'none'}")
        yield say.remark("order", *compared, rank=rank)


def _loss(seen: Seen, alone: Alone, rank: int) -> Remark | None:
    """The last rank has returned the mean loss of the batch, the others None."""
    found, right = seen[rank]["loss"], alone.loss if rank == seen.size - 1 else None
    samples, losses = alone.samples, alone.losses
    mistakes = {
        say("sum_of_losses"): sum(losses),
        say("unweighted_losses"): sum(losses) / len(losses),
        say("other_loss"): alone.other_losses,
        say("both_calls", lives_on=LIVES_ON): 2 * alone.loss if seen.facts.calls == 2 else None,
        say("one_loss"): [
            part for n, loss in zip(samples, losses, strict=True) for part in (loss, n / sum(samples) * loss)
        ],
    }
    otherwise = say("loss") if right is not None and isinstance(found, float) else say("returned")
    return holds(f"on rank {rank} what it returned", found, right, mistakes, same=is_same_number, otherwise=otherwise)


def _output_gradients(seen: Seen, alone: Alone, rank: int) -> Remarks:
    """The gradients of a rank's outputs are those of the mean loss of the batch."""
    rights, samples, N = alone.arriving[rank], alone.samples, sum(alone.samples)
    order = [action.microbatch for action in seen.facts.schedule[rank] if action.kind == "B"]
    for i, found in zip(order, seen[rank]["arrived"], strict=True):
        right, own_mean = rights[i], N / samples[i] * rights[i]
        mistakes = {
            say("own_mean"): own_mean,
            say("unweighted_gradients"): own_mean / len(samples),
            say("weighted_twice"): samples[i] / N * right,
            say("another_gradient"): list(rights),
            say("ones"): torch.ones_like(right),
        }
        what = f"on rank {rank} the gradient of the output of {rank}F{i}"
        otherwise = explain_factor(found, right) + say("output_gradient")
        yield holds(what, found, right, mistakes, same=is_close, otherwise=otherwise)


def _parameter_gradients(seen: Seen, alone: Alone, rank: int) -> Remarks:
    """The gradients of a rank's parameters are those of the mean loss of the batch; the parameters are as they were."""
    for k, name in enumerate(("weight", "bias")):
        found, right = seen[rank]["gradients"][k], alone.parameters[rank][k].grad
        assert right is not None
        shares = [alone.share(rank, i)[k] for i in range(len(alone.samples))]
        mistakes = {
            say("one_microbatch"): shares,
            say("microbatch_missing"): [right - share for share in shares],
        }
        factor = explain_factor(found, right)
        otherwise = factor + say("already_weighted") if factor else say("memory_used_again")
        otherwise = say("no_gradient") if found is None else otherwise
        what = f"on rank {rank} the gradient of the {name}"
        yield holds(what, found, right, mistakes, same=is_close, otherwise=otherwise)
        before = seen.case.inputs[rank][name]
        yield untouched(f"on rank {rank} the {name}", seen[rank]["parameters"][k], before, say("no_step"))


def _given(seen: Seen, rank: int) -> Remarks:
    """What a rank was given is as it was."""
    for name, found in seen[rank]["given"].items():
        if not same(found, seen.case.inputs[rank][name]):
            yield say.remark("argument_changed", rank=rank, name=name)
    if seen[rank]["requires_grad"]:
        yield say.remark("requires_gradient", rank=rank)


def _messages(seen: Seen, alone: Alone) -> Remarks:
    """The output of each microbatch goes to the next rank, the gradient of each input to the rank before."""
    N, calls = sum(alone.samples), seen.facts.calls
    number = calls * len(alone.samples)
    outputs, gradients = {}, {}
    for rank in range(seen.size - 1):
        nbytes = calls * 8 * N * alone.values[rank + 1][0].shape[1]
        outputs[rank, rank + 1] = Way(nbytes, "the outputs of all microbatches", number)
        gradients[rank + 1, rank] = Way(nbytes, "the gradients of the inputs of all microbatches", number)
    ways = outputs | gradients
    yield from sends(seen, ways, say("who_to_whom"))
    for (src, dst), way in ways.items():
        sizes = [m.nbytes * calls * N // way.nbytes for m in seen.trace if (m.src, m.dst) == (src, dst)]
        if sorted(sizes) != sorted(calls * alone.samples):
            yield say.remark("packed", src=src, dst=dst, samples=sizes)


def _memory(seen: Seen) -> Remarks:
    """No rank keeps more than its row asks for.

    Of inputs one more: a variable may still hold that of the action before.
    """
    for rank, most in enumerate(most_live(seen.facts.schedule)):
        inputs = most + 1 if rank else len(seen.facts.samples)
        for name, limit in (("kept", most), ("kept_inputs", inputs)):
            if (found := max(seen[rank][name])) > limit:
                yield say.remark(name, rank=rank, found=found, most=most)

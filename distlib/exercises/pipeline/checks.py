"""Exercise 09: schedules, judged by what must hold of every table; and a stage that runs its row of any schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.plays.calls import call_twice
from distlib.checks.remark import Remark
from distlib.checks.rules.messages import Way, sends
from distlib.checks.rules.returns import LIVES_ON, called, every_call, same
from distlib.checks.rules.values import explain_factor, holds, is_close, untouched
from distlib.checks.seen import Seen
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

# fmt: off
# ── gpipe, one_forward_one_backward ──────────────────────────────────────────────────────────────────────────────────

def _sizes(draw: Draw, sizes: Sequence[tuple[int, int]], drawn: int) -> Iterator[Case]:
    """Calls with these numbers of stages and microbatches; `drawn`: then this many more, which no table of answers has."""
    more = [(draw.randint(2, 9), draw.randint(2, 17)) for _ in range(drawn)]
    yield from (replace(called(*numbers, facts=numbers), play=call_twice) for numbers in (*sizes, *more))


@task("num_stages", "num_microbatches")
def check_gpipe(draw: Draw, *, sizes: Sequence[tuple[int, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(num_stages, num_microbatches)`: by stage, all forward passes, then all backward passes; no slower than it must be."""
    yield from _sizes(draw, sizes, drawn)


@check_gpipe.judge
def _(seen: Seen) -> Remarks:
    yield from every_call(seen[0], partial(_is_gpipe, *seen.facts))


def _is_gpipe(stages: int, microbatches: int, found: Any) -> Remarks:
    yield from is_a_schedule(found, stages, microbatches)
    yield from all_forward_first(rows := rows_of(found))
    yield takes(rows, 3 * (microbatches + stages - 1), "stages take the microbatches in different orders, and wait. Take one order for the forward passes of all stages, and one for the backward passes.")


@task("num_stages", "num_microbatches")
def check_one_forward_one_backward(draw: Draw, *, sizes: Sequence[tuple[int, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(num_stages, num_microbatches)`: a table as fast as GPipe's in which stage s keeps min(m, p - s) microbatches."""
    yield from _sizes(draw, sizes, drawn)


@check_one_forward_one_backward.judge
def _(seen: Seen) -> Remarks:
    yield from every_call(seen[0], partial(_is_1f1b, *seen.facts))


def _is_1f1b(stages: int, microbatches: int, found: Any) -> Remarks:
    yield from is_a_schedule(found, stages, microbatches)
    yield from keeps_as_1f1b(rows := rows_of(found), microbatches)
    yield takes(rows, 3 * (microbatches + stages - 1), why_1f1b_is_slow(rows, microbatches))


# ── run_stage ────────────────────────────────────────────────────────────────────────────────────────────────────────

TAGS = "Does every message have its microbatch as tag, on both sides?"
ERRORS = (
    ("has already returned", "a message is missing, or too much: each forward pass sends one to the next rank, each backward pass one to the rank before. The first rank has no rank before it, and the last one none behind it."),
    ("waits to send", f"send returns only when the other rank receives, and that one may wait for this one. Begin with isend, and wait for the handles at the end. {TAGS}"),
    ("implicitly created", "only the loss is a single number. On other ranks: output.backward(gradient), with what was received."),
    ("a second time", "each microbatch has a graph of its own, and goes back through it once."),
    ("NoneType", "inputs are there on the first rank only, targets on the last one only; and .grad of a tensor without requires_grad is None."),
    ("inplace operation", "an input is received into memory where an earlier one still waits for its backward pass. Each microbatch needs a tensor of its own."),
    ("float32", "everything is float64, also what you receive into: torch.empty(shape, dtype=torch.float64)."),
    ("receives into", f"the message belongs to another microbatch, or the buffer has a wrong shape: shapes[i] for an input, the output's for its gradient. {TAGS}"),
    ("but the ranks are", "the first rank has no rank before it, and the last one none behind it."),
    ("waits to receive", f"a message is missing, or a rank receives before its turn: each forward pass sends to the next rank, each backward pass to the rank before, and an action receives only what it needs itself. {TAGS}"),
    ("raised KeyError", "nothing is kept under this number. read_action gives the microbatch of an action: keep under it in the forward pass, and take it out once, in the backward pass."),
    ("setup_context", "go back with backward: output.backward(gradient)."),
)
KEEPS = "forget a microbatch after its backward pass: kept.pop(i). Go back without retain_graph. Send output.detach(), and add up loss.item(): an output and a loss hold on to all that they were computed from."


@task("comm", "module", "actions", "shapes", "inputs", "targets", "loss_function", errors=ERRORS)
def check_run_stage(draw: Draw, *, plans: Sequence[Plan], drawn: Sequence[tuple[int, int]] = ()) -> Iterator[Case]:
    """`function(comm, module, actions, …)`: loss and gradients of one process. `drawn`: ranks and microbatches of more plans."""
    yield from (stage_case(draw, plan) for plan in (*plans, *(drawn_plan(draw, *numbers) for numbers in drawn)))


@check_run_stage.judge
def _(seen: Seen) -> Remarks:
    alone, N, last, calls = Alone(seen.case.inputs, seen.facts.samples), sum(seen.facts.samples), seen.size - 1, seen.facts.calls
    for rank, row in enumerate(seen.facts.schedule):
        yield from _forward(seen[rank], alone, rank, row)
    for rank in seen.ranks:
        yield holds(f"on rank {rank} what it returned", seen[rank]["loss"], alone.loss if rank == last else None, {
            "this is the sum over the microbatches. In a batch of N samples one of n samples counts n / N.": sum(alone.losses),
            "every microbatch counts equally here. One of n samples counts n / N.": sum(alone.losses) / len(alone.losses),
            "this is another function's. Call loss_function, which is an argument: it is not always the same.": alone.other_losses,
            f"these are the losses of both calls: {LIVES_ON}": 2 * alone.loss if calls == 2 else None,
            "this is one microbatch's loss. Add up those of all.": [part for n, loss in zip(alone.samples, alone.losses, strict=True) for part in (loss, n / N * loss)],
        }, same=lambda one, other: one is other or (isinstance(one, float) and isinstance(other, float) and math.isclose(one, other)),
           otherwise="a microbatch of n samples counts n / N. N is the number of all samples: the sum of shape[0] over shapes; and the sum begins with 0 in each call." if rank == last and isinstance(seen[rank]["loss"], float)
           else "the last rank returns the loss of the whole batch as a float, the others None. loss.item() is a float.")
    for rank in reversed(seen.ranks):
        yield from _backward(seen, alone, rank, N)
    for rank in seen.ranks:
        yield from _given(seen, rank)
    ways = {(rank, rank + 1): Way(calls * 8 * N * alone.values[rank + 1][0].shape[1], "the outputs of all microbatches", calls * len(alone.losses)) for rank in range(last)}
    ways |= {(dst, src): Way(way.nbytes, "the gradients of the inputs of all microbatches", way.messages) for (src, dst), way in ways.items()}
    yield from sends(seen, ways, "outputs go to the next rank, gradients of inputs to the rank before. No rank needs anything else.")
    for (src, dst), way in ways.items():
        sizes = [m.nbytes * calls * N // way.nbytes for m in seen.trace if (m.src, m.dst) == (src, dst)]
        if sorted(sizes) != sorted(calls * alone.samples):
            yield Remark(f"the values are right, but messages from rank {src} to rank {dst} carry {sizes} samples.", cause="each microbatch has a message of its own.")
    yield from _memory(seen)


def _forward(told: dict[str, Any], alone: Alone, rank: int, row: Sequence[Action]) -> Iterator[Remark | None]:
    """A rank has done the actions of its row, each once and in their order, and each forward pass began with the right values."""
    order, values = [action.microbatch for action in row if action.kind == "F"], alone.values[rank]
    is_repeated = len(told["inputs"]) > len(order) and all(any(is_close(found, value) for value in values) for found in told["inputs"])
    for i, found in zip(order, () if is_repeated else told["inputs"], strict=False):
        yield holds(f"on rank {rank} the input of {rank}F{i}", found, values[i], {
            "this is another microbatch's. Does every message have its microbatch as tag?": list(values),
            "this is the whole batch. One microbatch at a time: else the other ranks have nothing to do meanwhile.": torch.cat(values),
            "these are zeros. Is it received before it is used?": 0 * values[i],
        }, same=is_close, otherwise="it is what the rank before has computed for this microbatch.")
    did = [f"{rank}{kind}{order[k] if k < len(order) else '?'}" for kind, k in told["did"]]
    if did != [str(action) for action in row]:
        yield Remark(f"rank {rank} does not do its actions, each once and in their order.", (f"expected {' '.join(map(str, row))}", f"found    {' '.join(did) or 'none'}"),
                     "each F is one call of the module, each B one backward pass, when its turn comes. Keep what belongs to a microbatch under its number, and let it go back by itself.")


def _backward(seen: Seen, alone: Alone, rank: int, N: int) -> Iterator[Remark | None]:
    """The gradients of a rank's outputs and of its parameters are those of the mean loss of the batch."""
    rights, samples = alone.arriving[rank], alone.samples
    for i, found in zip((action.microbatch for action in seen.facts.schedule[rank] if action.kind == "B"), seen[rank]["arrived"], strict=True):
        yield holds(f"on rank {rank} the gradient of the output of {rank}F{i}", found, right := rights[i], {
            "this is that of the microbatch's own mean. Multiply the loss by n / N before it goes back, on the last rank only.": N / samples[i] * right,
            "every microbatch counts equally here. One of n samples counts n / N.": N / samples[i] / len(samples) * right,
            "it was multiplied by n / N twice. That belongs to the loss, on the last rank, and nowhere else.": samples[i] / N * right,
            "this is another microbatch's. Does every message have its microbatch as tag?": list(rights),
            "these are ones. Where a gradient comes by message, backward begins with it: output.backward(gradient).": torch.ones_like(right),
        }, same=is_close, otherwise=explain_factor(found, right) + "It is the gradient of the input that the next rank has received for this microbatch, as it is.")
    for k, name in enumerate(("weight", "bias")):
        right, shares = alone.parameters[rank][k].grad, [alone.share(rank, i)[k] for i in range(len(samples))]
        assert right is not None
        yield holds(f"on rank {rank} the gradient of the {name}", found := seen[rank]["gradients"][k], right, {
            "this is one microbatch's alone. torch adds up in parameter.grad what several backward passes bring: let it.": shares,
            "a microbatch is missing here.": [right - share for share in shares],
        }, same=is_close, otherwise=(factor := explain_factor(found, right)) + (
            "Each microbatch's loss was multiplied by its n / N. So the sum over the microbatches is right as it is." if factor else
            "Was the memory of an input used again before its backward pass? Each microbatch needs a tensor of its own."))
        yield untouched(f"on rank {rank} the {name}", seen[rank]["parameters"][k], seen.case.inputs[rank][name], "compute gradients; the step is the optimizer's business.")


def _given(seen: Seen, rank: int) -> Iterator[Remark | None]:
    """What a rank was given is as it was."""
    for name, found in seen[rank]["given"].items():
        if not same(found, seen.case.inputs[rank][name]):
            yield Remark(f"the values are right, but on rank {rank} {name} has changed.", cause="it belongs to the caller, who needs it again for the next batch. Read it, with for or by index.")
    if seen[rank]["requires_grad"]:
        yield Remark(f"the values are right, but on rank {rank} what the function was given requires a gradient now.", cause="requires_grad_() is for an input that was received. inputs[i] belongs to the caller, and no rank needs its gradient.")


def _memory(seen: Seen) -> Iterator[Remark | None]:
    """No rank keeps more than its row asks for. (Of inputs one more: a variable may still hold that of the action before.)"""
    for rank, most in enumerate(most_live(seen.facts.schedule)):
        for name, what, limit in (("kept", "all that was computed for", most), ("kept_inputs", "the inputs of", most + 1 if rank else len(seen.facts.samples))):
            if (found := max(seen[rank][name])) > limit:
                yield Remark(f"the values are right, but rank {rank} keeps {what} {found} microbatches at the same time; its actions need {most}.", cause=KEEPS)

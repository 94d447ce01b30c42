"""Exercise 09: schedules, judged by what must hold of every table; and a stage that runs its row of any schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.plays.pipeline import mean_squared_error, one_stage
from distlib.checks.remark import Remark
from distlib.checks.rules.messages import Way, sends
from distlib.checks.rules.returns import called
from distlib.checks.rules.schedules import Rows, is_a_schedule, rows_of, shown, takes
from distlib.checks.rules.values import holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count
from distlib.training.schedules import Action, gpipe, most_live
from distlib.training.schedules.execution import awaited_actions

# fmt: off
SECONDS = 3  # of virtual time, for a forward and a backward pass
ONE_BY_ONE = "this is one microbatch after another, and only one stage works at a time."


# ── gpipe, one_forward_one_backward ──────────────────────────────────────────────────────────────────────────────────

def _sizes(draw: Draw, sizes: Sequence[tuple[int, int]], drawn: int) -> Iterator[Case]:
    more = [(draw.randint(2, 9), draw.randint(2, 17)) for _ in range(drawn)]
    yield from (called(*numbers, facts=numbers) for numbers in (*sizes, *more))


@task("num_stages", "num_microbatches")
def check_gpipe(draw: Draw, *, sizes: Sequence[tuple[int, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(num_stages, num_microbatches)`: by stage, all forward passes, then all backward passes, each in any order.

    `drawn`: how many more pairs of numbers come at the end, which no table of answers has.
    """
    yield from _sizes(draw, sizes, drawn)


@check_gpipe.judge
def _(seen: Seen) -> Remarks:
    stages, microbatches = seen.facts
    yield from is_a_schedule(seen[0], stages, microbatches)
    rows = rows_of(seen[0])
    for row in rows:
        backward = next(place for place, action in enumerate(row) if action.kind == "B")
        for forward in (action for action in row[backward:] if action.kind == "F"):
            is_naive = all(kept == 1 for kept in most_live(rows))
            yield Remark(f"{row[backward]} stands before {forward}.", shown(rows), "GPipe does all forward passes first, on every stage. " + (
                ONE_BY_ONE.capitalize() if is_naive else "With a backward pass between them it is another schedule, such as 1F1B."))
    yield takes(rows, SECONDS * (microbatches + stages - 1), "stages take the microbatches in different orders, and wait. Take one "
                "order for the forward passes of all stages, and one for the backward passes.")


@task("num_stages", "num_microbatches")
def check_one_forward_one_backward(draw: Draw, *, sizes: Sequence[tuple[int, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(num_stages, num_microbatches)`: by stage, a table that is as fast as GPipe's and keeps at most p - stage.

    `drawn`: as of `check_gpipe`.
    """
    yield from _sizes(draw, sizes, drawn)


@check_one_forward_one_backward.judge
def _(seen: Seen) -> Remarks:
    stages, microbatches = seen.facts
    yield from is_a_schedule(seen[0], stages, microbatches)
    rows = rows_of(seen[0])
    for stage, kept in enumerate(most_live(rows)):
        right = min(microbatches, stages - stage)
        if kept != right:
            yield Remark(f"stage {stage} keeps up to {kept} of {microbatches} microbatches at the same time; {right} was expected.", shown(rows),
                         _why_kept(rows, stage, right, microbatches))
    yield takes(rows, SECONDS * (microbatches + stages - 1), "the warm-up is right. After it, forward and backward passes take turns, one of "
                "each, and all stages take the microbatches in one order.")


def _why_kept(rows: Rows, stage: int, right: int, microbatches: int) -> str:
    live = most_live(rows)
    if min(live) == microbatches:
        return "this is GPipe: all forward passes come first, and memory grows with the number of microbatches."
    if max(live) == 1:
        return f"{ONE_BY_ONE} The warm-up is missing."
    warmup = [action.kind for action in rows[stage]].index("B")
    if warmup == right:
        return "the warm-up is right. After it, forward and backward passes take turns, one of each."
    off = "long: it costs memory" if warmup > right else "short: the stage waits, although it could do a forward pass"
    return (f"the warm-up is too {off}. Stage {stage} does {warmup} forward passes before its first backward pass, and should do {right}: "
            "one for each stage from itself to the last one, and not more than there are microbatches.")


# ── run_stage ────────────────────────────────────────────────────────────────────────────────────────────────────────

FEATURES = (3, 5, 4, 2)  # of what goes into stage 0, 1, …, and so on from the beginning


@dataclass(frozen=True)
class Plan:
    """A schedule with its name, and the samples of each microbatch; 2 where nothing is said."""

    name: str
    schedule: Rows
    samples: Sequence[int] = ()


ERRORS = (
    ("waits to send", "send returns only when the other rank receives, and that one may wait for this one. Begin with isend, and wait for the handles when "
     "all actions are done. Does every message have its microbatch as tag, on both sides?"),
    ("does not require grad", "an input that has come by message has no history, and gets no gradient. Call requires_grad_() on it before the forward pass."),
    ("implicitly created", "only the loss is a single number. On other ranks: output.backward(gradient), with the gradient that was received."),
    ("a second time", "each microbatch has a graph of its own, and goes back through it once."),
    ("NoneType", "inputs are there on the first rank only, targets on the last one only; and .grad of a tensor without requires_grad is None."),
    ("inplace operation", "an input is received into memory where an earlier one still waits for its backward pass. Each microbatch needs a tensor of its own."),
    ("float32", "everything is float64, also what you receive into: torch.empty(shape, dtype=torch.float64)."),
    ("receives into", "the message belongs to another microbatch, or the buffer has a wrong shape: shapes[i] for an input, that of the output for its gradient. Does "
     "every message have its microbatch as tag, on both sides?"),
    ("but the ranks are", "the first rank has no rank before it, and the last one none behind it."),
    ("waits to receive", "a message is missing: each forward pass sends to the next rank, each backward pass to the rank before. Does every message have its "
     "microbatch as tag, on both sides?"),
    ("has already returned", "a message is missing, or too much: each forward pass sends one to the next rank, each backward pass one to the rank before."),
)


KEEPS = ("forget a microbatch after its backward pass: kept.pop(i). Go back without retain_graph. Send output.detach(), and add up loss.item(): an output and a "
         "loss hold on to all that they were computed from.")


@task("comm", "module", "actions", "shapes", "inputs", "targets", "loss_function", errors=ERRORS)
def check_run_stage(draw: Draw, *, plans: Sequence[Plan], drawn: Sequence[tuple[int, int]] = ()) -> Iterator[Case]:
    """`function(comm, module, actions, shapes, inputs, targets, loss_function)`: the loss, and gradients as on one rank.

    `drawn`: ranks and microbatches of plans that nobody knows.
    """
    for plan in (*plans, *(Plan("drawn", _drawn(draw, *numbers), [draw.randint(1, 4) for _ in range(numbers[1])]) for numbers in drawn)):
        ranks, numbers = len(plan.schedule), len(plan.schedule[0]) // 2
        features, samples = [FEATURES[stage % len(FEATURES)] for stage in range(ranks + 1)], plan.samples or [2] * numbers
        yield Case(f"on {count(ranks, 'rank')}, {plan.name}, batch of {' + '.join(map(str, samples))}", one_stage, [{
            "weight": draw.normal((features[rank + 1], features[rank])) / 2, "bias": draw.normal((features[rank + 1],)) / 2,
            "actions": [str(action) for action in plan.schedule[rank]], "shapes": [[each, features[rank]] for each in samples],
            "inputs": [draw.normal((each, features[0])) for each in samples] if rank == 0 else None,
            "targets": [draw.normal((each, features[ranks])) for each in samples] if rank == ranks - 1 else None,
        } for rank in range(ranks)], Plan(plan.name, plan.schedule, samples))


def _drawn(draw: Draw, ranks: int, microbatches: int) -> Rows:
    """Any schedule that can be executed: one action after another for which all is there."""
    rows: list[list[Action]] = [[] for _ in range(ranks)]
    waiting = awaited_actions(gpipe(ranks, microbatches))
    while waiting:
        action = draw.choice(sorted(each for each, needs in waiting.items() if not waiting.keys() & needs))
        rows[action.stage].append(action)
        del waiting[action]
    return rows


class _Alone:
    """What a single process computes: what goes into each stage and what comes out, by microbatch; gradients; the loss."""

    def __init__(self, seen: Seen) -> None:
        first, last, self.samples = seen.case.inputs[0], seen.case.inputs[-1], list(seen.facts.samples)
        self.parameters = [[given[name].clone().requires_grad_() for name in ("weight", "bias")] for given in seen.case.inputs]
        whole = [torch.cat(first["inputs"])]
        for weight, bias in self.parameters:
            whole.append(torch.tanh(torch.nn.functional.linear(whole[-1], weight, bias)))
        loss = mean_squared_error(whole[-1], torch.cat(last["targets"]))
        self.arriving = [each.split(self.samples) for each in torch.autograd.grad(loss, whole[1:], retain_graph=True)]
        loss.backward()
        self.loss, self.values = loss.item(), [each.detach().split(self.samples) for each in whole]
        self.losses = [mean_squared_error(*pair).item() for pair in zip(self.values[-1], last["targets"], strict=True)]

    def share(self, stage: int, i: int) -> list[torch.Tensor]:
        """What microbatch i adds to the gradients of a stage."""
        before = self.arriving[stage][i] * (1 - self.values[stage + 1][i].square())
        return [before.T @ self.values[stage][i], before.sum(dim=0)]


@check_run_stage.judge
def _(seen: Seen) -> Remarks:
    alone, N, last = _Alone(seen), sum(seen.facts.samples), seen.size - 1
    for rank, row in enumerate(seen.facts.schedule):
        yield from _forward(seen[rank], alone, rank, row)
    parts = list(zip(alone.samples, alone.losses, strict=True))
    for rank in seen.ranks:
        yield holds(f"on rank {rank} what it returned", seen[rank]["loss"], alone.loss if rank == last else None, {
            "this is the sum over the microbatches. In a batch of N samples one of n samples counts n / N.": sum(alone.losses),
            "every microbatch counts equally here. One of n samples counts n / N.": sum(alone.losses) / len(parts),
            "this is one microbatch's loss. Add up those of all.": [part for n, loss in parts for part in (loss, n / N * loss)],
        }, same=_same, otherwise="the last rank returns the loss of the whole batch as a float, the others None. loss.item() is a float.")
    for rank in reversed(seen.ranks):
        yield from _backward(seen, alone, rank, N)
    ways = {(rank, rank + 1): Way(8 * N * alone.values[rank + 1][0].shape[1], "the outputs of all microbatches", len(parts)) for rank in range(last)}
    ways |= {(dst, src): Way(way.nbytes, "the gradients of the inputs of all microbatches", len(parts)) for (src, dst), way in ways.items()}
    yield from sends(seen, ways, "outputs go to the next rank, gradients of inputs to the rank before. No rank needs anything else.")
    for (src, dst), way in ways.items():
        sizes = [m.nbytes * N // way.nbytes for m in seen.trace if (m.src, m.dst) == (src, dst)]
        if sorted(sizes) != sorted(alone.samples):
            yield Remark(f"the values are right, but messages from rank {src} to rank {dst} carry {sizes} samples.", cause="each microbatch has a message of its own.")
    yield from _memory(seen)


def _same(found: Any, right: Any) -> bool:
    return found is right or (isinstance(found, float) and isinstance(right, float) and math.isclose(found, right, rel_tol=1e-9))


def _forward(told: dict[str, Any], alone: _Alone, rank: int, row: Sequence[Action]) -> Iterator[Remark | None]:
    """A rank has done the actions of its row, each once and in their order, and each forward pass began with the right values."""
    order, values = [action.microbatch for action in row if action.kind == "F"], alone.values[rank]
    for i, found in zip(order, told["inputs"], strict=False):
        yield holds(f"on rank {rank} the input of {rank}F{i}", found, values[i], {
            "this is another microbatch's. Does every message have its microbatch as tag?": list(values),
            "this is the whole batch. One microbatch at a time: else the other ranks have nothing to do meanwhile.": torch.cat(values),
            "these are zeros. Is it received before it is used?": 0 * values[i],
        }, same=is_close, otherwise="it is what the rank before has computed for this microbatch.")
    did = [f"{rank}{kind}{order[k] if k < len(order) else '?'}" for kind, k in told["did"]]
    if did != [str(action) for action in row]:
        yield Remark(f"rank {rank} does not do its actions, each once and in their order.", (f"expected {' '.join(map(str, row))}", f"found    {' '.join(did) or 'none'}"),
                     "each F is one call of the module, each B one backward pass, when its turn comes. Keep what belongs to a microbatch under its number, and let "
                     "it go back by itself.")


def _backward(seen: Seen, alone: _Alone, rank: int, N: int) -> Iterator[Remark | None]:
    """The gradients of a rank's outputs and of its parameters are those of the mean loss of the batch."""
    rights, samples = alone.arriving[rank], alone.samples
    for i, found in zip((action.microbatch for action in seen.facts.schedule[rank] if action.kind == "B"), seen[rank]["arrived"], strict=True):
        right, n = rights[i], samples[i]
        yield holds(f"on rank {rank} the gradient of the output of {rank}F{i}", found, right, {
            "this is that of the microbatch's own mean. Multiply the loss by n / N before it goes back, on the last rank only.": N / n * right,
            "every microbatch counts equally here. One of n samples counts n / N.": N / n / len(samples) * right,
            "it was multiplied by n / N twice. That belongs to the loss, on the last rank, and nowhere else.": n / N * right,
            "this is another microbatch's. Does every message have its microbatch as tag?": list(rights),
            "these are ones. Where a gradient comes by message, backward begins with it: output.backward(gradient).": torch.ones_like(right),
        }, same=is_close, otherwise=_times(found, right) + "It is the gradient of the input that the next rank has received for this microbatch, as it is.")
    for k, name in enumerate(("weight", "bias")):
        right, shares = alone.parameters[rank][k].grad, [alone.share(rank, i)[k] for i in range(len(samples))]
        assert right is not None
        yield holds(f"on rank {rank} the gradient of the {name}", found := seen[rank]["gradients"][k], right, {
            "this is one microbatch's alone. torch adds up in parameter.grad what several backward passes bring: let it.": shares,
            "a microbatch is missing here.": [right - share for share in shares],
        }, same=is_close, otherwise=_times(found, right) + "Each microbatch's loss was multiplied by its n / N. So the sum over the microbatches is right as it is.")
        yield untouched(f"on rank {rank} the {name}", seen[rank]["parameters"][k], seen.case.inputs[rank][name], "compute gradients; the step is the optimizer's business.")


def _times(found: Any, right: torch.Tensor) -> str:
    """ "this is 3 times what it should be. ", if it is."""
    factor = float((found * right).sum() / right.square().sum()) if getattr(found, "shape", None) == right.shape else 0
    return f"this is {factor:.3g} times what it should be. " * bool(factor and right.numel() > 1 and torch.allclose(found, factor * right, rtol=1e-6))


def _memory(seen: Seen) -> Iterator[Remark | None]:
    """No rank keeps more than its row asks for. (Of inputs one more: a variable may still hold that of the action before.)"""
    for rank, most in enumerate(most_live(seen.facts.schedule)):
        graphs, inputs = max(seen[rank]["kept"]), max(seen[rank]["kept_inputs"])
        for found, limit, what in ((graphs, most, "all that was computed for"), (inputs, most + 1 if rank else len(seen.facts.samples), "the inputs of")):
            if found > limit:
                yield Remark(f"the values are right, but rank {rank} keeps {what} {found} microbatches at the same time; its actions need {most}.", cause=KEEPS)

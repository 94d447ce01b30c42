"""Exercise 09, with torch's own: one step of its 1F1B schedule, judged by losses, gradients, messages and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, enumerated
from distlib.checks.rules.values import Mistakes, explain_factor, holds, is_close, is_same_number, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.pipeline.pipelining_plays import loss_of, one_step
from distlib.exercises.pipeline.plays import LOSSES

say = Sentences(__file__)
SIGNS: Signs = (
    ("same number of elements", say("microbatches")),
    ("Number of microbatches", say("microbatches")),
    ("number of stages", say("stages")),
    ("Stage index", say("stages")),
    ("CUDA", say("stages")),
    ("target required", say("targets")),
    ("loss_fn", say("targets")),
    ("losses but got", say("targets")),
    ("arg_mbs", say("inputs")),
    ("NoneType", say("none")),
    ("required positional argument", say("inputs")),
    ("inputs", say("inputs")),
    ("waits", say("waits")),
    ("returned", say("waits")),
)


@dataclass(frozen=True)
class TorchStep:
    """A case: one step of a pipeline with a stage on each rank.

    Attributes:
        microbatches: how many, at least as many as there are ranks.
        samples: of each microbatch.
        features: of what goes into stage 0, 1, …, and at the end of what comes out of the last one.
        loss: one of `LOSSES`.
        reduction: "mean" or "sum", over samples and features.
    """

    microbatches: int
    samples: int
    features: Sequence[int]
    loss: str = "squared error"
    reduction: str = "mean"

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.features) - 1

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        loss = f"{self.reduction} of the {self.loss}" + "s" * self.loss.endswith("ror")
        numbers = f"{count(self.microbatches, 'microbatch')} of {count(self.samples, 'sample')}"
        return f"on {count(self.ranks, 'rank')}, {numbers}, {loss}"


def drawn_step(draw: Draw, ranks: int) -> TorchStep:
    """A case of which everything is drawn: up to 5 microbatches more than ranks, stages of 1 to 7 features."""
    microbatches, features = ranks + draw.randint(2, 5), [draw.randint(1, 7) for _ in range(ranks + 1)]
    return TorchStep(
        microbatches, draw.randint(1, 4), features, draw.choice(sorted(LOSSES)), draw.choice(["mean", "sum"])
    )


@task("module", "num_microbatches", "inputs", "targets", "loss_function", "reduction", errors=SIGNS, seconds=10.0)
def check_pipeline_step(draw: Draw, *, steps: Sequence[TorchStep], drawn: Sequence[int] = ()) -> Iterator[Case]:
    """`function(module, num_microbatches, …)`: one step by torch's 1F1B. `drawn`: ranks of more."""
    for step in (*steps, *(drawn_step(draw, ranks) for ranks in drawn)):
        yield _case(draw, step)


def _case(draw: Draw, step: TorchStep) -> Case:
    batch, features = step.microbatches * step.samples, step.features
    inputs: list[dict[str, Any]] = [
        {
            "weight": draw.normal((features[rank + 1], features[rank])) / 2,
            "bias": draw.normal((features[rank + 1],)) / 2,
            "microbatches": step.microbatches,
            "inputs": draw.normal((batch, features[0])) if rank == 0 else None,
            "targets": draw.normal((batch, features[-1])) if rank == step.ranks - 1 else None,
            "loss": step.loss,
            "reduction": step.reduction,
        }
        for rank in range(step.ranks)
    ]
    return Case(step.title, one_step, inputs, step)


@check_pipeline_step.judge
def _(seen: Seen) -> Remarks:
    alone = _StagesAlone(seen.case.inputs, seen.facts)
    for rank in seen.ranks:
        yield from _losses(seen, alone, rank)
    for rank in reversed(seen.ranks):
        yield from _gradients(seen, alone, rank)
    for rank in seen.ranks:
        for name, found in zip(("inputs", "targets"), seen[rank]["given"], strict=True):
            yield untouched(f"on rank {rank} the tensor of the {name}", found, seen.given(name)[rank], say("not_yours"))
    yield from _messages(seen)
    yield from _memory(seen)


class _StagesAlone:
    """What one process computes with all stages.

    Attributes:
        losses: of the microbatches.
        gradients: by rank, of weight and bias.
        parts: by microbatch, what it adds to these, before anything is divided.
    """

    def __init__(self, given: Sequence[dict[str, Any]], step: TorchStep) -> None:
        parameters = [[each[name].clone().requires_grad_() for name in ("weight", "bias")] for each in given]
        loss, self.losses, self.parts = loss_of(step.loss, step.reduction), [], []
        pieces = (given[0]["inputs"].split(step.samples), given[-1]["targets"].split(step.samples))
        for values, targets in zip(*pieces, strict=True):
            for weight, bias in parameters:
                values = torch.tanh(torch.nn.functional.linear(values, weight, bias))
            of_this = loss(values, targets)
            flat = torch.autograd.grad(of_this, [each for pair in parameters for each in pair])
            self.parts.append([flat[2 * rank : 2 * rank + 2] for rank in range(len(given))])
            self.losses.append(of_this.item())
        self._divisor = step.microbatches if step.reduction == "mean" else 1

    def gradient(self, rank: int, k: int) -> torch.Tensor:
        """Of the weight of a rank's stage (0), or of its bias (1)."""
        return torch.stack([part[rank][k] for part in self.parts]).sum(0) / self._divisor


def _losses(seen: Seen, alone: _StagesAlone, rank: int) -> Remarks:
    """The last rank has returned the losses of the microbatches, the others None."""
    found, number = seen[rank]["losses"], seen.facts.microbatches
    if rank < seen.size - 1:
        if found is not None:
            yield say.remark("not_the_last", rank=rank)
        return
    if not isinstance(found, list | tuple) or len(found) != number:
        what = count(len(found), "loss") if isinstance(found, list | tuple) else f"{found!r:.40}"
        yield say.remark("returned", rank=rank, what=what.replace("losss", "losses"), number=number)
        return
    for i, right in enumerate(alone.losses):
        mistakes: Mistakes = {
            say("mean_of_all"): sum(alone.losses) / number,
            say("another"): alone.losses,
            say("divided"): right / number,
        }
        what = f"on rank {rank} the loss of microbatch {i}"
        yield holds(what, found[i], right, mistakes, same=is_same_number, otherwise=say("loss"))


def _gradients(seen: Seen, alone: _StagesAlone, rank: int) -> Remarks:
    """They are those of the loss of the whole batch; no step of an optimizer was taken."""
    for k, name in enumerate(("weight", "bias")):
        found, right = seen[rank]["gradients"][k], alone.gradient(rank, k)
        otherwise = say("no_gradient") if found is None else explain_factor(found, right) + say("gradient")
        mistakes = partial(_gradient_mistakes, seen.facts, alone, rank, k)
        what = f"on rank {rank} the gradient of the {name}"
        yield holds(what, found, right, mistakes, same=is_close, otherwise=otherwise)
        before = seen.case.inputs[rank][name]
        yield untouched(f"on rank {rank} the {name}", seen[rank]["parameters"][k], before, say("no_step"))


def _gradient_mistakes(step: TorchStep, alone: _StagesAlone, rank: int, k: int) -> Mistakes:
    right, number = alone.gradient(rank, k), step.microbatches
    return {
        say("not_scaled"): right * number if step.reduction == "mean" else None,
        say("scaled"): right / number if step.reduction == "sum" else None,
        say("scaled_twice"): right / number if step.reduction == "mean" else None,
        say("one_microbatch"): [part[rank][k] * factor for part in alone.parts for factor in (1, 1 / number)],
    }


def _messages(seen: Seen) -> Remarks:
    """Outputs to the next rank, gradients to the rank before, a message for each microbatch, and nothing else.

    Torch's own messages about shapes and dtypes are whole numbers, and don't count.
    """
    step: TorchStep = seen.facts
    sizes: dict[tuple[int, int], list[int]] = {}
    for rank in range(seen.size - 1):
        sizes[rank, rank + 1] = sizes[rank + 1, rank] = [step.samples * step.features[rank + 1]] * step.microbatches
    found: dict[tuple[int, int], list[int]] = {pair: [] for pair in sizes}
    for message in seen.trace:
        if message.dtype == "float64" and message.nbytes:
            found.setdefault((message.src, message.dst), []).append(message.nbytes // 8)
    for (src, dst), numbers in found.items():
        if (src, dst) not in sizes:
            yield say.remark("strangers", src=src, dst=dst)
        elif numbers != sizes[src, dst]:
            due = f"{count(step.microbatches, 'message')} of {sizes[src, dst][0]:,}"
            yield say.remark("messages", src=src, dst=dst, found=enumerated(numbers) if numbers else "none", due=due)


@check_pipeline_step.judge_times
def _(seen: Seen) -> Remarks:
    """The messages tell the same as the memory: a rank is never further ahead of the gradients than in 1F1B."""
    for rank in range(seen.size - 1):
        ways = ((rank, rank + 1), (rank + 1, rank))
        sent, arrived = ([m for m in seen.trace if (m.src, m.dst) == way and m.dtype == "float64"] for way in ways)
        most = min(seen.facts.microbatches, seen.size - rank)
        for number, message in enumerate(sent, 1):
            if number - sum(gradient.end <= message.start for gradient in arrived) > most:
                yield say.remark("ahead", rank=rank, number=number, most=most)


def _memory(seen: Seen) -> Remarks:
    """Rank s keeps what p - s microbatches need, as in 1F1B."""
    for rank in seen.ranks:
        found, most = max(seen[rank]["kept"], default=0), min(seen.facts.microbatches, seen.size - rank)
        if found != most:
            name = "gpipe" if found == seen.facts.microbatches else ("keeps_more" if found > most else "keeps_less")
            yield say.remark("kept", rank=rank, found=count(found, "microbatch"), most=most, cause=say(name))

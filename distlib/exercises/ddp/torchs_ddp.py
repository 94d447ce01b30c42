"""Exercise 05: train_with_ddp. A program around torch's own DistributedDataParallel, against a single process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch.nn.functional import mse_loss

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, dtype_name
from distlib.checks.remark import Remark
from distlib.checks.rules.torch_messages import bytes_by_kind
from distlib.checks.rules.values import holds
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.ddp.cases import same
from distlib.exercises.ddp.torchs_ddp_plays import BACKWARD, FORWARD, OUTSIDE, WatchedLayers, train_in_group

say = Sentences(__file__)


@dataclass(frozen=True)
class Accumulation:
    """A piece of training in which gradients are accumulated.

    Attributes:
        widths: features of the input, then of each layer's output.
        microbatches: of each rank, in each step.
        samples: of each microbatch.
        frozen: layers that are not trained.
        dtype: of everything.
    """

    widths: Sequence[int]
    microbatches: Sequence[int]
    samples: int = 3
    frozen: Sequence[int] = ()
    dtype: torch.dtype = torch.float64

    @property
    def title(self) -> str:
        """What it is, and what is special about it."""
        in_steps = ", ".join(map(str, self.microbatches))
        return (
            f"{count(len(self.microbatches), 'step')} of {in_steps} microbatches"
            + f", {count(len(self.frozen), 'layer')} frozen" * bool(self.frozen)
            + f", {dtype_name(self.dtype)}" * (self.dtype != torch.float64)
        )


def _errors(seen: Seen) -> Signs:
    return (
        ("has no attribute 'no_sync'", say("no_sync_of_ddp")),
        ("context manager protocol", say("no_sync_is_called")),
        ("device_ids", say("no_devices")),
        ("expect_autograd_hooks_", say("no_static_graph")),
        ("default process group twice", say("group_is_open")),
        ("DistStoreError", say("group_is_open")),
        ("Default process group has not been initialized", say("group_is_closed")),
        ("NoneType", say("frozen_has_none" if seen.facts.frozen else "none_here")),
        *(
            (words, say("all_ranks_alike"))
            for words in ("waits to", "waits in", "has already returned", "receives into")
        ),
        ("have to make the same collective calls", say("all_ranks_alike")),
    )


@task("model", "steps", "rate", errors=_errors, untouched=["steps"])
def check_train_with_ddp(
    draw: Draw, *, world_sizes: Sequence[int], trainings: Sequence[Accumulation]
) -> Iterator[Case]:
    """`function(model, steps, rate)`: some steps of training with torch's DDP, with gradients accumulated."""
    for training, ranks in itertools.product(trainings, world_sizes):
        rate = draw.rate()
        inputs = [_inputs(draw, training, rate) for _ in range(ranks)]
        yield Case(f"on {count(ranks, 'rank')}, {training.title}", train_in_group, inputs, training)


def _inputs(draw: Draw, training: Accumulation, rate: float) -> dict[str, Any]:
    """What a rank is given."""

    def numbers(*shape: int) -> torch.Tensor:
        return draw.normal(shape).to(training.dtype)

    first, last = training.widths[0], training.widths[-1]
    return {
        "layers": [(numbers(after, before), numbers(after)) for before, after in itertools.pairwise(training.widths)],
        "frozen": list(training.frozen),
        "steps": [
            [(numbers(training.samples, first), numbers(training.samples, last)) for _ in range(number)]
            for number in training.microbatches
        ],
        "rate": rate,
    }


# ── a single process ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class AccumulationWay:
    """How a loop accumulates: as it stands, right.

    Attributes:
        divides_by: the microbatches of the step; nothing; those of the first step.
        factor: what each averaged gradient is multiplied with besides.
        averages: after which microbatches of a step the gradients that are there become averages over the ranks.
        zeroes: when the gradients are dropped.
        steps: when the optimizer makes a step.
    """

    divides_by: Literal["step", "nothing", "first"] = "step"
    factor: float = 1
    averages: Literal["last", "first", "each", "never"] = "last"
    zeroes: Literal["step", "pass", "never"] = "step"
    steps: Literal["step", "pass"] = "step"


def train_alone(case: Case, way: AccumulationWay = AccumulationWay()) -> list[list[torch.Tensor]]:
    """The parameters of all ranks after the training, in this process."""
    layers, frozen = case.inputs[0]["layers"], case.inputs[0]["frozen"]
    models = [WatchedLayers(layers, frozen) for _ in case.inputs]
    for step, number in enumerate(case.facts.microbatches):
        for position in range(number):
            divisor = {"step": number, "nothing": 1, "first": case.facts.microbatches[0]}[way.divides_by]
            for model, inputs in zip(models, case.inputs, strict=True):
                if way.zeroes == "pass" or (way.zeroes == "step" and position == 0):
                    model.zero_grad()
                given, targets = inputs["steps"][step][position]
                (mse_loss(model(given), targets) / divisor).backward()
            is_last = position == number - 1
            if {"last": is_last, "first": position == 0, "each": True, "never": False}[way.averages]:
                _average(models, way.factor)
            if is_last or way.steps == "pass":
                _descend(models, case.inputs[0]["rate"])
    return [[parameter.detach() for parameter in model.parameters()] for model in models]


def _average(models: Sequence[torch.nn.Module], factor: float) -> None:
    for parameters in zip(*(model.parameters() for model in models), strict=True):
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for parameter in parameters[: len(gradients)]:
            parameter.grad = sum(gradients, torch.zeros_like(parameter)) * factor / len(models)


def _descend(models: Sequence[torch.nn.Module], rate: float) -> None:
    for parameter in itertools.chain.from_iterable(model.parameters() for model in models):
        if parameter.grad is not None:
            parameter.data -= rate * parameter.grad


def mistakes_of(case: Case) -> list[tuple[str, AccumulationWay]]:
    """The names of the sentences about usual mistakes, and what each of them computes."""
    way, ranks, outputs = AccumulationWay, case.world_size, case.facts.widths[-1]
    return [
        ("never_zeroed", way(zeroes="never")),
        ("not_divided", way(divides_by="nothing")),
        ("divided_by_ranks", way(factor=1 / ranks)),
        ("summed_again", way(factor=ranks)),
        ("first_number", way(divides_by="first")),
        ("mean_of_all", way(factor=outputs)),
        ("mean_of_all", way(factor=outputs * case.facts.samples)),
        ("all_in_no_sync", way(averages="never")),
        ("first_synchronized", way(averages="first")),
        ("last_alone", way(zeroes="pass")),
        ("last_alone", way(zeroes="pass", divides_by="nothing")),
        *(
            ("step_in_each_pass", way(steps="pass", zeroes=zeroes, averages=averages, divides_by=divides_by))
            for zeroes in ("step", "pass", "never")
            for averages in ("last", "each")
            for divides_by in ("step", "nothing")
        ),
    ]


# ── passes, values, messages ─────────────────────────────────────────────────────────────────────────────────────────


@check_train_with_ddp.judge
def _(seen: Seen) -> Remarks:
    yield from (_passes(seen, rank) for rank in seen.ranks)
    right = train_alone(seen.case)
    names = [name for name, _ in WatchedLayers(seen.given("layers")[0], ()).named_parameters()]
    for rank, (number, name) in itertools.product(seen.ranks, enumerate(names)):
        yield holds(
            say("parameter", name=name, rank=rank),
            seen[rank]["parameters"][number],
            right[rank][number],
            partial(_mistakes, seen, rank, number),
            same=same,
            otherwise=say("any_other"),
        )
    if seen.size > 1:
        yield _gradients_sent(seen)
        yield _averaged_in_time(seen, names)
        yield _parameters_sent(seen)


def _passes(seen: Seen, rank: int) -> Remark | None:
    """Whether each microbatch had a forward pass of the DDP, and a backward pass right after it."""
    training, found = seen.facts, [tuple(each) for each in seen[rank]["passes"]]
    number = sum(training.microbatches)
    if found == [(FORWARD, training.samples), (BACKWARD, 0)] * number:
        return None
    kinds = [kind for kind, _ in found]
    forward = [samples for kind, samples in found if kind != BACKWARD]
    if OUTSIDE in kinds:
        return say.remark("outside", rank=rank, number=kinds.count(OUTSIDE), all=len(forward))
    if any(samples > training.samples for samples in forward):
        return say.remark("together", rank=rank, found=max(forward), samples=training.samples)
    if (FORWARD, FORWARD) in itertools.pairwise(kinds):
        return say.remark("backward_later", rank=rank)
    return say.remark("other_number", rank=rank, found=len(forward), number=number)


def _mistakes(seen: Seen, rank: int, number: int) -> dict[str, Any]:
    own = seen.given("layers")[rank][number // 2][number % 2]
    mistakes: dict[str, Any] = {say("as_it_was"): [own, seen.given("layers")[0][number // 2][number % 2]]}
    for name, way in mistakes_of(seen.case):
        mistakes.setdefault(say(name), []).append(train_alone(seen.case, way)[rank][number])
    return mistakes


def _gradients_sent(seen: Seen) -> Remark | None:
    """Whether the gradients of all trained parameters have travelled in one round of all-reduces in each step.

    An all-reduce of n bytes on N ranks takes 2(N-1)·n bytes in all, with each algorithm.
    """
    trained = [layer for number, layer in enumerate(seen.given("layers")[0]) if number not in seen.facts.frozen]
    found, steps, passes = _sent(seen, "all_reduce"), len(seen.facts.microbatches), sum(seen.facts.microbatches)
    a_round = 2 * (seen.size - 1) * sum(tensor.nbytes for layer in trained for tensor in layer)
    if found == steps * a_round:
        return None
    causes = {passes * a_round: "never_no_sync", 2 * steps * a_round: "besides", (passes + steps) * a_round: "besides"}
    cause = say(causes.get(found, "other_rounds"))
    return say.remark("gradients_sent", found=found, due=steps * a_round, cause=cause)


def _averaged_in_time(seen: Seen, names: Sequence[str]) -> Remark | None:
    """Whether all ranks have the same gradients as soon as the last backward pass of a step ends."""
    trained = [number for number in range(len(names)) if number // 2 not in seen.facts.frozen]
    for step, last in enumerate(itertools.accumulate(seen.facts.microbatches), 1):
        first, *others = (seen[rank]["gradients"][last - 1] for rank in seen.ranks)
        for number, other in itertools.product(trained, others):
            if first[number] is None or not same(other[number], first[number]):
                return say.remark("averaged_late", name=names[number], step=step)
    return None


def _parameters_sent(seen: Seen) -> Remark | None:
    """Whether rank 0's parameters were sent once, by the constructor."""
    found = _sent(seen, "broadcast")
    due = (seen.size - 1) * sum(tensor.nbytes for layer in seen.given("layers")[0] for tensor in layer)
    return say.remark("parameters_sent", found=found, due=due) if found > due else None


def _sent(seen: Seen, kind: str) -> int:
    """The bytes of a kind of call that all ranks have sent together, in the model's dtype."""
    return sum(bytes_by_kind(seen.trace, rank, seen.facts.dtype)[kind] for rank in seen.ranks)

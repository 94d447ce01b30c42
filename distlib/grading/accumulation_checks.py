"""The check of accumulate_gradients: the gradient of the whole batch, from many microbatches and one all-reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.plays.gated import open_gate
from distlib.checks.plays.large_batches import FORWARD, LOSSES, Model, accumulate
from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, is_close
from distlib.grading.accumulation_causes import OLD, Weight, weights
from distlib.grading.case import count
from distlib.grading.checks import name_of
from distlib.grading.flat_all_reduce import SENT_TWICE, bytes_of, judge_flat_all_reduce
from distlib.grading.large_batch_case import ROUNDED, draw_batch, draw_state, draw_values
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.grading.scenario_checks import run_scenarios, seed_for
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene

Tensors = list[torch.Tensor]
_SENT_EACH_TIME = (
    "the ranks talk after each microbatch. Keep what comes from them in parameter.grad, and talk once, after the last."
)
_CAUSES = (
    *((sign, "a parameter may have no gradient: its .grad is None if it is frozen, or if this rank has no samples. A "
       "frozen one is left out. A missing one counts as zeros.")
      for sign in ("'NoneType' object", "expected Tensor as element")),
    ("division by zero", "a rank may have no microbatch. It adds zeros, and takes part in the all-reduce."),
    ("Both need the same number of elements", "every rank must take part in the all-reduce, with as many numbers, "
     "also a rank without any microbatch."),
)  # fmt: skip


@dataclass(frozen=True)
class Pieces:
    """What the ranks have.

    Attributes:
        lengths: by rank, the lengths of its microbatches.
        loss: "cross_entropy" or "squared".
        frozen: whether a parameter is not trained.
    """

    lengths: Sequence[Sequence[int]]
    loss: str = "cross_entropy"
    frozen: bool = False


@dataclass(frozen=True)
class _Right:
    """What the check knows. `sums[rank][m]`: gradients of the sum of the losses of a microbatch, by parameter."""

    pieces: Pieces
    sums: list[list[Tensors]]
    trained: list[int]
    nbytes: int


def check_accumulate_gradients(
    function: Callable[..., object], *, batches: Sequence[Pieces], seed: int = 1
) -> ScenarioReport:
    """Check `function(comm, model, loss_function, microbatches, global_batch_size)`.

    Afterwards the gradient of every trained parameter is that of the mean loss of all samples of all ranks. It comes
    from one forward and one backward pass for each microbatch, one after the other, and from one all-reduce; all_reduce
    is supplied.

    Args:
        batches: what the ranks have: one case each.
        seed: of the values.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name = name_of(function, ("comm", "model", "loss_function", "microbatches", "global_batch_size"))
    seed = seed_for(function, seed)
    cases = [_case(name, pieces, seed + number) for number, pieces in enumerate(batches)]
    return run_scenarios(function, name, cases, _judge, helpers=("all_reduce",), causes=_CAUSES)


def _case(name: str, pieces: Pieces, seed: int) -> ScenarioCase:
    generator = torch.Generator().manual_seed(seed)
    state = draw_state(generator, buffers=False, frozen=pieces.frozen)
    total = sum(map(sum, pieces.lengths))
    model = Model(state, open_gate)
    trained = [number for number, parameter in enumerate(model.parameters()) if parameter.requires_grad]
    parameters = list(model.parameters())
    inputs = [
        {
            "state": state,
            "loss": pieces.loss,
            "total": total,
            "microbatches": [draw_batch(generator, length, pieces.loss) for length in lengths],
            "old": [draw_values(generator, parameters[number].shape) for number in trained],
        }
        for lengths in pieces.lengths
    ]
    part = Part(accumulate, inputs, seed)
    sums = [[_sum_of(part, rank, m) for m in range(len(lengths))] for rank, lengths in enumerate(pieces.lengths)]
    nbytes = sum(parameters[number].numel() * parameters[number].element_size() for number in trained)
    title = f"{name} on {count(len(inputs), 'rank')} with microbatches of {_told(pieces.lengths)}"
    return ScenarioCase(title, part, expected=_Right(pieces, sums, trained, nbytes))


def _told(lengths: Sequence[Sequence[int]]) -> str:
    """The lengths as a student reads them: "4, 2 | 3 | no samples"."""
    return " | ".join(", ".join(map(str, mine)) or "no" for mine in lengths) + " samples"


def _sum_of(part: Part, rank: int, number: int) -> Tensors:
    """The gradient of the sum of a microbatch's losses, by parameter; zeros for one that is not trained."""
    given = part.inputs[rank]
    model = Model(given["state"], lambda k, seconds=0.0: part.factor(rank, number))
    inputs, targets = given["microbatches"][number]
    LOSSES[given["loss"]](model(inputs), targets).sum().backward()
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]


def _judge(case: ScenarioCase, scene: Scene) -> Remark | None:
    right: _Right = case.expected
    for rank in range(case.world_size):
        if remark := _judge_passes(right, scene, rank):
            return remark
    for rank, result in enumerate(scene.results):
        before = list(Model(case.part.inputs[rank]["state"], open_gate).parameters())
        for number, parameter in enumerate(before):
            if not torch.equal(result["parameters"][number], parameter):
                return Remark(
                    f"on rank {rank}, parameter {number} itself has changed.",
                    cause="fill parameter.grad, and leave the parameters to the optimizer.",
                )
        for number in right.trained:
            if remark := _judge_gradient(case, right, rank, number, result["gradients"][number]):
                return remark
    return _judge_messages(case, right, scene)


def _judge_passes(right: _Right, scene: Scene, rank: int) -> Remark | None:
    """One forward and one backward pass for each microbatch, in turns."""
    gates, own = [k for k, _ in scene.gates[rank]], len(right.pieces.lengths[rank])
    forward = sum(k >= FORWARD for k in gates)
    if forward != own:
        return Remark(
            f"on rank {rank}, the model was called {count(forward, 'time')} for {_count_microbatches(own)}.",
            cause="call it once for each microbatch. All samples at once would need the memory of them all.",
        )
    expected = [gate for k in range(own) for gate in (FORWARD + k, k)]
    if gates == expected:
        return None
    if len(gates) < len(expected):
        return Remark(
            f"on rank {rank}, only {len(gates) - own} of {_count_microbatches(own)} had a backward pass.",
            cause="call backward for the loss of every microbatch: it adds to parameter.grad.",
        )
    return Remark(
        f"on rank {rank}, a second microbatch went forward before the first had gone backward.",
        cause="what backward needs is then kept in memory for all microbatches together. Call backward inside the "
        "loop, for each microbatch: it adds to parameter.grad.",
    )


def _count_microbatches(number: int) -> str:
    return "1 microbatch" if number == 1 else f"{number} microbatches"


def _judge_gradient(case: ScenarioCase, right: _Right, rank: int, number: int, found: Any) -> Remark | None:
    expected = _whole(right, number)
    if is_close(found, expected):
        return None
    if found is None:
        return Remark(
            f"on rank {rank}, parameter {number} has no gradient.",
            cause="a rank without samples for it, too, ends with the sum over all ranks in parameter.grad.",
        )
    return Remark(
        f"on rank {rank}, the gradient of parameter {number} is wrong.",
        compared(expected, found),
        _cause(case, right, rank, number, found),
    )


def _whole(right: _Right, number: int) -> torch.Tensor:
    total = sum(map(sum, right.pieces.lengths))
    return _added(right, number, lambda rank, m: 1 / total)


def _added(right: _Right, number: int, weight: Weight) -> torch.Tensor:
    """The gradients of all microbatches, each times its weight."""
    first = next(tensors for rank in right.sums for tensors in rank)[number]
    terms = [
        tensors[number] * weight(rank, m) for rank, mine in enumerate(right.sums) for m, tensors in enumerate(mine)
    ]
    return sum(terms, torch.zeros_like(first))


def _cause(case: ScenarioCase, right: _Right, rank: int, number: int, found: Any) -> str:
    old = [inputs["old"][right.trained.index(number)] for inputs in case.part.inputs]
    whole = _whole(right, number)
    if is_close(found, whole + sum(old)) or is_close(found, whole + old[rank]):
        return OLD
    if is_close(found, whole, relative=1e-4, absolute=1e-7):
        return ROUNDED
    known = weights(right.pieces.lengths, rank)
    return next((words for weight, words in known if is_close(found, _added(right, number, weight))), "")


def _judge_messages(case: ScenarioCase, right: _Right, scene: Scene) -> Remark | None:
    microbatches = max(map(len, right.pieces.lengths))
    is_sent_each_time = sum(scene.trace.bytes_sent) == microbatches * bytes_of(case.world_size, right.nbytes)
    return judge_flat_all_reduce(
        scene.trace,
        right.nbytes,
        right="the gradients",
        what="all gradients",
        too_many_bytes=_SENT_EACH_TIME if is_sent_each_time else SENT_TWICE,
    )

"""The check of data_parallel_step: the gradients of the whole batch on rank 0, by work that every rank has done itself.

The model multiplies by a factor that differs from rank to rank (`scenarios.master.Classifier`). So rank 0 can't compute
the whole batch alone, and an output that comes from the wrong rank shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.plays.master import Classifier, loss_of, one_step
from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, is_close, is_equal
from distlib.grading.case import count
from distlib.grading.checks import name_of
from distlib.grading.master_messages import NOBODY_ELSE, Way, judge_ways
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.grading.scenario_checks import run_scenarios, seed_for
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene

PARTS = ("split_batch", "replicate", "gather_outputs", "reduce_gradients")
_PIXELS, _HIDDEN, _CLASSES = 4, 3, 2
_ERRORS = (
    ("grad can be implicitly created only for scalar", "a rank's output is not a single number: call "
     "output.backward(part), with the part of the gradient that belongs to this output."),
    ("does not require grad", "the gathered outputs have no history. Make them a starting point before the loss: "
     "outputs.requires_grad_()."),
    ("'NoneType' object", "outputs exist on rank 0 only; elsewhere gather_outputs returns None. Only rank 0 computes "
     "the loss."),
    ("backward through the graph a second time", "call output.backward once in a step."),
)  # fmt: skip
_OLD_GRADIENTS = "gradients from before are still inside. On every rank a step begins with model.zero_grad()."

Gradients = Mapping[str, torch.Tensor | None]


@dataclass(frozen=True)
class Step:
    """A step to be checked.

    Attributes:
        batch_size: images in the batch.
        loss: "mean" over the images, "sum", or "joint", in which the images look at each other.
        frozen: names of parameters that need no gradient.
        earlier: whether the parameters have a gradient from before.
    """

    batch_size: int
    loss: str = "mean"
    frozen: tuple[str, ...] = ()
    earlier: bool = False


def check_data_parallel_step(
    function: Callable[..., object], *, world_sizes: Sequence[int], steps: Sequence[Step], seed: int = 1
) -> ScenarioReport:
    """Check `function(comm, model, images, labels, loss_function)`: gradients and loss on rank 0, and every message.

    The parts of the exercise (`PARTS`) are supplied.

    Args:
        steps: what is tried; those with fewer images than ranks are left out there.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name = name_of(function, ("comm", "model", "images", "labels", "loss_function"))
    seed = seed_for(function, seed)
    cases = [_case(name, ranks, step, seed) for step in steps for ranks in world_sizes if step.batch_size >= ranks]
    helpers = tuple(f"master_parts.{part}" for part in PARTS)
    return run_scenarios(function, name, cases, _judge, helpers=helpers, causes=_ERRORS)


def _case(name: str, ranks: int, step: Step, seed: int) -> ScenarioCase:
    draw = torch.Generator().manual_seed(random.Random(f"{seed} {ranks} {step}").getrandbits(60))
    inputs = [
        {
            "state": _random_state(draw),
            "images": torch.randn(step.batch_size, _PIXELS, dtype=torch.float64, generator=draw),
            "labels": torch.randint(_CLASSES, (step.batch_size,), generator=draw),
            "loss": step.loss,
            "frozen": list(step.frozen),
            "earlier": step.earlier,
        }
        for _ in range(ranks)
    ]
    notes = {"mean": "", "sum": ", the loss a sum", "joint": ", a loss in which images look at each other"}[step.loss]
    notes += ", a frozen layer" * bool(step.frozen) + ", a gradient left from before" * step.earlier
    title = f"{name} on {count(ranks, 'rank')}, {count(step.batch_size, 'image')}{notes}"
    return ScenarioCase(title, Part(one_step, inputs, seed), expected=step)


def _random_state(draw: torch.Generator) -> dict[str, torch.Tensor]:
    shapes = {
        "first.weight": (_HIDDEN, _PIXELS),
        "first.bias": (_HIDDEN,),
        "last.weight": (_CLASSES, _HIDDEN),
        "last.bias": (_CLASSES,),
        "offset": (_HIDDEN,),
    }
    return {name: torch.randn(shape, dtype=torch.float64, generator=draw) for name, shape in shapes.items()}


# ── judging ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _judge(case: ScenarioCase, scene: Scene) -> Remark | None:
    loss, parts = work_of_ranks(case)
    wanted = total(parts)
    found = scene.results[0]["gradients"]
    for name, gradient in wanted.items():
        if not is_close(found[name], gradient, any_dtype=True):
            seen = f"on rank 0, the gradient of {name} is not that of the whole batch."
            return Remark(seen, compared(gradient, found[name]), _cause(case, name, found[name], parts))
    return _judge_loss(loss, scene) or _judge_state(case, scene) or judge_ways(scene.trace, _ways(case), NOBODY_ELSE)


def _judge_loss(loss: torch.Tensor, scene: Scene) -> Remark | None:
    for rank, result in enumerate(scene.results):
        if rank and result["calls"]:
            return Remark(
                f"rank {rank} calls loss_function.", cause="only rank 0 has the labels, and computes the loss."
            )
        if rank and result["returned"] is not None:
            return Remark(
                f"rank {rank} returns something, and should return None.", cause="only rank 0 knows the loss."
            )
    found = scene.results[0]["returned"]
    number = torch.tensor(found, dtype=torch.float64) if isinstance(found, float) else found
    if not is_close(number, loss, any_dtype=True):
        return Remark(
            "the gradients are right, but rank 0 does not return the loss.",
            compared(loss, found),
            "the function ends with the loss of the whole batch on rank 0, and None elsewhere.",
        )
    return None


def _judge_state(case: ScenarioCase, scene: Scene) -> Remark | None:
    for name, before in case.part.inputs[0]["state"].items():
        if not is_equal(scene.results[0]["state"][name], before):
            cause = "leave the step to the caller: rank 0 calls its optimizer after this function."
            return Remark(f"on rank 0, {name} itself has changed.", cause=cause)
    return None


def _ways(case: ScenarioCase) -> list[Way]:
    step: Step = case.expected
    inputs = case.part.inputs[0]
    model = sum(tensor.nbytes for tensor in inputs["state"].values())
    gradients = sum(t.nbytes for name, t in inputs["state"].items() if name not in (*step.frozen, "offset"))
    ways = []
    for rank, part in enumerate(inputs["images"].tensor_split(case.world_size)):
        outputs, labels = len(part) * _CLASSES * 8, len(part) * 8
        out, back = part.nbytes + model + outputs, outputs + gradients
        extra = inputs["images"].nbytes - part.nbytes
        causes = {
            out + labels: "labels are sent, too. Only rank 0 computes the loss, so nobody else needs them.",
            out + len(inputs["labels"]) * 8: "labels are sent, too. Only rank 0 computes the loss.",
            out + extra: "the whole batch is sent. Each rank needs its own images only.",
            out + model: "the model is sent twice in a step. Replicate it once, before forward.",
            out + (step.batch_size - len(part)) * _CLASSES * 8: "the whole gradient of the outputs is sent. Each rank "
            "needs the rows of its own outputs.",
            out + gradients: "gradients are sent back. Only rank 0 has the optimizer.",
        }
        what = "its images, the model, and the gradient of its outputs"
        ways += [] if rank == 0 else [
            Way(0, rank, out, 7, what, causes),
            Way(rank, 0, back, 5, "its outputs and its gradients"),
        ]  # fmt: skip
    return ways


# ── what a step should give, and what mistakes give ──────────────────────────────────────────────────────────────────


def work_of_ranks(
    case: ScenarioCase, *, own_weights: bool = False, own_images: bool = False, own_loss: bool = False
) -> tuple[torch.Tensor, list[Gradients]]:
    """The loss of the batch, and the gradients that each rank adds to the sum.

    Args:
        own_weights, own_images: with the weights, the images that a rank has itself instead of those of rank 0.
        own_loss: each rank computes the loss of its own part.
    """
    inputs, size = case.part.inputs, case.world_size
    models = [
        Classifier(inputs[rank if own_weights else 0]["state"], case.part.gate(rank), inputs[0]["frozen"])
        for rank in range(size)
    ]
    parts = [inputs[rank if own_images else 0]["images"].tensor_split(size)[rank] for rank in range(size)]
    outputs = [model(part) for model, part in zip(models, parts, strict=True)]
    labels = inputs[0]["labels"]
    losses = [loss_of(case.expected.loss, *pair) for pair in zip(outputs, labels.tensor_split(size), strict=True)]
    loss = loss_of(case.expected.loss, torch.cat(outputs), labels)
    (torch.stack(losses).sum() if own_loss else loss).backward()
    return loss.detach(), [{name: p.grad for name, p in model.named_parameters()} for model in models]


def total(parts: Sequence[Gradients]) -> dict[str, torch.Tensor | None]:
    """The sum over the ranks, by name; None where there is no gradient."""
    return {
        name: None if first is None else torch.stack([part[name] for part in parts]).sum(dim=0)  # type: ignore[misc]
        for name, first in parts[0].items()
    }


def _cause(case: ScenarioCase, name: str, found: Any, parts: Sequence[Gradients]) -> str:
    wanted = total(parts)[name]
    if wanted is None:
        return "this parameter is frozen, and gets no gradient."
    if found is None:
        return "there is no gradient at all. Backward begins with output.backward(…), on every rank."
    size = case.world_size
    known: list[tuple[object, str]] = [
        (wanted / size, "it was divided by the number of ranks. The loss is that of the whole batch: only add."),
        *((wanted + ranks, _OLD_GRADIENTS) for ranks in (1, size - 1, size) if ranks),
        (parts[0][name], "this is rank 0's own part. Are the gradients of the others added up at the end?"),
        (_variant(case, name, own_weights=True), "each rank has computed with weights of its own. Is the model "
         "replicated before forward?"),
        (_variant(case, name, own_images=True), "each rank has taken images of its own. Only those of rank 0 count."),
        (_variant(case, name, own_loss=True), "each rank has computed a loss of its own. There is one loss, of all "
         "outputs together, on rank 0."),
        (_variant(case, name, own_loss=True) / size, "these are averages of the gradients of every rank's own loss. "
         "There is one loss, of all outputs together, on rank 0."),
    ]  # fmt: skip
    return next((cause for value, cause in known if is_close(found, value, any_dtype=True)), "")


def _variant(case: ScenarioCase, name: str, **mistake: bool) -> torch.Tensor:
    gradient = total(work_of_ranks(case, **mistake)[1])[name]
    assert gradient is not None
    return gradient

"""The check of average_gradients: every rank's gradients become the average over all ranks, in one all-reduce.

Gradients are multiples of the number of ranks, so that sums and averages are exact, in whatever order they are made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.plays.gradients import after_backward
from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, is_equal
from distlib.grading.case import count
from distlib.grading.checks import name_of
from distlib.grading.flat_all_reduce import judge_flat_all_reduce
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.grading.scenario_checks import run_scenarios, seed_for
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene

_CAUSES = (
    ("'NoneType' object has no attribute", "a parameter may have no gradient: its .grad is None. It counts as zeros."),
    *((sign, "ranks disagree about what is reduced. Where a gradient is None, put zeros in its place: then every rank "
       "has the same parameters in the same order.")
      for sign in ("receives into", "have to make the same collective calls", "waits to")),
)  # fmt: skip


@dataclass(frozen=True)
class Gradients:
    """What the parameters of a model are like.

    Attributes:
        shapes: of the parameters.
        missing: (rank, parameter) pairs: there the gradient is None.
        frozen: parameters that need no gradient.
        dtype: of all parameters.
    """

    shapes: Sequence[Sequence[int]]
    missing: Sequence[tuple[int, int]] = ()
    frozen: Sequence[int] = ()
    dtype: torch.dtype = torch.float32

    @property
    def trained(self) -> list[int]:
        """The parameters that need a gradient."""
        return [number for number in range(len(self.shapes)) if number not in self.frozen]

    @property
    def nbytes(self) -> int:
        """The size of all gradients of one rank."""
        return sum(torch.Size(self.shapes[number]).numel() for number in self.trained) * self.dtype.itemsize


def check_average_gradients(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    models: Sequence[Gradients],
    seed: int = 1,
) -> ScenarioReport:
    """Check `function(comm, module)`: afterwards the gradient of every parameter is the average over all ranks.

    A gradient that is missing on a rank counts as zeros. All gradients go in one all-reduce: all_reduce is supplied.

    Args:
        world_sizes: numbers of ranks.
        models: what the modules are like.
        seed: of the values.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name = name_of(function, ("comm", "module"))
    seed = seed_for(function, seed)
    cases = [_case(name, model, size, seed + number) for number, model in enumerate(models) for size in world_sizes]
    return run_scenarios(function, name, cases, _judge, helpers=("all_reduce",), causes=_CAUSES)


def _case(name: str, model: Gradients, world_size: int, seed: int) -> ScenarioCase:
    draw = random.Random(f"{seed} {world_size}")
    weights = [_values(draw, shape, 1, model.dtype) for shape in model.shapes]
    missing = {*model.missing, *((rank, number) for rank in range(world_size) for number in model.frozen)}
    inputs = [
        {
            "weights": weights,
            "gradients": [
                None if (rank, number) in missing else _values(draw, shape, world_size, model.dtype)
                for number, shape in enumerate(model.shapes)
            ],
            "frozen": list(model.frozen),
        }
        for rank in range(world_size)
    ]
    without = sum(rank < world_size for rank, _ in model.missing)
    notes = (f", {count(without, 'gradient')} missing" if without else "") + (", one frozen" if model.frozen else "")
    title = f"{name} on {count(world_size, 'rank')}, {count(len(model.shapes), 'parameter')}{notes}"
    return ScenarioCase(title, Part(after_backward, inputs, seed), expected=model)


def _values(draw: random.Random, shape: Sequence[int], unit: int, dtype: torch.dtype) -> torch.Tensor:
    numbers = [draw.randint(-60, 60) * unit for _ in range(torch.Size(shape).numel())]
    return torch.tensor(numbers, dtype=dtype).reshape(tuple(shape))


def _judge(case: ScenarioCase, scene: Scene) -> Remark | None:
    for rank, result in enumerate(scene.results):
        for number in case.expected.trained:
            if remark := _judge_gradient(case, rank, number, result["gradients"][number]):
                return remark
        for number, weight in enumerate(case.part.inputs[rank]["weights"]):
            if not torch.equal(result["weights"][number], weight):
                return Remark(
                    f"on rank {rank}, parameter {number} itself has changed.",
                    cause="average the gradients, parameter.grad, and leave the parameters to the optimizer.",
                )
    return judge_flat_all_reduce(scene.trace, case.expected.nbytes, right="the averages", what="all gradients")


def _judge_gradient(case: ScenarioCase, rank: int, number: int, found: object) -> Remark | None:
    size = case.world_size
    given = [inputs["gradients"][number] for inputs in case.part.inputs]
    like = case.part.inputs[0]["weights"][number]
    total = sum((gradient for gradient in given if gradient is not None), torch.zeros_like(like))
    expected = total / size
    nobody_has_it = all(gradient is None for gradient in given)
    if is_equal(found, expected) or (found is None and nobody_has_it):
        return None
    return Remark(
        f"on rank {rank}, the gradient of parameter {number} is wrong.",
        compared(expected, found),
        _cause(found, given[rank], total, size),
    )


def _cause(found: object, own: Any, total: torch.Tensor, size: int) -> str:
    known: list[tuple[object, str]] = [
        (own, "this is still the rank's own gradient. Are the averages written back into parameter.grad?"),
        (total, "this is the sum over the ranks. Divide it by comm.world_size."),
        (None if own is None else own / size, "the rank's own gradient was divided, before the sum had come. An "
         "all_reduce with async_op=True returns at once: wait for it, work.wait()."),
        (total / size**2, "it was divided by the number of ranks twice."),
    ]  # fmt: skip
    if found is None:
        return "the gradient is missing on this rank and must become the average, in which it counts as zeros."
    return next((cause for value, cause in known if is_equal(found, value)), "")

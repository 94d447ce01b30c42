"""Steps of decentralized training: a student's step, and a gradient that notes at which parameters it is asked for.

    on rank i, in step k:   gradient(x) = factor · curvature_i · (x - target_i)        gate k hands out the factor

Every rank has a curvature and a target of its own, so the gradient of one rank is of no use to another. One rank takes
longer for it than the others. So a rank two places away gets ahead, and its next message comes before one of this step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.tensor import lay_out, strayed
from distlib.communicator import Communicator

SECONDS = 0.01  # that a gradient takes on the slow rank, in virtual time and in real time
EXPECTED = "gradient: expected this rank's parameters"  # how its error begins


def seconds_of(inputs: dict[str, Any], k: int) -> float:
    """The virtual time of gate k: a gradient's."""
    return SECONDS * inputs["is_slow"]


def slope(inputs: dict[str, Any], x: torch.Tensor, factor: float) -> torch.Tensor:
    """The gradient at x, shape [length], once the gate has handed out its factor."""
    return factor * inputs["curvature"].to(x.dtype) * (x - inputs["target"].to(x.dtype))


def train(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, parameters, gradient, matrix, learning_rate)` for each step.

    Args:
        inputs: "values": shape [length]; "layout": how they lie in memory, of `plays.tensor.LAYOUTS`; "curvature",
            "target": of the gradient, shape [length]; "is_slow"; "matrix"; "rate"; "steps": how many.

    Returns:
        "steps": the parameters after each step, shape [length]; "returned": what the last call returned; "strayed":
        whether memory next to the parameters was written; "changed": whether the matrix was.
    """
    memory, view = lay_out(inputs["values"], inputs["layout"])
    ours, before = memory.as_strided(view.shape, view.stride(), view.storage_offset()), memory.clone()
    matrix, found, returned = inputs["matrix"].clone(), [], None
    for step in range(inputs["steps"]):

        def gradient(parameters: torch.Tensor, step: int = step) -> torch.Tensor:
            """As a student calls it. It takes the gate of this step."""
            _expect_alike(parameters, ours)
            time.sleep(SECONDS * inputs["is_slow"])  # real ranks have no virtual time
            at = parameters.detach().reshape(-1).clone()
            return slope(inputs, at, gate(step, at)).view(ours.shape)

        returned = function(comm, view, gradient, matrix, inputs["rate"])
        found.append(ours.flatten().clone())
    changed = not torch.equal(matrix, inputs["matrix"])
    return {"steps": found, "returned": returned, "strayed": strayed(memory, before, ours), "changed": changed}


def _expect_alike(given: object, ours: torch.Tensor) -> None:
    if not isinstance(given, torch.Tensor) or (given.shape, given.dtype) != (ours.shape, ours.dtype):
        came = f"{list(given.shape)}, {given.dtype}" if isinstance(given, torch.Tensor) else type(given).__name__
        raise ValueError(f"{EXPECTED}, {list(ours.shape)}, {ours.dtype}; got {came}")

"""A model whose parameters have gradients already; the student's function averages these over the ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator


def after_backward(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, module)`.

    Args:
        inputs: "weights": a tensor for each parameter; "gradients": a tensor or None for each; "frozen": the numbers of
            the parameters that need no gradient.

    Returns:
        "gradients" and "weights" afterwards.
    """
    module = torch.nn.Module()
    for number, weight in enumerate(inputs["weights"]):
        parameter = torch.nn.Parameter(weight.clone(), requires_grad=number not in inputs["frozen"])
        module.register_parameter(f"parameter{number}", parameter)
        gradient = inputs["gradients"][number]
        parameter.grad = None if gradient is None else gradient.clone()
    parameters = list(module.parameters())
    function(comm, module)
    return {"gradients": [p.grad for p in parameters], "weights": parameters}

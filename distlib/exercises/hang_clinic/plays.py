"""What runs on each rank around the program of a patient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

COMPUTES = 1.0  # seconds of virtual time that `compute` takes in `blend`


def seconds_of(inputs: dict[str, Any], k: int) -> float:
    """The one gate is in `compute`."""
    return COMPUTES


def call_with_comm(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, …)` with all inputs, in their order.

    Returns:
        "returned", and the inputs afterwards, by name.
    """
    return {"returned": function(comm, *inputs.values()), **inputs}


def read_and_add(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, read)`. `read()` returns a tensor, or raises an OSError.

    Args:
        inputs: "part": the tensor; "fails": whether it can't be read.

    Returns:
        "returned"; or "raised": the text of a RuntimeError. And "reads": how often `read` was called.
    """
    reads = 0

    def read() -> torch.Tensor:
        nonlocal reads
        reads += 1
        if inputs["fails"]:
            raise OSError("input/output error")
        part: torch.Tensor = inputs["part"].clone()
        return part

    try:
        returned = function(comm, read)
    except RuntimeError as error:
        return {"raised": str(error), "reads": reads}
    return {"returned": returned, "reads": reads}


def average_dict(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """Call `function(comm, gradients)`; return the tensors of the dict afterwards, by name.

    Args:
        inputs: "names" in the order of the dict, and their "tensors".
    """
    gradients = dict(zip(inputs["names"], inputs["tensors"], strict=True))
    function(comm, gradients)
    return gradients


def blend(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, own, compute)`; return what it returned, as "returned".

    Args:
        inputs: "own", and "computed": what `compute()` returns, behind gate 0, where time passes.
    """

    def compute() -> torch.Tensor:
        gate(0)
        computed: torch.Tensor = inputs["computed"].clone()
        return computed

    return {"returned": function(comm, inputs["own"], compute)}

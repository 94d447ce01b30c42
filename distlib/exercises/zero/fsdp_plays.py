"""Training by torch's fully_shard: a program of the student's, and what a rank has at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distlib.checks.plays import block_models
from distlib.checks.plays.block_models import block_model, local_parts, told
from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.torch_program import process_group
from distlib.communicator import Communicator

RUNS_TORCH, SPEAKS = True, block_models.SPEAKS
IMPORTED_LATE = ("torch.distributed.fsdp", "torch.distributed.tensor")


def train(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(model, steps, rate, max_norm)`.

    Args:
        inputs: "widths" and "state" of the model, and the names of its "frozen" layers; by step the microbatches of
            this rank, pairs of inputs and targets ("steps"); "rate" and "max_norm".

    Returns:
        "norms": what was returned; and "parameters", see `local_parts`.
    """
    model = block_model(inputs["widths"], inputs["state"])
    for name in inputs["frozen"]:
        model.get_submodule(name).requires_grad_(False)
    with process_group(comm):
        norms = function(model, inputs["steps"], inputs["rate"], inputs["max_norm"])
        return {"norms": told(norms), "parameters": local_parts(model)}

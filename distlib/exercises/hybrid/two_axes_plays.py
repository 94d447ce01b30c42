"""Training by torch on a mesh of two axes, dp and tp: a program of the student's, and what a rank has at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distlib.checks.plays import block_models
from distlib.checks.plays.block_models import block_model, local_parts, told
from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.torch_program import process_group
from distlib.communicator import Communicator

RUNS_TORCH, SPEAKS = True, block_models.SPEAKS
IMPORTED_LATE = ("torch.distributed.fsdp", "torch.distributed.tensor.parallel")


def train_on_two_axes(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(model, dp_size, tp_size, steps, rate, max_norm)`.

    Args:
        inputs: "widths" and "state" of the model; "dp" and "tp", the sizes of the axes; the batch of this rank in each
            step, inputs and targets ("steps"); "rate" and "max_norm".

    Returns:
        "norms": what was returned; and "parameters", see `local_parts`.
    """
    model = block_model(inputs["widths"], inputs["state"])
    with process_group(comm):
        norms = function(model, inputs["dp"], inputs["tp"], inputs["steps"], inputs["rate"], inputs["max_norm"])
        return {"norms": told(norms), "parameters": local_parts(model)}

"""One stage of a pipeline for a student's program of torch's: what it computes is noted, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.torch_program import process_group
from distlib.communicator import Communicator
from distlib.exercises.pipeline.plays import LOSSES, NotedStage, StageNotes

RUNS_TORCH = True  # the student's function is a program of torch's
IMPORTED_LATE = ("torch.distributed.pipelining",)  # before there is a process group


def loss_of(kind: str, reduction: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A loss over all samples and features, of shape []: their mean, or their sum if `reduction` is "sum".

    Args:
        kind: one of `LOSSES`.
    """
    mean = LOSSES[kind]

    def summed(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return mean(outputs, targets) * outputs.numel()

    return mean if reduction == "mean" else summed


def one_step(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(module, num_microbatches, inputs, targets, loss_function, reduction)`.

    Args:
        inputs: "weight" and "bias" of this rank's stage; "microbatches", "inputs", "targets", "reduction"; "loss": one
            of `LOSSES`.

    Returns:
        "losses": what it returned; "gradients", "parameters" and "given" (inputs and targets) afterwards; "kept": at
        the end of each forward pass how many were alive.
    """
    notes = StageNotes()
    stage = NotedStage(inputs["weight"], inputs["bias"], notes)
    given = [None if inputs[name] is None else inputs[name].clone() for name in ("inputs", "targets")]
    loss_function = loss_of(inputs["loss"], inputs["reduction"])
    with process_group(comm):
        losses = function(stage, inputs["microbatches"], *given, loss_function, inputs["reduction"])
    parameters = list(stage.parameters())
    return {
        "losses": losses,
        "gradients": [parameter.grad for parameter in parameters],
        "parameters": parameters,
        "given": given,
        "kept": notes.kept,
    }

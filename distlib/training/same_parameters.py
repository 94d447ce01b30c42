"""Has a model still the parameters that its wrapper knows? Hooks and buffers are made once, when a model is wrapped.

    wrapped          w₁ trained      w₂ frozen                     w₁ is averaged
    w₂ is unfrozen   w₁ trained      w₂ trained, and not averaged: each rank would go its own way, without an error

So each forward pass looks whether the parameters that are trained are still the ones that were there in the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn


def trained_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Find the parameters of a model that are trained, each once, by name. Raises ValueError where there is none."""
    trained = {name: each for name, each in module.named_parameters() if each.requires_grad}
    if not trained:
        raise ValueError("expected a model with parameters to train, got one without, or with frozen ones only")
    return trained


def check_same_parameters(rank: int, module: nn.Module, known: Mapping[nn.Parameter, torch.dtype]) -> None:
    """Check that every parameter which is trained is one of those that its wrapper knows, and has the same dtype.

    Args:
        rank: for the message.
        module: the model that was wrapped.
        known: the parameters that it had then, and their dtypes.

    Raises:
        RuntimeError: a parameter was unfrozen, added, replaced or given another dtype since.
    """
    new = [name for name, each in module.named_parameters() if each.requires_grad and each not in known]
    if new:
        raise RuntimeError(
            f"on rank {rank} {', '.join(new)} is trained now, and was not when the model was wrapped, so its gradient "
            "would stay this rank's own. Unfreeze, add or replace parameters before the model is wrapped, or wrap "
            "the model again."
        )
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.dtype != known[parameter]:
            raise RuntimeError(
                f"on rank {rank} {name} has the dtype {parameter.dtype} now, and had {known[parameter]} when the model "
                "was wrapped. Convert the model first, and wrap it then."
            )


def check_dense(parameters: Mapping[str, nn.Parameter], parameter: nn.Parameter) -> None:
    """Check that the gradient of one of these parameters can be a piece of a flat buffer. Raises TypeError."""
    if parameter.grad is None or parameter.grad.layout == torch.strided:
        return
    name = next(name for name, each in parameters.items() if each is parameter)
    raise TypeError(
        f"{name} has a sparse gradient, and ranks average whole tensors: make its layer with sparse=False. "
        "(torch's DistributedDataParallel gathers the indices and values of all ranks instead.)"
    )

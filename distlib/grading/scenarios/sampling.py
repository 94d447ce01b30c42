"""Samplers: every rank makes its own, without a message, and says which samples it gets in which epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.communicator import Communicator
from distlib.grading.scenarios.gated import PassGate


def epochs(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Make `function(dataset, comm.world_size, comm.rank, **options)` and go through it.

    Args:
        inputs: "length" of the data set; "options" of the sampler; "epochs": the numbers of the epochs, in their order.

    Returns:
        "indices": a list for each epoch; "lengths": what len says in each; "again": the first epoch once more;
        "kept_random_state": whether torch's random numbers outside were left alone.
    """
    sampler = function(range(inputs["length"]), comm.world_size, comm.rank, **inputs["options"])
    before = torch.get_rng_state()
    indices, lengths = [], []
    for epoch in inputs["epochs"]:
        sampler.set_epoch(epoch)
        indices.append([index for index in sampler])
        lengths.append(len(sampler))
    sampler.set_epoch(inputs["epochs"][0])
    again = [index for index in sampler]
    kept = torch.equal(before, torch.get_rng_state())
    return {"indices": indices, "lengths": lengths, "again": again, "kept_random_state": kept}

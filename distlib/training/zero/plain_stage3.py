"""ZeRO stage 3 (FSDP) to read first: of a unit's weights a rank keeps a shard, and has the others while it computes.

    forward    all-gather the unit's weights ──► compute ──► forget them
    backward   all-gather them again ──► compute gradients ──► reduce-scatter ──► this rank's shard of the average

    model = nn.Sequential(*[PlainShardedUnit(comm, block) for block in blocks])     # a unit: a part of the model
    optimizer = torch.optim.AdamW(model.parameters())       # of the shards; then train as ever, each rank its batches

It sends 1.5 times the bytes of data parallel training: two all-gathers and a reduce-scatter, where an all-reduce is one
of each. A unit whose backward pass needs no weight, such as an embedding, is not gathered again.

What `FullyShardedModule` (in `fully_sharded`) adds: it wraps a whole model, sends while it computes, and has frozen
weights, less precision, clipping and checkpoints; and it says what would go wrong in silence.

Source: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.nn.functional import pad
from torch.nn.utils import parameters_to_vector

from distlib.collectives import all_gather, broadcast, reduce_scatter
from distlib.communicator import Communicator, ReduceOp


def gather(comm: Communicator, shard: torch.Tensor) -> torch.Tensor:
    """The shards of all ranks, one after another."""
    flat = shard.detach().repeat(comm.world_size)  # this rank's is in its place, and will be overwritten in the others'
    all_gather(comm, flat)
    return flat


class GatherWeights(torch.autograd.Function):
    """Forward: all-gather, from shard to weights. Backward: reduce-scatter, from their gradient to the shard's."""

    @staticmethod
    def forward(ctx: Any, comm: Communicator, shard: torch.Tensor) -> torch.Tensor:
        ctx.comm = comm
        return gather(comm, shard)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        flat = gradients[0].contiguous()
        reduce_scatter(ctx.comm, flat, ReduceOp.AVG)
        return None, flat.chunk(ctx.comm.world_size)[ctx.comm.rank].clone()


class PlainShardedUnit(nn.Module):
    """A part of a model. Its only parameter is this rank's shard of the part's weights.

    Args:
        comm: of this rank. In a SimulatedWorld it takes contexts="threads", since it sends inside `backward()`.
        module: the same on every rank; its weights become rank 0's. It has some, all are trained, and have one dtype.
    """

    def __init__(self, comm: Communicator, module: nn.Module) -> None:
        super().__init__()
        self.comm = comm
        self.shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
        flat = parameters_to_vector(module.parameters()).detach()  # all of its weights, one after another
        flat = pad(flat, (0, -len(flat) % comm.world_size))  # and zeros, so that the ranks divide it
        broadcast(comm, flat)
        self.shard = nn.Parameter(flat.chunk(comm.world_size)[comm.rank].clone())
        for parameter in module.parameters():
            parameter.data = parameter.new_empty(0)
        self.compute = partial(functional_call, module)  # compute(weights, inputs): the module with these weights

    def forward(self, *inputs: Any) -> Any:
        """Gather the weights and compute. When this returns, nobody has them any more."""
        flat = GatherWeights.apply(self.comm, self.shard)
        address = flat.untyped_storage().data_ptr()
        again: torch.Tensor | None = None  # the weights, once the backward pass needs them

        def keep(tensor: torch.Tensor) -> Any:  # what autograd keeps for the backward pass: of a weight its place only
            is_weight = tensor.untyped_storage().data_ptr() == address
            return (tensor.shape, tensor.stride(), tensor.storage_offset()) if is_weight else tensor

        def look_up(kept: Any) -> torch.Tensor:  # what the backward pass gets for that
            nonlocal again
            if isinstance(kept, torch.Tensor):
                return kept
            again = gather(self.comm, self.shard) if again is None else again
            return again.as_strided(*kept)

        with saved_tensors_hooks(keep, look_up):
            return self.compute(self.weights_in(flat), inputs)

    def weights_in(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """The weights by name, as views of what `gather` has returned."""
        lengths = [shape.numel() for shape in self.shapes.values()]
        pieces = flat[: sum(lengths)].split(lengths)
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

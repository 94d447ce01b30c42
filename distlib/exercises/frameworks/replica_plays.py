"""What the small Fabric and the small Accelerator are built on: a model on every rank, kept alike, and collectives.

    rank 0   backward ──► gradients ─┐
    rank 1   backward ──► gradients ─┼─► mean ──► into .grad on every rank     or, in no_sync: they stay, and add up
    rank 2   backward ──► gradients ─┘

`Replica` does what torch's DistributedDataParallel does to a model whose gradients fit its first bucket of 1 MiB: it
begins with rank 0's parameters, and the gradients travel as one tensor, as soon as the last of them is there. Whether
they do is decided in the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from distlib.communicator import Communicator


def gather(comm: Communicator, tensor: torch.Tensor) -> list[torch.Tensor]:
    """What every rank has, by rank. All of one shape and dtype."""
    own = tensor.detach().contiguous()
    parts = {comm.rank: own.clone()}
    for shift in range(1, comm.world_size):
        source = (comm.rank - shift) % comm.world_size
        parts[source] = torch.empty_like(own)
        comm.exchange(own, (comm.rank + shift) % comm.world_size, parts[source], source)
    return [parts[rank] for rank in range(comm.world_size)]


def add_up(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """The sum over the ranks, in their order: to the bit the same on each. A new tensor."""
    first, *others = gather(comm, tensor)
    return sum(others, first)


def take_from_rank_0(comm: Communicator, tensor: torch.Tensor) -> None:
    """Rank 0 sends its tensor to every other one. In place."""
    for rank in range(1, comm.world_size):
        if comm.rank == 0:
            comm.send(tensor, rank)
        elif comm.rank == rank:
            comm.recv(tensor, 0)


def on_tensors(data: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A tensor, or each one in lists, tuples and dicts, replaced by what `function` makes of it.

    Raises:
        TypeError: there is something else.
    """
    if isinstance(data, torch.Tensor):
        return function(data)
    if isinstance(data, dict):
        return {key: on_tensors(value, function) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(on_tensors(value, function) for value in data)
    raise TypeError(f"expected a tensor, or a list, tuple or dict of tensors; got {type(data).__name__}")


class Replica(torch.nn.Module):
    """This rank's copy of a model. The gradients of all copies become their mean during backward.

    Args:
        module: the model. Its parameters and buffers become those of rank 0.
        comm: the ranks.

    Attributes:
        module: as above. So its parameters are called "module.…" here.
        averages: whether the next forward pass begins a pass whose gradients are averaged.
    """

    def __init__(self, module: torch.nn.Module, comm: Communicator) -> None:
        super().__init__()
        self.module, self.averages = module, True
        self._comm, self._missing = comm, set[torch.nn.Parameter]()
        with torch.no_grad():
            for tensor in [*module.parameters(), *module.buffers()]:
                take_from_rank_0(comm, tensor)
        for parameter in self._trained():
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's. What happens to the gradients of this pass is decided here."""
        if torch.is_grad_enabled():
            self._missing = set(self._trained()) if self.averages else set()
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients add up and stay on their rank."""
        before, self.averages = self.averages, False
        try:
            yield
        finally:
            self.averages = before

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def _arrived(self, parameter: torch.nn.Parameter) -> None:
        """A gradient is complete on this rank. Once all of them are, they become the mean over the ranks."""
        if parameter not in self._missing:
            return
        self._missing.remove(parameter)
        if not self._missing:
            gradients = [each.grad for each in self._trained() if each.grad is not None]
            mean = add_up(self._comm, torch.cat([each.flatten() for each in gradients])) / self._comm.world_size
            for gradient, part in zip(gradients, mean.split([each.numel() for each in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))

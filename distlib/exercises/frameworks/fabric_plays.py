"""A small Fabric: the names and arguments of Lightning's, its defaults and its traps, on a `Communicator`.

    from lightning_fabric import Fabric                              here
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")    fabric = Fabric(comm)
    fabric.launch()

What follows is the same. What a method does was read in lightning-fabric 2.6.6. Left out: precision, devices, other
strategies than "ddp", loggers, `load`. The second half of the file is what a check plays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch.utils.data import DataLoader, RandomSampler, Sampler, SequentialSampler

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator
from distlib.exercises.frameworks.port_plays import evaluate_and_count, refuse_torchs_sampler, train_and_save
from distlib.exercises.frameworks.replica_plays import Replica, add_up, gather, on_tensors

INSIDE_BACKWARD = True  # messages are sent there
SPEAKS = (
    "Fabric.setup",
    "Fabric.setup_module",
    "Fabric.backward",
    "Fabric.all_reduce",
    "Fabric.all_gather",
    "distlib.exercises.frameworks.replica_plays.Replica._arrived",  # in loss.backward()
)
METHODS = (
    "setup, setup_module, setup_optimizers, setup_dataloaders, backward, no_backward_sync, clip_gradients, "
    "all_reduce, all_gather, barrier, save, print, to_device, world_size, global_rank, is_global_zero and device"
)


class Fabric:
    """One rank's. All ranks make the same calls.

    Args:
        comm: the ranks.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.world_size, self.global_rank, self.local_rank = comm.world_size, comm.rank, comm.rank
        self.is_global_zero, self.device = comm.rank == 0, torch.device("cpu")

    def setup(self, module: torch.nn.Module, *optimizers: torch.optim.Optimizer) -> Any:
        """The model in a wrapper that averages gradients; and the optimizers, if there are any."""
        wrapped = self.setup_module(module)
        return (wrapped, *optimizers) if optimizers else wrapped

    def setup_module(self, module: torch.nn.Module) -> FabricModule:
        """The model in its wrapper."""
        if isinstance(module, FabricModule):
            raise ValueError("a model is set up only once")
        return FabricModule(Replica(module, self._comm))

    def setup_optimizers(self, *optimizers: torch.optim.Optimizer) -> Any:
        """The optimizers. The real ones come in a wrapper that does nothing else here."""
        return optimizers[0] if len(optimizers) == 1 else optimizers

    def setup_dataloaders(
        self, *loaders: DataLoader[Any], use_distributed_sampler: bool = True, move_to_device: bool = True
    ) -> Any:
        """Loaders of the same data, of which each rank takes its share: every world_size-th sample of an order.

        The order is drawn anew each time a loader is gone through, if it shuffles. It is the same on all ranks. Samples
        of its beginning fill it up to a number that can be shared. `use_distributed_sampler=False`: each rank goes
        through all data.
        """
        made = [FabricDataLoader(loader, self, use_distributed_sampler) for loader in loaders]
        return made[0] if len(made) == 1 else made

    def backward(self, tensor: torch.Tensor, *args: Any, model: FabricModule | None = None, **kwargs: Any) -> None:
        """The gradients of this loss. It is not divided by anything; the mean over the ranks is taken."""
        tensor.backward(*args, **kwargs)

    def no_backward_sync(self, module: FabricModule, enabled: bool = True) -> AbstractContextManager[None]:
        """While it is enabled, gradients of forward and backward passes inside add up and stay on their rank."""
        if not isinstance(module, FabricModule):
            raise TypeError("set up the model first: model = fabric.setup(model, …)")
        return module._forward_module.no_sync() if enabled else nullcontext()

    def clip_gradients(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        clip_val: float | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = True,
    ) -> torch.Tensor | None:
        """Clip the gradients that the optimizer sees, as they are on this rank now: by value or by their norm."""
        if (clip_val is None) == (max_norm is None):
            raise ValueError("clip_gradients: give either clip_val or max_norm")
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if clip_val is not None:
            return torch.nn.utils.clip_grad_value_(parameters, clip_val)
        assert max_norm is not None
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)

    def all_reduce(self, data: Any, group: None = None, reduce_op: str = "mean") -> Any:
        """The mean (or "sum") over the ranks, of a tensor, in place, or of each in a collection. A number is made one.

        Autograd sees that a mean divides: a loss that goes backward afterwards is divided by the number of ranks.

        Raises:
            TypeError: a group that is none, such as "sum" by its position.
            ValueError: another operation.
        """
        if reduce_op not in ("mean", "avg", "sum"):
            raise ValueError(f'all_reduce: expected "mean" or "sum", got {reduce_op!r}')

        _refuse_words(group)

        def reduce_one(tensor: torch.Tensor) -> torch.Tensor:
            tensor.data.copy_(add_up(self._comm, tensor))  # as torch.distributed does it: autograd sees nothing of it
            if reduce_op == "sum":
                return tensor
            return (
                tensor.div_(self.world_size) if tensor.is_floating_point() else tensor.copy_(tensor / self.world_size)
            )

        return on_tensors(_as_tensors(data), reduce_one)

    def all_gather(self, data: Any, group: None = None, sync_grads: bool = False) -> Any:
        """What every rank has: of a tensor of some shape one of [world_size, *shape]. All have the same shape."""
        _refuse_words(group)
        return on_tensors(_as_tensors(data), lambda tensor: torch.stack(gather(self._comm, tensor)))

    def barrier(self, name: str | None = None) -> None:
        """Return when every rank has called it."""
        self._comm.barrier()

    def save(self, path: str | Path, state: Mapping[str, Any], filter: None = None) -> None:
        """Rank 0 writes the dict; models and optimizers in it become their state_dict. All ranks call this."""
        if self.is_global_zero:
            stateful = (torch.nn.Module, torch.optim.Optimizer)
            torch.save({k: v.state_dict() if isinstance(v, stateful) else v for k, v in state.items()}, path)
        self.barrier()

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print on rank 0."""
        if self.is_global_zero:
            print(*args, **kwargs)

    def to_device(self, obj: Any) -> Any:
        """There is one device."""
        return obj

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"the small Fabric of this exercise has no '{name}'. It has {METHODS}")


def _refuse_words(group: Any) -> None:
    if isinstance(group, str):
        raise TypeError(f'expected a process group, got {group!r}. An operation is handed over as reduce_op="sum"')


def _as_tensors(data: Any) -> Any:
    return torch.tensor(data) if isinstance(data, bool | int | float) else data


class FabricModule(torch.nn.Module):
    """A model that is set up. Its state_dict has the names of the model itself; what it lacks, the model has."""

    def __init__(self, replica: Replica) -> None:
        super().__init__()
        self._forward_module = replica

    @property
    def module(self) -> torch.nn.Module:
        """The model itself, without the replica around it."""
        inside: torch.nn.Module = self._forward_module.module
        return inside

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward_module(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the model itself."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the model itself."""
        return self.module.load_state_dict(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            replica: Any = super().__getattr__("_forward_module")
            return getattr(replica.module, name)


class FabricDataLoader:
    """A loader that is set up. It tells its sampler the epoch: how often it has been gone through before.

    Attributes:
        loader: what is inside; its other attributes are found here, too.
    """

    def __init__(self, loader: DataLoader[Any], fabric: Fabric, splits: bool) -> None:
        if not isinstance(loader, DataLoader):
            raise TypeError(f"setup_dataloaders: expected a DataLoader, got {type(loader).__name__}")
        refuse_torchs_sampler(loader)
        self.loader, self._epoch = loader, 0
        if splits:
            self.loader = DataLoader(
                loader.dataset,
                loader.batch_size,
                sampler=_EveryNthSample(loader, fabric.global_rank, fabric.world_size),
                collate_fn=loader.collate_fn,
                drop_last=loader.drop_last,
            )

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.loader.sampler, _EveryNthSample):
            self.loader.sampler.set_epoch(self._epoch)
        self._epoch += 1
        yield from self.loader

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["loader"], name)


class _EveryNthSample(Sampler[int]):
    """Every world_size-th index, beginning with the rank, of an order that all ranks know."""

    def __init__(self, loader: DataLoader[Any], rank: int, world_size: int) -> None:
        self._sampler, self._rank, self._world_size, self._epoch = loader.sampler, rank, world_size, 0

    def set_epoch(self, epoch: int) -> None:
        """From now on the order of this epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._sampler) // self._world_size)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self._sampler))) if self._is_torchs else list(self._sampler)  # type: ignore[arg-type]
        if isinstance(self._sampler, RandomSampler):
            order = torch.randperm(len(order), generator=torch.Generator().manual_seed(self._epoch)).tolist()
        filled = order * (1 + self._world_size)
        return iter(filled[self._rank : len(self) * self._world_size : self._world_size])

    @property
    def _is_torchs(self) -> bool:
        return isinstance(self._sampler, RandomSampler | SequentialSampler)


# ── what a check plays ───────────────────────────────────────────────────────────────────────────────────────────────


def fabric_training(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """Call `function(fabric, model, optimizer, loader, epochs, accumulate, max_norm, path)`: see `train_and_save`."""
    return train_and_save(Fabric(comm), function, inputs, gate, ("epochs", "accumulate", "max_norm"))


def fabric_evaluation(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """Call `function(fabric, model, loader)`: see `evaluate_and_count`."""
    return evaluate_and_count(Fabric(comm), function, inputs)

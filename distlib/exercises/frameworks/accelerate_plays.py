"""A small Accelerator: the names and arguments of Hugging Face's, its defaults and its traps, on a `Communicator`.

    from accelerate import Accelerator                                       here
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)       accelerator = Accelerator(comm, 2)

What follows is the same. What a method does was read in accelerate 1.15.0. Left out: precision, devices, other ways
than DDP, schedulers, trackers, `load`. The second half of the file is what a check plays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch.utils.data import BatchSampler, DataLoader, Sampler

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator
from distlib.exercises.frameworks.port_plays import evaluate_and_count, refuse_torchs_sampler, train_and_save
from distlib.exercises.frameworks.replica_plays import Replica, add_up, gather, on_tensors, take_from_rank_0

INSIDE_BACKWARD = True  # messages are sent there
SPEAKS = (
    "Accelerator.prepare",
    "Accelerator.prepare_model",
    "Accelerator.backward",
    "Accelerator.reduce",
    "Accelerator.gather",
    "Accelerator.gather_for_metrics",
    "AcceleratedDataLoader.__iter__",
    "distlib.exercises.frameworks.replica_plays.Replica._arrived",  # in loss.backward()
)
METHODS = (
    "prepare, prepare_model, prepare_optimizer, prepare_data_loader, accumulate, no_sync, backward, sync_gradients, "
    "gradient_accumulation_steps, clip_grad_norm_, clip_grad_value_, reduce, gather, gather_for_metrics, unwrap_model, "
    "get_state_dict, save, wait_for_everyone, print, num_processes, process_index, is_main_process and device"
)


class Accelerator:
    """One rank's. All ranks make the same calls.

    Args:
        comm: the ranks.
        gradient_accumulation_steps: the batches of a step.

    Attributes:
        sync_gradients: whether the batch of the last `accumulate` is the last one of its step.
    """

    def __init__(self, comm: Communicator, gradient_accumulation_steps: int = 1) -> None:
        self._comm, self.gradient_accumulation_steps = comm, gradient_accumulation_steps
        self.num_processes, self.process_index, self.local_process_index = comm.world_size, comm.rank, comm.rank
        self.is_main_process = self.is_local_main_process = comm.rank == 0
        self.device, self.sync_gradients = torch.device("cpu"), True
        self._batches, self._active = 0, list[AcceleratedDataLoader]()

    def prepare(self, *args: Any) -> Any:
        """Each of these, prepared, in their order: models, optimizers and loaders."""
        made = tuple(self._prepare_one(each) for each in args)
        return made if len(made) > 1 else made[0]

    def _prepare_one(self, given: Any) -> Any:
        if isinstance(given, torch.nn.Module):
            return self.prepare_model(given)
        if isinstance(given, torch.optim.Optimizer):
            return self.prepare_optimizer(given)
        return self.prepare_data_loader(given) if isinstance(given, DataLoader) else given

    def prepare_model(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model in a wrapper that averages gradients."""
        return model if isinstance(model, Replica) else Replica(model, self._comm)

    def prepare_optimizer(self, optimizer: Any) -> AcceleratedOptimizer:
        """An optimizer whose `step` and `zero_grad` do nothing before the last batch of a step."""
        return AcceleratedOptimizer(optimizer, self)

    def prepare_data_loader(self, loader: DataLoader[Any]) -> AcceleratedDataLoader:
        """A loader of every num_processes-th batch, beginning with that of this rank."""
        return AcceleratedDataLoader(loader, self, self._comm)

    @contextmanager
    def accumulate(self, *models: Any) -> Iterator[None]:
        """Around all that is done with one batch. Gradients of these models are averaged in the last of a step only.

        The last batch of a loader is the last one of its step, too.
        """
        is_end = bool(self._active) and self._active[-1].end_of_dataloader
        self._batches = 0 if is_end else self._batches + 1
        self.sync_gradients = self._batches % self.gradient_accumulation_steps == 0
        with ExitStack() as stack:
            for model in () if self.sync_gradients else models:
                stack.enter_context(self.no_sync(model))
            yield

    @contextmanager
    def no_sync(self, model: Any) -> Iterator[None]:
        """Inside, gradients add up and stay on their rank."""
        with ExitStack() as stack:
            if isinstance(model, Replica):
                stack.enter_context(model.no_sync())
            yield

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        """The gradients of loss / gradient_accumulation_steps; the mean over the ranks is taken."""
        (loss / self.gradient_accumulation_steps).backward(**kwargs)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Clip gradients by their norm, as they are on this rank now."""
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Clip gradients by value, as they are on this rank now."""
        torch.nn.utils.clip_grad_value_(parameters, clip_value)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """The sum over the ranks, or the "mean". A new tensor."""

        def reduce_one(one: torch.Tensor) -> torch.Tensor:
            return add_up(self._comm, one) / (self.num_processes if reduction == "mean" else 1)

        if reduction not in ("sum", "mean"):
            raise ValueError(f'reduce: expected "sum" or "mean", got {reduction!r}')
        return on_tensors(tensor, reduce_one)

    def gather(self, tensor: Any) -> Any:
        """What all ranks have, one after the other along dimension 0. All have the same shape."""
        return on_tensors(tensor, lambda one: torch.cat(gather(self._comm, one if one.dim() else one[None])))

    def gather_for_metrics(self, input_data: Any) -> Any:
        """As gather; but for the last batch of a loader, without the samples that have only filled it up."""
        gathered = self.gather(input_data)
        remainder = self._active[-1].remainder if self._active and self._active[-1].end_of_dataloader else 0
        return on_tensors(gathered, lambda one: one[:remainder]) if remainder else gathered

    def unwrap_model(self, model: Any) -> Any:
        """The model that was prepared."""
        return model.module if isinstance(model, Replica) else model

    def get_state_dict(self, model: Any, unwrap: bool = True) -> Any:
        """The state_dict, with the names of the model itself."""
        return (self.unwrap_model(model) if unwrap else model).state_dict()

    def save(self, obj: Any, f: str | Path, safe_serialization: bool = False) -> None:
        """Rank 0 writes it."""
        if self.is_main_process:
            torch.save(obj, f)

    def wait_for_everyone(self) -> None:
        """Return when every rank has called it."""
        self._comm.barrier()

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print on rank 0."""
        if self.is_main_process:
            print(*args, **kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"the small Accelerator of this exercise has no '{name}'. It has {METHODS}")


class AcceleratedOptimizer:
    """An optimizer that is prepared. What else it has is that of the optimizer inside."""

    def __init__(self, optimizer: torch.optim.Optimizer, accelerator: Accelerator) -> None:
        self.optimizer, self._accelerator = optimizer, accelerator

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """The optimizer's, in the last batch of a step only."""
        if self._accelerator.sync_gradients:
            self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The optimizer's, in the last batch of a step only."""
        if self._accelerator.sync_gradients:
            self.optimizer.zero_grad(set_to_none=set_to_none)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["optimizer"], name)


class AcceleratedDataLoader:
    """A loader that is prepared: it knows which batch is the last one.

    Attributes:
        loader: what is inside; its other attributes are found here, too.
        end_of_dataloader: whether the batch that it gave last is the last one.
        remainder: the samples of the last batches of all ranks together, before they were filled up; 0 if they were
            full, and if the last ones are dropped.
    """

    def __init__(self, loader: DataLoader[Any], accelerator: Accelerator, comm: Communicator) -> None:
        refuse_torchs_sampler(loader)
        self._accelerator, self._comm, self.end_of_dataloader = accelerator, comm, False
        assert loader.batch_size is not None
        self.total_batch_size = loader.batch_size * comm.world_size
        self.remainder = 0 if loader.drop_last else len(loader.dataset) % self.total_batch_size  # type: ignore[arg-type]
        self.generator = _generator_of(loader)
        share = _EveryNthBatch(loader.batch_sampler, comm.rank, comm.world_size)  # type: ignore[arg-type]
        self.loader = DataLoader(
            loader.dataset, batch_sampler=share, generator=loader.generator, collate_fn=loader.collate_fn
        )

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Without a sampler that knows epochs it does nothing."""

    def __iter__(self) -> Iterator[Any]:
        if self.generator is not None:
            state = self.generator.get_state()
            take_from_rank_0(self._comm, state)
            self.generator.set_state(state)
        self.end_of_dataloader = False
        self._accelerator._active.append(self)
        batches = iter(self.loader)
        batch = next(batches, None)
        while batch is not None:
            following = next(batches, None)
            self.end_of_dataloader = following is None
            yield batch
            batch = following
        self._accelerator._active.remove(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["loader"], name)


def _generator_of(loader: DataLoader[Any]) -> torch.Generator | None:
    """What a loader shuffles with, on every rank from rank 0's state on; None if it does not shuffle."""
    sampler = loader.sampler
    if not hasattr(sampler, "generator"):
        return None
    if sampler.generator is None:
        sampler.generator = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
    generator: torch.Generator = sampler.generator
    return generator


class _EveryNthBatch(Sampler[list[int]]):
    """Of the batches of a sampler this rank's, all full: samples from the beginning fill up the last ones."""

    def __init__(self, batches: BatchSampler, rank: int, world_size: int) -> None:
        self._batches, self._rank, self._world_size = batches, rank, world_size

    def __len__(self) -> int:
        whole, more = divmod(len(self._batches), self._world_size)
        return whole + (more > 0 and not self._batches.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        batches, size = list(self._batches), self._batches.batch_size
        order = [index for batch in batches for index in batch]
        wanted = len(self) * self._world_size * size
        filled = (order * (1 + wanted // max(1, len(order))))[:wanted]
        for first in range(self._rank * size, wanted, self._world_size * size):
            yield filled[first : first + size]


# ── what a check plays ───────────────────────────────────────────────────────────────────────────────────────────────


def accelerate_training(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> Any:
    """Call `function(accelerator, model, optimizer, loader, epochs, max_norm, path)`: see `train_and_save`."""
    return train_and_save(Accelerator(comm, inputs["accumulate"]), function, inputs, gate, ("epochs", "max_norm"))


def accelerate_evaluation(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> Any:
    """Call `function(accelerator, model, loader)`: see `evaluate_and_count`."""
    return evaluate_and_count(Accelerator(comm), function, inputs)

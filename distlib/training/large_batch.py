"""Training with large batches: a gradient from many microbatches, a learning rate that fits, and fewer messages.

    accumulate_gradients     rank 0   mb mb mb mb ┐
                             rank 1   mb mb mb mb ┼─ all-reduce (sum) ──► every rank: the gradient of the whole batch
                             rank 2   mb mb mb    ┘

    local_sgd_round          rank 0   step step step step ┐
                             rank 1   step step step step ┼─ all-reduce (average) ──► every rank: the average model
                             rank 2   step step step step ┘

Each communicates once, at the end: one all-reduce of as many numbers as the model has. With P of them, N ranks and a
ring, each rank sends 2(N−1)/N·P numbers, for all microbatches or steps together.

The gradient of a batch of B samples is ∇(1/B · Σ ℓᵢ): every sample counts 1/B, wherever it is computed. So each rank
divides its *sum* of losses by B, the size of the whole batch, and gradients are summed up. An average of the ranks'
averages is a different number as soon as two ranks have different numbers of samples.

P. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017, arXiv:1706.02677: sections 2.1
(linear scaling), 2.2 (warm-up) and 3 (what to divide by; their n samples on each of k workers). S. U. Stich, "Local SGD
Converges Fast and Communicates Little", 2018, arXiv:1805.09767: algorithm 1, with H steps between two averages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from distlib.arguments import checked
from distlib.collectives import all_reduce
from distlib.communicator import Communicator, ReduceOp

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes outputs and targets, returns one loss for each sample, as `cross_entropy(…, reduction="none")` does."""

Batch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and targets of the same samples; the first dimension counts the samples."""


@checked
def accumulate_gradients(
    comm: Communicator,
    model: nn.Module,
    loss_function: LossFunction,
    microbatches: Iterable[Batch],
    global_batch_size: int,
) -> None:
    """Leave the gradient of the whole batch's mean loss in every parameter's `.grad`, on every rank.

    This replaces what `.grad` held before. The optimizer's step is up to the caller.

    Args:
        comm: the ranks that share the batch.
        model: the same parameters on every rank.
        loss_function: one loss for each sample.
        microbatches: this rank's part of the batch, in pieces of any size. With none, the rank adds zeros.
        global_batch_size: samples of all microbatches of all ranks together.

    Raises:
        ValueError: fewer samples than ranks, a loss that is not one number per sample, or a gradient that is not finite
            (the error names the rank and the parameter; the other ranks are stopped).
    """
    if global_batch_size < comm.world_size:
        raise ValueError(
            f"expected a batch of at least {comm.world_size} samples, one for each rank, got {global_batch_size}: "
            f"take fewer ranks, or leave out the last batch"
        )
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = _losses(loss_function, model(inputs), targets)
        (losses.sum() / global_batch_size).backward()
    check_gradients(comm, model)
    gradients = [_gradient(parameter) for parameter in model.parameters() if parameter.requires_grad]
    all_reduce_together(comm, gradients, ReduceOp.SUM)


@checked
def warmup_learning_rate(
    step: int, base_learning_rate: float, base_batch_size: int, batch_size: int, warmup_steps: int
) -> float:
    """The learning rate of a step when the batch is larger than the one that the base rate was chosen for.

    With k = batch_size / base_batch_size it grows from η, the base rate, in step 0 to k·η in step `warmup_steps`, by
    the same amount in every step, and stays there: η·(1 + (k − 1)·step / warmup_steps).

    Source: Goyal et al. 2017 (see the module), sections 2.1 and 2.2. torch's LinearLR gives the same numbers with
    `start_factor=1/k, total_iters=warmup_steps` and an optimizer that has k·η.

    Args:
        step: counted from 0.
        warmup_steps: 0 for the full rate from the start.

    Raises:
        ValueError: a batch without samples, or a negative number of steps.
    """
    if min(base_batch_size, batch_size) < 1 or min(step, warmup_steps) < 0:
        raise ValueError(
            f"expected batch sizes of at least 1 and steps of at least 0, got base_batch_size={base_batch_size}, "
            f"batch_size={batch_size}, step={step}, warmup_steps={warmup_steps}"
        )
    scale = batch_size / base_batch_size
    if step >= warmup_steps:
        return base_learning_rate * scale
    return base_learning_rate * (1 + (scale - 1) * step / warmup_steps)


@checked
def local_sgd_round(
    comm: Communicator,
    model: nn.Module,
    loss_function: LossFunction,
    batches: Sequence[Batch],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Take one step for each batch without a message, then replace every rank's model with the average of all.

    This averages the parameters and those buffers that hold floating-point numbers, such as the running mean of a batch
    norm. The optimizer's own state (a momentum) stays with its rank.

    Args:
        comm: the ranks whose models are averaged.
        model: the same shapes on every rank. Changed in place.
        loss_function: one loss for each sample; a step follows the mean of a batch.
        batches: this rank's own, H of them. H may differ between the ranks.
        optimizer: of this rank's parameters.

    Raises:
        ValueError: no batch, a loss that is not one number per sample, or a gradient that is not finite (the error
            names the rank and the parameter; the other ranks are stopped).
    """
    if not batches:
        raise ValueError(f"rank {comm.rank} expected at least one batch for its local steps, got none")
    for inputs, targets in batches:
        optimizer.zero_grad()
        _losses(loss_function, model(inputs), targets).mean().backward()
        check_gradients(comm, model)
        optimizer.step()
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    all_reduce_together(comm, [*model.parameters(), *buffers], ReduceOp.AVG)


@checked
@torch.no_grad()
def all_reduce_together(comm: Communicator, tensors: Sequence[torch.Tensor], op: ReduceOp) -> None:
    """All-reduce several tensors, in place, as if they were one: one latency instead of many.

    Args:
        tensors: any shapes, the same on every rank.
        op: how two elements are combined.
    """
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    all_reduce(comm, flat, op)
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(part.view(tensor.shape))


@checked
def check_gradients(comm: Communicator, model: nn.Module) -> None:
    """Check that this rank's gradients are finite: a sum over ranks no longer shows where a NaN came from.

    Raises:
        ValueError: with the rank and the first parameter whose gradient is not.
    """
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            wrong = int((~parameter.grad.isfinite()).sum())
            raise ValueError(
                f"rank {comm.rank}: {wrong} of {parameter.numel()} numbers in the gradient of {name!r} are NaN or "
                f"infinite: look at this rank's samples, or take a smaller learning rate"
            )


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:  # no sample of this rank used it
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _losses(loss_function: LossFunction, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    losses = loss_function(outputs, targets)
    if losses.ndim == 0 or len(losses) != len(targets):
        raise ValueError(
            f"expected one loss for each of {len(targets)} samples, got a tensor of shape {tuple(losses.shape)}: "
            f'torch\'s loss functions return that with reduction="none"'
        )
    return losses

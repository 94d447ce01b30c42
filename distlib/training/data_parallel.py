"""Data-parallel training through a master: what torch's nn.DataParallel does, written with messages.

Rank 0 is the master. It has the batch, the model that counts, and the optimizer. One step, with M the bytes of the
parameters (and, going out, of the buffers):

                              rank 0            every other rank
    split_batch               images ─────────► its part of the images
    replicate                 model ──────────► a copy of the model           M bytes to each
    forward                   output            output
    gather_outputs            outputs ◄──────── output
    loss_of_outputs           loss, gradient of the outputs
    split_gradient            gradient ───────► its part of the gradient
    backward                  gradients         gradients
    reduce_gradients          sum ◄──────────── gradients                     M bytes from each

Then the master's optimizer takes its step, and the next step sends the new model out again. The loss is one loss, of
the whole batch, so the gradients of the parts only have to be added: nobody divides by the number of ranks.

Calls for each other rank: 3 in forward (batch, model, output) and 2 in backward (gradient of the output, gradients of
the model). A model goes out tensor by tensor, so with P parameters and no buffers that is 1 + P + 1 + 1 + P messages.

Cost for N ranks: with `algorithm="flat"` the master sends (N−1)·M and receives (N−1)·M, besides (N−1)/N of the images
and, in each direction, of the outputs. Its link is the bottleneck. With "chain" every link carries M once in each
direction, as with NCCL's broadcast and reduce, which torch takes where it can. An all-reduce of the gradients in a ring
moves 2(N−1)/N·M through every rank (`distlib.collectives.ring`).

What differs from torch: there, one process drives all devices with threads, tensors travel in buffers of up to 10 MiB
(`broadcast_coalesced`, `reduce_add_coalesced` in torch/nn/parallel/comm.py), and a device for which the batch has no
image is left out; here, that is an error. With batch normalization a rank normalizes with the mean and the variance of
its own part, as in torch, so the step differs from that of a single process; the running statistics that remain are
those of the master's part.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html and the code it links to
(torch/nn/parallel: `scatter`, `replicate`, `gather`; their backward passes are `gather`, `reduce_add`, `scatter`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from distlib.arguments import check_tensor, checked
from distlib.collectives import broadcast, reduce
from distlib.collectives.arguments import announced
from distlib.communicator import Communicator
from distlib.partition import chunk_lengths

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@checked
def data_parallel_step(
    comm: Communicator,
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    loss_function: LossFunction,
    algorithm: str = "flat",
) -> torch.Tensor | None:
    """The gradients of one batch, computed by all ranks together. They end up in the model of rank 0.

    Afterwards `parameter.grad` on rank 0 is the gradient of the loss of the whole batch; it replaces what was there. On
    the other ranks it holds a part of that sum. Only rank 0 should step: the others get its parameters with
    the next call.

    Args:
        model: of the same shape on every rank. The parameters and buffers of rank 0 count, those of the others are
            overwritten.
        images: [B, …]. On the other ranks only the shape and the dtype count.
        labels: the second argument of `loss_function`. Only those of rank 0 count.
        loss_function: (outputs [B, …], labels) to a single number, of the whole batch. Called on rank 0 only.
        algorithm: how parameters go out and gradients come back: "flat" (rank 0 talks to everybody), "tree" or
            "chain".

    Returns:
        The loss on rank 0, without a graph; None on the other ranks.

    Raises:
        ValueError: fewer images than ranks; nothing to train; a loss that is not a single number; a loss or a gradient
            that is not finite (says where).
        MessageMismatch: models or batches of different shapes on two ranks (names the tensor, the shapes, the ranks).
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("expected a model with parameters to train, got one without, or with frozen ones only")
    model.zero_grad()
    part = split_batch(comm, images)
    replicate(comm, model, algorithm)
    output = model(part)
    outputs = gather_outputs(comm, output, len(images))
    loss, gradient = (None, None) if outputs is None else loss_of_outputs(outputs, labels, loss_function)
    output.backward(split_gradient(comm, gradient, output))
    reduce_gradients(comm, model, algorithm)
    return loss


@checked
@torch.no_grad()
def split_batch(comm: Communicator, batch: torch.Tensor) -> torch.Tensor:
    """Rank 0 cuts the batch into parts, one per rank, and sends each rank its own. Returns this rank's part.

    Args:
        batch: [B, …]. On the other ranks only its shape and dtype count.

    Returns:
        Rows of the batch, cut as by `torch.tensor_split`: part r for rank r, the first B mod N parts one row longer.

    Raises:
        ValueError: fewer rows than ranks, or a tensor without rows.
        MessageMismatch: batches of different shape or dtype on two ranks.
    """
    if batch.dim() == 0:
        raise ValueError("split_batch expected a batch of the shape [B, …], got a tensor with a single number")
    _check_batch_size(comm, len(batch))
    comm = announced(comm, "split_batch", shape=tuple(batch.shape))
    parts = batch.tensor_split(comm.world_size)
    if comm.rank != 0:
        part = torch.empty_like(parts[comm.rank])
        comm.recv(part, src=0)
        return part
    for dst in range(1, comm.world_size):
        comm.send(parts[dst], dst)
    return parts[0]


@checked
def replicate(comm: Communicator, model: nn.Module, algorithm: str = "flat") -> None:
    """Copy the parameters and buffers of rank 0's model into the models of all other ranks, in place.

    One broadcast per tensor, parameters first. `algorithm`: "flat", "tree" or "chain".

    Raises:
        MessageMismatch: models that differ (names the tensor, its shapes, and the ranks).
    """
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        group = announced(comm, "replicate", tensor=name, shape=tuple(tensor.shape))
        broadcast(group, tensor.detach(), root=0, algorithm=algorithm)


@checked
@torch.no_grad()
def gather_outputs(comm: Communicator, output: torch.Tensor, batch_size: int) -> torch.Tensor | None:
    """Every rank sends its output to rank 0, which puts them together in the order of the ranks.

    Args:
        output: [rows of this rank's part, …].
        batch_size: B, the rows of all parts together.

    Returns:
        [B, …] on rank 0, None on the other ranks.

    Raises:
        ValueError: an output without exactly one row for each image of the part.
        MessageMismatch: outputs of different sizes on two ranks.
    """
    lengths = chunk_lengths(batch_size, comm.world_size)
    if output.shape[:1] != (lengths[comm.rank],):
        raise ValueError(
            f"expected an output with a row for each of the {lengths[comm.rank]} images of rank {comm.rank}, "
            f"got the shape {tuple(output.shape)}"
        )
    comm = announced(comm, "gather_outputs", batch_size=batch_size, row=tuple(output.shape[1:]))
    if comm.rank != 0:
        comm.send(output, dst=0)
        return None
    outputs = output.new_empty(batch_size, *output.shape[1:])
    parts = outputs.split(lengths)  # views
    parts[0].copy_(output)
    for src in range(1, comm.world_size):
        comm.recv(parts[src], src)
    return outputs


@checked
def loss_of_outputs(
    outputs: torch.Tensor, labels: torch.Tensor, loss_function: LossFunction
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of the whole batch and its gradient by the outputs: what the master computes alone.

    Raises:
        TypeError: a loss that is not a tensor.
        ValueError: a loss that is not a single, finite number.
    """
    outputs = outputs.detach().requires_grad_()
    loss = loss_function(outputs, labels)
    check_tensor("loss_of_outputs", loss, " from loss_function")
    if loss.numel() != 1:
        raise ValueError(
            f"expected one loss for the whole batch, got a tensor of shape {tuple(loss.shape)}: torch's loss functions "
            'return one with reduction="mean"'
        )
    if not loss.is_meta and not loss.isfinite().all():
        raise ValueError(f"the loss is {loss.tolist()}: look at the outputs and the learning rate")
    (gradient,) = torch.autograd.grad(loss, outputs)
    return loss.detach(), gradient


@checked
@torch.no_grad()
def split_gradient(comm: Communicator, gradient: torch.Tensor | None, output: torch.Tensor) -> torch.Tensor:
    """Rank 0 sends every rank the rows of the gradient that belong to its output. The way back of `gather_outputs`.

    Args:
        gradient: [B, …] on rank 0, None on the other ranks.
        output: of this rank.

    Returns:
        A tensor of the shape of `output`.
    """
    comm = announced(comm, "split_gradient", row=tuple(output.shape[1:]))
    if comm.rank != 0:
        part = torch.empty_like(output)
        comm.recv(part, src=0)
        return part
    check_tensor("split_gradient", gradient, " as gradient on rank 0")
    assert gradient is not None
    parts = gradient.tensor_split(comm.world_size)
    for dst in range(1, comm.world_size):
        comm.send(parts[dst], dst)
    return parts[0]


@checked
def reduce_gradients(comm: Communicator, model: nn.Module, algorithm: str = "flat") -> None:
    """Add up the gradients of all ranks in the model of rank 0. One reduce per parameter.

    A parameter that got no gradient counts with zeros, as in torch; a frozen one (`requires_grad` is False) is left
    out. On the other ranks `parameter.grad` may hold a partial sum afterwards. `algorithm`: "flat", "tree" or
    "chain".

    Raises:
        ValueError: a gradient that is not finite (names the parameter and the rank).
    """
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        _check_finite(comm, name, parameter.grad)
        group = announced(comm, "reduce_gradients", parameter=name, shape=tuple(parameter.shape))
        reduce(group, parameter.grad, root=0, algorithm=algorithm)


# ── checks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_batch_size(comm: Communicator, batch_size: int) -> None:
    if batch_size < comm.world_size:
        raise ValueError(
            f"expected a batch of at least {comm.world_size} images for {comm.world_size} ranks, got {batch_size}: "
            f"take larger batches, leave out the last incomplete one, or use fewer ranks"
        )


def _check_finite(comm: Communicator, name: str, gradient: torch.Tensor) -> None:
    if gradient.is_meta or gradient.isfinite().all():
        return
    wrong = int((~gradient.isfinite()).sum())
    raise ValueError(
        f"on rank {comm.rank} the gradient of {name} has {wrong} of {gradient.numel()} numbers that are NaN or "
        f"infinite: look at this rank's images and at the learning rate"
    )

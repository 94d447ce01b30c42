"""Distributed data parallel training to read first: the whole idea, without what goes wrong in practice.

    average_per_parameter    after the backward pass, one all-reduce per gradient
    PlainDDP                 gradients travel in buckets, each while the backward pass is still computing the next ones

    model = PlainDDP(comm, model)
    loss_function(model(images), labels).backward()     # begins an all-reduce whenever a bucket is complete
    model.finish()                                      # waits for them; now every rank has the average
    optimizer.step()                                    # the same step on every rank

What `DistributedDataParallel` (in `module`) adds:

    it needs no `finish`, and adds up gradients under `no_sync`     reducer
    a parameter may be without a gradient; several dtypes           bucket
    an infinite or NaN gradient is named with its rank              finite
    ranks may have different numbers of batches: `join`             active_ranks
    models that differ are refused; buffers are kept the same       replicas

Source: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13(12), 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from distlib.arguments import checked
from distlib.collectives import all_reduce, broadcast
from distlib.communicator import Communicator, Work
from distlib.training.buckets import assign_buckets
from distlib.training.one_rank_only import OneRankOnly
from distlib.training.same_parameters import check_same_parameters, trained_parameters


@checked
def average_per_parameter(comm: Communicator, module: nn.Module) -> None:
    """Average the gradients of all ranks, in place, one by one; either all ranks have one for a parameter, or none."""
    for parameter in module.parameters():
        if parameter.grad is not None:
            all_reduce(comm, parameter.grad)
            parameter.grad /= comm.world_size


class PlainDDP(OneRankOnly, nn.Module):
    """Wraps a model so that after `loss.backward()` and `finish()` every rank has the average of all gradients.

    Args:
        comm: of this rank. In a SimulatedWorld it takes contexts="threads".
        module: its weights and buffers become rank 0's. All have one dtype; the trained ones a gradient in every pass.
        bucket_bytes, first_bucket_bytes: see `assign_buckets`.
    """

    what_to_copy = "Copy the model inside, wrapper.module."

    @checked
    def __init__(
        self, comm: Communicator, module: nn.Module, bucket_bytes: int = 25 << 20, first_bucket_bytes: int = 1 << 20
    ) -> None:
        super().__init__()
        self.comm, self.module = comm, module
        for tensor in [*module.parameters(), *module.buffers()]:
            broadcast(comm, tensor.detach())
        trained = list(trained_parameters(module).values())
        self.dtypes = {parameter: parameter.dtype for parameter in trained}
        assigned = assign_buckets([parameter.nbytes for parameter in trained], bucket_bytes, first_bucket_bytes)
        self.buckets = [[trained[index] for index in indices] for indices in assigned]
        self._expect_gradients()
        for parameter in trained:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def forward(self, *inputs: Any) -> Any:
        """Run the model on this rank's batch."""
        check_same_parameters(self.comm.rank, self.module, self.dtypes)
        return self.module(*inputs)

    def _expect_gradients(self) -> None:
        self.missing = [set(bucket) for bucket in self.buckets]  # the parameters whose gradients have not come yet
        self.begun: list[tuple[torch.Tensor, Work]] = []  # flat gradients and handle of each bucket, in order

    def _on_gradient(self, parameter: nn.Parameter) -> None:
        """Called by torch during the backward pass: the gradient of `parameter` is complete."""
        for missing in self.missing:
            missing.discard(parameter)
        while len(self.begun) < len(self.buckets) and not self.missing[len(self.begun)]:
            self._begin(self.buckets[len(self.begun)])  # never before an earlier bucket: the same order on every rank

    def _begin(self, bucket: list[nn.Parameter]) -> None:
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in bucket])  # type: ignore[union-attr]
        self.begun.append((flat, self.comm.start(all_reduce, flat)))  # the same as all_reduce(…, async_op=True)

    def finish(self) -> None:
        """Wait for the all-reduces of this backward pass, and put the averages where the gradients were."""
        for bucket, (flat, work) in zip(self.buckets, self.begun, strict=True):
            work.wait()
            flat /= self.comm.world_size
            for parameter, piece in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
                parameter.grad = piece.view(parameter.shape)
        self._expect_gradients()

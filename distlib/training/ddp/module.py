"""`DistributedDataParallel`: a model whose gradients are averaged over all ranks at the end of each backward pass.

Read `plain` first: it has the idea in one short class. Here are four versions that compute the same and send different
messages. `reducer` runs them all; they differ in how large the buckets are and in when they are sent:

    version            all-reduces                                  when
    "per_parameter"    one per parameter                            after the backward pass
    "flat"             one (for each dtype)                         after the backward pass
    "bucketed"         one per bucket                               after the backward pass
    "overlapped"       one per bucket                               each as soon as its gradients are there

Each rank's loss is the mean over its own batch. The average over the ranks is then the gradient of the mean over all
batches together, provided that they are equally large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import nn

from distlib.arguments import checked
from distlib.communicator import Communicator
from distlib.training.ddp.active_ranks import ActiveRanks
from distlib.training.ddp.bucket import make_buckets
from distlib.training.ddp.reducer import AllReduce, GradientReducer, summing
from distlib.training.one_rank_only import OneRankOnly
from distlib.training.replicas import check_same_model, copy_from_rank_0, copy_state, copy_tensors
from distlib.training.same_parameters import check_same_parameters, trained_parameters

VERSIONS = ("per_parameter", "flat", "bucketed", "overlapped")
Batch = TypeVar("Batch")


class DistributedDataParallel(OneRankOnly, nn.Module):
    """Wraps a model so that after `loss.backward()` every rank has the average of all ranks' gradients.

        model = DistributedDataParallel(comm, model)
        for images, labels in loader:
            optimizer.zero_grad()
            loss_function(model(images), labels).backward()
            optimizer.step()                                  # the same step on every rank

    Args:
        comm: of this rank. Every rank makes its own wrapper, at the same time.
        module: the same model on every rank; its weights need not be the same, rank 0's are copied to all, in place.
        version: see the text of this module.
        bucket_bytes, first_bucket_bytes: see `buckets.assign_buckets`.
        algorithm: an algorithm of `all_reduce`, or a function (comm, tensor) that sums up in place.
        broadcast_buffers: give all ranks rank 0's buffers before each forward pass in training mode.
        find_unused_parameters: whether the loss may depend on different parameters in each step and on each rank. A
            parameter that no rank has used keeps its gradient as it is. This sends one more number per parameter.
        check_finite: whether infinite or NaN gradients are an error that names rank and parameter.

    Attributes:
        module: the wrapped model.

    Raises:
        ValueError: models that differ between ranks, no parameter to train, an unknown version or algorithm.
        RuntimeError: in a forward pass: a parameter was unfrozen, added or replaced since the model was wrapped.

    Only `backward()` averages. `torch.autograd.grad` returns the gradients of this rank alone, as with torch's own.

    In a SimulatedWorld the wrapper communicates inside `backward()`, so it takes contexts="threads".
    Source: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13(12), 2020.
    """

    what_to_copy = "Copy or average the model inside, wrapper.module, and save wrapper.state_dict()."

    @checked
    def __init__(
        self,
        comm: Communicator,
        module: nn.Module,
        *,
        version: str = "overlapped",
        bucket_bytes: int = 25 << 20,
        first_bucket_bytes: int = 1 << 20,
        algorithm: str | AllReduce = "ring",
        broadcast_buffers: bool = True,
        find_unused_parameters: bool = False,
        check_finite: bool = True,
    ) -> None:
        super().__init__()
        if version not in VERSIONS:
            raise ValueError(f"expected one of the versions {', '.join(VERSIONS)}, got {version!r}")
        self.module = module
        self._comm, self._broadcast_buffers = comm, broadcast_buffers
        self._active = ActiveRanks(comm)
        check_same_model(comm, module)
        copy_from_rank_0(comm, module)
        trained = trained_parameters(module)
        self._dtypes = {parameter: parameter.dtype for parameter in trained.values()}
        whole = sum(parameter.nbytes for parameter in trained.values())
        limits = {"per_parameter": (1, 1), "flat": (whole, whole)}.get(version, (bucket_bytes, first_bucket_bytes))
        self._reducer = GradientReducer(
            comm,
            make_buckets(trained, *limits, count_users=find_unused_parameters),
            summing(algorithm),
            overlap=version == "overlapped",
            finite=check_finite,
            active=self._active,
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on this rank's batch; returns its outputs."""
        if torch.is_grad_enabled():
            check_same_parameters(self._comm.rank, self.module, self._dtypes)
            if not self._reducer.is_paused:
                self._copy_buffers()
        return self.module(*args, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """Inside this block nothing is sent, and gradients add up on each rank.

        The first backward pass outside of it averages the sums: so several small batches make one large one.
        """
        return self._reducer.paused()

    def join(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield this rank's batches; other ranks may have more or fewer of them.

            for images, labels in model.join(loader):
                …                                      # one forward and one backward pass

        A rank that has no batch left adds zeros to the all-reduces of the others. The gradient of a step is the
        average over the ranks that had a batch. (torch's Join divides by the number of all ranks by default:
        https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html.) At the end all ranks have the model of
        the ranks that went on longest. Each step costs one more small all-reduce. Cannot be combined with `no_sync`.
        """
        for batch in batches:
            self._active.meet(has_batch=True)
            yield batch
        while self._active.meet(has_batch=False):
            self._copy_buffers()
            self._reducer.take_part_with_zeros()
        copy_state(self._comm, self.module, root=self._active.ranks[0])
        self._active.everybody_again()

    def _copy_buffers(self) -> None:
        """In training mode, where buffers change: also on a rank that has no batch left, so that all ranks do it."""
        if self.training and self._broadcast_buffers:
            copy_tensors(self._comm, self.module.buffers(), root=self._active.ranks[0])

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the wrapped model: names without a prefix, so that it loads into the model alone, too."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Load what `state_dict` has returned, or the state of the model alone, in place."""
        return self.module.load_state_dict(state_dict, *args, **kwargs)

"""Averaging gradients while the backward pass still runs.

Gradients appear from the last layer to the first. As soon as a bucket has all of its gradients, its all-reduce starts;
the backward pass goes on meanwhile:

    backward         layer 4   layer 3   layer 2   layer 1 ┐
    communication                bucket 0 ▒▒▒▒▒▒▒  bucket 1│▒▒▒▒▒▒▒  bucket 2 ▒▒▒▒▒▒▒ ┐ gradients are averaged
                                                           └ only from here on does anybody wait

Buckets start in the same order on every rank, whatever order the gradients come in: a bucket waits for those before it.
Source: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13(12), 2020,
section 3.2.3 (https://arxiv.org/abs/2006.15704).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import nn

from distlib.arguments import check_callable
from distlib.collectives import all_reduce
from distlib.communicator import Communicator, Work
from distlib.training.backward_pass import BackwardPass
from distlib.training.ddp.active_ranks import ActiveRanks
from distlib.training.ddp.bucket import Bucket
from distlib.training.ddp.finite import check_finite

AllReduce = Callable[[Communicator, torch.Tensor], object]  # sums up a tensor over all ranks, in place


def summing(algorithm: str | AllReduce) -> AllReduce:
    """The function that sums up: that of an algorithm of `all_reduce`, or the one that was given."""
    if isinstance(algorithm, str):
        return partial(all_reduce, algorithm=algorithm)
    check_callable("algorithm=", algorithm, 'distlib.collectives.ring_all_reduce, or a name, such as "ring"')
    return algorithm


class GradientReducer:
    """Averages the gradients of `buckets` over all ranks at the end of every backward pass.

    Args:
        comm: of this rank.
        buckets: the same on every rank, in the order in which they are to be sent.
        sum_up: the all-reduce.
        overlap: start a bucket as soon as it is complete; otherwise all of them after the backward pass.
        finite: look for infinite or NaN gradients.
        active: the ranks that the average is over.
    """

    def __init__(
        self,
        comm: Communicator,
        buckets: Sequence[Bucket],
        sum_up: AllReduce,
        *,
        overlap: bool,
        finite: bool,
        active: ActiveRanks,
    ) -> None:
        self._comm, self._buckets, self._sum_up = comm, buckets, sum_up
        self._overlap, self._check_finite, self._active = overlap, finite, active
        self._is_paused = False
        self._bucket_of = {parameter: bucket for bucket in buckets for parameter in bucket.parameters.values()}
        self._works: list[Work] = []  # of the buckets that have been started, in their order
        self._pass = BackwardPass(at_end=self._finish)
        for parameter in self._bucket_of:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    @property
    def is_paused(self) -> bool:
        """Whether backward passes add up gradients on each rank and send nothing."""
        return self._is_paused

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Inside this block nothing is sent."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def _on_gradient(self, parameter: nn.Parameter) -> None:
        """A parameter's gradient is complete: called by torch during the backward pass."""
        if self._is_paused:
            return
        if self._pass.begins():
            self._drop_what_is_left()
        bucket = self._bucket_of[parameter]
        if self._overlap and bucket.is_full:
            raise RuntimeError(
                f"on rank {self._comm.rank} a second gradient came for {bucket.name_of(parameter)} in one backward "
                "pass, when the first one was on its way. Does a layer compute twice under reentrant checkpointing? "
                "Then call checkpoint(…, use_reentrant=False)."
            )
        bucket.fill(parameter)
        while self._overlap and len(self._works) < len(self._buckets) and self._buckets[len(self._works)].is_full:
            self._sum_up_after(self._works, self._buckets[len(self._works)])

    def _drop_what_is_left(self) -> None:
        """Drop what is left of a backward pass that failed."""
        for work in self._works:
            work.wait()
        self._works = []
        for bucket in self._buckets:
            bucket.empty()

    def _finish(self) -> None:
        """The backward pass is over: send the rest, and wait for everything."""
        works, self._works = self._works, []
        for bucket in self._buckets[len(works) :]:
            self._fill_what_was_there_before(bucket)
            self._sum_up_after(works, bucket)
        for work in works:
            work.wait()
        for bucket in self._buckets:
            if self._check_finite:
                check_finite(self._comm, bucket)
            bucket.write_back(divide_by=len(self._active.ranks))

    def _sum_up_after(self, works: list[Work], bucket: Bucket) -> None:
        bucket.get_ready()
        if self._overlap:
            works.append(self._comm.start(self._sum_up, bucket.flat))
        else:
            self._sum_up(self._comm, bucket.flat)

    def _fill_what_was_there_before(self, bucket: Bucket) -> None:
        """Add the gradients that earlier passes left under `paused`. Raises if one that is needed is missing."""
        for parameter in bucket.missing().values():
            if parameter.grad is not None:
                bucket.fill(parameter)
        missing = bucket.missing()
        if missing and not bucket.counts_users:
            raise RuntimeError(
                f"on rank {self._comm.rank} the backward pass produced no gradient for {', '.join(missing)}. If the "
                "loss does not depend on every parameter, or some were frozen after the model was wrapped, pass "
                "find_unused_parameters=True. If the model ends with a "
                "layer under reentrant checkpointing, call checkpoint(…, use_reentrant=False)."
            )

    def take_part_with_zeros(self) -> None:
        """Take part in a backward pass of the other ranks, on this rank, which has no batch."""
        for bucket in self._buckets:
            bucket.get_ready()
            self._sum_up(self._comm, bucket.flat)

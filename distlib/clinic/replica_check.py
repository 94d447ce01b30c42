"""`ReplicaCheck`: what is true in every data-parallel training, checked in your own loop, cheap enough to stay on.

    check = ReplicaCheck(model, every=50)             plain torch.distributed; with ours: ReplicaCheck(model, comm)
    for batch in loader:
        loss(model(batch)).backward()
        check()                                       does nothing, but in each 50th step
        optimizer.step()

    rank 0 ──step 50, gradients' norm, a number per parameter──┐
    rank 1 ──step 50, gradients' norm, a number per parameter──┼──► all-gather ──► equal? finite?    everybody knows
    rank 2 ──step 50, gradients' norm, a number per parameter──┘

The number of a parameter is the sum of its bits: equal weights have equal sums, and a weight that differs in its last
bit has another one. It does not see that two weights have changed places.

A rank that is missing ends the wait after `timeout`, also if all others wait for 30 minutes: the check has a group of
its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import get_total_norm

from distlib.collectives import all_gather
from distlib.communicator import Communicator
from distlib.worlds.diagnosis import name_ranks

_HEAD = 2  # numbers before those of the parameters: the step, and whether the gradients are finite
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
_SHOWN = 5


class ReplicaError(RuntimeError):
    """The ranks do not train the same model, or a rank is missing. The message names the ranks."""


class ReplicaCheck:
    """Checks, in each `every`th call, that all ranks are in the same step, with equal weights and finite gradients.

    Every rank makes its own, at the same time, and calls it as often as the others, after the backward pass.

    Args:
        model: this rank's. A DistributedDataParallel is as good as what it wraps.
        group: a Communicator; or a group of torch.distributed, None for all ranks.
        every: how many calls from one check to the next. One check reads all weights once, and sends 8 bytes for each
            parameter (not for each weight).
        timeout: seconds after which a rank is missing. (Of a Communicator, the world says so at once.)

    Attributes:
        step: how often it was called.
        grad_norm: the norm of this rank's gradients in the last check; 0 before.

    Raises:
        ValueError: `every` or `timeout` is below 1.
    """

    def __init__(
        self, model: nn.Module, group: Any | Communicator = None, *, every: int = 50, timeout: float = 60.0
    ) -> None:
        if every < 1 or timeout < 1:
            raise ValueError(f"expected every and timeout, at least 1 each, got {every} and {timeout}")
        self.step, self.grad_norm = 0, 0.0
        self._parameters = dict(model.named_parameters())
        self._every, self._ranks = every, ranks_of(group, timeout)

    def __call__(self) -> None:
        """Check, if it is time to.

        Raises:
            ReplicaError: with the first parameter that differs and the ranks that differ; on every rank.
        """
        self.step += 1
        if self.step % self._every == 0:
            self._compare(self._ranks.gather(self._numbers(), f"the check of step {self.step}"))

    def _numbers(self) -> torch.Tensor:
        """The step, the first parameter whose gradient is not finite (-1: none), and the sum of each one's bits."""
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        self.grad_norm = float(get_total_norm(gradients)) if gradients else 0.0
        bad = -1 if self.grad_norm < float("inf") else self._first_bad()
        return torch.tensor([self.step, bad, *bit_sums(list(self._parameters.values()))])

    def _first_bad(self) -> int:
        finite = [p.grad is None or bool(p.grad.isfinite().all()) for p in self._parameters.values()]
        return finite.index(False) if False in finite else len(finite)  # else the norm itself is too large

    def _compare(self, rows: list[list[int]]) -> None:
        names = [*self._parameters, "the norm over all parameters"]
        if odd := who_differs([row[0] for row in rows]):
            steps = ", ".join(f"rank {rank} is in step {row[0]}" for rank, row in enumerate(rows))
            raise ReplicaError(f"the ranks are not in the same step ({name_ranks(odd)} differs): {steps}")
        for rank, row in enumerate(rows):
            if row[1] >= 0:
                raise ReplicaError(f"step {self.step}: rank {rank} has a gradient that is not finite, {names[row[1]]}")
        for name, sums in zip(names, zip(*(row[_HEAD:] for row in rows), strict=True), strict=False):
            if odd := who_differs(sums):
                raise ReplicaError(
                    f"step {self.step}: {name} has different weights on {name_ranks(odd)} and on the others. "
                    "Did all begin with the same weights, and were all gradients averaged before each step?"
                )


def check_samples(indices: Sequence[int], length: int, group: Any | Communicator = None, timeout: float = 60.0) -> None:
    """Check, after an epoch, that every sample was seen once, by one rank. Sends 8 bytes for each sample.

    Args:
        indices: of the samples that this rank has seen in the epoch.
        length: of the data set.
        group, timeout: as in `ReplicaCheck`. Every call makes a group of its own: once an epoch, not in each step.

    Raises:
        ReplicaError: samples were seen never, or more than once; on every rank, with the first of them. Where the
            length does not divide, a sampler that fills up repeats some: use drop_last, or let it.
    """
    counts = torch.bincount(torch.as_tensor(indices, dtype=torch.int64), minlength=length)
    rows = ranks_of(group, timeout).gather(counts, "the check of the samples")
    seen = torch.tensor(rows).sum(0)
    wrong = (seen != 1).nonzero().flatten().tolist()
    if not wrong:
        return
    told = []
    for sample in wrong[:_SHOWN]:
        ranks = [rank for rank, row in enumerate(rows) if row[sample]]
        told.append(f"sample {sample}: {int(seen[sample])} times{f' ({name_ranks(ranks)})' if ranks else ''}")
    raise ReplicaError(
        f"{len(wrong)} of {length} samples were not seen once: {', '.join(told)}{', …' * (len(wrong) > _SHOWN)}. "
        "Does each rank's DataLoader have a DistributedSampler?"
    )


def bit_sums(tensors: Sequence[torch.Tensor]) -> list[int]:
    """For each tensor the sum of its numbers' bits, read as integers. Equal tensors have equal sums."""
    sums = []
    for tensor in tensors:
        plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        whole = plain.contiguous().view(-1).view(_INTEGERS[plain.element_size()])
        sums.append(whole.sum(dtype=torch.int64))
    return torch.stack(sums).tolist() if sums else []


def who_differs(values: Sequence[int]) -> list[int]:
    """The ranks whose value is not the most frequent one; of two that are as frequent, the lower rank's counts."""
    usual = Counter(values).most_common(1)[0][0]
    return [rank for rank, value in enumerate(values) if value != usual]


# ── who talks to whom ────────────────────────────────────────────────────────────────────────────────────────────────


class _OfTorch:
    """A group of its own over the ranks of a group of torch.distributed. Its waits end after `timeout`."""

    def __init__(self, group: Any, timeout: float) -> None:
        self._timeout = timedelta(seconds=timeout)
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        self._group = dist.new_group(ranks, timeout=self._timeout, backend="gloo", use_local_synchronization=True)
        self._size = len(ranks)

    def gather(self, numbers: torch.Tensor, what: str) -> list[list[int]]:
        """The numbers of all ranks, by rank."""
        rows = [torch.empty_like(numbers) for _ in range(self._size)]
        try:
            dist.monitored_barrier(self._group, timeout=self._timeout, wait_all_ranks=True)
            dist.all_gather(rows, numbers, group=self._group)
        except RuntimeError as error:
            first = str(error).partition("\n")[0]
            raise ReplicaError(f"{what} has waited {self._timeout.total_seconds():g} s. {first}") from error
        return [row.tolist() for row in rows]


class _OfOurs:
    """A Communicator. Its world notices by itself when a rank is missing."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def gather(self, numbers: torch.Tensor, what: str) -> list[list[int]]:
        """The numbers of all ranks, by rank."""
        rows = torch.zeros(self._comm.world_size, len(numbers), dtype=numbers.dtype)
        rows[self._comm.rank] = numbers
        all_gather(self._comm, rows)
        return rows.tolist()


def ranks_of(group: Any, timeout: float) -> _OfTorch | _OfOurs:
    """Those who check together."""
    return _OfOurs(group) if isinstance(group, Communicator) else _OfTorch(group, timeout)

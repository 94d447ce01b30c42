"""`ReplicaCheck`: what is true in every data-parallel training, checked in your own loop, cheap enough to stay on.

    check = ReplicaCheck(model, every=50)             plain torch.distributed; with ours: ReplicaCheck(model, comm)
    for step, batch in enumerate(loader):
        loss(model(batch)).backward()
        check(step)                                   does nothing, but in each 50th call
        optimizer.step()

    rank 0 ──step 49, gradients' norm, a number per parameter──┐
    rank 1 ──step 49, gradients' norm, a number per parameter──┼──► all-gather ──► equal? finite?    everybody knows
    rank 2 ──step 49, gradients' norm, a number per parameter──┘

The number of a parameter is made of the bits of its weights: each 32 of them, read as an integer, count with an odd
factor of their place. Equal weights have equal numbers, and a weight that differs in its last bit has another one. That
several changes cancel is as unlikely as 1 in 2³². Bits are compared: 0.0 and -0.0 differ.

It looks at parameters. Not at buffers: DDP sends those of rank 0 around, elsewhere ranks may have their own on purpose,
such as the running means of a BatchNorm. Nor at the state of the optimizer: what differs there shows in the weights
after the next step.

A rank that is missing ends the wait after `timeout`, also if all others wait for 30 minutes: the check has a group of
its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import get_total_norm

from distlib.collectives import all_gather
from distlib.communicator import Communicator
from distlib.worlds.diagnosis import name_ranks
from distlib.worlds.private_torch import default_store

_HEAD = 2  # numbers before those of the parameters: the step, and whether the gradients are finite
_INTEGERS = {1: torch.uint8, 2: torch.int16}  # by bytes; all that is longer is read in pieces of four
_BLOCK = 2**18  # integers that are multiplied at once: 2 MiB of factors
_NEXT_BLOCK = 6364136223846793005  # odd, by which the sum of the blocks before is multiplied
_COUNTED = 3  # numbers before those of the samples, see `_counts`
_SHOWN = 5


class ReplicaError(RuntimeError):
    """The ranks do not train the same model, or a rank is missing. The message names the ranks."""


class ReplicaCheck:
    """Checks, in each `every`th call, that all ranks have equal weights and finite gradients.

    Every rank makes its own, at the same time: then the names, dtypes and shapes of the parameters are compared. It is
    called as often as on the others, after the backward pass; with a GradScaler, after `unscale_`. (A scaler finds its
    scale by steps whose gradients are infinite, and the check refuses such a step.)

    A rank that has left out a call is noticed if the loop tells its own number of the step: `check(step)`. Without it,
    each rank counts its own calls.

    Args:
        model: this rank's. A DistributedDataParallel is as good as what it wraps.
        group: a Communicator; or a group of torch.distributed, None for all ranks.
        every: how many calls from one check to the next. One check reads all weights once, and sends 8 bytes for each
            parameter (not for each weight).
        timeout: seconds after which a rank is missing. (Of a Communicator, the world says so at once.)

    Attributes:
        step: the number of the last step: as the loop told it, otherwise how often the check was called.
        grad_norm: the norm of this rank's gradients in the last check; 0 before.

    Raises:
        ValueError: `every` or `timeout` is below 1.
        ReplicaError: the models differ, or a rank has made no check; on every rank that has.
    """

    def __init__(
        self, model: nn.Module, group: Any | Communicator = None, *, every: int = 50, timeout: float = 60.0
    ) -> None:
        if every < 1 or timeout < 1:
            raise ValueError(f"expected every and timeout, at least 1 each, got {every} and {timeout}")
        self.step, self.grad_norm, self._calls = 0, 0.0, 0
        self._parameters = dict(model.named_parameters())
        self._every, self._ranks = every, ranks_of(group, timeout)
        compare_models(self._parameters, self._ranks)

    def __call__(self, step: int | None = None) -> None:
        """Check, if it is time to.

        Args:
            step: the loop's own number of this step, the same on every rank.

        Raises:
            ReplicaError: with the first parameter that differs and the ranks that differ; on every rank.
        """
        self._calls += 1
        self.step = self._calls if step is None else step
        if self._calls % self._every == 0:
            self._compare(self._ranks.gather(self._numbers(), f"the check of step {self.step}"))

    def _numbers(self) -> torch.Tensor:
        """The step, the first parameter whose gradient is not finite (-1: none), and a number for each one's bits."""
        gradients = [values_of(p.grad) for p in self._parameters.values() if p.grad is not None]
        self.grad_norm = float(get_total_norm(gradients)) if gradients else 0.0
        bad = -1 if self.grad_norm < float("inf") else self._first_bad()
        return torch.tensor([self.step, bad, *bit_sums(list(self._parameters.values()))])

    def _first_bad(self) -> int:
        finite = [p.grad is None or bool(values_of(p.grad).isfinite().all()) for p in self._parameters.values()]
        return finite.index(False) if False in finite else len(finite)  # else the norm itself is too large

    def _compare(self, rows: list[list[int]]) -> None:
        names = [*self._parameters, "the norm over all parameters"]
        if odd := who_differs([row[0] for row in rows]):
            steps = ", ".join(f"rank {rank} is in step {row[0]}" for rank, row in enumerate(rows))
            raise ReplicaError(f"the ranks are not in the same step ({name_ranks(odd)} differs): {steps}")
        if bad := [rank for rank, row in enumerate(rows) if row[1] >= 0]:
            raise ReplicaError(f"step {self.step}: {tell_bad(bad, len(rows), names[rows[bad[0]][1]])}")
        for name, sums in zip(names, zip(*(row[_HEAD:] for row in rows), strict=True), strict=False):
            if odd := who_differs(sums):
                raise ReplicaError(
                    f"step {self.step}: {name} has different weights on {name_ranks(odd)} and on the others. "
                    "Did all begin with the same weights, and were all gradients averaged before each step?"
                )


def tell_bad(bad: list[int], size: int, name: str) -> str:
    """Who has a gradient that is not finite. Where all have one, an average may have brought it to them."""
    told = f"{name_ranks(bad)} {'has' if len(bad) == 1 else 'have'} a gradient that is not finite, {name}"
    if not 1 < size == len(bad):
        return told
    return f"{told}. It may come from one of them, by the average: print each rank's own loss, before backward()"


def compare_models(parameters: dict[str, nn.Parameter], ranks: _OfTorch | _OfOurs) -> None:
    """Compare name, dtype and shape of each parameter.

    Raises:
        ReplicaError: with the number of parameters, and the first difference; on every rank.
    """
    lines = [f"{name} ({describe(parameter)})" for name, parameter in parameters.items()]
    rows = gather_uneven(ranks, torch.tensor(list("\n".join(lines).encode())), "the comparison of the models")
    texts = [bytes(row).decode() for row in rows]
    if odd := who_differs(texts):
        one, other = sorted([odd[0], next(rank for rank in range(len(texts)) if rank not in odd)])
        left, right = texts[one].splitlines(), texts[other].splitlines()
        pairs = zip_longest(left, right, fillvalue="none")
        here, there = next(pair for pair in pairs if pair[0] != pair[1])
        raise ReplicaError(
            f"the ranks have different models ({name_ranks(odd)} differs): {len(left)} parameters on rank {one}, "
            f"{len(right)} on rank {other}. The first that differs: {here} on rank {one}, {there} on rank {other}"
        )


def describe(parameter: nn.Parameter) -> str:
    """Its dtype and shape, in a few characters."""
    shape = "no shape yet" if is_lazy(parameter) else list(parameter.shape)
    return f"{str(parameter.dtype).removeprefix('torch.')} {shape}"


def values_of(gradient: torch.Tensor) -> torch.Tensor:
    """The numbers of a gradient; of a sparse one those that are stored, each place once."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def check_samples(indices: Sequence[int], length: int, group: Any | Communicator = None, timeout: float = 60.0) -> None:
    """Check, after an epoch, that every sample was seen once, by one rank. Sends 8 bytes for each sample.

    Where the length does not divide by the ranks, a DistributedSampler repeats samples until it does, or leaves out
    what is too much: fewer than there are ranks. Either is let pass, both together are not. What a DataLoader with
    drop_last leaves out besides is a fault here.

    Args:
        indices: of the samples that this rank has seen in the epoch.
        length: of the data set.
        group, timeout: as in `ReplicaCheck`. Every call makes a group of its own: once an epoch, not in each step.

    Raises:
        ReplicaError: samples were seen never, or more than once, or are not in the data set, or the ranks have data
            sets of different lengths; on every rank, with the first of them.
    """
    rows = gather_uneven(ranks_of(group, timeout), _counts(indices, length), "the check of the samples")
    if odd := who_differs([row[0] for row in rows]):
        told = ", ".join(f"{row[0]} samples on rank {rank}" for rank, row in enumerate(rows))
        raise ReplicaError(f"the data sets have different lengths ({name_ranks(odd)} differs): {told}")
    for rank, (_, beyond, outside, *_) in enumerate(rows):
        if beyond:
            raise ReplicaError(f"rank {rank} has seen sample {outside}, in a data set of {length} samples")
    _compare_counts([row[_COUNTED:] for row in rows])


def _counts(indices: Sequence[int], length: int) -> torch.Tensor:
    """The length, how many indices are outside of it, the first of these, and how often each sample was seen."""
    seen = torch.as_tensor(indices, dtype=torch.int64)
    inside = (seen >= 0) & (seen < length)
    outside = seen[~inside].tolist()
    head = torch.tensor([length, len(outside), *(outside or [0])[:1]])
    return torch.cat([head, torch.bincount(seen[inside], minlength=length)])


def _compare_counts(rows: list[list[int]]) -> None:
    ranks, length = len(rows), len(rows[0])
    seen = torch.tensor(rows).sum(0)
    repeated, left_out = int((seen - 1).clamp(min=0).sum()), int((seen == 0).sum())
    if (not left_out and repeated <= -length % ranks) or (not repeated and left_out <= length % ranks):
        return
    wrong = (seen != 1).nonzero().flatten().tolist()
    told = []
    for sample in wrong[:_SHOWN]:
        by = [rank for rank, row in enumerate(rows) if row[sample]]
        told.append(f"sample {sample}: {int(seen[sample])} times{f' ({name_ranks(by)})' if by else ''}")
    raise ReplicaError(
        f"{len(wrong)} of {length} samples were not seen once: {', '.join(told)}{', …' * (len(wrong) > _SHOWN)}. "
        "Does each rank's DataLoader have a DistributedSampler?"
    )


def bit_sums(tensors: Sequence[torch.Tensor]) -> list[int]:
    """For each tensor a sum of its bits, read as integers, each times a factor of its place, modulo 2⁶⁴."""
    sums = []
    for tensor in tensors:
        plain = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        whole = plain.contiguous().view(-1).view(_INTEGERS.get(plain.element_size(), torch.int32))
        total = torch.zeros((), dtype=torch.int64, device=whole.device)
        for block in whole.split(_BLOCK):
            total = total * _NEXT_BLOCK + (block * _factors(whole.device)[: len(block)]).sum()
        sums.append(total)
    return torch.stack(sums).tolist() if sums else []


@cache
def _factors(device: torch.device) -> torch.Tensor:
    """Odd numbers, the same on every rank: a change of one integer by d changes a sum by an odd multiple of d."""
    drawn = torch.randint(-(2**62), 2**62, (_BLOCK,), generator=torch.Generator().manual_seed(0))
    return (2 * drawn + 1).to(device)


def who_differs(values: Sequence[Hashable]) -> list[int]:
    """The ranks whose value is not the most frequent one; of two that are as frequent, the lower rank's counts."""
    usual = Counter(values).most_common(1)[0][0]
    return [rank for rank, value in enumerate(values) if value != usual]


# ── who talks to whom ────────────────────────────────────────────────────────────────────────────────────────────────


class _OfTorch:
    """A group of its own over the ranks of a group of torch.distributed. Its waits end after `timeout`."""

    def __init__(self, group: Any, timeout: float) -> None:
        self._timeout = timedelta(seconds=timeout)
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        self._size, start = len(ranks), time.monotonic()
        roll = _Roll(ranks)
        try:
            self._group = dist.new_group(ranks, timeout=self._timeout, backend="gloo", use_local_synchronization=True)
        except RuntimeError as error:
            raise _failed("the making of a check", start, f"{roll.absent()}{_first_line(error)}") from error

    def gather(self, numbers: torch.Tensor, what: str) -> list[list[int]]:
        """The numbers of all ranks, by rank. All have equally many."""
        rows, start = [torch.empty_like(numbers) for _ in range(self._size)], time.monotonic()
        try:
            dist.monitored_barrier(self._group, timeout=self._timeout, wait_all_ranks=True)
            dist.all_gather(rows, numbers, group=self._group)
        except RuntimeError as error:
            raise _failed(what, start, _first_line(error)) from error
        return [row.tolist() for row in rows]


class _Roll:
    """Who has come, in the store of torch.distributed: how many checks each rank has begun to make."""

    def __init__(self, ranks: list[int]) -> None:
        self._store = default_store()
        self._keys = [f"replica_check/{ranks}/{rank}" for rank in ranks]
        self._count = self._store.add(self._keys[ranks.index(dist.get_rank())], 1)

    def absent(self) -> str:
        """A sentence about those that have not come; "" if the store is gone, or all are there."""
        with suppress(RuntimeError):
            if away := [rank for rank, key in enumerate(self._keys) if self._store.add(key, 0) < self._count]:
                return f"{name_ranks(away)} did not make one. "
        return ""


def _failed(what: str, start: float, why: str) -> ReplicaError:
    return ReplicaError(f"{what} failed after {time.monotonic() - start:.1f} s. {why}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class _OfOurs:
    """A Communicator. Its world notices by itself when a rank is missing."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm

    def gather(self, numbers: torch.Tensor, what: str) -> list[list[int]]:
        """The numbers of all ranks, by rank. All have equally many."""
        rows = torch.zeros(self._comm.world_size, len(numbers), dtype=numbers.dtype)
        rows[self._comm.rank] = numbers
        all_gather(self._comm, rows)
        return rows.tolist()


def gather_uneven(ranks: _OfTorch | _OfOurs, numbers: torch.Tensor, what: str) -> list[list[int]]:
    """The numbers of all ranks, by rank, of which each may have a different count: first the counts go around."""
    lengths = [length for (length,) in ranks.gather(torch.tensor([len(numbers)]), what)]
    padded = torch.zeros(max(1, *lengths), dtype=torch.int64)  # gloo ends the process when lengths differ
    padded[: len(numbers)] = numbers
    return [row[:length] for row, length in zip(ranks.gather(padded, what), lengths, strict=True)]


def ranks_of(group: Any, timeout: float) -> _OfTorch | _OfOurs:
    """Those who check together."""
    return _OfOurs(group) if isinstance(group, Communicator) else _OfTorch(group, timeout)

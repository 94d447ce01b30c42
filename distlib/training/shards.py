"""Which parameter server keeps which parameters. Pure: no communication, no state.

    tensor      0: 100 B      1: 20 B   2: 60 B        pieces of at most 50 B: [50, 50] [20] [50, 10]
    server 0    ██████ 50     ████ 20   ██ 10           80 B
    server 1    ██████ 50               ██████ 50      100 B

Every worker talks to every server in each step, so the server with the most bytes decides how long a step takes. Whole
tensors can't be balanced: in many models one layer holds half of all parameters. So large tensors are split first, and
each piece, the largest first, goes to the server that has the fewest bytes so far. Two servers then never differ by
more than the largest piece.

The greedy rule: R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math. 17(2), 1969. Large
tensors over several servers: M. Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014,
section 4 (ranges of keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from distlib.arguments import checked


class Piece(NamedTuple):
    """Elements `start` to `stop` (without `stop`) of tensor number `tensor`, seen as one-dimensional."""

    tensor: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many elements it has."""
        return self.stop - self.start


Shard = list[Piece]
"""The pieces that one server keeps, in the order of the tensors."""


@checked
def shard_parameters(
    tensors: Sequence[torch.Tensor], num_servers: int, largest_bytes: int | None = None
) -> list[Shard]:
    """Cut tensors into pieces, and give each server about as many bytes.

    Args:
        tensors: only their sizes are used.
        num_servers: at least 1.
        largest_bytes: tensors above it are cut into pieces of at most that many bytes. None: an eighth of what each
            server gets on average.

    Returns:
        For each server its pieces. Each element of each tensor is in one of them.

    Raises:
        ValueError: no server, more servers than pieces, or pieces smaller than an element.
    """
    if num_servers < 1:
        raise ValueError(f"expected at least 1 server, got {num_servers}")
    if largest_bytes is None:
        total = sum(tensor.nbytes for tensor in tensors)
        largest_bytes = max(total // (8 * num_servers), *(tensor.itemsize for tensor in tensors), 1)
    pieces = [piece for number, tensor in enumerate(tensors) for piece in _cut(number, tensor, largest_bytes)]
    if len(pieces) < num_servers:
        raise ValueError(
            f"expected at least one piece for each of {num_servers} servers, got {len(pieces)} of at most "
            f"{largest_bytes} bytes: take fewer servers or smaller pieces"
        )
    nbytes = {piece: piece.length * tensors[piece.tensor].itemsize for piece in pieces}
    loads, shards = [0] * num_servers, [Shard() for _ in range(num_servers)]
    for piece in sorted(pieces, key=nbytes.__getitem__, reverse=True):
        lightest = loads.index(min(loads))
        loads[lightest] += nbytes[piece]
        shards[lightest].append(piece)
    return [sorted(shard) for shard in shards]


@checked
def flatten(tensors: Sequence[torch.Tensor], shard: Shard) -> torch.Tensor:
    """The elements of a shard, one after the other, copied into one new tensor."""
    return torch.cat([tensors[piece.tensor].detach().reshape(-1)[piece.start : piece.stop] for piece in shard])


def unflatten(flat: torch.Tensor, tensors: Sequence[torch.Tensor], shard: Shard) -> None:
    """Write what `flatten` gives back into the tensors, in place. They may lie in memory in any order."""
    parts = flat.split([piece.length for piece in shard])
    for piece, part in zip(shard, parts, strict=True):
        tensor = tensors[piece.tensor].detach()
        elements = tensor.reshape(-1)  # a view; a copy, if they lie in another order
        elements[piece.start : piece.stop].copy_(part)
        if not tensor.is_contiguous():
            tensor.copy_(elements.view(tensor.shape))


def _cut(number: int, tensor: torch.Tensor, largest_bytes: int) -> Shard:
    step = largest_bytes // tensor.itemsize
    if step < 1:
        raise ValueError(f"expected pieces of at least one element, {tensor.itemsize} bytes, got {largest_bytes}")
    return [Piece(number, start, min(start + step, tensor.numel())) for start in range(0, tensor.numel(), step)]

"""Which positions of a sequence a rank has. Pure: no communication.

    contiguous, 4 ranks     0       | 1       | 2       | 3            N blocks, rank r has block r
    zigzag, 4 ranks         0 7     | 1 6     | 2 5     | 3 4          2N blocks, rank r has r and 2N−1−r

Where a position sees only those before it (causal attention), the last block has the most to compute, and the first one
the least. In zigzag order each rank has an early block and a late one, and all have the same to compute: see
`attention_work`.

Zigzag order is the one of A. Grattafiori et al., "The Llama 3 Herd of Models", arXiv:2407.21783 (2024), section 3.3.2;
W. Brandon et al., "Striped Attention", arXiv:2311.09431 (2023), balance the same work by single positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from distlib.arguments import check_tensor, checked, short
from distlib.communicator import Communicator

ORDERS = ("contiguous", "zigzag")


class BlockPair(NamedTuple):
    """Queries of a rank's own block number `own`, keys of another rank's block number `other`: 0 or 1.

    `diagonal`: they are the same block of the sequence, and each position sees only those up to its own.
    """

    own: int
    other: int
    diagonal: bool


def check_order(who: str, order: object) -> None:
    """Check the name of an order. Raises ValueError."""
    if order not in ORDERS:
        raise ValueError(f"{who} expected order to be one of {', '.join(ORDERS)}, got order={short(order)}")


def check_length(who: str, what: str, length: int, parts: int) -> None:
    """Check that `length` positions can be cut into `parts` blocks of equal length. Raises ValueError."""
    if length < 1 or length % parts:
        raise ValueError(f"{who} expected {what} that {parts} blocks divide, got {length} positions")


def blocks_of(rank: int, world_size: int, order: str = "contiguous") -> list[int]:
    """The blocks of the sequence that a rank has, by number: one of N, or in zigzag order two of 2N.

    Raises:
        ValueError: an unknown order.
    """
    check_order("blocks_of", order)
    return [rank] if order == "contiguous" else [rank, 2 * world_size - 1 - rank]


def block_pairs(rank: int, source: int, world_size: int, order: str, causal: bool) -> Iterator[BlockPair]:
    """The pairs of blocks that `rank` computes with the keys of rank `source`; what it can't see is left out."""
    for own, query_block in enumerate(blocks_of(rank, world_size, order)):
        for other, key_block in enumerate(blocks_of(source, world_size, order)):
            if not causal or key_block <= query_block:
                yield BlockPair(own, other, causal and key_block == query_block)


@checked
def own_sequence(comm: Communicator, tensor: torch.Tensor, order: str = "contiguous") -> torch.Tensor:
    """This rank's part of a sequence that every rank has: […, sequence, features] → […, sequence / N, features].

    Raises:
        ValueError: an unknown order, or N blocks (in zigzag order 2N) don't divide the sequence.
    """
    blocks = blocks_of(comm.rank, comm.world_size, order)
    parts = len(blocks) * comm.world_size
    check_length("own_sequence", "a sequence", tensor.shape[-2], parts)
    cut = tensor.chunk(parts, dim=-2)
    return torch.cat([cut[block] for block in blocks], dim=-2)


def join_sequence(parts: Sequence[torch.Tensor], order: str = "contiguous") -> torch.Tensor:
    """The whole sequence from the parts of all ranks, by rank: what `own_sequence` has cut.

    Raises:
        TypeError: a part is not a tensor.
        ValueError: an unknown order.
    """
    found: dict[int, torch.Tensor] = {}
    for rank, part in enumerate(parts):
        check_tensor("join_sequence", part, f" as parts[{rank}]")
        blocks = blocks_of(rank, len(parts), order)
        found.update(zip(blocks, part.chunk(len(blocks), dim=-2), strict=True))
    return torch.cat([found[block] for block in sorted(found)], dim=-2)

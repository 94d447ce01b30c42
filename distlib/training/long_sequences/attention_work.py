"""How much attention each rank computes, step by step of the ring. Pure: no communication.

The unit is a pair of a query and a key that it sees. A sequence of S positions has S² of them, with a causal mask
S·(S+1)/2. In step s, rank r has the keys of rank r−s. With 4 ranks and blocks of 1 position:

    contiguous  step 0  1  1  1  1        zigzag   step 0  3  3  3  3      (2 positions a rank)
                step 1  0  1  1  1                 step 1  2  2  2  2
                step 2  0  0  1  1                 step 2  2  2  2  2
                step 3  0  0  0  1                 step 3  2  2  2  2

A step is as long as it takes the rank that has most to do, since the next block comes from a neighbor. So a causal ring
in contiguous order takes nearly as long as one without a mask.
"""

from __future__ import annotations

from distlib.arguments import check_integer
from distlib.training.long_sequences.sequence_order import block_pairs, blocks_of, check_length


def visible_pairs(world_size: int, sequence: int, order: str = "contiguous", *, causal: bool = True) -> list[list[int]]:
    """The pairs of query and key that a rank computes in a step of the ring, for each head: [step][rank].

    Args:
        sequence: its length, in positions.
        order: "contiguous" or "zigzag".

    Raises:
        ValueError: no ranks, an unknown order, or blocks that don't divide the sequence.
    """
    check_integer("visible_pairs", "world_size", world_size, 1)
    check_integer("visible_pairs", "sequence", sequence, 1)
    parts = world_size * len(blocks_of(0, world_size, order))
    check_length("visible_pairs", "a sequence", sequence, parts)
    block, ranks = sequence // parts, range(world_size)

    def pairs(rank: int, source: int) -> int:
        found = block_pairs(rank, source, world_size, order, causal)
        return sum(block * (block + 1) // 2 if pair.diagonal else block * block for pair in found)

    return [[pairs(rank, (rank - step) % world_size) for rank in ranks] for step in ranks]


def pairs_per_rank(world_size: int, sequence: int, order: str = "contiguous", *, causal: bool = True) -> list[int]:
    """What `visible_pairs` counts, of all steps together, indexed by rank.

    Raises:
        ValueError: as `visible_pairs`.
    """
    steps = visible_pairs(world_size, sequence, order, causal=causal)
    return [sum(counts) for counts in zip(*steps, strict=True)]

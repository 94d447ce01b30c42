"""How long each collective takes: closed forms in the latency and bandwidth of the links.

The functions have the names of those in `distlib.collectives`. They take the cluster, the number of elements of the
tensor (`length`), the size of an element in bytes (`itemsize`), and the collective's other arguments. They
return seconds. N ranks, S = length · itemsize bytes, α latency, B bandwidth; all chunks that differ in length count
with the longest, ⌈length/N⌉ elements.

What is assumed is what `SimulatedWorld` does with `eager_limit` 0: each rank has one port out and one port in, a
message of m bytes keeps both busy for m/B, `send` and `recv` return α + m/B after both have begun, and computing takes
no time. Where all links are alike the result is exact, also for chunks of unequal length: the longest chunk is always
on the slowest path. (The one exception is the double tree, see there.) In a cluster with two kinds of links it is an
upper bound: each step counts with the slowest link that some rank uses in it.

The terms are those of R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005, without the time for arithmetic.
"""

from __future__ import annotations

import math

from distlib.arguments import checked
from distlib.network.cluster import Cluster
from distlib.network.powers import beyond_power_of_two, is_power_of_two, powers_of_two_below
from distlib.network.two_trees import chain_lengths
from distlib.partition import chunk_lengths

# ── one to all and all to one ────────────────────────────────────────────────────────────────────────────────────────


@checked
def flat_broadcast(cluster: Cluster, length: int, itemsize: int, root: int = 0) -> float:
    """(N−1)·(α + S/B): the root sends to one after the other. Exact on every cluster."""
    others = [rank for rank in range(cluster.world_size) if rank != root]
    return sum(cluster.link(root, rank).seconds(length * itemsize) for rank in others)


@checked
def flat_reduce(cluster: Cluster, length: int, itemsize: int, root: int = 0) -> float:
    """As `flat_broadcast`: the root receives from one after the other."""
    return flat_broadcast(cluster, length, itemsize, root)


@checked
def scatter(cluster: Cluster, length: int, itemsize: int, root: int = 0) -> float:
    """(N−1)·α + (N−1)/N·S/B: the root sends one chunk after the other. Exact on every cluster."""
    lengths = chunk_lengths(length, cluster.world_size)
    others = [rank for rank in range(cluster.world_size) if rank != root]
    return sum(cluster.link(root, rank).seconds(lengths[rank] * itemsize) for rank in others)


@checked
def gather(cluster: Cluster, length: int, itemsize: int, root: int = 0) -> float:
    """As `scatter`: the root receives one chunk after the other."""
    return scatter(cluster, length, itemsize, root)


@checked
def tree_broadcast(cluster: Cluster, length: int, itemsize: int, root: int = 0) -> float:
    """⌈log₂ N⌉·(α + S/B)."""
    return sum(_pairs(cluster, d, length * itemsize, root == 0) for d in powers_of_two_below(cluster.world_size))


@checked
def tree_reduce(cluster: Cluster, length: int, itemsize: int, root: int = 0) -> float:
    """⌈log₂ N⌉·(α + S/B)."""
    return tree_broadcast(cluster, length, itemsize, root)


@checked
def chain_broadcast(cluster: Cluster, length: int, itemsize: int, root: int = 0, *, blocks: int) -> float:
    """(k + N − 2)·(α + S/(k·B)) with k blocks: the first link carries k, the last one comes N−2 links later.

    Exact for blocks of equal length on links that are all alike; else an upper bound.
    """
    size = cluster.world_size
    if size == 1:
        return 0.0
    nbytes = chunk_lengths(length, blocks)[0] * itemsize
    links = [cluster.link(rank, (rank + 1) % size) for rank in range(size) if (rank + 1) % size != root]
    return (blocks + size - 2) * max(link.seconds(nbytes) for link in links)


@checked
def chain_reduce(cluster: Cluster, length: int, itemsize: int, root: int = 0, *, blocks: int) -> float:
    """As `chain_broadcast`: the same blocks over the same links, the other way."""
    return chain_broadcast(cluster, length, itemsize, root, blocks=blocks)


# ── all to all ───────────────────────────────────────────────────────────────────────────────────────────────────────


@checked
def ring_reduce_scatter(cluster: Cluster, length: int, itemsize: int) -> float:
    """(N−1)·(α + S/(N·B)): the longest chunk travels all the way."""
    return _ring(cluster, length, itemsize)


@checked
def ring_all_gather(cluster: Cluster, length: int, itemsize: int) -> float:
    """(N−1)·(α + S/(N·B)): the longest chunk travels all the way."""
    return _ring(cluster, length, itemsize)


@checked
def recursive_doubling_all_gather(cluster: Cluster, length: int, itemsize: int) -> float:
    """log₂ N·α + (N−1)/N·S/B for powers of two; else as `bruck_all_gather`."""
    size = cluster.world_size
    if not is_power_of_two(size):
        return bruck_all_gather(cluster, length, itemsize)
    return _doubling(cluster, chunk_lengths(length, size), itemsize)


@checked
def bruck_all_gather(cluster: Cluster, length: int, itemsize: int) -> float:
    """⌈log₂ N⌉·α + (N−1)/N·S/B, for any N."""
    size = cluster.world_size
    lengths = chunk_lengths(length, size)
    counts = [min(distance, size - distance) for distance in powers_of_two_below(size)]
    return sum(cluster.slowest_link().seconds(sum(lengths[:count]) * itemsize) for count in counts)


@checked
def recursive_halving_reduce_scatter(cluster: Cluster, length: int, itemsize: int) -> float:
    """log₂ N·α + (N−1)/N·S/B for powers of two; else folding costs α + S/B more, and α + S/(N·B) at the end."""
    extra, power = beyond_power_of_two(cluster.world_size)
    lengths = chunk_lengths(length, cluster.world_size)
    blocks = [lengths[2 * i] + lengths[2 * i + 1] for i in range(extra)] + lengths[2 * extra :]
    folding = [length * itemsize, lengths[0] * itemsize] if extra else []
    return _doubling(cluster, blocks, itemsize) + sum(cluster.slowest_link().seconds(nbytes) for nbytes in folding)


@checked
def all_to_all(cluster: Cluster, length: int, itemsize: int) -> float:
    """(N−1)·(α + S/(N·B)). `length`: of all chunks of one rank together."""
    return _ring(cluster, length, itemsize)


@checked
def barrier(cluster: Cluster) -> float:
    """⌈log₂ N⌉·α, since messages without bytes take the latency alone."""
    return len(powers_of_two_below(cluster.world_size)) * cluster.slowest_link().seconds(0)


# ── all-reduce ───────────────────────────────────────────────────────────────────────────────────────────────────────


@checked
def naive_all_reduce(cluster: Cluster, length: int, itemsize: int) -> float:
    """2(N−1)·(α + S/B): to the master in turn, and back in turn."""
    return flat_reduce(cluster, length, itemsize) + flat_broadcast(cluster, length, itemsize)


@checked
def ring_all_reduce(cluster: Cluster, length: int, itemsize: int) -> float:
    """2(N−1)·(α + S/(N·B)): a reduce-scatter, then an all-gather."""
    return 2 * _ring(cluster, length, itemsize)


@checked
def tree_all_reduce(cluster: Cluster, length: int, itemsize: int) -> float:
    """2·⌈log₂ N⌉·(α + S/B)."""
    return tree_reduce(cluster, length, itemsize) + tree_broadcast(cluster, length, itemsize)


@checked
def halving_doubling_all_reduce(cluster: Cluster, length: int, itemsize: int) -> float:
    """2·log₂ N·α + 2(N−1)/N·S/B for powers of two.

    Else, with P the power of two below N: 2·log₂ P·α + 2(P−1)/P·S/B, and 2(α + S/B) for folding.
    """
    extra, power = beyond_power_of_two(cluster.world_size)
    folding = 2 * cluster.slowest_link().seconds(length * itemsize) if extra else 0.0
    return 2 * _doubling(cluster, chunk_lengths(length, power), itemsize) + folding


@checked
def double_tree_all_reduce(cluster: Cluster, length: int, itemsize: int, blocks: int) -> float:
    """(4k + c)·(α + S/(2k·B)) for k > 1 blocks per half and N > 2; c grows as 4·log₂ N.

    Exact where all blocks are equally long (2k divides the length), else an upper bound.
    """
    block = math.ceil(length / (2 * blocks)) * itemsize
    return _steps_of_double_tree(cluster.world_size, blocks) * cluster.slowest_link().seconds(block)


@checked
def grid_all_reduce(cluster: Cluster, length: int, itemsize: int, columns: int) -> float:
    """2(C−1)·(α + S/(C·B)) + 2(R−1)·(α + S/(N·B)) for C columns and R rows."""
    row = Cluster.flat(columns, cluster.link_within(columns))
    column = Cluster.flat(cluster.world_size // columns, cluster.link_across(columns))
    return ring_all_reduce(row, length, itemsize) + ring_all_reduce(column, math.ceil(length / columns), itemsize)


@checked
def hierarchical_all_reduce(cluster: Cluster, length: int, itemsize: int, ranks_per_node: int) -> float:
    """2(G−1)·(α + S/(G·B)) inside nodes of G ranks, and what halving and doubling takes for S/G between nodes.

    Exact on every cluster that has this many ranks per node.
    """
    node = Cluster.flat(ranks_per_node, cluster.link_within(ranks_per_node))
    nodes = Cluster.flat(cluster.world_size // ranks_per_node, cluster.link_across(ranks_per_node))
    chunk = math.ceil(length / ranks_per_node)
    return ring_all_reduce(node, length, itemsize) + halving_doubling_all_reduce(nodes, chunk, itemsize)


@checked
def best_blocks(cluster: Cluster, length: int, itemsize: int) -> int:
    """Into how many blocks to cut each half for the double tree to be fastest: k = √(c·S / (8·α·B)).

    More blocks fill the trees sooner, but each costs its latency: (4k + c)·(α + S/(2k·B)) is least there. At most
    1,024, and no more than there are elements.
    """
    link = cluster.slowest_link()
    filling = _steps_of_double_tree(cluster.world_size, 2) - 8  # c
    if filling <= 0 or length < 2:
        return 1
    best = math.sqrt(filling * length * itemsize / (8 * link.latency * link.bandwidth)) if link.latency else math.inf
    return max(1, round(min(best, length // 2, 1024)))


@checked
def best_chain_blocks(cluster: Cluster, length: int, itemsize: int) -> int:
    """Into how many blocks to cut a tensor for the chain to be fastest: k = √((N−2)·S / (α·B)).

    There (k + N − 2)·(α + S/(k·B)) is least. At most 1,024, and no more than there are elements.
    """
    link = cluster.slowest_link()
    following = cluster.world_size - 2  # links after the first, which every block has to pass
    if following <= 0 or length < 1:
        return 1
    best = math.sqrt(following * length * itemsize / (link.latency * link.bandwidth)) if link.latency else math.inf
    return max(1, round(min(best, length, 1024)))


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ring(cluster: Cluster, length: int, itemsize: int) -> float:
    """N−1 steps, each with a longest chunk."""
    size = cluster.world_size
    return (size - 1) * cluster.slowest_link().seconds(math.ceil(length / size) * itemsize)


def _doubling(cluster: Cluster, lengths: list[int], itemsize: int) -> float:
    """Exchanges at the distances 1, 2, 4, …, or back; rank 0 is in the half with the longer blocks every time."""
    aligned = len(lengths) == cluster.world_size
    return sum(_pairs(cluster, d, sum(lengths[:d]) * itemsize, aligned) for d in powers_of_two_below(len(lengths)))


def _pairs(cluster: Cluster, distance: int, nbytes: int, aligned: bool) -> float:
    """A step in which ranks `distance` apart talk. `aligned`: never across the blocks of 2·distance ranks."""
    link = cluster.link_within(2 * distance) if aligned else cluster.slowest_link()
    return link.seconds(nbytes)


def _steps_of_double_tree(world_size: int, blocks: int) -> int:
    """How many messages follow one another. From the second block on, each adds two up and two down."""
    first = chain_lengths(world_size, min(blocks, 2))[0]
    another = {1: 0, 2: 2}.get(world_size, 4)
    return first + another * max(0, blocks - 2)

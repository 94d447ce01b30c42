"""What each rank sends in each collective: messages, bytes and rounds, exactly.

The functions have the names of those in `distlib.collectives`. Their arguments are the number of ranks, the number of
elements of the tensor (`length`), the size of an element in bytes (`itemsize`), and the collective's other arguments.
S = length · itemsize.

Tensors are cut as `partition.chunk_lengths` says, so chunks may differ by one element or be empty. An empty chunk is
still a message. A round is what `Trace.rounds` counts: the longest chain of messages that had to wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from distlib.arguments import checked
from distlib.network.powers import beyond_power_of_two, is_power_of_two, powers_of_two_below
from distlib.network.two_trees import chain_lengths, two_trees
from distlib.partition import chunk_lengths


@dataclass(frozen=True)
class Traffic:
    """What a collective sends.

    Attributes:
        messages: how many messages each rank sends, indexed by rank.
        nbytes: how many bytes each rank sends, indexed by rank.
        rounds: the longest chain of messages of which each had to wait for the one before.
    """

    messages: list[int]
    nbytes: list[int]
    rounds: int

    def __add__(self, after: Traffic) -> Traffic:
        """This, and then the other on the same ranks, where the longest chains follow on one another."""
        messages = [a + b for a, b in zip(self.messages, after.messages, strict=True)]
        nbytes = [a + b for a, b in zip(self.nbytes, after.nbytes, strict=True)]
        return Traffic(messages, nbytes, self.rounds + after.rounds)


# ── one to all and all to one ────────────────────────────────────────────────────────────────────────────────────────


@checked
def flat_broadcast(world_size: int, length: int, itemsize: int, root: int = 0) -> Traffic:
    """The root sends S to each of the others."""
    return _from_root(world_size, root, world_size - 1, (world_size - 1) * length * itemsize)


@checked
def scatter(world_size: int, length: int, itemsize: int, root: int = 0) -> Traffic:
    """The root sends each of the others its chunk."""
    return _from_root(world_size, root, world_size - 1, (length - chunk_lengths(length, world_size)[root]) * itemsize)


@checked
def flat_reduce(world_size: int, length: int, itemsize: int, root: int = 0) -> Traffic:
    """Everybody but the root sends S."""
    return _to_root([length * itemsize] * world_size, root, min(1, world_size - 1))


@checked
def gather(world_size: int, length: int, itemsize: int, root: int = 0) -> Traffic:
    """Everybody but the root sends its chunk."""
    return _to_root([n * itemsize for n in chunk_lengths(length, world_size)], root, min(1, world_size - 1))


@checked
def tree_broadcast(world_size: int, length: int, itemsize: int, root: int = 0) -> Traffic:
    """Every rank sends S to each of its children; rounds: ⌊log₂ N⌋, the longest way down."""
    children = [_binomial_children((rank - root) % world_size, world_size) for rank in range(world_size)]
    return Traffic(children, [count * length * itemsize for count in children], world_size.bit_length() - 1)


@checked
def tree_reduce(world_size: int, length: int, itemsize: int, root: int = 0) -> Traffic:
    """Everybody but the root sends S to its parent; rounds: ⌊log₂ N⌋, the longest way up."""
    return _to_root([length * itemsize] * world_size, root, world_size.bit_length() - 1)


@checked
def chain_broadcast(world_size: int, length: int, itemsize: int, root: int = 0, *, blocks: int) -> Traffic:
    """Every rank but the last sends each block to the next; rounds: N−1, what the first block needs to the end."""
    sends = [(rank + 1) % world_size != root for rank in range(world_size)]
    return Traffic([blocks * s for s in sends], [length * itemsize * s for s in sends], world_size - 1)


@checked
def chain_reduce(world_size: int, length: int, itemsize: int, root: int = 0, *, blocks: int) -> Traffic:
    """Everybody but the root sends each block to the rank before it; rounds as in `chain_broadcast`."""
    sends = [rank != root for rank in range(world_size)]
    return Traffic([blocks * s for s in sends], [length * itemsize * s for s in sends], world_size - 1)


# ── all to all ───────────────────────────────────────────────────────────────────────────────────────────────────────


@checked
def ring_reduce_scatter(world_size: int, length: int, itemsize: int) -> Traffic:
    """Every rank sends all chunks but its own, in N−1 rounds."""
    kept = chunk_lengths(length, world_size)
    return _alike(world_size, world_size - 1, [(length - kept[rank]) * itemsize for rank in range(world_size)])


@checked
def ring_all_gather(world_size: int, length: int, itemsize: int) -> Traffic:
    """Every rank sends all chunks but that of the next rank, in N−1 rounds."""
    lengths = chunk_lengths(length, world_size)
    nbytes = [(length - lengths[(rank + 1) % world_size]) * itemsize for rank in range(world_size)]
    return _alike(world_size, world_size - 1, nbytes)


@checked
def recursive_doubling_all_gather(world_size: int, length: int, itemsize: int) -> Traffic:
    """Every rank sends what it has, 1, 2, 4, … chunks, in log₂ N rounds. Other numbers of ranks: Bruck."""
    if not is_power_of_two(world_size):
        return bruck_all_gather(world_size, length, itemsize)
    lengths = chunk_lengths(length, world_size)
    return _doubling(lengths, itemsize)


@checked
def bruck_all_gather(world_size: int, length: int, itemsize: int) -> Traffic:
    """Every rank sends chunks, from its own on: 1, 2, 4, …, and finally however many are missing; ⌈log₂ N⌉ rounds."""
    lengths = chunk_lengths(length, world_size)
    counts = [min(distance, world_size - distance) for distance in powers_of_two_below(world_size)]
    nbytes = [
        sum(lengths[(rank + i) % world_size] for count in counts for i in range(count)) * itemsize
        for rank in range(world_size)
    ]
    return _alike(world_size, len(counts), nbytes)


@checked
def recursive_halving_reduce_scatter(world_size: int, length: int, itemsize: int) -> Traffic:
    """Every rank sends half of what it still has, in log₂ N rounds.

    For other numbers of ranks, `extra` ranks beyond a power of two first send S to a neighbor, which stands for both,
    and at last sends them their chunk.
    """
    extra, power = beyond_power_of_two(world_size)
    lengths = chunk_lengths(length, world_size)
    blocks = [lengths[2 * i] + lengths[2 * i + 1] for i in range(extra)] + lengths[2 * extra :]
    halving = _halving(blocks, itemsize)
    back = [lengths[2 * i] * itemsize for i in range(extra)]
    # The chain through a folded pair and all halving rounds ends, as they mirror it, at survivor power−1−i of i.
    rounds = halving.rounds + (1 + (2 * extra > power) if extra else 0)
    return _unfold(world_size, halving, length * itemsize, back, rounds)


@checked
def all_to_all(world_size: int, length: int, itemsize: int) -> Traffic:
    """Every rank sends each other rank its chunk, in N−1 rounds. `length`: of all chunks of one rank together."""
    lengths = chunk_lengths(length, world_size)
    return _alike(world_size, world_size - 1, [(length - n) * itemsize for n in lengths])


@checked
def barrier(world_size: int) -> Traffic:
    """Every rank sends ⌈log₂ N⌉ empty messages."""
    return _alike(world_size, len(powers_of_two_below(world_size)), [0] * world_size)


# ── all-reduce ───────────────────────────────────────────────────────────────────────────────────────────────────────


@checked
def naive_all_reduce(world_size: int, length: int, itemsize: int) -> Traffic:
    """Rank 0 sends (N−1)·S, the others S each, in 2 rounds."""
    return flat_reduce(world_size, length, itemsize) + flat_broadcast(world_size, length, itemsize)


@checked
def ring_all_reduce(world_size: int, length: int, itemsize: int) -> Traffic:
    """Every rank sends about 2(N−1)/N·S, in 2(N−1) rounds."""
    return ring_reduce_scatter(world_size, length, itemsize) + ring_all_gather(world_size, length, itemsize)


@checked
def tree_all_reduce(world_size: int, length: int, itemsize: int) -> Traffic:
    """Up the tree and down again: 2·⌊log₂ N⌋ rounds; rank 0 sends ⌈log₂ N⌉·S."""
    return tree_reduce(world_size, length, itemsize) + tree_broadcast(world_size, length, itemsize)


@checked
def halving_doubling_all_reduce(world_size: int, length: int, itemsize: int) -> Traffic:
    """About 2(N−1)/N·S in 2·log₂ N rounds; beyond a power of two, 2 rounds and S more for some."""
    extra, power = beyond_power_of_two(world_size)
    lengths = chunk_lengths(length, power)
    both = _halving(lengths, itemsize) + _doubling(lengths, itemsize)
    back = [length * itemsize] * extra
    return _unfold(world_size, both, length * itemsize, back, both.rounds + (2 if extra else 0))


@checked
def double_tree_all_reduce(world_size: int, length: int, itemsize: int, blocks: int) -> Traffic:
    """Each half goes up its tree and down again in `blocks` blocks; rounds are found by walking along."""
    trees = two_trees(world_size)
    messages, nbytes = [0] * world_size, [0] * world_size
    for tree, half in enumerate(chunk_lengths(length, 2)):
        for rank in range(world_size):
            edges = len(trees.children[tree][rank]) + (trees.parents[tree][rank] is not None)
            messages[rank] += edges * blocks
            nbytes[rank] += edges * half * itemsize
    return Traffic(messages, nbytes, chain_lengths(world_size, blocks)[1])


@checked
def grid_all_reduce(world_size: int, length: int, itemsize: int, columns: int) -> Traffic:
    """About 2(N−1)/N·S, as the ring, in 2(columns−1) + 2(rows−1) rounds."""
    return _rows_columns_rows(world_size, length, itemsize, columns, ring_all_reduce)


@checked
def hierarchical_all_reduce(world_size: int, length: int, itemsize: int, ranks_per_node: int) -> Traffic:
    """2(G−1)/G·S inside a node of G ranks; between n nodes what halving and doubling takes for S/G."""
    return _rows_columns_rows(world_size, length, itemsize, ranks_per_node, halving_doubling_all_reduce)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _alike(world_size: int, messages: int, nbytes: list[int]) -> Traffic:
    """Every rank sends the same number of messages, all after one another."""
    return Traffic([messages] * world_size, nbytes, messages)


def _from_root(world_size: int, root: int, messages: int, nbytes: int) -> Traffic:
    roots = [int(rank == root) for rank in range(world_size)]
    return Traffic([messages * is_root for is_root in roots], [nbytes * is_root for is_root in roots], min(1, messages))


def _to_root(nbytes: list[int], root: int, rounds: int) -> Traffic:
    others = [int(rank != root) for rank in range(len(nbytes))]
    return Traffic(others, [amount * other for amount, other in zip(nbytes, others, strict=True)], rounds)


def _binomial_children(relative: int, world_size: int) -> int:
    """How many children the rank at distance `relative` from the root has: one for each power of two below its lowest
    bit, as far as there are ranks."""
    lowest = relative & -relative or world_size
    return sum(distance < lowest and relative + distance < world_size for distance in powers_of_two_below(world_size))


def _doubling(lengths: list[int], itemsize: int) -> Traffic:
    """At distance d, every rank sends the d blocks that it has by then."""
    size, distances = len(lengths), powers_of_two_below(len(lengths))
    nbytes = [sum(_block(lengths, rank, distance) for distance in distances) * itemsize for rank in range(size)]
    return _alike(size, len(distances), nbytes)


def _halving(lengths: list[int], itemsize: int) -> Traffic:
    """At distance d, every rank sends the d blocks that its partner is to keep."""
    size, distances = len(lengths), powers_of_two_below(len(lengths))
    nbytes = [
        sum(_block(lengths, rank ^ distance, distance) for distance in distances) * itemsize for rank in range(size)
    ]
    return _alike(size, len(distances), nbytes)


def _block(lengths: list[int], rank: int, distance: int) -> int:
    """How many elements the `distance` neighboring blocks have that `rank` belongs to."""
    first = rank - rank % distance
    return sum(lengths[first : first + distance])


def _unfold(world_size: int, inner: Traffic, folded: int, back: list[int], rounds: int) -> Traffic:
    """What the survivors of a fold send among themselves, and what goes to them before and from them after it.

    Of the first 2·extra ranks, rank 2i sends `folded` bytes to rank 2i+1, which is survivor i and sends back[i].
    """
    extra = len(back)
    messages, nbytes = [1] * world_size, [folded] * world_size
    for survivor, (count, amount) in enumerate(zip(inner.messages, inner.nbytes, strict=True)):
        stands_for_two = survivor < extra
        rank = 2 * survivor + 1 if stands_for_two else survivor + extra
        messages[rank] = count + stands_for_two
        nbytes[rank] = amount + (back[survivor] if stands_for_two else 0)
    return Traffic(messages, nbytes, rounds)


def _rows_columns_rows(
    world_size: int, length: int, itemsize: int, columns: int, along_columns: Callable[[int, int, int], Traffic]
) -> Traffic:
    """Reduce-scatter along the rows, something along the columns with a chunk each, all-gather along the rows."""
    rows = world_size // columns
    row = ring_all_reduce(columns, length, itemsize)
    within = [along_columns(rows, chunk, itemsize) for chunk in chunk_lengths(length, columns)]
    coordinates = [divmod(rank, columns) for rank in range(world_size)]
    messages = [row.messages[j] + within[j].messages[i] for i, j in coordinates]
    nbytes = [row.nbytes[j] + within[j].nbytes[i] for i, j in coordinates]
    return Traffic(messages, nbytes, row.rounds + within[0].rounds)

"""Two binary trees over the same ranks, such that a leaf of one is an inner node of the other.

A tree for 7 ranks, each between its children in order; the even ranks are leaves. The second tree is the first one
moved by one rank (for an even number of ranks: its mirror image), so that now the odd ranks and rank 0 are leaves:

    tree 0          3                   tree 1          4
                 ╱     ╲                             ╱     ╲
               1         5                         2         6
              ╱ ╲       ╱ ╲                       ╱ ╲       ╱ ╲
             0   2     4   6                     1   3     5   0

In one tree alone, the leaves (half of the ranks) never receive on the way up, and the inner nodes receive twice what
they send. In two trees at once, each with half of the data, a rank sends to two parents and receives from two children:
as much in each direction. It does so by turns. Every edge has a color, 0 or 1, such that the two edges on which a rank
sends differ, and the two on which it receives. In round t the edges of color t mod 2 carry one block each, so in a
round no rank sends twice or receives twice.

Source: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 35(12), 2009. The trees and the colors here are found by walking along the edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

Edge = tuple[int, int]  # (tree, child): the edge from a child to its parent in that tree


class Hop(NamedTuple):
    """One block on one edge, as one of the two ranks sees it: which tree, which block of it, and the other rank."""

    tree: int
    block: int
    peer: int


Move = tuple[Hop | None, Hop | None]  # what a rank does in a round: a block to a parent, a block from a child


@dataclass(frozen=True)
class TwoTrees:
    """The two trees over `len(parents[0])` ranks, and when the first block passes each edge.

    Attributes:
        parents: for each tree, the parent of every rank; None for the root.
        children: for each tree, the children of every rank: at most two.
        color: of each edge, 0 or 1.
        start: the round in which block 0 passes an edge on its way up. Block b does so 2·b rounds later.
    """

    parents: tuple[list[int | None], list[int | None]]
    children: tuple[list[list[int]], list[list[int]]]
    color: dict[Edge, int]
    start: dict[Edge, int]

    def rounds(self, blocks: int) -> int:
        """How many rounds it takes until `blocks` blocks of both halves are at the roots."""
        return 0 if not self.start else max(self.start.values()) + 1 + 2 * (blocks - 1)


@lru_cache(maxsize=64)
def two_trees(world_size: int) -> TwoTrees:
    """The two trees over the ranks 0 … world_size − 1, with colors and starting rounds."""
    first = _in_order_tree(world_size)
    second: list[int | None] = [None] * world_size
    for rank, parent in enumerate(first):
        second[_moved(rank, world_size)] = None if parent is None else _moved(parent, world_size)
    parents = (first, second)
    children = (_children(first), _children(second))
    color = _two_colors(parents, children)
    start: dict[Edge, int] = {}
    for tree in (0, 1):
        _find_starts(tree, parents[tree].index(None), children, color, start)
    return TwoTrees(parents, children, color, start)


def moves_up(rank: int, world_size: int, blocks: int) -> list[Move]:
    """What `rank` sends to a parent and receives from a child, round by round, until all blocks are at the roots.

    Read from the end to the beginning, with sending and receiving exchanged, it is the way down from the roots.
    """
    trees = two_trees(world_size)
    to_parent: dict[int, Hop] = {}
    from_child: dict[int, Hop] = {}
    for tree in (0, 1):
        parent = trees.parents[tree][rank]
        if parent is not None:
            to_parent.update(_hops(trees, (tree, rank), parent, blocks))
        for child in trees.children[tree][rank]:
            from_child.update(_hops(trees, (tree, child), child, blocks))
    return [(to_parent.get(turn), from_child.get(turn)) for turn in range(trees.rounds(blocks))]


@lru_cache(maxsize=64)
def chain_lengths(world_size: int, blocks: int) -> tuple[int, int]:
    """Two lengths of the whole way, up and down, found by walking through the rounds.

    Returns:
        How many messages follow one another until the last rank is done, where a rank takes part in one round after the
        other; and how many of them do so because each sender had to receive first (the rounds of a trace).
    """
    done, received = [0] * world_size, [0] * world_size
    longest = 0
    up = _all_rounds(world_size, blocks)
    for edges in (*up, *([(dst, src) for src, dst in edges] for edges in reversed(up))):
        ends = [(src, dst, max(done[src], done[dst]) + 1, received[src] + 1) for src, dst in edges]
        for src, dst, end, chain in ends:
            done[src], done[dst] = max(done[src], end), max(done[dst], end)
            received[dst] = max(received[dst], chain)
            longest = max(longest, chain)
    return max(done), longest


@lru_cache(maxsize=64)
def trees_by_pair(world_size: int, blocks: int) -> dict[tuple[int, int], list[int]]:
    """For each (src, dst), up and down: in which tree each of the blocks goes that src sends to dst, in their order.

    The pair alone does not decide it: 2 is a child of 1 in one tree, and 1 of 2 in the other.
    """
    up: dict[tuple[int, int], list[int]] = {}
    moves = [moves_up(rank, world_size, blocks) for rank in range(world_size)]
    for of_all_ranks in zip(*moves, strict=True):
        for rank, (to_parent, _) in enumerate(of_all_ranks):
            if to_parent is not None:
                up.setdefault((rank, to_parent.peer), []).append(to_parent.tree)
    pairs = {*up, *((dst, src) for src, dst in up)}  # on the way down, all runs backwards
    return {(src, dst): [*up.get((src, dst), []), *reversed(up.get((dst, src), []))] for src, dst in pairs}


def _all_rounds(world_size: int, blocks: int) -> list[list[tuple[int, int]]]:
    """For every round on the way up, which rank sends to which."""
    trees = two_trees(world_size)
    rounds: list[list[tuple[int, int]]] = [[] for _ in range(trees.rounds(blocks))]
    for (tree, child), start in trees.start.items():
        for block in range(blocks):
            rounds[start + 2 * block].append((child, trees.parents[tree][child]))  # type: ignore[arg-type]
    return rounds


def _hops(trees: TwoTrees, edge: Edge, peer: int, blocks: int) -> dict[int, Hop]:
    return {trees.start[edge] + 2 * block: Hop(edge[0], block, peer) for block in range(blocks)}


def _in_order_tree(world_size: int) -> list[int | None]:
    """The parent of every rank in a binary tree in which each rank stands between its left and its right children.

    Counted from 1, a rank whose lowest bit is 2^j is on level j; its parent is its neighbor on level j+1.
    """
    parents: list[int | None] = []
    for number in range(1, world_size + 1):
        bit = number & -number
        parent = (number ^ bit) | (bit << 1)
        parent = parent if parent <= world_size else number ^ bit  # no such rank: the next higher neighbor on the left
        parents.append(parent - 1 if parent else None)
    return parents


def _moved(rank: int, world_size: int) -> int:
    """Where the second tree has what the first one has at `rank`: leaves of the one become inner nodes of the other."""
    return (rank + 1) % world_size if world_size % 2 else world_size - 1 - rank


def _children(parents: Sequence[int | None]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parents]
    for rank, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(rank)
    return children


def _two_colors(
    parents: Sequence[Sequence[int | None]], children: Sequence[Sequence[Sequence[int]]]
) -> dict[Edge, int]:
    """Color each edge unlike the edges that it meets: see `_meeting`."""
    color: dict[Edge, int] = {}
    for first in [(tree, rank) for tree in (0, 1) for rank, up in enumerate(parents[tree]) if up is not None]:
        color.setdefault(first, 0)
        reached = [first]
        while reached:
            edge = reached.pop()
            for other in _meeting(edge, parents, children):
                if other not in color:
                    color[other] = 1 - color[edge]
                    reached.append(other)
    return color


def _meeting(
    edge: Edge, parents: Sequence[Sequence[int | None]], children: Sequence[Sequence[Sequence[int]]]
) -> list[Edge]:
    """The edge on which the same rank sends in the other tree, and the one on which the same rank receives.

    An edge meets at most one at each end, so these form lines and rings of even length: two colors are enough.
    """
    tree, child = edge
    parent = parents[tree][child]
    assert parent is not None
    same_sender = [(1 - tree, child)] if parents[1 - tree][child] is not None else []
    same_receiver = [(tree, sibling) for sibling in children[tree][parent] if sibling != child]
    return same_sender + same_receiver


def _find_starts(
    tree: int,
    rank: int,
    children: Sequence[Sequence[Sequence[int]]],
    color: dict[Edge, int],
    start: dict[Edge, int],
) -> int:
    """Fill in `start` below `rank`. Returns the first round in which `rank` has block 0 from all its children."""
    ready = 0
    for child in children[tree][rank]:
        edge = (tree, child)
        earliest = _find_starts(tree, child, children, color, start)
        start[edge] = earliest + (earliest - color[edge]) % 2  # wait for a round of the edge's color
        ready = max(ready, start[edge] + 1)
    return ready

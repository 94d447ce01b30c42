"""Links, clusters and the arithmetic of the collectives. That it is what happens, test_collectives_simulated holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from distlib.network import (
    ALL_REDUCES,
    DEFAULT_LINK,
    Cluster,
    Link,
    all_reduce_seconds,
    choose_all_reduce,
    crossover_bytes,
    crossover_nodes,
    duration,
    square_columns,
    traffic,
)
from distlib.network.powers import beyond_power_of_two, is_power_of_two, powers_of_two_below
from distlib.network.two_trees import Hop, moves_up, two_trees

INTRA, INTER = Link(1e-6, 100e9), Link(5e-6, 10e9)


# ── links and clusters ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_takes_latency_and_bytes_over_bandwidth() -> None:
    assert Link(latency=2.0, bandwidth=8.0).seconds(4) == 2.5
    assert Link(latency=2.0, bandwidth=math.inf).seconds(10**9) == 2.0
    assert str(INTER) == "5 µs, 10 GB/s"


@pytest.mark.parametrize(
    ("latency", "bandwidth"), [(-1e-6, 1e9), (1e-6, 0), (1e-6, -5), (math.nan, 1e9), (1e-6, math.nan), (math.inf, 1e9)]
)
def test_a_link_that_can_not_be(latency: float, bandwidth: float) -> None:
    with pytest.raises(ValueError, match=f"got latency={latency}, bandwidth={bandwidth}"):
        Link(latency, bandwidth)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"nodes": 0}, "an integer of at least 1 as nodes, got nodes=0"),
        ({"ranks_per_node": -1}, "an integer of at least 1 as ranks_per_node, got ranks_per_node=-1"),
        ({"nodes": 2.5}, "an integer of at least 1 as nodes, got nodes=2.5"),
        ({"nodes": True}, "an integer of at least 1 as nodes, got nodes=True"),
        ({"intra": 1e-6}, "expected a Link as intra, such as .*, got 1e-06"),
        ({"inter": None}, "expected a Link as inter, such as .*, got None"),
        ({"eager_limit": -1}, "got eager_limit=-1, jitter=0.0"),
        ({"jitter": -0.5}, "got eager_limit=0, jitter=-0.5"),
        ({"stragglers": {12: 2.0}}, "among the ranks 0 to 11 with factors above 0, got rank 12 with factor 2.0"),
        ({"stragglers": {1: 0}}, "got rank 1 with factor 0"),
    ],
)
def test_a_cluster_that_can_not_be(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Cluster(**({"nodes": 3, "ranks_per_node": 4, "intra": INTRA, "inter": INTER} | arguments))  # type: ignore[arg-type]


def test_a_cluster_takes_numpys_integers() -> None:
    assert Cluster(np.int64(2), np.int32(3)) == Cluster(2, 3)


def test_links_of_a_cluster() -> None:
    cluster = Cluster(nodes=3, ranks_per_node=4, intra=INTRA, inter=INTER)
    assert cluster.world_size == 12
    assert [cluster.node_of(rank) for rank in (0, 3, 4, 11)] == [0, 0, 1, 2]
    assert [cluster.link(4, dst) for dst in (3, 5, 7, 8)] == [INTER, INTRA, INTRA, INTER]
    assert str(cluster) == "3 nodes of 4 ranks, inside a node 1 µs, 100 GB/s, between nodes 5 µs, 10 GB/s"
    assert str(Cluster.flat(4, INTER)) == "links of 5 µs, 10 GB/s"


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 12), st.permutations([INTRA, INTER]))
def test_the_slowest_links_by_looking_at_all_pairs(
    nodes: int, ranks_per_node: int, size: int, links: list[Link]
) -> None:
    cluster = Cluster(nodes, ranks_per_node, *links)
    pairs = [(a, b) for a in range(cluster.world_size) for b in range(a)]

    def check(link: Link, pairs: list[tuple[int, int]], exact: bool = False) -> None:
        latencies = [cluster.link(*pair).latency for pair in pairs]
        if latencies:
            assert link.latency == max(latencies) if exact else link.latency >= max(latencies)

    check(cluster.slowest_link(), pairs, exact=True)
    kinds = {cluster.link(*pair) for pair in pairs}
    if kinds:
        assert cluster.uniform_link() == (kinds.pop() if len(kinds) == 1 else None)
    check(cluster.link_within(size), [(a, b) for a, b in pairs if a // size == b // size], ranks_per_node % size == 0)
    check(cluster.link_across(size), [(a, b) for a, b in pairs if (a - b) % size == 0], size % ranks_per_node == 0)


def test_a_link_that_is_worse_in_one_way_only_is_counted_with_the_worst_of_both() -> None:
    near, far = Link(1e-6, 1e9), Link(5e-6, 10e9)
    assert Cluster(2, 2, near, far).slowest_link() == Link(5e-6, 1e9)


def test_stragglers_and_jitter_come_from_the_seed() -> None:
    cluster = Cluster(1, 4, jitter=0.1, seed=7, stragglers={2: 3.0})
    draws = [cluster.slowdown(rank, number) for rank in range(4) for number in range(50)]
    assert draws == [
        Cluster(1, 4, jitter=0.1, seed=7).slowdown(r, n) * (3 if r == 2 else 1) for r in range(4) for n in range(50)
    ]
    assert len(set(draws)) == 200
    assert all(1 <= draw < 1.1 for draw in draws[:100])
    assert [Cluster(1, 4, jitter=0.1, seed=8).slowdown(0, n) for n in range(50)] != draws[:50]
    assert Cluster(1, 4, stragglers={2: 3.0}).slowdown(2) == 3.0
    assert Cluster(1, 4).slowdown(2, 99) == 1.0


# ── formulas, written out ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [2, 4, 8, 16, 64])
def test_the_textbook_formulas(size: int) -> None:
    alpha, bandwidth = DEFAULT_LINK.latency, DEFAULT_LINK.bandwidth
    cluster = Cluster.flat(size)
    length = 64 * 100
    nbytes, steps, log = length * 4, size - 1, int(math.log2(size))
    share = steps / size * nbytes / bandwidth
    formulas = {
        "naive_all_reduce": 2 * steps * (alpha + nbytes / bandwidth),
        "ring_all_reduce": 2 * steps * alpha + 2 * share,
        "tree_all_reduce": 2 * log * (alpha + nbytes / bandwidth),
        "halving_doubling_all_reduce": 2 * log * alpha + 2 * share,
        "ring_all_gather": steps * alpha + share,
        "recursive_doubling_all_gather": log * alpha + share,
        "bruck_all_gather": log * alpha + share,
        "recursive_halving_reduce_scatter": log * alpha + share,
        "all_to_all": steps * alpha + share,
        "scatter": steps * alpha + share,
    }
    for name, expected in formulas.items():
        assert getattr(duration, name)(cluster, length, 4) == pytest.approx(expected, rel=1e-12), name
    assert duration.barrier(cluster) == pytest.approx(log * alpha)


@given(st.integers(2, 40), st.integers(0, 500))
def test_no_all_reduce_sends_less_in_all_than_the_least_possible(size: int, length: int) -> None:
    for name in ALL_REDUCES:
        options = {
            "double_tree": {"blocks": 2},
            "grid": {"columns": square_columns(size)},
            "hierarchical": {"ranks_per_node": size},
        }
        sent = getattr(traffic, f"{name}_all_reduce")(size, length, 4, **options.get(name, {}))
        assert sum(sent.nbytes) >= 2 * (size - 1) * length * 4


@pytest.mark.parametrize("size", range(1, 40))
def test_ring_grid_and_hierarchical_send_the_least_possible(size: int) -> None:
    least = 2 * (size - 1) * 1000 * 4
    assert sum(traffic.ring_all_reduce(size, 1000, 4).nbytes) == least
    assert sum(traffic.grid_all_reduce(size, 1000, 4, square_columns(size)).nbytes) == least
    if is_power_of_two(size):
        assert sum(traffic.halving_doubling_all_reduce(size, 1000, 4).nbytes) == least


def test_powers_of_two() -> None:
    assert [powers_of_two_below(size) for size in (1, 2, 3, 4, 5)] == [[], [1], [1, 2], [1, 2], [1, 2, 4]]
    assert [size for size in range(1, 20) if is_power_of_two(size)] == [1, 2, 4, 8, 16]
    assert [beyond_power_of_two(size) for size in (1, 2, 3, 6, 8)] == [(0, 1), (0, 2), (1, 2), (2, 4), (0, 8)]


def test_the_grid_is_as_square_as_can_be() -> None:
    assert [square_columns(size) for size in (1, 2, 3, 4, 6, 12, 16, 17, 18)] == [1, 2, 3, 2, 3, 4, 4, 17, 6]


# ── two trees ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [*range(1, 34), 64, 100, 255, 256, 257])
def test_two_trees_complement_each_other(size: int) -> None:
    trees = two_trees(size)
    for parents, children in zip(trees.parents, trees.children, strict=True):
        assert list(parents).count(None) == 1
        assert all(len(below) <= 2 for below in children)
        for rank in range(size):
            for _ in range(2 * size.bit_length()):
                rank = rank if parents[rank] is None else parents[rank]
            assert parents[rank] is None, "every rank is below the root, at most 2·log₂ N edges away"
    inner = [sum(bool(children[rank]) for children in trees.children) for rank in range(size)]
    assert max(inner) <= 1, "no rank is an inner node of both trees"


@pytest.mark.parametrize("size", [*range(1, 34), 64, 100])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_in_a_round_a_rank_sends_at_most_once_and_receives_at_most_once(size: int, blocks: int) -> None:
    plans = [moves_up(rank, size, blocks) for rank in range(size)]
    assert len({len(plan) for plan in plans}) == 1
    have = {(tree, block, rank): {rank} for tree in (0, 1) for block in range(blocks) for rank in range(size)}
    for turn in zip(*plans, strict=True):
        arriving = {}
        for rank, (to_parent, from_child) in enumerate(turn):
            if to_parent is not None:
                assert turn[to_parent.peer][1] == Hop(to_parent.tree, to_parent.block, rank), "both ends agree"
                arriving[to_parent.tree, to_parent.block, to_parent.peer] = have[to_parent.tree, to_parent.block, rank]
            assert from_child is None or turn[from_child.peer][0] == Hop(from_child.tree, from_child.block, rank)
        for key, contributions in arriving.items():
            assert not have[key] & contributions, "nothing is added twice"
            have[key] = have[key] | contributions
    for tree in (0, 1):
        root = two_trees(size).parents[tree].index(None)
        assert all(have[tree, block, root] == set(range(size)) for block in range(blocks))


def test_the_example_of_the_module() -> None:
    trees = two_trees(7)
    assert trees.children[0] == [[], [0, 2], [], [1, 5], [], [4, 6], []]
    assert [sorted(below) for below in trees.children[1]] == [[], [], [1, 3], [], [2, 6], [], [0, 5]]
    assert moves_up(1, 7, 2)[:3] == [
        (None, Hop(tree=0, block=0, peer=0)),
        (Hop(tree=1, block=0, peer=2), Hop(tree=0, block=0, peer=2)),
        (Hop(tree=0, block=0, peer=3), Hop(tree=0, block=1, peer=0)),
    ]


@pytest.mark.parametrize("size", [2, 3, 4, 8, 17, 64])
@pytest.mark.parametrize("length", [0, 1, 10, 5_000, 1_000_000])
def test_the_best_number_of_blocks_is_the_best(size: int, length: int) -> None:
    cluster = Cluster.flat(size)
    best = duration.best_blocks(cluster, length, 4)
    taken = duration.double_tree_all_reduce(cluster, length, 4, best)
    others = [duration.double_tree_all_reduce(cluster, length, 4, blocks) for blocks in range(1, 200)]
    assert taken <= min(others) * 1.02


@pytest.mark.parametrize("size", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("length", [0, 1, 10, 5_000, 1_000_000])
def test_the_best_number_of_blocks_of_a_chain_is_the_best(size: int, length: int) -> None:
    cluster = Cluster.flat(size)
    best = duration.best_chain_blocks(cluster, length, 4)
    taken = duration.chain_broadcast(cluster, length, 4, blocks=best)
    others = [duration.chain_broadcast(cluster, length, 4, blocks=blocks) for blocks in range(1, 1000)]
    assert taken <= min(others) * 1.02


def test_the_double_tree_comes_near_the_bandwidth_of_the_ring_in_far_fewer_rounds() -> None:
    cluster, length = Cluster.flat(1024), 250_000_000
    blocks = duration.best_blocks(cluster, length, 4)
    assert duration.double_tree_all_reduce(cluster, length, 4, blocks) < 1.2 * duration.ring_all_reduce(
        cluster, length, 4
    )
    assert duration.double_tree_all_reduce(cluster, 0, 4, 1) < duration.ring_all_reduce(cluster, 0, 4) / 25


# ── the choice ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**7))
def test_the_choice_is_the_fastest(nodes: int, ranks_per_node: int, length: int) -> None:
    cluster = Cluster(nodes, ranks_per_node, INTRA, INTER)
    choice = choose_all_reduce(cluster, length, 4)
    assert set(choice.seconds) == set(ALL_REDUCES)
    assert list(choice.seconds.values()) == sorted(choice.seconds.values())
    assert choice.seconds[choice.algorithm] == min(all_reduce_seconds(name, cluster, length, 4) for name in ALL_REDUCES)


def test_the_choice_says_why() -> None:
    choice = choose_all_reduce(Cluster(4, 8, INTRA, INTER), 1_000_000, 4)
    assert choice.algorithm == "hierarchical"
    assert str(choice).startswith(
        "hierarchical for 4,000,000 bytes on 32 ranks (4 nodes of 8 ranks, inside a node 1 µs, 100 GB/s, "
        "between nodes 5 µs, 10 GB/s): 179 µs, of which latency 34 µs and bytes 145 µs. Others: "
    )
    assert all(f"{name} " in str(choice) for name in ALL_REDUCES)


def test_of_equals_the_simplest_is_chosen() -> None:
    assert choose_all_reduce(Cluster.flat(1), 10, 4).algorithm == "naive"
    assert choose_all_reduce(Cluster.flat(2), 1000, 4).algorithm == "ring"


def test_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(ValueError, match="expected one of the algorithms naive, ring, .*, got 'star'"):
        all_reduce_seconds("star", Cluster.flat(2), 10, 4)


@pytest.mark.parametrize("size", [8, 64, 512])
def test_from_the_crossover_on_the_ring_beats_the_tree(size: int) -> None:
    cluster = Cluster.flat(size)
    nbytes = crossover_bytes(cluster, "tree", "ring")
    assert nbytes is not None
    for length, ring_wins in ((nbytes // 4 - 1, False), (nbytes // 4, True)):
        ring, tree = (all_reduce_seconds(name, cluster, length, 4) for name in ("ring", "tree"))
        assert (ring < tree) is ring_wins
    # In the limit of long chunks: 2(N−1)·α + 2(N−1)/N·S/B = 2·log₂ N·(α + S/B), solved for S.
    log = math.log2(size)
    solved = (size - 1 - log) * DEFAULT_LINK.latency * DEFAULT_LINK.bandwidth / (log - (size - 1) / size)
    assert nbytes == pytest.approx(solved, rel=0.01)


def test_crossovers_that_are_at_once_or_never() -> None:
    cluster = Cluster.flat(16)
    assert crossover_bytes(cluster, "naive", "tree") == 0
    assert crossover_bytes(cluster, "halving_doubling", "naive") is None


def test_from_how_many_nodes_on_the_tree_beats_the_ring() -> None:
    nodes = crossover_nodes("ring", "tree", 4_000_000, 8, INTRA, INTER)
    assert nodes is not None and nodes > 2
    for count, wins in ((nodes - 1, False), (nodes, True)):
        ring, tree = (
            all_reduce_seconds(name, Cluster(count, 8, INTRA, INTER), 1_000_000, 4) for name in ("ring", "tree")
        )
        assert (tree < ring) is wins


def test_from_two_nodes_on_hierarchical_beats_the_ring() -> None:
    assert crossover_nodes("ring", "hierarchical", 4_000_000, 8, INTRA, INTER) == 2
    assert crossover_nodes("hierarchical", "naive", 4_000_000, 8, max_nodes=50) is None
    clusters = [Cluster(nodes, 8, INTRA, INTER) for nodes in (1, 2, 4, 8, 16, 32, 64)]
    ring, hierarchical = (
        [all_reduce_seconds(name, cluster, 1_000_000, 4) for cluster in clusters] for name in ("ring", "hierarchical")
    )
    gains = [a / b for a, b in zip(ring, hierarchical, strict=True)]
    assert gains[0] == 1 and min(gains[1:]) > 6 and gains[-1] == max(gains)

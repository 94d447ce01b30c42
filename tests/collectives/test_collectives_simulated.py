"""Every collective on simulated ranks: its results against one process, its messages and its time against `network`."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy
import pytest
import torch
from hypothesis import given, settings, strategies as st

from distlib import Communicator, MessageMismatch, RankError, ReduceOp, SimulatedWorld, collectives
from distlib.collectives.cluster_of import cluster_of
from distlib.collectives.group import RankGroup
from distlib.network import (
    ALL_REDUCES,
    Cluster,
    Link,
    all_reduce_seconds,
    choose_all_reduce,
    duration,
    traffic,
)
from distlib.network.powers import is_power_of_two
from tests.tools.collective_cases import COLLECTIVES, Options, call, chunk, inputs, reference, roots, sent

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17)
LENGTHS = (0, 1, 2, 5, 13, 16, 31, 96)  # empty, fewer than the ranks, primes, and some that divide
FEW_LENGTHS = (0, 5, 31, 96)  # for more than eight ranks, where a run takes long
LINK = Link(latency=3e-6, bandwidth=1.7e9)
REDUCING = [name for name in COLLECTIVES if "reduce" in name]


def simulate(cluster: Cluster | int, fn, *args) -> tuple[list, SimulatedWorld]:
    """Run `fn`; a number is that many ranks with LINK between any two."""
    cluster = Cluster.flat(cluster, LINK) if isinstance(cluster, int) else cluster
    world = SimulatedWorld(cluster.world_size, cluster, record=False)
    return world.run(fn, *args, timeout=100), world


def has_equal_blocks(name: str, length: int, options: Options) -> bool:
    """The double tree and the chain have a closed form only where all their blocks are equally long."""
    return "blocks" not in options or length % ((1 + (name == "double_tree_all_reduce")) * options["blocks"]) == 0


# ── results, messages, bytes, rounds, seconds ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "size", [pytest.param(size, marks=pytest.mark.slow if size in (5, 6, 8, 9, 12, 16) else ()) for size in SIZES]
)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_results_traffic_and_time(name: str, size: int) -> None:
    check, options_for = COLLECTIVES[name]
    for length in LENGTHS if size <= 8 else FEW_LENGTHS:
        tensors = inputs(size, length)
        for options in options_for(size):
            case = f"{length} elements, {options}"
            after, world = simulate(size, call, name, tensors, options)
            assert check(tensors, after, options), case
            assert sent(world) == getattr(traffic, name)(size, length, 8, **options), case
            predicted = getattr(duration, name)(world.cluster, length, 8, **options)
            if has_equal_blocks(name, length, options):
                assert world.elapsed == pytest.approx(predicted, rel=1e-9, abs=0), case
            else:
                assert world.elapsed <= predicted * (1 + 1e-9), case


@given(
    st.sampled_from(list(COLLECTIVES)),
    st.integers(1, 20),
    st.integers(0, 60),
    st.integers(0, 1000),
    st.sampled_from([torch.int16, torch.int32, torch.float64]),
)
@settings(max_examples=150)
def test_any_size_and_length(name: str, size: int, length: int, pick: int, dtype: torch.dtype) -> None:
    check, options_for = COLLECTIVES[name]
    options = options_for(size)[pick % len(options_for(size))]
    tensors = inputs(size, length, dtype)
    after, world = simulate(size, call, name, tensors, options)
    assert check(tensors, after, options)
    assert sent(world) == getattr(traffic, name)(size, length, dtype.itemsize, **options)
    assert world.elapsed <= getattr(duration, name)(world.cluster, length, dtype.itemsize, **options) * (1 + 1e-9)


DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


def has_meaning(op: ReduceOp, dtype: torch.dtype) -> bool:
    if op is ReduceOp.AVG:
        return dtype.is_floating_point or dtype.is_complex
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return not dtype.is_complex
    return op is ReduceOp.PRODUCT or dtype is not torch.bool


@pytest.mark.parametrize("op", list(ReduceOp))
@pytest.mark.parametrize("algorithm", [*ALL_REDUCES, "auto"])
def test_every_op_on_every_dtype(algorithm: str, op: ReduceOp) -> None:
    for dtype in DTYPES:
        tensors = inputs(6, 13, dtype, high=3)  # 1 and 2: their sums and products are exact in every dtype
        if not has_meaning(op, dtype):
            with pytest.raises(RankError, match="ValueError"):
                simulate(6, call, "all_reduce", tensors, {"algorithm": algorithm}, op)
            continue
        after, _ = simulate(6, call, "all_reduce", tensors, {"algorithm": algorithm}, op)
        for tensor in after:
            assert tensor.dtype is dtype and torch.equal(tensor, reference(tensors, op)), dtype


@pytest.mark.parametrize("name", REDUCING)
def test_every_op_with_every_option(name: str) -> None:
    for size in (3, 4, 6):
        for options in COLLECTIVES[name][1](size):
            for op in ReduceOp:
                tensors = inputs(size, 13, torch.float64, high=3)
                after, _ = simulate(size, call, name, tensors, options, op)
                result = after[options.get("root", -1)]
                if "scatter" in name:
                    result = torch.cat([chunk(after[rank], size, rank) for rank in range(size)])
                assert torch.equal(result, reference(tensors, op)), (size, options, op)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_view_is_written_in_place_and_the_rest_left_alone(name: str) -> None:
    check, options_for = COLLECTIVES[name]
    for size in (3, 4, 6):
        options = options_for(size)[-1]
        for shape in ("transposed", "strided", "scalar"):
            after, _ = simulate(size, call_on_view, name, shape, options)
            views = [view_of(matrix, shape) for matrix in after]
            before = [view_of(matrix_of(rank), shape) for rank in range(size)]
            flat = [view.reshape(-1) for view in views]
            assert check([view.reshape(-1) for view in before], flat, options), (size, shape)
            for rank, view in enumerate(views):
                view.copy_(before[rank])
                assert torch.equal(after[rank], matrix_of(rank)), (size, shape)


def matrix_of(rank: int) -> torch.Tensor:
    return torch.arange(60, dtype=torch.float64).view(6, 10) + 100 * rank


def view_of(matrix: torch.Tensor, shape: str) -> torch.Tensor:
    return {"transposed": matrix.t()[1:, ::2], "strided": matrix[::2, 3:8], "scalar": matrix[2, 2]}[shape]


def call_on_view(comm: Communicator, name: str, shape: str, options: Options) -> torch.Tensor:
    matrix = matrix_of(comm.rank)
    getattr(collectives, name)(comm, view_of(matrix, shape), **options)
    return matrix


@pytest.mark.parametrize("name", COLLECTIVES)
def test_shapes_without_contents(name: str) -> None:
    def on_meta(comm: Communicator, options: Options) -> None:
        getattr(collectives, name)(comm, torch.empty(40, device="meta"), **options)

    for options in COLLECTIVES[name][1](20):
        _, world = simulate(20, on_meta, options)
        assert sent(world) == getattr(traffic, name)(20, 40, 4, **options)


# ── all-to-all and barrier ───────────────────────────────────────────────────────────────────────────────────────────


def exchange_pieces(comm: Communicator, length: int) -> list[list[int]]:
    """Rank i has chunk j of 1000·i, 1000·i + 1, … for rank j; all pieces for rank j are equally long."""
    rank, size = comm.rank, comm.world_size
    inputs = list(torch.tensor_split(1000 * rank + torch.arange(length), size))
    outputs = [torch.zeros_like(inputs[rank]) for _ in range(size)]
    collectives.all_to_all(comm, outputs, inputs)
    return [output.tolist() for output in outputs]


@pytest.mark.parametrize("size", SIZES)
def test_all_to_all(size: int) -> None:
    for length in LENGTHS:
        results, world = simulate(size, exchange_pieces, length)
        for rank, outputs in enumerate(results):
            for src, output in enumerate(outputs):
                assert output == chunk(1000 * src + torch.arange(length), size, rank).tolist()
        assert sent(world) == traffic.all_to_all(size, length, 8)
        assert world.elapsed == pytest.approx(duration.all_to_all(world.cluster, length, 8), rel=1e-9)


@pytest.mark.parametrize("size", SIZES)
def test_a_barrier_waits_for_the_last_rank(size: int) -> None:
    def arrive(comm: Communicator, late: int) -> float:
        comm.sleep(1.0 if comm.rank == late else 0.0)
        collectives.barrier(comm)
        return comm.time()

    for late in range(size):
        times, world = simulate(size, arrive, late)
        assert min(times) >= 1.0
        assert sent(world) == traffic.barrier(size)
        assert max(times) == pytest.approx(1.0 + duration.barrier(world.cluster), rel=1e-12)


# ── clusters of nodes, and the choice by them ────────────────────────────────────────────────────────────────────────

INTRA, INTER = Link(1e-6, 100e9), Link(5e-6, 10e9)


def reduce_ones(comm: Communicator, length: int, algorithm: str) -> float:
    tensor = torch.ones(length, dtype=torch.float64)
    collectives.all_reduce(comm, tensor, algorithm=algorithm)
    return tensor.sum().item()


@pytest.mark.parametrize("algorithm", ALL_REDUCES)
@pytest.mark.parametrize(("nodes", "ranks_per_node"), [(2, 4), (4, 4), (3, 4), (3, 3), (8, 1), (5, 2), (1, 6)])
def test_on_two_kinds_of_links_the_formula_is_an_upper_bound(algorithm: str, nodes: int, ranks_per_node: int) -> None:
    cluster = Cluster(nodes, ranks_per_node, INTRA, INTER)
    size = cluster.world_size
    exact = algorithm in ("naive", "ring", "grid", "hierarchical") or (
        algorithm in ("tree", "halving_doubling") and is_power_of_two(size)
    )
    for length in (1, 1000, 144 * size):
        results, world = simulate(cluster, reduce_ones, length, algorithm)
        assert results == [length * size] * size
        predicted = all_reduce_seconds(algorithm, cluster, length, 8)
        assert world.elapsed <= predicted * (1 + 1e-9), length
        if exact and length == 144 * size:
            assert world.elapsed == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("length", [1, 500, 50_000, 5_000_000])
def test_auto_takes_what_is_fastest(length: int, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(4, 4, INTRA, INTER)

    def on_meta(comm: Communicator, algorithm: str) -> None:
        collectives.all_reduce(comm, torch.empty(length, device="meta"), algorithm=algorithm)

    with caplog.at_level(logging.INFO, logger="distlib"):
        _, world = simulate(cluster, on_meta, "auto")
    choice = choose_all_reduce(cluster, length, 4)
    assert world.elapsed <= choice.seconds[choice.algorithm] * (1 + 1e-9)
    assert caplog.messages == [f"all_reduce chose {choice}"]
    times = {name: simulate(cluster, on_meta, name)[1].elapsed for name in ALL_REDUCES}
    assert world.elapsed == pytest.approx(min(times.values()), rel=1e-9)


def test_a_part_of_a_cluster_counts_as_one_node_with_the_slowest_link() -> None:
    def in_halves(comm: Communicator, algorithm: str) -> tuple[float, Cluster]:
        half = comm.split(comm.rank % 2)
        assert half is not None
        return reduce_ones(half, 10, algorithm), cluster_of(half)

    for algorithm in (*ALL_REDUCES, "auto"):
        results, _ = simulate(Cluster(3, 4, INTRA, INTER), in_halves, algorithm)
        assert results == [(60.0, Cluster.flat(6, INTER))] * 12


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("root", [-1, 3, True, "0", None])
@pytest.mark.parametrize("name", [name for name, (_, options) in COLLECTIVES.items() if options is roots])
def test_a_root_that_does_not_exist(name: str, root: object) -> None:
    with pytest.raises(RankError, match=f"expected an integer from 0 to 2 as root, got root={root!r}") as caught:
        simulate(3, call, name, inputs(3, 4), {"root": root})
    assert caught.value.ranks == [0, 1, 2]


@pytest.mark.parametrize("value", [4, 0, -2, 1.5, 12])
@pytest.mark.parametrize("option", ["columns", "ranks_per_node"])
def test_sizes_that_do_not_multiply_out(option: str, value: object) -> None:
    name = {"columns": "grid_all_reduce", "ranks_per_node": "hierarchical_all_reduce"}[option]
    says = rf"expected {option} to divide the 6 ranks \(1, 2, 3, 6\), got {option}={value}"
    with pytest.raises(RankError, match=says):
        simulate(6, call, name, inputs(6, 4), {option: value})


@pytest.mark.parametrize("blocks", [0, -1, 2.0])
def test_a_number_of_blocks_that_can_not_be(blocks: object) -> None:
    with pytest.raises(RankError, match=f"expected an integer of at least 1 as blocks, got blocks={blocks}"):
        simulate(3, call, "double_tree_all_reduce", inputs(3, 4), {"blocks": blocks})


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("tree_broadcast", "root"),
        ("chain_reduce", "root"),
        ("scatter", "root"),
        ("grid_all_reduce", "columns"),
        ("hierarchical_all_reduce", "ranks_per_node"),
        ("double_tree_all_reduce", "blocks"),
    ],
)
def test_an_integer_of_numpy_on_one_rank_is_the_same_as_those_on_others(name: str, option: str) -> None:
    tensors, plain = inputs(4, 8), {option: 2}

    def mixed(comm: Communicator) -> torch.Tensor:
        return call(comm, name, tensors, {option: numpy.int64(2)} if comm.rank == 1 else plain)

    after, _ = simulate(4, mixed)
    assert COLLECTIVES[name][0](inputs(4, 8), after, plain)


@pytest.mark.parametrize("name", ["broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"])
def test_an_unknown_algorithm_is_named(name: str) -> None:
    with pytest.raises(RankError, match="expected one of the algorithms .*, got 'star'"):
        simulate(2, call, name, inputs(2, 4), {"algorithm": "star"})


@pytest.mark.parametrize("name", COLLECTIVES)
def test_different_lengths_or_dtypes_on_two_ranks_are_a_mismatch(name: str) -> None:
    options = COLLECTIVES[name][1](6)[0]
    others = [torch.ones(20), torch.ones(13, dtype=torch.float64)]
    if name not in ("scatter", "gather"):  # there, a rank sees one chunk only, which may have the same length by chance
        others.append(torch.ones(14))
    for odd_one in range(6):
        for other in others:
            tensors = [torch.ones(13)] * 6
            tensors[odd_one] = other
            with pytest.raises(MessageMismatch):
                simulate(6, call, name, tensors, options)


def test_all_to_all_wants_a_piece_for_everybody() -> None:
    def too_few(comm: Communicator) -> None:
        collectives.all_to_all(comm, [torch.ones(1)] * 3, [torch.ones(1)] * 2)

    def own_piece(comm: Communicator) -> None:
        collectives.all_to_all(comm, [torch.ones(2)] * 3, [torch.ones(1)] * 3)

    with pytest.raises(RankError, match="one tensor for each of the 3 ranks as inputs, got 2"):
        simulate(3, too_few)
    with pytest.raises(
        RankError, match=r"inputs\[0\] itself, with 1 elements of torch.float32, but outputs\[0\] has 2"
    ):
        simulate(3, own_piece)


# ── a group of ranks ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_group_numbers_its_ranks_anew() -> None:
    def talk(comm: Communicator) -> object:
        if comm.rank not in (1, 3, 4):
            return None
        group = RankGroup(comm, (4, 1, 3))
        tensor = torch.tensor([float(comm.rank)])
        if group.rank == 0:
            group.send(tensor, 2)
            group.isend(tensor, 1).wait()
        elif group.rank == 1:
            group.irecv(tensor, 0).wait()
        else:
            assert group.recv(tensor, 0) == 0
        return group.rank, group.size, tensor.item(), group.time() == comm.time()

    results, _ = simulate(5, talk)
    assert results == [None, (1, 3, 4.0, True), None, (2, 3, 4.0, True), (0, 3, 4.0, True)]


@pytest.mark.parametrize(
    ("misuse", "says"),
    [
        (lambda group: group.barrier(), r"use distlib.collectives.barrier\(group\)"),
        (lambda group: group.split(0), "split the communicator it is a part of"),
        (lambda group: group.recv(torch.ones(1)), "not from anyone: name src"),
    ],
)
def test_what_a_group_can_not_do(misuse: Callable[[RankGroup], object], says: str) -> None:
    with pytest.raises(RankError, match=says):
        simulate(2, lambda comm: misuse(RankGroup(comm, (0, 1))))


@pytest.mark.slow
def test_thousands_of_ranks() -> None:
    for algorithm in ("tree", "halving_doubling", "double_tree", "hierarchical"):
        cluster = Cluster(64, 16, INTRA, INTER)
        results, world = simulate(cluster, reduce_ones, 100, algorithm)
        assert results == [100 * 1024] * 1024
        assert world.elapsed <= all_reduce_seconds(algorithm, cluster, 100, 8) * (1 + 1e-9)

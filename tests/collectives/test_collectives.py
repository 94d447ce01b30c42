"""The collectives on real ranks: against a single-process reference, and their messages against the formulas.

More sizes, options and dtypes are in test_collectives_simulated.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from distlib import Communicator, MessageMismatch, ReduceOp, World, all_reduce, all_to_all, barrier, collectives
from distlib.collectives import ring_all_gather, ring_reduce_scatter
from distlib.collectives.one_machine import choose_on_one_machine
from distlib.network import ALL_REDUCES, traffic
from distlib.partition import chunk_lengths, chunk_start, chunks_of, flat_view, write_back
from tests.tools.collective_cases import COLLECTIVES, call, inputs, reference, sent

ALGORITHMS = [*ALL_REDUCES, "auto"]
SIZES = (1, 2, 3, 4, 7)
LENGTHS = (0, 1, 3, 8, 10, 17)


def reduce_mine(comm: Communicator, tensors: list[torch.Tensor], op: ReduceOp, algorithm: str) -> torch.Tensor:
    all_reduce(comm, tensors[comm.rank], op, algorithm)
    return tensors[comm.rank]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("world_size", SIZES)
def test_every_rank_gets_the_sum(worlds, world_size: int, algorithm: str) -> None:
    for length in LENGTHS:
        tensors = inputs(world_size, length, torch.float32)
        for result in worlds(world_size).run(reduce_mine, tensors, ReduceOp.SUM, algorithm, timeout=100):
            assert torch.equal(result, reference(tensors, ReduceOp.SUM)), length


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("op", list(ReduceOp))
def test_every_op(worlds, op: ReduceOp, algorithm: str) -> None:
    tensors = inputs(3, 10, torch.float64, high=4)
    for result in worlds(3).run(reduce_mine, tensors, op, algorithm, timeout=100):
        assert torch.equal(result, reference(tensors, op))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.complex64])
def test_every_kind_of_number(worlds, dtype: torch.dtype) -> None:
    tensors = inputs(3, 10, dtype, high=4)
    for result in worlds(3).run(reduce_mine, tensors, ReduceOp.SUM, "ring", timeout=100):
        assert torch.equal(result, reference(tensors, ReduceOp.SUM))


def reduce_a_view(comm: Communicator, algorithm: str) -> torch.Tensor:
    matrix = torch.full((4, 5), float(comm.rank + 1))
    all_reduce(comm, matrix.t()[1:, ::2], algorithm=algorithm)
    return matrix


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_view_is_reduced_in_place_and_the_rest_is_left_alone(worlds, algorithm: str) -> None:
    for rank, matrix in enumerate(worlds(3).run(reduce_a_view, algorithm, timeout=100)):
        expected = torch.full((4, 5), float(rank + 1))
        expected.t()[1:, ::2] = 6.0
        assert torch.equal(matrix, expected)


def call_on_parameter(comm: Communicator, name: str) -> torch.Tensor:
    parameter = torch.nn.Parameter(torch.full((5,), float(comm.rank)))
    getattr(collectives, name)(comm, parameter)
    assert parameter.requires_grad and parameter.grad_fn is None
    return parameter.detach()


@pytest.mark.parametrize("name", COLLECTIVES)
def test_parameters_that_require_gradients(worlds, name: str) -> None:
    before = [torch.full((5,), float(rank)) for rank in range(3)]
    assert COLLECTIVES[name][0](before, worlds(3).run(call_on_parameter, name, timeout=100), {"root": 0})


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("world_size", [*SIZES, 6])
def test_results_and_traffic_of_every_collective(worlds, name: str, world_size: int) -> None:
    check, options_for = COLLECTIVES[name]
    world = worlds(world_size)
    for length in (0, 5, 17):
        tensors = inputs(world_size, length)
        for options in options_for(world_size):
            after = world.run(call, name, tensors, options, timeout=100)
            assert check(tensors, after, options), (length, options)
            assert sent(world) == getattr(traffic, name)(world_size, length, 8, **options), (length, options)


def exchange_pieces(comm: Communicator) -> list[torch.Tensor]:
    inputs = [torch.full((peer + 1,), comm.rank) for peer in range(comm.world_size)]
    outputs = [torch.zeros(comm.rank + 1, dtype=torch.int64) for _ in range(comm.world_size)]
    all_to_all(comm, outputs, inputs)
    return outputs


def test_all_to_all_with_pieces_of_different_length(worlds) -> None:
    for world_size in SIZES:
        for rank, outputs in enumerate(worlds(world_size).run(exchange_pieces, timeout=100)):
            assert all(torch.equal(output, torch.full((rank + 1,), src)) for src, output in enumerate(outputs))


def pass_barrier(comm: Communicator) -> None:
    barrier(comm)


def test_a_barrier_is_empty_messages(worlds) -> None:
    for world_size in SIZES:
        worlds(world_size).run(pass_barrier, timeout=100)
        assert sent(worlds(world_size)) == traffic.barrier(world_size)


def reduce_in_halves(comm: Communicator, algorithm: str) -> float:
    half = comm.split(comm.rank % 2)
    assert half is not None
    tensor = torch.full((10,), float(comm.rank))
    all_reduce(half, tensor, algorithm=algorithm)
    return tensor.sum().item()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_inside_a_part_of_the_world(worlds, algorithm: str) -> None:
    assert worlds(7).run(reduce_in_halves, algorithm, timeout=100) == [120.0, 90.0] * 3 + [120.0]


@pytest.mark.parametrize("world_size", SIZES)
def test_the_ring_sends_two_n_minus_one_chunks_in_as_many_rounds(worlds, world_size: int) -> None:
    world = worlds(world_size)
    for length in LENGTHS:
        tensors = inputs(world_size, length, torch.float32)
        world.run(reduce_mine, tensors, ReduceOp.SUM, "ring", timeout=100)
        steps = world_size - 1
        assert world.trace.rounds == 2 * steps
        assert world.trace.messages_sent == world.trace.messages_received == [2 * steps] * world_size
        assert world.trace.bytes_sent == ring_bytes(world_size, length, itemsize=4)
        assert sum(world.trace.bytes_sent) == 2 * steps * length * 4  # on average 2(N−1)/N·S a rank


def ring_bytes(world_size: int, length: int, itemsize: int) -> list[int]:
    """Reduce-scatter: all chunks but the rank's own; all-gather: all but the next rank's."""
    lengths = chunk_lengths(length, world_size)
    return [itemsize * (2 * length - lengths[r] - lengths[(r + 1) % world_size]) for r in range(world_size)]


@pytest.mark.parametrize("world_size", SIZES)
def test_through_the_master_everything_passes_rank_0_in_two_rounds(worlds, world_size: int) -> None:
    world = worlds(world_size)
    world.run(reduce_mine, inputs(world_size, 10, torch.float32), ReduceOp.SUM, "naive", timeout=100)
    others, size = world_size - 1, 40
    assert world.trace.rounds == (2 if others else 0)
    assert world.trace.bytes_sent == world.trace.bytes_received == [others * size] + [size] * others


def scatter_mine(comm: Communicator, tensors: list[torch.Tensor], op: ReduceOp) -> torch.Tensor:
    mine = tensors[comm.rank]
    ring_reduce_scatter(comm, mine, op)
    return torch.tensor_split(mine, comm.world_size)[comm.rank]


@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.AVG])
def test_reduce_scatter_leaves_each_rank_its_own_chunk(worlds, op: ReduceOp) -> None:
    for world_size in SIZES:
        tensors = inputs(world_size, 10, torch.float32)
        chunks = worlds(world_size).run(scatter_mine, tensors, op, timeout=100)
        assert torch.equal(torch.cat(chunks), reference(tensors, op))


def gather_mine(comm: Communicator, length: int) -> torch.Tensor:
    tensor = torch.full((length,), -1.0)
    torch.tensor_split(tensor, comm.world_size)[comm.rank].fill_(comm.rank)
    ring_all_gather(comm, tensor)
    return tensor


def test_all_gather_brings_every_chunk_everywhere(worlds) -> None:
    for world_size in SIZES:
        expected = torch.cat([torch.full((n,), float(r)) for r, n in enumerate(chunk_lengths(10, world_size))])
        for result in worlds(world_size).run(gather_mine, 10, timeout=100):
            assert torch.equal(result, expected)


@given(st.lists(st.integers(-1000, 1000), max_size=40), st.sampled_from([1, 2, 3, 4]))
@settings(max_examples=25)
def test_ring_and_naive_agree(worlds, values: list[int], world_size: int) -> None:
    tensors = [torch.tensor(values, dtype=torch.int64) * (rank + 1) for rank in range(world_size)]
    world = worlds(world_size)
    ring = world.run(reduce_mine, tensors, ReduceOp.SUM, "ring", timeout=100)
    naive = world.run(reduce_mine, tensors, ReduceOp.SUM, "naive", timeout=100)
    for a, b in zip(ring, naive, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (ReduceOp.AVG, torch.int64),
        (ReduceOp.MIN, torch.complex64),
        (ReduceOp.SUM, torch.bool),
        ("sum", torch.float32),
    ],
)
def test_an_op_without_meaning_is_refused_on_every_rank(worlds, op: ReduceOp, dtype: torch.dtype) -> None:
    with pytest.raises(Exception, match="ValueError") as caught:
        worlds(2).run(reduce_mine, inputs(2, 4, dtype, high=4), op, "ring", timeout=100)
    assert caught.value.ranks == [0, 1]


def test_an_unknown_algorithm_is_named(worlds) -> None:
    with pytest.raises(Exception, match="auto, double_tree, .*, ring, tree, got 'star'"):
        worlds(2).run(reduce_mine, inputs(2, 4), ReduceOp.SUM, "star", timeout=100)


def test_different_lengths_or_dtypes_on_two_ranks_are_a_mismatch(worlds) -> None:
    for other in (torch.ones(6), torch.ones(4, dtype=torch.float64)):
        with pytest.raises(MessageMismatch):
            worlds(2).run(reduce_mine, [torch.ones(4), other], ReduceOp.SUM, "ring", timeout=100)
    for algorithm in ALL_REDUCES:
        with pytest.raises(MessageMismatch):
            worlds(3).run(reduce_mine, [torch.ones(9)] * 2 + [torch.ones(10)], ReduceOp.SUM, algorithm, timeout=100)


@given(st.integers(0, 50), st.integers(1, 12))
def test_chunks_are_cut_as_torch_cuts_them(length: int, parts: int) -> None:
    chunks = list(chunks_of(torch.arange(length), parts))
    assert [len(chunk) for chunk in chunks] == chunk_lengths(length, parts)
    assert [chunk_start(length, parts, index) for index in range(parts + 1)] == [
        sum(chunk_lengths(length, parts)[:index]) for index in range(parts + 1)
    ]
    assert torch.equal(torch.cat(chunks), torch.arange(length))


def test_chunk_lengths_refuses_what_can_not_be_cut() -> None:
    for length, parts in ((-1, 2), (4, 0)):
        with pytest.raises(ValueError, match=f"length={length}, parts={parts}"):
            chunk_lengths(length, parts)


def test_a_flat_view_is_written_back_also_where_it_had_to_be_a_copy() -> None:
    for tensor in (torch.zeros(2, 3), torch.zeros(3, 2).t(), torch.zeros(4, 6)[::2, ::2]):
        flat = flat_view(tensor)
        flat += torch.arange(flat.numel())
        write_back(tensor, flat)
        assert torch.equal(tensor.reshape(-1), torch.arange(6.0))


def test_a_world_of_one_needs_no_message() -> None:
    with World(1) as world:
        assert torch.equal(world.run(reduce_mine, [torch.ones(3)], ReduceOp.SUM, "ring")[0], torch.ones(3))
        assert len(world.trace) == 0


def test_auto_on_one_machine_takes_few_messages_for_small_tensors_and_all_cores_for_large_ones() -> None:
    chosen = {nbytes: choose_on_one_machine(4, nbytes) for nbytes in (1 << 12, 1 << 20, 1 << 26)}
    assert chosen == {1 << 12: "naive", 1 << 20: "naive", 1 << 26: "ring"}
    assert choose_on_one_machine(64, 1 << 12) == choose_on_one_machine(8, 1 << 20) == "tree"

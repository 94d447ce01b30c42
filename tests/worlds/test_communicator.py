"""send, recv, isend, irecv, exchange, barrier, split on real ranks: sizes, dtypes, order, and every kind of tensor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy
import psutil
import pytest
import torch

from distlib import Communicator, MessageMismatch, RankError, World, torch_distributed
from distlib.worlds.real.mailbox import INLINE_BYTES

LARGE = INLINE_BYTES  # this many elements are too many for a control message, whatever the dtype
DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32,
]  # fmt: skip


@pytest.fixture(scope="module", params=["default", "gloo"])
def worlds(request) -> Iterator[Callable[[int], World]]:
    """As in conftest, once with the best that the machine has, which is shared memory on Linux, and once over gloo."""
    made: dict[int, World] = {}
    backend = None if request.param == "default" else request.param

    def of_size(size: int) -> World:
        if size not in made:
            made[size] = World(size, backend)
        return made[size]

    yield of_size
    for world in made.values():
        world.close()


def pass_on(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """Rank 0 sends to rank 1."""
    incoming = torch.zeros_like(tensor)
    if comm.rank == 0:
        comm.send(tensor, 1)
    else:
        assert comm.recv(incoming, 0) == 0
    return incoming


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("length", [0, 1, 10, LARGE + 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_small_and_large(worlds, dtype: torch.dtype, length: int) -> None:
    raw = torch.randint(0, 2, (length * dtype.itemsize,), dtype=torch.uint8)
    tensor = raw.view(dtype) if length else torch.zeros(0, dtype=dtype)
    received = worlds(2).run(pass_on, tensor, timeout=100)[1]
    assert torch.equal(received.view(torch.uint8), tensor.view(torch.uint8))


def strided(length: int) -> list[torch.Tensor]:
    """Views whose elements do not lie side by side."""
    return [
        torch.arange(4.0 * length).reshape(2, -1).t(),
        torch.arange(3.0 * length)[::3],
        torch.arange(float(length)).expand(3, -1),
        torch.arange(2 * length, dtype=torch.float32).view(torch.complex64).conj(),
    ]


def pass_on_strided(comm: Communicator, length: int) -> list[torch.Tensor]:
    received = []
    for tensor in strided(length):
        incoming = (
            torch.zeros(tensor.shape[::-1], dtype=tensor.dtype).t() if tensor.ndim == 2 else torch.zeros_like(tensor)
        )
        if comm.rank == 0:
            comm.send(tensor, 1)
        else:
            comm.recv(incoming, 0)
        received.append(incoming)
    return received


@pytest.mark.parametrize("length", [6, LARGE])
def test_non_contiguous_tensors_on_both_sides(worlds, length: int) -> None:
    received = worlds(2).run(pass_on_strided, length, timeout=100)[1]
    for got, sent in zip(received, strided(length), strict=True):
        assert torch.equal(got, sent)


def receive_into_views(comm: Communicator, sent: torch.Tensor) -> list[bool]:
    """Into views whose memory holds the conjugates, or the negatives, of their elements; and into the memory itself."""
    came = []
    for view_of in (torch.Tensor.conj, lambda memory: memory.conj().imag, lambda memory: memory):
        view = view_of(torch.zeros_like(sent))
        outgoing = sent.imag.contiguous() if view.dtype == torch.float32 else sent
        if comm.rank == 0:
            comm.send(outgoing, 1)
        else:
            comm.recv(view, 0)
            came.append(torch.equal(view, outgoing))
    return came


def complex_numbers(length: int) -> torch.Tensor:
    return torch.arange(1.0, 2 * length + 1).view(torch.complex64)


@pytest.mark.parametrize("length", [1, 6, LARGE])
def test_conjugate_and_negative_views_receive_what_was_sent(worlds, length: int) -> None:
    assert worlds(2).run(receive_into_views, complex_numbers(length), timeout=100)[1] == [True] * 3


def test_they_do_so_from_files() -> None:
    with World(2, "files") as world:
        assert world.run(receive_into_views, complex_numbers(LARGE), timeout=100)[1] == [True] * 3


def send_small_after_large(comm: Communicator) -> list[float]:
    """Different tags overtake one another; the same tag keeps its order."""
    sizes = (LARGE, 1, LARGE, 1)
    if comm.rank == 0:
        works = [comm.isend(torch.full((n,), float(i)), 1, tag=i // 2) for i, n in enumerate(sizes)]
        return [work.wait() for work in works]
    buffers = [torch.zeros(n) for n in sizes]
    for index in (2, 3, 0, 1):
        comm.recv(buffers[index], 0, tag=index // 2)
    return [buffer[0].item() for buffer in buffers]


def test_tags_choose_and_order_is_kept_within_a_tag(worlds) -> None:
    assert worlds(2).run(send_small_after_large, timeout=100) == [[1, 1, 1, 1], [0.0, 1.0, 2.0, 3.0]]


def gather_from_anyone(comm: Communicator, length: int) -> list[int]:
    if comm.rank > 0:
        comm.send(torch.full((length,), comm.rank), 0)
        return []
    buffer = torch.zeros(length, dtype=torch.int64)
    seen = []
    for _ in range(comm.world_size - 1):
        source = comm.recv(buffer)
        assert (buffer == source).all()
        seen.append(source)
    return sorted(seen)


@pytest.mark.parametrize("length", [3, LARGE])
def test_receive_from_anyone_says_from_whom(worlds, length: int) -> None:
    assert worlds(4).run(gather_from_anyone, length, timeout=100)[0] == [1, 2, 3]


def post_receive_then_send(comm: Communicator, length: int) -> bool:
    """The receive that was posted first is served while the rank waits in its own send."""
    incoming = torch.zeros(length)
    receiving = comm.irecv(incoming, (comm.rank - 1) % comm.world_size)
    comm.send(torch.full((length,), float(comm.rank)), (comm.rank + 1) % comm.world_size)
    receiving.wait()
    return bool((incoming == (comm.rank - 1) % comm.world_size).all())


@pytest.mark.parametrize("length", [3, LARGE])
def test_a_posted_receive_makes_room_for_a_blocking_send(worlds, length: int) -> None:
    assert worlds(4).run(post_receive_then_send, length, timeout=100) == [True] * 4


def exchange_around(comm: Communicator, length: int) -> bool:
    incoming = torch.zeros(length)
    previous_rank = (comm.rank - 1) % comm.world_size
    comm.exchange(torch.full((length,), float(comm.rank)), (comm.rank + 1) % comm.world_size, incoming, previous_rank)
    return bool((incoming == previous_rank).all())


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("length", [0, 3, LARGE])
def test_everybody_exchanges_at_once(worlds, world_size: int, length: int) -> None:
    assert worlds(world_size).run(exchange_around, length, timeout=100) == [True] * world_size


def exchange_with_itself(comm: Communicator) -> None:
    tensor = torch.zeros(4)
    comm.exchange(tensor[:3], 1 - comm.rank, tensor[1:], 1 - comm.rank)


def test_exchanging_within_the_same_memory_is_refused(worlds) -> None:
    with pytest.raises(RankError, match="share memory"):
        worlds(2).run(exchange_with_itself, timeout=100)


def test_send_is_a_rendezvous(worlds) -> None:
    def late_receiver(comm: Communicator) -> float:
        if comm.rank == 0:
            comm.send(torch.ones(1), 1)
            return time.perf_counter()  # one clock for all processes
        comm.sleep(0.3)
        asked = time.perf_counter()
        comm.recv(torch.ones(1), 0)
        return asked

    sent, asked = worlds(2).run(late_receiver, timeout=100)
    assert sent >= asked


def test_is_completed_does_not_block_and_sees_the_message_arrive(worlds) -> None:
    def poll(comm: Communicator) -> list[bool]:
        if comm.rank == 0:
            comm.barrier()
            comm.send(torch.ones(1), 1)
            return []
        work = comm.irecv(torch.zeros(1), 0)
        before = work.is_completed()
        comm.barrier()
        while not work.is_completed():
            time.sleep(0.001)
        return [before, work.wait() == 0, work.wait() == 0]

    assert worlds(2).run(poll, timeout=100)[1] == [False, True, True]


def test_nobody_passes_a_barrier_early(worlds) -> None:
    def stagger(comm: Communicator) -> tuple[float, float]:
        comm.sleep(0.05 * comm.rank)
        arrived = time.perf_counter()
        comm.barrier()
        return arrived, time.perf_counter()

    times = worlds(4).run(stagger, timeout=100)
    assert min(left for _, left in times) >= max(arrived for arrived, _ in times)
    assert len(worlds(4).trace) == 0  # a barrier moves no data


def test_split_makes_independent_groups(worlds) -> None:
    def rows_and_columns(comm: Communicator) -> tuple[int, int, int, float, float]:
        row = comm.split(comm.rank // 2)
        column = comm.split(comm.rank % 2, key=-comm.rank)
        assert row is not None and column is not None and row.size == column.size == 2
        sums = []
        for group in (row, column):
            incoming = torch.zeros(1)
            group.exchange(torch.tensor([float(comm.rank)]), 1 - group.rank, incoming, 1 - group.rank)
            group.barrier()
            sums.append(comm.rank + incoming.item())
        return row.rank, column.rank, row.world_size, sums[0], sums[1]

    assert worlds(4).run(rows_and_columns, timeout=100) == [
        (0, 1, 2, 1.0, 2.0),
        (1, 1, 2, 1.0, 4.0),
        (0, 0, 2, 5.0, 2.0),
        (1, 0, 2, 5.0, 4.0),
    ]
    assert {(m.src, m.dst) for m in worlds(4).trace} == {(0, 1), (1, 0), (2, 3), (3, 2), (0, 2), (2, 0), (1, 3), (3, 1)}


def test_a_rank_without_a_color_joins_no_group(worlds) -> None:
    def only_even(comm: Communicator) -> int | None:
        group = comm.split(0 if comm.rank % 2 == 0 else None)
        return group.size if group else None

    assert worlds(3).run(only_even, timeout=100) == [2, None, 2]


def test_receiving_writes_only_into_the_given_tensor(worlds) -> None:
    def into_the_middle(comm: Communicator) -> torch.Tensor:
        buffer = torch.zeros(5)
        if comm.rank == 0:
            comm.send(torch.tensor([7.0, 8.0]), 1)
        else:
            comm.recv(buffer[2:4], 0)
        return buffer

    assert worlds(2).run(into_the_middle, timeout=100)[1].tolist() == [0, 0, 7, 8, 0]


# ── mismatches ───────────────────────────────────────────────────────────────────────────────────────────────────────


def mismatch(sent: torch.Tensor, buffer: torch.Tensor) -> Callable[[Communicator], None]:
    def talk(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(sent, 1)
        else:
            comm.recv(buffer, 0)

    return talk


@pytest.mark.parametrize(
    ("sent", "buffer", "hint"),
    [
        (torch.ones(4), torch.ones(2), "same number of elements"),
        (torch.ones(2), torch.ones(4), "same number of elements"),
        (torch.ones(4), torch.ones(4, dtype=torch.int32), "dtypes the same"),
        (torch.ones(LARGE), torch.ones(LARGE - 1), "same number of elements"),
        (torch.ones(LARGE), torch.ones(2 * LARGE, dtype=torch.bfloat16), "dtypes the same"),
    ],
)
def test_size_and_dtype_must_fit_and_the_error_names_both_sides(worlds, sent, buffer, hint: str) -> None:
    world = worlds(2)
    with pytest.raises(MessageMismatch, match=hint) as caught:
        world.run(mismatch(sent, buffer), timeout=100)
    text = str(caught.value)
    assert text.startswith("test_communicator.py, line ")
    assert "rank 0 sends" in text and "rank 1 receives into" in text
    assert text.count("test_communicator.py, line") == 3  # the beginning, the sender's line, the receiver's line
    assert sorted(caught.value.ranks) == [0, 1]
    assert isinstance(caught.value, ValueError)
    assert world.run(pass_on, torch.ones(3), timeout=100)[1].tolist() == [1, 1, 1]  # and the world still works


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda comm: comm.send(torch.ones(1), comm.world_size), "the ranks are 0 to 1"),
        (lambda comm: comm.recv(torch.ones(1), -1), "the ranks are 0 to 1"),
        (lambda comm: comm.send(torch.ones(1), comm.rank), "wants to send to itself"),
        (lambda comm: comm.recv(torch.ones(1), comm.rank), "wants to receive from itself"),
        (
            lambda comm: comm.send(torch.ones(1), 1.0),
            r"rank 1\.0, .* 0 to 1\. Expected an int, got the float 1\.0\. Check",
        ),
        (lambda comm: comm.send(torch.ones(1), True), "rank True, .* Expected an int, got True"),
        (lambda comm: comm.send(torch.ones(1), None), "rank None, .* Expected an int, got None"),
        (lambda comm: comm.recv(torch.ones(1), numpy.int64(2)), "rank 2, but the ranks are 0 to 1. Check how"),
    ],
)
def test_a_peer_that_can_not_be_is_a_mismatch(worlds, act, says: str) -> None:
    with pytest.raises(MessageMismatch, match=says):
        worlds(2).run(act, timeout=100)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda comm: comm.send([1.0], 1 - comm.rank), "expected a torch.Tensor to send, got list"),
        (lambda comm: comm.send(torch.ones(1), 1 - comm.rank, tag="a"), "expected an integer tag, got 'a'"),
        (lambda comm: comm.send(torch.ones(1, device="meta"), 1 - comm.rank), "expected a dense tensor on cpu"),
        (
            lambda comm: comm.send(torch.ones(2, 2).to_sparse(), 1 - comm.rank),
            "send expected a dense tensor, got a sparse one",
        ),
        (lambda comm: comm.split("red"), "expected an integer or None as color, got 'red'"),
    ],
)
def test_other_bad_arguments_are_named(worlds, act, says: str) -> None:
    with pytest.raises(RankError, match=says):
        worlds(2).run(act, timeout=100)


def test_a_caught_mismatch_leaves_both_ranks_able_to_go_on(worlds) -> None:
    def try_again(comm: Communicator) -> float:
        buffer = torch.zeros(2)
        for length in (3, 2):
            try:
                if comm.rank == 0:
                    comm.send(torch.ones(length), 1)
                else:
                    comm.recv(buffer, 0)
            except MessageMismatch:
                assert buffer.tolist() == [0, 0]  # nothing was written
        return buffer.sum().item()

    assert worlds(2).run(try_again, timeout=100) == [0.0, 2.0]


def test_a_mismatch_nobody_waited_for_is_told_all_the_same(worlds) -> None:
    def forget(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.isend(torch.ones(3), 1)
        else:
            comm.irecv(torch.ones(2), 0)
            comm.sleep(0.1)
        comm.barrier()

    with pytest.raises(MessageMismatch):
        worlds(2).run(forget, timeout=100)


# ── beside torch.distributed ─────────────────────────────────────────────────────────────────────────────────────────


def test_torch_distributed_on_the_same_ranks(worlds) -> None:
    def with_torch(comm: Communicator) -> float:
        tensor = torch.tensor([float(comm.rank)])
        for _ in range(2):
            with torch_distributed(comm, "gloo") as dist:
                dist.all_reduce(tensor)
        return tensor.item()

    assert worlds(3).run(with_torch, timeout=100) == [9.0, 9.0, 9.0]


def test_the_threads_of_torchs_group_end_with_the_run(worlds) -> None:
    def with_torch(comm: Communicator) -> None:
        with torch_distributed(comm, "gloo") as dist:
            dist.barrier()

    def threads(comm: Communicator) -> int:
        return psutil.Process().num_threads()

    worlds(2).run(with_torch, timeout=100)
    before = worlds(2).run(threads)
    worlds(2).run(with_torch, timeout=100)
    assert worlds(2).run(threads) == before

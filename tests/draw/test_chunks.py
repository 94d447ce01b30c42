"""Watching who holds whose contributions: right functions, wrong ones, ones that fail."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

from distlib import Communicator, DeadlockError, MessageMismatch, PeerLost, RankError, RunTimeout, SimulatedWorld, World
from distlib.collectives.naive import naive_all_reduce
from distlib.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from distlib.draw import play_chunks, watch_chunks
from distlib.draw.chunks.chunk_history import ChunkMessage
from distlib.draw.chunks.markers import Cell, Markers, format_count

Worlds = Callable[[int], World]


# ── functions to watch ───────────────────────────────────────────────────────────────────────────────────────────────


def counts_everything_again(comm: Communicator, tensor: torch.Tensor) -> None:
    """A ring that adds in its second phase, too."""
    size, rank = comm.world_size, comm.rank
    chunks = tensor.tensor_split(size)
    for step in range(2 * (size - 1)):
        incoming = torch.empty_like(chunks[0])
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        chunks[(rank - step - 1) % size].add_(incoming)


def adds_to_another_chunk(comm: Communicator, tensor: torch.Tensor) -> None:
    """A ring that takes its own number for the chunk that comes."""
    size, rank = comm.world_size, comm.rank
    chunks = tensor.tensor_split(size)
    for step in range(size - 1):
        incoming = torch.empty_like(chunks[0])
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        chunks[(rank - step) % size].add_(incoming)


def one_chunk_off(comm: Communicator, tensor: torch.Tensor) -> None:
    """A reduce-scatter that is right but for one thing: the sum of chunk r ends on the rank before r."""
    size, rank = comm.world_size, comm.rank
    chunks = tensor.tensor_split(size)
    for step in range(size - 1):
        incoming = torch.empty_like(chunks[0])
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        chunks[(rank - step - 1) % size].add_(incoming)


def gathers_one_chunk_off(comm: Communicator, tensor: torch.Tensor) -> None:
    """An all-gather that expects what `one_chunk_off` leaves."""
    size, rank = comm.world_size, comm.rank
    chunks = tensor.tensor_split(size)
    for step in range(size - 1):
        outgoing, incoming = chunks[(rank + 1 - step) % size], chunks[(rank - step) % size]
        comm.exchange(outgoing, (rank + 1) % size, incoming, (rank - 1) % size)


def one_half_off(comm: Communicator, tensor: torch.Tensor) -> None:
    one_chunk_off(comm, tensor)
    ring_all_gather(comm, tensor)


def through_a_master(comm: Communicator, tensor: torch.Tensor) -> None:
    """A reduce-scatter in which rank 0 has all sums before it hands them out."""
    from_anyone(comm, tensor)
    mine = tensor.tensor_split(comm.world_size)[comm.rank]
    if comm.rank == 0:
        for dst, chunk in enumerate(tensor.tensor_split(comm.world_size)[1:], start=1):
            comm.send(chunk, dst)
    else:
        comm.recv(mine, 0)


def deadlocks_in_round_2(comm: Communicator, tensor: torch.Tensor) -> None:
    size, rank = comm.world_size, comm.rank
    chunks = tensor.tensor_split(size)
    incoming = torch.empty_like(chunks[0])
    comm.exchange(chunks[rank], (rank + 1) % size, incoming, (rank - 1) % size)
    chunks[(rank - 1) % size].add_(incoming)
    comm.recv(incoming, (rank - 1) % size)


def tree(comm: Communicator, tensor: torch.Tensor) -> None:
    """Halves of halves, by splitting the communicator: the ranks of a group are not those of the world."""
    if comm.world_size == 1:
        return
    half = comm.world_size // 2
    group = comm.split(comm.rank // half, key=-comm.rank)
    assert group is not None
    tree(group, tensor)
    other = torch.empty_like(tensor)
    peer = (comm.rank + half) % comm.world_size
    comm.exchange(tensor, peer, other, peer)
    tensor += other


def with_isend(comm: Communicator, tensor: torch.Tensor) -> None:
    """Pairs swap their tensors by isend and irecv, straight into the watched tensor's second half."""
    peer = comm.rank ^ 1
    first, second = tensor.tensor_split(2)
    receiving = comm.irecv(second, peer)
    sending = comm.isend(first.clone(), peer)
    sending.wait()
    assert receiving.wait() == receiving.wait() == peer
    assert receiving.is_completed()


def from_anyone(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank == 0:
        incoming = torch.empty_like(tensor)
        for _ in range(comm.world_size - 1):
            comm.recv(incoming)
            tensor += incoming
    else:
        comm.send(tensor, 0)


# ── markers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SIZES = st.tuples(st.integers(1, 6), st.integers(1, 5))


@given(SIZES, st.data())
def test_any_sum_of_marked_chunks_is_read_back(sizes: tuple[int, int], data: st.DataObject) -> None:
    ranks, chunks = sizes
    markers = Markers(ranks, chunks)
    times = data.draw(st.lists(st.integers(0, 5), min_size=ranks, max_size=ranks))
    total = torch.zeros(chunks * markers.chunk_length)
    for rank, number in enumerate(times):
        total += number * torch.tensor(markers.initial(rank))
    assert markers.read(total.tolist()) == [Cell(tuple(map(float, times)))] * chunks


@given(SIZES, st.data())
def test_a_chunk_in_the_wrong_place_is_seen(sizes: tuple[int, int], data: st.DataObject) -> None:
    ranks, chunks = sizes
    markers = Markers(ranks, chunks + 1)
    here, there = data.draw(st.permutations(range(chunks + 1)))[:2]
    rank = data.draw(st.integers(0, ranks - 1))
    tensor = torch.tensor(markers.initial(rank))
    parts = tensor.tensor_split(chunks + 1)
    parts[here].add_(parts[there].clone())
    cells = markers.read(tensor.tolist())
    assert cells[here].foreign == ((rank, there, 1.0),)
    assert [cell.is_clean for cell in cells].count(False) == 1


@given(SIZES, st.data())
def test_a_chunk_that_was_treated_in_part_is_seen(sizes: tuple[int, int], data: st.DataObject) -> None:
    """Whatever stretch of a chunk is doubled: it is seen, unless it is all of it or holds only zeros."""
    markers = Markers(*sizes)
    tensor = torch.tensor(markers.initial(0, scattered=True))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, markers.chunk_length)] * 2)))
    inside, everything = tensor[start:stop].count_nonzero(), tensor[: markers.chunk_length].count_nonzero()
    tensor[start:stop] *= 2
    assert markers.read(tensor.tolist())[0].uneven is bool(0 < inside < everything)


def test_an_average_is_read_as_parts() -> None:
    markers = Markers(4, 4)
    mean = sum(torch.tensor(markers.initial(rank)) for rank in range(4)) / 4
    cell = markers.read(mean.tolist())[2]
    assert cell.counts == (0.25,) * 4 and not cell.is_full
    assert str(cell) == "1/4×0+1/4×1+1/4×2+1/4×3"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell((1.0, 1.0, 1.0)), "[0+1+2]"),
        (Cell((1.0, 0.0, 2.0)), "0+2×2"),
        (Cell((0.0, 0.0, 0.0)), "-"),
        (Cell((1.0, 1.0), foreign=((1, 3, 1.0),)), "0+1+1 of chunk 3"),
        (Cell((1.0, 1.0), uneven=True), "0+1 (uneven)"),
        (Cell((math.nan, math.inf), uneven=True), "?×0+?×1 (uneven)"),
    ],
)
def test_a_cell_in_words(cell: Cell, words: str) -> None:
    assert str(cell) == words


def test_odd_counts_in_words() -> None:
    assert [format_count(n) for n in (2, 0.25, 1 / 3, math.pi, 1e30, -1)] == ["2", "1/4", "1/3", "?", "?", "-1"]


# ── right functions ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_ring_collects_then_copies(worlds: Worlds, ranks: int) -> None:
    history = watch_chunks(worlds(ranks), ring_all_reduce)
    assert history.rounds == 2 * (ranks - 1) == worlds(ranks).trace.rounds
    collecting = [0] * max(ranks - 1, 0)
    assert history.full_sums == collecting + [ranks * step for step in range(1, ranks + 1)]
    assert history.findings == [] and history.error is None
    for message in history.messages:
        assert message.dst == (message.src + 1) % ranks
        assert len(message.chunks) == 1


def test_a_chunk_grows_by_one_rank_a_round(worlds: Worlds) -> None:
    history = watch_chunks(worlds(4), ring_reduce_scatter)
    for round in range(4):
        inside = sorted(sum(history.cell(round, rank, 2).counts) for rank in range(4))
        assert inside[-1] == round + 1
    assert history.full_sums == [0, 0, 0, 4]
    assert all(history.cell(3, rank, rank).is_full for rank in range(4))


def test_messages_and_rounds_are_those_of_the_trace(worlds: Worlds) -> None:
    world = worlds(4)
    for function in (ring_all_reduce, naive_all_reduce, from_anyone, tree, with_isend):
        history = watch_chunks(world, function)
        seen = sorted((m.round, m.src, m.dst) for m in history.messages)
        assert seen == sorted((m.round, m.src, m.dst) for m in world.trace), function.__name__


def test_through_a_master_nobody_has_a_sum_before_the_master(worlds: Worlds) -> None:
    """Rank 1 needs two calls for what takes rank 0 six: by calls it would seem to be the first."""
    history = watch_chunks(worlds(4), naive_all_reduce, chunks=1)
    full = [[history.cell(round, rank, 0).is_full for rank in range(4)] for round in range(3)]
    assert full == [[False] * 4, [True, False, False, False], [True] * 4]
    assert history.messages_in(2) == [ChunkMessage(2, 0, dst, (0,)) for dst in (1, 2, 3)]


def test_an_all_gather_starts_from_scattered_chunks(worlds: Worlds) -> None:
    history = watch_chunks(worlds(3), ring_all_gather, start="scattered")
    assert history.full_sums == [3, 6, 9]
    assert history.cell(0, 1, 0).counts == (0, 1, 0)


def test_groups_speak_of_the_ranks_of_the_world(worlds: Worlds) -> None:
    history = watch_chunks(worlds(4), tree)
    pairs = [[(m.src, m.dst) for m in history.messages_in(round)] for round in (1, 2)]
    assert pairs == [[(0, 1), (1, 0), (2, 3), (3, 2)], [(0, 2), (1, 3), (2, 0), (3, 1)]]
    assert history.full_sums[-1] == 16
    assert history.messages[0].chunks == (0, 1, 2, 3)


def test_started_messages_count_when_they_are_waited_for(worlds: Worlds) -> None:
    history = watch_chunks(worlds(2), with_isend)
    assert [m.chunks for m in history.messages] == [(0,), (0,)], "a copy is known by its values"
    assert history.cell(0, 0, 1) == Cell((1.0, 0.0))
    assert history.cell(1, 0, 1).foreign == ((1, 0, 1.0),)


def test_a_generator_is_run_to_its_end(worlds: Worlds) -> None:
    def in_steps(comm: Communicator, tensor: torch.Tensor) -> Any:
        ring_all_reduce(comm, tensor)
        yield comm.rank

    assert watch_chunks(worlds(2), in_steps).full_sums[-1] == 4


def test_watching_changes_nothing_in_the_trace(worlds: Worlds) -> None:
    def plain(comm: Communicator) -> None:
        counts_everything_again(comm, torch.zeros(24))

    world = worlds(2)
    watch_chunks(world, counts_everything_again)
    watched = [(m.src, m.dst, m.round, m.site.place, m.site.via) for m in world.trace]
    world.run(plain)
    assert sorted(watched) == sorted((m.src, m.dst, m.round, m.site.place, m.site.via) for m in world.trace)
    assert watched[0][4] is None, "the student's own line sent it"


def test_the_communicator_can_do_all_that_it_could(worlds: Worlds) -> None:
    def curious(comm: Communicator, tensor: torch.Tensor) -> None:
        comm.barrier()
        comm.sleep(0)
        assert comm.time() >= 0 and comm.size == comm.world_size == 2
        assert repr(comm.inner) and comm._group  # type: ignore[attr-defined]
        assert comm.split(None) is None
        with pytest.raises(AttributeError):
            comm.all_reduce  # type: ignore[attr-defined]  # noqa: B018

    history = watch_chunks(worlds(2), curious)
    assert (history.rounds, history.error) == (0, None)


def test_nothing_is_left_in_the_temporary_folder(
    worlds: Worlds, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    watch_chunks(worlds(2), ring_all_reduce)
    watch_chunks(worlds(2), deadlocks_in_round_2)
    assert list(tmp_path.iterdir()) == []


# ── wrong functions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_counted_twice_is_found(worlds: Worlds) -> None:
    history = watch_chunks(worlds(3), counts_everything_again)
    assert history.full_sums == [0, 0, 3, 3, 3]
    assert history.findings == [
        "After round 3, chunk 0 on rank 0 holds rank 0's contribution twice. "
        "In the end: 6 cells with a contribution that is counted more than once."
    ]
    assert history.cell(4, 0, 2).counts == (2, 1, 3)


def test_what_is_in_the_wrong_chunk_is_found(worlds: Worlds) -> None:
    history = watch_chunks(worlds(3), adds_to_another_chunk)
    assert history.full_sums[-1] == 0
    assert history.findings[0].startswith("After round 1, chunk 0 on rank 0 holds what belongs to chunk 2.")


def test_a_sum_on_the_wrong_rank_is_found_where_it_arrives(worlds: Worlds) -> None:
    history = watch_chunks(worlds(4), one_chunk_off, end="scattered")
    assert history.findings_by_round == [
        (
            3,
            "After round 3, rank 0 holds the full sum of chunk 1, which belongs to rank 1. "
            "In the end: 4 full sums on a wrong rank.",
        )
    ]
    assert history.summary().endswith("Cells with the full sum: 4 of 16. Where it belongs: 0 of 4.")
    astray = [(rank, chunk) for rank in range(4) for chunk in range(4) if history.is_astray(3, rank, chunk)]
    assert astray == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert watch_chunks(worlds(4), one_chunk_off).findings == [], "nothing was promised"


@pytest.mark.parametrize(
    ("function", "start", "end"),
    [
        (ring_reduce_scatter, "own", "scattered"),
        (through_a_master, "own", "scattered"),
        (ring_all_gather, "scattered", "everywhere"),
        (ring_all_reduce, "own", "everywhere"),
        (naive_all_reduce, "own", "everywhere"),
    ],
)
def test_nothing_is_found_where_the_promise_is_kept(function: Any, start: Any, end: Any) -> None:
    history = watch_chunks(SimulatedWorld(4), function, start=start, end=end)
    assert history.findings == [] and history.full_sums[-1] >= 4
    assert not any(history.is_astray(round, 0, chunk) for round in range(history.rounds + 1) for chunk in range(4))


@pytest.mark.parametrize(
    ("function", "start", "end", "found"),
    [
        (gathers_one_chunk_off, "scattered", "everywhere", "After round 1, chunk 0 on rank 0 no longer holds"),
        (one_half_off, "own", "everywhere", "After round 6, chunk 1 on rank 0 no longer holds the full sum."),
        (one_chunk_off, "own", "everywhere", "After the last round, round 3, chunk 0 on rank 0 does not hold"),
        (lambda comm, tensor: None, "own", "scattered", "Without any message, chunk 0 on rank 0 does not hold"),
    ],
)
def test_a_full_sum_that_is_missing_in_the_end_is_found(function: Any, start: Any, end: Any, found: str) -> None:
    (finding,) = watch_chunks(SimulatedWorld(4), function, start=start, end=end).findings
    assert finding.startswith(found) and "In the end: " in finding


def test_a_broken_promise_is_not_told_of_a_run_that_shows_something_worse(worlds: Worlds) -> None:
    (finding,) = watch_chunks(worlds(3), counts_everything_again, end="everywhere").findings
    assert "twice" in finding
    assert watch_chunks(worlds(3), deadlocks_in_round_2, end="everywhere").findings == []


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_ring_with_a_border_that_is_off_by_one_is_found(worlds: Worlds, shift: int) -> None:
    def off_by_one(comm: Communicator, tensor: torch.Tensor) -> None:
        size, rank = comm.world_size, comm.rank
        border = len(tensor) // size + shift
        chunks = tensor[:border], tensor[border:]
        incoming = torch.empty_like(chunks[rank])
        comm.exchange(chunks[1 - rank], 1 - rank, incoming, 1 - rank)
        chunks[rank].add_(incoming)

    history = watch_chunks(worlds(2), off_by_one)
    assert any("was changed only in part" in finding for finding in history.findings)


def test_an_average_is_found(worlds: Worlds) -> None:
    def mean(comm: Communicator, tensor: torch.Tensor) -> None:
        ring_all_reduce(comm, tensor)
        tensor /= comm.world_size

    (finding,) = watch_chunks(worlds(2), mean).findings
    assert "1/2 of rank 0's contribution and 1/2 of rank 1's contribution" in finding


def test_memory_that_was_never_written_is_found(worlds: Worlds) -> None:
    def forgets(comm: Communicator, tensor: torch.Tensor) -> None:
        tensor[:3] = float("nan")
        tensor[-3:] = float("inf")

    history = watch_chunks(worlds(2), forgets)
    assert any("was changed only in part" in finding for finding in history.findings)
    json.dumps(play_chunks(history).scene.to_data(), allow_nan=False)


def test_a_new_tensor_is_no_result_in_place(worlds: Worlds) -> None:
    def returns(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
        result = tensor.clone()
        ring_all_reduce(comm, result)
        return result

    history = watch_chunks(worlds(2), returns)
    assert history.full_sums[-1] == 0
    assert history.findings == [
        "On rank 0, 1 the function returned another tensor. Only what is written into the given one counts."
    ]

    def returns_the_same(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
        ring_all_reduce(comm, tensor)
        return tensor

    assert watch_chunks(worlds(2), returns_the_same).findings == []


# ── functions that fail ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_deadlock_is_shown_up_to_where_it_happened(worlds: Worlds) -> None:
    history = watch_chunks(worlds(3), deadlocks_in_round_2)
    assert isinstance(history.error, DeadlockError)
    assert history.rounds == 1
    assert history.cell(1, 0, 2).counts == (1, 0, 1)
    assert history.summary() == "Stopped in round 2. Cells with the full sum: 0 of 9."
    assert "deadlock" in str(history).splitlines()[-1] or "deadlock" in str(history)


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda comm: comm.send(torch.zeros(1), comm.world_size + 1), MessageMismatch),
        (lambda comm: comm.send(torch.zeros(1), "next"), MessageMismatch),
        (lambda comm: 1 // 0, RankError),
        (lambda comm: os._exit(3) if comm.rank == 1 else comm.barrier(), PeerLost),
    ],
)
def test_any_failure_keeps_what_was_seen_before(worlds: Worlds, damage: Callable[..., Any], kind: type) -> None:
    def fails(comm: Communicator, tensor: torch.Tensor) -> None:
        ring_reduce_scatter(comm, tensor)
        comm.barrier()
        damage(comm)

    history = watch_chunks(worlds(2), fails)
    assert isinstance(history.error, kind)
    assert history.full_sums == [0, 2]


def test_a_run_that_takes_too_long_is_stopped(worlds: Worlds) -> None:
    def loops(comm: Communicator, tensor: torch.Tensor) -> None:
        while True:
            ring_all_reduce(comm, tensor)
            comm.sleep(0.05)

    for seconds in (0.5, 2, 8, 32):  # until the time is enough for the ranks to begin
        with contextlib.suppress(RunTimeout):
            history = watch_chunks(worlds(2), loops, timeout=seconds)
            break
    assert isinstance(history.error, RunTimeout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"chunks": 0}, "expected 1 to 32 chunks, got 0"),
        ({"chunks": "4"}, "expected 1 to 32 chunks, got '4'"),
        ({"start": "everything"}, "expected start='own' or 'scattered', got 'everything'"),
        ({"start": "scattered", "chunks": 3}, "start='scattered' needs one chunk a rank: 2 chunks, got 3"),
        ({"end": "somewhere"}, "expected end='scattered', 'everywhere' or None, got 'somewhere'"),
        ({"end": "scattered", "chunks": 3}, "end='scattered' needs one chunk a rank: 2 chunks, got 3"),
    ],
)
def test_bad_input_is_one_clear_error(worlds: Worlds, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        watch_chunks(worlds(2), ring_all_reduce, **arguments)


def test_too_many_ranks_are_one_clear_error() -> None:
    with pytest.raises(ValueError, match="at most 16 ranks to watch, got 17"):
        watch_chunks(World(17), ring_all_reduce)


# ── in words ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_history_in_words(worlds: Worlds) -> None:
    history = watch_chunks(worlds(2), ring_all_reduce)
    assert str(history) == (
        "start\n"
        "        chunk 0  chunk 1\n"
        "rank 0  0        0\n"
        "rank 1  1        1\n\n"
        "after round 1\n"
        "(rank 0 to 1: chunk 1, 1 to 0: chunk 0)\n"
        "        chunk 0  chunk 1\n"
        "rank 0  [0+1]    0\n"
        "rank 1  1        [0+1]\n\n"
        "after round 2\n"
        "(rank 0 to 1: chunk 0, 1 to 0: chunk 1)\n"
        "        chunk 0  chunk 1\n"
        "rank 0  [0+1]    [0+1]\n"
        "rank 1  [0+1]    [0+1]\n\n"
        "Ended after 2 rounds. Cells with the full sum: 4 of 4."
    )

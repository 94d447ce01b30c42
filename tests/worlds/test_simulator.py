"""`SimulatedWorld`: the same results as real ranks, exact virtual times, and the same words when something is wrong."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import statistics
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings, strategies as st

from distlib import (
    Communicator,
    DeadlockError,
    MessageMismatch,
    RankError,
    SimulatedWorld,
    UnreceivedMessage,
    World,
    all_reduce,
)
from distlib.collectives import naive_all_reduce, ring_all_reduce
from distlib.network import Cluster, Link, all_reduce_seconds
from distlib.worlds.diagnosis import RunInterrupted, RunTimeout
from distlib.worlds.simulated import rank_contexts
from tests.tools.time_limits import out_of_time

LINK = Link(latency=2.0, bandwidth=8.0)  # seconds and bytes/s that make sums easy to follow
HERE = "test_simulator.py, line "


def flat(world_size: int, **options: object) -> Cluster:
    return Cluster.flat(world_size, LINK, **options)


def simulate(world_size: int, function, *args, cluster: Cluster | None = None, **options) -> SimulatedWorld:
    world = SimulatedWorld(world_size, cluster or flat(world_size), **options)
    world.results = world.run(function, *args, timeout=100)
    return world


# ── the same function, the same results ──────────────────────────────────────────────────────────────────────────────


def every_call(comm: Communicator, tensors: list[torch.Tensor]) -> list[object]:
    """Something of everything that a communicator has."""
    rank, size = comm.rank, comm.world_size
    mine, incoming = tensors[rank], torch.empty_like(tensors[rank])
    comm.exchange(mine, (rank + 1) % size, incoming, (rank - 1) % size, tag=3)
    works = [comm.isend(mine, peer, tag=peer) for peer in range(size) if peer != rank]
    sources = []
    for _ in range(size - 1):
        buffer = torch.empty_like(mine)
        sources.append(comm.recv(buffer, tag=rank))
    for work in works:
        work.wait()
    comm.barrier()
    pair = comm.split(rank // 2, key=-rank)
    assert pair is not None
    all_reduce(pair, mine)
    return [incoming.tolist(), sorted(sources), pair.rank, pair.size, mine.tolist()]


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_real_and_simulated_ranks_agree(worlds, contexts: str) -> None:
    tensors = [torch.arange(5.0) + 10 * rank for rank in range(4)]
    real = worlds(4)
    expected = real.run(every_call, tensors, timeout=100)
    simulated = simulate(4, every_call, tensors, contexts=contexts)
    assert simulated.results == expected
    assert simulated.trace.messages_sent == real.trace.messages_sent
    assert simulated.trace.bytes_received == real.trace.bytes_received
    assert tensors[0].tolist() == [0, 1, 2, 3, 4]  # arguments are copied, as for real ranks


def random_program(comm: Communicator, seed: int, count: int, blocking: float) -> list[float]:
    """All ranks walk through the same list of messages; each does its part of every one."""
    choose = random.Random(seed)
    works, buffers = [], []
    for number in range(count):
        src, dst = choose.sample(range(comm.world_size), 2)
        length, tag, waits = choose.choice([0, 1, 5]), choose.randrange(3), choose.random() < blocking
        if comm.rank == src:
            tensor = torch.full((length,), float(number))
            comm.send(tensor, dst, tag) if waits else works.append(comm.isend(tensor, dst, tag))
        elif comm.rank == dst:
            buffers.append(torch.empty(length))
            comm.recv(buffers[-1], src, tag) if waits else works.append(comm.irecv(buffers[-1], src, tag))
        if choose.random() < 0.1:
            comm.sleep(0.001 * comm.rank)
    for work in works:
        work.wait()
    return [buffer.sum().item() for buffer in buffers]


@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=20)
def test_random_programs_agree_with_real_ranks(worlds, seed: int, world_size: int, blocking: float) -> None:
    expected = worlds(world_size).run(random_program, seed, 30, blocking, timeout=100)
    simulated = simulate(world_size, random_program, seed, 30, blocking)
    assert simulated.results == expected
    assert simulated.trace.rounds == worlds(world_size).trace.rounds


def test_a_run_replays_to_the_bit() -> None:
    def messages() -> list[tuple[float, ...]]:
        world = simulate(5, random_program, 7, 60, 0.3)
        return [(m.src, m.dst, m.tag, m.start, m.taken, m.end, m.round) for m in world.trace]

    assert messages() == messages()


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_threads_and_greenlets_take_the_same_virtual_time(seed: int) -> None:
    first, second = (simulate(3, random_program, seed, 20, 0.3, contexts=c) for c in ("greenlets", "threads"))
    assert first.elapsed == second.elapsed
    assert [m.end for m in first.trace] == [m.end for m in second.trace]


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def times_of(world_size: int, function, **options) -> list[float]:
    """When each rank had finished."""

    def timed(comm: Communicator) -> float:
        function(comm)
        return comm.time()

    return simulate(world_size, timed, **options).results


def test_one_message_takes_latency_and_size_over_bandwidth() -> None:
    def one(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.zeros(4), 1)
        else:
            comm.recv(torch.zeros(4), 0)

    assert times_of(2, one) == [2 + 16 / 8] * 2


def test_a_send_waits_for_a_late_receiver() -> None:
    def late(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.zeros(4), 1)
        else:
            comm.sleep(10)
            comm.recv(torch.zeros(4), 0)

    assert times_of(2, late) == [14, 14]


def test_an_exchange_uses_both_directions_at_once() -> None:
    def both(comm: Communicator) -> None:
        comm.exchange(torch.zeros(4), 1 - comm.rank, torch.zeros(4), 1 - comm.rank)

    assert times_of(2, both) == [4, 4]


def test_a_port_carries_one_message_at_a_time() -> None:
    def fan_out(comm: Communicator) -> None:
        if comm.rank == 0:
            for work in [comm.isend(torch.zeros(4), dst) for dst in (1, 2, 3)]:
                work.wait()
        else:
            comm.recv(torch.zeros(4), 0)

    assert times_of(4, fan_out) == [8, 4, 6, 8]  # 2 s of port each, one after the other, and 2 s of latency at the end


def test_who_is_ready_first_goes_first_not_who_was_started_first() -> None:
    def two_receivers(comm: Communicator) -> None:
        if comm.rank == 0:
            for work in [comm.isend(torch.zeros(4), 1), comm.isend(torch.zeros(4), 2)]:
                work.wait()
        else:
            comm.sleep(5 if comm.rank == 1 else 0)
            comm.recv(torch.zeros(4), 0)

    assert times_of(3, two_receivers) == [9, 9, 4]


def test_from_anyone_takes_what_was_offered_first() -> None:
    def master(comm: Communicator) -> list[int]:
        if comm.rank == 0:
            return [comm.recv(torch.zeros(1)) for _ in range(3)]
        comm.sleep(10 - comm.rank)
        comm.send(torch.zeros(1), 0)
        return []

    assert simulate(4, master).results[0] == [3, 2, 1]


def test_small_messages_do_not_wait_for_their_receiver() -> None:
    def late(comm: Communicator) -> float:
        if comm.rank == 0:
            tensor = torch.ones(4)
            comm.send(tensor, 1)
            tensor.zero_()  # the message has left with what the tensor held then
            return 0.0
        comm.sleep(10)
        buffer = torch.zeros(4)
        comm.recv(buffer, 0)
        return buffer.sum().item()

    cluster = flat(2, eager_limit=16)
    assert times_of(2, late, cluster=cluster) == [2, 10]
    assert simulate(2, late, cluster=cluster).results == [0, 4]


def test_many_small_messages_are_under_way_at_once() -> None:
    def burst(comm: Communicator) -> list[float]:
        if comm.rank == 0:
            for number in range(5):
                comm.send(torch.full((2,), float(number)), 1)
            comm.exchange(torch.full((2,), 5.0), 1, torch.zeros(2), 1)
            return []
        comm.sleep(100)
        received = [torch.zeros(2) for _ in range(6)]
        for buffer in received[:5]:
            comm.recv(buffer, 0)
        comm.exchange(torch.zeros(2), 0, received[5], 0)
        return [buffer[0].item() for buffer in received]

    assert simulate(2, burst, cluster=flat(2, eager_limit=8)).results[1] == [0, 1, 2, 3, 4, 5]


def test_links_inside_and_between_nodes() -> None:
    cluster = Cluster(nodes=2, ranks_per_node=2, intra=Link(1.0, 16.0), inter=Link(10.0, 4.0))

    def to_everybody(comm: Communicator) -> None:
        for dst in range(1, 4):
            if comm.rank == 0:
                comm.send(torch.zeros(4), dst)
            elif comm.rank == dst:
                comm.recv(torch.zeros(4), 0)

    assert times_of(4, to_everybody, cluster=cluster) == [30, 2, 16, 30]


def test_ranks_of_a_node_may_share_the_way_out() -> None:
    def across(comm: Communicator) -> None:
        if comm.rank < 2:
            comm.send(torch.zeros(4), comm.rank + 2)
        else:
            comm.recv(torch.zeros(4), comm.rank - 2)

    for shared, expected in ((False, [4, 4, 4, 4]), (True, [4, 6, 4, 6])):
        cluster = Cluster(nodes=2, ranks_per_node=2, intra=LINK, inter=LINK, shared_uplink=shared)
        assert times_of(4, across, cluster=cluster) == expected


def test_a_straggler_computes_more_slowly() -> None:
    cluster = flat(3, stragglers={1: 2.5})
    assert times_of(3, lambda comm: comm.sleep(2), cluster=cluster) == [2, 5, 2]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 12, 64])
def test_the_ring_takes_the_time_of_its_formula(world_size: int) -> None:
    length = 3 * world_size
    world = simulate(world_size, lambda comm: ring_all_reduce(comm, torch.ones(length)))
    steps = 2 * (world_size - 1)
    assert world.elapsed == pytest.approx(steps * (LINK.latency + 12 / LINK.bandwidth), rel=1e-9)


@pytest.mark.parametrize("world_size", [1, 2, 5, 9])
def test_the_master_takes_the_time_of_its_formula(world_size: int) -> None:
    world = simulate(world_size, lambda comm: naive_all_reduce(comm, torch.ones(10)))
    one = LINK.latency + 40 / LINK.bandwidth
    assert world.elapsed == pytest.approx(2 * (world_size - 1) * one, rel=1e-9)


# ── gradients, shapes without contents, many ranks ───────────────────────────────────────────────────────────────────


def train(comm: Communicator, inside_backward: bool) -> list[float]:
    weight = torch.ones(3, requires_grad=True)

    def average(gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.clone()
        all_reduce(comm, gradient)
        return gradient

    if inside_backward:
        weight.register_hook(average)
    (weight * (comm.rank + 1)).sum().backward()
    gradient = weight.grad
    assert gradient is not None and torch.is_grad_enabled()
    return (gradient if inside_backward else average(gradient)).tolist()


def test_gradients_outside_of_backward() -> None:
    assert simulate(3, train, False).results == [[6, 6, 6]] * 3


def test_gradients_inside_backward_need_threads_and_the_error_says_so() -> None:
    with pytest.raises(RankError, match='contexts="threads"'):
        simulate(3, train, True)
    assert simulate(3, train, True, contexts="threads").results == [[6, 6, 6]] * 3


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc to count threads")
def test_a_rank_computes_on_as_many_threads_as_torch_was_told_to_take() -> None:
    """One here. Else the first product of matrices in a thread of Python's starts one for each core."""

    def multiply(comm: Communicator) -> int:
        matrix = torch.randn(400, 400)
        before = set(os.listdir("/proc/self/task"))
        torch.mm(matrix, matrix)
        return len(set(os.listdir("/proc/self/task")) - before)

    assert SimulatedWorld(2, contexts="threads").run(multiply) == [0, 0]


def test_no_grad_of_one_rank_does_not_leak_into_another() -> None:
    def interleaved(comm: Communicator) -> list[bool]:
        seen = []
        for _ in range(3):
            with torch.no_grad():
                comm.exchange(torch.ones(1), 1 - comm.rank, torch.empty(1), 1 - comm.rank)
                seen.append(torch.is_grad_enabled())
            seen.append(torch.is_grad_enabled())
            if comm.rank:
                comm.sleep(1)
        return seen

    assert simulate(2, interleaved).results == [[False, True] * 3] * 2
    assert torch.is_grad_enabled()


def test_meta_tensors_have_a_size_and_take_no_memory() -> None:
    def huge(comm: Communicator) -> None:
        ring_all_reduce(comm, torch.empty(10**12, device="meta"))

    world = simulate(8, huge)
    assert sum(world.trace.bytes_sent) == 14 * 4 * 10**12


def test_a_thousand_ranks() -> None:
    def around(comm: Communicator) -> float:
        token = torch.tensor([float(comm.rank)])
        incoming = torch.empty(1)
        for _ in range(3):
            comm.exchange(token, (comm.rank + 1) % comm.world_size, incoming, (comm.rank - 1) % comm.world_size)
            token, incoming = incoming, token
        return token.item()

    world = simulate(1000, around)
    assert world.results == [(rank - 3) % 1000 for rank in range(1000)]
    assert len(world.trace) == 3000 and world.trace.messages == ()  # only counts, unless record=True
    assert world.trace.rounds == 3


_steps: list[int] = []  # the rank of each step, in the order in which the ranks take them in this process


def step_by_step(comm: Communicator, steps: int) -> None:
    outgoing, incoming = torch.empty(1), torch.empty(1)
    for _ in range(steps):
        comm.exchange(outgoing, (comm.rank + 1) % comm.world_size, incoming, (comm.rank - 1) % comm.world_size)
        _steps.append(comm.rank)


def test_a_few_neighbors_of_a_ring_go_some_steps_and_take_two_in_a_row() -> None:
    """So the data of those that run is near the processor, and a switch from rank to rank serves two messages."""
    _steps.clear()
    simulate(256, step_by_step, 200, record=False)
    visits = [rank for rank, _ in itertools.groupby(_steps)]
    assert len(visits) < 0.55 * len(_steps)
    last, others = dict[int, int](), list[int]()
    for place, rank in enumerate(visits):
        if rank in last:
            others.append(len(set(visits[last[rank] + 1 : place])))
        last[rank] = place
    assert statistics.median(others) < 64  # ranks that have run since this one ran last


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_deadlocks_in_the_words_of_a_real_world(worlds) -> None:
    def cycle(comm: Communicator) -> None:
        comm.recv(torch.empty(4), (comm.rank - 1) % comm.world_size)

    def skips(comm: Communicator) -> None:
        if comm.rank != 2:
            comm.barrier()

    def splits(comm: Communicator) -> None:
        if comm.rank != 2:
            comm.split(0)
        comm.barrier()

    def alone(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.ones(2, 3), 1)

    for function in (cycle, skips, splits, alone):
        texts = []
        for world in (worlds(4), SimulatedWorld(4)):
            with pytest.raises(DeadlockError) as caught:
                world.run(function, timeout=100)
            assert world.last_error is caught.value
            texts.append(str(caught.value))
        assert texts[0] == texts[1]


def test_a_deadlock_of_many_ranks() -> None:
    with pytest.raises(DeadlockError, match="more ranks that wait for one another"):
        simulate(500, lambda comm: comm.recv(torch.empty(1), (comm.rank + 1) % 500))


@pytest.mark.parametrize("src", [0, None], ids=["from rank 0", "from anyone"])
@pytest.mark.parametrize(
    "sent",
    [torch.ones(4), torch.ones(8), torch.ones(9, dtype=torch.float64)],
    ids=["length", "one apart", "dtype"],
)
def test_a_mismatch_in_the_words_of_a_real_world(worlds, sent: torch.Tensor, src: int | None) -> None:
    def mismatch(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(sent, 1)
        else:
            comm.recv(torch.ones(9), src)

    texts = []
    for world in (worlds(2), SimulatedWorld(2)):
        with pytest.raises(MessageMismatch) as caught:
            world.run(mismatch, timeout=100)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("src", [0, None], ids=["from rank 0", "from anyone"])
def test_a_caught_mismatch_leaves_both_ranks_able_to_go_on(src: int | None) -> None:
    def try_again(comm: Communicator) -> float:
        buffer = torch.zeros(2)
        for length in (3, 2):
            try:
                comm.send(torch.ones(length), 1) if comm.rank == 0 else comm.recv(buffer, src)
            except MessageMismatch:
                assert buffer.tolist() == [0, 0]
        return buffer.sum().item()

    assert simulate(2, try_again).results == [0, 2]


@pytest.mark.parametrize(("here", "there"), [("meta", "cpu"), ("cpu", "meta")])
def test_contents_do_not_come_from_a_tensor_without_any_nor_get_lost_in_one(here: str, there: str) -> None:
    def mismatch(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.ones(3, device=here), 1)
        else:
            comm.recv(torch.ones(3, device=there), 0)

    with pytest.raises(MessageMismatch, match=f"One tensor lies on {here}, the other on {there}: move one of them"):
        simulate(2, mismatch)


def test_a_mismatch_that_nobody_waits_for_in_the_words_of_a_real_world(worlds) -> None:
    def forget(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.isend(torch.ones(2), 1)
        else:
            comm.irecv(torch.ones(5), 0)
        comm.barrier()

    texts = []
    for world in (worlds(2), SimulatedWorld(2)):
        with pytest.raises(MessageMismatch, match=f"^rank 0 sends 2 float32 .{HERE}") as caught:
            world.run(forget, timeout=100)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_a_mismatch_is_told_before_the_deadlock_that_comes_of_it() -> None:
    def wait_in_vain(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.isend(torch.ones(2), 1)
            comm.recv(torch.ones(1), 1)
        else:
            comm.irecv(torch.ones(5), 0)

    with pytest.raises(MessageMismatch, match="^rank 0 sends 2 float32 .* but rank 1 receives into 5 float32"):
        simulate(2, wait_in_vain)


@pytest.mark.parametrize("eager_limit", [0, 16])
def test_a_mismatch_that_both_ends_have_seen_is_not_told_again(eager_limit: int) -> None:
    def see(comm: Communicator) -> bool:
        work = comm.isend(torch.ones(2), 1) if comm.rank == 0 else comm.irecv(torch.ones(3), 0)
        try:
            work.wait()
        except MessageMismatch:
            return True
        return False

    assert simulate(2, see, cluster=flat(2, eager_limit=eager_limit)).results == [not eager_limit, True]


def test_exceptions_of_all_ranks_are_told() -> None:
    with pytest.raises(RankError, match=f"^{HERE}\\d+: ranks 0, 1 and 2 raised ZeroDivisionError"):
        simulate(3, lambda comm: 1 / 0)


def test_an_exception_while_others_wait() -> None:
    def fail(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("bad")
        comm.barrier()

    with pytest.raises(RankError, match="rank 1 raised ValueError: bad") as caught:
        simulate(3, fail)
    assert caught.value.ranks == [1]


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_a_rank_that_never_ends_is_stopped_and_says_where(contexts: str) -> None:
    def loop(comm: Communicator) -> None:
        while comm.rank == 1:
            pass

    world = SimulatedWorld(2, contexts=contexts)
    words = f"^{HERE}.*rank 1 was computing at {HERE}"
    assert re.search(words, out_of_time(world, loop, words))
    assert world.run(lambda comm: comm.rank) == [0, 1]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts as in a notebook; pytest's workers ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


_threads: list[threading.Thread] = []  # of the ranks that are interrupted
_held = threading.Lock()


def interrupted(comm: Communicator) -> None:
    comm.barrier()
    if comm.rank == 1:
        _threads.append(threading.current_thread())
        os.kill(os.getpid(), signal.SIGINT)
    while comm.rank == 1:
        pass
    comm.barrier()


def interrupted_in_a_call_of_c(comm: Communicator) -> None:
    _threads.append(threading.current_thread())
    os.kill(os.getpid(), signal.SIGINT)
    with _held:
        while True:
            pass


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_an_interrupt_ends_the_run_and_says_where(interruptible: None, contexts: str) -> None:
    _threads.clear()
    world = SimulatedWorld(2, contexts=contexts)
    with pytest.raises(RunInterrupted, match=f"^rank 1 was computing at {HERE}.*The world can be used again"):
        world.run(interrupted)
    (thread,) = _threads
    assert thread is threading.main_thread() or not thread.is_alive()
    assert world.run(lambda comm: comm.rank) == [0, 1]


def test_a_thread_in_a_call_of_c_ends_after_it(interruptible: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_contexts, "_PATIENCE_SECONDS", 0.1)
    _threads.clear()
    world = SimulatedWorld(2, contexts="threads")
    with _held, pytest.raises(RunInterrupted, match=f"^rank 0 was computing at {HERE}"):
        world.run(interrupted_in_a_call_of_c)
    (thread,) = _threads
    thread.join(timeout=100)
    assert not thread.is_alive()
    assert world.run(lambda comm: comm.rank) == [0, 1]


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_the_time_limit_of_a_run_holds_for_one_inside_it(contexts: str) -> None:
    def outer(comm: Communicator) -> None:
        SimulatedWorld(2, contexts=contexts).run(loop, timeout=1000)

    def loop(comm: Communicator) -> None:
        while True:
            pass

    words = f"^{HERE}.*rank 0 was computing at {HERE}"
    assert re.search(words, out_of_time(SimulatedWorld(2, contexts=contexts), outer, words))


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_a_rank_that_is_ended_can_not_wait_for_others(contexts: str) -> None:
    def waits_again(comm: Communicator) -> None:
        try:
            comm.recv(torch.empty(1), 1 - comm.rank)
        finally:
            comm.barrier()

    with pytest.raises(DeadlockError, match="rank 0 waits to receive"):
        simulate(2, waits_again, contexts=contexts)


@pytest.mark.parametrize("count", [1, 2])
def test_messages_that_nobody_received_in_the_words_of_a_real_world(worlds, count: int) -> None:
    def leave(comm: Communicator) -> None:
        for _ in range(count if comm.rank == 0 else 0):
            comm.isend(torch.ones(2, 3), 1, tag=4)

    texts = []
    for world in (worlds(2), SimulatedWorld(2)):
        with pytest.raises(
            UnreceivedMessage, match=f"^{HERE}\\d+: rank 0 sent 2×3 float32 to rank 1 with tag 4"
        ) as caught:
            world.run(leave, timeout=100)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert ("(2 messages in all)" in texts[0]) == (count == 2)


def test_a_message_that_nobody_received_on_ranks_that_were_not_recorded() -> None:
    def leave(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.isend(torch.ones(1), 1)

    with pytest.raises(UnreceivedMessage, match="^rank 0 sent 1 float32 to rank 1 with tag 0, and nobody"):
        simulate(100, leave)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: SimulatedWorld(0), "expected an integer of at least 1 as world_size, got world_size=0"),
        (lambda: SimulatedWorld("4"), "expected an integer of at least 1 as world_size, got world_size='4'"),
        (lambda: SimulatedWorld(True), "expected an integer of at least 1 as world_size, got world_size=True"),
        (lambda: SimulatedWorld(4, flat(3)), "4 ranks do not fit a cluster with places for 3"),
        (lambda: SimulatedWorld(4, contexts="fibers"), "greenlets, threads, got 'fibers'"),
    ],
)
def test_worlds_that_can_not_be(make, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_integers_of_numpy_are_integers(worlds) -> None:
    def talk(comm: Communicator) -> list[object]:
        other, tag, incoming = numpy.int64(1 - comm.rank), numpy.int32(3), torch.empty(2)
        if comm.rank == 0:
            comm.send(torch.ones(2), other, tag)
            source = comm.irecv(incoming, other, 3).wait()
        else:
            source = comm.recv(incoming, other, tag)
            comm.isend(torch.ones(2), 0, tag).wait()
        comm.exchange(torch.ones(2), other, incoming, other, tag)
        pair = comm.split(numpy.int64(7) if comm.rank else 7, numpy.int64(-comm.rank))
        assert pair is not None and (pair.rank, pair.size) == (1 - comm.rank, 2)
        return [source, type(source).__name__, incoming.tolist()]

    for world in (worlds(2), SimulatedWorld(numpy.int64(2))):
        assert world.run(talk, timeout=100) == [[1, "int", [1, 1]], [0, "int", [1, 1]]]
        assert {type(value) for message in world.trace for value in (message.src, message.dst, message.tag)} == {int}
        assert type(world.world_size) is int


def test_real_and_simulated_worlds_refuse_the_same_calls(worlds) -> None:
    for world in (worlds(2), SimulatedWorld(2)):
        for act, says in (
            (lambda comm: comm.send(torch.ones(1), 2), "the ranks are 0 to 1"),
            (
                lambda comm: comm.send(torch.ones(1), "1"),
                "rank '1', .* 0 to 1. Expected an int, got the text '1'. Check",
            ),
            (
                lambda comm: comm.send(torch.ones(1), None),
                "rank None, but the ranks are 0 to 1. Expected an int, got N",
            ),
            (lambda comm: comm.recv(torch.ones(1), comm.rank), "itself"),
            (lambda comm: comm.send([1.0], 1 - comm.rank), "expected a torch.Tensor"),
            (lambda comm: comm.split("red"), "as color, got 'red'"),
            (lambda comm: comm.recv(torch.ones(1).expand(2), 1 - comm.rank), "receive can't write into a tensor whose"),
            (lambda comm: comm.recv(torch.eye(2).to_sparse(), 1 - comm.rank), "receive expected a dense tensor"),
            (lambda comm: comm.exchange(1 - comm.rank, torch.ones(1), torch.ones(1), 0), "expected .*tensor"),
            (lambda comm: comm.isend(None, 1 - comm.rank), "expected a torch.Tensor to send, got NoneType: None"),
            (lambda comm: comm.start(None), "start expected a function, such as all_reduce, got None"),
            (lambda comm: comm.sleep(-1), "sleep expected a number of at least 0 as seconds, got seconds=-1"),
            (lambda comm: comm.sleep("1"), "sleep expected a number of at least 0 as seconds, got seconds='1'"),
        ):
            with pytest.raises(RankError, match=says):
                world.run(act, timeout=100)


def test_a_rank_alone_has_nobody_to_receive_from(worlds) -> None:
    for world in (worlds(1), SimulatedWorld(1)):
        with pytest.raises(MessageMismatch, match="there is no other rank"):
            world.run(lambda comm: comm.recv(torch.empty(1)), timeout=100)


_two_runs = threading.Barrier(2)


def around_while_another_run_is_under_way(comm: Communicator) -> int:
    if comm.rank == 0:
        _two_runs.wait(timeout=100)
    comm.barrier()
    return comm.rank


def test_two_runs_at_once_with_a_thread_for_each_rank() -> None:
    results: list[list[int]] = []

    def run() -> None:
        world = SimulatedWorld(3, contexts="threads")
        results.append(world.run(around_while_another_run_is_under_way, timeout=100))

    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    assert results == [[0, 1, 2]] * 2


def test_a_run_inside_another_with_a_thread_for_each_rank() -> None:
    def outer(comm: Communicator) -> list[int]:
        comm.barrier()
        inner = SimulatedWorld(2, contexts="threads").run(exchanges)
        comm.barrier()
        return inner

    def exchanges(comm: Communicator) -> int:
        comm.exchange(torch.ones(1), 1 - comm.rank, torch.empty(1), 1 - comm.rank)
        return comm.rank

    assert simulate(2, outer, contexts="threads").results == [[0, 1]] * 2


def test_a_simulated_world_inside_a_real_rank(worlds) -> None:
    def nested(comm: Communicator) -> list[int]:
        return SimulatedWorld(3).run(lambda inner: inner.rank)

    assert worlds(1).run(nested, timeout=100) == [[0, 1, 2]]
    with World(1) as world:
        assert repr(world)


# ── collectives of ranks that have threads ───────────────────────────────────────────────────────────────────────────


def run_collective(comm: Communicator, function: Callable[[Communicator], object]) -> None:
    comm.run_collective(function)


def in_hub(comm: Communicator) -> list[Any]:
    """The thread that a collective runs in, its time, and what has come."""
    found: list[Any] = []

    def call(comm: Communicator) -> None:
        all_reduce(comm, tensor := torch.ones(6), algorithm="ring")
        found.extend([threading.get_ident(), torch.is_grad_enabled(), tensor.sum().item()])

    with torch.no_grad() if comm.rank else torch.enable_grad():
        comm.run_collective(call)
        found.append(torch.is_grad_enabled())
    comm.start(run_collective, call).wait()
    return [*found[1:], found[0] == threading.get_ident(), comm.time()]


def test_collectives_of_all_ranks_run_in_one_thread() -> None:
    """It makes no difference to times and results; each rank has its own modes outside."""
    world = SimulatedWorld(3, contexts="threads")
    results = world.run(in_hub)
    counts = world.trace.messages_sent
    assert {message.site.function for message in world.trace.messages} == {"in_hub"}
    for rank, (inside, total, outside, _, _, again, own_thread, time) in enumerate(results):
        assert (inside, total, outside, again, own_thread) == (False, 18.0, rank == 0, 18.0, False)
        assert time == pytest.approx(2 * all_reduce_seconds("ring", world.cluster, 6, 4))
    world = SimulatedWorld(3)
    assert [each[-2:] for each in world.run(in_hub)] == [[True, time] for *_, time in results]
    assert world.trace.messages_sent == counts


def test_a_collective_in_the_hubs_thread_that_fails_is_the_ranks_error() -> None:
    def fails(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("no such thing")
        comm.recv(torch.ones(1), 1)

    def run(comm: Communicator) -> str:
        try:
            comm.run_collective(fails)
        except ValueError as error:
            comm.send(torch.ones(1), 0)
            return str(error)
        return ""

    assert SimulatedWorld(2, contexts="threads").run(run) == ["", "no such thing"]


def test_a_collective_in_the_hubs_thread_that_never_ends() -> None:
    def waits(comm: Communicator) -> None:
        comm.recv(torch.ones(1), 1 - comm.rank)

    def turns(comm: Communicator) -> None:
        while True:
            pass

    world = SimulatedWorld(2, contexts="threads")
    with pytest.raises(DeadlockError, match="waits"):
        world.run(run_collective, waits)
    with pytest.raises(RunTimeout):
        world.run(run_collective, turns, timeout=0.3)
    assert world.run(in_hub)[0][1] == 12.0

"""`World(network=…)`: real ranks over a paced network. A message never arrives early, and ports carry one at a time.

How late a message may be, no test says; that is measured in benchmarks. What is exact are the times in the trace.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    Message,
    MessageMismatch,
    PeerLost,
    SimulatedWorld,
    UnreceivedMessage,
    World,
    all_reduce,
    barrier,
    calibrate,
)
from distlib.worlds.calibration import compare
from distlib.worlds.real import pacing
from distlib.worlds.real.mailbox import INLINE_BYTES
from distlib.worlds.real.pacing import AT_ONCE, MOST_LAG, NetworkClock
from distlib.worlds.real.port_table import PortTable
from tests.tools.midst import until_in_the_midst, until_there
from tests.tools.time_limits import out_of_time

LINK = Link(latency=2e-3, bandwidth=20e6)
TINY = 1e-9  # of rounding


@pytest.fixture(scope="module")
def paced() -> Iterator[Callable[[int], World]]:
    """Warm worlds on `LINK`, by size."""
    made: dict[int, World] = {}
    yield lambda size: made.setdefault(size, World(size, network=LINK))
    for world in made.values():
        world.close()


@pytest.fixture(scope="module")
def endless() -> Iterator[World]:
    """Two ranks on a link so slow that `long_message` is under way whenever somebody looks."""
    with World(2, network=Link(latency=2e-3, bandwidth=20e3)) as world:
        yield world


@pytest.fixture(scope="module")
def at_once() -> Iterator[World]:
    """Two ranks to whom no delay happens: what follows a message or a barrier counts as posted at once."""

    def patch(comm: Communicator) -> None:
        pacing.AT_ONCE = 1000.0

    with World(2, network=LINK) as world:
        world.run(patch)
        yield world


def assert_like_the_model(messages: Sequence[Message], cluster: Cluster) -> None:
    """Each message takes at least as long as on its link, and no port carries two at a time."""
    assert messages
    for message in messages:
        assert message.start <= message.taken
        seconds = cluster.link(message.src, message.dst).seconds(message.nbytes)
        assert message.end - message.taken == pytest.approx(seconds, abs=TINY)
    for port in ("src", "dst"):
        for rank in range(cluster.world_size):
            assert_one_at_a_time([m for m in messages if getattr(m, port) == rank], cluster)


def assert_one_at_a_time(messages: Sequence[Message], cluster: Cluster) -> None:
    busy = sorted((m.taken, m.end - cluster.link(m.src, m.dst).latency) for m in messages)
    for (_, end), (start, _) in zip(busy, busy[1:], strict=False):
        assert start >= end - TINY


# ── the same values, later ───────────────────────────────────────────────────────────────────────────────────────────


def all_reduced(comm: Communicator, algorithm: str, length: int) -> torch.Tensor:
    tensor = torch.arange(length, dtype=torch.float64) * (comm.rank + 1)
    all_reduce(comm, tensor, algorithm=algorithm)
    return tensor


@pytest.mark.parametrize("length", [5, INLINE_BYTES])
@pytest.mark.parametrize("algorithm", ["naive", "tree", "ring", "halving_doubling"])
def test_values_are_those_of_any_world(paced, worlds, algorithm: str, length: int) -> None:
    found, wanted = paced(4).run(all_reduced, algorithm, length), worlds(4).run(all_reduced, algorithm, length)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert paced(4).trace.messages_sent == worlds(4).trace.messages_sent
    assert paced(4).trace.rounds == worlds(4).trace.rounds
    assert_like_the_model(paced(4).trace.messages, Cluster.flat(4, LINK))


def test_a_message_is_never_early(paced) -> None:
    def timed(comm: Communicator) -> float:
        tensor = torch.zeros(50_000)
        comm.barrier()
        start = time.perf_counter()
        if comm.rank == 0:
            comm.send(tensor, 1)
        else:
            comm.recv(tensor, 0)
        return time.perf_counter() - start

    seconds = LINK.seconds(200_000)
    assert all(measured >= seconds - MOST_LAG - AT_ONCE for measured in paced(2).run(timed))
    (message,) = paced(2).trace.messages
    assert message.end - message.taken == pytest.approx(seconds, abs=TINY)


def test_two_messages_to_one_rank_come_one_after_the_other(paced) -> None:
    def gather(comm: Communicator) -> None:
        tensor = torch.zeros(25_000)
        if comm.rank == 0:
            for work in [comm.irecv(torch.zeros(25_000), src) for src in (1, 2, 3)]:
                work.wait()
        else:
            comm.send(tensor, 0)

    paced(4).run(gather)
    messages = paced(4).trace.messages
    assert_like_the_model(messages, Cluster.flat(4, LINK))
    assert max(m.end for m in messages) - min(m.taken for m in messages) >= 3 * 100_000 / LINK.bandwidth


def meet_and_swap(comm: Communicator) -> None:
    """Rank 1 comes later."""
    if comm.rank == 1:
        comm.sleep(0.1)
    comm.barrier()
    comm.exchange(torch.zeros(200_000), 1 - comm.rank, torch.zeros(200_000), 1 - comm.rank)


def test_a_rank_sends_and_receives_at_the_same_time(at_once: World) -> None:
    at_once.run(meet_and_swap)
    one, other = at_once.trace.messages
    assert one.taken == other.taken


def chain(comm: Communicator) -> None:
    """Rank 0 computes and sends; the message goes round."""
    tensor = torch.zeros(1000)
    for _ in range(3):
        if comm.rank == 0:
            comm.sleep(0.02)
            comm.send(tensor, 1)
            comm.recv(tensor, comm.world_size - 1)
        else:
            comm.recv(tensor, comm.rank - 1)
            comm.send(tensor, (comm.rank + 1) % comm.world_size)


def test_virtual_time_is_never_later(paced) -> None:
    """What is simulated takes no longer than the same on the clock."""
    simulated = SimulatedWorld(3, Cluster.flat(3, LINK))
    simulated.run(chain)
    paced(3).run(chain)
    real, virtual = paced(3).trace.messages, simulated.trace.messages
    assert [(m.src, m.dst) for m in real] == [(m.src, m.dst) for m in virtual]
    assert real[-1].end - real[0].taken >= virtual[-1].end - virtual[0].taken - 3 * AT_ONCE


def test_two_kinds_of_links_and_a_shared_one() -> None:
    cluster = Cluster(2, 2, intra=Link(1e-4, 1e9), inter=Link(3e-3, 10e6), shared_uplink=True)

    def across(comm: Communicator) -> Cluster | None:
        all_reduced(comm, "ring", 4000)
        comm.barrier()
        tensor = torch.zeros(10_000)
        if comm.rank < 2:
            comm.send(tensor, comm.rank + 2)
        else:
            comm.recv(tensor, comm.rank - 2)
        return comm.network

    with World(4, network=cluster) as world:
        assert world.run(across) == [cluster] * 4
        messages = world.trace.messages
    assert_like_the_model(messages, cluster)
    between = [m for m in messages if m.nbytes == 40_000]
    assert len(between) == 2
    assert_one_at_a_time(between, cluster)  # they have four different ranks, and one uplink


def test_a_message_below_the_eager_limit_does_not_wait_for_its_receiver() -> None:
    def late(comm: Communicator, length: int) -> float:
        tensor = torch.ones(length)
        if comm.rank == 0:
            comm.send(tensor, 1)
            tensor.zero_()  # what was sent is what it was
            comm.send(tensor, 1, tag=1)
            return comm.time()
        comm.recv(torch.empty(length), 0, tag=1)
        comm.recv(tensor.zero_(), 0)
        return float(tensor.sum())

    for length in (10, INLINE_BYTES):
        with World(2, network=Cluster.flat(2, LINK, eager_limit=4 * length)) as world:
            _, total = world.run(late, length)
            assert total == length
            assert world.run(lambda comm: comm.network)[0].eager_limit == 4 * length
        with World(2, network=LINK) as world, pytest.raises(DeadlockError):
            world.run(late, length)


def test_an_eager_message_that_nobody_takes() -> None:
    def forget(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.ones(3), 1)

    with World(2, network=Cluster.flat(2, LINK, eager_limit=100)) as world:
        with pytest.raises(UnreceivedMessage):
            world.run(forget)
        assert world.run(lambda comm: comm.rank) == [0, 1]


# ── computing meanwhile ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_travels_while_its_ranks_compute(paced) -> None:
    def overlapped(comm: Communicator) -> tuple[float, float]:
        tensor = torch.zeros(100_000)
        work = comm.isend(tensor, 1) if comm.rank == 0 else comm.irecv(tensor, 0)
        posted = comm.time()
        comm.sleep(0.1)
        work.wait()
        return posted, comm.time()

    by_rank = paced(2).run(overlapped)
    (message,) = paced(2).trace.messages
    assert message.taken <= max(posted for posted, _ in by_rank)  # not: when somebody looked
    assert message.end <= min(end for _, end in by_rank)


def test_a_started_call_goes_on_while_its_rank_computes(paced) -> None:
    def overlapped(comm: Communicator) -> list[float]:
        tensor = torch.ones(1000)
        comm.barrier()
        work = all_reduce(comm, tensor, async_op=True)
        matrix = torch.zeros(100, 100)
        times = [comm.time()]
        while not work.is_completed():
            matrix @= matrix
        work.wait()
        assert tensor.tolist() == [3.0] * 1000
        return [*times, comm.time()]

    by_rank = paced(3).run(overlapped)
    messages = paced(3).trace.messages
    assert_like_the_model(messages, Cluster.flat(3, LINK))
    assert all(end >= max(m.end for m in messages if rank in (m.src, m.dst)) for rank, (_, end) in enumerate(by_rank))


def test_what_is_under_way_is_not_complete(endless: World) -> None:
    """The message takes 2,000 seconds, and nobody waits for it."""

    def look(comm: Communicator) -> bool:
        tensor = torch.zeros(10_000_000)
        work = comm.isend(tensor, 1) if comm.rank == 0 else comm.irecv(tensor, 0)
        comm.barrier()  # both ends are there
        return work.is_completed()

    assert endless.run(look) == [False, False]


def test_stragglers_sleep_longer() -> None:
    def nap(comm: Communicator) -> float:
        comm.sleep(0.2)
        return comm.time()

    with World(2, network=Cluster.flat(2, LINK, stragglers={1: 3.0})) as world:
        world.run(nap)  # later, the ranks begin at once
        plain, straggler = world.run(nap)
    assert plain >= 0.2 - TINY and straggler >= 0.6 - TINY


def test_clusters_are_known_to_ranks(paced, worlds) -> None:
    assert paced(2).run(lambda comm: comm.network) == [Cluster.flat(2, LINK)] * 2
    assert worlds(2).run(lambda comm: comm.network) == [None] * 2
    cluster = Cluster.flat(3, LINK)
    assert SimulatedWorld(3, cluster).run(lambda comm: comm.network) == [cluster] * 3
    assert paced(3).run(lambda comm: comm.split(0).network) == [cluster] * 3


def test_auto_chooses_by_the_network(paced) -> None:
    def auto(comm: Communicator, length: int) -> None:
        all_reduce(comm, torch.zeros(length), algorithm="auto")

    paced(4).run(auto, 8)
    assert paced(4).trace.rounds <= 4  # few rounds, where only latency counts


def test_a_paced_world_can_be_measured(paced) -> None:
    """No message is early. That one is late, on a busy machine, is no fault."""
    assert calibrate(paced(2), sizes=(4096, 1_000_000), repeats=3).intra.bandwidth > 0
    (comparison,) = compare(paced(2), Cluster.flat(2, LINK), sizes=(100_000,), repeats=3)
    assert comparison.measured >= 0.9 * comparison.predicted - MOST_LAG


# ── going wrong ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rank_that_waits_for_its_message_is_not_deadlocked(paced) -> None:
    def slow(comm: Communicator) -> float:
        tensor = torch.ones(200_000)  # 42 ms; the kernel looks every 50
        for _ in range(10):
            if comm.rank == 0:
                comm.send(tensor, 1)
            elif comm.rank == 1:
                comm.recv(tensor, 0)
        comm.barrier()
        return float(tensor.sum())

    assert paced(3).run(slow) == [200_000.0] * 3


def test_a_deadlock_is_named_while_others_send(paced) -> None:
    def stuck(comm: Communicator) -> None:
        tensor = torch.zeros(100_000)
        if comm.rank == 0:
            comm.send(tensor, 1)
        elif comm.rank == 1:
            comm.recv(tensor, 0)
        if comm.rank in (1, 2):
            comm.recv(tensor, 3 - comm.rank)

    with pytest.raises(DeadlockError, match="rank 1 waits to receive 100000 float32 from rank 2"):
        paced(3).run(stuck)
    assert paced(3).run(lambda comm: comm.rank) == [0, 1, 2]


def test_a_mismatch_is_named(paced) -> None:
    def wrong(comm: Communicator) -> None:
        comm.send(torch.zeros(3), 1) if comm.rank == 0 else comm.recv(torch.zeros(4), 0)

    with pytest.raises(MessageMismatch, match="rank 0 sends 3 float32"):
        paced(2).run(wrong)


def long_message(comm: Communicator, started: Path | None = None) -> None:
    tensor = torch.zeros(40_000_000 // 4)  # 2 s on LINK, 2,000 s on a link of `endless`
    if started is not None:
        (started / str(os.getpid())).touch()
    comm.send(tensor, 1) if comm.rank == 0 else comm.recv(tensor, 0)


def test_a_time_limit_says_what_was_under_way(endless: World) -> None:
    words = "rank 0 waits while 10000000 float32 travels to rank 1"
    assert words in out_of_time(endless, long_message, words)
    assert endless.run(all_reduced, "ring", 3)[0].tolist() == [0, 3, 6]


def test_an_interrupt_ends_a_message(endless: World, tmp_path: Path) -> None:
    endless.run(lambda comm: None)

    def interrupt() -> None:
        until_there(tmp_path, "*", 2)
        until_in_the_midst(int(path.name) for path in tmp_path.iterdir())
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            endless.run(long_message, tmp_path)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert endless.run(all_reduced, "ring", 3)[0].tolist() == [0, 3, 6]


def test_a_lost_rank_is_named(paced) -> None:
    def die(comm: Communicator) -> None:
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        long_message(comm)

    with pytest.raises(PeerLost, match="rank 1 ended"):
        paced(2).run(die)
    assert paced(2).run(all_reduced, "ring", 3)[0].tolist() == [0, 3, 6]


def test_a_run_starts_with_free_ports(endless: World) -> None:
    """Though the one before was stopped with a message under way."""
    out_of_time(endless, long_message, "travels")
    endless.run(all_reduced, "ring", 3)
    assert all(m.taken - m.start < 1000 for m in endless.trace.messages)


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (1e-3, r"expects a Link or a Cluster as its network, got 0.001: try World\(2, network=Link"),
        ((1e-3, 50e6), r"expects a Link or a Cluster as its network, got \(0.001, 50000000.0\)"),
        (Cluster(2, 4), r"World\(2\) expects a network for 2 ranks, got a Cluster of 8 \(2 nodes of 4\): try World\(8"),
    ],
)
def test_what_is_not_a_network(network: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        World(2, network=network)


def test_a_world_says_that_it_is_paced(paced) -> None:
    assert "paced by links of 2000 µs, 0.02 GB/s" in repr(paced(2))
    assert paced(2).network == Cluster.flat(2, LINK)
    assert "paced" not in repr(World(2))


# ── the clock and the ports ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_clock_of_the_network_lags_by_what_the_rank_was_late() -> None:
    real = 0.0
    clock = NetworkClock(lambda: real)
    real = 1.0
    assert clock.now() == 1.0
    clock.reach(0.98)  # over at 0.98, and noticed at 1.0
    assert clock.now() == 0.98
    real = 1.0 + AT_ONCE / 2
    assert clock.now() == 0.98  # at once
    real = 2.0
    assert clock.now() == pytest.approx(1.98)  # it has computed for a second
    clock.reach(1.0)
    assert clock.now() == pytest.approx(2.0 - MOST_LAG)  # so late is not Python's delay


def test_a_started_call_begins_after_what_was_under_way() -> None:
    clock = NetworkClock(lambda: 1.0)
    clock.reach(0.99)
    clock.resume(0.97)
    assert clock.now() == 0.99
    clock.resume(0.995)
    assert clock.now() == 0.995


@pytest.fixture
def table(tmp_path: Path) -> PortTable:
    PortTable(str(tmp_path / "ports"), 4, create=True).close()
    return PortTable(str(tmp_path / "ports"), 4)


def test_ports_are_booked_one_message_after_the_other(table: PortTable) -> None:
    assert table.book(1, [0, 1], 0.0, 1.0) == 0.0
    assert table.book(1, [0, 3], 0.5, 1.0) == 1.0  # the out-port is taken
    assert table.book(1, [2, 1], 0.7, 1.0) == 1.0  # the in-port is taken
    assert table.book(1, [2, 3], 0.8, 1.0) == 2.0  # both
    assert table.book(2, [0, 1], 0.0, 1.0) == 0.0  # another run


def test_who_was_ready_first_goes_first_if_there_is_room(table: PortTable) -> None:
    assert table.book(1, [0, 1], 5.0, 2.0) == 5.0
    assert table.book(1, [0, 3], 1.0, 2.0) == 1.0  # it was ready before, and comes to be booked later
    assert table.book(1, [0, 3], 1.0, 4.0) == 7.0  # too long to end by 5
    assert table.book(1, [0, 1], 6.0, 1.0) == 11.0  # no overtaking
    for number in range(100):
        assert table.book(2, [2], 0.0, 1.0) == number


def test_barriers_end_when_the_last_rank_has_come(at_once: World, paced) -> None:
    at_once.run(meet_and_swap)
    one, other = at_once.trace.messages
    assert one.start == other.start >= 0.1  # both count from the same moment

    paced(2).run(barrier)  # one that is made of messages
    assert_like_the_model(paced(2).trace.messages, Cluster.flat(2, LINK))

"""Ranks that die in a run which goes on without them, in virtual time: who notices what, and exactly when."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st

from distlib import Communicator, DeadlockError, PeerLost, RankError, SimulatedWorld, UnreceivedMessage, all_reduce
from distlib.network import Cluster, Link
from distlib.worlds.deaths import WhileWaiting

LINK = Link(latency=2.0, bandwidth=8.0)  # 4 floats: 2 s for the ports, 2 s of latency
ONE = torch.ones(4)


def simulate(world_size: int, function, *args, deaths, cluster: Cluster | None = None, **options) -> SimulatedWorld:
    world = SimulatedWorld(world_size, cluster or Cluster.flat(world_size, LINK), deaths=deaths, **options)
    world.results = world.run(function, *args, timeout=100)
    return world


def noticed(comm: Communicator, call: Callable[[], object]) -> tuple[list[int], float] | str:
    """Which ranks a call reports as lost, and when; "fine" if it works."""
    try:
        call()
    except PeerLost as error:
        return error.lost, comm.time()
    return "fine"


def empty() -> torch.Tensor:
    return torch.zeros(4)


# ── the rank that dies ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_a_dead_rank_has_a_peer_lost_as_its_result(contexts: str) -> None:
    def sleep(comm: Communicator) -> float:
        comm.sleep(2.0 * comm.rank)
        return comm.time()

    world = simulate(3, sleep, deaths={2: 3.0}, contexts=contexts)
    *living, dead = world.results
    assert living == [0, 2]
    assert isinstance(dead, PeerLost) and dead.lost == [2]
    assert "rank 2 died 3 s" in str(dead)
    assert world.elapsed == 3


def test_a_rank_that_has_returned_is_left_alone() -> None:
    assert simulate(2, lambda comm: comm.rank, deaths={0: 1.0, 1: 0.5}).results == [0, 1]


def test_a_death_at_the_start_comes_before_the_function() -> None:
    seen = []
    world = SimulatedWorld(2, deaths={0: 0.0})
    lost, one = world.run(lambda comm: (seen.append(comm.rank), comm.rank)[1])
    assert isinstance(lost, PeerLost) and one == 1


def test_what_a_rank_does_at_the_time_of_its_death_does_not_happen() -> None:
    def wait_in_vain(comm: Communicator) -> object:
        if comm.rank == 0:
            comm.recv(empty(), 1)
        else:
            comm.sleep(1)
            comm.send(ONE, 0)  # from 1 to 5
        return comm.time()

    assert simulate(2, wait_in_vain, deaths={0: 5.1}).results == [5, 5]
    assert isinstance(simulate(2, lambda comm: comm.sleep(5), deaths={0: 5.0}).results[0], PeerLost)


def test_all_ranks_dead_is_an_error() -> None:
    with pytest.raises(PeerLost, match="no rank is left") as info:
        simulate(2, lambda comm: comm.sleep(9), deaths={0: 1.0, 1: 2.0})
    assert info.value.lost == [0, 1]


def test_a_rank_that_raises_still_fails_the_run() -> None:
    def fail(comm: Communicator) -> None:
        comm.sleep(2)
        raise KeyError("a bug")

    with pytest.raises(RankError, match="a bug") as info:
        simulate(2, fail, deaths={0: 1.0})
    assert not isinstance(info.value, PeerLost) and info.value.ranks == [1]


def test_a_survivor_that_does_not_catch_its_peer_lost_fails_the_run() -> None:
    with pytest.raises(RankError, match="raised PeerLost: rank 1 has died. Rank 0 can't receive 4 float32 from it"):
        simulate(2, lambda comm: comm.recv(empty(), 1) if comm.rank == 0 else comm.sleep(9), deaths={1: 1.0})


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_last_words_of_a_dead_rank_are_not_heard(contexts: str) -> None:
    def with_last_words(comm: Communicator) -> object:
        if comm.rank == 0:
            return noticed(comm, lambda: comm.recv(empty(), 1))
        try:
            comm.sleep(9)
        finally:
            comm.sleep(1)
            comm.send(ONE, 0)

    assert simulate(2, with_last_words, deaths={1: 1.0}, contexts=contexts).results[0] == ([1], 1.0)


# ── what the others notice, and when ─────────────────────────────────────────────────────────────────────────────────

# each call of rank 0 needs rank 1
CALLS: dict[str, Callable[[Communicator], object]] = {
    "send": lambda comm: comm.send(ONE, 1),
    "recv": lambda comm: comm.recv(empty(), 1),
    "isend": lambda comm: comm.isend(ONE, 1).wait(),
    "irecv": lambda comm: comm.irecv(empty(), 1).wait(),
    "exchange": lambda comm: comm.exchange(ONE, 1, empty(), 1),
    "anyone": lambda comm: comm.recv(empty()),
    "irecv anyone": lambda comm: comm.irecv(empty()).wait(),
    "barrier": lambda comm: comm.barrier(),
    "split": lambda comm: comm.split(0),
    "all_reduce": lambda comm: all_reduce(comm, empty()),
    "started": lambda comm: comm.start(lambda comm: comm.recv(empty(), 1)).wait(),
}


@pytest.mark.parametrize("begins", [0.0, 3.0, 7.0], ids=["before", "at the same time", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_that_needs_a_dead_rank_says_so(call: str, begins: float) -> None:
    def run(comm: Communicator) -> object:
        comm.sleep(9 if comm.rank == 1 else begins)
        return noticed(comm, lambda: CALLS[call](comm))

    for cluster in (Cluster.flat(2, LINK), Cluster.flat(2, LINK, eager_limit=100)):
        assert simulate(2, run, deaths={1: 3.0}, cluster=cluster).results[0] in (
            ([1], max(begins, 3.0)),
            "fine" if cluster.eager_limit and begins == 0 and call in ("send", "isend") else None,
        )


@pytest.mark.parametrize("call", CALLS)
def test_every_call_that_needs_a_rank_that_dies_while_it_is_blocked_says_so(call: str) -> None:
    def run(comm: Communicator) -> object:
        if comm.rank == 1:
            comm.recv(empty(), 0, tag=9)
        return noticed(comm, lambda: CALLS[call](comm))

    assert simulate(2, run, deaths={1: 3.0}).results[0] == ([1], 3.0)


def test_a_poll_notices_a_death() -> None:
    def poll(comm: Communicator) -> object:
        if comm.rank == 1:
            comm.sleep(9)
        work = comm.irecv(empty(), 1)
        polls = 0
        while not work.is_completed():
            comm.sleep(0.5)
            polls += 1
        return polls, noticed(comm, work.wait)[0]

    assert simulate(2, poll, deaths={1: 3.0}).results[0] == (6, [1])


@pytest.mark.parametrize("dead", [0, 1], ids=["sender", "receiver"])
@pytest.mark.parametrize(("dies", "counts"), [(0.5, False), (2.0, False), (4.5, False), (5.5, True)])
def test_a_message_counts_if_it_was_over_before_the_death(dead: int, dies: float, counts: bool) -> None:
    """Offered at 0, taken at 1, over at 5."""

    def one_message(comm: Communicator) -> object:
        comm.sleep(comm.rank)
        tensor = empty()
        seen = noticed(comm, lambda: comm.send(ONE, 1) if comm.rank == 0 else comm.recv(tensor, 0))
        comm.sleep(9)
        return seen, tensor.sum().item()

    world = simulate(2, one_message, deaths={dead: dies})
    arrived = 4.0 * (counts and dead == 0)
    assert world.results[1 - dead] == ("fine" if counts else ([dead], max(dies, 1.0 - dead)), arrived)
    assert isinstance(world.results[dead], PeerLost)
    assert len(world.trace) == world.trace.messages_sent[0] == counts


def test_a_port_is_free_again_when_the_other_end_dies() -> None:
    """Rank 2's port is busy with a message of rank 0 from 0 to 4. Rank 0 dies at 3; then rank 1 has its turn."""

    def two_senders(comm: Communicator) -> object:
        if comm.rank < 2:
            comm.sleep(comm.rank)
            comm.send(torch.ones(8), 2)
        else:
            first = comm.irecv(torch.empty(8), 0)
            second = comm.irecv(torch.empty(8), 1)
            second.wait()
            return comm.time(), noticed(comm, first.wait)

    assert simulate(3, two_senders, deaths={0: 3.0}).results[2] == (3 + 4 + 2, ([0], 9.0))


def test_a_survivor_goes_on_with_the_living() -> None:
    def go_on(comm: Communicator) -> object:
        if comm.rank == 2:
            comm.sleep(9)
        assert noticed(comm, lambda: comm.recv(empty(), 2)) == ([2], 1.0)
        assert noticed(comm, lambda: comm.send(ONE, 2))[0] == [2]
        incoming, other = empty(), 1 - comm.rank
        comm.exchange(ONE * comm.rank, other, incoming, other)
        return incoming.sum().item(), noticed(comm, comm.barrier)[0]

    assert simulate(3, go_on, deaths={2: 1.0}).results[:2] == [(4.0, [2]), (0.0, [2])]


def test_a_group_without_the_dead_rank_is_whole() -> None:
    def in_pairs(comm: Communicator) -> object:
        pair = comm.split(comm.rank // 2)
        comm.sleep(2)
        tensor = torch.ones(4)
        return noticed(comm, lambda: all_reduce(pair, tensor)), tensor.sum().item()

    first, second, third, dead = simulate(4, in_pairs, deaths={3: 1.0}).results
    assert first == second == ("fine", 8.0)
    assert third == (([3], 2.0), 4.0)
    assert isinstance(dead, PeerLost)


def test_an_exchange_completes_its_half_with_the_living() -> None:
    def around(comm: Communicator) -> object:
        if comm.rank == 2:
            comm.sleep(9)
        incoming = empty()
        right, left = (comm.rank + 1) % 3, (comm.rank - 1) % 3
        seen = noticed(comm, lambda: comm.exchange(ONE, right, incoming, left))
        return seen, incoming.sum().item()

    zero, one, _ = simulate(3, around, deaths={2: 1.0}).results
    assert zero == (([2], 4.0), 0.0)  # its message to rank 1 is over at 4
    assert one == (([2], 4.0), 4.0)


def test_a_barrier_names_all_who_are_dead_by_then() -> None:
    def meet(comm: Communicator) -> object:
        comm.sleep({0: 0, 1: 5, 2: 9, 3: 2}[comm.rank])
        return noticed(comm, comm.barrier)

    results = simulate(4, meet, deaths={2: 3.0, 3: 2.5}).results  # rank 3 dies in the barrier
    assert results[:2] == [([3], 2.5), ([2, 3], 5.0)]


def test_a_barrier_that_was_over_before_the_death_counts() -> None:
    def meet(comm: Communicator) -> object:
        comm.sleep(comm.rank)
        seen = noticed(comm, comm.barrier)
        comm.sleep(5)
        return seen, noticed(comm, comm.barrier)

    assert simulate(3, meet, deaths={1: 2.5}).results[0] == ("fine", ([1], 7.0))


def test_a_started_call_goes_on_until_the_death() -> None:
    def in_background(comm: Communicator) -> object:
        if comm.rank == 1:
            comm.start(lambda comm: comm.send(ONE, 0))  # over at 4
            comm.start(lambda comm: comm.send(ONE, 0))  # over at 8
            comm.sleep(99)
        comm.recv(empty(), 1)
        return comm.time(), noticed(comm, lambda: comm.recv(empty(), 1))

    assert simulate(2, in_background, deaths={1: 5.0}).results[0] == (4.0, ([1], 5.0))


def test_a_mismatch_with_a_dead_rank_is_a_lost_peer() -> None:
    def misfit(comm: Communicator) -> object:
        if comm.rank == 1:
            comm.send(torch.ones(9), 0)
        comm.sleep(5)
        return noticed(comm, lambda: comm.recv(empty(), 1))

    assert simulate(2, misfit, deaths={1: 1.0}).results[0] == ([1], 5.0)


# ── from anyone ──────────────────────────────────────────────────────────────────────────────────────────────────────


def listen(comm: Communicator, times: int, busy: float) -> list[object]:
    """Receive from anyone: who has sent, or who was lost, each with the time."""
    heard: list[object] = []
    for _ in range(times):
        try:
            heard.append((comm.recv(empty()), comm.time()))
        except PeerLost as error:
            heard.append(("lost", error.lost, comm.time()))
        comm.sleep(busy)
    return heard


def test_a_server_learns_of_each_death_once() -> None:
    def serve(comm: Communicator) -> object:
        if comm.rank == 0:
            return listen(comm, 6, busy=0)
        comm.sleep(comm.rank)
        comm.send(ONE, 0)
        comm.sleep(20 * (comm.rank != 3))
        comm.send(ONE, 0)

    heard = simulate(4, serve, deaths={1: 20.0, 2: 19.0}).results[0]
    assert heard == [(1, 5.0), (2, 9.0), (3, 13.0), (3, 17.0), ("lost", [2], 19.0), ("lost", [1], 20.0)]


def test_a_death_is_reported_before_messages_that_were_not_offered_before_it() -> None:
    def serve(comm: Communicator, offered: float) -> object:
        if comm.rank == 0:
            return listen(comm, 2, busy=0)
        comm.sleep(offered if comm.rank == 1 else 9)
        comm.send(ONE, 0)

    assert simulate(3, serve, 2.9, deaths={2: 3.0}).results[0] == [(1, 6.9), ("lost", [2], 6.9)]
    assert simulate(3, serve, 3.1, deaths={2: 3.0}).results[0] == [("lost", [2], 3.0), (1, 7.1)]


def test_a_server_that_was_busy_learns_of_the_death_first() -> None:
    def serve(comm: Communicator) -> object:
        if comm.rank == 0:
            comm.sleep(5)
            return listen(comm, 2, busy=0)
        comm.sleep(9 * (comm.rank == 2))
        comm.send(ONE, 0)

    assert simulate(3, serve, deaths={2: 3.0}).results[0] == [("lost", [2], 5.0), (1, 9.0)]


def test_eager_messages_of_the_dead_come_before_the_news() -> None:
    def serve(comm: Communicator) -> object:
        if comm.rank == 0:
            comm.sleep(7)
            return listen(comm, 2, busy=0)
        comm.send(ONE, 0)  # has left at 2
        comm.send(ONE, 0)  # would have left at 4

    world = simulate(2, serve, deaths={1: 3.0}, cluster=Cluster.flat(2, LINK, eager_limit=16))
    assert world.results[0] == [(1, 7.0), ("lost", [1], 7.0)]


def test_a_begun_message_of_the_dead_is_the_news() -> None:
    def serve(comm: Communicator) -> object:
        return listen(comm, 2, busy=0) if comm.rank == 0 else comm.sleep(1) or comm.send(ONE, 0) or comm.send(ONE, 0)

    assert simulate(2, serve, deaths={1: 7.0}).results[0] == [(1, 5.0), ("lost", [1], 7.0)]


def test_when_nobody_is_left_who_could_send_that_is_a_deadlock() -> None:
    def serve(comm: Communicator) -> object:
        return listen(comm, 2, busy=0) if comm.rank == 0 else comm.sleep(5)

    with pytest.raises(DeadlockError, match="rank 1 has died, and nobody else is left who could send") as info:
        simulate(2, serve, deaths={1: 3.0})
    assert info.value.ranks == [0]


def test_a_deadlock_of_survivors_is_found_as_ever() -> None:
    def circle(comm: Communicator) -> None:
        if comm.rank == 2:
            comm.sleep(9)
        noticed(comm, lambda: comm.recv(empty(), 2))
        comm.recv(empty(), 1 - comm.rank)

    with pytest.raises(DeadlockError, match="No rank on this cycle has sent"):
        simulate(3, circle, deaths={2: 3.0})


def test_messages_to_the_dead_are_not_missed_and_those_to_the_living_are() -> None:
    def send(comm: Communicator, dst: int) -> None:
        if comm.rank == 0:
            comm.isend(ONE, dst)
        elif comm.rank == 2:
            comm.sleep(9)

    simulate(3, send, 2, deaths={2: 3.0})
    with pytest.raises(UnreceivedMessage):
        simulate(3, send, 1, deaths={2: 3.0})


# ── bad input, and the same every time ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("deaths", "says"),
    [
        ([2], "mapping"),
        (3, "mapping"),
        ({4: 1.0}, "ranks from 0 to 3, got 4"),
        ({-1: 1.0}, "ranks from 0 to 3, got -1"),
        ({"1": 1.0}, "ranks from 0 to 3, got '1'"),
        ({1: -0.5}, "rank 1 dies, at least 0, got -0.5"),
        ({1: math.nan}, "got nan"),
        ({1: math.inf}, "got inf"),
        ({1: "soon"}, "got 'soon'"),
    ],
)
def test_deaths_that_can_not_be(deaths: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SimulatedWorld(4, deaths=deaths)


def toy_training(comm: Communicator, steps: int) -> object:
    """A server applies what comes, until nobody is left; workers send a gradient and get the model."""
    model, gradient = torch.zeros(4), torch.empty(4)
    if comm.rank > 0:
        for step in range(steps):
            comm.sleep(0.3 * comm.rank + 0.1 * step)
            comm.send(torch.full((4,), float(comm.rank)), 0)
            comm.recv(model, 0)
        return model.tolist()
    left = {worker: steps for worker in range(1, comm.world_size)}
    while left:
        try:
            worker = comm.recv(gradient)
            model += gradient
            comm.send(model, worker)
            left[worker] -= 1
        except PeerLost as error:
            for worker in error.lost:
                left.pop(worker, None)
        left = {worker: steps for worker, steps in left.items() if steps}
    return model.tolist()


@given(st.dictionaries(st.integers(1, 4), st.floats(0, 6, allow_subnormal=False)), st.sampled_from([0, 16]))
def test_the_same_deaths_give_the_same_run(deaths: dict[int, float], eager_limit: int) -> None:
    def run() -> tuple[object, ...]:
        cluster = Cluster.flat(5, Link(latency=0.01, bandwidth=1000), eager_limit=eager_limit)
        world = simulate(5, toy_training, 6, deaths=deaths, cluster=cluster)
        messages = [(m.src, m.dst, m.start, m.taken, m.end) for m in world.trace]
        return messages, world.elapsed, [str(result) for result in world.results]

    messages, elapsed, results = run()
    assert run() == (messages, elapsed, results)
    for rank, dies in deaths.items():
        assert (
            all(end < dies for src, dst, _, _, end in messages if rank in (src, dst))
            or eager_limit
            or ("died" not in results[rank])
        )
    assert all("died" not in results[rank] for rank in range(5) if rank not in deaths)


def test_nobody_dies_without_deaths() -> None:
    plain, empty_ = (simulate(5, toy_training, 6, deaths=deaths) for deaths in (None, {}))
    assert plain.results == empty_.results and plain.elapsed == empty_.elapsed


@pytest.mark.parametrize("eager_limit", [0, 64])
def test_a_rank_dies_as_it_begins_to_wait_after_what_it_has_sent(eager_limit: int) -> None:
    """Rank 0 has taken its second message, sleeps, and learns of the death when it answers."""

    def serve(comm: Communicator) -> object:
        tensor, lost = torch.zeros(4), list[tuple[str, float]]()
        for _ in range(3):
            try:
                if comm.rank == 1:
                    comm.send(tensor, 0)
                    comm.recv(tensor, 0)
                elif comm.rank == 0:
                    comm.recv(tensor, 1)
                    comm.sleep(1.0)
                    comm.send(tensor, 1)
            except PeerLost:
                lost.append(("lost", comm.time()))
        return lost

    cluster = Cluster.flat(3, Link(latency=0.01, bandwidth=1e6), eager_limit=eager_limit)
    world = simulate(3, serve, deaths={1: WhileWaiting(32)}, cluster=cluster)
    assert [(message.src, message.dst) for message in world.trace] == [(1, 0), (0, 1), (1, 0)]
    assert isinstance(world.results[1], PeerLost) and world.results[2] == []
    assert [round(when) for _, when in world.results[0]] == [2, 2]  # the send after the second sleep, and a receive


def test_a_rank_that_sends_too_little_lives() -> None:
    world = simulate(5, toy_training, 6, deaths={2: WhileWaiting(1_000)})
    assert all("died" not in str(result) for result in world.results)

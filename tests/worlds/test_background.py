"""`Communicator.start`: communication beside computing, on real and on simulated ranks."""

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    MessageMismatch,
    RankError,
    ReduceOp,
    RunTimeout,
    SimulatedWorld,
    World,
    all_reduce,
)
from distlib.collectives import ring_all_reduce
from distlib.worlds.real.background import StartedCall


@pytest.fixture(scope="module")
def real() -> Iterator[World]:
    with World(3) as world:
        yield world


@pytest.fixture(params=["real", "simulated", "simulated, threads"])
def world(request: pytest.FixtureRequest, real: World) -> World | SimulatedWorld:
    if request.param == "real":
        return real
    return SimulatedWorld(3, contexts="threads" if "threads" in request.param else "greenlets")


def test_asking_whether_a_message_is_through_does_not_wait_for_what_was_started(real: World) -> None:
    def ask(comm: Communicator) -> tuple[bool, bool]:
        next_rank, previous_rank = (comm.rank + 1) % 3, (comm.rank - 1) % 3
        asked = threading.Event()
        in_time = []
        message = comm.irecv(torch.zeros(1), src=previous_rank)
        started = comm.start(lambda comm: in_time.append(asked.wait(20)))
        before = message.is_completed()
        asked.set()
        started.wait()
        comm.barrier()  # nobody sends before all have asked
        comm.isend(torch.ones(1), next_rank).wait()
        message.wait()
        return before, in_time[0]

    assert real.run(ask) == [(False, True)] * 3


# ── what comes out ───────────────────────────────────────────────────────────────────────────────────────────────────


def two_sums(comm: Communicator) -> tuple[float, float, int]:
    small, large = torch.full((5,), comm.rank + 1.0), torch.full((50_000,), comm.rank + 1.0)
    first = all_reduce(comm, small, async_op=True)
    second = all_reduce(comm, large, ReduceOp.AVG, "tree", async_op=True)
    assert first is not None and second is not None
    return second.wait() and large[-1].item(), first.wait() and small[0].item(), second.wait()


def test_started_calls_bring_what_the_same_calls_bring_otherwise(world: World) -> None:
    results = world.run(lambda comm: (two_sums(comm)[1:], two_sums(comm)[2]))
    assert [rank for _, rank in results] == [0, 1, 2]
    assert [values[0] for values, _ in results][1:] == [6, 6]


def test_wait_returns_the_rank_that_has_started_the_call(world: World) -> None:
    def wait(comm: Communicator) -> int:
        return comm.start(ring_all_reduce, torch.ones(4)).wait()

    assert world.run(wait) == [0, 1, 2]


def test_what_nobody_waits_for_is_seen_through(world: World) -> None:
    def forget(comm: Communicator) -> None:
        all_reduce(comm, torch.ones(4), async_op=True)

    world.run(forget)
    assert world.trace.messages_sent == [4, 4, 4]


def test_other_communication_of_the_rank_waits_for_what_it_has_started(world: World) -> None:
    def sum_then_pass_on(comm: Communicator) -> float:
        tensor, incoming = torch.ones(4), torch.zeros(4)
        all_reduce(comm, tensor, async_op=True)
        comm.exchange(tensor, (comm.rank + 1) % 3, incoming, (comm.rank - 1) % 3)
        return incoming[0].item()

    assert world.run(sum_then_pass_on) == [3, 3, 3]


def test_a_started_call_may_split_and_meet(world: World) -> None:
    def meet(comm: Communicator) -> int:
        found: list[int] = []

        def split(comm: Communicator) -> None:
            group = comm.split(comm.rank % 2)
            assert group is not None
            group.barrier()
            found.append(group.world_size)

        comm.start(split).wait()
        return found[0]

    assert world.run(meet) == [2, 1, 2]


def test_a_started_call_may_start_others_and_wait_for_them(world: World) -> None:
    def twice(comm: Communicator, tensor: torch.Tensor) -> None:
        comm.start(all_reduce, tensor).wait()
        work = all_reduce(comm, tensor, async_op=True)
        assert work is not None
        work.wait()

    def start(comm: Communicator) -> tuple[int, float]:
        tensor = torch.ones(1)
        return comm.start(lambda comm: comm.start(twice, tensor).wait()).wait(), tensor.item()

    assert world.run(start, timeout=100) == [(rank, 9) for rank in range(3)]


def test_messages_name_the_line_that_has_started_the_call(world: World) -> None:
    def start(comm: Communicator) -> None:
        work = all_reduce(comm, torch.ones(3), async_op=True)  # this line
        assert work is not None
        work.wait()

    world.run(start)
    sites = {message.site for message in world.trace.messages}
    assert [site.line - start.__code__.co_firstlineno for site in sites] == [1]
    assert {site.call for site in sites} == {'all_reduce(3 float32, op=SUM, algorithm="ring")'}


def test_hooks_may_start_calls_inside_backward(world: World) -> None:
    def train(comm: Communicator) -> list[float]:
        weight = torch.full((3,), 2.0, requires_grad=True)
        works = []
        weight.register_post_accumulate_grad_hook(lambda w: works.append(all_reduce(comm, w.grad, async_op=True)))
        (weight * (comm.rank + 1)).sum().backward()
        works[0].wait()
        assert weight.grad is not None
        return weight.grad.tolist()

    assert world.run(train) == [[6, 6, 6]] * 3


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

LINK = Link(latency=1.0, bandwidth=1.0)  # a message of n bytes takes n + 1 seconds


def simulated(function: Callable[[Communicator], object]) -> tuple[SimulatedWorld, list[object]]:
    world = SimulatedWorld(2, Cluster.flat(2, LINK))
    return world, world.run(function)


def swap(comm: Communicator, tensor: torch.Tensor) -> None:
    comm.exchange(tensor.clone(), 1 - comm.rank, tensor, 1 - comm.rank)


@pytest.mark.parametrize(("computing", "elapsed"), [(0.0, 5.0), (3.0, 5.0), (5.0, 5.0), (8.0, 8.0)])
def test_a_started_call_takes_virtual_time_beside_computing(computing: float, elapsed: float) -> None:
    def step(comm: Communicator) -> float:
        work = comm.start(swap, torch.ones(1))
        comm.sleep(computing)
        work.wait()
        return comm.time()

    world, times = simulated(step)
    assert times == [elapsed] * 2 and world.elapsed == elapsed


def test_started_calls_run_one_after_the_other_and_none_before_its_start() -> None:
    def step(comm: Communicator) -> list[float]:
        first = comm.start(swap, torch.ones(1))  # 0 … 5
        comm.sleep(2)
        second = comm.start(swap, torch.ones(1))  # 5 … 10
        comm.sleep(18)
        third = comm.start(swap, torch.ones(1))  # 20 … 25
        done = [first.is_completed(), second.is_completed(), third.is_completed()]
        second.wait()
        before = comm.time()
        third.wait()
        return [*done, before, comm.time()]

    world, results = simulated(step)
    assert results == [[True, True, False, 20, 25]] * 2
    assert sorted({message.start for message in world.trace.messages}) == [0, 5, 20]


def test_a_rank_that_computes_longer_makes_the_others_wait_only_where_they_need_it() -> None:
    def step(comm: Communicator) -> float:
        comm.sleep(7 * comm.rank)
        work = comm.start(swap, torch.ones(1))
        comm.sleep(1)
        work.wait()
        return comm.time()

    _, times = simulated(step)
    assert times == [12, 12]


def test_the_rank_goes_on_computing_in_real_time() -> None:
    def step(comm: Communicator) -> tuple[bool, str]:
        free = threading.Event()
        work = comm.start(lambda comm: free.wait())
        before = work.is_completed()
        free.set()
        work.wait()
        return before, threading.current_thread().name

    with World(2) as world:
        assert world.run(step) == [(False, "MainThread")] * 2


# ── when something is wrong ──────────────────────────────────────────────────────────────────────────────────────────


def still_works(world: World) -> None:
    assert world.run(lambda comm: two_sums(comm)[2]) == [0, 1, 2]


def test_what_a_started_call_raises_comes_out_at_wait(world: World) -> None:
    def fail(comm: Communicator, tensor: torch.Tensor) -> None:
        raise ValueError("no such thing")

    def start(comm: Communicator) -> str:
        work = comm.start(fail, torch.ones(1))
        try:
            work.wait()
        except ValueError as error:
            return str(error)
        return "nothing was raised"

    assert world.run(start) == ["no such thing"] * 3


def test_what_a_started_call_raises_is_not_lost_if_nobody_waits(world: World) -> None:
    def start(comm: Communicator) -> None:
        comm.start(lambda comm: 1 // 0)
        comm.start(lambda comm: None).wait()

    with pytest.raises(RankError, match="ZeroDivisionError"):
        world.run(start)
    still_works(world)


def test_what_a_started_call_starts_is_not_lost_if_nobody_waits(world: World) -> None:
    def add(comm: Communicator, tensor: torch.Tensor) -> None:
        tensor.add_(1)

    def start(comm: Communicator) -> float:
        tensor = torch.zeros(1)
        comm.start(lambda comm: comm.start(add, tensor)).wait()
        return tensor.item()

    def fail(comm: Communicator) -> None:
        comm.start(lambda comm: comm.start(lambda comm: 1 // 0) and None)

    assert world.run(start, timeout=100) == [1.0] * 3
    with pytest.raises(RankError, match="ZeroDivisionError"):
        world.run(fail, timeout=100)
    still_works(world)


def test_a_started_call_can_not_wait_for_one_that_comes_after_it(world: World) -> None:
    def start(comm: Communicator) -> None:
        both_started, later = threading.Event(), []

        def ask_and_wait(comm: Communicator) -> None:
            both_started.wait()
            assert not later[0].is_completed()
            later[0].wait()

        first = comm.start(ask_and_wait)
        later.append(comm.start(lambda comm: None))
        both_started.set()
        first.wait()

    with pytest.raises(RankError, match="waits for a call that runs only after it: start that one first"):
        world.run(start, timeout=100)
    still_works(world)


def test_tensors_that_do_not_fit_are_named_with_the_line_of_the_start(world: World) -> None:
    def start(comm: Communicator) -> None:
        work = all_reduce(comm, torch.ones(3 + 3 * comm.rank), async_op=True)
        assert work is not None
        work.wait()

    with pytest.raises(MessageMismatch, match="test_background.py, line"):
        world.run(start)
    still_works(world)


def test_ranks_that_start_in_another_order_are_told_so(world: World) -> None:
    def start(comm: Communicator) -> None:
        ops = [ReduceOp.SUM, ReduceOp.MAX]
        for op in ops if comm.rank else reversed(ops):
            all_reduce(comm, torch.ones(3), op, async_op=True)

    with pytest.raises(MessageMismatch, match="op=SUM.* but rank .*op=MAX|op=MAX.* but rank .*op=SUM"):
        world.run(start)
    still_works(world)


def test_a_rank_that_does_not_take_part_is_a_deadlock(world: World) -> None:
    def start(comm: Communicator) -> None:
        if comm.rank != 1:
            work = all_reduce(comm, torch.ones(3), async_op=True)
            assert work is not None
            work.wait()

    with pytest.raises(DeadlockError, match="rank 1"):
        world.run(start, timeout=100)
    still_works(world)


def test_an_error_elsewhere_ends_what_is_under_way(world: World) -> None:
    def start(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("rank 1 has had enough")
        work = all_reduce(comm, torch.ones(3), async_op=True)
        assert work is not None
        work.wait()

    with pytest.raises(RankError, match="rank 1 has had enough"):
        world.run(start)
    still_works(world)


def test_a_run_that_is_out_of_time_leaves_the_world_usable(real: World) -> None:
    def start(comm: Communicator) -> None:
        work = all_reduce(comm, torch.ones(3), async_op=True)
        assert work is not None
        if comm.rank == 1:
            time.sleep(1000)
            work.wait()
        while comm.rank == 0:
            time.sleep(0.01)  # it computes while its communication waits for rank 1's background… which answers
        work.wait()

    with pytest.raises(RunTimeout):
        real.run(start, timeout=1)
    still_works(real)


def test_a_run_is_stopped_while_the_background_waits(real: World) -> None:
    def start(comm: Communicator) -> None:
        if comm.rank == 0:
            all_reduce(comm, torch.ones(3), async_op=True)
        time.sleep(1000)

    with pytest.raises(RunTimeout):
        real.run(start, timeout=1)
    still_works(real)


def test_a_call_that_has_run_keeps_nothing_of_what_it_was_given() -> None:
    tensor = torch.ones(3)
    gone = weakref.ref(tensor)
    call = StartedCall(partial(torch.sum, tensor), rank=2)
    del tensor
    call.run()
    assert gone() is None
    assert call.wait() == 2

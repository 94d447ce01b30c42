"""Ranks that call different collectives, or the same with different arguments, or not equally often.

The same words on real and on simulated ranks, with the calls and the lines of both sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from distlib import (
    Communicator,
    DeadlockError,
    MessageMismatch,
    RankError,
    ReduceOp,
    SimulatedWorld,
    World,
    collectives,
)
from distlib.checks import StudentCommunicator
from distlib.checks.library_calls import library_calls
from distlib.collectives import all_reduce, broadcast, reduce, ring_all_reduce
from tests.tools.collective_cases import COLLECTIVES, call, inputs
from tests.tools.time_limits import out_of_time

HERE = r"test_collective_calls.py, line \d+"
SAME = "the same collective calls, in the same order and with the same arguments"
AnyWorld = World | SimulatedWorld


@pytest.fixture(params=["real", "simulated"])
def make(request: pytest.FixtureRequest, worlds: Callable[[int], World]) -> Callable[[int], AnyWorld]:
    """A world of each kind."""
    return worlds if request.param == "real" else SimulatedWorld


def ones() -> torch.Tensor:
    return torch.ones(4)


def told(world: AnyWorld, function: Callable[[Communicator], object], kind: type[RankError]) -> str:
    with pytest.raises(kind) as caught:
        world.run(function, timeout=100)
    assert type(caught.value) is kind
    return str(caught.value)


# ── different calls ──────────────────────────────────────────────────────────────────────────────────────────────────


def different_ops(comm: Communicator) -> None:
    all_reduce(comm, ones(), ReduceOp.MAX if comm.rank else ReduceOp.SUM)


def different_algorithms(comm: Communicator) -> None:
    all_reduce(comm, ones(), algorithm="ring" if comm.rank else "tree")


def different_collectives(comm: Communicator) -> None:
    if comm.rank:
        broadcast(comm, ones())
    else:
        all_reduce(comm, ones())


def different_order(comm: Communicator) -> None:
    for collective in (all_reduce, broadcast) if comm.rank else (broadcast, all_reduce):
        collective(comm, ones())


def different_options(comm: Communicator) -> None:
    collectives.grid_all_reduce(comm, ones(), columns=1 + comm.rank)


@pytest.mark.parametrize(
    ("function", "one", "other"),
    [
        (
            different_ops,
            'all_reduce(4 float32, op=SUM, algorithm="ring")',
            'all_reduce(4 float32, op=MAX, algorithm="ring")',
        ),
        (
            different_algorithms,
            'all_reduce(4 float32, op=SUM, algorithm="tree")',
            'all_reduce(4 float32, op=SUM, algorithm="ring")',
        ),
        (
            different_collectives,
            'all_reduce(4 float32, op=SUM, algorithm="ring")',
            'broadcast(4 float32, root=0, algorithm="tree")',
        ),
        (
            different_order,
            'broadcast(4 float32, root=0, algorithm="tree")',
            'all_reduce(4 float32, op=SUM, algorithm="ring")',
        ),
        (different_options, '"grid", columns=1)', '"grid", columns=2)'),
    ],
)
def test_messages_of_different_calls_do_not_fit(
    make: Callable[[int], AnyWorld], function: Callable[[Communicator], None], one: str, other: str
) -> None:
    text = told(make(2), function, MessageMismatch)
    lines = text.replace(one, "ONE").replace(other, "OTHER")
    first, second = ("0 is in .*ONE", "1 is in .*OTHER")
    either = (f"rank {first} \\({HERE}\\), but rank {second}", f"rank {second} \\({HERE}\\), but rank {first}")
    assert re.match(f"{HERE}: ({either[0]}|{either[1]}) \\({HERE}\\)\\. All ranks", lines), text
    assert f"All ranks have to make {SAME}." in text


def test_sends_that_never_meet_are_a_deadlock_told_with_its_calls(make: Callable[[int], AnyWorld]) -> None:
    text = told(make(2), lambda comm: broadcast(comm, ones(), root=comm.rank), DeadlockError)
    for rank in (0, 1):
        assert f"rank {rank} waits to send 4 float32 to rank {1 - rank} (test_collective_calls.py, line " in text
        assert f'round 1, in collective call 1: broadcast(4 float32, root={rank}, algorithm="tree"))' in text
    assert text.endswith(f"← rank 0. They are not in the same collective call.\nHint: every rank has to make {SAME}.")


def test_a_collective_call_against_a_plain_message(make: Callable[[int], AnyWorld]) -> None:
    def meet(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(ones(), 1)
            comm.recv(ones(), 1)
        else:
            all_reduce(comm, ones())

    text = told(make(2), meet, MessageMismatch)
    assert "rank 0 sends 4 float32" in text and "rank 1 receives into 2 float32" in text

    def never_meet(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.recv(ones(), 1)
        else:
            reduce(comm, ones(), root=1)

    assert "They are not in the same collective call." in told(make(2), never_meet, DeadlockError)


def test_what_comes_to_the_same_is_the_same_call(make: Callable[[int], AnyWorld]) -> None:
    def mixed(comm: Communicator) -> list[float]:
        tensor = ones()
        if comm.rank == 0:
            ring_all_reduce(comm, tensor)
        elif comm.rank == 1:
            all_reduce(comm, tensor, ReduceOp.SUM)
        else:
            collectives.ring_reduce_scatter(comm, tensor)
            collectives.ring_all_gather(comm, tensor)
        return tensor.tolist()

    assert make(2).run(mixed, timeout=100) == [[2.0] * 4] * 2
    told(make(3), mixed, MessageMismatch)  # a part is another call than the whole, though its messages would do


def test_a_call_is_the_same_however_its_arguments_are_passed(make: Callable[[int], AnyWorld]) -> None:
    def passed(comm: Communicator) -> list[float]:
        tensor = ones() * (comm.rank + 1)
        if comm.rank == 0:
            collectives.tree_reduce(comm, tensor, 0, ReduceOp.MAX)
        elif comm.rank == 1:
            collectives.tree_reduce(comm, tensor, op=ReduceOp.MAX)
        else:
            collectives.tree_reduce(op=ReduceOp.MAX, root=0, tensor=tensor, comm=comm)
        return tensor.tolist()

    assert make(3).run(passed, timeout=100)[0] == [3.0] * 4


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        ((torch.ones(4), ReduceOp.SUM, 2), {}),
        ((torch.ones(4), ReduceOp.SUM), {"op": ReduceOp.MAX}),
        ((torch.ones(4),), {"colums": 2}),
    ],
)
def test_arguments_that_a_collective_does_not_have(arguments: tuple[object, ...], options: dict[str, object]) -> None:
    with pytest.raises(RankError, match="TypeError"):
        SimulatedWorld(2).run(lambda comm: collectives.grid_all_reduce(comm, *arguments, **options))


def test_only_where_a_result_arrives_must_a_tensor_be_one_that_can_be_written() -> None:
    def from_one_number(comm: Communicator) -> list[float]:
        tensor = torch.ones(2).expand(2, 2) if comm.rank == 1 else torch.zeros(2, 2)
        broadcast(comm, tensor, root=1)
        collectives.gather(comm, tensor, root=0)
        return tensor.flatten().tolist()

    assert SimulatedWorld(3).run(from_one_number) == [[1.0] * 4] * 3


def test_parts_of_the_world_may_be_in_different_calls(make: Callable[[int], AnyWorld]) -> None:
    def halves(comm: Communicator) -> list[float]:
        half, tensor = comm.split(comm.rank // 2), torch.ones(2) * (comm.rank + 1)
        assert half is not None
        all_reduce(half, tensor, ReduceOp.SUM if comm.rank < 2 else ReduceOp.MAX)
        return tensor.tolist()

    assert make(4).run(halves, timeout=100) == [[3, 3], [3, 3], [4, 4], [4, 4]]


def test_a_message_says_to_which_call_it_belongs(make: Callable[[int], AnyWorld]) -> None:
    def both(comm: Communicator) -> None:
        all_reduce(comm, ones(), ReduceOp.MAX, "tree")
        comm.exchange(ones(), 1 - comm.rank, ones(), 1 - comm.rank)

    world = make(2)
    world.run(both, timeout=100)
    calls = [message.site.call for message in world.trace]
    assert calls == ['all_reduce(4 float32, op=MAX, algorithm="tree")'] * 2 + [None] * 2
    assert {message.site.via for message in world.trace} == {"distlib.collectives.all_reduce", None}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_announces_its_call(name: str) -> None:
    world = SimulatedWorld(4)
    world.run(call, name, inputs(4, 8), {"root": 1} if "root" in COLLECTIVES[name][1](4)[0] else {}, timeout=100)
    (text,) = {message.site.call for message in world.trace}
    kind, arguments = re.fullmatch(r"(\w+)\((.*)\)", text or "").groups()  # type: ignore[union-attr]
    assert name.endswith(kind)
    assert arguments.endswith(f'algorithm="{name.removesuffix(kind)[:-1]}"') or name == kind
    assert ("root=1" in arguments) == (kind in ("broadcast", "reduce", "scatter", "gather"))
    assert ("op=SUM" in arguments) == (kind in ("reduce", "reduce_scatter", "all_reduce"))


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_communicator_of_an_exercise_tells_no_calls(name: str) -> None:
    def work(comm: Communicator) -> None:
        call(StudentCommunicator(comm), name, inputs(4, 8), COLLECTIVES[name][1](4)[-1])  # type: ignore[arg-type]

    world = SimulatedWorld(4)
    world.run(work, timeout=100)
    assert {message.site.call for message in world.trace} == {None}


def test_many_ranks_without_a_record_of_lines() -> None:
    world = SimulatedWorld(200)
    text = told(world, different_collectives, MessageMismatch)
    assert (
        'rank 0 is in all_reduce(4 float32, op=SUM, algorithm="ring") (a line that was not recorded), but rank 1 is in'
        in text
    )


def test_a_check_that_watches_for_calls_of_the_library_sees_the_algorithm_itself() -> None:
    def watched(comm: Communicator) -> list[str]:
        with library_calls(()) as noted:
            ring_all_reduce(comm, torch.ones(2))
        return noted

    assert SimulatedWorld(1).run(watched) == [["distlib.collectives.ring.ring_all_reduce"]]


# ── not equally often ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rank_that_makes_one_call_less(make: Callable[[int], AnyWorld]) -> None:
    def unequal(comm: Communicator) -> None:
        for _ in range(2 if comm.rank else 3):
            all_reduce(comm, ones())

    text = told(make(3), unequal, DeadlockError)
    assert 'in collective call 3: all_reduce(4 float32, op=SUM, algorithm="ring"))' in text
    after = 'has already returned, after collective call 2: all_reduce(4 float32, op=SUM, algorithm="ring") (test_coll'
    assert after in text
    assert f"Hint: every rank has to make {SAME}." in text


def test_a_rank_that_makes_no_call(make: Callable[[int], AnyWorld]) -> None:
    text = told(make(2), lambda comm: all_reduce(comm, ones()) if comm.rank else None, DeadlockError)
    assert "← rank 0 has already returned, without such a call." in text


# ── functions that have little to say ────────────────────────────────────────────────────────────────────────────────


def test_a_function_that_never_communicates(make: Callable[[int], AnyWorld]) -> None:
    world = make(3)
    assert world.run(lambda comm: comm.rank, timeout=100) == [0, 1, 2]
    assert len(world.trace) == world.trace.rounds == 0


def test_a_loop_without_communication_is_stopped_with_its_line(make: Callable[[int], AnyWorld]) -> None:
    def loop(comm: Communicator) -> None:
        while comm.rank == 1:
            pass

    words = "rank 1 was computing at test_collective_calls.py, line"
    assert words in out_of_time(make(2), loop, words)

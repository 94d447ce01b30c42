"""`Trace`: counts from a known list of messages, rounds from real dependencies, and the exports."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import pytest
import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from distlib import CallSite, Communicator, Message, SimulatedWorld, Trace, World, all_reduce, torch_distributed
from distlib.collectives import naive_all_reduce, ring_all_reduce
from distlib.draw.players.timeline_scene import describe
from distlib.trace import Counts

SITE = CallSite("cell 7, line 12", "ring", "/tmp/cell.py", 12)


def message(src: int, dst: int, nbytes: int = 16, round: int = 1, start: float = 0.0, tag: int = 0) -> Message:
    shape = (nbytes // 4,)
    return Message(src, dst, tag, nbytes, "float32", shape, start, start + 1e-6, start + 2e-6, round, SITE, SITE)


def test_counts_by_rank() -> None:
    trace = Trace(3, [message(0, 1, 16), message(0, 2, 8), message(1, 0, 4, round=2)])
    assert trace.messages_sent == [2, 1, 0] and trace.messages_received == [1, 1, 1]
    assert trace.bytes_sent == [24, 4, 0] and trace.bytes_received == [4, 16, 8]
    assert trace.rounds == 2 and len(trace) == 3
    assert trace.filter(lambda m: m.src == 0).bytes_sent == [24, 0, 0]


def test_counts_by_collective() -> None:
    calls = ["all_reduce(3×2 float32, op=SUM)", "all_gather of unit 1", None, "all_reduce(7 float32, op=SUM)"]
    sent = [replace(message(k % 2, 1 - k % 2, 8 + k), site=SITE.within(call)) for k, call in enumerate(calls)]
    assert Trace(2, sent).by_collective() == {"all_reduce": (2, 19), "all_gather": (1, 9), "": (1, 10)}
    assert Trace(2, sent).by_collective(rank=1) == {"all_gather": (1, 9), "all_reduce": (1, 11)}
    with pytest.raises(ValueError, match="only counts"):
        Trace(2, [], counts=Counts([1, 0], [0, 1], [8, 0], [0, 8], 1)).by_collective()


def test_messages_of_torchs_are_told_by_the_name_of_the_call() -> None:
    def rank(comm: Communicator) -> None:
        with torch_distributed(comm) as dist:
            dist.all_reduce(torch.ones(2))

    world = SimulatedWorld(2, contexts="threads", record=True)
    world.run(rank)
    assert world.trace.by_collective() == {"all_reduce": (4, 16)}
    assert re.search(r"sent by all_reduce in test_trace.py, line \d+", describe(world.trace.messages[0]))


def test_what_only_passes_on_between_two_functions_of_torchs_is_not_who_sends() -> None:
    def rank(comm: Communicator) -> None:
        with torch_distributed(comm):  # has functions of PipelineStage go through this package
            stage = PipelineStage(torch.nn.Linear(2, 2), comm.rank, 2, torch.device("cpu"))
            schedule = Schedule1F1B(stage, 2, loss_fn=torch.nn.functional.mse_loss)
            schedule.step(*[torch.ones(2, 2)][comm.rank :], target=torch.ones(2, 2))

    world = SimulatedWorld(2, contexts="threads", record=True)
    world.run(rank)
    assert {message.dtype for message in world.trace} > {"float32", "uint8"}
    assert all((message.site.via or "").startswith("torch.") for message in world.trace)


def test_an_empty_trace() -> None:
    trace = Trace(2, [])
    assert (trace.rounds, trace.bytes_sent, list(trace)) == (0, [0, 0], [])
    assert "0 messages, 0 bytes, 0 rounds" in trace.summary()
    assert trace.table() and "<table>" in trace._repr_html_()


def test_tables_name_everything() -> None:
    trace = Trace(2, [message(0, 1, 1600, tag=3)])
    for part in ("1,600", "float32 [400]", "cell 7, line 12", "3"):
        assert part in trace.table() and part in trace._repr_html_()
    assert "2 ranks, 1 message, 1,600 bytes, 1 round" in repr(trace)


def test_a_long_trace_is_cut_in_a_notebook_and_says_so() -> None:
    trace = Trace(2, [message(0, 1, start=i) for i in range(100)])
    assert trace._repr_html_().count("<tr>") == 61 and "40 more messages" in trace._repr_html_()
    assert len(trace.table().splitlines()) == 101


def test_a_trace_of_only_counts_says_so_where_messages_are_asked_for() -> None:
    world = SimulatedWorld(2, record=False)
    world.run(lambda comm: all_reduce(comm, torch.ones(4)))
    says = "only counts: make the world with record=True"
    with pytest.raises(ValueError, match=says):
        world.trace.filter(lambda message: True)
    with pytest.raises(ValueError, match=says):
        world.trace.table()
    shown = world.trace._repr_html_()
    assert "Only counts were kept: make the world with record=True" in shown and "trace.table()" not in shown
    assert len(pickle.loads(pickle.dumps(world.trace))) == len(world.trace) == 4
    world.run(lambda comm: comm.barrier())
    assert len(world.trace.filter(lambda message: True)) == 0 and world.trace.table()


# ── rounds follow from what was received before what was sent ────────────────────────────────────────────────────────


def rounds_of(world: World, function) -> int:
    world.run(function, timeout=100)
    return world.trace.rounds


def test_a_chain_has_as_many_rounds_as_links(worlds) -> None:
    def pass_on(comm: Communicator) -> None:
        token = torch.zeros(1)
        if comm.rank > 0:
            comm.recv(token, comm.rank - 1)
        if comm.rank < comm.world_size - 1:
            comm.send(token, comm.rank + 1)

    assert rounds_of(worlds(4), pass_on) == 3
    assert [m.round for m in sorted(worlds(4).trace, key=lambda m: m.src)] == [1, 2, 3]


def test_messages_that_wait_for_nothing_share_a_round(worlds) -> None:
    def to_master(comm: Communicator) -> None:
        if comm.rank > 0:
            return comm.send(torch.zeros(1), 0)
        for src in range(1, comm.world_size):
            comm.recv(torch.zeros(1), src)

    assert rounds_of(worlds(4), to_master) == 1


def test_sending_and_receiving_in_turns_takes_twice_the_rounds_of_exchanging(worlds) -> None:
    def step(comm: Communicator, turns: bool) -> None:
        other, incoming = 1 - comm.rank, torch.zeros(1)
        for _ in range(3):
            if not turns:
                comm.exchange(torch.ones(1), other, incoming, other)
            elif comm.rank == 0:
                comm.send(torch.ones(1), other)
                comm.recv(incoming, other)
            else:
                comm.recv(incoming, other)
                comm.send(torch.ones(1), other)

    assert rounds_of(worlds(2), lambda comm: step(comm, turns=False)) == 3
    assert rounds_of(worlds(2), lambda comm: step(comm, turns=True)) == 6


def test_an_irecv_counts_from_when_it_is_waited_for(worlds) -> None:
    def late_wait(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.zeros(1), 1)
            comm.recv(torch.zeros(1), 1)
        else:
            work = comm.irecv(torch.zeros(1), 0)
            comm.sleep(0.1)
            comm.send(torch.zeros(1), 0)
            work.wait()

    assert rounds_of(worlds(2), late_wait) == 1


# ── what a real run records ──────────────────────────────────────────────────────────────────────────────────────────


def test_every_field_of_a_message(worlds) -> None:
    def talk(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.sleep(0.02)
            comm.send(torch.zeros(2, 3, dtype=torch.float64), 1, tag=4)
        else:
            comm.recv(torch.zeros(6, dtype=torch.float64), 0, tag=4)

    world = worlds(2)
    world.run(talk)
    (m,) = world.trace
    assert (m.src, m.dst, m.tag, m.nbytes, m.dtype, m.shape, m.round) == (0, 1, 4, 48, "float64", (2, 3), 1)
    assert 0.02 <= m.start <= m.taken <= m.end <= world.trace.elapsed
    assert m.site.function == m.receive_site.function == "talk"
    assert m.receive_site.line == m.site.line + 2
    assert m.site.place == f"test_trace.py, line {m.site.line}" and m.site.via is None


def test_a_message_of_the_library_is_told_from_one_of_your_own(worlds) -> None:
    world = worlds(2)
    world.run(lambda comm: all_reduce(comm, torch.ones(4)))
    assert {m.site.via for m in world.trace} == {"distlib.collectives.all_reduce"}
    world.run(
        lambda comm: naive_all_reduce(comm, torch.ones(4))
    )  # decorated, and the decorator's frame is the outer one
    assert {m.site.via for m in world.trace} == {"distlib.collectives.naive.naive_all_reduce"}
    assert {m.site.place.split(",")[0] for m in world.trace} == {"test_trace.py"}
    world.run(lambda comm: ring_all_reduce(comm, torch.ones(4)))  # two decorated functions, one inside the other
    assert {m.site.via for m in world.trace} == {"distlib.collectives.ring.ring_all_reduce"}


def test_a_failed_run_shows_what_happened_until_then(worlds) -> None:
    def fail_later(comm: Communicator) -> None:
        comm.exchange(torch.ones(1), 1 - comm.rank, torch.empty(1), 1 - comm.rank)
        raise ValueError

    with pytest.raises(Exception, match="ValueError"):
        worlds(2).run(fail_later)
    assert len(worlds(2).trace) == 2


def test_recording_can_be_switched_off() -> None:
    with World(2, record=False) as world:
        world.run(lambda comm: all_reduce(comm, torch.ones(4)))
        assert len(world.trace) == 0
        world.record = True
        world.run(lambda comm: all_reduce(comm, torch.ones(4)))
        assert len(world.trace) == 4

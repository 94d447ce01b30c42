"""Ranks that die in a run of a `World` which goes on without them: real processes that are really killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator

import pytest
import torch

from distlib import Communicator, DeadlockError, PeerLost, RankError, World
from distlib.network import Link
from distlib.worlds.real.journal import Journal, read_journal
from distlib.worlds.real.mailbox import INLINE_BYTES
from distlib.worlds.real.rank_pool import RankPool
from tests.tools.midst import becomes_so, until_at_rest, until_gone
from tests.worlds.dying_ranks import die, go_on_without_the_last, noticed
from tests.worlds.test_world import rank_processes, still_works

LARGE = INLINE_BYTES  # floats: four times too many to go inside a control message
WORLDS: dict[str, dict[str, object]] = {
    "as it comes": {},
    "files": {"backend": "files"},
    "paced": {"network": Link(latency=1e-3, bandwidth=200e6)},
}


@pytest.fixture(scope="module")
def surviving() -> Iterator[World]:
    """A world of 3 ranks that survives deaths."""
    with World(3, deaths={}) as world:
        yield world


@pytest.fixture(scope="module", params=WORLDS)
def each_kind(request) -> Iterator[World]:
    """Likewise, of each kind. Where ranks can't share memory, the first is the second."""
    with World(3, deaths={}, **WORLDS[request.param]) as world:
        yield world


@pytest.mark.parametrize("length", [4, LARGE], ids=["small", "large"])
def test_survivors_learn_of_a_death_and_go_on(each_kind: World, length: int) -> None:
    before = rank_processes()
    zero, one, two = each_kind.run(go_on_without_the_last, length, timeout=100)
    assert zero == ([[2]] * 9, 1.0)
    assert one == ([[2]] * 9, 0.0)
    assert isinstance(two, PeerLost) and two.lost == [2] and "killed by signal 9" in str(two)
    last = sorted(each_kind.trace, key=lambda message: message.start)
    assert (last[0].src, last[0].dst) == (0, 2)  # known from the journal of the dead rank
    assert {(message.src, message.dst) for message in last[-2:]} == {(0, 1), (1, 0)}
    assert still_works(each_kind)
    assert becomes_so(lambda: len(rank_processes() - before) <= 3)  # those that were replaced are gone


def test_a_rank_is_killed_on_the_clock_and_all_are_back_in_the_next_run() -> None:
    def wait_for_the_last(comm: Communicator) -> object:
        try:
            comm.recv(torch.empty(1), 2 if comm.rank == 0 else 0)
        except PeerLost as error:
            died = comm.time()
            if comm.rank == 0:
                comm.send(torch.ones(1), 1)
            return error.lost, died

    before = rank_processes()
    with World(3, deaths={2: 0.6}) as world:
        for _ in range(2):
            (lost, noticed_at), one, two = world.run(wait_for_the_last, timeout=100)
            assert (lost, one) == ([2], None)
            assert 0.6 <= noticed_at
            assert isinstance(two, PeerLost) and "rank 2 died" in str(two)
        assert world.run(lambda comm: comm.rank, timeout=100)[:2] == [0, 1]
    assert becomes_so(lambda: rank_processes() <= before)


def test_a_death_that_takes_its_time_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    kill, already = RankPool.kill, set()

    def kill_later(pool: RankPool, ranks: Iterable[int] | None = None) -> None:
        if ranks is None:
            kill(pool)
        elif not already:
            already.update(ranks)
            threading.Timer(0.5, kill, [pool, set(ranks)]).start()

    monkeypatch.setattr(RankPool, "kill", kill_later)

    def wait_for_each_other(comm: Communicator) -> list[int] | str:
        return noticed(lambda: comm.recv(torch.empty(1), 1 - comm.rank))

    with World(2, deaths={1: 0.3}) as world:
        zero, one = world.run(wait_for_each_other, timeout=100)
        assert zero == [1] and isinstance(one, PeerLost)


def test_a_server_goes_on_with_the_workers_that_are_left(each_kind: World) -> None:
    def train(comm: Communicator) -> object:
        tensor = torch.empty(LARGE)
        if comm.rank > 0:
            for step in range(20):
                if (comm.rank, step) == (2, 7):
                    die()
                comm.send(torch.ones(LARGE), 0)
                comm.recv(tensor, 0)
            return "done"
        left, updates = {1: 20, 2: 20}, []
        while any(left.values()):
            try:
                worker = comm.recv(tensor)
                updates.append(worker)
                left[worker] -= 1
                comm.send(tensor, worker)
            except PeerLost as error:
                updates.append(-error.lost[0])
                left[error.lost[0]] = 0
        return updates

    updates, one, two = each_kind.run(train, timeout=100)
    assert one == "done" and isinstance(two, PeerLost)
    assert (updates.count(1), updates.count(2), updates.count(-2)) == (20, 7, 1)


def test_a_rank_that_was_killed_while_it_computed(surviving: World) -> None:
    def compute(comm: Communicator) -> object:
        if comm.rank == 1:
            os._exit(3)
        return noticed(comm.barrier)

    zero, one, two = surviving.run(compute, timeout=100)
    assert zero == two == [1]
    assert isinstance(one, PeerLost) and "exited with code 3" in str(one)


def test_messages_of_a_rank_that_returned_and_then_died_count(surviving: World) -> None:
    """It has reported, so its result stays."""

    def leave(comm: Communicator, pids: list[int]) -> object:
        if comm.rank == 2:
            comm.send(torch.zeros(1), 1)
            return "done"
        if comm.rank == 1:
            comm.recv(torch.empty(1), 2)
            until_at_rest(pids[2])
            os.kill(pids[2], signal.SIGKILL)
            until_gone(pids[2])  # before that, whoever waits for it is in a deadlock
        return noticed(lambda: comm.recv(torch.empty(1), 2))

    pids = surviving.run(lambda comm: os.getpid(), timeout=100)
    assert surviving.run(leave, pids, timeout=100) == [[2], [2], "done"]


def test_all_ranks_dead_is_an_error(surviving: World) -> None:
    with pytest.raises(PeerLost, match="no rank is left") as info:
        surviving.run(lambda comm: die(), timeout=100)
    assert info.value.lost == [0, 1, 2]
    assert still_works(surviving)


def test_a_rank_that_raises_still_fails_the_run(surviving: World) -> None:
    def fail(comm: Communicator) -> None:
        if comm.rank == 2:
            die()
        comm.recv(torch.empty(1), 2)

    with pytest.raises(RankError, match="raised PeerLost: rank 2 has died. Rank 0 can't receive 1 float32") as info:
        surviving.run(fail, timeout=100)
    assert not isinstance(info.value, PeerLost) and info.value.ranks[0] == 0
    assert still_works(surviving)


@pytest.mark.parametrize("src", [None, 0], ids=["from anyone", "in a circle"])
def test_a_deadlock_of_survivors_is_found(surviving: World, src: int | None) -> None:
    def listen(comm: Communicator) -> None:
        if comm.rank == 2:
            die()
        assert noticed(lambda: comm.recv(torch.empty(1))) == [2]  # once
        if src is None or comm.rank == 0:
            comm.recv(torch.empty(1))
        else:
            comm.recv(torch.empty(1), src)

    with pytest.raises(DeadlockError, match="deadlock. rank 0 waits to receive 1 float32 from anyone") as info:
        surviving.run(listen, timeout=100)
    assert info.value.ranks == [0, 1]
    assert still_works(surviving)


def test_a_rank_about_to_die_is_in_no_deadlock() -> None:
    """Ranks 0 and 1 wait for each other; the death of rank 1 frees rank 0."""
    with World(2, deaths={1: 1.0}) as world:
        zero, one = world.run(lambda comm: noticed(lambda: comm.recv(torch.empty(1), 1 - comm.rank)), timeout=100)
    assert zero == [1] and isinstance(one, PeerLost)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"deaths": [1]}, "mapping"),
        ({"deaths": {2: 1.0}}, "ranks from 0 to 1, got 2"),
        ({"deaths": {1: -1.0}}, "at least 0, got -1.0"),
        ({"deaths": {1: float("nan")}}, "got nan"),
        ({"deaths": {}, "backend": "gloo"}, "shared_memory, files for a world with deaths, got 'gloo'"),
    ],
)
def test_deaths_that_can_not_be(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        World(2, **options)


def test_a_journal_that_death_has_cut_off(tmp_path) -> None:
    journal = Journal(str(tmp_path), 0)
    journal.note("sent", (1, 2.5))
    journal.note("received", [3])
    journal.close()
    whole = (tmp_path / "journal-0").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "journal-0").write_bytes(whole[:length])
        assert read_journal(str(tmp_path), 0)[1] == []
    (tmp_path / "journal-0").write_bytes(whole)
    assert read_journal(str(tmp_path), 0) == ([(1, 2.5)], [(3,)])
    assert read_journal(str(tmp_path), 1) == ([], [])

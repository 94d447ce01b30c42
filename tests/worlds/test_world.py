"""`World`: what can be run, what comes back, what is printed, what is left behind, and every way to go wrong."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import psutil
import pytest
import torch

import distlib
from distlib import (
    Communicator,
    DeadlockError,
    PeerLost,
    RankError,
    ResultError,
    TooMuchOutput,
    UnreceivedMessage,
    World,
    all_reduce,
)
from distlib.worlds.diagnosis import RunInterrupted
from distlib.worlds.real import supervisor
from distlib.worlds.real.mailbox import INLINE_BYTES
from distlib.worlds.real.output_relay import mark_lines
from tests.tools.midst import becomes_so, until_there
from tests.tools.time_limits import out_of_time

HERE = "test_world.py, line "


def rank_processes() -> set[int]:
    """The ranks of this process that exist now."""
    ranks = set()
    for server in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends while it is asked
            ranks |= {rank.pid for rank in server.children() if _is_there(rank)}
    return ranks


def _is_there(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


@contextlib.contextmanager
def late(pids: list[int], seconds: float = 0.5) -> Iterator[None]:
    """Processes that get no core for a while, as on a busy machine."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    go_on = threading.Timer(seconds, lambda: [os.kill(pid, signal.SIGCONT) for pid in pids])
    go_on.start()
    try:
        yield
    finally:
        go_on.join()


def still_works(world: World) -> bool:
    """All ranks of the world can all-reduce a small and a large tensor."""

    def sums(comm: Communicator) -> bool:
        small, large = torch.ones(3), torch.ones(INLINE_BYTES)
        all_reduce(comm, small)
        all_reduce(comm, large)
        return bool((small == comm.world_size).all() and (large == comm.world_size).all())

    return world.run(sums, timeout=100) == [True] * world.world_size


# ── what can be run ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_results_are_a_list_indexed_by_rank(worlds) -> None:
    assert worlds(4).run(lambda comm, a, b=0: (comm.rank, a, b), 1, b=2) == [(r, 1, 2) for r in range(4)]


def test_closures_classes_and_methods_travel(worlds) -> None:
    offset = 10

    class Adder:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def add(self, comm: Communicator) -> Adder:
            return Adder(self.amount + comm.rank + offset)

    results = worlds(2).run(Adder(5).add)
    assert [result.amount for result in results] == [15, 16]
    assert all(isinstance(result, Adder) for result in results)


def test_a_function_that_was_changed_after_the_world_was_made(worlds) -> None:
    def answer(comm: Communicator) -> int:
        return 1

    assert worlds(2).run(answer) == [1, 1]

    def answer(comm: Communicator) -> int:  # noqa: F811  (a cell that is edited and run again)
        return 2

    assert worlds(2).run(answer) == [2, 2]


def test_a_generator_comes_back_as_a_list(worlds) -> None:
    def losses(comm: Communicator) -> Iterator[torch.Tensor]:
        for step in range(3):
            yield torch.tensor([comm.rank, step])

    assert [[t.tolist() for t in ts] for ts in worlds(2).run(losses)] == [[[r, s] for s in range(3)] for r in range(2)]


def test_large_arguments_and_results(worlds) -> None:
    big = torch.arange(8_000_000, dtype=torch.float32)
    results = worlds(2).run(lambda comm, tensor: tensor + comm.rank, big)
    assert torch.equal(results[1], big + 1)


def test_a_view_travels_without_the_memory_behind_it(worlds) -> None:
    (result,) = worlds(1).run(lambda comm: torch.zeros(50_000_000)[:2])
    assert result.untyped_storage().nbytes() == 8


def test_arguments_are_copies_and_ranks_share_nothing(worlds) -> None:
    tensor, outer = torch.zeros(2), torch.zeros(2)

    def change(comm: Communicator, argument: torch.Tensor) -> float:
        argument += comm.rank + 1
        outer.add_(10)
        return (argument + outer)[0].item()

    assert worlds(3).run(change, tensor) == [11, 12, 13]
    assert tensor.tolist() == outer.tolist() == [0, 0]


def test_random_numbers_start_afresh_in_every_run() -> None:
    def draw(comm: Communicator) -> tuple[float, float, float]:
        return random.random(), float(numpy.random.rand()), torch.rand(1).item()

    with World(2) as world, World(2, seed=1) as other:
        first, again, shifted = world.run(draw), world.run(draw), other.run(draw)
    assert first == again
    assert first[0] != first[1]
    assert first[1] == shifted[0]  # rank r starts with seed + r


@pytest.mark.usefixtures("all_threads")
def test_threads_are_capped(worlds) -> None:
    cores = os.cpu_count() or 1
    assert worlds(4).run(lambda comm: torch.get_num_threads()) == [max(1, cores // 4)] * 4


def test_ranks_see_the_notebooks_folder_and_import_path(worlds, tmp_path, monkeypatch) -> None:
    (tmp_path / "helper_beside_the_notebook.py").write_text("VALUE = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def use_it(comm: Communicator) -> tuple[int, str]:
        import helper_beside_the_notebook

        return helper_beside_the_notebook.VALUE, os.getcwd()

    assert worlds(2).run(use_it) == [(7, str(tmp_path))] * 2


def test_one_rank_and_many_more_ranks_than_cores() -> None:
    for world_size in (1, 24):
        with World(world_size) as world:
            assert still_works(world)


def test_two_worlds_at_once(worlds) -> None:
    with World(2) as other:
        assert worlds(2).run(lambda comm: other_pid(comm)) != other.run(lambda comm: other_pid(comm))
        assert still_works(other) and still_works(worlds(2))


def other_pid(comm: Communicator) -> int:
    return os.getpid()


@pytest.mark.slow
def test_a_world_inside_a_rank(worlds) -> None:
    def nested(comm: Communicator) -> list[int]:
        with World(2) as inner:
            return inner.run(lambda comm: comm.rank)

    assert worlds(1).run(nested, timeout=100) == [[0, 1]]


# ── printing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_prints_carry_their_rank_and_keep_their_stream(worlds, capsys) -> None:
    def speak(comm: Communicator) -> None:
        print(f"out {comm.rank}")
        print(f"err {comm.rank}", file=sys.stderr)
        print("no end", end="")

    worlds(2).run(speak)
    printed = capsys.readouterr()
    assert sorted(printed.out.splitlines()) == [
        "[rank 0] no end",
        "[rank 0] out 0",
        "[rank 1] no end",
        "[rank 1] out 1",
    ]
    assert sorted(printed.err.splitlines()) == ["[rank 0] err 0", "[rank 1] err 1"]


def test_prints_appear_while_the_function_runs(tmp_path: Path) -> None:
    """The rank goes on when its first line has been heard."""
    heard: list[str] = []

    def listen(rank: int, stream: str, text: str) -> None:
        heard.append(text)
        (tmp_path / text.strip()).touch()

    def slowly(comm: Communicator) -> None:
        print("first")
        while not (tmp_path / "first").exists():
            time.sleep(0.01)
        print("second")

    with World(1, on_output=listen) as world:
        world.run(slowly, timeout=100)
    assert heard == ["first\n", "second\n"]


def test_many_lines_are_passed_on_together(tmp_path: Path) -> None:
    """Else a rank that prints for ever keeps the kernel too busy to be interrupted."""
    heard: list[str] = []

    def listen(rank: int, stream: str, text: str) -> None:
        heard.append(text)
        until_there(tmp_path, "printed")  # as much as any pipe holds

    def print_much(comm: Communicator) -> None:
        for i in range(500):
            print(i)
        (tmp_path / "printed").touch()

    with World(1, on_output=listen) as world:
        world.run(print_much, timeout=100)
    assert "".join(heard) == "".join(f"{i}\n" for i in range(500))
    assert len(heard) <= 2


def test_each_line_of_several_is_marked() -> None:
    assert mark_lines("one\ntwo\r\n10%\r", "[rank 3] ") == "[rank 3] one\n[rank 3] two\r\n[rank 3] 10%\r"


def test_a_progress_bar_keeps_its_carriage_returns() -> None:
    heard: list[str] = []
    with World(1, on_output=lambda rank, stream, text: heard.append(text)) as world:
        world.run(lambda comm: print("\r 10%\r 20%\r100%", flush=True))
    assert "".join(heard) == " 10%\r 20%\r100%\n"


def test_what_native_code_writes_is_heard_too(worlds, capfd) -> None:
    worlds(1).run(lambda comm: os.write(1, b"from C\n") and None)
    assert "[rank 0] from C\n" in capfd.readouterr().out


def test_an_endless_print_loop_is_stopped() -> None:
    heard = []
    with World(2, output_limit=100_000, on_output=lambda rank, stream, text: heard.append(len(text))) as world:

        def chatter(comm: Communicator) -> None:
            while True:
                print("x" * 1000)

        with pytest.raises(TooMuchOutput, match=f"^{HERE}.*more than 100,000 bytes"):
            world.run(chatter, timeout=100)
        assert sum(heard) <= 101_000
        assert still_works(world)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_exception_names_rank_line_and_keeps_the_stack(worlds) -> None:
    def fail(comm: Communicator) -> None:
        if comm.rank == 2:
            raise KeyError("weights")
        comm.barrier()

    world = worlds(4)
    with pytest.raises(RankError, match=f"^{HERE}\\d+: rank 2 raised KeyError: 'weights'$") as caught:
        world.run(fail)
    error = caught.value
    assert error.ranks == [2] and error.site is not None and error.site.function == "fail"
    assert "Traceback" in error.stack and "rank_process.py" in error.stack
    assert world.last_error is error
    rendered = "\n".join(error._render_traceback_())
    assert "---->" in rendered and 'raise KeyError("weights")' in rendered and "rank_process" not in rendered
    assert still_works(world) and world.last_error is None


def test_the_same_exception_on_all_ranks_is_told_once(worlds) -> None:
    with pytest.raises(RankError, match="ranks 0, 1, 2 and 3 raised ZeroDivisionError") as caught:
        worlds(4).run(lambda comm: 1 / 0)
    assert str(caught.value).count("ZeroDivisionError") == 1


def test_the_same_exception_of_a_late_rank_is_reported_with_the_others(worlds, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "_LATE", 30)
    assert still_works(worlds(4))
    with late(worlds(4)._pool.pids[:1]), pytest.raises(RankError, match="ranks 0, 1, 2 and 3 raised ZeroDivisionError"):
        worlds(4).run(lambda comm: 1 / 0)


def test_an_exception_does_not_wait_for_ranks_that_are_blocked(worlds, monkeypatch) -> None:
    """Else this takes longer than a test may."""
    monkeypatch.setattr(supervisor, "_LATE", 10_000)
    with pytest.raises(RankError, match="rank 1 raised ZeroDivisionError"):
        worlds(3).run(lambda comm: comm.barrier() if comm.rank != 1 else 1 / 0)


def test_different_exceptions_are_all_told(worlds) -> None:
    def fail(comm: Communicator) -> None:
        if comm.rank == 0:
            raise ValueError("zero")
        raise TypeError("one")

    with pytest.raises(RankError, match=r"rank 0 raised ValueError: zero; rank 1 raised TypeError: one \(test_world"):
        worlds(2).run(fail)


def test_sys_exit_is_an_exception_like_any_other(worlds) -> None:
    with pytest.raises(RankError, match="raised SystemExit: 3"):
        worlds(2).run(lambda comm: sys.exit(3))
    assert still_works(worlds(2))


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os._exit(3), "exited with code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal 9"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "killed by signal 11"),
    ],
)
def test_a_rank_that_ends_is_a_lost_peer_and_the_next_run_has_new_ranks(worlds, end, how: str) -> None:
    def leave(comm: Communicator) -> None:
        if comm.rank == 1:
            end()
        comm.recv(torch.empty(1), 1)

    world = worlds(3)
    world.on_output = lambda rank, stream, text: None  # a segmentation fault prints its stack
    with pytest.raises(PeerLost, match=f"rank 1 ended in the middle of the run.*{how}.*Ranks 0 and 2 waited") as caught:
        world.run(leave)
    world.on_output = None
    assert caught.value.ranks == [1]
    assert still_works(world)


def fork_a_child(comm: Communicator, end: Callable[[], object]) -> tuple[int, int]:
    """The rank, and the status of a process that it has forked, which comes out of this function itself."""
    pid = os.fork()
    if pid == 0:
        end()
        return -1, -1
    return comm.rank, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("end", "status"),
    [(lambda: None, 0), (sys.exit, 0), (lambda: sys.exit(3), 3), (lambda: sys.exit("enough"), 1), (lambda: 1 // 0, 1)],
    ids=["returns", "exits", "exits with 3", "exits with words", "raises"],
)
def test_a_process_forked_by_a_rank_does_not_report_in_its_place(worlds, end, status: int) -> None:
    world = worlds(2)
    assert world.run(fork_a_child, end, timeout=100) == [(0, status), (1, status)]
    assert still_works(world)


def test_a_rank_that_was_killed_between_two_runs_is_replaced(worlds) -> None:
    world = worlds(2)
    pid = world.run(other_pid)[0]
    os.kill(pid, signal.SIGKILL)
    assert becomes_so(lambda: not psutil.pid_exists(pid))
    assert still_works(world)


def test_a_time_limit_says_where_every_rank_was(worlds) -> None:
    def dawdle(comm: Communicator) -> None:
        if comm.rank == 0:
            while True:
                pass
        comm.recv(torch.empty(2), 0)

    words = "rank 0 was computing at .*; rank 1 waits to receive 2 float32 from rank 0"
    text = out_of_time(worlds(2), dawdle, words)
    assert text.startswith(HERE) and re.search(words, text)
    assert isinstance(worlds(2).last_error, TimeoutError)
    assert still_works(worlds(2))


def test_a_time_limit_names_a_place_once_for_all_ranks_that_were_there(worlds) -> None:
    def sleep(comm: Communicator) -> None:
        if comm.rank < 3:
            time.sleep(1000)
        elif comm.rank == 3:
            time.sleep(2000)
        comm.recv(torch.empty(2), 0)

    place = f"{HERE}[0-9]+"
    words = (
        f"ranks 0, 1 and 2 were computing at {place}; rank 3 was computing at {place}; "
        f"ranks 4 and 5 wait to receive 2 float32 from rank 0 \\({place}\\)[.]$"
    )
    assert re.search(words, out_of_time(worlds(6), sleep, words))


def test_a_rank_that_ignores_being_stopped_is_ended_and_says_where_it_was(worlds) -> None:
    def stubborn(comm: Communicator) -> None:
        while True:
            try:
                time.sleep(0.01)
            except BaseException:
                pass

    words = f"^{HERE}.*(rank 0 was|ranks 0 and 1 were) computing at {HERE}"
    assert re.search(words, out_of_time(worlds(2), stubborn, words))
    assert still_works(worlds(2))


def test_a_result_that_can_not_be_pickled(worlds) -> None:
    with pytest.raises(
        ResultError, match=f"^{HERE}\\d+: rank 0 returned a generator_ish, which can't be sent back"
    ) as caught:

        class generator_ish:
            def __reduce__(self) -> str:
                raise TypeError("no")

        worlds(1).run(lambda comm: generator_ish())
    assert caught.value.ranks == [0]
    assert still_works(worlds(1))


def test_a_message_that_nobody_received(worlds) -> None:
    def lose(comm: Communicator) -> None:
        if comm.rank == 1:
            comm.isend(torch.ones(3), 0, tag=5)

    with pytest.raises(UnreceivedMessage, match=f"^{HERE}.*rank 1 sent 3 float32 to rank 0 with tag 5, and nobody"):
        worlds(2).run(lose)
    assert still_works(worlds(2))


def test_a_message_that_was_not_waited_for_but_received_is_fine(worlds) -> None:
    def no_wait(comm: Communicator, length: int) -> float:
        buffer = torch.zeros(length)
        if comm.rank == 0:
            comm.isend(torch.ones(length), 1)
        else:
            comm.sleep(0.1)
            comm.recv(buffer, 0)
        return buffer.sum().item()

    processes = worlds(2).run(other_pid)
    for length in (3, INLINE_BYTES):
        assert worlds(2).run(no_wait, length) == [0, length]
        assert len(worlds(2).trace) == 1
    assert worlds(2).run(other_pid) == processes  # the ranks did not have to be replaced


# ── deadlock ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def deadlock(world: World, function: Callable[[Communicator], None]) -> str:
    with pytest.raises(DeadlockError) as caught:
        world.run(function, timeout=100)
    assert still_works(world)
    assert str(caught.value).startswith(HERE)
    return str(caught.value)


def test_a_cycle_of_receives(worlds) -> None:
    text = deadlock(worlds(4), lambda comm: comm.recv(torch.empty(4), (comm.rank - 1) % 4))
    assert "deadlock. rank 0 waits to receive 4 float32 from rank 3" in text
    assert [text.count(f"← rank {rank}") for rank in range(4)] == [1, 1, 1, 1]
    assert "No rank on this cycle has sent" in text and "comm.exchange" in text


def test_a_cycle_of_sends(worlds) -> None:
    text = deadlock(worlds(3), lambda comm: comm.send(torch.ones(4), (comm.rank + 1) % 3))
    assert "Every rank on this cycle sends, and none receives" in text


def test_a_deadlock_says_in_which_round_it_began(worlds) -> None:
    def stop_exchanging(comm: Communicator) -> None:
        incoming = torch.empty(4)
        comm.exchange(torch.ones(4), 1 - comm.rank, incoming, 1 - comm.rank)
        comm.recv(incoming, 1 - comm.rank)

    assert "round 2)" in deadlock(worlds(2), stop_exchanging)


def test_waiting_for_a_rank_that_has_returned(worlds) -> None:
    def wait_for_1(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.recv(torch.empty(4), 1)

    text = deadlock(worlds(2), wait_for_1)
    assert "← rank 1 has already returned" in text and "rank 1 sends one message fewer" in text


def test_a_barrier_not_everyone_reaches(worlds) -> None:
    def skip(comm: Communicator) -> None:
        if comm.rank != 2:
            comm.barrier()

    text = deadlock(worlds(3), skip)
    assert "rank 0 waits in barrier for rank 2" in text and "rank 2 has already returned" in text


def test_a_barrier_against_a_receive(worlds) -> None:
    def mixed(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.barrier()
        else:
            comm.recv(torch.empty(1), 0)

    text = deadlock(worlds(2), mixed)
    assert "waits in barrier for rank 1" in text and "waits to receive 1 float32 from rank 0" in text


def test_a_barrier_against_a_split(worlds) -> None:
    def mixed(comm: Communicator) -> None:
        if comm.rank == 2:
            comm.barrier()
        else:
            comm.split(0)

    text = deadlock(worlds(3), mixed)
    assert "rank 0 waits in split for rank 2" in text and "rank 2 waits in barrier for ranks 0 and 1" in text


def test_a_wrong_tag_is_pointed_out(worlds) -> None:
    def tags(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.ones(2), 1, tag=1)
        else:
            comm.recv(torch.empty(2), 0, tag=2)

    assert "rank 0 sends 2 float32 with tag 1 to rank 1" in deadlock(worlds(2), tags)


def test_a_deadlock_of_two_while_a_third_computes(worlds, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "_LATE", 0.5)

    def partial(comm: Communicator) -> None:
        if comm.rank < 2:
            comm.recv(torch.empty(1), 1 - comm.rank)
        time.sleep(1000)

    with pytest.raises(DeadlockError) as caught:
        worlds(3).run(partial, timeout=100)
    assert caught.value.ranks == [0, 1]
    assert still_works(worlds(3))


def test_a_deadlock_of_two_while_others_go_on_talking(worlds, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "_LATE", 0.5)

    def partial(comm: Communicator) -> None:
        if comm.rank < 2:
            comm.recv(torch.empty(1), 1 - comm.rank)
        while True:
            comm.exchange(torch.ones(1), 5 - comm.rank, torch.empty(1), 5 - comm.rank)

    with pytest.raises(DeadlockError) as caught:
        worlds(4).run(partial, timeout=100)
    assert caught.value.ranks == [0, 1]
    assert still_works(worlds(4))


def test_receiving_from_anyone_when_nobody_can_send(worlds) -> None:
    assert "from anyone" in deadlock(worlds(3), lambda comm: comm.recv(torch.empty(1)) and None)


def test_slow_ranks_are_no_deadlock(worlds) -> None:
    def slow(comm: Communicator) -> int:
        if comm.rank == 0:
            comm.sleep(0.6)
            comm.send(torch.ones(1), 1)
            return 0
        return comm.recv(torch.empty(1), comm.rank - 1) if comm.rank == 1 else 0

    assert worlds(3).run(slow) == [0, 0, 0]


def test_ranks_that_are_late_for_a_run_have_not_finished_it(worlds) -> None:
    """They have finished the run before. A rank that waits for them must not be told that they have returned."""
    assert still_works(worlds(4))
    with late(worlds(4)._pool.pids[2:]):
        assert still_works(worlds(4))


def test_a_deadlock_is_reported_when_late_ranks_have_come(worlds, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "_LATE", 30)
    assert still_works(worlds(3))
    with late(worlds(3)._pool.pids[1:2]):
        text = deadlock(worlds(3), lambda comm: comm.barrier() if comm.rank != 2 else None)
    assert "rank 0 waits in barrier for rank 2" in text


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [0, -1, "4", 2.5, None])
def test_a_world_size_that_is_none(size) -> None:
    with pytest.raises(ValueError, match="World expects"):
        World(size)


@pytest.mark.parametrize("seed", [2**70, 2**64 - 1, -(2**63) - 1, 1.5, torch.tensor(1.5), "1", None, True])
def test_a_seed_that_torch_does_not_take(seed) -> None:
    with pytest.raises(ValueError, match=r"World expected an integer from -2\*\*63 to 2\*\*64 - 2 as seed, got seed="):
        World(2, seed=seed)


@pytest.mark.parametrize("seed", [numpy.int64(3), torch.tensor(3), -(2**63), 2**64 - 2])
def test_a_seed_that_torch_takes(seed) -> None:
    with World(2, seed=seed) as world:
        assert world.run(lambda comm: torch.initial_seed() % 2**64, timeout=100) == [
            (int(seed) + rank) % 2**64 for rank in range(2)
        ]


def test_a_backend_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="expected one of the backends shared_memory, gloo, nccl, files, got 'mpi'"):
        World(2, backend="mpi")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="needs a GPU, and NCCL can use none .* Use World.4."):
            World(4, backend="nccl")


def test_what_can_not_be_sent_to_the_ranks_is_named(worlds) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match="argument 1 of run, a lock, can't be sent"):
        worlds(2).run(lambda comm, x: None, lock)
    with pytest.raises(TypeError, match="argument 'x' of run, a lock, can't be sent"):
        worlds(2).run(lambda comm, x: None, x=lock)
    with pytest.raises(TypeError, match="<lambda> can't be sent to the ranks"):
        worlds(2).run(lambda comm: lock.locked())
    with pytest.raises(TypeError, match="run expects a function"):
        worlds(2).run(3)
    world = worlds(2)
    with pytest.raises(TypeError, match="a World can't be sent to its ranks"):
        world.run(lambda comm: world.world_size)


def test_a_communicator_can_not_leave_its_rank(worlds) -> None:
    with pytest.raises(ResultError, match="a communicator belongs to its rank"):
        worlds(1).run(lambda comm: comm)


def test_no_room_for_the_private_directory(monkeypatch) -> None:
    def full(*args: object, **kwargs: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(OSError, match="No space left on device.*Free some space"), World(2) as world:
        world.run(lambda comm: None)


def test_no_room_for_the_status_board_leaves_nothing_behind(monkeypatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    before = rank_processes()
    with pytest.raises(OSError, match="No space left"), World(2) as world:
        world.run(lambda comm: None)
    assert becomes_so(lambda: rank_processes() <= before)  # one of an earlier test may still have been ending


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="this system has no /dev/shm")
def test_where_shared_memory_is_full_the_private_directory_lies_elsewhere(monkeypatch) -> None:
    allocate, make_directory, made = os.posix_fallocate, tempfile.mkdtemp, []

    def noted(*args: str, **options: str) -> str:
        made.append(make_directory(*args, **options))
        return made[-1]

    def full(fd: int, *args: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").startswith("/dev/shm"):
            raise OSError(28, "No space left on device")
        allocate(fd, *args)

    monkeypatch.setattr("os.posix_fallocate", full)
    monkeypatch.setattr("tempfile.mkdtemp", noted)
    with World(2) as world:
        assert still_works(world)
        assert not world._pool.directory.startswith("/dev/shm")
        assert made[0].startswith("/dev/shm") and not os.path.exists(made[0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has open")
@pytest.mark.slow
def test_a_process_whose_standard_streams_are_closed(tmp_path: Path) -> None:
    """As of a daemon: what ranks print goes nowhere, and no pipe to a rank takes the place of a stream."""
    program = (
        "import os, sys; from distlib import World; world = World(2)\n"
        "seen = world.run(lambda comm: print('heard by nobody') or comm.rank)\n"
        "open(sys.argv[1], 'w').write(f'{seen} {[os.readlink(f\"/proc/self/fd/{fd}\") for fd in range(3)]}')"
    )
    closed = f'exec {sys.executable} -c "$0" "$1" <&- >&- 2>&-'
    subprocess.run(["bash", "-c", closed, program, str(tmp_path / "seen")], timeout=200)
    assert (tmp_path / "seen").read_text() == f"[0, 1] {['/dev/null'] * 3}"


# ── nothing leaks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_world_that_is_forgotten_takes_its_ranks_along() -> None:
    before = rank_processes()
    world = World(3)
    world.run(other_pid)
    directory = world._pool.directory
    assert len(rank_processes() - before) == 3 and os.path.isdir(directory)
    del world
    gc.collect()
    assert becomes_so(lambda: rank_processes() <= before)
    assert not os.path.exists(directory)


def test_a_cell_that_is_run_again_and_again() -> None:
    before, open_files = rank_processes(), psutil.Process().num_fds()
    for _ in range(4):
        world = World(3)  # the one before is forgotten
        world.run(other_pid)
        with pytest.raises(RankError):
            world.run(lambda comm: 1 / 0)
    world.close()
    del world
    gc.collect()
    assert becomes_so(lambda: rank_processes() <= before)
    assert psutil.Process().num_fds() <= open_files + 2


def test_a_failed_run_does_not_keep_its_world_alive() -> None:
    world = World(1)
    with pytest.raises(RankError) as caught:
        world.run(lambda comm: 1 / 0)
    error, alive = caught.value, weakref.ref(world)
    error.__traceback__ = None
    del world, caught
    gc.collect()
    assert alive() is None and "ZeroDivisionError" in str(error)


def test_the_private_directory_is_private(worlds) -> None:
    worlds(2).run(other_pid)
    assert os.stat(worlds(2)._pool.directory).st_mode & 0o777 == 0o700


def test_no_port_is_open_to_other_machines(worlds) -> None:
    for pid in worlds(4).run(other_pid):
        for connection in psutil.Process(pid).net_connections():
            assert connection.laddr.ip in ("127.0.0.1", "::1")


def test_closing_twice_and_running_after_closing() -> None:
    world = World(2)
    world.close()
    assert world.run(lambda comm: comm.rank) == [0, 1]
    world.close()
    world.close()
    assert world.run(lambda comm: comm.rank) == [0, 1]
    world.close()


def test_a_process_forked_from_the_notebook_leaves_its_world_alone() -> None:
    """Such as one of multiprocessing, or of a DataLoader: its copy of the world is closed when it ends."""
    told, tell = multiprocessing.Pipe(duplex=False)

    def run_and_close(world: World) -> None:
        try:
            tell.send(world.run(other_pid))
        except RuntimeError as error:
            tell.send(str(error))
        world.close()

    with World(2) as world:
        world.run(other_pid)
        child = multiprocessing.get_context("fork").Process(target=run_and_close, args=[world])
        child.start()
        child.join(100)
        assert "belongs to the process that this one was forked from" in told.recv()
        assert child.exitcode == 0 and os.path.isdir(world._pool.directory)
        assert still_works(world)


def test_a_run_within_a_run_is_refused(worlds) -> None:
    world = worlds(1)
    problems = []

    def on_output(rank: int, stream: str, text: str) -> None:
        try:
            world.run(other_pid)
        except RuntimeError as error:
            problems.append(str(error))

    world.on_output = on_output
    world.run(lambda comm: print("hello"))
    world.on_output = None
    assert "already running" in problems[0]


def test_closing_a_world_that_runs_is_refused() -> None:
    problems = []

    def close() -> None:
        try:
            world.close()
        except RuntimeError as error:
            problems.append(str(error))

    def on_output(rank: int, stream: str, text: str) -> None:
        close()
        other = threading.Thread(target=close)
        other.start()
        other.join()

    with World(1, on_output=on_output) as world:
        assert world.run(lambda comm: print("hello") or comm.rank, timeout=100) == [0]
        assert len(problems) == 2 and all("is running a function" in problem for problem in problems)
        world.on_output = None
        assert world.run(lambda comm: comm.rank, timeout=100) == [0]


def test_an_error_in_on_output_ends_the_run_and_leaves_the_world_usable() -> None:
    def complain(rank: int, stream: str, text: str) -> None:
        raise LookupError("no room on the page")

    def chatter(comm: Communicator) -> None:
        while True:
            print("x")

    with World(2, on_output=complain) as world:
        with pytest.raises(LookupError):
            world.run(chatter, timeout=100)
        world.on_output = None
        assert still_works(world)


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda comm: comm.rank, "^The run was just over"), (lambda comm: 1 // 0, "ZeroDivisionError.*used again")],
    ids=["well", "with an error"],
)
def test_an_interrupt_while_a_run_ends_is_not_lost(function, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_all = supervisor.Supervisor._ask_all

    def interrupt_and_ask(*arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return ask_all(*arguments)

    with World(2) as world:
        with monkeypatch.context() as patches, pytest.raises(RunInterrupted, match=says):
            patches.setattr(supervisor.Supervisor, "_ask_all", interrupt_and_ask)
            world.run(function, timeout=100)
        assert still_works(world)


def test_public_names() -> None:
    for name in ("World", "all_reduce", "ReduceOp", "DeadlockError", "MessageMismatch", "RankError", "PeerLost"):
        assert name in distlib.__all__ and hasattr(distlib, name)

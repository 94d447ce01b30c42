"""Shared memory between ranks: every size and layout arrives, and whatever ends in the middle of it is reported."""

from __future__ import annotations

import errno
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from hypothesis import given, strategies as st

from distlib import Communicator, PeerLost, RankError, World
from distlib.worlds.real import forkserver, shared_memory
from distlib.worlds.real.mailbox import INLINE_BYTES
from distlib.worlds.real.shared_memory import NoSharedMemory, fill_from, memory_address
from tests.tools.midst import becomes_so

PIECE = 64
HUGE = 8 * 2**20  # elements: 32 MB of float32


@pytest.fixture(scope="module", autouse=True)
def needs_shared_memory() -> None:
    """Not a mark of the module: ranks import it, and each would start a fork server of its own to find out."""
    if forkserver.current().memory_problem() is not None:
        pytest.skip("ranks can't share memory here")


# ── copying ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_pieces(monkeypatch) -> None:
    monkeypatch.setattr(shared_memory, "_PIECE", PIECE)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("nbytes", [0, 16, PIECE - 16, PIECE, PIECE + 16, 2 * PIECE, 5 * PIECE + 16])
def test_every_byte_is_copied_and_none_beyond(small_pieces: None, nbytes: int, dtype: torch.dtype) -> None:
    source = torch.randint(0, 2, (nbytes,), dtype=torch.uint8).view(dtype)
    around = torch.full((nbytes + 32,), 7, dtype=torch.uint8)
    assert fill_from(memory_address(source), around[16 : nbytes + 16].view(dtype))
    assert torch.equal(around[16 : nbytes + 16], source.view(torch.uint8))
    assert set(torch.cat([around[:16], around[nbytes + 16 :]]).tolist()) == {7}


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(0, 2), st.integers(1, 3))
def test_a_tensor_with_gaps_is_filled_in_row_order(shape: list[int], turned: int, gap: int) -> None:
    source = torch.rand(shape)
    target = torch.zeros([*shape[:-1], shape[-1] * gap])[..., ::gap]
    target = target.transpose(turned % len(shape), -1).contiguous().transpose(turned % len(shape), -1)
    assert fill_from(memory_address(source), target)
    assert torch.equal(target, source)


def test_a_process_that_has_ended_has_no_memory() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert not fill_from((child, 4096), torch.zeros(4))


def test_an_address_where_nothing_lies_is_an_error() -> None:
    with pytest.raises(OSError, match="can't read 16 bytes from another rank") as caught:
        fill_from((os.getpid(), 8), torch.zeros(4))
    assert caught.value.errno == errno.EFAULT


# ── between ranks ────────────────────────────────────────────────────────────────────────────────────────────────────


def talk(comm: Communicator, lengths: list[int]) -> bool:
    """All ranks send to all others at once, with two tags; every receive is posted in another order than the sends."""
    others = [rank for rank in range(comm.world_size) if rank != comm.rank]
    sends = [(dst, tag, length) for dst in others for length in lengths for tag in (0, 1)]
    receives = [(src, tag, torch.zeros(length)) for src in others for length in lengths for tag in (1, 0)]
    works = [comm.isend(torch.full((length,), 10.0 * comm.rank + tag), dst, tag) for dst, tag, length in sends]
    works += [comm.irecv(tensor, src, tag) for src, tag, tensor in receives]
    for work in reversed(works):
        work.wait()
    return all(bool((tensor == 10.0 * src + tag).all()) for src, tag, tensor in receives)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_many_messages_in_both_directions(worlds, world_size: int) -> None:
    edge = INLINE_BYTES // 4
    lengths = [0, 1, edge - 1, edge, edge + 1, 3 * edge + 1, 100 * edge]
    assert worlds(world_size).run(talk, lengths, timeout=100) == [True] * world_size


def lend(comm: Communicator) -> float:
    """The receiver takes a tensor while its sender computes, without any help of the sender's."""
    tensor = torch.full((INLINE_BYTES,), float(comm.rank))
    if comm.rank == 0:
        work = comm.isend(tensor, 1)
        comm.recv(torch.empty(1), 1)  # rank 1 has the tensor: only now the sender looks
        assert work.is_completed()
    else:
        comm.recv(tensor, 0)
        comm.send(torch.zeros(1), 0)
    return tensor.sum().item()


def test_a_sender_may_be_busy_meanwhile(worlds) -> None:
    assert worlds(2).run(lend, timeout=100) == [0.0, 0.0]


@pytest.mark.slow
def test_many_ranks_need_no_memory_of_their_own() -> None:
    with World(8) as world:
        assert world.run(talk, [INLINE_BYTES], timeout=100) == [True] * 8
        files = list(Path(world._pool.directory).iterdir())
        used = sum(file.stat().st_blocks * 512 for file in files)
    assert world.backend == "shared_memory" and files
    assert used < 8 * INLINE_BYTES


# ── which backend ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_backend_says_what_is_used() -> None:
    with World(2) as world, World(2, backend="gloo") as other:
        assert world.run(talk, [INLINE_BYTES], timeout=100) == other.run(talk, [INLINE_BYTES], timeout=100)
        assert (world.backend, other.backend) == ("shared_memory", "gloo")
        assert repr(world) == "<World: 2 ranks, shared memory, ready>"


@pytest.fixture
def forbidden(monkeypatch) -> None:
    monkeypatch.setattr(forkserver.RankForkServer, "memory_problem", lambda self: "this container forbids it")


def test_where_memory_can_not_be_shared_gloo_is_used(forbidden: None) -> None:
    with World(2) as world:
        assert world.run(talk, [INLINE_BYTES], timeout=100) == [True, True]
        assert world.backend == "gloo"


def test_shared_memory_that_was_asked_for_and_can_not_be_had_is_an_error(forbidden: None) -> None:
    with (
        World(2, backend="shared_memory") as world,
        pytest.raises(NoSharedMemory, match=r"this container forbids it. Use World\(2, backend='gloo'\)"),
    ):
        world.run(talk, [1])


@pytest.mark.parametrize(
    ("status", "text"),
    [(errno.EPERM, "forbids"), (errno.ENOSYS, "forbids"), (errno.EIO, "Input/output error"), (-31, "signal 31")],
)
def test_why_not(status: int, text: str) -> None:
    assert text in shared_memory._reason(status)


# ── in the middle of a large tensor ──────────────────────────────────────────────────────────────────────────────────


def send_huge(comm: Communicator, marker: str, times: int) -> None:
    tensor = torch.zeros(HUGE)
    other = torch.empty_like(tensor)
    for _ in range(times):
        comm.exchange(tensor, 1 - comm.rank, other, 1 - comm.rank)
        Path(marker).write_text(str(os.getpid()))  # from now on it is in the midst of the next one, and so on


@pytest.fixture
def world() -> Iterator[World]:
    with World(2) as world:
        world.run(lambda comm: None)
        yield world


def when_written(marker: Path, action) -> threading.Thread:
    """Start a thread that calls `action` with a rank's process id when the marker is there."""

    def watch() -> None:
        while not (marker.exists() and (pid := marker.read_text())):
            time.sleep(0.01)
        action(int(pid))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_rank_that_is_killed_in_the_middle_is_a_lost_peer(world: World, tmp_path: Path) -> None:
    when_written(tmp_path / "marker", lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(PeerLost, match="killed by signal 9"):
        world.run(send_huge, str(tmp_path / "marker"), 10**6, timeout=100)
    assert world.run(lend, timeout=100) == [0.0, 0.0]


def test_stopping_in_the_middle_leaves_the_world_usable(world: World, tmp_path: Path) -> None:
    with pytest.raises(RankError, match="not done after 1 s"):
        world.run(send_huge, str(tmp_path / "marker"), 10**6, timeout=1)
    assert world.run(lend, timeout=100) == [0.0, 0.0]


def test_an_interrupt_in_the_middle_leaves_the_world_usable(world: World, tmp_path: Path) -> None:
    when_written(tmp_path / "marker", lambda pid: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        world.run(send_huge, str(tmp_path / "marker"), 10**6, timeout=100)
    assert world.run(lend, timeout=100) == [0.0, 0.0]


def test_nothing_is_left_of_a_world_whose_rank_was_killed(world: World, tmp_path: Path) -> None:
    directory = Path(world._pool.directory)
    assert (directory / "board").exists()
    when_written(tmp_path / "marker", lambda pid: os.kill(pid, signal.SIGKILL))
    with pytest.raises(PeerLost):
        world.run(send_huge, str(tmp_path / "marker"), 10**6, timeout=100)
    assert not directory.exists()


KERNEL = f"""
import os, sys, torch
from pathlib import Path
from distlib import Communicator, World

HUGE = {HUGE}

{inspect.getsource(send_huge)}

world = World(2)
pids = world.run(lambda comm: os.getpid())
print(world._pool.directory, *pids, flush=True)
world.run(send_huge, sys.argv[1], 10**6)
"""


@pytest.mark.slow
def test_nothing_is_left_when_the_kernel_is_killed_in_the_middle(tmp_path: Path) -> None:
    program = [sys.executable, "-c", KERNEL, str(tmp_path / "marker")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as kernel:
        directory, *pids = kernel.stdout.readline().split()
        assert os.path.isdir(directory) and all(psutil.pid_exists(int(pid)) for pid in pids)
        when_written(tmp_path / "marker", lambda pid: kernel.kill()).join(60)
        assert kernel.wait(60) == -signal.SIGKILL
    assert becomes_so(lambda: not os.path.exists(directory), 30)
    assert becomes_so(lambda: not any(psutil.pid_exists(int(pid)) for pid in pids), 30)

"""A checkpoint is whole or known for torn, whatever happens to its file or to the process that writes it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from distlib import RankError, SimulatedWorld
from distlib.communicator import Communicator
from distlib.launch.checkpoints import (
    Checkpoints,
    TornCheckpoint,
    checkpoint_path,
    good_steps,
    last_common_step,
    read_checkpoint,
    steps_in,
    write_checkpoint,
)

HEADER = 56  # bytes
STATE = {"weights": torch.arange(10.0), "optimizer": {"rate": 0.1, "seen": [3, 4]}}


def number(state: object) -> int:
    assert isinstance(state, dict)
    return int(state["number"])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 30, STATE)
    step, state = read_checkpoint(path)
    assert (step, path.name) == (30, "00000030.checkpoint")
    assert torch.equal(state["weights"], STATE["weights"]) and state["optimizer"] == STATE["optimizer"]
    assert [each.name for each in tmp_path.iterdir()] == ["00000030.checkpoint"]


@pytest.mark.parametrize("kept", [0, 1, 8, HEADER - 1, HEADER, HEADER + 1, "half", "all but one"])
def test_a_file_that_is_cut_off_is_torn(tmp_path: Path, kept: int | str) -> None:
    path = write_checkpoint(tmp_path, 1, STATE)
    content = path.read_bytes()
    length = {"half": len(content) // 2, "all but one": len(content) - 1}.get(str(kept), kept)
    assert isinstance(length, int)
    path.write_bytes(content[:length])
    with pytest.raises(TornCheckpoint, match="ends within its header" if length < HEADER else "expected .* bytes"):
        read_checkpoint(path)
    assert good_steps(tmp_path) == [] and steps_in(tmp_path) == [1]


def test_zeros_where_the_disk_was_to_write_are_torn(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1, STATE)
    length = path.stat().st_size
    path.write_bytes(path.read_bytes()[:100].ljust(length, b"\0"))
    with pytest.raises(TornCheckpoint, match="has its full length, but not the checksum"):
        read_checkpoint(path)
    path.write_bytes(bytes(length))
    with pytest.raises(TornCheckpoint, match="does not begin as a checkpoint"):
        read_checkpoint(path)


def test_more_than_was_written_is_torn(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1, STATE)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(TornCheckpoint):
        read_checkpoint(path)


def test_any_byte_that_turns_is_noticed(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1, {"number": 1})
    content = path.read_bytes()
    for place in [*range(HEADER), *range(HEADER, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(TornCheckpoint):
            read_checkpoint(path)


def test_a_checkpoint_under_the_name_of_another_step_is_not_good(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, STATE).rename(checkpoint_path(tmp_path, 2))
    assert good_steps(tmp_path) == []


KILLED = """
import os, sys, torch
from pathlib import Path
from distlib.launch import checkpoints
folder, number = Path(sys.argv[1]), 0
state = {"number": 0, "weights": torch.zeros(2_000_000)}
print("writes", flush=True)
while True:
    number += 1
    state["number"] = number
    checkpoints.write_checkpoint(folder, number, state)
    if number > 2:
        checkpoints.checkpoint_path(folder, number - 2).unlink()
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_a_good_one(tmp_path: Path) -> None:
    """It writes without a pause, so it is killed in the middle of one, most of the time."""
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline() == b"writes\n"
        give_up = time.monotonic() + 100
        while len(steps_in(folder)) < 2 and time.monotonic() < give_up:
            time.sleep(0.003)
        writer.kill()
        writer.wait()
        assert steps_in(folder) == good_steps(folder) != []
        last = good_steps(folder)[-1]
        assert number(read_checkpoint(checkpoint_path(folder, last))[1]) == last


def test_a_writer_that_dies_before_the_rename_leaves_a_part(tmp_path: Path) -> None:
    """Killed at the worst moment: all is written, and not yet renamed."""
    if (pid := os.fork()) == 0:
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        write_checkpoint(tmp_path, 2, {"number": 2})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    write_checkpoint(tmp_path, 1, {"number": 1})
    assert good_steps(tmp_path) == steps_in(tmp_path) == [1]
    assert len(list(tmp_path.glob("*.part"))) == 1


# All ranks


def resume(comm: Communicator, folder: Path, own: bool = False) -> tuple[int, object]:
    step, state = Checkpoints(comm, folder / str(comm.rank) if own else folder).resume()
    return step, None if state is None else number(state)


def test_nothing_there_means_from_the_beginning(tmp_path: Path) -> None:
    assert SimulatedWorld(3).run(resume, tmp_path / "new") == [(0, None)] * 3


def test_a_damaged_last_one_is_passed_over_and_left(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        path = write_checkpoint(tmp_path, step, {"number": step})
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "00000040.1.part").write_bytes(b"half")
    assert SimulatedWorld(2).run(resume, tmp_path) == [(20, 20)] * 2
    assert path.exists()


def test_ranks_with_disks_of_their_own_take_what_all_have(tmp_path: Path) -> None:
    have = [[10, 20, 30], [10, 30], [10, 20, 40]]
    for rank, steps in enumerate(have):
        (tmp_path / str(rank)).mkdir()
        for step in steps:
            write_checkpoint(tmp_path / str(rank), step, {"number": step})
    assert SimulatedWorld(3).run(resume, tmp_path, own=True) == [(10, 10)] * 3


@pytest.mark.parametrize(
    "have, last",
    [
        ([[1, 2], [1, 2]], 2),
        ([[1, 2, 3], [1, 2]], 2),
        ([[1, 3], [2, 3, 4], [3]], 3),
        ([[1, 3, 5], [2, 4, 6]], None),
        ([[], [1]], None),
        ([[0], [0, 1]], 0),
    ],
)
def test_the_last_step_that_all_have(have: list[list[int]], last: int | None) -> None:
    found = SimulatedWorld(len(have)).run(lambda comm: last_common_step(comm, have[comm.rank]))
    assert found == [last] * len(have)


def test_old_ones_are_deleted_and_never_the_one_just_written(tmp_path: Path) -> None:
    def write(comm: Communicator) -> None:
        checkpoints = Checkpoints(comm, tmp_path, keep=2)
        for step in (10, 20, 30, 15):
            checkpoints.save(step, {"number": comm.rank})

    SimulatedWorld(2).run(write)
    assert steps_in(tmp_path) == [15, 20, 30]
    assert number(read_checkpoint(checkpoint_path(tmp_path, 30))[1]) == 0
    with pytest.raises(RankError, match="at least 2 checkpoints"):
        SimulatedWorld(1).run(lambda comm: Checkpoints(comm, tmp_path, keep=1))

"""A world over the nodes of an allocation, which are all this machine; test_slurm has a real one."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from distlib import PeerLost, all_reduce
from distlib.communicator import Communicator
from distlib.launch.environment import LaunchError
from distlib.launch.slurm_world import SlurmWorld
from distlib.worlds.real import supervisor
from tests.tools.midst import becomes_so


@pytest.fixture
def job(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes this process one of a job on two nodes. Gives the folder that the nodes share."""
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/sh\ncd {root} && exec {sys.executable} -m tests.tools.fake_srun "$@"\n')
    srun.chmod(0o700)
    monkeypatch.setenv("PATH", f"{srun.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    return tmp_path / "shared"


@pytest.fixture
def printed() -> list[tuple[int, str, str]]:
    return []


@pytest.fixture
def world(job: Path, printed: list[tuple[int, str, str]]) -> Iterator[SlurmWorld]:
    with SlurmWorld(1, directory=job, on_output=lambda *line: printed.append(line)) as world:
        yield world


def total(comm: Communicator, length: int) -> float:
    tensor = torch.full((length,), float(comm.rank + 1))
    all_reduce(comm, tensor, algorithm="ring")
    print("done")
    return float(tensor[-1])


def kill_one(comm: Communicator) -> None:
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


def kill_the_node_of_rank_2(comm: Communicator) -> None:
    if comm.rank == 2:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(100)  # not to its end
    comm.barrier()


def test_runs_follow_each_other_also_after_a_death(
    world: SlurmWorld, job: Path, printed: list[tuple[int, str, str]]
) -> None:
    assert (world.world_size, world.nodes) == (2, ["n1", "n2"])
    assert world.run(total, 3) == [3.0, 3.0]
    assert world.run(total, 50_000) == [3.0, 3.0]
    assert len(world.trace) == 4
    assert sorted(printed) == [(rank, "stdout", "done\n") for rank in (0, 0, 1, 1)]
    with pytest.raises(PeerLost, match="rank 1 ended in the middle of the run") as lost:
        world.run(kill_one)
    assert (lost.value.lost, lost.value.__notes__) == ([1], ["Rank 1 ran on node n2."])
    assert world.run(total, 3) == [3.0, 3.0]
    world.close()
    assert list(job.iterdir()) == []
    assert [child for child in psutil.Process().children() if "fake_srun" in " ".join(child.cmdline())] == []


def test_a_process_forked_from_the_notebook_leaves_its_ranks_alone(world: SlurmWorld) -> None:
    pids = world.run(lambda comm: os.getpid())
    child = os.fork()
    if child == 0:
        try:
            world.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    assert world.run(lambda comm: os.getpid()) == pids


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.slow
def test_a_node_takes_its_ranks_along(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_GRACE", 5)  # between the ends of its two ranks
    with SlurmWorld(2, directory=job) as world:
        nodes = world.run(lambda comm: os.getppid())
        assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
        pids = world.run(lambda comm: os.getpid())
        with pytest.raises(PeerLost, match="ranks 2 and 3 ended in the middle of the run") as lost:
            world.run(kill_the_node_of_rank_2)
        assert lost.value.__notes__ == ["Ranks 2 and 3 ran on node n2, and no other rank: is that node still up?"]
    assert becomes_so(lambda: not any(map(is_running, pids)), 30)


def test_srun_that_fails_is_quoted(job: Path) -> None:
    (job.parent / "bin" / "srun").write_text("#!/bin/sh\necho srun: error: Invalid job id >&2; exit 1\n")
    with pytest.raises(LaunchError, match="srun has not started the ranks. srun said:\nsrun: error: Invalid job id"):
        SlurmWorld(1, directory=job).run(total, 3)


def test_without_srun_it_says_so(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(job.parent))
    with pytest.raises(LaunchError, match="can't start srun: "):
        SlurmWorld(1, directory=job).run(total, 3)


def test_outside_of_a_job_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    with pytest.raises(LaunchError, match="SLURM_JOB_NODELIST is not set: this notebook does not run in a Slurm job."):
        SlurmWorld()

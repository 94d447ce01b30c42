"""Ranks that a real srun has started, on two nodes."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distlib.launch.checkpoints import good_steps, steps_in
from tests.tools import slurm_cluster
from tests.tools.launched import losses_in
from tests.tools.midst import becomes_so, until_there
from tests.tools.slurm_cluster import SlurmCluster

SCRIPT = Path(__file__).parent / "rank_functions.py"
LAUNCH = [sys.executable, "-m", "distlib.cli", "launch"]
pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.missing()
    if reason:
        pytest.skip(reason)
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), 2) as made:
        yield made


def srun(*words: str) -> list[str]:
    return ["srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2", *LAUNCH, *words]


def nothing_left(cluster: SlurmCluster) -> bool:
    """Whether the nodes run only Slurm's own daemon, at once or very soon."""
    return becomes_so(lambda: all(len(cluster.machines.processes(node)) <= 1 for node in (1, 2)), 30)


def test_the_same_function_runs_under_srun(cluster: SlurmCluster, tmp_path: Path) -> None:
    done = cluster.run(*srun("--rendezvous", str(tmp_path), f"{SCRIPT}:add_up", "3", "100_000"))
    assert (sorted(done.stdout.splitlines()), done.stderr) == ([f"[rank {rank}] [15, 15]" for rank in range(4)], "")
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert nothing_left(cluster)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_killed_rank_is_named_with_its_node(cluster: SlurmCluster, tmp_path: Path, rank: int) -> None:
    done = cluster.run(*srun("--rendezvous", str(tmp_path), f"{SCRIPT}:die", str(rank)))
    assert f"rank {rank} ended in the middle of the run" in done.stderr
    assert f"Rank {rank} ran on node n{1 + rank // 2}." in done.stderr
    assert done.returncode != 0
    assert nothing_left(cluster)


def test_a_cancelled_job_leaves_nothing(cluster: SlurmCluster, tmp_path: Path) -> None:
    command = srun("--rendezvous", str(tmp_path), f"{SCRIPT}:wait_for_file", str(tmp_path / "flag"))
    job = cluster.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until_there(tmp_path, "flag-*", 4, 200, during=job)
    assert cluster.run("scancel", "--user=root").returncode == 0
    _, err = job.communicate(timeout=200)
    # All ranks, or only those that the signal had reached when the run was given up.
    assert re.search(r"ranks? \d.* raised Ended: SIGTERM from what has started it", err), err
    assert nothing_left(cluster)


def test_an_allocation_without_srun_says_how_to_start(cluster: SlurmCluster) -> None:
    done = cluster.run("salloc", "--nodes=2", *LAUNCH, f"{SCRIPT}:add_up", "3")
    assert "on how many ranks? Say distlib launch --ranks 4 …, or start it by torchrun or srun." in done.stderr


def test_a_notebook_has_a_world_over_all_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    notebook = [sys.executable, str(SCRIPT.with_name("slurm_notebook.py")), str(tmp_path)]
    done = cluster.run("salloc", "--nodes=2", "srun", "--overlap", "--nodes=1", "--ntasks=1", *notebook)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    nodes = ["n1", "n1", "n2", "n2"]
    for length in ("3", "100000", "after", "again"):
        assert told[length] == [[node, 6.0] for node in nodes]
    assert told["printed"] == sorted(f"{rank} stdout here is {rank}\n" for rank in range(4) for _ in range(3))
    assert told["messages"] == 4 * 2 * 3
    assert "deadlock. rank 0 waits to receive 2 float32 from rank 1 (slurm_notebook.py, line " in told["deadlock"]
    assert told["lost"] == [3]
    assert told["where"] == ["Rank 3 ran on node n2."]
    assert list(tmp_path.iterdir()) == []
    assert nothing_left(cluster)


def test_a_killed_node_is_named(cluster: SlurmCluster, tmp_path: Path) -> None:
    notebook = [sys.executable, str(SCRIPT.with_name("slurm_lost_node.py")), str(tmp_path)]
    command = ["salloc", "--nodes=2", "srun", "--overlap", "--nodes=1", "--ntasks=1", *notebook]
    job = cluster.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert job.stdout is not None
        assert json.loads(job.stdout.readline())["computing"] == [0, 1, 2, 3]
        cluster.kill_node(2)
        out, err = job.communicate(timeout=200)
        assert job.returncode == 0, err
        told, then, _ = (json.loads(line) for line in out.splitlines())
        assert told["lost"] == [2, 3]
        assert "ranks 2 and 3 ended in the middle of the run" in told["told"]
        assert "Ranks 2 and 3 ran on node n2, and no other rank: is that node still up?" in told["told"]
        assert then["then"].startswith("srun has not started the ranks. srun said:\nsrun: ")
        assert re.search(r"Task launch for StepId=\S+ failed on node n2", then["then"])
        assert list(tmp_path.iterdir()) == []
        assert nothing_left(cluster)
    finally:
        cluster.revive_node(2)


def test_the_job_script_of_lesson_16_gives_each_task_its_variables(cluster: SlurmCluster) -> None:
    lesson = (Path(__file__).parents[2] / "course" / "16_environments.py").read_text()
    joined = re.sub(r" \\\n#\s+", " ", lesson)  # a line that ends with a backslash goes on in the next one
    lines = re.findall(r"^#     (export MASTER_\w+=\$.*|srun bash .*)$", joined, re.M)
    assert [line.split("=")[0] for line in lines] == ["srun bash -c 'RANK", "export MASTER_ADDR", "export MASTER_PORT"]
    shown = r'bash -c "echo \$RANK \$WORLD_SIZE \$MASTER_ADDR \$((MASTER_PORT - 10000 - SLURM_JOB_ID))"'
    script = "\n".join([*lines[1:], lines[0].replace("python train.py", shown)])
    done = cluster.run("salloc", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "bash", "-c", script)
    assert sorted(done.stdout.splitlines()) == [f"{rank} 4 n1 0" for rank in range(4)], done.stderr


def test_the_capstone_goes_on_in_the_next_job_when_the_first_is_killed(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The command of lesson 19, in the words of its table: on two nodes, with ZeRO 3. It is killed far from its end."""
    small = "--every 4 --features 16 --layers 2 --batch-size 16 --checkpoints".split()
    training = [sys.executable, "-m", "distlib.capstone", "additions", "--way", "zero", *small]
    job = ["srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"]
    kept = tmp_path / "kept"
    endless = [*job, *training, str(kept), "--steps", "1000000"]
    killed = cluster.start(endless, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while killed.poll() is None and len(steps_in(kept / "rank-3-of-4")) < 2:  # then every rank has one
        time.sleep(0.01)
    assert cluster.run("scancel", "--signal=KILL", "--state=RUNNING", "--me").returncode == 0
    killed.communicate(timeout=60)

    last = min(good_steps(folder)[-1] for folder in kept.iterdir())
    steps = ["--steps", str(last + 8)]
    undisturbed = cluster.run(*job, *training, str(tmp_path / "undisturbed"), *steps)
    assert undisturbed.returncode == 0, undisturbed.stderr
    again = cluster.run(*job, *training, str(kept), *steps)
    assert again.returncode == 0, again.stderr
    losses, found = losses_in(undisturbed.stdout), losses_in(again.stdout)
    assert f"goes on after step {last}\n" in again.stdout
    assert list(losses) == list(range(4, last + 9, 4))
    assert list(found) == [last + 4, last + 8] and found.items() <= losses.items()
    assert nothing_left(cluster)

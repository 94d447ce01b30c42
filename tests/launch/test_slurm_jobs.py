"""The job scripts under a real Slurm."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from distlib.launch.checkpoints import good_steps
from distlib.launch.jobs import job_script
from tests.tools import slurm_cluster
from tests.tools.midst import wait_until
from tests.tools.slurm_cluster import SlurmCluster

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:41234/lab/tree/lesson.ipynb?token=abc123"
TRAIN = """
from tests.launch.elastic_training import until_warned


def main(comm):
    return until_warned(comm, "checkpoints")
"""
EXPECTED = re.compile(r"srun: error: .* Exited with exit code 75|slurmstepd.* JOB \d+ .* DUE TO JOB REQUEUE .*")
pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.missing()
    if reason:
        pytest.skip(reason)
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), 2) as made:
        yield made


def submit(cluster: SlurmCluster, folder: Path, script: str, distlib: str, *options: str) -> str:
    """Submit a script from a folder in which `distlib` is this line of bash. Returns the job's number.

    options: of sbatch, which count more than those in the script.
    """
    command = folder / ".venv" / "bin" / "distlib"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/bash\n{distlib}\n")
    command.chmod(0o700)
    (folder / f"{script}.sbatch").write_text(job_script(script))
    words = ("--parsable", *options, "--chdir", str(folder), str(folder / f"{script}.sbatch"))
    done = cluster.run("sbatch", *words, cwd=folder, variables={"HOME": str(folder), "USER": "ada"})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def train(cluster: SlurmCluster, folder: Path, *options: str) -> str:
    """Submit train.sbatch, and wait until all ranks compute. Returns the job's number."""
    (folder / "train.py").write_text(TRAIN)
    job = submit(cluster, folder, "train", f'PYTHONPATH={ROOT} exec {sys.executable} -m distlib.cli "$@"', *options)
    begun = lambda: len(list((folder / "checkpoints").glob("begun-*"))) == 4  # noqa: E731
    wait_until(begun, lambda: log_of(folder, job), 200)
    return job


def log_of(folder: Path, job: str) -> str:
    log = folder / f"train-{job}.log"
    return log.read_text() if log.exists() else ""


def is_back_in_the_queue(cluster: SlurmCluster, folder: Path, job: str) -> None:
    """Asserts that a job gets there, with a checkpoint, and has not been killed."""
    state = lambda: cluster.run("scontrol", "show", "job", job).stdout  # noqa: E731
    wait_until(
        lambda: " Restarts=1 " in state() and "JobState=PENDING" in state(), lambda: state() + log_of(folder, job), 200
    )
    assert good_steps(folder / "checkpoints")[-1] > 3
    assert [line for line in log_of(folder, job).splitlines() if not EXPECTED.fullmatch(line)] == []


def test_a_training_that_gets_notice_goes_back_into_the_queue(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = train(cluster, tmp_path)
    assert cluster.run("scancel", "--signal=USR1", job).returncode == 0  # what --signal=USR1@60 does: to all steps
    is_back_in_the_queue(cluster, tmp_path, job)
    cluster.run("scancel", job)


def test_slurm_gives_notice_before_the_limit_and_the_next_turn_goes_on(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = train(cluster, tmp_path, "--time=2", "--signal=USR1@30")  # 60 to 90 s after the start: Slurm looks each 30 s
    is_back_in_the_queue(cluster, tmp_path, job)
    checkpoints = tmp_path / "checkpoints"
    before = good_steps(checkpoints)[-1]

    def goes_on() -> bool:
        cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")  # else in 2 minutes; refused once it runs
        return good_steps(checkpoints)[-1] > before

    def state() -> str:
        return cluster.run("scontrol", "show", "job", job).stdout + cluster.run("sinfo", "--long", "--Node").stdout

    wait_until(goes_on, lambda: state() + log_of(tmp_path, job), 200, every=2)  # each time Slurm plans anew
    cluster.run("scancel", job)


def test_a_session_says_how_to_reach_it(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = submit(cluster, tmp_path, "lab", f"echo '{ADDRESS}'; sleep 100")
    log = tmp_path / f"distlib-lab-{job}.log"
    wait_until(
        lambda: log.exists() and "scancel" in log.read_text(), lambda: log.read_text() if log.exists() else "", 200
    )
    assert re.search(r"ssh -N -L 8888:localhost:41234 -J ada@\S+ ada@n[12]\n", log.read_text())
    assert "http://localhost:8888/lab/tree/lesson.ipynb?token=abc123\n" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    cluster.run("scancel", job)

"""The job scripts: bash runs them, with stand-ins for distlib, srun and scontrol."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from distlib.cli import main
from distlib.cli.command_arguments import JOB_SCRIPTS
from distlib.launch.jobs import NAMES, job_script
from distlib.launch.notice import REQUEUE
from tests.tools.midst import until_there

ADDRESS = "http://127.0.0.1:41234/lab/tree/course/00_start_here.ipynb?token=abc123"


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The environment of a job, in a folder of its own."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "distlib-lab-12.log").touch(0o644)
    own = {"SLURM_JOB_ID": "12", "SLURM_SUBMIT_HOST": "login1", "USER": "ada", "TMPDIR": str(tmp_path)}
    return {**{name: value for name, value in os.environ.items() if name not in ("IP", "LOGIN")}, **own}


def stand_in(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / ".venv" / "bin" / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o700)


def bash(tmp_path: Path, script: str, job: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", job_script(script)], capture_output=True, text=True, cwd=tmp_path, env=job, timeout=60
    )


def test_the_command_prints_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert JOB_SCRIPTS == NAMES
    for name in NAMES:
        with pytest.raises(SystemExit) as ended:
            main(["launch", "--script", name])
        assert not ended.value.code
        assert capsys.readouterr().out == job_script(name)


@pytest.mark.parametrize("name", NAMES)
def test_slurm_reads_the_options(name: str) -> None:
    """They stand behind the first line, before any command, each on a line of its own."""
    head, _, body = job_script(name).partition("\n\n")
    assert head.startswith("#!/bin/bash\n") and all(line.startswith("#") for line in head.splitlines())
    assert "#SBATCH" not in body
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in head.splitlines() if "SBATCH" in line)


def test_no_script_has_an_address_or_a_port() -> None:
    assert not any(re.search(r"MASTER_|\b10\.|295\d\d", job_script(name)) for name in NAMES)


def test_a_session_says_how_to_reach_it(tmp_path: Path, job: dict[str, str]) -> None:
    stand_in(tmp_path, "hostname", "echo node07")
    other = "A JupyterLab of the same folder is running already, at http://127.0.0.1:8888/lab?token=no"
    said = f'echo "{other}"; echo "    {ADDRESS}"'
    stand_in(tmp_path, "distlib", f'echo "$@" > called; {said}; sleep 1.5; exit 3')
    done = bash(tmp_path, "lab", job)
    assert "\n    ssh -N -L 8888:localhost:41234 -J ada@login1 ada@node07\n" in done.stdout
    assert "\n    http://localhost:8888/lab/tree/course/00_start_here.ipynb?token=abc123\n" in done.stdout
    assert done.stdout.endswith("scancel 12\n") and done.stderr == ""
    assert (tmp_path / "called").read_text() == "lab --no-browser --ip=127.0.0.1 --port=0\n"
    assert (tmp_path / "distlib-lab-12.log").stat().st_mode & 0o077 == 0
    assert done.returncode == 3 and not list(tmp_path.glob("tmp.*"))


def test_a_session_without_ssh_to_nodes(tmp_path: Path, job: dict[str, str]) -> None:
    stand_in(tmp_path, "hostname", "echo node07")
    stand_in(tmp_path, "distlib", f'echo "$@" > called; echo "{ADDRESS.replace("127.0.0.1", "node07")}"; sleep 1.5')
    done = bash(tmp_path, "lab", {**job, "IP": "node", "LOGIN": "login.example.org"})
    assert "\n    ssh -N -L 8888:node07:41234 ada@login.example.org\n" in done.stdout
    assert (tmp_path / "called").read_text() == "lab --no-browser --ip=node07 --port=0\n"


def test_a_session_that_does_not_start_says_why(tmp_path: Path, job: dict[str, str]) -> None:
    stand_in(tmp_path, "distlib", "echo no course here; exit 1")
    done = bash(tmp_path, "lab", job)
    assert (done.stdout, done.returncode) == ("no course here\n", 1)


def test_a_session_ends_in_order(tmp_path: Path, job: dict[str, str]) -> None:
    asked = f"trap 'touch {tmp_path}/asked; exit' TERM; echo '{ADDRESS}'; while true; do sleep 0.1; done"
    stand_in(tmp_path, "distlib", asked)
    running = subprocess.Popen(
        ["bash", "-c", job_script("lab")], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=job
    )
    assert running.stdout is not None
    while "scancel" not in running.stdout.readline():
        pass
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    until_there(tmp_path, "asked", patience=60)


@pytest.mark.parametrize("status", [0, 1, REQUEUE])
def test_a_training_goes_back_into_the_queue_only_if_it_asks(tmp_path: Path, job: dict[str, str], status: int) -> None:
    stand_in(tmp_path, "srun", f'echo "$@"; exit {status}')
    stand_in(tmp_path, "scontrol", 'echo scontrol "$@"')
    done = bash(tmp_path, "train", job)
    again = "scontrol requeue 12\n" if status == REQUEUE else ""
    assert (done.stdout, done.returncode) == (f"distlib launch train.py:main\n{again}", status)

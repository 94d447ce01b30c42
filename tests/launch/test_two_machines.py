"""Ranks on two machines with addresses of their own: namespaces of this one."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distlib import SimulatedWorld
from tests.launch.elastic_training import train
from tests.tools import machines
from tests.tools.launched import slurm_variables
from tests.tools.machines import Machines

SCRIPT = Path(__file__).parent / "rank_functions.py"
TRAINING = SCRIPT.with_name("elastic_training.py")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))]
PATIENCE = 200


@pytest.fixture
def two() -> Iterator[Machines]:
    with Machines(3) as made:
        yield made


def start(two: Machines, tmp_path: Path, *words: str) -> list[subprocess.Popen[str]]:
    """One rank on n1, one on n2, as if srun had started them."""
    command = [sys.executable, "-m", "distlib.cli", "launch", "--rendezvous", str(tmp_path / "meeting"), *words]
    ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return [two.start(rank + 1, command, slurm_variables(rank, 2, 1), **ends) for rank in range(2)]


def test_they_find_each_other_without_knowing_an_address(two: Machines, tmp_path: Path) -> None:
    ranks = start(two, tmp_path, f"{SCRIPT}:add_up", "5", "500_000")
    told = [rank.communicate(timeout=PATIENCE) for rank in ranks]
    assert told == [("[rank 0] [3, 3]\n", ""), ("[rank 1] [3, 3]\n", "")]
    assert list((tmp_path / "meeting").iterdir()) == []


@pytest.mark.parametrize("lost", [0, 1])
def test_a_machine_that_falls_silent_is_named(two: Machines, tmp_path: Path, lost: int) -> None:
    """Its cable is cut: no end of a connection arrives, only nothing any more."""
    flag = tmp_path / "flag"
    ranks = start(two, tmp_path, f"{SCRIPT}:wait_for_file", str(flag))
    give_up = time.monotonic() + PATIENCE
    while len(list(tmp_path.glob("flag-*"))) < 2:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    two.cut_off(lost + 1)
    told = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
    assert re.search(r"rank 1 ended in the middle of the run.*: its process is gone\..*\nRank 1 ran on", told[0], re.S)
    assert told[1] == "rank 1 on node n2: lost the head, on node n1.\n"
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert [two.processes(machine) for machine in (1, 2)] == [[], []]


def torchrun(two: Machines, machine: int, folder: Path) -> subprocess.Popen[str]:
    """torchrun on n1 or n2, of which one is enough; the store is on n1, which is going to stay."""
    meeting = f"{two.addresses[1]}:29400"
    own = f"is_host={'true' if machine == 1 else 'false'}"  # else it asks for its own name, which nobody knows here
    quick = f"{own},last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=6"
    words = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-id", "two"]
    words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", meeting, "--rdzv-conf", quick]
    words += [
        "--local-addr",
        two.addresses[machine],
        "-m",
        "distlib.cli",
        "launch",
        f"{TRAINING}:lose_a_node",
        str(folder),
    ]
    command = [sys.executable, "-m", "torch.distributed.run", *words]
    # With it torchrun also starts anew with a machine that has come late (torch 2.13).
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return two.start(machine, command, variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(("how", "late"), [("killed", True), ("cut off", False)])
def test_torchrun_goes_on_without_a_machine(two: Machines, tmp_path: Path, how: str, late: bool) -> None:
    """From the last checkpoint, on the one that is left; without a checkpoint it would begin again."""
    stays = torchrun(two, 1, tmp_path / "a")
    while late and not (tmp_path / "a" / "alone").exists():
        assert stays.poll() is None, stays.communicate()
        time.sleep(0.05)
    goes = torchrun(two, 2, tmp_path / "a")
    give_up = time.monotonic() + PATIENCE
    while len(list(tmp_path.glob("a/there-*"))) < 2:
        assert stays.poll() is None, stays.communicate()
        assert time.monotonic() < give_up
        time.sleep(0.05)
    if how == "killed":
        for pid in two.processes(2):
            os.kill(int(pid), signal.SIGKILL)
    else:
        two.cut_off(2)
    out, err = stays.communicate(timeout=PATIENCE)
    last = SimulatedWorld(1).run(train, str(tmp_path / "b"), 12)[0][-1][1]
    assert out == f"[rank 0] 1 5 {last:.12f}\n", err
    assert stays.returncode == 0
    goes.kill()

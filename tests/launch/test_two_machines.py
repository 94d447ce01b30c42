"""Ranks on two machines with addresses of their own: namespaces of this one."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from distlib import SimulatedWorld
from tests.launch.elastic_training import train
from tests.tools import machines
from tests.tools.launched import slurm_variables
from tests.tools.machines import Machines
from tests.tools.midst import until_there

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


def test_a_script_of_ones_own_on_both(two: Machines, tmp_path: Path) -> None:
    """It says init_process_group("distlib"), and has the variables that torchrun sets."""
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": two.addresses[1], "MASTER_PORT": "29500", "HOME": str(tmp_path)}
    command = [sys.executable, str(SCRIPT.with_name("plain_script.py")), "ends"]
    ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ranks = [two.start(rank + 1, command, {**shared, "RANK": str(rank)}, **ends) for rank in range(2)]
    told = [rank.communicate(timeout=PATIENCE) for rank in ranks]
    assert [out for out, _ in told] == [f"rank {rank} of 2: 1\nrank {rank} goes on\n" for rank in range(2)]
    assert "Traceback" not in told[0][1] + told[1][1]  # torch itself warns that the machines have no names


@pytest.mark.parametrize("lost", [0, 1])
def test_a_machine_that_falls_silent_is_named(two: Machines, tmp_path: Path, lost: int) -> None:
    """Its cable is cut: no end of a connection arrives, only nothing any more."""
    flag = tmp_path / "flag"
    ranks = start(two, tmp_path, f"{SCRIPT}:wait_for_file", str(flag))
    until_there(tmp_path, "flag-*", 2, PATIENCE)
    two.cut_off(lost + 1)
    told = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
    assert re.search(r"rank 1 ended in the middle of the run.*: its process is gone\..*\nRank 1 ran on", told[0], re.S)
    assert told[1] == "rank 1 on node n2: lost the head, on node n1.\n"
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert [two.processes(machine) for machine in (1, 2)] == [[], []]


def torchrun(
    two: Machines, machine: int, function: str, *words: Path | str, store: int = 1, most: int = 2, last_call: int = 15
) -> subprocess.Popen[str]:
    """torchrun on a machine, of which one is enough; the store is on one that is going to stay.

    When enough are there it waits for others, up to `most`, for so many seconds: else each that comes later on a busy
    machine would start all of them again.
    """
    meeting = f"{two.addresses[store]}:29400"
    own = f"is_host={'true' if machine == store else 'false'}"  # else it asks for its own name, which nobody knows here
    quick = f"{own},last_call_timeout={last_call},keep_alive_interval=2,keep_alive_max_attempt=6"
    options = ["--nnodes", f"1:{most}", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-id", "two"]
    options += ["--rdzv-backend", "c10d", "--rdzv-endpoint", meeting, "--rdzv-conf", quick]
    options += ["--local-addr", two.addresses[machine], "-m", "distlib.cli", "launch", f"{TRAINING}:{function}"]
    command = [sys.executable, "-m", "torch.distributed.run", *options, *map(str, words)]
    # Without it torchrun can't restart with a machine that joins late, or without the one that had rank 0 (torch 2.13).
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return two.start(machine, command, variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_torchrun_goes_on_without_a_machine(two: Machines, tmp_path: Path, how: str) -> None:
    """From the last checkpoint, on the one that is left; without a checkpoint it would begin again."""
    stays, goes = (torchrun(two, machine, "lose_a_node", tmp_path / "a") for machine in (1, 2))
    until_there(tmp_path, "a/there-*", 2, PATIENCE, during=stays)
    if how == "killed":
        kill_all(two, 2)
    else:
        two.cut_off(2)
    out, err = stays.communicate(timeout=PATIENCE)
    assert out == f"[rank 0] 1 5 {undisturbed(tmp_path)}\n", err
    assert stays.returncode == 0
    goes.kill()


def test_torchrun_goes_on_without_the_machine_of_rank_0(two: Machines, tmp_path: Path) -> None:
    """It had the ranks' store, by which the two that are left do not look for each other any more."""
    all_three = [torchrun(two, machine, "lose_a_node", tmp_path / "a", "3", store=2, most=3) for machine in range(3)]
    until_there(tmp_path, "a/there-*", 3, PATIENCE, during=all_three[2])
    kill_all(two, 0)
    (out, err), (none, _) = (each.communicate(timeout=PATIENCE) for each in all_three[1:])
    assert (out, none) == (f"[rank 0] 2 5 {undisturbed(tmp_path)}\n", ""), err
    assert [each.returncode for each in all_three[1:]] == [0, 0]
    all_three[0].kill()


def test_torchrun_takes_in_a_machine_that_is_late_or_back(two: Machines, tmp_path: Path) -> None:
    """By then the one that was there has been started again more often than the other."""
    stays = torchrun(two, 1, "regain_a_node", tmp_path / "a", last_call=2)
    until_there(tmp_path, "a/alone-at-first", 1, PATIENCE, during=stays)
    goes = torchrun(two, 2, "regain_a_node", tmp_path / "a", last_call=2)
    until_there(tmp_path, "a/there-*", 2, PATIENCE, during=stays)
    (tmp_path / "a" / "lost").touch()
    kill_all(two, 2)
    goes.wait(PATIENCE)
    until_there(tmp_path, "a/alone-again", 1, PATIENCE, during=stays)
    back = torchrun(two, 2, "regain_a_node", tmp_path / "a", last_call=2)
    (out, err), (none, _) = (each.communicate(timeout=PATIENCE) for each in (stays, back))
    assert (out, none) == (f"[rank 0] 2 5 {undisturbed(tmp_path)}\n", ""), err
    assert (stays.returncode, back.returncode) == (0, 0)


def kill_all(two: Machines, machine: int) -> None:
    """Also what torchrun has meanwhile started again."""
    while pids := two.processes(machine):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def undisturbed(tmp_path: Path) -> str:
    """The last loss of a training that nothing happens to."""
    losses = SimulatedWorld(1).run(train, str(tmp_path / "undisturbed"), 12)[0]
    return f"{losses[-1][1]:.12f}"

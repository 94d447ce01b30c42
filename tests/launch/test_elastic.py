"""Ranks are lost, fall silent, or get notice; the training goes on as if nothing had happened."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from distlib import PeerLost, RankError, SimulatedWorld
from distlib.launch.checkpoints import good_steps
from distlib.launch.elastic import run_elastic
from distlib.launch.notice import REQUEUE
from tests.launch import elastic_training
from tests.launch.elastic_training import kill_rank, stop_rank, train
from tests.tools.launched import LauncherForkServer
from tests.tools.midst import until_there

SCRIPT = Path(elastic_training.__file__)
COMMAND = [sys.executable, "-m", "distlib.cli", "launch"]


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LauncherForkServer]:
    with LauncherForkServer(tmp_path_factory.mktemp("launched")) as launcher:
        yield launcher


def undisturbed(folder: Path, steps: int = 12) -> list[tuple[int, float]]:
    """The losses of one rank to which nothing happens."""
    return SimulatedWorld(1).run(train, str(folder), steps)[0]


def same(found: Any, expected: list[tuple[int, float]]) -> bool:
    """The same losses from where `found` begins, to rounding."""
    later = expected[-len(found) :]
    return [step for step, _ in found] == [step for step, _ in later] and [loss for _, loss in found] == pytest.approx(
        [loss for _, loss in later], rel=1e-9
    )


@pytest.mark.slow
def test_a_killed_rank_is_done_without(tmp_path: Path) -> None:
    said: list[str] = []
    trouble = partial(kill_rank, rank=2, at=7, of=4)
    found = run_elastic(train, str(tmp_path / "a"), 12, trouble, lowest=2, highest=4, say=said.append)
    assert len(found) == 3 and all(losses[0][0] == 5 for losses in found)
    expected = undisturbed(tmp_path / "b")
    assert all(same(losses, expected) for losses in found)
    (what,) = said
    assert "rank 2 ended in the middle of the run" in what
    assert what.endswith("Starting again on 3 of 4 ranks.")


def test_a_rank_is_killed_after_another(tmp_path: Path) -> None:
    def trouble(comm: Any, step: int) -> None:
        kill_rank(comm, step, rank=0, at=3, of=4)  # rank 0 writes the checkpoints; and there is none yet
        kill_rank(comm, step, rank=2, at=11, of=3)

    said: list[str] = []
    found = run_elastic(train, str(tmp_path / "a"), 12, trouble, lowest=2, highest=4, say=said.append)
    assert len(said) == 2 and len(found) == 2
    assert found[0][0][0] == 10 and same(found[0], undisturbed(tmp_path / "b"))


def test_too_few_ranks_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(PeerLost, match="rank 1 ended in the middle of the run"):
        run_elastic(train, str(tmp_path), 12, partial(kill_rank, rank=1, at=1, of=2), lowest=2, highest=2)


def test_an_exception_is_not_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(RankError, match="ZeroDivisionError"):
        run_elastic(lambda comm: 1 // 0, lowest=1, highest=2, say=said.append)
    assert said == []


def test_a_silent_rank_is_killed_and_done_without(tmp_path: Path) -> None:
    said: list[str] = []
    found = run_elastic(train, str(tmp_path / "a"), 12, stop_rank, lowest=1, highest=3, silence=10, say=said.append)
    assert len(found) == 2 and same(found[0], undisturbed(tmp_path / "b"))
    assert "Rank 1 gave no sign of life for 10 s, and so was killed. Starting again on 2 of 3 ranks." in said[0]


def test_ranks_that_have_returned_are_not_silent() -> None:
    def return_early(comm: Any) -> int:
        comm.sleep(6 if comm.rank == 0 else 0)
        return comm.rank

    assert run_elastic(return_early, lowest=1, highest=2, silence=5) == [0, 1]


@pytest.mark.parametrize("lowest, highest, silence", [(0, 2, None), (3, 2, None), (1, 2, 0.0)])
def test_numbers_that_make_no_sense(lowest: int, highest: int, silence: float | None) -> None:
    with pytest.raises(ValueError, match="expected"):
        run_elastic(train, lowest=lowest, highest=highest, silence=silence)


# The command


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=200)


@pytest.mark.slow
def test_the_command_goes_on_without_a_rank(tmp_path: Path) -> None:
    done = run("--elastic", "2:3", f"{SCRIPT}:lose_a_rank", str(tmp_path / "a"))
    last = undisturbed(tmp_path / "b")[-1][1]
    assert done.stdout == f"[rank 0] 2 5 {last:.12f}\n"
    assert done.stderr.count("Starting again on 2 of 3 ranks.") == 1
    assert done.returncode == 0


@pytest.mark.parametrize("words", ["3:2", "0:2", "2", "2:", "a:b"])
def test_numbers_of_ranks_are_read(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    from distlib.cli import main

    with pytest.raises(SystemExit):
        main(["launch", "--elastic", words, f"{SCRIPT}:train"])
    assert "expected MIN:MAX with MIN from 1 to MAX, such as 2:4" in capsys.readouterr().err


@pytest.mark.slow
def test_torchrun_starts_again_from_the_checkpoint(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    store = ["--local-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    words = [*torchrun, *store, *COMMAND[1:], f"{SCRIPT}:once_killed", str(tmp_path / "a")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250)
    last = undisturbed(tmp_path / "b")[-1][1]
    assert done.stdout == f"[rank 0] 2 5 {last:.12f}\n", done.stderr
    assert "rank 1 ended in the middle of the run" in done.stderr
    assert done.returncode == 0


# Notice


@pytest.mark.parametrize("name", ["SIGUSR1", pytest.param("SIGUSR2", marks=pytest.mark.slow), "SIGTERM"])
def test_notice_under_srun_is_for_all_ranks(launcher: LauncherForkServer, tmp_path: Path, name: str) -> None:
    launched = launcher.srun(f"{SCRIPT}:warn_a_rank", str(tmp_path), name)
    assert (launched.statuses, launched.err) == ([REQUEUE] * 4, "")
    assert good_steps(tmp_path) == [4]
    assert (launched.left, launched.files) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_notice_to_the_command_is_passed_on(tmp_path: Path, number: int) -> None:
    launch = subprocess.Popen([*COMMAND, "--ranks", "2", f"{SCRIPT}:until_warned", str(tmp_path)])
    until_there(tmp_path, "begun-*", 2)
    launch.send_signal(number)
    assert launch.wait(100) == REQUEUE
    (step,) = good_steps(tmp_path)[-1:]
    assert step > 3 and SimulatedWorld(1).run(train, str(tmp_path), step) == [[]]


@pytest.mark.slow
def test_a_function_that_does_not_ask_is_terminated(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    functions = SCRIPT.with_name("rank_functions.py")
    own = tmp_path / "temporary"
    own.mkdir()
    command = [*COMMAND, "--ranks", "2", f"{functions}:wait_for_file", str(flag)]
    launch = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(own)})
    until_there(tmp_path, "flag-*", 2)
    launch.terminate()
    assert launch.wait(100) == 128 + signal.SIGTERM
    assert list(own.iterdir()) == []

"""The table of what may meet a collective, a send or a receive: the same in every world."""

from collections.abc import Callable
from pathlib import Path

import pytest

from distlib import SimulatedWorld, World
from tests.tools import tensor_kinds
from tests.tools.launched import LauncherForkServer

SCRIPT = f"{tensor_kinds.__file__}:say_all"


def test_on_processes(worlds: Callable[[int], World]) -> None:
    for came in worlds(2).run(tensor_kinds.what_comes, list(tensor_kinds.EXPECTED), timeout=100):
        assert tensor_kinds.unexpected(came, "real") == []


def test_in_simulated_time() -> None:
    for came in SimulatedWorld(2).run(tensor_kinds.what_comes, list(tensor_kinds.EXPECTED), timeout=100):
        assert tensor_kinds.unexpected(came, "simulated") == []


@pytest.mark.slow
def test_on_ranks_that_torchrun_starts(tmp_path: Path) -> None:
    with LauncherForkServer(tmp_path) as launcher:
        launched = launcher.srun(SCRIPT, "real", nodes=1)
    assert launched.lines() == [f"[rank {rank}] wrong: []" for rank in range(2)], launched.err

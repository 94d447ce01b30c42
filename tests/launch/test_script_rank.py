"""A script of one's own that says init_process_group("distlib"): processes with torchrun's variables, or srun's."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.launched import slurm_variables

SCRIPT = Path(__file__).parent / "plain_script.py"
PATIENCE = 200


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def start(home: Path, *words: str, ranks: int = 2, slurm: bool = False) -> list[subprocess.Popen[str]]:
    """As many processes of one script, with the variables of what has started them."""
    shared = {"HOME": str(home), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    started = []
    for rank in range(ranks):
        own = {"RANK": str(rank), **(slurm_variables(rank, 1, ranks) if slurm else {})}
        started.append(
            subprocess.Popen(
                [sys.executable, *words],
                env={**os.environ, **shared, **own},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return started


def ended(processes: list[subprocess.Popen[str]]) -> tuple[list[str], str, list[int]]:
    """What all have printed, in order, their errors one after the other, and their statuses."""
    told = [process.communicate(timeout=PATIENCE) for process in processes]
    lines = sorted(line for out, _ in told for line in out.splitlines())
    return lines, "".join(err for _, err in told), [process.returncode for process in processes]


def test_a_script_trains_on(tmp_path: Path) -> None:
    """Its ranks have torchrun's variables; when the process group ends, the script goes on. Nothing is left behind."""
    lines, errors, statuses = ended(start(tmp_path, str(SCRIPT), "ends"))
    assert (errors, statuses) == ("", [0, 0])
    assert lines == ["rank 0 goes on", "rank 0 of 2: 1", "rank 1 goes on", "rank 1 of 2: 1"]
    assert list((tmp_path / ".distlib" / "rendezvous").iterdir()) == []


def test_a_mistake_is_named_by_rank_and_line(tmp_path: Path) -> None:
    lines, errors, statuses = ended(start(tmp_path, str(SCRIPT), "shapes"))
    assert (lines, statuses) == ([], [1, 1])
    assert re.search(r"^MessageMismatch: plain_script.py, line \d+: rank . is in all_reduce\(. float32", errors)
    assert "Traceback" not in errors


FAULTS = [
    (
        "raises",
        r"RankError: plain_script.py, line \d+: rank 1 raised ValueError: no such label",
    ),
    ("is killed", r"PeerLost: plain_script.py, line \d+: rank 1 ended in the middle of the run"),
    ("exits", r"rank 1 has already returned"),
    ("returns", r"DeadlockError: .*[\s\S]*rank 1 has already returned"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "words"), FAULTS, ids=[fault for fault, _ in FAULTS])
def test_other_faults(tmp_path: Path, fault: str, words: str) -> None:
    _, errors, statuses = ended(start(tmp_path, str(SCRIPT), fault))
    assert re.search(words, errors)
    assert 0 not in statuses


@pytest.mark.slow
def test_under_srun(tmp_path: Path) -> None:
    lines, errors, statuses = ended(start(tmp_path, str(SCRIPT), "", slurm=True, ranks=3))
    assert (errors, statuses) == ("", [0, 0, 0])
    assert lines == [f"rank {rank} of 3: 3" for rank in range(3)]

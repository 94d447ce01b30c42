"""The command itself, alone and under torchrun: fresh processes, each of which imports torch."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch.distributed

from tests.tools.launched import slurm_variables

SCRIPT = Path(__file__).parent / "rank_functions.py"
COMMAND = ["-m", "distlib.cli", "launch"]


def run(*command: str, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    quiet = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    environment = {**os.environ, **quiet, **(variables or {})}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=200, env=environment)


def test_alone_on_this_machine() -> None:
    done = run(*COMMAND, "--ranks", "3", f"{SCRIPT}:add_up", "4", "algorithm=ring")
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] [7]" for rank in range(3)]
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.slow
def test_into_a_pipe_that_nobody_reads(tmp_path: Path) -> None:
    """`distlib launch … | true`, with options of the script."""
    script = tmp_path / "train.py"
    script.write_text("import sys\ndef main(comm):\n    for _ in range(3):\n        print(*sys.argv[1:])\n")
    command = [*COMMAND, "--ranks", "1", f"{script}:main", "--lr", "0.1"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, *command], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=200)
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 141)


@pytest.mark.slow
def test_alone_an_error_is_shown_once_with_its_line() -> None:
    done = run(*COMMAND, "--ranks", "2", f"{SCRIPT}:wait_in_a_circle")
    assert done.returncode == 1
    assert done.stderr.startswith("DeadlockError: rank_functions.py, line ")
    assert "comm.recv(torch.zeros(4), (comm.rank + 1) % comm.world_size)" in done.stderr


@pytest.mark.slow
def test_two_torchruns_are_two_nodes() -> None:
    """They meet at a store whose port the system has chosen, and so do their ranks, at the first one's."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    torchrun = [
        *("-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--local-addr", "127.0.0.1"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{store.port}", "--rdzv-conf", "is_host=false"),
        *("--rdzv-id", "two"),
    ]
    command = [sys.executable, *torchrun, *COMMAND, f"{SCRIPT}:add_up", "5", "50_000"]
    nodes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [node.communicate(timeout=200) for node in nodes]
    assert sorted(out for out, _ in told) == ["[rank 0] [3, 3]\n", "[rank 1] [3, 3]\n"], told
    assert [node.returncode for node in nodes] == [0, 0]


@pytest.mark.gpu(1)
@pytest.mark.parametrize(("backend", "device"), [("nccl", "cuda"), ("gloo", "cpu")])
def test_ranks_under_torchrun_have_cards(backend: str, device: str) -> None:
    done = run(
        *("-m", "torch.distributed.run", "--nproc-per-node", "2", "--local-addr", "127.0.0.1"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"),
        *(*COMMAND, "--backend", backend, f"{SCRIPT}:add_up_on_device"),
    )
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] {device} [3.0, 3.0]" for rank in range(2)], done.stderr
    assert done.returncode == 0


@pytest.mark.slow
def test_torchrun_names_a_killed_rank() -> None:
    done = run(
        *("-m", "torch.distributed.run", "--nproc-per-node", "2", "--local-addr", "127.0.0.1"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", *COMMAND, f"{SCRIPT}:die", "1"),
    )
    assert done.returncode == 1
    assert "PeerLost: rank 1 ended in the middle of the run: its process is gone. Rank 0 waited for it." in done.stderr


TERMINATED_BEFORE_IT_BEGINS = """
import os, signal, sys
from distlib.cli import main
from distlib.launch.rank import LaunchedRank

def prepare(*values, before=LaunchedRank._prepare):
    os.kill(os.getpid(), signal.SIGTERM)
    before(*values)

LaunchedRank._prepare = prepare
sys.exit(main())
"""


@pytest.mark.slow
def test_a_rank_that_is_terminated_before_its_function_begins_does_not_begin(tmp_path: Path) -> None:
    words = ["launch", "--rendezvous", str(tmp_path), f"{SCRIPT}:wait_for_file", str(tmp_path / "flag")]
    done = run("-c", TERMINATED_BEFORE_IT_BEGINS, *words, variables=slurm_variables(0, 1, 1))
    assert "rank 0 raised Ended: SIGTERM from what has started it" in done.stderr
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []

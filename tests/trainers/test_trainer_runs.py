"""Each framework that is here, run for real: plain DDP's result, the recorded calls, no file and no process left.

They are in an environment of their own: `make frameworks ARGS=ray`. Without it these tests are skipped.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from distlib.frameworks import own_network
from distlib.trainers import (
    PROGRAMS,
    TRAPS,
    environment_of_frameworks,
    is_there,
    recording,
    report,
    run_command,
    run_trap,
)
from distlib.trainers.run_command import marked, run_text
from distlib.trainers.trap import trap_is_there
from tests.tools.interrupts import interrupted_at_a_line

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

LIBRARIES = ("ray", "torch", "deepspeed", "lightning", "accelerate", "huggingface", "hf", "triton", "plasma")

OF_OTHERS = ("torchelastic_", "torchinductor_")  # in $TMPDIR, of every program that uses torch on this machine


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No file of a framework's outside of the run's folder, none in its own environment, no process."""
    files, processes = files_of_frameworks(), set(psutil.Process().children(recursive=True))
    yield
    assert files_of_frameworks() - files == set()
    _, alive = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - processes, timeout=60)
    assert [process for process in alive if "forkserver" not in " ".join(process.cmdline())] == []


def files_of_frameworks() -> set[Path]:
    """What frameworks write to a home, to temporary folders and to shared memory, and all of their environment."""
    home = Path.home()
    places = [home, home / ".cache", home / ".config", Path(tempfile.gettempdir()), Path("/dev/shm")]
    found = {path for place in places if place.exists() for path in place.iterdir()}
    named = {path for path in found if any(path.name.lower().lstrip(".").startswith(name) for name in LIBRARIES)}
    named = {path for path in named if not path.name.startswith(OF_OTHERS)}
    named -= set(Path("/dev/shm").glob("torch_*"))  # of a DataLoader of other tests, for a moment
    kept = environment_of_frameworks.folder()
    return named | {path for path in kept.rglob("*") if "torch_extensions" not in path.parts}


def skip_without(is_here: bool, package: str) -> None:
    """Say what is missing."""
    if not is_here:
        pytest.skip(f"{package} is not in .venv-frameworks: make frameworks ARGS=ray")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_plain_ddps_result_by_the_recorded_calls(name: str) -> None:
    skip_without(is_there(name), PROGRAMS[name].package)
    today, recorded = report(name), recording(name)
    assert not today.recorded, today.note
    assert today.difference <= 1e-5
    if today.versions == recorded.versions:
        assert (today.step_calls, today.run_calls) == (recorded.step_calls, recorded.run_calls)
        assert today.state_bytes == recorded.state_bytes


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_shows_what_is_said_of_it(name: str) -> None:
    trap = TRAPS[name]
    skip_without(trap_is_there(name), trap.package)
    today = run_trap(name)
    text = "\n".join(today.lines)
    assert not today.recorded, today.note
    assert [words for words in trap.shows if words not in text] == []
    assert (today.status != 0) == trap.fails


def test_calls_are_counted_as_torchs_own_counter_does() -> None:
    """CommDebugMode around plain DDP's backward pass sees what is counted here."""
    program = PROGRAMS["ddp"].source.replace(
        "    loss.backward()\n",
        "    with CommDebugMode() as mode:\n        loss.backward()\n"
        '    print("counted", {str(call): times for call, times in mode.get_comm_counts().items()})\n',
    )
    program = program.replace(
        "import torch\n", "import torch\nfrom torch.distributed.tensor.debug import CommDebugMode\n", 1
    )
    ran = run_text(program, PROGRAMS["ddp"].command)
    counted = [line for line in ran.lines if line.startswith("counted")]
    in_a_step = sum(row.times for row in recording("ddp").step_calls)
    assert counted[-1] == f"counted {{'c10d.allreduce_': {in_a_step}}}", ran.lines


def test_a_port_in_use_is_a_sentence_and_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without namespaces another program may have the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(own_network, "wrapper", lambda: ())
        monkeypatch.setattr(run_command, "addresses", lambda count: [f"127.0.0.1:{taken.getsockname()[1]}"])
        found = report("ddp")
    assert found.recorded
    assert "another program has the port" in found.note


@pytest.mark.parametrize(
    ("name", "words"), [("ddp", ""), ("lightning", "MEMBER"), ("deepspeed_0", ""), ("ray", "worker")]
)
def test_an_interrupt_in_the_midst_leaves_nothing(name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is interrupted when a framework has begun to speak; Ray's daemons are there by then."""
    skip_without(is_there(name), PROGRAMS[name].package)
    monkeypatch.setattr(run_command, "new_mark", lambda: "interrupted")
    monkeypatch.setattr(run_command, "run_processes", interrupted_at_a_line(words))
    with pytest.raises(KeyboardInterrupt):
        report(name)
    _, alive = psutil.wait_procs(list(marked("interrupted")), timeout=60)
    assert alive == []


def test_marks_of_runs_are_gone() -> None:
    """A run of torchrun leaves nothing that has its mark."""
    ran = run_text("import os; print(os.environ['DISTLIB_TRAINERS_RUN'])", "torchrun --nproc-per-node 2 train.py")
    marks = [line for line in ran.lines if line[:1].isdigit()]
    assert len(set(marks)) == 1 and list(marked(marks[0])) == []

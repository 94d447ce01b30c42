"""Programs of frameworks, run or recorded: what is said when one is missing, fails, or is interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest

from distlib.frameworks import own_network
from distlib.trainers import (
    PROGRAMS,
    environment_of_frameworks,
    is_there,
    recorded_trap,
    recording,
    report,
    run_command,
    run_or_recording,
    run_trap,
    trap,
)
from distlib.trainers.output import shorter
from distlib.trainers.run_command import Ran, run_text
from distlib.trainers.run_or_recording import TrainerError, record
from tests.tools.interrupts import interrupted_at_a_line


@pytest.fixture
def no_frameworks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As on a machine without the frameworks' environment."""
    monkeypatch.setattr(environment_of_frameworks, "folder", lambda: tmp_path / ".venv-frameworks")
    environment_of_frameworks.installed.cache_clear()
    yield
    environment_of_frameworks.installed.cache_clear()


def ends_as(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """Each run ends like this, from now on."""
    monkeypatch.setattr(run_or_recording, "run_text", lambda *args, **options: ran)
    monkeypatch.setattr(run_or_recording, "is_there", lambda name: True)


# Without the frameworks


@pytest.mark.usefixtures("no_frameworks")
@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.package])
def test_without_its_package_a_program_is_shown_as_recorded(name: str) -> None:
    assert not is_there(name)
    found = report(name)
    assert found.recorded
    assert f"{PROGRAMS[name].package} is not installed here (make frameworks)" in found.note
    assert found.step_calls == recording(name).step_calls


@pytest.mark.usefixtures("no_frameworks")
def test_without_the_frameworks_torch_is_there_and_this_python_is_used() -> None:
    assert is_there("ddp") and is_there("ours")
    assert Path(environment_of_frameworks.python()).name.startswith("python")
    assert environment_of_frameworks.faults() == []


@pytest.mark.usefixtures("no_frameworks")
def test_a_trap_is_shown_as_recorded() -> None:
    printed = str(run_trap("fabric_fsdp"))
    assert "recorded on 20" in printed and "not installed here" in printed


@pytest.mark.parametrize("function", [report, is_there, recording, run_trap, recorded_trap])
def test_a_wrong_name_is_told_with_the_right_ones(function: Any) -> None:
    with pytest.raises(
        ValueError, match="there is no (program|trap) 'horovod'; there are (ddp, ours|accelerate_launch)"
    ):
        function("horovod")


# Runs that fail


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["… failed to listen on any local network address. port: 2222 … EADDRINUSE"], "another program has the port"),
        (["RuntimeError: Error building extension 'deepspeed_shm_comm'"], "the compiler has failed"),
        (["ValueError: the batch is odd"], "ValueError: the batch is odd"),
        ([], "exit status 1"),
    ],
)
def test_a_run_that_fails_is_a_sentence_and_the_recording(
    lines: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_as(monkeypatch, Ran(1, lines))
    found = report("fabric")
    assert found.recorded and sentence in found.note
    assert found.difference == recording("fabric").difference
    assert "This is the recording" in str(found)


def test_what_a_missing_compiler_prints_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What DeepSpeed has printed without one, as recorded, is recognized."""
    ends_as(monkeypatch, Ran(1, list(recorded_trap("deepspeed_compiler").lines)))
    assert "there is no C++ compiler here" in report("deepspeed_1").note


def test_a_run_that_fails_leaves_the_recording_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept = tmp_path / "fabric.json"
    shutil.copy(run_or_recording.FOLDER / "fabric.json", kept)
    before = kept.read_bytes()
    ends_as(monkeypatch, Ran(1, ["OSError: [Errno 28] No space left on device"]))
    with pytest.raises(TrainerError, match="the disk, or the shared memory, is full"):
        record("fabric", tmp_path)
    assert kept.read_bytes() == before


def test_a_trap_that_does_not_end_is_shown_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(name: str) -> None:
        raise TrainerError("It did not come to its end.")

    monkeypatch.setattr(trap, "trap_now", late)
    monkeypatch.setattr(trap, "trap_is_there", lambda name: True)
    assert run_trap("fabric_fsdp").note == "It did not come to its end. This is the recording"


def test_another_version_than_the_recordings_is_told() -> None:
    here = recording("fabric")
    older = json.loads(json.dumps({"Python": "3.9.0", "torch": here.versions["torch"], "lightning": "2.0.0"}))
    assert run_or_recording._differing(here.versions, here.versions) == []
    assert run_or_recording._differing(here.versions, older) == ["lightning 2.0.0"]


# The environment


def test_an_environment_with_a_torch_of_its_own_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {name: metadata.distribution("torch") for name in ("torch", "virtualenv", "lightning")}
    monkeypatch.setattr(environment_of_frameworks, "installed", lambda: found)
    assert [fault.partition(" of its own")[0] for fault in environment_of_frameworks.faults()] == [
        ".venv-frameworks has a virtualenv",
        ".venv-frameworks has a torch",
    ]


def test_the_environment_that_is_here_is_as_it_should_be() -> None:
    assert environment_of_frameworks.faults() == []


# Real runs, of programs without torch

WRITER = """
import os, pathlib, socket, tempfile
for folder in (pathlib.Path.home(), pathlib.Path.cwd(), pathlib.Path(tempfile.gettempdir())):
    (folder / "left.txt").write_text("something")
    print(folder)
print("interfaces", sorted(name for _, name in socket.if_nameindex()))
print("silent", os.environ["DO_NOT_TRACK"], os.environ["RAY_USAGE_STATS_ENABLED"], os.environ["HF_HUB_OFFLINE"])
"""
STAYING = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon is there", flush=True)
        time.sleep(1000)
    os._exit(0)
os.wait()
"""


def test_what_a_run_writes_is_gone_and_its_network_is_its_own() -> None:
    ran = run_text(WRITER, "python train.py")
    assert ran.status == 0, ran.lines
    folders = [Path(line) for line in ran.lines[:3]]
    assert len(set(folders)) == 3 and not any(folder.exists() for folder in folders)
    assert ran.lines[4] == "silent 1 0 1"
    if own_network.has_own_network():
        assert ran.lines[3] == "interfaces ['lo']"


@pytest.mark.parametrize("has_namespaces", [True, False])
def test_a_daemon_does_not_outlive_its_run(has_namespaces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_namespaces:
        monkeypatch.setattr(own_network, "wrapper", lambda: ())
    mark = marks(monkeypatch)
    ran = run_text(STAYING, "python train.py")
    assert ran.status == 0, ran.lines
    assert_gone(mark)


@pytest.mark.parametrize("has_namespaces", [True, False])
def test_an_interrupt_leaves_no_process_behind(has_namespaces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is interrupted as soon as a daemon has printed something; the program itself would go on."""
    if not has_namespaces:
        monkeypatch.setattr(own_network, "wrapper", lambda: ())
    mark = marks(monkeypatch)
    monkeypatch.setattr(run_command, "run_processes", interrupted_at_a_line())
    with pytest.raises(KeyboardInterrupt):
        run_text(f"{STAYING}\ntime.sleep(1000)\n", "python train.py")
    assert_gone(mark)


def test_a_process_is_found_by_its_mark_where_nothing_else_would_end_it() -> None:
    """Linux hands a daemon to the fork server, which ends it. Elsewhere only the mark is left."""
    sleep = [sys.executable, "-c", "import time; time.sleep(1000)"]
    ours, others = (
        subprocess.Popen(sleep, env={**os.environ, run_command.MARK: mark}) for mark in ("ours-1", "others-1")
    )
    try:
        run_command.end_marked("ours-1")
        assert ours.wait(timeout=60) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        others.kill()
        others.wait()


def marks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with the marks of runs to come."""
    found: list[str] = []
    monkeypatch.setattr(run_command, "new_mark", lambda: found.append(f"test-{len(found)}-{id(found)}") or found[-1])
    return found


def assert_gone(marks: list[str]) -> None:
    """No process of the runs is left; one that is being killed has a moment to go."""
    assert len(marks) == 1
    _, alive = psutil.wait_procs(list(run_command.marked(marks[0])), timeout=60)
    assert alive == []


# What was printed, shorter


def test_lines_that_are_alike_stand_once() -> None:
    printed = [
        "[2026-11-27 08:40:12,123] [WARNING] something",
        "[2026-11-27 08:40:13,001] [WARNING] something",
        "--------------",
        "/tmp/distlib-processes-ab_1/work/train.py:3: note",
        "took 3.25 seconds",
    ]
    assert shorter(printed) == ["[WARNING] something  (× 2)", "work/train.py:3: note", "took … seconds"]


def test_long_output_is_cut_in_the_middle() -> None:
    found = shorter(f"line {number}" for number in range(100))
    assert len(found) == 61 and found[0] == "line 0" and found[30] == "(…)" and found[-1] == "line 99"

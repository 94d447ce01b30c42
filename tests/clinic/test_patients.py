"""Each patient shows what its text says, on every rank; its tools bring it to light; healed, it is well."""

from __future__ import annotations

import importlib
import itertools
import os
import re
from pathlib import Path

import psutil
import pytest

from distlib.clinic import (
    CRASHES,
    HANGS,
    PATIENTS,
    SILENT,
    TOOLS,
    Patient,
    PatientReport,
    observer,
    recorded as recordings,
    run_patient,
)
from distlib.clinic.observer import NO_DUMP
from distlib.clinic.output_folding import fold
from distlib.clinic.patient_report import ENDED, RAISED
from distlib.clinic.recorded import recorded
from distlib.frameworks import own_network
from tests.tools.interrupts import interrupted_at_a_line
from tests.tools.launched import without_gloos

running = importlib.import_module("distlib.clinic.run_patient")  # its function has the same name

EVERY_DAY = "order_of_calls"
slow_ones = [pytest.param(name, marks=[] if name == EVERY_DAY else pytest.mark.slow) for name in PATIENTS]


def shows_what_it_should(patient: Patient, report: PatientReport) -> bool:
    """Whether every rank ends as it should, with the telling words."""
    orders = itertools.permutations(report.endings) if patient.any_order else [report.endings]
    return any(
        all(
            ending.kind == kind and words in ending.text
            for ending, (kind, words) in zip(order, patient.shows, strict=True)
        )
        for order in orders
    )


@pytest.mark.parametrize("name", slow_ones)
def test_a_patient_shows_what_its_text_says(name: str) -> None:
    report = run_patient(name)
    assert shows_what_it_should(PATIENTS[name], report), report
    assert report.outcome == PATIENTS[name].outcome


@pytest.mark.parametrize("name", slow_ones)
def test_a_healed_patient_is_well(name: str) -> None:
    report = run_patient(name, healed=True)
    assert report.kinds == [ENDED] * PATIENTS[name].ranks, report


@pytest.mark.parametrize("name", PATIENTS)
def test_what_was_recorded_shows_what_the_text_says(name: str) -> None:
    version, text = recorded(name)
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    unwrapped = re.sub(r"\s*\n\s*[│┊]\s*", " ", text)
    assert [words for _, words in PATIENTS[name].shows if words not in unwrapped] == []


@pytest.mark.slow
def test_another_version_is_shown_with_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "public_version", lambda: "9.9.9")
    shown = str(run_patient("int32_on_one_rank"))
    version, text = recorded("int32_on_one_rank")
    assert f"When the course was written, with torch {version}:\n{text}" in shown
    assert shown.count("1065353217") == 4  # today's and the recorded, twice each
    monkeypatch.setattr(recordings, "public_version", lambda: version)
    assert recordings.next_to_today("int32_on_one_rank") == ""


@pytest.mark.parametrize(("name", "tool"), [("no_such", None), ("order_of_calls", "hammer")])
def test_a_wrong_name_is_told_with_the_right_ones(name: str, tool: str | None) -> None:
    with pytest.raises(ValueError, match="order_of_calls, order_of_groups|timeout, monitored_barrier"):
        run_patient(name, tool)


@pytest.mark.parametrize("name", PATIENTS)
def test_a_program_is_short_and_its_cure_is_found(name: str) -> None:
    patient = PATIENTS[name]
    assert len(patient.program.splitlines()) <= 28
    assert patient.change.startswith(("- ", "+ "))
    assert set(patient.served_by) <= set(TOOLS)
    assert ("monitored_barrier" in patient.served_by) == (patient.probe in patient.program and patient.probe != "")


def test_there_are_enough_of_each_kind() -> None:
    outcomes = [patient.outcome for patient in PATIENTS.values()]
    assert len(outcomes) >= 16
    assert {kind for kind in outcomes if outcomes.count(kind) >= 5} == {HANGS, CRASHES, SILENT}


def test_py_spy_that_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer.shutil, "which", lambda *args, **kwargs: None)
    assert observer.spy(os.getpid()) == "(py-spy is not installed here: pip install py-spy)"


def test_py_spy_that_may_not_look_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text("#!/bin/sh\necho 'Permission denied' >&2\nexit 1\n")
    fake.chmod(0o700)
    monkeypatch.setattr(observer.shutil, "which", lambda *args, **kwargs: str(fake))
    assert observer.spy(os.getpid()) == "(py-spy may not look at it: Permission denied)"


def test_what_py_spy_showed_is_shown_where_it_shows_nothing() -> None:
    """Here it may be installed or not: a student sees the line of the slow rank in either case."""
    report = run_patient("slow_rank", "py-spy")
    recorded_text = recordings.in_place_of_py_spy("slow_rank", f"{NO_DUMP} has not answered)")
    assert re.match(r"Recorded, with py-spy [\d.]+, Python [\d.]+ and torch [\d.]+:\nrank 0", recorded_text)
    assert PATIENTS["slow_rank"].served_by["py-spy"] in recorded_text
    assert str(report).endswith(recorded_text) if NO_DUMP in report.text else report.recorded == ""
    assert PATIENTS["slow_rank"].served_by["py-spy"] in str(report)


@pytest.mark.parametrize(("name", "seen"), [("slow_rank", "rank 0  still waiting"), ("extra_forward", NO_DUMP)])
def test_without_need_or_without_a_recording_nothing_recorded_is_shown(name: str, seen: str) -> None:
    assert recordings.in_place_of_py_spy(name, seen) == ""


def test_an_interrupt_leaves_no_process_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is interrupted as soon as a rank has printed something."""
    monkeypatch.setattr(running, "run_processes", interrupted_at_a_line())
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(KeyboardInterrupt):
        run_patient("barrier_on_rank_zero")
    new = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(new, timeout=60)
    assert alive == []


@pytest.mark.slow
def test_without_a_network_of_its_own_a_patient_shows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_network, "wrapper", lambda: ())
    report = run_patient("exception_on_one_rank")
    assert shows_what_it_should(PATIENTS["exception_on_one_rank"], report), report


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unused_parameters", "extra_forward", "uneven_data"])
def test_detail_with_ddp_is_told_as_it_is_here(name: str) -> None:
    """The lesson says of these versions of torch that DETAIL crashes a DDP program."""
    report = run_patient(name, "DETAIL")
    if recordings.public_version() in ("2.13.0", "2.14.1"):
        assert {ending.how for ending in report.endings} == {"died of signal 11, SIGSEGV"}


# What torch prints, folded


def test_frames_of_libraries_and_stacks_of_c_plus_plus_are_folded() -> None:
    printed = [
        "[W1127 03:32:11.815876941 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved.",
        "[rank1]:[E1127 03:32:11.815876941 socket.cpp:1028] [c10d] no answer",
        "Exception raised from delay at /__w/pytorch/pytorch/torch/csrc/distributed/c10d/socket.cpp:113",
        "frame #0: c10::Error::Error(…)",
        "Traceback (most recent call last):",
        '  File "ill.py", line 3, in <module>',
        "    dist.all_reduce(loss)",
        '  File "/home/me/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper',
        "    return func(*args)",
        "           ^^^^^^^^^^^",
        '  File "/home/me/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce',
        "    work.wait()",
        "RuntimeError: [/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] closed [127.0.0.1]:7072",
        "    and more of the same text",
    ]
    assert fold(printed, "ill.py") == [
        "[E socket.cpp:1028] no answer",
        "  (… 2 frames of C++)",
        "Traceback (most recent call last):",
        '  File "ill.py", line 3, in <module>',
        "    dist.all_reduce(loss)",
        "  (… 2 frames of libraries: all_reduce)",
        "RuntimeError: [gloo/transport/tcp/pair.cc:553] closed [127.0.0.1]:…",
        "    and more of the same text",
    ]


def test_threads_that_are_ours_alone_are_left_out() -> None:
    stack = [
        "Thread 0x00007f (most recent call first):",
        '  File "/x/distlib/frameworks/in_process.py", line 134 in watch',
        "",
        "Thread 0x00008f (most recent call first):",
        '  File "/x/torch/distributed/distributed_c10d.py", line 5356 in barrier',
        '  File "ill.py", line 9 in <module>',
        '  File "/x/distlib/clinic/in_rank.py", line 46 in run_program',
        '  File "<string>", line 1 in <module>',
    ]
    assert fold(stack, "ill.py") == [
        "Thread (most recent call first):",
        "  (… 1 frame of libraries: barrier)",
        '  File "ill.py", line 9 in <module>',
    ]


# What rank 1 of killed_loader_worker has printed now and then; the files' folders are shortened.
IN_DEL = """\
Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f3c5a9ed580>
Traceback (most recent call last):
  File "/home/me/site-packages/torch/utils/data/dataloader.py", line 1704, in __del__
    self._shutdown_workers()
  File "/home/me/site-packages/torch/utils/data/dataloader.py", line 1654, in _shutdown_workers
    w.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
  File "/usr/lib/python3.11/multiprocessing/process.py", line 149, in join
    res = self._popen.wait(timeout)
          ^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/multiprocessing/popen_fork.py", line 40, in wait
    if not wait([self.sentinel], timeout):
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 947, in wait
    ready = selector.select(timeout)
            ^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/selectors.py", line 415, in select
    fd_event_list = self._selector.poll(timeout)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/me/site-packages/torch/utils/data/_utils/signal_handling.py", line 73, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 27904) is killed by signal: Killed. 
"""
WITH_AN_EMPTY_LINE = """\
Exception ignored in: <function _TemporaryFileCloser.__del__ at 0x7f74b497ee80>
Traceback (most recent call last):
  File "/usr/lib/python3.11/tempfile.py", line 450, in __del__
    self.close()
  File "/usr/lib/python3.11/tempfile.py", line 439, in close
    def close(self, unlink=_os.unlink):

  File "/home/me/site-packages/torch/utils/data/_utils/signal_handling.py", line 73, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 16659) is killed by signal: Killed. 
"""


@pytest.mark.parametrize(("printed", "number"), [(IN_DEL, 21), (WITH_AN_EMPTY_LINE, 10)])
def test_an_exception_that_python_ignores_is_one_line(printed: str, number: int) -> None:
    lines = ["step 1", *printed.splitlines(), "step 2", '  File "ill.py", line 9 in load', "    after"]
    error = "RuntimeError: DataLoader worker (pid …) is killed by signal: Killed."
    assert fold(lines, "ill.py") == [
        "step 1",
        f"  (… {number} lines that Python ignores: {error})",
        "step 2",
        '  File "ill.py", line 9 in load',
        "    after",
    ]


# What counts as a hang


BUSY = """
import time

import torch.distributed as dist

dist.init_process_group("gloo")
while dist.get_rank() == 0 and time.process_time() < 2:
    pass
dist.barrier()
print("met")
"""


def test_a_rank_that_computes_is_not_taken_for_one_that_hangs() -> None:
    """Rank 1 sleeps in the barrier for much longer than the patience; but rank 0 is at work."""
    report = run_patient("dead_rank", program=BUSY, seconds=1)
    assert report.kinds == [ENDED, ENDED], report
    assert [without_gloos(ending.lines) for ending in report.endings] == [["met"], ["met"]]


@pytest.mark.parametrize(("load", "seconds"), [(0.0, 2.0), (2.0, 2.0), (8.0, 4.0), (1000.0, 20.0)])
def test_limits_are_longer_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch, load: float, seconds: float) -> None:
    monkeypatch.setattr(running.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(running.psutil, "getloadavg", lambda: (load, 0.0, 0.0))
    assert running._scaled(2.0) == seconds


@pytest.mark.slow
def test_a_rank_that_learns_late_of_its_dead_worker_is_not_taken_for_one_that_hangs() -> None:
    """Without the signal, as when its exception is lost. (torch sets the handler once, with the first loader.)"""
    deaf = "iter(DataLoader([0], num_workers=1))\nsignal.signal(signal.SIGCHLD, signal.SIG_DFL)\n\n\nfor batch in"
    program = PATIENTS["killed_loader_worker"].program.replace("for batch in", deaf)
    report = run_patient("killed_loader_worker", program=program)
    assert report.kinds == [RAISED, RAISED], report
    assert "exited unexpectedly" in report.endings[1].text and "killed by signal" not in report.text


@pytest.mark.parametrize("seconds", [0, -1, 51])
def test_seconds_out_of_bounds_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="expected seconds above 0, and at most 50"):
        run_patient("order_of_calls", seconds=seconds)

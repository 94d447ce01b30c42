"""Processes that are forked from one that has imported a framework, and the life of that one."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from distlib.frameworks import (
    Process,
    ProcessDied,
    ProcessError,
    ProcessTimeout,
    forkservers,
    prepare_processes,
    processes,
    require,
    run_processes,
)
from distlib.frameworks.optional import is_there
from distlib.frameworks.temporary import temporary_folder
from tests.frameworks import played
from tests.frameworks.test_processes import LIMIT, mark, network, processes_with, wait_until_gone

__all__ = ["mark", "network"]  # fixtures
FRAMEWORK = "tests.frameworks.slow_framework"


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch, mark: str) -> Iterator[None]:
    """The kernel has imported a framework, and no fork server is kept before the test and after it."""
    monkeypatch.setattr(processes, "FRAMEWORKS", (FRAMEWORK,))
    monkeypatch.setitem(sys.modules, FRAMEWORK, processes)
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)  # jax sets it where it is imported
    monkeypatch.setattr(forkservers, "_CLEAR_PATIENCE", 100)
    forkservers.end_kept()
    yield
    forkservers.end_kept()


def imports_of(*run: Process) -> list[str]:
    """The imports of the framework that processes of one run have."""
    outcomes = run_processes({f"worker {index}": process for index, process in enumerate(run)}, seconds=LIMIT)
    return [outcome.value for outcome in outcomes.values()]


def test_all_processes_of_all_runs_share_one_import(network: str, framework: None) -> None:
    seen = {token for _ in range(2) for token in imports_of(*[Process(played.which_import)] * 2)}
    assert len(seen) == 1
    assert len(forkservers._kept) == 1


def test_what_is_read_late_may_differ(framework: None) -> None:
    different = [
        Process(played.which_import, env={"TF_CONFIG": str(index), "TMPDIR": os.getcwd()}) for index in range(2)
    ]
    assert len({*imports_of(*different), *imports_of(*different[:1])}) == 1


def test_another_environment_has_another_import(framework: None, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, loud = Process(played.which_import), Process(played.which_import, env={"TF_CPP_MIN_LOG_LEVEL": "0"})
    first, second, again = imports_of(quiet), imports_of(loud), imports_of(quiet)
    assert first == again != second
    assert len(forkservers._kept) == 2
    monkeypatch.setenv("DISTLIB_TEST_OTHER", "1")
    assert imports_of(quiet) != first
    assert len(forkservers._kept) == 2, "not more of them: each takes memory"
    assert imports_of(loud) != second, "the oldest has ended"


def test_one_that_was_prepared_is_the_one_that_is_used(network: str, framework: None, mark: str) -> None:
    prepare_processes(FRAMEWORK, env={"DISTLIB_TEST_OTHER": "1"})
    (prepared,) = forkservers._kept
    imports_of(Process(played.which_import, env={"DISTLIB_TEST_OTHER": "1", "TF_CONFIG": "late"}))
    assert forkservers._kept == [prepared]
    prepare_processes(FRAMEWORK, env={"DISTLIB_TEST_OTHER": "1"})
    assert forkservers._kept == [prepared], "there is one already"
    forkservers.end_kept()
    assert wait_until_gone(mark, 60.0) == []


def test_what_the_notebooks_own_import_sets_makes_no_other_fork_server(
    framework: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sets_a_variable.py").write_text("import os\nos.environ['DISTLIB_TEST_OTHER'] = 'by the import'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("DISTLIB_TEST_OTHER", "")  # so that it is as it was, afterwards
    monkeypatch.delenv("DISTLIB_TEST_OTHER")
    prepare_processes(FRAMEWORK)
    (prepared,) = forkservers._kept
    require("sets_a_variable")
    imports_of(Process(played.which_import))
    assert forkservers._kept == [prepared]
    monkeypatch.setenv("DISTLIB_TEST_OTHER", "by the notebook")
    imports_of(Process(played.which_import))
    assert len(forkservers._kept) == 2


def test_a_fork_server_that_still_imports_when_the_kernel_ends_leaves_nothing(
    network: str, framework: None, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTLIB_TEST_IMPORT", "takes long")
    prepare_processes(FRAMEWORK)
    assert processes_with(mark)
    forkservers.end_kept()
    assert wait_until_gone(mark) == []


def test_a_process_unlike_the_first_imports_by_itself(framework: None) -> None:
    outcomes = run_processes(
        {
            "a": Process(played.log_level_at_import),
            "b": Process(played.log_level_at_import, env={"TF_CPP_MIN_LOG_LEVEL": "0"}),
        },
        seconds=LIMIT,
    )
    assert [outcome.value for outcome in outcomes.values()] == ["3", "0"]


def test_a_process_may_ask_for_a_fresh_start(framework: None) -> None:
    shared, own = imports_of(Process(played.which_import), Process(played.which_import, fresh=True))
    assert shared != own
    assert imports_of(Process(played.which_import, fresh=True)) != [own]


def test_without_a_framework_none_is_kept(network: str, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FRAMEWORKS", ())  # another test may have imported one
    forkservers.end_kept()
    run_processes({"a": Process(played.count, 1)}, seconds=LIMIT)
    assert forkservers._kept == []


def test_forks_do_not_draw_the_same_numbers() -> None:
    outcomes = run_processes({name: Process(played.draw) for name in "abc"}, seconds=LIMIT)
    for numbers in zip(*(outcome.value for outcome in outcomes.values()), strict=True):
        assert len(set(numbers)) == 3


def test_a_process_does_what_is_left_to_its_end() -> None:
    outcome = run_processes({"a": Process(played.return_late)}, seconds=LIMIT)["a"]
    assert (outcome.value, outcome.exit_status) == ("returned", 0)
    assert outcome.lines == ["thread", "at exit"]


@pytest.mark.parametrize("how, status", [("exit", 3), ("at once", 4), ("SIGABRT", -6), ("SIGKILL", -9)])
def test_the_end_of_a_process_is_its_own(framework: None, how: str, status: int) -> None:
    imports_of(Process(played.which_import))
    outcomes = run_processes(
        {"a": Process(played.fail_by_itself, how), "b": Process(played.count, 1)}, seconds=LIMIT, check=False
    )
    assert isinstance(outcomes["a"].error, ProcessDied)
    assert [outcome.exit_status for outcome in outcomes.values()] == [status, 0]
    assert len(forkservers._kept) == 1


@pytest.mark.parametrize("function, error", [(played.fail, ProcessError), (played.wait_forever, ProcessTimeout)])
def test_after_an_exception_the_fork_server_is_gone_too(
    network: str, framework: None, mark: str, function: object, error: type[Exception]
) -> None:
    imports_of(Process(played.which_import))
    assert processes_with(mark)
    with pytest.raises(error):
        run_processes({"a": Process(function)}, seconds=3)  # type: ignore[arg-type]
    assert forkservers._kept == []
    assert wait_until_gone(mark) == []


def test_a_kept_fork_server_has_no_process_left(network: str, framework: None, mark: str) -> None:
    if network == "shared network" and sys.platform != "linux":
        pytest.skip("only Linux tells of processes that are left over")
    imports_of(Process(played.which_import))
    waiting = len(processes_with(mark))
    run_processes(
        {"a": Process(played.leave_a_stranger), "ps": Process(played.start_others_and_wait)}, seconds=LIMIT, until=["a"]
    )
    assert len(forkservers._kept) == 1
    assert len(processes_with(mark)) == waiting


def test_a_fork_server_that_was_killed_is_replaced(framework: None) -> None:
    (first,) = imports_of(Process(played.which_import))
    forkservers._kept[0]._process.kill()
    forkservers._kept[0]._process.wait()
    assert imports_of(Process(played.which_import)) != [first]


def test_a_framework_that_cannot_be_imported_is_an_error_of_the_process(
    framework: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTLIB_TEST_IMPORT", "fails")
    with pytest.raises(ProcessError, match="RuntimeError: this framework is broken"):
        imports_of(Process(played.which_import))


def test_an_import_that_takes_too_long_is_ended(
    network: str, framework: None, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTLIB_TEST_IMPORT", "takes long")
    with pytest.raises(ProcessTimeout, match="a had not finished after 0.5 s and was ended"):
        run_processes({"a": Process(played.which_import)}, seconds=0.5)
    assert wait_until_gone(mark) == []


@pytest.mark.parametrize("name", [pytest.param("tensorflow", marks=pytest.mark.slow), "jax"])
def test_a_framework_computes_in_forks(name: str, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there(name):
        pytest.skip(f"{name} is not installed")
    monkeypatch.setitem(sys.modules, name, processes)
    for _ in range(2):
        outcomes = run_processes(
            {each: Process(played.import_and_compute, name) for each in ("a", "b")}, seconds=2 * LIMIT
        )
        assert [outcome.value for outcome in outcomes.values()] == [(True, 500.0)] * 2
    if name == "tensorflow":
        outcome = run_processes({"a": Process(played.compute_and_exit)}, seconds=2 * LIMIT, check=False)["a"]
        assert outcome.lines[0] == "500.0" and outcome.exit_status == 0
        assert "__autograph_generated_file" in outcome.lines[1]
        assert not any(os.path.exists(path) for path in outcome.lines[1].split())
    assert len(forkservers._kept) == 1
    forkservers.end_kept()


# The end of the kernel

KERNEL = f"""
import sys, time
from distlib.frameworks import Process, forkservers, own_network, processes, run_processes
from tests.frameworks import played
wrapper = own_network.wrappers().get(sys.argv[1], ())
own_network.wrapper = lambda: wrapper
processes.FRAMEWORKS, sys.modules["{FRAMEWORK}"] = ("{FRAMEWORK}",), processes
print("begins")
run_processes({{"a": Process(played.count, 1)}}, seconds=1000)
time.sleep(1000)
"""


def a_kernel(network: str, root: Path, **environment: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", KERNEL, network],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGINT))],
)
def test_a_kept_fork_server_ends_with_the_kernel(network: str, mark: str, root: Path, number: int) -> None:
    with a_kernel(network, root) as kernel:
        assert kernel.stdout is not None and kernel.stdout.readline() == "a │ step 0\n"
        kernel.send_signal(number)
    assert wait_until_gone(mark) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_fork_server_that_imports_ends_with_the_kernel(network: str, mark: str, root: Path, number: int) -> None:
    with a_kernel(network, root, DISTLIB_TEST_IMPORT="takes long") as kernel:
        while not any(FRAMEWORK in " ".join(child.cmdline()) or child.children() for child in children_of(kernel)):
            assert kernel.poll() is None
        kernel.send_signal(number)
    assert wait_until_gone(mark) == []


def children_of(kernel: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(kernel.pid).children()


# Temporary files


@pytest.mark.parametrize("how", ["returns", "at once", "killed"])
def test_temporary_files_are_gone_with_the_processes(framework: None, how: str, tmp_path: Path) -> None:
    outcome = run_processes(
        {"a": Process(played.leave_temporary_files, how)},
        seconds=LIMIT,
        check=False,
        kill={"a": "waiting"} if how == "killed" else None,
    )["a"]
    path = Path(outcome.lines[0])
    assert path.name.startswith("__autograph_generated_file")
    assert not path.exists() and not path.parent.exists()


def test_the_folder_of_a_kernel_that_was_killed_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / "distlib-processes-abandoned"
    abandoned.mkdir()
    (abandoned / "file").touch()
    with temporary_folder() as used:
        os.utime(used, (0, 0))
        assert abandoned.exists(), "it may be a new one, which is not locked yet"
        os.utime(abandoned, (0, 0))
        with temporary_folder():
            assert os.path.exists(used) and not abandoned.exists()
    assert list(tmp_path.iterdir()) == []

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from distlib.frameworks import (
    Process,
    ProcessDied,
    ProcessError,
    ProcessTimeout,
    addresses,
    forkservers,
    own_network,
    processes,
    run_processes,
)
from distlib.frameworks.reports import gist
from distlib.worlds.diagnosis import RunInterrupted
from tests.frameworks import played

LIMIT = 100  # seconds for processes that take less than one, on a busy machine
MARK = "DISTLIB_TEST_MARK"  # an environment variable of all processes of a test
NETWORKS = ["bwrap", pytest.param("unshare", marks=pytest.mark.slow), "shared network"]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that a busy machine does not let run says later where it is, or how it has ended."""
    monkeypatch.setattr(processes, "_STACK_PATIENCE", 30)
    monkeypatch.setattr(processes, "_END_PATIENCE", 60)


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to get a network that works on this machine, and none."""
    wrapper = own_network.wrappers().get(request.param, ())
    if wrapper and not own_network.works(wrapper):
        pytest.skip(f"{request.param} makes no network on this machine")
    monkeypatch.setattr(own_network, "wrapper", lambda: wrapper)
    return str(request.param)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The value of MARK. After the test there must be no process with it but this one."""
    value = f"{os.getpid()}-{time.time()}"
    monkeypatch.setenv(MARK, value)
    yield value
    forkservers.end_kept()  # one is kept if another test of this process has imported a framework
    assert wait_until_gone(value) == []


def wait_until_gone(mark: str, patience: float = 100.0) -> list[psutil.Process]:
    """The processes that have MARK in their environment and are not gone after `patience` seconds."""
    give_up = time.monotonic() + patience
    while (found := processes_with(mark)) and time.monotonic() < give_up:
        time.sleep(0.05)
    return found


def processes_with(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            pass
    return found


def test_values_and_lines_come_back_under_their_names(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = run_processes({"chief": Process(played.count, 2), "worker 0": Process(played.count, 0)}, seconds=LIMIT)
    assert [outcome.value for outcome in outcomes.values()] == [2, 0]
    assert [outcome.exit_status for outcome in outcomes.values()] == [0, 0]
    assert outcomes["chief"].lines == ["step 0", "step 1"]
    assert outcomes["chief"].peak_bytes > 2**20
    assert capsys.readouterr().out == "chief    │ step 0\nchief    │ step 1\n"


def test_a_function_may_be_defined_on_the_spot() -> None:
    factor = 3
    shown: list[tuple[str, str]] = []
    outcomes = run_processes(
        {"a": Process(lambda number, add: print(number, end="") or number * factor + add, 2, add=1)},
        seconds=LIMIT,
        on_output=lambda name, line: shown.append((name, line)),
    )
    assert outcomes["a"].value == 7
    assert shown == [("a", "2")]


def test_much_data_goes_both_ways() -> None:
    data = os.urandom(3_000_000)
    outcomes = run_processes({"a": Process(lambda data: data[::-1], data)}, seconds=LIMIT)
    assert outcomes["a"].value == data[::-1]


def test_the_environment_is_quiet_unless_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("GRPC_VERBOSITY", "INFO")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    names = ["TF_CPP_MIN_LOG_LEVEL", "GRPC_VERBOSITY", "OMP_NUM_THREADS", "https_proxy", "TF_CONFIG"]
    process = Process(lambda: [os.environ.get(name) for name in names], env={"TF_CONFIG": "{}"})
    louder = Process(lambda: os.environ["TF_CPP_MIN_LOG_LEVEL"], env={"TF_CPP_MIN_LOG_LEVEL": "0"})
    outcomes = run_processes({"a": process, "b": louder}, seconds=LIMIT)
    threads = str(max(1, (os.cpu_count() or 1) // 2))
    assert outcomes["a"].value == ["3", "INFO", threads, None, "{}"]
    assert outcomes["b"].value == "0"


def test_a_fork_has_what_is_to_be_imported_also_if_it_gets_what_torchrun_sets() -> None:
    """A fresh Python would not have it."""

    def look() -> tuple[bool, str]:
        return "wave" in sys.modules, os.environ["RANK"]

    processes = {f"rank {rank}": Process(look, env={"RANK": str(rank)}) for rank in range(2)}
    outcomes = run_processes(processes, seconds=LIMIT, imports=["wave"])
    assert [outcome.value for outcome in outcomes.values()] == [(True, "0"), (True, "1")]


def test_the_others_end_when_those_that_matter_are_done(network: str, mark: str) -> None:
    outcomes = run_processes(
        {"chief": Process(played.count, 1), "ps 0": Process(played.start_others_and_wait)},
        seconds=LIMIT,
        until=["chief"],
    )
    assert outcomes["chief"].value == 1
    assert outcomes["ps 0"].exit_status == -signal.SIGKILL
    assert outcomes["ps 0"].error is None


def test_what_a_process_has_started_ends_with_it(network: str, mark: str) -> None:
    run_processes({"a": Process(played.start_others_and_return)}, seconds=LIMIT)


def test_a_process_is_killed_when_it_prints_a_line(mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = run_processes(
        {"chief": Process(played.count, 1), "worker 0": Process(played.wait_forever)},
        seconds=LIMIT,
        kill={"worker 0": "wait"},
    )
    assert outcomes["worker 0"].exit_status == -signal.SIGKILL
    assert outcomes["worker 0"].lines == ["waiting"]
    assert outcomes["worker 0"].error is None
    assert "worker 0 │ (killed)\n" in capsys.readouterr().out


def test_a_process_is_killed_when_another_one_prints_a_line(mark: str) -> None:
    outcomes = run_processes(
        {"chief": Process(played.count, 3), "ps 0": Process(played.wait_forever)},
        seconds=LIMIT,
        kill={"ps 0": ("chief", "step 2")},
    )
    assert outcomes["ps 0"].exit_status == -signal.SIGKILL


def test_a_kill_that_never_came_is_an_error() -> None:
    with pytest.raises(ProcessError, match="^a was to be killed when a printed 'step 5', and that was never printed$"):
        run_processes({"a": Process(played.count, 5)}, seconds=LIMIT, kill={"a": "step 5"})


def test_an_exception_ends_all_and_shows_the_line(mark: str) -> None:
    with pytest.raises(ProcessError) as caught:
        run_processes({"chief": Process(played.wait_forever), "worker 0": Process(played.fail)}, seconds=LIMIT)
    error = caught.value
    line = played.fail.__code__.co_firstlineno + 1
    assert str(error) == f"played.py, line {line}: worker 0 raised KeyError: 'no such key'"
    assert (error.name, error.kind) == ("worker 0", "KeyError")
    assert 'raise KeyError("no such key")' in "\n".join(error._render_traceback_())
    assert "in fail" in error.stack
    assert error.outcomes["worker 0"].exit_status == 1
    assert error.outcomes["chief"].exit_status == -signal.SIGKILL


def test_a_long_message_is_shown_by_the_line_that_says_what_went_wrong() -> None:
    graph = 'Graph execution error:\n\nDetected at node\n  File "a.py", line 3\n\n  File "b.py", line 4\n\n'
    assert gist(f"{graph}Collective ops is aborted\nRestart your program") == "Collective ops is aborted […]"
    assert gist("The point.\n1\n2\n3\n4") == "The point. […]"
    assert gist("One\ntwo\nthree\n") == "One\ntwo\nthree"
    assert gist(graph) == "Graph execution error: […]"


def test_without_check_an_exception_is_shown_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = run_processes({"a": Process(played.fail), "b": Process(played.count, 1)}, seconds=LIMIT, check=False)
    assert outcomes["b"].value == 1
    assert outcomes["a"].error is not None and outcomes["a"].error.kind == "KeyError"
    assert "a │ (played.py, line" in capsys.readouterr().out


@pytest.mark.parametrize(
    "how, end",
    [
        ("exit", "exited with code 3"),
        ("at once", "exited with code 4"),
        ("SIGABRT", "was killed by signal 6 (a library gave up)"),
        ("SIGKILL", "was killed by signal 9 (by hand, or because the machine ran out of memory)"),
        ("SIGTERM", "was killed by signal 15"),
    ],
)
def test_a_process_that_ends_by_itself_is_reported(how: str, end: str) -> None:
    with pytest.raises(ProcessDied) as caught:
        run_processes({"a": Process(played.fail_by_itself, how)}, seconds=LIMIT)
    assert str(caught.value) == f"a {end} before its function returned. The last that it printed: so far"


def test_late_processes_are_ended_and_their_lines_named(mark: str) -> None:
    for seconds in (2, 8, 32, 128):  # a busy machine takes its time to start it
        with pytest.raises(ProcessTimeout, match="^a had not finished after .* s and was ended. ") as caught:
            run_processes({"a": Process(played.start_others_and_wait), "b": Process(played.count, 1)}, seconds=seconds)
        if "The last that it printed: waiting" in str(caught.value):
            break
    assert "It was at played.py, line" in str(caught.value)
    assert "The last that it printed: waiting" in str(caught.value)


def test_without_check_a_late_process_has_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_STACK_PATIENCE", 0.1)  # it may not have begun: then it never says where it is
    outcomes = run_processes({"a": Process(played.wait_forever)}, seconds=0.2, check=False)
    assert isinstance(outcomes["a"].error, ProcessTimeout)
    assert outcomes["a"].exit_status == -signal.SIGKILL


def test_a_value_that_cannot_travel_is_an_error() -> None:
    with pytest.raises(ProcessError, match="a raised TypeError: returned a lock, which can't be sent to the notebook"):
        run_processes({"a": Process(lambda: threading.Lock())}, seconds=LIMIT)


def test_only_so_much_output_is_shown() -> None:
    shown: list[str] = []
    process = Process(lambda: print("x" * 99 + "\n", end="") or print("y" * 2_000_000))
    run_processes({"a": process}, seconds=LIMIT, on_output=lambda name, line: shown.append(line))
    assert shown[0] == "x" * 99
    assert "(… more was printed and is left out)" in shown
    assert sum(map(len, shown)) < 1_100_000


@pytest.mark.parametrize(
    "processes, changes, message",
    [
        ({}, {}, "expected processes by name"),
        ([Process(played.fail)], {}, "expected processes by name"),
        ({"a": played.fail}, {}, "expected a Process for 'a'"),
        ({"a": Process(3)}, {}, "expected a function for 'a', got 3"),  # type: ignore[arg-type]
        ({"a": Process(played.fail, env={"TF_CONFIG": {"task": 1}})}, {}, "try json.dumps"),  # type: ignore[dict-item]
        ({"a": Process(played.fail)}, {"seconds": 0}, "expected seconds above 0"),
        ({"a": Process(played.fail)}, {"seconds": float("nan")}, "expected seconds above 0"),
        ({"a": Process(played.fail)}, {"until": ["b"]}, "until names 'b', and the processes are a"),
        ({"a": Process(played.fail)}, {"until": "a"}, "expected until as a list"),
        ({"a": Process(played.fail)}, {"kill": {"b": "x"}}, "kill names 'b'"),
        ({"a": Process(played.fail)}, {"kill": {"a": ("b", "x")}}, "kill names 'b'"),
        ({"a": Process(print, threading.Lock())}, {}, "print or one of its arguments can't be sent to a"),
    ],
)
def test_bad_input_is_an_error_at_once(processes: object, changes: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        run_processes(processes, **{"seconds": LIMIT, **changes})  # type: ignore[arg-type]


# Addresses


def test_servers_meet_at_their_addresses(network: str) -> None:
    first, second = addresses(2)
    assert addresses(2) == [first, second] and first != second
    outcomes = run_processes(
        {"server": Process(played.answer, second, b"word"), "client": Process(played.ask, second)}, seconds=LIMIT
    )
    assert outcomes["client"].value == b"word"
    assert outcomes["server"].value == b"WORD"


def test_nobody_outside_can_connect() -> None:
    if not own_network.has_own_network():
        pytest.skip("no network namespaces on this machine")
    (address,) = addresses(1)
    tried: list[int] = []

    def try_from_outside(name: str, line: str) -> None:
        with socket.socket() as outside:
            tried.append(outside.connect_ex(("127.0.0.1", int(address.split(":")[1]))))

    run_processes(
        {"server": Process(played.answer, address, b"")},
        seconds=LIMIT,
        kill={"server": "listening"},
        on_output=try_from_outside,
    )
    assert tried and 0 not in tried


def test_no_addresses_are_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        addresses(0)


# The end of the kernel

KERNEL = """
import sys
from distlib.frameworks import Process, own_network, processes, run_processes
from tests.frameworks import played
processes._STACK_PATIENCE = 60
wrapper = own_network.wrappers().get(sys.argv[1], ())
own_network.wrapper = lambda: wrapper
run_processes({"a": Process(played.start_others_and_wait), "b": Process(played.wait_forever)}, seconds=1000)
"""


@pytest.fixture
def kernel(network: str, mark: str, root: Path) -> Iterator["subprocess.Popen[str]"]:
    """A Python whose two processes have printed that they are waiting."""
    with subprocess.Popen(
        [sys.executable, "-u", "-c", KERNEL, network],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        assert process.stdout is not None
        assert sorted(process.stdout.readline() for _ in range(2)) == ["a │ waiting\n", "b │ waiting\n"]
        yield process
        process.kill()


def test_an_interrupt_says_where_they_were(kernel: "subprocess.Popen[str]", mark: str) -> None:
    kernel.send_signal(signal.SIGINT)
    _, errors = kernel.communicate(timeout=LIMIT)
    assert f"{RunInterrupted.__name__}: a was at played.py, line" in errors
    assert "All are ended." in errors


def test_nothing_outlives_a_kernel_that_is_killed(kernel: "subprocess.Popen[str]", mark: str) -> None:
    assert len(processes_with(mark)) >= 4
    kernel.kill()
    kernel.wait()
    assert wait_until_gone(mark) == []


def test_nothing_outlives_a_fork_server_that_is_killed(kernel: "subprocess.Popen[str]", mark: str) -> None:
    (child,) = psutil.Process(kernel.pid).children()
    child.kill()
    _, errors = kernel.communicate(timeout=LIMIT)
    assert "has ended, and they with it" in errors

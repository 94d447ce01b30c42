"""Fork servers: what they promise to all that use one. The ranks' and the frameworks' are tested elsewhere."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from distlib.worlds.forkserver.handle import ForkServer, ProcessEnd
from tests.tools.midst import becomes_so
from tests.worlds import forked

PATIENCE = 60  # seconds for what takes milliseconds, on a busy machine


def start(**environment: str) -> ForkServer:
    return ForkServer(forked.__name__, {**os.environ, **environment}, processes="sleepers")


@pytest.fixture
def server() -> Iterator[ForkServer]:
    started = start()
    yield started
    started.close()


def spawn(server: ForkServer, name: str, play: forked.Play) -> Connection:
    ours, theirs = Pipe()
    server.spawn(name, play, [theirs.fileno()])
    theirs.close()
    return ours


def told_by(connection: Connection) -> object:
    assert connection.poll(PATIENCE)
    return connection.recv()


def end_of(server: ForkServer) -> ProcessEnd:
    while not isinstance(ended := server.receive(), ProcessEnd):
        pass
    return ended


def wait_until_gone(pid: object) -> bool:
    assert isinstance(pid, int)
    return becomes_so(lambda: not psutil.pid_exists(pid), PATIENCE)


def test_processes_are_forked_and_their_ends_are_told(server: ForkServer) -> None:
    spawn(server, "short", forked.exit_with_3)
    ended = end_of(server)
    assert (ended.name, ended.status) == ("short", 3) and ended.peak_bytes > 2**20
    told_by(spawn(server, "long", forked.sleep))
    assert server.exit_statuses(["short", "long"]) == [3, None]
    server.signal(["long", "short", "unknown"], signal.SIGKILL)
    assert end_of(server).status == -signal.SIGKILL
    assert server.exit_statuses(["long"]) == [-signal.SIGKILL]


def test_a_process_is_as_any_other(server: ForkServer) -> None:
    assert told_by(spawn(server, "a", forked.show_signals)) == (True, -1, True)


def test_a_question_gets_its_own_answer(server: ForkServer) -> None:
    for _ in range(3):
        server.signal(["nobody"], signal.SIGKILL)
    assert server.ask("call", forked.__name__, "give_seven") == 7
    assert server.ask("look") is None


@pytest.mark.parametrize("play", [forked.have_a_child, forked.leave_a_child])
def test_what_a_process_has_started_ends_with_it(server: ForkServer, play: forked.Play) -> None:
    child = told_by(spawn(server, "parent", play))
    if play is forked.have_a_child:
        server.signal(["parent"], signal.SIGKILL)
    assert wait_until_gone(child)


def test_another_signal_is_for_the_process_alone(server: ForkServer) -> None:
    connection = spawn(server, "parent", forked.say_on_signal)
    assert told_by(connection) == "here"
    server.signal(["parent"], signal.SIGUSR1)
    assert told_by(connection) is None, "its child still runs"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes that are left over")
@pytest.mark.parametrize("how", ["cleared", "closed"])
def test_nothing_is_left(server: ForkServer, how: str) -> None:
    stranger = told_by(spawn(server, "a", forked.leave_a_stranger))
    end_of(server)
    ours, theirs = Pipe()
    pid = server.ask("spawn", "b", forked.sleep, files=[theirs.fileno()])
    assert told_by(ours) == "here"
    assert psutil.pid_exists(pid) and isinstance(stranger, int) and psutil.pid_exists(stranger)
    if how == "cleared":
        server.ask("clear")
        assert server.alive and server.exit_statuses(["b"]) == [-signal.SIGKILL]
    else:
        server.close()
        assert not server.alive
    assert not psutil.pid_exists(pid) and not psutil.pid_exists(stranger)


def test_a_fork_that_fails_is_an_error_and_the_server_lives() -> None:
    server = start(DISTLIB_TEST_FORK="refused")
    try:
        spawn(server, "a", forked.sleep)
        with pytest.raises(OSError, match="sleepers could not be started: no more processes"):
            server.ask("look")
        assert server.ask("call", forked.__name__, "give_seven") == 7
    finally:
        server.close()


def test_one_that_does_not_start_says_why() -> None:
    server = ForkServer("tests.worlds.no_such_module", os.environ, processes="sleepers")
    try:
        with pytest.raises(RuntimeError, match=r"(?s)fork server of the sleepers has ended.*no_such_module"):
            server.ask("look")
        assert not server.alive
    finally:
        server.close()


def test_one_that_is_killed_while_it_imports_is_noticed() -> None:
    server = start(DISTLIB_TEST_IMPORT="endless")
    try:
        process = psutil.Process(server._process.pid)
        assert becomes_so(lambda: bool(process.children()), PATIENCE), "the fork that guards it"
        process.kill()
        with pytest.raises(RuntimeError, match="fork server of the sleepers has ended"):
            server.ask("look")
        assert not server.alive
    finally:
        server.close()


def test_a_folder_goes_with_it(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    server.ask("remove_at_end", str(tmp_path / "own"))
    assert (tmp_path / "own").exists()
    server.close()
    assert not (tmp_path / "own").exists()


def test_the_kernel_starts_that_of_the_ranks_before_it_has_torch() -> None:
    code = "import sys, distlib.worlds.real.forkserver, distlib.frameworks.forkservers; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "tensorflow", "jax"}.intersection(done.stdout.split())

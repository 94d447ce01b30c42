"""docker/on_nodes.py without Docker: this machine is the head and the only node."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tools.midst import until_there

PATIENCE = 100
# The program, with a name service that knows the name `node` as long as there is a file.
PROGRAM = """
import runpy, socket, sys
from pathlib import Path

script, known = Path(sys.argv[1]), Path(sys.argv[2])

def look_up(name, *rest):
    if not known.exists():
        raise socket.gaierror
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.1.2.3", 0))]

socket.getaddrinfo, socket.gethostbyname = look_up, lambda name: "10.1.2.3"
sys.argv = [str(script), *sys.argv[3:]]
runpy.run_path(str(script), run_name="__main__")
"""


class Place:
    """A folder with a name service, from which the program is started."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root, self.folder, self.known = root, folder, folder / "known"
        self.known.touch()

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(self._root / "docker" / "on_nodes.py"), str(self.known), *words]
        ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = {**os.environ, "JOBS": str(self.folder / "jobs")}
        return subprocess.Popen(command, text=True, cwd=self.folder, env=environment, **ends)

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err


@pytest.fixture
def place(root: Path, tmp_path: Path) -> Place:
    return Place(root, tmp_path)


@pytest.fixture
def node(place: Place) -> Iterator[subprocess.Popen[str]]:
    process = place.start("--serve")
    yield process
    process.kill()
    process.communicate()


def test_lines_carry_the_name_of_the_node_and_the_status_is_passed_on(
    place: Place, node: subprocess.Popen[str]
) -> None:
    name = socket.gethostname()
    assert place.run("sh", "-c", "pwd; echo 2 >&2; printf end; exit 3") == (
        3,
        f"[{name}] {place.folder}\n[{name}] 2\n[{name}] end\n",
        "",
    )
    assert list((place.folder / "jobs").iterdir()) == []


def test_a_command_that_is_not_there(place: Place, node: subprocess.Popen[str]) -> None:
    status, out, err = place.run("no-such-command")
    assert (status, err) == (127, "") and "No such file" in out and "no-such-command" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_runs_on_a_node_ends_with_on_nodes(
    place: Place, node: subprocess.Popen[str], number: signal.Signals
) -> None:
    process = place.start("sh", "-c", "sleep 1000 & echo $! > pid.new; mv pid.new pid; wait")
    until_there(place.folder, "pid", patience=PATIENCE)
    sleeper = psutil.Process(int((place.folder / "pid").read_text()))
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert psutil.wait_procs([sleeper], timeout=PATIENCE)[1] == []


def test_a_node_that_is_gone_is_named_and_not_waited_for(place: Place) -> None:
    process = place.start("true")
    until_there(place.folder, "jobs/*/job.json", patience=PATIENCE)
    place.known.unlink()
    assert process.communicate(timeout=PATIENCE) == ("", "on-nodes: node 10.1.2.3 is gone.\n")
    assert process.returncode == 1


def test_without_nodes_it_says_how_to_have_some(place: Place) -> None:
    place.known.unlink()
    status, _, err = place.run("hostname")
    assert status == 2 and "--scale node=2" in err

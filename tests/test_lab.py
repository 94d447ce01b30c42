"""`distlib lab` as `make lab BROWSER=no` starts it: the address it prints works, and everything ends with it."""

import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from distlib.cli import lab

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def course(root: Path, tmp_path: Path) -> Path:
    """A folder with the first lesson in it."""
    (tmp_path / "course").mkdir()
    shutil.copy(root / lab.FIRST_LESSON, tmp_path / "course")
    return tmp_path


@contextmanager
def running_lab(folder: Path, port: int, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`distlib lab` in a folder; yields its process and the address it printed."""
    command = [sys.executable, "-m", "distlib.cli", "lab", "--no-browser", f"--port={port}"]
    environment = {**os.environ, **variables}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process, first_address(process)
    finally:
        process.terminate()
        process.wait(timeout=30)


def first_address(process: subprocess.Popen[str], timeout: float = 60) -> str:
    """Reads a process's output up to the first line that is an address."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line.strip())
        lines.put("END")

    threading.Thread(target=read, daemon=True).start()
    seen = []
    while not seen or not seen[-1].startswith(("http", "END")):
        seen.append(lines.get(timeout=timeout))
    assert seen[-1] != "END", seen
    return seen[-1]


def test_prints_an_address_that_works_on_the_next_free_port(course: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running_lab(course, port) as (process, address):
            assert f":{port}/" not in address
            assert "/lab/tree/course/00_start_here.ipynb?token=" in address
            with urllib.request.urlopen(address, timeout=30) as page:
                assert page.status == 200
                assert b"JupyterLab" in page.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_when_it_ends(course: Path, number: signal.Signals) -> None:
    with running_lab(course, 0) as (process, _):
        below = psutil.Process(process.pid).children(recursive=True)
        assert below
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        _, alive = psutil.wait_procs(below, timeout=10)
        assert alive == []


def test_starts_with_a_home_that_cannot_be_written(course: Path) -> None:
    with running_lab(course, 0, HOME="/no/such/home") as (_, address):
        assert "00_start_here.ipynb" in address


def test_outside_the_course_it_finds_the_one_it_was_installed_from(root: Path, tmp_path: Path, course: Path) -> None:
    (course / "course" / "deeper").mkdir()
    assert lab.find_course(course / "course" / "deeper") == course
    assert lab.find_course(Path("/")) == root


def test_without_a_course_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lab, "find_course", lambda start: None)
    assert lab.open_lab([]) == 1
    assert "00_start_here.ipynb" in capsys.readouterr().out


def test_options_of_the_caller_come_last(tmp_path: Path) -> None:
    assert lab.lab_command(tmp_path, ["--port=8899", "--no-browser"])[-2:] == ["--port=8899", "--no-browser"]


def test_address_with_and_without_a_token() -> None:
    page = "http://localhost:8899/lab/tree/course/00_start_here.ipynb"
    assert lab.address_of({"url": "http://localhost:8899/", "token": "abc"}) == f"{page}?token=abc"
    assert lab.address_of({"url": "http://localhost:8899/", "token": ""}) == page


def test_folders_that_the_user_chose_are_kept(tmp_path: Path) -> None:
    assert lab.folders_for_jupyter({}, tmp_path, tmp_path / "spare") == {}
    moved = lab.folders_for_jupyter({"IPYTHONDIR": "/mine"}, tmp_path / "gone", tmp_path / "spare")
    assert "IPYTHONDIR" not in moved
    assert moved["JUPYTER_RUNTIME_DIR"] == str(tmp_path / "spare" / "jupyter_runtime_dir")

"""`distlib lab` as `make lab BROWSER=no` starts it: the address it prints works, and everything ends with it."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from distlib.cli import lab
from tests.tools.lab_process import running_lab

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def course(root: Path, tmp_path: Path) -> Path:
    """A folder with the first lesson in it."""
    (tmp_path / "course").mkdir()
    shutil.copy(root / lab.FIRST_LESSON, tmp_path / "course")
    return tmp_path


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


def test_the_address_is_there_once_the_server_listens(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server, socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        where = {"url": "http://localhost:1/", "hostname": "127.0.0.1", "port": door.getsockname()[1]}
        (tmp_path / f"jpserver-{server.pid}.json").write_text(json.dumps(where))
        with ThreadPoolExecutor() as pool:
            address = pool.submit(lab.wait_for_address, server, tmp_path)
            with pytest.raises(TimeoutError):
                address.result(timeout=0.5)
            door.listen()
            assert address.result(timeout=30) == "http://localhost:1/lab/tree/course/00_start_here.ipynb"
        server.communicate(b"\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_when_it_ends(course: Path, number: signal.Signals) -> None:
    with running_lab(course) as (process, _):
        below = psutil.Process(process.pid).children(recursive=True)
        assert below
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        _, alive = psutil.wait_procs(below, timeout=10)
        assert alive == []


def test_when_somebody_else_kills_it_the_status_says_so(course: Path) -> None:
    with running_lab(course) as (process, _):
        (server,) = psutil.Process(process.pid).children()
        server.kill()
        assert process.wait(timeout=30) == 128 + signal.SIGKILL


def test_a_server_that_does_not_end_is_ended() -> None:
    """`end_when_asked` in a process of its own, with a server that takes no notice of SIGTERM."""
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(99)"
    )
    program = f"""
import os, signal, subprocess, sys
from distlib.cli import lab
server = subprocess.Popen([sys.executable, "-c", {stubborn!r}], stdout=subprocess.PIPE)
server.stdout.readline()
lab.end_when_asked(server, seconds=1)
os.kill(os.getpid(), signal.SIGINT)
print(server.wait())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(-signal.SIGKILL), done.stderr


def test_starts_with_a_home_that_cannot_be_written(course: Path) -> None:
    with running_lab(course, HOME="/no/such/home") as (_, address):
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


def test_it_does_not_ask_about_news(course: Path) -> None:
    setting = "lab/api/settings/@jupyterlab/apputils-extension:notification"
    with running_lab(course) as (_, address):
        server, token = address.split("lab/tree")[0], address.split("token=")[1]
        with urllib.request.urlopen(f"{server}{setting}?token={token}", timeout=30) as answer:
            properties = json.load(answer)["schema"]["properties"]
    assert properties["fetchNews"]["default"] == "false"
    assert properties["checkForUpdates"]["default"] is False

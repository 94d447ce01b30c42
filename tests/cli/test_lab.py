"""`distlib lab` as `make lab BROWSER=no` starts it: the address it prints works, and everything ends with it."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from tornado.websocket import websocket_connect

from distlib.cli import copies, lab
from tests.tools.lab_process import running_lab


@pytest.fixture
def course(root: Path, tmp_path: Path) -> Path:
    """A folder with the first lesson in it."""
    return make_course(root, tmp_path)


def make_course(root: Path, folder: Path) -> Path:
    (folder / "course").mkdir()
    shutil.copy(root / lab.FIRST_LESSON, folder / "course")
    return folder


@pytest.fixture(scope="module")
def of_a_student(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """A running `distlib lab`: the port that it was to have, which is taken, and the address that it has printed."""
    folder = make_course(root, tmp_path_factory.mktemp("course"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_lab(folder, port, PATH="/usr/bin:/bin") as (_, address):
            yield port, address


@pytest.mark.slow
def test_prints_an_address_that_works_on_the_next_free_port(of_a_student: tuple[int, str]) -> None:
    port, address = of_a_student
    assert f":{port}/" not in address
    assert "/lab/tree/lessons/lesson_00_start_here.ipynb?token=" in address
    with urllib.request.urlopen(address, timeout=100) as page:
        assert page.status == 200
        assert b"JupyterLab" in page.read()


def test_for_jupyterhub_it_starts_the_server_that_asks_the_hub(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab.lab_command(course, lab.FIRST_LESSON, [])[2] == "jupyterlab"
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://0.0.0.0:8888/user/ada/")
    assert lab.lab_command(course, lab.FIRST_LESSON, [])[2] == "jupyterhub.singleuser"


def test_the_address_is_there_once_the_server_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, connect = threading.Semaphore(0), socket.create_connection

    def connect_and_tell(*where: object, **options: object) -> socket.socket:
        try:
            return connect(*where, **options)  # type: ignore[arg-type]
        except OSError:
            refused.release()
            raise

    monkeypatch.setattr(lab.socket, "create_connection", connect_and_tell)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server, socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        where = {"url": "http://localhost:1/", "hostname": "127.0.0.1", "port": door.getsockname()[1]}
        (tmp_path / f"jpserver-{server.pid}.json").write_text(json.dumps(where))
        with ThreadPoolExecutor() as pool:
            address = pool.submit(lab.wait_for_address, server, tmp_path, Path("first.ipynb"))
            assert refused.acquire(timeout=100) and refused.acquire(timeout=100) and not address.done()
            door.listen()
            assert address.result(timeout=100) == "http://localhost:1/lab/tree/first.ipynb"
        server.communicate(b"\n")


@pytest.mark.parametrize("asked", [False, True])
def test_it_says_when_the_port_is_taken_and_where_the_folder_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asked: bool
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(lab, "start_kernel", lambda address, first: None)
    here, elsewhere, ended = tmp_path / "work", tmp_path / "elsewhere" / "work", subprocess.Popen(["true"])
    ended.wait()
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server,
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port, taken = door.getsockname()[1], other.getsockname()[1]
        write_information(tmp_path, server.pid, here, port, "new")
        write_information(tmp_path, os.getpid(), here, taken, "abc")
        write_information(tmp_path, os.getppid(), elsewhere, taken, "of-another-folder")
        write_information(tmp_path, ended.pid, here, taken, "that-has-ended")
        lab.announce(server, here, Path("first.ipynb"), taken if asked else None)
        server.communicate(b"\n")
    said, _, address = capsys.readouterr().out.partition("JupyterLab is at")
    assert f"http://localhost:{port}/lab/tree/first.ipynb?token=new" in address
    assert (f"Port {taken} is taken, so this JupyterLab is on port {port}." in said) == asked
    assert f"same folder is running already, at http://localhost:{taken}/lab/tree/first.ipynb?token=abc\n" in said
    assert said.count("token=") == 1


def write_information(folder: Path, pid: int, root: Path, port: int, token: str) -> None:
    """The file that a JupyterLab writes about itself."""
    information = {"url": f"http://localhost:{port}/", "hostname": "127.0.0.1", "port": port, "token": token}
    (folder / f"jpserver-{pid}.json").write_text(json.dumps({**information, "pid": pid, "root_dir": str(root)}))


def test_the_port_that_was_asked_for() -> None:
    assert lab.wanted_port(["--no-browser"]) is lab.wanted_port(["--port=0"]) is None
    for options in (["--port=8977"], ["--no-browser", "--port", "8977"], ["--port=1", "--ServerApp.port=8977"]):
        assert lab.wanted_port(options) == 8977


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGHUP))]
)
def test_nothing_is_left_when_it_ends(course: Path, number: signal.Signals) -> None:
    with running_lab(course) as (process, _):
        below = psutil.Process(process.pid).children(recursive=True)
        assert below
        process.send_signal(number)
        assert process.wait(timeout=100) == 0
        _, alive = psutil.wait_procs(below, timeout=60)
        assert alive == []


@pytest.mark.slow
def test_when_somebody_else_kills_it_the_status_says_so(course: Path) -> None:
    with running_lab(course) as (process, _):
        (server,) = psutil.Process(process.pid).children()
        server.kill()
        assert process.wait(timeout=100) == 128 + signal.SIGKILL


def test_a_server_that_does_not_end_is_ended() -> None:
    """`end_when_asked` in a process of its own, with a server that takes no notice of SIGTERM."""
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(99)"
    )
    program = f"""
import os, signal, subprocess, sys
from distlib.cli import copies, lab
server = subprocess.Popen([sys.executable, "-c", {stubborn!r}], stdout=subprocess.PIPE)
server.stdout.readline()
lab.end_when_asked(server, seconds=1)
os.kill(os.getpid(), signal.SIGINT)
print(server.wait())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == str(-signal.SIGKILL), done.stderr


@pytest.mark.slow
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
    assert lab.lab_command(tmp_path, Path("first.ipynb"), ["--port=8899", "--no-browser"])[-2:] == [
        "--port=8899",
        "--no-browser",
    ]


def test_address_with_and_without_a_token() -> None:
    first, page = Path("lessons/first.ipynb"), "http://localhost:8899/lab/tree/lessons/first.ipynb"
    assert lab.address_of({"url": "http://localhost:8899/", "token": "abc"}, first) == f"{page}?token=abc"
    assert lab.address_of({"url": "http://localhost:8899/", "token": ""}, first) == page


@pytest.mark.parametrize("answer", [201, 403])
def test_the_kernel_is_started_before_the_page_asks_for_it(answer: int) -> None:
    asked: list[tuple[str, str | None, Any]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers["Authorization"], body))
            self.send_response(answer)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server, ThreadPoolExecutor() as pool:
        pool.submit(server.handle_request)
        address = f"http://127.0.0.1:{server.server_port}/lab/tree/lessons/first.ipynb?token=abc"
        lab.start_kernel(address, Path("lessons/first.ipynb"))
    ((path, token, session),) = asked
    assert (path, token) == ("/api/sessions", "token abc")
    assert (session["path"], session["type"]) == ("lessons/first.ipynb", "notebook")


def test_folders_that_the_user_chose_are_kept(tmp_path: Path) -> None:
    assert lab.folders_for_jupyter({}, tmp_path, tmp_path / "spare") == {}
    moved = lab.folders_for_jupyter({"IPYTHONDIR": "/mine"}, tmp_path / "gone", tmp_path / "spare")
    assert "IPYTHONDIR" not in moved
    assert moved["JUPYTER_RUNTIME_DIR"] == str(tmp_path / "spare" / "jupyter_runtime_dir")


def test_a_student_gets_lessons_and_exercises_and_nothing_else(of_a_student: tuple[int, str]) -> None:
    _, address = of_a_student
    assert names(address, "") == ["AGENTS.md", "lessons", "my_course.md"]  # this course has no exercises
    assert names(address, "lessons") == ["lesson_00_start_here.ipynb"]
    page = ask(address, "lab").decode()
    for panel in ("formgrader", "create-assignment", "course-list", "assignment-list", "menu"):
        assert f'"@jupyter/nbgrader:{panel}"' in page  # among the disabled ones
    assert '"@jupyter/nbgrader:validate-assignment"' not in page
    assert default_of(address, "apputils-extension:notification", "fetchNews") == "false"
    assert default_of(address, "apputils-extension:notification", "checkForUpdates") is False
    assert default_of(address, "notebook-extension:tracker", "codeCellConfig")["lineNumbers"] is True
    assert default_of(address, "docmanager-extension:plugin", "defaultViewers") == {"markdown": "Markdown Preview"}
    style = ask(address, "custom/custom.css")
    assert b"word-break: normal" in style and b"overflow-x: auto" in style
    assert asyncio.run(said_in_a_terminal(address, "command -v distlib")).endswith("/distlib")


@pytest.mark.slow
def test_it_opens_where_the_student_was(course: Path, root: Path) -> None:
    shutil.copy(root / "course" / "01_messages.ipynb", course / "course")
    with running_lab(course) as (_, address):
        assert "/lab/tree/lessons/lesson_00_start_here.ipynb?token=" in address
        run_first_cell(course / "work" / "lessons" / "lesson_01_messages.ipynb")
    kept = json.loads((course / "work" / "progress" / "notebooks.json").read_text())  # when it ended
    assert list(kept["notebooks"]) == ["lessons/lesson_01_messages.ipynb"]
    with running_lab(course) as (_, address):
        assert "/lab/tree/lessons/lesson_01_messages.ipynb?token=" in address
    with running_lab(course, options=["--from-start"]) as (_, address):
        assert "/lab/tree/lessons/lesson_00_start_here.ipynb?token=" in address


def run_first_cell(path: Path) -> None:
    """As if a student had run the first code cell of a notebook that counts, and saved it."""
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    next(cell for cell in code if "folded" not in cell["metadata"].get("tags", []))["execution_count"] = 1
    path.write_text(json.dumps(notebook))


def test_what_it_says_before_it_starts(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copies.bring_copies(course)
    assert lab.where_to_open(course, from_start=False) == Path("lessons/lesson_00_start_here.ipynb")
    assert "Next: " not in capsys.readouterr().out  # on the first day there is nothing to tell
    run_first_cell(course / "work" / "lessons" / "lesson_00_start_here.ipynb")
    lab.where_to_open(course, from_start=False)
    assert "Next: Go on with lesson 00, Start here: 1 of " in capsys.readouterr().out


@pytest.mark.slow
def test_an_instructor_sees_the_whole_course(course: Path) -> None:
    with running_lab(course, options=["--instructor"]) as (_, address):
        assert "/lab/tree/course/00_start_here.ipynb?token=" in address
        assert names(address, "") == ["course"]
        assert "@jupyter/nbgrader:" not in ask(address, "lab").decode()
    assert not (course / "work").exists()


def ask(address: str, path: str) -> bytes:
    """What JupyterLab answers to a request. address: that of a page on it."""
    server, token = address.split("lab/tree")[0], address.split("token=")[1]
    with urllib.request.urlopen(f"{server}{path}?token={token}", timeout=100) as answer:
        return bytes(answer.read())


def names(address: str, folder: str) -> list[str]:
    """What the file browser shows in a folder."""
    return sorted(entry["name"] for entry in json.loads(ask(address, f"api/contents/{folder}"))["content"])


def default_of(address: str, plugin: str, setting: str) -> Any:
    """The default of one of JupyterLab's settings."""
    return json.loads(ask(address, f"lab/api/settings/@jupyterlab/{plugin}"))["schema"]["properties"][setting][
        "default"
    ]


async def said_in_a_terminal(address: str, command: str) -> str:
    """What a command prints in a terminal of JupyterLab, up to the end of its last line."""
    server, token = address.split("lab/tree")[0], address.split("token=")[1]
    post = urllib.request.Request(f"{server}api/terminals?token={token}", method="POST")
    with urllib.request.urlopen(post, timeout=100) as answer:
        name = json.load(answer)["name"]
    url = f"{server.replace('http', 'ws', 1)}terminals/websocket/{name}?token={token}"
    connection = await websocket_connect(url)
    await connection.write_message(json.dumps(["stdin", f"printf 'BE''GIN%sEND\\n' \"$({command})\"\n"]))
    seen = ""
    while not (found := re.search("BEGIN(.*)END", seen, re.DOTALL)):
        message = await asyncio.wait_for(connection.read_message(), 60)
        assert message is not None, seen
        seen += str(json.loads(message)[1]) if json.loads(message)[0] == "stdout" else ""
    return found[1]


@pytest.mark.parametrize("environment", [{}, {"JUPYTER_TOKEN": ""}])
def test_there_is_always_a_token(environment: dict[str, str]) -> None:
    first, second = lab.own_token(environment), lab.own_token(environment)
    assert len(first) == len(second) == 48 and first != second
    assert lab.own_token({"JUPYTER_TOKEN": "mine"}) == "mine"

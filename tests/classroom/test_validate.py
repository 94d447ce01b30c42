"""The button Validate: the server answers others meanwhile, a lesson has no tests, and bad news reaches the page."""

from __future__ import annotations

import http.client
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import nbformat
import psutil
import pytest
from nbformat import NotebookNode

from distlib.classroom.self_check.validate import NO_TESTS
from distlib.cli import lab
from tests.cli.test_lab import ask
from tests.tools.lab_process import running_lab
from tests.tools.midst import becomes_so, until_there

FOLDER = "work/mine"
PATIENCE = 200.0  # seconds


@pytest.fixture(scope="module")
def course(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with one lesson."""
    folder = tmp_path_factory.mktemp("validate")
    (folder / "course").mkdir()
    shutil.copy(root / lab.FIRST_LESSON, folder / "course")
    return folder


@pytest.fixture(scope="module")
def address(course: Path) -> Iterator[str]:
    """Of a page of its JupyterLab."""
    with running_lab(course) as (_, address):
        yield address


def graded(source: str) -> NotebookNode:
    """A notebook with one test cell."""
    about = {"grade_id": "test", "grade": True, "solution": False, "locked": True, "points": 1, "schema_version": 3}
    cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": {**about, "cell_type": "code"}})
    cells = [nbformat.v4.new_code_cell("from pathlib import Path"), cell]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def write(course: Path, notebook: NotebookNode) -> str:
    """Put it into the student's folder. Returns its path for the server."""
    folder = course / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / "it.ipynb")
    return "mine/it.ipynb"


def where(path: str) -> str:
    """Where the page asks for it."""
    return f"assignments/validate?{urlencode({'path': path})}"


def press(address: str, path: str) -> dict[str, Any]:
    """Press the button on a notebook; what the page gets."""
    server, token = address.split("lab/tree")[0], address.split("token=")[1]
    request = urllib.request.Request(server + where(path), b"", {"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return dict(json.loads(answer.read()))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_server_answers_others_meanwhile(address: str, course: Path) -> None:
    path = write(course, graded("while not Path('go').exists(): pass"))
    with ThreadPoolExecutor() as pool:
        pressed = pool.submit(press, address, path)
        assert json.loads(ask(address, "api/status"))["started"]
        assert not pressed.done()
        (course / FOLDER / "go").touch()
        assert pressed.result() == {"success": True, "value": {}}


def test_a_test_that_fails_is_named(address: str, course: Path) -> None:
    value = press(address, write(course, graded("assert 1 + 1 == 3, 'no'")))["value"]
    assert [cell["source"] for cell in value["failed"]] == ["assert 1 + 1 == 3, 'no'"]
    assert "no" in value["failed"][0]["error"]


def test_a_lesson_has_no_tests(address: str) -> None:
    assert press(address, "lessons/lesson_00_start_here.ipynb") == {"success": False, "value": NO_TESTS}


@pytest.mark.slow
def test_bad_news_reaches_the_page(address: str, course: Path) -> None:
    for missing in ("mine/no_such.ipynb", "no_such_folder/no_such.ipynb"):
        gone = {"success": False, "value": "There is no no_such.ipynb in its folder any more."}
        assert press(address, missing) == gone
    with pytest.raises(urllib.error.HTTPError, match="403"):
        press(address, "../course/00_start_here.ipynb")
    gone = press(address, write(course, graded("import os; os.kill(os.getppid(), 9)")))
    assert gone == {"success": False, "value": "It has ended in the middle: is there memory left?"}


@pytest.mark.timeout(600)
def test_a_page_that_is_closed_ends_the_run(address: str, course: Path) -> None:
    path = write(course, graded("Path('began').touch()\nwhile True: pass"))
    server, token = urlsplit(address), address.split("token=")[1]
    page = http.client.HTTPConnection(server.hostname or "", server.port, timeout=PATIENCE)
    page.request("POST", f"/{where(path)}", headers={"Authorization": f"token {token}"})
    until_there(course / FOLDER, "began", patience=PATIENCE)
    page.close()
    assert _all_end(course)


def _all_end(course: Path) -> bool:
    """Whether no process works in the student's folder any more, at once or soon."""
    return becomes_so(lambda: all(_folder_of(process) != course / FOLDER for process in psutil.process_iter()), 60)


def _folder_of(process: psutil.Process) -> Path | None:
    try:
        return Path(process.cwd())
    except psutil.Error:
        return None

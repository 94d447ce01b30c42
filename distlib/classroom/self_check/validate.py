"""What JupyterLab's button Validate does, in a process of its own: an extension of the server, in place of nbgrader's.

    browser ──/assignments/validate──► server ──starts──► python -m … NOTEBOOK: nbgrader's validator, which runs it
            ◄─────────────────────────────── what it prints ◄──┘

nbgrader's own runs the notebook inside the server, which answers nobody meanwhile: after half a minute the page says
that it has lost its connection. And a lesson has no tests: this one says so, at once. Above the words of a test that
fails stands what the text of the function's cell shows: that it is not Python, and in which line. The result appears
over whatever is open by then, so what fails names its notebook. What passes is kept, as of any other check.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import zmq
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from nbgrader.apps import NbGrader
from nbgrader.server_extensions.validate_assignment.handlers import (
    NbGraderVersionHandler,
    ValidateAssignmentHandler,
)
from nbgrader.validator import Validator
from tornado import web

import distlib
from distlib.classroom.grader.check_message import function_of
from distlib.classroom.grader.submission import read_submission
from distlib.classroom.my_course.after_check import finished
from distlib.classroom.my_course.last_check import read_check
from distlib.classroom.self_check.results import FAILS, NOT_WRITTEN, PASSES, Result, Results, row_of
from distlib.classroom.uploads.answers import ANSWERED, STUB, read_answers
from distlib.classroom.uploads.graded_with import graded_with
from distlib.classroom.uploads.recognize import cell_of, functions_of
from distlib.course_root import course_folder

NO_TESTS = "This notebook has no tests: the button is for exercises. To run a lesson: Run > Run All Cells."


class ValidateHandler(ValidateAssignmentHandler):
    """Answers as nbgrader's does, and lets the server do other work meanwhile."""

    _process: asyncio.subprocess.Process | None = None

    @web.authenticated
    async def post(self) -> None:
        root = Path(self.root_dir).resolve()
        path = (root / self.get_argument("path")).resolve()
        if not path.is_relative_to(root):
            raise web.HTTPError(403, "Access denied: path outside allowed directory")
        if not path.is_file():
            self.finish(json.dumps({"success": False, "value": f"There is no {path.name} in its folder any more."}))
            return
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, path.name), cwd=path.parent, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await self._process.communicate()
        failed = json.dumps({"success": False, "value": "It has ended in the middle: is there memory left?"})
        self.finish(failed if self._process.returncode else printed.decode())

    def on_connection_close(self) -> None:
        """The page is gone: so nobody waits any more, and the notebook need not run on."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    settings = server.web_app.settings
    settings["root_dir"] = server.root_dir
    handlers = {"/assignments/validate": ValidateHandler, "/nbgrader_version": NbGraderVersionHandler}
    server.web_app.add_handlers(
        ".*$", [(url_path_join(settings["base_url"], path), to) for path, to in handlers.items()]
    )


def validate(path: Path) -> dict[str, Any]:
    """What nbgrader says of a notebook's tests, as the page wants it: "success", and as "value" the result, or why not.

    Its folder must be the working folder.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
        if not any("nbgrader" in cell.metadata for cell in notebook.cells):
            return {"success": False, "value": NO_TESTS}
        app = NbGrader()
        app.load_config_file()
        if zmq.has("curve"):
            app.config.KernelManager.transport_encryption = "auto"  # as JupyterLab's own kernels, see cli.lab
        said = Validator(config=app.config).validate(str(path))
        answer = {"success": True, "value": with_its_name(with_causes(said, path), path)}
    except Exception as error:  # whatever it is, the student is to read it
        return {"success": False, "value": f"{path.name}: {type(error).__name__}: {error}"}
    with contextlib.suppress(Exception):  # the result is worth more than that it is kept
        keep_result(said, path.resolve())
    return answer


def with_its_name(value: dict[str, Any], path: Path) -> dict[str, Any]:
    """What nbgrader says, with the notebook's name above the first cell that fails: the page shows no other place."""
    if not value.get("failed"):
        return value
    first, *others = value["failed"]
    told = f"{path.name}, as it was saved at {time.strftime('%H:%M:%S', time.localtime(path.stat().st_mtime))}:\n\n"
    named = {**first, "error": html.escape(told) + first["error"], "raw_error": told + first["raw_error"]}
    return {**value, "failed": [named, *others]}


def keep_result(value: dict[str, Any], path: Path) -> None:
    """Keep which functions pass, if nbgrader has run the tests, and the notebook is the student's own copy.

    Args:
        value: what nbgrader says.
        path: of the notebook.

    Raises:
        OSError: it can't be read.
    """
    course = course_folder(path.parent)
    if course is None or value.keys() - {"failed"}:
        return
    cells = read_submission(path).cells
    names = {cell.source.strip(): function_of(cell.grade_id) or cell.grade_id for cell in cells if cell.grade_id}
    failed = {names.get(each["source"], "") for each in value.get("failed", ())}
    tested = {function_of(cell.grade_id) for cell in cells if cell.grade_id.endswith("_visible")}
    last, rows = read_check(course, path.stem)[0], []
    has_hidden = (course / "solutions").is_dir()  # tests that nbgrader has not run: what they have said stays
    for answer in read_answers(cells, [each for each in functions_of(cells) if each in tested]):
        cell = cell_of(cells, answer.function)
        source = cell.source if cell and not answer.is_empty else ""
        fails = answer.function in failed or (has_hidden and last.verdict(answer.function, source) == FAILS)
        rows.append(
            row_of(answer.function, Result((FAILS if fails else PASSES) if source else NOT_WRITTEN), None, source)
        )
    finished(Results(path.stem, "", rows, []), path)


def with_causes(value: dict[str, Any], path: Path) -> dict[str, Any]:
    """What nbgrader says, with what the text of a function's cell shows above the error of its test.

    Args:
        value: the cells that fail, with their source and error.
        path: of the notebook.
    """
    cells = read_submission(path).cells
    graded = graded_with(course_folder(path.resolve().parent) or Path(distlib.__file__).parents[1])
    answers = read_answers(cells, functions_of(cells), graded_with=graded)
    faults = {each.function: each.state for each in answers if each.state not in (ANSWERED, STUB)}
    tests = {cell.source.strip(): function_of(cell.grade_id) for cell in cells if cell.grade_id}
    failed = [_with_cause(each, tests.get(each["source"], ""), faults) for each in value.get("failed", ())]
    return {**value, "failed": failed} if failed else value


def _with_cause(failed: dict[str, str], function: str, faults: Mapping[str, str]) -> dict[str, str]:
    """A cell that fails, with the fault of its function; as it is, if that has none."""
    if function not in faults:
        return failed
    told = f"{function}: {faults[function]}\n\n"
    return {**failed, "error": html.escape(told) + failed["error"], "raw_error": told + failed["raw_error"]}


if __name__ == "__main__":
    print(json.dumps(validate(Path(sys.argv[1]))))

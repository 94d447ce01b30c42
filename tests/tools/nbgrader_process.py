"""nbgrader's commands, each in a fork of one process that has imported nbgrader.

A command takes four seconds of the processor, most of them for imports. So they are imported once, and a command is
what a fresh Python would make of it from there: a process of its own, with its own folder, arguments and output.

    tests ──a line of JSON──► one process with nbgrader imported ──fork──► a command, whose exit status goes back
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
_IMPORTS = "nbgrader.apps.nbgraderapp, nbgrader.converters, nbgrader.plugins, distlib.classroom.grader.feedback_page"


def nbgrader(folder: Path, *words: str) -> str:
    """Run `nbgrader` with these words in a folder. Returns all that it prints."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
        order = {"folder": str(folder), "words": words, "output": output.name}
        status = _status_of(order)
        printed = output.read()
    assert status == 0, f"nbgrader {' '.join(words)}: status {status}\n{printed}"
    return printed


def _status_of(order: dict[str, object]) -> int:
    """Have a command run. Its exit status; -9 if the process that runs commands has ended."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    try:
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline() or -9)
    except BaseException:  # a test's time limit, for one: what it would answer belongs to nobody
        _server.cache_clear()
        server.kill()
        raise


@functools.cache
def _server() -> subprocess.Popen[str]:
    program = f"import {_IMPORTS}; from tests.tools.nbgrader_process import serve; serve()"
    started = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(_end, started)
    return started


def _end(server: subprocess.Popen[str]) -> None:
    server.communicate()  # it ends when its input does


def serve() -> None:
    """Run one command after the other, until there are no more."""
    gc.freeze()  # so that a child's garbage collector leaves the shared pages alone
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(folder: str, words: list[str], output: str) -> NoReturn:
    """Be `python -m nbgrader` in a folder. To clear away what was imported would take a second; the system does it."""
    for stream, path, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY), (2, output, os.O_WRONLY)):
        opened = os.open(path, flags | (os.O_APPEND if stream else 0))
        os.dup2(opened, stream)
        os.close(opened)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv = ["nbgrader", *words]
    status = 1
    try:
        runpy.run_module("nbgrader", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

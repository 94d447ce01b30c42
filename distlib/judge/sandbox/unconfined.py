"""No sandbox: the processes of students run as the instructor, with the instructor's rights.

Limits still hold where the system has them, and on Linux the filter for system calls refuses other processes and the
network. But a student's code can read, and change, every file that the instructor can. For trying things out, for
submissions that somebody has read, and for machines without anything better.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from distlib.judge.sandbox import contents
from distlib.judge.sandbox.isolation import VARIABLE, SandboxSettings
from distlib.judge.sandbox.kinds import Confined, Sandbox
from distlib.judge.sandbox.limits import Limits
from distlib.own_folders import open_at_once, own_folders

_PREFIX = "distlib-ranks-"


class Unconfined(Sandbox):
    """Runs commands as they are, in a process group and a folder of their own."""

    name = "none"
    warning = (
        "No sandbox: the code of students runs with your rights. It can read and change your files, the gradebook "
        "and the hidden tests among them. For a class, install bubblewrap (apt install bubblewrap)."
    )

    def start(self, command: Sequence[str], pass_fds: Sequence[int], limits: Limits) -> Confined:
        _remove_abandoned(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _lock(folder)
        library = _lay_out_library(folder / "library")
        settings = SandboxSettings(separate=False, first_user=None, home=str(folder / "home"), limits=limits)
        (folder / "home").mkdir()
        errors = tempfile.TemporaryFile()
        process = subprocess.Popen(
            command,
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**contents.environment(settings.home, str(library)), VARIABLE: settings.to_text()},
            cwd=settings.home,
            start_new_session=True,
        )

        def end() -> None:
            _end_group(process)
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()

        return Confined(process, errors, end)


def _lock(folder: Path) -> TextIO:
    """A lock on a folder, which the system takes away with this process, however that ends."""
    file = (folder / "lock.new").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    (folder / "lock.new").rename(folder / "lock")  # never there without being locked
    return file


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of graders that were killed."""
    for folder in own_folders(parent, _PREFIX):
        with contextlib.suppress(OSError), open(open_at_once(folder / "lock")) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _lay_out_library(folder: Path) -> Path:
    for name, source in contents.library_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(source)
    return folder


def _end_group(process: subprocess.Popen[bytes], patience: float = 30.0) -> None:
    """Kill a process and those it has forked, and wait until the system has taken them away."""
    ends = time.monotonic() + patience
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while time.monotonic() < ends:
            os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.005)

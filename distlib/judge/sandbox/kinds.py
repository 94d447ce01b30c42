"""What every kind of sandbox can do: start a command, and end it with everything that it has started."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import BinaryIO

from distlib.judge.sandbox.limits import Limits

TRIAL_SECONDS = 100.0
_TRIAL = """
import os
from distlib.judge.sandbox import fork_rank
errors = os.dup(2)
try:
    child = fork_rank(0, [errors])
except OSError as error:
    os.write(errors, str(error).encode())
    os._exit(1)
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Confined:
    """A command that runs in a sandbox.

    Args:
        process: the process here that stands for it.
        errors: the file that it has as stderr.
        end: ends what ending `process` would leave behind.
    """

    def __init__(self, process: subprocess.Popen[bytes], errors: BinaryIO, end: Callable[[], None]) -> None:
        self.pid = process.pid
        self._process, self._errors, self._end = process, errors, end
        self._killed = False

    def poll(self) -> int | None:
        """The status it has ended with; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int:
        """Wait for its end and return its status. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def kill(self) -> None:
        """End it. When this returns, all processes in the sandbox and all their files are gone."""
        if not self._killed:
            self._killed = True
            self._end()
            self._process.wait()
            self._errors.close()

    def last_words(self) -> str:
        """The last 4,000 characters that it has written to stderr: why it could not start. "" after `kill`."""
        if self._errors.closed:
            return ""
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - 4_000))
        return self._errors.read().decode(errors="replace").strip()

    def __enter__(self) -> Confined:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Sandbox(ABC):
    """A kind of sandbox.

    Attributes:
        name: which kind.
        warning: what an instructor must know about it; "" for nothing.
        serves_many: whether one of it may serve many submissions, since each rank is separate from all others, has
            limits of its own, and leaves nothing behind.
    """

    name: str
    warning: str = ""
    serves_many: bool = False

    @abstractmethod
    def start(self, command: Sequence[str], pass_fds: Sequence[int], limits: Limits) -> Confined:
        """Start a command in a sandbox of its own. Its first word is this environment's Python (sys.executable).

        Inside, `import distlib` finds what a rank needs and no more, and stdin and stdout lead nowhere. The command
        ends when the thread that called `start` ends, in whatever way.

        Args:
            pass_fds: file descriptors that are open inside, under the same numbers.
            limits: for each rank, see `fork_rank`.

        Raises:
            OSError: it can't be started. A command that fails later just ends; see `Confined.last_words`.
        """

    def problem(self) -> str | None:
        """Why it can't be used on this machine; None if it can. Tries it, with a process that isolates itself."""
        try:
            with self.start([sys.executable, "-c", _TRIAL], [], Limits()) as trial:
                return _failure_of(trial)
        except OSError as error:
            return str(error)


def _failure_of(trial: Confined) -> str | None:
    try:
        status = trial.wait(TRIAL_SECONDS)
    except subprocess.TimeoutExpired:
        return too_slow()
    words = trial.last_words().splitlines()
    return None if status == 0 else (words or [f"ended with status {status}"])[-1]


def too_slow() -> str:
    """What to say of a sandbox that does not start in time."""
    return f"no answer within {TRIAL_SECONDS:g} s: try again when this machine is less busy"


def send_kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)

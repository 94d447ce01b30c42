"""The judge's hold on the nursery: the process in a sandbox that has torch imported, and forks the ranks.

It takes two seconds until a nursery is ready. So it is started first, and asked for ranks later.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys

from distlib.diagnosis import how_it_ended
from distlib.grading.remote.wire import NO_STATUS, Wire
from distlib.grading.sandbox import Limits, Sandbox

_START_SECONDS = 60.0  # for python and torch to be loaded, on a busy machine
_END_SECONDS = 1.0
# While torch is imported there is much to look through for the garbage collector, and nothing to find.
_COMMAND = "import gc; gc.disable(); from distlib.grading.remote.rank_process import main; main()"


class CanNotGrade(Exception):
    """Something is wrong with this machine, not with the student's work. The message says what."""


class Nursery:
    """A nursery in a sandbox of its own, for one submission. Returns at once: it gets ready meanwhile.

    Use as a context manager: at its end all processes of the sandbox are gone.

    Args:
        sandbox: where it lives.
        limits: for its ranks.

    Raises:
        OSError: the sandbox can't be started.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self.limits = limits
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _COMMAND, str(theirs.fileno())]
            self._process = sandbox.start(command, [theirs.fileno()], limits)
        self._control.settimeout(_START_SECONDS)
        self._is_ready = False
        self._prepared: set[str] = set()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes of the sandbox."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)  # it ends its ranks itself
        self._process.kill()

    def fork(self, rank: int) -> tuple[Wire, int]:
        """A new process for a rank: the wire to it, and its number in the nursery.

        Raises:
            CanNotGrade: the nursery does not answer.
        """
        if not self._is_ready:
            self._hear(1)  # its first byte
            self._is_ready = True
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [f"+{rank}".encode().ljust(16)], [theirs.fileno()])
        return Wire(ours), int.from_bytes(self._hear(4), "big")

    def prepare(self, scenarios: str) -> bool:
        """Have a file of scenarios imported, for the ranks to come. False if it was before."""
        is_new = scenarios not in self._prepared
        if is_new:
            self._prepared.add(scenarios)
            self._tell("i", scenarios)
        return is_new

    def end(self, process: int) -> None:
        """End a rank's process."""
        self._tell("-", process)

    def interrupt(self, process: int) -> None:
        """Ask a rank that is computing to say where it is."""
        self._tell("?", process)

    def how_it_ended(self, process: int) -> str:
        """How a rank's process ended that has closed its wire."""
        self._tell("w", process)
        status = int.from_bytes(self._hear(4), "big", signed=True)
        return how_it_ended(None if status == NO_STATUS else status)

    def last_words(self) -> str:
        """What it has written to stderr."""
        return self._process.last_words()

    def _tell(self, kind: str, what: int | str) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(f"{kind}{what}".encode().ljust(16))

    def _hear(self, length: int) -> bytes:
        try:
            data = self._control.recv(length, socket.MSG_WAITALL)
        except TimeoutError:
            raise CanNotGrade(f"the sandbox did not start a rank in {_START_SECONDS:g} s") from None
        if len(data) < length:
            raise CanNotGrade(f"the sandbox has ended before its work was done. {self.last_words()}".strip())
        return data

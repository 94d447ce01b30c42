"""The judge's hold on the fork server in a sandbox, which has torch imported, and on those that it is forked into.

    grader ──SandboxForkServer──► fork server ──fork──► one for each submission ──fork──► its ranks
                                                          ▲
    judge ──SubmissionForkServer──────────────────────────┘

It takes two seconds until one is ready. So it is started first and asked later, and all submissions of a class may come
from the same one.

Why not `distlib.worlds.forkserver`? That one and its kernel trust each other: they send pickles, and it calls whatever
it is told to. This one lives among what students have written, so the judge takes from it a byte or a number, of a
fixed length, and waits only so long; it makes a user and namespaces for each rank, measures their time and watches
their memory; and what it imports is shown in the sandbox (`judge.sandbox.contents`), so that it should be little.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from distlib.judge.remote.orders import NO_STATUS, ORDER_BYTES, TOO_MUCH_MEMORY
from distlib.judge.sandbox import Limits, Sandbox
from distlib.worlds.diagnosis import how_it_ended

if TYPE_CHECKING:
    from distlib.judge.remote.wire import Wire

_START_SECONDS = 180.0  # for python and torch to be loaded, on a busy machine
_END_SECONDS = 1.0
# While torch is imported there is much to look through for the garbage collector, and nothing to find.
_COMMAND = "import gc; gc.disable(); from distlib.judge.remote.sandbox_side import main; main()"


class CanNotGrade(Exception):
    """Something is wrong with this machine, not with the student's work. The message says what."""


class SandboxForkServer:
    """A fork server in a sandbox of its own. Returns at once: it gets ready meanwhile.

    Use as a context manager: at its end all processes of the sandbox are gone.

    Args:
        sandbox: where it lives.
        limits: for the ranks of each submission.

    Raises:
        OSError: the sandbox can't be started.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._limits = limits
        self._has_imported: set[str] = set()
        self._line, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _COMMAND, str(theirs.fileno())]
            self._process = sandbox.start(command, [theirs.fileno()], limits)

    def __enter__(self) -> SandboxForkServer:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        words = self._process.last_words()
        self.close()
        if isinstance(error, CanNotGrade) and words:
            raise CanNotGrade(f"{error} {words}") from None

    def close(self) -> None:
        """End all processes of the sandbox."""
        self._line.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)  # it ends when its line does
        self._process.kill()

    def has_ended(self) -> bool:
        """Whether the sandbox is gone: somebody has killed it."""
        return self._process.poll() is not None

    def for_submission(self, frameworks: Iterable[str] = ()) -> SubmissionForkServer:
        """Fork one for a submission. If the sandbox has ended, it says so when it is asked for something.

        Args:
            frameworks: what to have imported in it, see `distlib.judge.remote.frameworks`.
        """
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(OSError):
            for name in sorted(set(frameworks) - self._has_imported):
                self._line.sendall(_order("i", name))
                self._has_imported.add(name)
            socket.send_fds(self._line, [_order("+")], [theirs.fileno()])
        return SubmissionForkServer(ours, self._limits)


class SubmissionForkServer:
    """A process that forks the ranks of one submission, and ends them.

    Use as a context manager: at its end the ranks are gone. It can be sent to a process that `multiprocessing` starts.

    Args:
        connection: to the process. Made by `SandboxForkServer.for_submission`.
        limits: for the ranks.
    """

    def __init__(self, connection: socket.socket, limits: Limits) -> None:
        self.limits = limits
        self._control = connection
        self._is_ready = False
        self._prepared: set[str] = set()

    def __enter__(self) -> SubmissionForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()

    def fork(self, rank: int) -> tuple[Wire, int]:
        """A new process for a rank: the wire to it, and its number in the sandbox.

        Raises:
            CanNotGrade: the fork server does not answer.
        """
        from distlib.judge.remote.wire import Wire  # takes torch along: a sandbox starts while that is imported here

        self._wait_until_ready()
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self._control, [_order("+", rank)], [theirs.fileno()])
        return Wire(ours), int.from_bytes(self._hear(4), "big")

    def prepare(self, plays: str) -> bool:
        """Have a file of plays imported, for the ranks to come. False if it was before."""
        is_new = plays not in self._prepared
        if is_new:
            self._prepared.add(plays)
            self._tell("i", plays)
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
        if status == TOO_MUCH_MEMORY:
            return too_much_memory(self.limits)
        return how_it_ended(None if status == NO_STATUS else status)

    def processor_seconds(self) -> float:
        """How long all ranks have kept a core busy so far, together.

        Raises:
            CanNotGrade: the fork server does not answer.
        """
        self._wait_until_ready()
        self._tell("c", "")
        return int.from_bytes(self._hear(8), "big") / 1e6

    def _wait_until_ready(self) -> None:
        if not self._is_ready:
            self._hear(1)  # its first byte
            self._is_ready = True

    def _tell(self, kind: str, what: int | str) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(_order(kind, what))

    def _hear(self, length: int) -> bytes:
        self._control.settimeout(_START_SECONDS)
        try:
            data = self._control.recv(length, socket.MSG_WAITALL)
        except TimeoutError:
            raise CanNotGrade(f"the sandbox did not start a rank in {_START_SECONDS:g} s") from None
        except ConnectionError:  # it was killed before it had read what it was told
            data = b""
        if len(data) < length:
            raise CanNotGrade("the sandbox has ended before its work was done.")
        return data


def _order(kind: str, what: int | str = "") -> bytes:
    order = f"{kind}{what}".encode().ljust(ORDER_BYTES)
    assert len(order) == ORDER_BYTES, f"what is imported has a name of at most {ORDER_BYTES - 1} bytes, got {what}"
    return order


def too_much_memory(limits: Limits) -> str:
    """How a rank ended that took too much."""
    return f"it was ended, since all ranks together took more than {limits.together_bytes / 2**30:.2g} GiB of memory"

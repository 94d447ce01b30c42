"""The kernel's side of a fork server: start it, ask it for processes, signal them, learn how they ended."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distlib.worlds.forkserver.channel import Channel

_PATIENCE = 180.0  # seconds for an answer: importing torch from a cold disk can take long, on a busy machine very long
_END_PATIENCE = 10.0  # seconds for it to end all that it has forked, and itself: else nobody would end them


@dataclass(frozen=True)
class ProcessEnd:
    """How a process has ended.

    Attributes:
        name: as it was called when it was spawned.
        status: its exit code, or minus the signal that killed it.
        peak_bytes: the most memory that it used.
    """

    name: Hashable
    status: int
    peak_bytes: int


class ForkServer:
    """The kernel's handle of a fork server, which gets ready in the background.

    Args:
        module: it has a function `serve`, which the fork server calls with the number of its end of the channel. That
            imports what is needed, calls `service.serve`, and in each process that it gets from there does the work.
        environment: of the fork server, and what it forks.
        processes: what it forks, in the words of an error: "ranks".
        wrapper: the beginning of a command that runs it somewhere else.

    Attributes:
        owner: the process that has started it.
        ended: by name, how processes have ended; complete after `look`.
    """

    def __init__(
        self, module: str, environment: Mapping[str, str], *, processes: str, wrapper: Sequence[str] = ()
    ) -> None:
        self.owner = os.getpid()
        self.ended: dict[Hashable, ProcessEnd] = {}
        self._processes = processes
        self._lock = threading.RLock()
        self._unanswered = 0
        occupy_standard_streams()
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self._channel.wait_at_most(_PATIENCE)
        self._errors = tempfile.TemporaryFile()
        with theirs:
            self._process = subprocess.Popen(
                [*wrapper, *fresh_python(f"from {module} import serve; serve({theirs.fileno()})")],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # an interrupt from the keyboard is for the kernel, which passes it on
            )

    def fileno(self) -> int:
        """For select: readable when there is something to `receive`."""
        return self._channel.fileno()

    @property
    def alive(self) -> bool:
        """Whether it can be asked for anything; false in a process that was forked from the kernel."""
        return self.fileno() >= 0 and self.owner == os.getpid() and self._process.poll() is None

    def order(self, kind: str, *values: Any, files: Sequence[int] = ()) -> None:
        """Tell it to do something, see `service`, and don't wait. If it can't, whatever is received next says so."""
        with self._lock, self._whole():
            self._unanswered += 1
            with contextlib.suppress(OSError):
                self._channel.send((kind, *values), files)

    def ask(self, kind: str, *values: Any, files: Sequence[int] = (), patience: float = _PATIENCE) -> Any:
        """Tell it to do something, wait until it has, and return what it answers.

        Raises:
            OSError: a process could not be forked.
            RuntimeError: the fork server has ended, or does not answer within `patience` seconds.
        """
        with self._lock, self._whole():
            self.order(kind, *values, files=files)
            self._channel.wait_at_most(patience)
            while self._unanswered:
                received = self.receive()
            self._channel.wait_at_most(_PATIENCE)
        return received

    def receive(self) -> Any:
        """The next that it tells: how a process has ended, as `ProcessEnd`, or the answer to an order.

        Raises: as `ask`.
        """
        try:
            (kind, *values), _ = self._channel.receive()
        except TimeoutError:
            raise RuntimeError(f"the fork server of the {self._processes} does not answer. {self._words()}") from None
        except (EOFError, OSError):
            self._channel.close()  # now, since it may take a moment to end, in which it would seem to be alive
            text = f"the fork server of the {self._processes} has ended, and they with it. {self._words()}"
            raise RuntimeError(text) from None
        if kind == "ended":
            self.ended[values[0]] = ended = ProcessEnd(*values)
            return ended
        self._unanswered -= 1
        if kind == "failed":
            raise OSError(f"{self._processes} could not be started: {values[0]}")
        return values[0]

    def spawn(self, name: Hashable, arguments: Any, files: Sequence[int]) -> None:
        """Order a process, which gets the arguments and its own copies of the files. `name`: no other one has it."""
        self.order("spawn", name, arguments, files=files)

    def signal(self, names: Sequence[Hashable], number: int) -> None:
        """Send a signal to those processes that still exist. SIGKILL also ends what they have started."""
        self.order("signal", list(names), int(number))

    def exit_statuses(self, names: Sequence[Hashable]) -> list[int | None]:
        """How each process has ended: its exit code, or minus the signal that killed it; None for one that runs."""
        self.ask("look")
        return [self.ended[name].status if name in self.ended else None for name in names]

    def close(self) -> None:
        """End the fork server with all that it has forked. Returns when they are gone."""
        self._channel.close()
        try:
            self._process.wait(_END_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._errors.close()

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """An interrupt in the block may have cut a request or an answer in half: then the fork server ends."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self.close()
            raise

    def _words(self) -> str:
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()
        return f"It said:\n{words}" if words else "Run `distlib doctor` to find out why."


def occupy_standard_streams() -> None:
    """Where a standard stream is closed, as a daemon's is, open it to nowhere: else a pipe takes its place.

    The places 0, 1 and 2 of a process are what its children read and write as their standard streams.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)


def fresh_python(program: str) -> list[str]:
    """The command of a new Python. It imports from where this one does.

    Args:
        program: what it runs. The garbage collector is off, since it finds nothing while modules are imported; when
            that is done, `service.freeze` turns it on.
    """
    path = list(dict.fromkeys([*sys.path, str(Path(__file__).absolute().parents[3])]))
    return [sys.executable, "-c", f"import gc, sys; gc.disable(); sys.path[:] = {path!r}; {program}"]

"""A judge and a fork server in small, for tests of the sandbox: ranks that run whatever text they are sent.

In the midst of a text, `tell("begun")` lets `Rank.hear` return ("begun", None).
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from distlib.judge.sandbox import Confined, Limits, Sandbox

# As the real one: imports first, then one fork for each rank, whose wire comes as a file descriptor.
FORK_SERVER = """
import contextlib, json, os, signal, socket, sys
{imports}
from distlib.judge.sandbox import fork_rank

control = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
control.sendall(b"r")
while True:
    message, fds, _, _ = socket.recv_fds(control, 16, 1)
    if not message:
        break
    if not fds:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(message), signal.SIGKILL)
        continue
    child = fork_rank(int(message), fds)
    if child:
        os.close(fds[0])
        control.sendall(child.to_bytes(4, "big"))
        continue
    control.detach()
    wire = socket.socket(fileno=fds[0])
    tell = lambda what: wire.sendall(json.dumps([what, None]).encode() + b"\\n")
    lines, names = wire.makefile("r"), {{"__name__": "__main__", "tell": tell}}
    while True:
        try:
            exec(json.loads(lines.readline()), names)
            told = ["done", names.pop("told", None)]
        except BaseException as error:
            told = [type(error).__name__, str(error)]
        wire.sendall(json.dumps(told, default=repr).encode() + b"\\n")
"""


class Rank:
    """A rank in a sandbox."""

    def __init__(self, pid: int, wire: socket.socket) -> None:
        self.pid = pid  # as the fork server numbers its children
        self.wire = wire
        self._lines = wire.makefile("r")

    def run(self, text: str) -> tuple[str, Any]:
        """Run a text there. ("done", what it has put into `told`), or the type of its exception, and the message."""
        self.wire.sendall(json.dumps(text).encode() + b"\n")
        return self.hear()

    def hear(self) -> tuple[str, Any]:
        """What the rank says next; ("ended", None) if it has ended."""
        try:
            line = self._lines.readline()
        except ConnectionError:
            line = ""
        return tuple(json.loads(line)) if line else ("ended", None)


class Ranks:
    """The ranks of one sandbox."""

    def __init__(self, sandbox: Sandbox, limits: Limits | None = None, imports: str = "") -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(60)
        program = FORK_SERVER.format(imports=imports)
        with theirs:
            command = [sys.executable, "-c", program, str(theirs.fileno())]
            self.confined: Confined = sandbox.start(command, [theirs.fileno()], limits or Limits())
        if self._control.recv(1) != b"r":
            words = self.confined.last_words()
            self.close()
            raise AssertionError(words)

    def start(self, number: int) -> Rank:
        """A new process for rank `number`."""
        ours, theirs = socket.socketpair()
        ours.settimeout(60)
        with theirs:
            socket.send_fds(self._control, [str(number).encode().ljust(16)], [theirs.fileno()])
        pid = self._control.recv(4, socket.MSG_WAITALL)
        assert len(pid) == 4, self.confined.last_words()
        return Rank(int.from_bytes(pid, "big"), ours)

    def end(self, rank: Rank) -> None:
        """Have the fork server kill a rank's process."""
        self._control.sendall(str(rank.pid).encode().ljust(16))

    def close(self) -> None:
        """End the sandbox."""
        self.confined.kill()
        self._control.close()

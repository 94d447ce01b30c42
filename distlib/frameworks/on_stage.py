"""The process that those of a demonstration are forked from, and that ends them.

    kernel ──socket──► stage ──fork──┬──► chief
                                     ├──► worker 0
                                     └──► ps 0

To import TensorFlow takes ten seconds of the processor, a fork milliseconds. So the stage imports it once, for all sets
of processes that it is asked for. A fork is safe as long as nothing has been computed: TensorFlow and JAX start
neither threads nor devices before their first use. The stage computes nothing, and has one thread whenever it forks.

The kernel sends orders; the stage reports each process that ends. One line of JSON each:

    {"import": ["tensorflow"]}                         before processes are started that need it
    {"start": "worker 0", "environment": …, "command": …}   with four open files: call, output, result, stack
    {"watch": true}                                    all are started
    {"signal": ["worker 0", 9]}                        send signal 9 to worker 0
    {"end": true}                                      end all of them
    ["worker 0", -9, 730000000]                  ◄──   it has ended: its exit status, its peak memory in bytes
    []                                           ◄──   all are gone: the stage is free for another set

When the kernel's end of the socket closes, however the kernel ended, all processes are killed, and the stage ends.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP: netdevice(7)
_REQUEST = "16sh22x"  # struct ifreq: an interface's name and flags
_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
FILES = 4  # that come along with an order to start
TRIAL = "trial"


def main(argument: str) -> None:
    """Follow the kernel's orders. argument: the socket's file number, or "trial" to see whether a stage works."""
    if sys.platform == "linux":
        raise_loopback()
    if argument == TRIAL:
        socket.create_server(("127.0.0.1", 0)).close()
        return
    has_returned = threading.Event()
    atexit.register(leave, has_returned)  # before anything that is imported now registers what is to be done at the end
    files = serve(socket.socket(fileno=int(argument)))
    if files is not None:  # this is a fork: from here it is like any Python that has just begun, and ends like one
        from distlib.frameworks import in_process

        in_process.main(*files)
        has_returned.set()


def leave(has_returned: threading.Event) -> None:
    """The last thing a process does: not to take apart all that was imported, which would take longer than the rest."""
    if has_returned.is_set():
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def serve(control: socket.socket) -> tuple[int, int] | None:
    """The life of the stage, until the kernel is gone: None.

    In each process that it forks, this returns as well: the files for its result and its stack.
    """
    control.set_inheritable(False)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until a process can answer it, it does no harm
    adopt_orphans()
    running: dict[str, Child] = {}
    for order, files in orders(control):
        match order:
            case {"import": names}:
                import_for_all(names, control)
            case {"start": name, "environment": environment, "command": command}:
                running[name] = child = fork()
                if child.pid == 0:
                    control.close()
                    return begin(environment, command, *files)
                for file in files:
                    os.close(file)
            case {"watch": _}:
                watch(running, control)
            case {"signal": [name, number]}:
                send_signal(running[name], number)
            case {"end": _}:
                end_all(running)
                control.sendall(b"[]\n")
    end_all(running)
    return None


def orders(control: socket.socket) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """What the kernel sends, with the files that come along, until it is gone."""
    text, files = b"", array.array("i")
    while True:
        try:
            data, received, _, _ = socket.recv_fds(control, 65536, 16 * FILES)
        except ConnectionError:  # the kernel is gone and has not read all reports
            return
        if not data:
            return
        for file in received:
            os.set_inheritable(file, False)
        files.extend(received)
        *lines, text = (text + data).split(b"\n")
        for line in lines:
            order = json.loads(line)
            count = FILES if "start" in order else 0
            yield order, [files.pop(0) for _ in range(count)]


# ── before the processes ─────────────────────────────────────────────────────────────────────────────────────────────


def raise_loopback() -> None:
    """A new network has a loopback interface, but it is down. Elsewhere it is up, and stays as it is.

    Raises:
        PermissionError: it is down, and this process may not change that.
    """
    with socket.socket() as any_socket:
        _, flags = struct.unpack(_REQUEST, fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack(_REQUEST, b"lo", 0)))
        if not flags & _UP:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack(_REQUEST, b"lo", flags | _UP))
            socket.sethostname("localhost")  # what looks for this machine's own address finds one that is there


def adopt_orphans() -> None:
    """Linux: what outlives the process that started it becomes a child of the stage, which can end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)


def import_for_all(names: Sequence[str], control: socket.socket) -> None:
    """Import what is not imported yet. What can't be imported is left to the processes, which say why."""
    missing = [name for name in names if name not in sys.modules]
    if not missing:
        return
    guard = end_with(control)
    try:
        gc.disable()  # while a framework is imported, there is nothing for it to find
        for name in missing:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    finally:
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)
    sys.stdout.flush()  # else each process would print it
    gc.collect()
    gc.freeze()  # so that the garbage collectors of the processes leave the shared pages alone
    gc.enable()


def end_with(control: socket.socket) -> int:
    """A process that kills the stage when the kernel is gone, for while the stage can't look. Returns its number."""
    stage = os.getpid()
    guard = os.fork()
    if guard == 0:
        poll = select.poll()
        poll.register(control, 0)  # no event but the end, which is always told
        poll.poll()
        if os.getppid() == stage:
            os.kill(stage, signal.SIGKILL)
        os._exit(0)
    return guard


# ── the processes ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Child:
    """A process of the demonstration."""

    pid: int
    has_ended: bool = False
    watcher: threading.Thread | None = None


def fork() -> Child:
    """Fork a process, in a group of its own; in it the number is 0.

    Both sides make the group: until there is one, a signal to it would be lost.
    """
    child = Child(os.fork())
    with contextlib.suppress(OSError):
        os.setpgid(child.pid, child.pid)
    return child


def begin(
    environment: dict[str, str], command: list[str], call: int, output: int, result: int, stack: int
) -> tuple[int, int]:
    """In a process that was just forked: take its files, and run a command, if there is one.

    Args:
        environment: what differs in it from the stage's; all of it if there is a command.
        command: a fresh Python, or empty.
    """
    for number, file in ((0, call), (1, output), (2, output)):
        os.dup2(file, number)
    os.close(call)
    os.close(output)
    if command:
        for file in (result, stack):
            os.set_inheritable(file, True)
        os.execve(command[0], [*command, str(result), str(stack)], environment)
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR has changed
    if "numpy" in sys.modules:  # else all processes would draw the same; Python's own generator sees to itself
        sys.modules["numpy"].random.seed()
    return result, stack


def watch(running: dict[str, Child], control: socket.socket) -> None:
    """Report the end of each process. From here on the stage has threads, until all processes are gone."""
    for name, child in running.items():
        child.watcher = threading.Thread(target=report, args=(name, child, control), daemon=True)
        child.watcher.start()


def report(name: str, child: Child, control: socket.socket) -> None:
    """Wait for the end of a process, end what it has started itself, and tell the kernel."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it still has its number, so nobody else can
        send_signal(child, signal.SIGKILL)
    _, status, usage = os.wait4(child.pid, 0)
    child.has_ended = True
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with contextlib.suppress(OSError):
        control.sendall(f"{json.dumps([name, os.waitstatus_to_exitcode(status), peak])}\n".encode())


def send_signal(child: Child, number: int) -> None:
    """To a process and all that it has started; nothing if it has ended."""
    if not child.has_ended:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


def end_all(running: dict[str, Child]) -> None:
    """End all processes, and what they have started. Returns when they are gone."""
    for child in running.values():
        send_signal(child, signal.SIGKILL)
    for child in running.values():
        child.watcher.join() if child.watcher else os.waitpid(child.pid, 0)
    running.clear()
    while left := children():  # in a group of their own
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def children() -> list[int]:
    """The processes whose parent the stage is, as far as the system tells."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
    return []


if __name__ == "__main__":
    main(sys.argv[1])

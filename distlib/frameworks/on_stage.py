"""The process that starts those of one demonstration, and ends them. A script: it needs Python's own library only.

    kernel ──socket──► stage ──┬──► chief
                               ├──► worker 0
                               └──► ps 0

The kernel sends a plan, then orders; the stage sends a report for each process that ends. One line of JSON each:

    {"chief": {"command": …, "environment": …, "call": 5, "output": 6, "result": 7, "stack": 8}, …}   5 to 8: open files
    ["worker 0", 9]                                    send signal 9 to worker 0
    ["worker 0", -9, 730000000]                  ◄──   it has ended: its exit status, its peak memory in bytes

When the kernel's end of the socket closes, however the kernel ended, all processes are killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from typing import Any

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP: netdevice(7)
_REQUEST = "16sh22x"  # struct ifreq: an interface's name and flags
TRIAL = "trial"


def main(argument: str) -> None:
    """Play what the kernel has planned. argument: the socket's file number, or "trial" to see whether a stage works."""
    if sys.platform == "linux":
        raise_loopback()
    if argument == TRIAL:
        socket.create_server(("127.0.0.1", 0)).close()
        return
    control = socket.socket(fileno=int(argument))
    orders = control.makefile("r")
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until a process can answer it, it does no harm
    running = {name: start(**process) for name, process in json.loads(orders.readline()).items()}
    try:
        for name, process in running.items():
            threading.Thread(target=report, args=(name, process, control), daemon=True).start()
        for order in orders:
            name, number = json.loads(order)
            send_signal(running[name], number)
    finally:
        for process in running.values():
            send_signal(process, signal.SIGKILL)


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


def start(
    command: list[str], environment: dict[str, str], call: int, output: int, result: int, stack: int
) -> subprocess.Popen[bytes]:
    """A process in a group of its own. call, output, result, stack: files that only this process keeps open."""
    process = subprocess.Popen(
        [*command, str(result), str(stack)],
        stdin=call,
        stdout=output,
        stderr=output,
        pass_fds=[result, stack],
        env=environment,
        start_new_session=True,
    )
    for file in (call, output, result, stack):
        os.close(file)
    return process


def report(name: str, process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Wait for the end of a process, end what it has started itself, and tell the kernel."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it still has its number, so nobody else can
        send_signal(process, signal.SIGKILL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with contextlib.suppress(OSError):
        control.sendall(f"{json.dumps([name, process.returncode, peak])}\n".encode())


def send_signal(process: Any, number: int) -> None:
    """To a process and all that it has started; nothing if it has ended."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


if __name__ == "__main__":
    main(sys.argv[1])

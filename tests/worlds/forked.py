"""A fork server for tests of fork servers, which imports nothing, and what its processes do. See test_forkserver."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from distlib.worlds.forkserver import service
from distlib.worlds.forkserver.channel import Channel


def serve(fd: int) -> None:
    if os.environ.get("DISTLIB_TEST_FORK") == "refused":
        os.fork = refuse
    control = Channel.of(fd)
    if os.environ.get("DISTLIB_TEST_IMPORT") == "endless":
        with service.end_with(control):
            time.sleep(1000)
    spawned = service.serve(control)
    if spawned is not None:
        function, (file,) = spawned
        function(Connection(file))
        os._exit(0)


def refuse() -> int:
    raise BlockingIOError("no more processes")


def sleep(told: Connection) -> None:
    told.send("here")
    time.sleep(1000)


def exit_with_3(told: Connection) -> None:
    os._exit(3)


def have_a_child(told: Connection) -> None:
    """Start one in this process's group, say which one, and wait."""
    told.send(start_one(False))
    time.sleep(1000)


def leave_a_child(told: Connection) -> None:
    told.send(start_one(False))


def leave_a_stranger(told: Connection) -> None:
    """Start one in a session of its own, say which one, and end."""
    told.send(start_one(True))


def say_on_signal(told: Connection) -> None:
    """With a child in its group, which a signal to this process must not reach."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    signal.signal(signal.SIGUSR1, lambda number, frame: told.send(child.poll()))
    told.send("here")
    while True:  # a signal that comes just before a sleep is handled after it
        time.sleep(0.01)


def start_one(strange: bool) -> int:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=strange).pid


def show_signals(told: Connection) -> None:
    """What a process inherits must be as in any other: it may have children of its own."""
    told.send(
        (signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.set_wakeup_fd(-1), os.getpgrp() == os.getpid())
    )


def give_seven() -> int:
    return 7


Play = Callable[[Connection], None]

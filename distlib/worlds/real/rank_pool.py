"""The rank processes of one world, seen from the notebook: starting them, talking to them, ending them.

    kernel                                            ranks
      │  commands, results: one pipe per rank          │
      │  stdout, stderr:    two pipes per rank         │
      │  status board:      shared memory, read only   │

All files lie in one private directory (mode 0700) that goes with the world. No port is opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable
from multiprocessing.connection import Connection
from typing import Any

from distlib.network import Cluster
from distlib.worlds import private_torch
from distlib.worlds.forkserver.handle import occupy_standard_streams
from distlib.worlds.native_stack import STACK_SIGNAL, wait_for_stacks
from distlib.worlds.real import forkserver, rank_process
from distlib.worlds.real.endpoint import LOST
from distlib.worlds.real.mailbox import inbox_path, open_inbox
from distlib.worlds.real.pacing import make_port_table
from distlib.worlds.real.rank_settings import RankSettings
from distlib.worlds.real.shared_memory import NoSharedMemory
from distlib.worlds.real.status_board import StatusBoard

_LONGEST_SOCKET_PATH = 90  # bytes; the system's limit is 104 (macOS) or 108 (Linux)
_STACK_PATIENCE = 1.0  # seconds for a rank to write its stack


class RankPool:
    """`world_size` rank processes that wait for something to do.

    Args:
        backend: "shared_memory", "gloo", "nccl" or "files"; see `World`.

    Raises:
        NoSharedMemory: it was asked for, and ranks can't read each other's memory here.
        OSError: no room for the private directory, or no more processes allowed.
        RuntimeError: the fork server could not start.
    """

    def __init__(self, world_size: int, backend: str, network: Cluster | None = None) -> None:
        self.world_size = world_size
        self.backend = backend
        self.network = network
        self.pids: list[int] = []
        self._names: list[Hashable] = []  # as the fork server calls them
        self.commands: list[Connection] = []
        self.outputs: list[tuple[int, str, int]] = []  # rank, "stdout" or "stderr", file descriptor to read
        self._owner = os.getpid()
        self._server = forkserver.current()
        self.environment = self._server.variables
        occupy_standard_streams()
        self._check_backend()
        self.directory = _private_directory(self._allocate)
        self._server.order("remove_at_end", self.directory)
        _allow_open_files(8 * world_size)
        try:
            inboxes = [open_inbox(self.directory, rank) for rank in range(world_size)]
            threads = max(1, (os.cpu_count() or 1) // world_size)
            for rank, inbox in enumerate(inboxes):
                self._start(rank, inbox, threads)
        except BaseException:
            self.close()
            raise

    def _check_backend(self) -> None:
        problem = self._server.memory_problem() if self.backend == "shared_memory" else None
        if problem:
            raise NoSharedMemory(f"ranks can't share memory: {problem}. Use World({self.world_size}, backend='gloo')")

    def _allocate(self, directory: str) -> None:
        """Make the files that the ranks share. Raises OSError where there is no room for them."""
        self.board = StatusBoard(os.path.join(directory, "board"), self.world_size, create=True)
        if self.network is not None:
            make_port_table(self.network, directory, create=True).close()

    def _start(self, rank: int, inbox: socket.socket, threads: int) -> None:
        ours, theirs = socket.socketpair()
        (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
        self.commands.append(Connection(ours.detach()))
        self.outputs += [(rank, "stdout", out_read), (rank, "stderr", err_read)]
        try:
            settings = RankSettings(rank, self.world_size, self.directory, self.backend, threads, self.network)
            # Where the kernel has built an optimizer, ranks will: what that imports is there when the rank begins.
            imports = [name for name in private_torch.IMPORTED_LATE if name in sys.modules]
            files = [theirs.fileno(), out_write, err_write, inbox.fileno()]
            self.pids.append(self._server.start_rank(settings, files, imports))
            self._names.append(forkserver.rank_name(settings))
        finally:
            for end in (theirs, inbox):
                end.close()
            os.close(out_write)
            os.close(err_write)

    @property
    def alive(self) -> bool:
        """Whether all ranks are there and the process that watches over them is, too."""
        try:
            return self._server.alive and self._server.exit_statuses(self._names) == [None] * self.world_size
        except RuntimeError:
            return False

    def send(self, rank: int, *command: Any) -> None:
        """Give a rank something to do; see rank_process."""
        self.commands[rank].send_bytes(pickle.dumps(command))

    def receive(self, rank: int) -> tuple[Any, ...]:
        """The next report of a rank. Raises EOFError or ConnectionError if it has ended."""
        return pickle.loads(self.commands[rank].recv_bytes())

    def stop(self, ranks: Iterable[int]) -> None:
        """Ask ranks to leave the run they are in."""
        self._server.signal([self._names[rank] for rank in ranks], rank_process.STOP_SIGNAL)

    def kill(self, ranks: Iterable[int] | None = None) -> None:
        """End ranks, whatever they are doing. None: all of them."""
        self._server.signal(self._names if ranks is None else [self._names[rank] for rank in ranks], signal.SIGKILL)

    def announce_death(self, dead: int, rank: int, run: int) -> bool:
        """Tell a rank that another one has died, in the name of that one. False if its inbox is full."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outbox:
                note = pickle.dumps((run, LOST, dead))
                outbox.sendto(note, socket.MSG_DONTWAIT, inbox_path(self.directory, rank))
        except OSError as error:
            return error.errno not in (errno.EAGAIN, errno.ENOBUFS)  # else the rank is gone, too
        return True

    def native_stack(self, rank: int) -> str:
        """The Python stack of a rank that does not react, also if it is inside a C++ call; "" if it can't be had."""
        with contextlib.suppress(OSError), open(rank_process.stack_path(self.directory, rank), "rb") as file:
            self._server.signal([self._names[rank]], STACK_SIGNAL)
            return wait_for_stacks([file.fileno()], _STACK_PATIENCE)[0]
        return ""

    def last_stack(self, rank: int) -> str:
        """The Python stack that a rank has left which is gone; "" if it has left none, as one that was killed."""
        with contextlib.suppress(OSError), open(rank_process.stack_path(self.directory, rank), "rb") as file:
            return wait_for_stacks([file.fileno()], 0.0)[0]
        return ""

    def exit_status(self, rank: int, patience: float = 0.0) -> int | None:
        """How a rank ended (see ForkServer.exit_statuses); waits up to `patience` seconds to learn it."""
        give_up = time.monotonic() + patience
        while True:
            (status,) = self._server.exit_statuses([self._names[rank]])
            if status is not None or time.monotonic() >= give_up:
                return status
            time.sleep(0.01)

    def close(self) -> None:
        """Let go of the ranks: each ends as soon as it sees its command pipe closed. Never blocks.

        In a process that was forked from the one whose ranks they are, only its copies of the files are closed.
        """
        for connection in self.commands:
            connection.close()
        for _, _, fd in self.outputs:
            with contextlib.suppress(OSError):
                os.close(fd)
        self.outputs = []
        if os.getpid() == self._owner:
            shutil.rmtree(self.directory, ignore_errors=True)


def _allow_open_files(count: int) -> None:
    """Raise this process's limit of open files where it is too low for `count` more (256 is common on macOS)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 256 + count
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _private_directory(fill: Callable[[str], None]) -> str:
    """A directory that only this user can enter, in memory where there is room for what `fill` puts into it."""
    tried = []
    for parent in ("/dev/shm", tempfile.gettempdir(), "/tmp"):
        directory = None
        try:
            directory = tempfile.mkdtemp(prefix="distlib-", dir=parent)
            if len(os.fsencode(directory)) > _LONGEST_SOCKET_PATH:
                raise OSError(errno.ENAMETOOLONG, "its path is too long for a socket")
            fill(directory)
            return directory
        except OSError as error:
            tried.append(f"{parent}: {error.strerror}")
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)
    raise OSError(f"no place for the ranks' private directory ({'; '.join(tried)}). Free some space, or set TMPDIR.")

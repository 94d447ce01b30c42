"""What runs in the process of one rank: wait for a function, run it, report.

    kernel ──("run", function, …)──► rank      the rank runs the function and answers ("done", result or failure)
    kernel ──("end", went_well)────► rank      the run is over everywhere: ("ended", messages, what was left behind)
    kernel ──("drain",)────────────► rank      after a run that was stopped: empty the inbox, ("drained",)

Between commands a rank goes on answering the other ranks, so that a message it started still gets through.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy
import torch

from distlib.trace import CallSite
from distlib.worlds import call_site, notebook_only, pickling
from distlib.worlds.diagnosis import Failure
from distlib.worlds.exception_text import stack_of, text_of, whole_text_of
from distlib.worlds.native_stack import write_stack_at_crash, write_stack_on_signal
from distlib.worlds.not_compiled import leave_to_python
from distlib.worlds.rank_call import result_of
from distlib.worlds.real import own_modules, shared_memory
from distlib.worlds.real.cards import cards_here, take_card
from distlib.worlds.real.endpoint import Endpoint, Group, Stopped
from distlib.worlds.real.mailbox import SocketMailbox
from distlib.worlds.real.notebook_state import News, apply_settings, apply_variables
from distlib.worlds.real.process_group import ProcessGroupCommunicator
from distlib.worlds.real.rank_settings import RankSettings
from distlib.worlds.real.status_board import StatusBoard
from distlib.worlds.real.tensor_files import TensorFiles
from distlib.worlds.real.transport import GlooTransport, NcclTransport, Transport, file_stores

_STARTS_RANKS = True  # see worlds.call_site

STOP_SIGNAL = signal.SIGUSR1  # leave the run
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def stack_path(directory: str, rank: int) -> str:
    """Where a rank writes its stack when it is asked to, or crashes; see native_stack."""
    return os.path.join(directory, f"stack-{rank}")


def main(settings: RankSettings, fds: list[int]) -> None:
    """Be this rank until the kernel closes the command pipe. `fds`: commands, stdout, stderr, inbox."""
    command_fd, stdout_fd, stderr_fd, inbox_fd = fds
    os.environ["GLOO_SOCKET_IFNAME"] = _LOOPBACK
    torch.set_num_threads(settings.threads)
    _redirect_output(stdout_fd, stderr_fd)
    notebook_only.live_without(settings.world_size)
    stack_file = open(stack_path(settings.directory, settings.rank), "w")
    write_stack_on_signal(stack_file)
    leave_to_python()
    write_stack_at_crash(stack_file)
    threading.excepthook = _tell_unless_stopped
    commands = Connection(command_fd)
    try:
        endpoint = _make_endpoint(settings, socket.socket(fileno=inbox_fd))
        signal.signal(STOP_SIGNAL, lambda number, frame: endpoint.stop())
        RankProcess(settings.rank, settings.world_size, endpoint, commands).serve()
    except (EOFError, ConnectionError):  # the kernel has closed the world, or is gone
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _make_endpoint(settings: RankSettings, inbox: socket.socket) -> Endpoint:
    rank, world_size, directory = settings.rank, settings.world_size, settings.directory
    board = StatusBoard(os.path.join(directory, "board"), world_size)
    mailbox = SocketMailbox(inbox, directory, rank, world_size, board)
    open_store = file_stores(directory)
    device = torch.device("cpu")
    if settings.backend == "nccl":
        if not cards_here():
            raise RuntimeError("a rank sees no GPU: set CUDA_VISIBLE_DEVICES before distlib is imported")
        device = take_card(rank % cards_here(), rank, shared=cards_here() < world_size)
    transports: dict[str, Transport] = {}
    shares_memory = settings.backend == "shared_memory"
    if shares_memory:
        shared_memory.allow(os.getppid())
    elif settings.backend != "files" and world_size > 1:
        transports["cpu"] = GlooTransport(open_store, rank, world_size)
        if settings.backend == "nccl":
            transports["cuda"] = NcclTransport(open_store, rank, world_size, device)
    files = TensorFiles(directory, rank) if settings.backend == "files" else None
    return Endpoint(
        rank, mailbox, board, directory, open_store, transports, device, settings.network, shares_memory, files
    )


def _redirect_output(stdout_fd: int, stderr_fd: int) -> None:
    """What this process prints, in Python or in C++, goes to the kernel, line by line."""
    os.dup2(stdout_fd, 1)
    os.dup2(stderr_fd, 2)
    for fd in (stdout_fd, stderr_fd):
        os.close(fd)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = open(fd, "w", buffering=1, errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _tell_unless_stopped(ended: threading.ExceptHookArgs) -> None:
    """Called when a thread of the student's ends with an exception: that its run is over is no news."""
    if ended.exc_type is not Stopped:
        threading.__excepthook__(ended)


class Commands(Protocol):
    """Where a rank gets its commands from, and where its reports go: a `Connection`, or what does as one."""

    def fileno(self) -> int: ...

    def recv_bytes(self) -> bytes: ...

    def send_bytes(self, blob: bytes) -> None: ...


class RankProcess:
    """The loop of one rank: commands of the kernel on one side, messages of the other ranks on the other."""

    def __init__(self, rank: int, world_size: int, endpoint: Endpoint, commands: Commands) -> None:
        self._rank = rank
        self._world_size = world_size
        self._endpoint = endpoint
        self._commands = commands
        self._most_threads = torch.get_num_threads()
        self._function: object = None  # that runs, or has run last

    def serve(self) -> None:
        """Answer until the kernel is gone.

        Raises:
            EOFError: the kernel has closed its end.
        """
        inbox = self._endpoint.inbox()
        while True:
            pause = 0.001 if self._endpoint.has_unsent() else None
            readable, _, _ = select.select([self._commands.fileno(), inbox.fileno()], [], [], pause)
            if inbox.fileno() in readable:
                self._endpoint.serve()
            if self._commands.fileno() in readable:
                kind, *values = pickle.loads(self._commands.recv_bytes())
                self._report(*getattr(self, f"_on_{kind}")(*values))

    def _report(self, *values: Any) -> None:
        self._commands.send_bytes(pickle.dumps(values))

    def _on_run(self, run: int, settings: dict[str, Any], blob: bytes) -> tuple[Any, ...]:
        news: News | None = pickle.loads(settings["news"]) if settings["news"] else None
        self._prepare(settings, news)
        self._function = None
        try:
            try:
                self._endpoint.begin(run, settings["start"], settings["record"], settings["survives"])
                function, result = self._call(blob, news)
                return "done", run, "result", _pack(function, result)
            except Stopped:
                raise
            except BaseException as error:
                self._endpoint.leave()
                return "done", run, "failure", _describe_failure(self._rank, error, self._function)
        except Stopped as stopped:
            self._endpoint.leave()
            return "done", run, "stopped", _describe_failure(self._rank, stopped, None)
        finally:
            self._endpoint.kept.clear()
            _flush_output()

    def _call(self, blob: bytes, news: News | None) -> tuple[Any, Any]:
        own_modules.hear(news.modules if news else ())
        function, args, kwargs = pickling.loads(blob)
        self._function = function
        world = Group((0,), tuple(range(self._world_size)))
        with news.modes.on(self._endpoint.device) if news else contextlib.nullcontext():
            with _forks_end_here():
                result = result_of(function(ProcessGroupCommunicator(self._endpoint, world), *args, **kwargs))
            self._endpoint.finish()
        return function, result

    def _prepare(self, settings: dict[str, Any], news: News | None) -> None:
        """Make this process look like the notebook's, and start random numbers afresh."""
        sys.path[:] = settings["path"]
        with contextlib.suppress(OSError):
            os.chdir(settings["folder"])
        call_site.cell_numbers.update(settings["cells"])
        call_site.forget()
        if news is not None:
            apply_variables(news.variables)
        if news is not None and news.settings is not None:
            apply_settings(pickling.loads(news.settings), self._most_threads)
        seed = settings["seed"] + self._rank
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        torch.manual_seed(seed)

    def _on_end(self, went_well: bool) -> tuple[Any, ...]:
        endpoint = self._endpoint
        endpoint.serve()
        if went_well:
            endpoint.complete_all_transfers()
        lost, cut_off = endpoint.unfinished_business()
        report = ("ended", endpoint.sent, endpoint.received, lost, cut_off)
        endpoint.close()
        return report

    def _on_drain(self) -> tuple[Any, ...]:
        self._endpoint.discard()
        return ("drained",)


@contextlib.contextmanager
def _forks_end_here() -> Iterator[None]:
    """A process that is forked in this block ends with the block, as any program ends: only the rank itself reports."""
    rank, status = os.getpid(), 0
    try:
        yield
    except BaseException as error:
        if os.getpid() == rank:
            raise
        status = _status_of(error)
    if os.getpid() != rank:
        _flush_output()
        os._exit(status)


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _status_of(error: BaseException) -> int:
    """With which status Python ends a program that raises `error`, and says so."""
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


class _Unsendable(Exception):
    """A result that can't be pickled."""

    def __init__(self, message: str, site: CallSite | None) -> None:
        super().__init__(message)
        self.site = site


def _pack(function: Any, result: Any) -> bytes:
    try:
        return pickling.dumps(result)
    except Exception as error:
        raise _Unsendable(
            f"returned {_briefly(result)}, which can't be sent back to the notebook ({text_of(error)}). "
            "Return tensors, numbers, or lists and dictionaries of them.",
            call_site.site_of_function(function),
        ) from error


def _describe_failure(rank: int, error: BaseException, function: object) -> Failure:
    """Twice, if need be: when a worker of torch's DataLoader has died, a signal raises a RuntimeError, once."""
    try:
        return _failure(rank, error, function)
    except RuntimeError:
        return _failure(rank, error, function)


def _failure(rank: int, error: BaseException, function: object) -> Failure:
    site = error.site if isinstance(error, _Unsendable) else call_site.site_of_error(error, function)
    kind = "ResultError" if isinstance(error, _Unsendable) else type(error).__name__
    return Failure(rank, kind, whole_text_of(error), site, stack_of(error))


def _briefly(value: Any) -> str:
    text = f"a {type(value).__name__}"
    if isinstance(value, (list, tuple, set)) and value:
        text += f" with a {type(next(iter(value))).__name__} in it"
    return text

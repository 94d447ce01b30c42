"""A process of its own for reading what a stranger has written. It has a limit of processor time, and one of memory.

    this process ──function, arguments──►  a fork of a Python that has imported what it needs
                 ◄──what it returned─────   │
                                            └ the system ends it when its time of the processor is over (SIGXCPU), also
                                              in the middle of C code, where no signal handler of Python's is called

The fork server is Python's own (multiprocessing), not `distlib.worlds.forkserver`: each process needs one function, one
result and limits of its own, and what goes there may hold an open connection, which multiprocessing pickles. If the
fork server has been killed, as a system does that is short of memory, there is a new one for the next process.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from distlib.process_limits import allow_processor_seconds, limit_memory, limit_to

_Result = TypeVar("_Result")
_TRIES, _SOON = 20, 0.1  # seconds: a fork server that was killed is not gone at once


class EndedEarly(Exception):
    """The process has ended without a result.

    Attributes:
        is_out_of_time: whether it has used up its time of the processor.
    """

    def __init__(self, exitcode: int | None) -> None:
        signalled = exitcode is not None and exitcode < 0
        super().__init__(f"signal {-exitcode}" if exitcode and signalled else f"status {exitcode}")
        self.is_out_of_time = exitcode == -signal.SIGXCPU


class ReadingProcess:
    """A process that calls a function and hands back what it returns.

    Args:
        function: of a module. It may grant itself more time, see `distlib.process_limits`.
        args: for it.
        seconds: of the processor.
        memory: in bytes, beyond what it has at its start.
        preload: modules that the fork server imports, once. Those of the first process of a program count.

    Attributes:
        connection: it can be read from when there is a result, or the process has ended.

    Raises:
        OSError: no process can be started.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        *,
        seconds: float,
        memory: int,
        preload: Sequence[str] = (),
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["__main__", __name__, function.__module__, *preload])
        self.connection, theirs = multiprocessing.Pipe(duplex=False)
        with theirs:
            self._process = _started(
                lambda: context.Process(target=_work, args=(function, args, seconds, memory, theirs), daemon=True)
            )

    def result(self) -> Any:
        """What the function has returned. Waits for it.

        Raises:
            EndedEarly: the process has ended before.
        """
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            raise EndedEarly(self._process.exitcode) from None

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def read_apart(function: Callable[..., _Result], *args: Any, seconds: float, memory: int) -> _Result:
    """What a function returns that reads what a stranger has written. Arguments: see `ReadingProcess`.

    Raises:
        EndedEarly: it takes more than that.
        OSError: no process can be started.
    """
    process = ReadingProcess(function, args, seconds=seconds, memory=memory)
    try:
        result: _Result = process.result()
        return result
    finally:
        process.end()


def _started(make: Callable[[], BaseProcess]) -> BaseProcess:
    """A process that has been started. Where the fork server was killed just now, by the next one."""
    for left in reversed(range(_TRIES)):
        try:
            process = make()
            process.start()
            return process
        except (EOFError, OSError) as error:
            if not left:
                raise OSError(f"no process can be started: {type(error).__name__}: {error}") from None
            time.sleep(_SOON)
    raise AssertionError


def _work(function: Callable[..., Any], args: Sequence[Any], seconds: float, memory: int, result: Connection) -> None:
    """What the forked process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the business of who waits for the result
    limit_to(resource.RLIMIT_CORE, 0)
    limit_memory(memory)
    allow_processor_seconds(seconds)
    waiting = multiprocessing.parent_process()
    assert waiting is not None
    threading.Thread(target=_end_with, args=(waiting.sentinel,), daemon=True).start()
    result.send(function(*args))
    result.close()


def _end_with(sentinel: int) -> None:
    """End this process when the one that waits for it has ended, however that came about."""
    wait([sentinel])
    os._exit(1)

"""Where a process is that does not react, or was when it crashed: it writes its Python stack to a file.

Also from inside a C++ call, since faulthandler does it. A process that ends by os._exit writes it first.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Sequence
from typing import IO, NoReturn

STACK_SIGNAL = signal.SIGUSR2  # write the stack
_END_OF_STACK = ("in <module>\n", "  ...\n")  # the outermost frame, or as many as faulthandler writes
_MOST = 1_000_000  # bytes of one stack
_LOOK_EVERY = 0.01  # seconds


def write_stack_on_signal(file: IO[str] | int) -> None:
    """From now on this process answers STACK_SIGNAL."""
    faulthandler.register(STACK_SIGNAL, file=file, all_threads=False)


def write_stack_at_crash(file: IO[str]) -> None:
    """From now on this process leaves its stack when it crashes in compiled code, or ends by os._exit."""
    faulthandler.enable(file=file, all_threads=False)
    process, end = os.getpid(), os._exit

    def end_with_stack(status: int) -> NoReturn:
        if os.getpid() == process:
            faulthandler.dump_traceback(file, all_threads=False)
        end(status)

    os._exit = end_with_stack


def wait_for_stacks(files: Sequence[int], patience: float) -> list[str]:
    """The stacks that processes write which have just got STACK_SIGNAL; "" or a part where one does not.

    Args:
        files: open for reading, by each process; where it writes is not moved.
        patience: seconds until all have written theirs.
    """
    give_up = time.monotonic() + patience
    while True:
        stacks = [os.pread(file, _MOST, 0).decode(errors="replace") for file in files]
        if all(stack.endswith(_END_OF_STACK) for stack in stacks) or time.monotonic() >= give_up:
            return stacks
        time.sleep(_LOOK_EVERY)

"""What runs in each process of a demonstration: take the function, call it, leave what it returned or raised.

The function comes on standard input, what it prints goes to the kernel line by line, and what it returned lies in a
file when the process has ended. So nothing has to be sent or received while it runs.

It imports no torch, as `worlds.pickling` would: a demonstration without it takes less memory, and begins sooner.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from distlib.frameworks import own_network
from distlib.worlds import call_site, code_files
from distlib.worlds.exception_text import text_of
from distlib.worlds.forkserver import service
from distlib.worlds.forkserver.channel import Channel
from distlib.worlds.native_stack import write_stack_on_signal

_LOOK_EVERY = 0.5  # seconds between looks at whether the fork server is still there


@dataclass(frozen=True)
class Start:
    """How a process begins. With it come four open files: its call, its output, its result, its stack.

    Attributes:
        environment: what differs in it from the fork server's; all of it if there is a command.
        command: a fresh Python that calls `main`, or empty.
    """

    environment: dict[str, str]
    command: list[str] = field(default_factory=list)


def serve(fd: int) -> None:
    """Fork processes until the kernel is gone. fd: this end of the channel."""
    own_network.raise_loopback()
    has_returned = threading.Event()
    atexit.register(leave, has_returned)  # before anything that is imported now registers what is to be done at the end
    spawned = service.serve(Channel.of(fd))
    if spawned is not None:  # this is a fork: from here it is like any Python that has just begun, and ends like one
        start, files = spawned
        main(*begin(start, *files))
        has_returned.set()


def leave(has_returned: threading.Event) -> None:
    """The last thing a process does: not to take apart all that was imported, which would take longer than the rest."""
    if has_returned.is_set():
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def begin(start: Start, call: int, output: int, result: int, stack: int) -> tuple[int, int]:
    """In a process that was just forked: take its files, and run the command, if there is one."""
    for number, file in ((0, call), (1, output), (2, output)):
        os.dup2(file, number)
    os.close(call)
    os.close(output)
    if start.command:
        for file in (result, stack):
            os.set_inheritable(file, True)
        os.execve(start.command[0], [*start.command, str(result), str(stack)], start.environment)
    os.environ.update(start.environment)
    tempfile.tempdir = None  # TMPDIR has changed
    if "numpy" in sys.modules:  # else all processes would draw the same; Python's own generator sees to itself
        sys.modules["numpy"].random.seed()
    return result, stack


def main(result: int, stack: int) -> None:
    """Call the function that stands on standard input. result, stack: files to write to."""
    gc.enable()
    _end_with_parent()
    write_stack_on_signal(stack)
    sys.stdout = open(1, "w", buffering=1, encoding=sys.stdout.encoding, errors="backslashreplace", closefd=False)
    with open(0, "rb", closefd=False) as call:
        settings = pickle.load(call)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with contextlib.suppress(OSError):
        os.chdir(settings["folder"])
    call_site.cell_numbers.update(settings["cells"])
    answer = _call(settings["call"])
    with open(result, "wb") as file:
        pickle.dump(answer, file)
    if answer[0] == "error":
        sys.stdout.flush()
        os._exit(1)  # at once: the frameworks' own way out may wait for the other processes


def _call(call: bytes) -> tuple[Any, ...]:
    try:
        function, args, kwargs = cloudpickle.loads(call)
        value = function(*args, **kwargs)
    except SystemExit:
        raise
    except BaseException as error:
        site = call_site.site_of_traceback(error.__traceback__)
        return "error", type(error).__name__, text_of(error), site, "".join(traceback.format_exception(error))
    try:
        return "value", code_files.dumps(value)
    except Exception as error:
        text = f"returned a {type(value).__name__}, which can't be sent to the notebook ({error}): return numbers, "
        text += "numpy arrays, or lists and dictionaries of them"
        return "error", "TypeError", text, call_site.site_of_function(function), ""


def _end_with_parent() -> None:
    """When the fork server is gone, even killed, so is this process, with all that it has started.

    The system itself would end this process alone, as it does with a rank.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_EVERY)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()

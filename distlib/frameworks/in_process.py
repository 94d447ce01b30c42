"""What runs in each process of a demonstration: take the function, call it, leave what it returned or raised.

The function comes on standard input, what it prints goes to the kernel line by line, and what it returned lies in a
file when the process has ended. So nothing has to be sent or received while it runs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from typing import Any

import cloudpickle

from distlib.worlds import call_site
from distlib.worlds.exception_text import text_of

STACK_SIGNAL = signal.SIGUSR2  # write the stack to its file, also from inside a C++ call
_LOOK_EVERY = 0.5  # seconds between looks at whether the stage is still there


def main(result: int, stack: int) -> None:
    """Call the function that stands on standard input. result, stack: files to write to."""
    _end_with_parent()
    faulthandler.register(STACK_SIGNAL, file=stack, all_threads=False)
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
        return "value", cloudpickle.dumps(value)
    except Exception as error:
        text = f"returned a {type(value).__name__}, which can't be sent to the notebook ({error}): return numbers, "
        text += "numpy arrays, or lists and dictionaries of them"
        return "error", "TypeError", text, call_site.site_of_function(function), ""


def _end_with_parent() -> None:
    """When the stage is gone, even killed, so is this process, with all that it has started."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_EVERY)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()

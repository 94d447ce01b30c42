"""Which line of the student's code is talking: found by walking up the stack from a call to the communicator.

your cell                  ring_all_reduce(comm, tensor)       ◄── the call site, "cell 7, line 12"
distlib.collectives.ring   comm.exchange(…)                    ◄── via: the library function your line called
distlib.worlds.real.process_group   …                          ◄── passed over: it only passes calls on

A module says of itself what it is to this search:

Python's own files and installed packages are passed over, too: threading, contextlib, functools. A thread that runs a
library's function has no line of the student's: then it is the line at which the rank's main thread is.

    _PASSES_ON = True       its functions only pass on what they are called with
    _STARTS_RANKS = True    a rank's own code begins above it: the search ends here
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import threading
from functools import lru_cache, partial
from importlib.machinery import SourceFileLoader
from types import CodeType, FrameType, TracebackType

from distlib.trace import CallSite

_PASSES_ON = True

_NATIVE_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')  # innermost frame first
_OF_A_PACKAGE = re.compile(r"[\\/](site|dist)-packages[\\/]")  # also those of the user, or below another environment
_LIBRARIES = frozenset({"distlib", "torch"})
_WRITTEN_BY_TENSORFLOW = "__autograph_generated_file"
_WHERE_PROCESSES_BEGIN = ("<string>", "<module>")  # python -c, which is how a fork server is started
_FOLDERS = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_INSTALLED = tuple({each + os.sep for folder in _FOLDERS for each in (folder, os.path.realpath(folder))})
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

# In a notebook every cell is a file of its own; the kernel sends its ranks a map from file names to cells.
cell_numbers: dict[str, int] = {}
_known: dict[tuple[int, int, str | None, str | None], tuple[CodeType, CallSite]] = {}


def learn_cells() -> dict[str, int]:
    """Which cell has which file name, as far as this notebook has run; empty outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    cell_numbers.update(getattr(getattr(shell, "compile", None), "_filename_map", {}))
    return cell_numbers


def working_folder() -> str:
    """The folder in which the notebook runs, and its ranks and processes, too; the root if it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def forget() -> None:
    """Drop what was remembered about functions. Called when a run begins: the cells may have changed."""
    _known.clear()


def find_call_site(call: str | None = None) -> CallSite:
    """The line that called the communicator, as seen from inside one of the communicator's methods.

    Args:
        call: the collective call that the message belongs to.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("_PASSES_ON"):
        frame = frame.f_back
    assert frame is not None
    innermost, via = frame, None
    while frame is not None and ((library := _library(frame)) or not is_own_file(frame.f_code.co_filename)):
        only_passes_on = frame.f_globals.get("_PASSES_ON")  # also between two functions of torch's
        if library and not only_passes_on and (library == "distlib" or via is None):
            via = frame  # rather than torch's wrapper around it, as for a function under torch.no_grad
        frame = frame.f_back
        if frame is not None and frame.f_globals.get("_STARTS_RANKS"):
            frame = None
    frame = frame or _own_frame_of_main_thread() or innermost
    return _remember(frame, function_name_of(via) if via else None, call)


def _own_frame_of_main_thread() -> FrameType | None:
    """For a helper thread, the innermost frame of the student's on the main thread; None on the main thread itself."""
    if threading.current_thread() is threading.main_thread():
        return None
    return _own_frame(sys._current_frames().get(threading.main_thread().ident or 0))


def describe_place(file: str, line: int) -> str:
    """ "cell 7, line 12" for a line of a notebook, "ring.py, line 12" for one of a file."""
    if file in cell_numbers:
        return f"cell {cell_numbers[file]}, line {line}"
    if "ipykernel_" in file:
        return f"a notebook cell, line {line}"
    return f"{os.path.basename(file)}, line {line}"


def site_of_traceback(traceback: TracebackType | None) -> CallSite | None:
    """The innermost line of the student's own code in a traceback; None if there is none."""
    found = None
    while traceback is not None:
        if is_own_file(traceback.tb_frame.f_code.co_filename):
            found = (traceback.tb_frame.f_code, traceback.tb_lineno)
        traceback = traceback.tb_next
    return _call_site(*found) if found else None


def site_of_error(error: BaseException, function: object = None) -> CallSite | None:
    """The student's line that an error is about: the innermost in its traceback, else where `function` begins.

    Errors of this package that have no such line, as of a message that nobody waited for, name their lines themselves.
    """
    is_ours = type(error).__module__.startswith("distlib.")
    return site_of_traceback(error.__traceback__) or (None if is_ours else site_of_function(function))


def site_of_function(function: object) -> CallSite | None:
    """The line on which a function of the student's begins; None for one that is not, or not written in Python."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    if code is None or not is_own_file(code.co_filename):
        return None
    return _call_site(code, code.co_firstlineno)


def site_of_frame(frame: FrameType | None) -> CallSite | None:
    """The innermost line of the student's own code on a stack; None if there is none."""
    own = _own_frame(frame)
    return _call_site(own.f_code, own.f_lineno) if own is not None else None


def _own_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def site_of_native_stack(stack: str) -> CallSite | None:
    """The innermost line of the student's own code in a stack that faulthandler wrote; None if there is none."""
    for file, line, function in _NATIVE_FRAME.findall(stack):
        if is_own_file(file) and (file, function) != _WHERE_PROCESSES_BEGIN:
            return CallSite(describe_place(file, int(line)), function, file, int(line))
    return None


@lru_cache(maxsize=4096)
def is_own_file(file: str) -> bool:
    """Whether `file` is the student's: not Python's, not an installed package's, not this package's.

    Nor one that TensorFlow has written: it names the student's line in the error itself.
    """
    if file.startswith((_PACKAGE, "<frozen", *_INSTALLED)) or _WRITTEN_BY_TENSORFLOW in file:
        return False
    return not _OF_A_PACKAGE.search(file)


def is_own_module(name: str | None) -> bool:
    """Whether a module that is imported here is the student's: a Python file that is, and is no notebook or script."""
    module = sys.modules.get(name or "")
    file, loader = getattr(module, "__file__", None), getattr(getattr(module, "__spec__", None), "loader", None)
    if not isinstance(loader, SourceFileLoader) or not isinstance(file, str) or name == "__main__":
        return False
    return is_own_file(file)


def _library(frame: FrameType) -> str | None:
    """The library that a frame belongs to; None for the student's own code."""
    package = (frame.f_globals.get("__name__") or "").partition(".")[0]
    return package if package in _LIBRARIES else None


def function_name_of(frame: FrameType) -> str:
    """The full name of the function that runs in `frame`; for the wrapper of a decorator, of the decorated function.

    A module with such a decorator says in `__decorated__` which variable of the wrapper holds that function.
    """
    variable = frame.f_globals.get("__decorated__")
    function = frame.f_locals.get(variable) if variable else None
    if function is not None:
        return f"{function.__module__}.{function.__qualname__}"
    return f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}"


def _remember(frame: FrameType, via: str | None, call: str | None) -> CallSite:
    code = frame.f_code
    key = (id(code), frame.f_lasti, via, call)  # the instruction: working out its line takes longer
    known = _known.get(key)
    if known is None:
        known = _known[key] = (code, _call_site(code, frame.f_lineno, via, call))  # the code stays alive with its id
    return known[1]


def _call_site(code: CodeType, line: int, via: str | None = None, call: str | None = None) -> CallSite:
    return CallSite(describe_place(code.co_filename, line), code.co_name, code.co_filename, line, via, call)

"""What runs in each process of a patient: the program, as torchrun would run it, and what tells where it stands.

<TMPDIR>/0.pid      written at once: who is to be observed
<TMPDIR>/0.stack    the Python stack, whenever the observer asks for it
<TMPDIR>/0.calls    what the flight recorder has, as soon as the observer asks for it
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import torch.distributed as dist
from torch.autograd.profiler import record_function
from torch.distributed.elastic.multiprocessing.errors import record

from distlib.clinic.observer import ASK_FOR_STACK, CALLS_WANTED, LOOK_EVERY
from distlib.worlds import private_torch
from distlib.worlds.code_files import remember_lines

_A_MOMENT = 0.01  # seconds

# With its first region, torch tries to import a part of its profiler, and swallows every exception meanwhile: also that
# of a signal, with which a DataLoader says that a worker is dead. The ranks are forks of the process that imports this.
with record_function("the first"):
    pass


def run_program(source: str, file: str, rank: int, ranks: int) -> None:
    """Run a program as the main module. If it raises, print its traceback and end with status 1, as Python does.

    Args:
        source: its text.
        file: the name that tracebacks show.
        rank: which process of the program this is; the program learns its own from the environment.
        ranks: how many there are. The program begins when all are there: else one that comes late on a busy machine
            lets the others wait for it, asleep.
    """
    stem = Path(tempfile.gettempdir()) / str(rank)
    faulthandler.register(ASK_FOR_STACK, file=open(f"{stem}.stack", "w"), all_threads=False)
    dist.set_debug_level_from_env()  # type: ignore[attr-defined]  # torch has read the environment of the process that this is a fork of
    if "TORCH_FR_BUFFER_SIZE" in os.environ:
        threading.Thread(target=_write_calls_when_asked, args=(stem,), daemon=True).start()
    Path(f"{stem}.pid").write_text(str(os.getpid()))
    remember_lines(file, source)
    while len(list(stem.parent.glob("*.pid"))) < ranks:
        time.sleep(_A_MOMENT)
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        os.environ["TORCHELASTIC_ERROR_FILE"] = str(stem.parent / os.environ["TORCHELASTIC_ERROR_FILE"])
    main = sys.modules["__main__"].__dict__
    run = record(exec) if "TORCHELASTIC_ERROR_FILE" in os.environ else exec
    try:
        run(compile(source, file, "exec"), main)
    except BaseException as error:
        try:
            _print_as_python_does(error, file)
        except RuntimeError:  # of a signal that has found out that a worker of a DataLoader has died
            _print_as_python_does(error, file)
        _end(1)
    _end(0)


def _print_as_python_does(error: BaseException, file: str) -> None:
    """The traceback from the program's own first line on."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != file:
        frame = frame.tb_next
    traceback.print_exception(error.with_traceback(frame))


def _end(status: int) -> None:
    """At once: what libraries do at their end differs from run to run, and is not the subject."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


def _write_calls_when_asked(stem: Path) -> None:
    wanted = stem.parent / CALLS_WANTED
    asked = threading.Event()
    while not wanted.exists():
        asked.wait(3 * LOOK_EVERY)
    draft = stem.with_suffix(".draft")
    draft.write_text(json.dumps(private_torch.recorded_calls()))
    draft.rename(stem.with_suffix(".calls"))

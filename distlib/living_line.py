"""One line that lives while somebody waits: what for, since when, until when at most, how to stop it.

    with waiting("the tests of 02_all_reduce", at_most=180):
        …
    Waiting for the tests of 02_all_reduce, 12 s since 21:47:02, until 21:50:02 at most. Stop: Ctrl-C

It appears after two seconds, is drawn anew every second, and is gone when the wait is over. On a terminal it is a line
of standard error, in a notebook an output of the cell. Anywhere else, as in a pipe, there is none. Of waits inside
of each other, the outermost has the line.
"""

from __future__ import annotations

import contextvars
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

AFTER = 2.0  # seconds that nobody minds
EVERY = 1.0  # seconds from one drawing to the next
GONE = {"text/plain": "", "text/html": "<span></span>"}
"""What stays of a line in a cell: an output can't be taken away without all others of the cell, so it shows nothing."""
_one_at_a_time = threading.Lock()


class Screen(Protocol):
    """Where a line is shown. stop: how a wait is stopped there. room: its characters; None for any number."""

    stop: str

    @property
    def room(self) -> int | None: ...

    def show(self, text: str) -> None:
        """Show a line in place of the one before."""

    def clear(self) -> None:
        """Take the line away."""


@contextmanager
def waiting(
    what: str,
    at_most: float | None = None,
    screen: Screen | None = None,
    after: float = AFTER,
    *,
    is_printing: bool = False,
) -> Iterator[None]:
    """Show the line while the body runs.

    Args:
        what: is waited for, as it is read after "Waiting for".
        at_most: seconds after which the wait ends in any case; None if there is no such limit.
        screen: where to show it; by default found out.
        after: seconds after which it appears.
        is_printing: whether what is waited for prints meanwhile. A terminal has no line then: both would mix.
    """
    screen = screen or screen_here(is_printing=is_printing)
    if screen is None or not _one_at_a_time.acquire(blocking=False):
        yield
        return
    over, began = threading.Event(), time.monotonic()
    since = datetime.now().astimezone()

    def live() -> None:
        if over.wait(after):
            return
        with suppress(OSError, ValueError):  # the terminal is gone, or closed
            while True:
                screen.show(line(what, time.monotonic() - began, since, at_most, screen.stop, screen.room))
                if over.wait(EVERY):
                    break
            screen.clear()

    # In a copy of this context, since a kernel knows by it which cell an output belongs to.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(live,), daemon=True, name="living line")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _one_at_a_time.release()


def line(what: str, seconds: float, since: datetime, at_most: float | None, stop: str, room: int | None = None) -> str:
    """The line.

    Args:
        what, at_most: see `waiting`.
        seconds: that have passed.
        since: when it began.
        stop: how it is stopped.
        room: characters; where it has less than it needs, `what` is cut.
    """
    end = "without a limit"
    if at_most is not None:
        until = f"{since + timedelta(seconds=at_most):%H:%M:%S}"
        end = f"until {until} at most" if seconds <= at_most else f"expected by {until}, it is slow"
    rest = f", {seconds:.0f} s since {since:%H:%M:%S}, {end}. Stop: {stop}"
    head = f"Waiting for {what}"
    if room is None or len(head + rest) <= room:
        return head + rest
    left = max(1, room - len(rest))
    return (what if len(what) <= left else f"{what[: left - 1]}…") + rest


def screen_here(*, is_printing: bool = False) -> Screen | None:
    """Where this process can show a line: its notebook, its terminal; None for nowhere. is_printing: see `waiting`."""
    if _in_notebook():
        return _NotebookCell()
    try:
        return _Terminal() if sys.stderr.isatty() and not is_printing else None
    except (AttributeError, ValueError):  # there is no standard error, or it is closed
        return None


def _in_notebook() -> bool:
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class _Terminal:
    stop = "Ctrl-C"

    @property
    def room(self) -> int:
        return shutil.get_terminal_size().columns - 1

    def show(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _NotebookCell:
    stop = "Kernel > Interrupt (I, I)"
    room = None

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    def clear(self) -> None:
        self._handle.update(GONE, raw=True)

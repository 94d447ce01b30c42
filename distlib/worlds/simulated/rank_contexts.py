"""How one process holds the unfinished calls of thousands of simulated ranks: one runs, the others wait in mid-line.

    hub ──switch──► rank 0 ──switch──► rank 1 ──switch──► … ──switch──► hub

Two kinds, with the same few methods:

    GreenletContext   a switch takes under a microsecond, and a rank a few kilobytes, so thousands of ranks are cheap.
                      All run in one thread, and torch keeps the state of a backward pass per thread: a rank must not
                      switch while it is inside `backward`.
    ThreadContext     a switch takes tens of microseconds, but every rank has its own thread, and may do anything.

Only one context runs at a time, in both kinds.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol

import greenlet
import torch

from distlib.worlds import private_torch

_PASSES_ON = True  # see worlds.call_site


class Context(Protocol):
    """A call that can be left in the middle and continued later."""

    def switch(self) -> None:
        """Leave the context that calls this, and continue this one. Returns when somebody switches back."""

    def kill(self) -> None:
        """End this context, which is waiting: its `finally` blocks run, then the caller goes on."""

    def frame(self) -> FrameType | None:
        """Where this context is waiting."""

    def thread(self) -> int:
        """The number of the thread that this context runs in."""


class Ended(greenlet.GreenletExit):
    """Raised inside a context that is to end; it goes no further than that context."""


# ── greenlets ────────────────────────────────────────────────────────────────────────────────────────────────────────


class GreenletContext:
    """A context that shares its thread with the others. `function` None: the hub, which is the caller itself."""

    def __init__(self, function: Callable[[], None] | None = None, hub: GreenletContext | None = None) -> None:
        self.greenlet = greenlet.greenlet(function) if function else greenlet.getcurrent()
        self.switch = self.greenlet.switch
        if function:
            self.greenlet.gr_context = contextvars.copy_context()  # with the variables of the notebook's cell
        self._thread = threading.get_ident()

    def kill(self) -> None:
        self.greenlet.throw(Ended)

    def frame(self) -> FrameType | None:
        return self.greenlet.gr_frame

    def thread(self) -> int:
        return self._thread


current_backward = private_torch.current_backward
"""The number of the backward pass of torch that the caller is in, where a greenlet must not be left; else OUTSIDE."""
OUTSIDE = -1


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ThreadContext:
    """A context with a thread of its own, which waits until it is switched to. `function` None: the hub.

    Which context of a run has its turn, its hub knows: there can be several runs at a time, one inside another, too.
    """

    def __init__(self, function: Callable[[], None] | None = None, hub: ThreadContext | None = None) -> None:
        self._turn = threading.Semaphore(0)
        self._variables = contextvars.copy_context()
        self._function = function
        self._thread: threading.Thread | None = None
        self._raise: BaseException | None = None  # what the context raises when it goes on
        self._hub = hub or self
        self._running = self  # of the hub: the context whose turn it is

    def switch(self) -> None:
        before, self._hub._running = self._hub._running, self
        assert before is not self
        self._wake()
        before._turn.acquire()
        if before._raise is not None:
            raise before._raise

    def kill(self) -> None:
        self._raise = Ended()
        if self._thread is not None and self._thread.is_alive():
            self.switch()
            self._thread.join()

    def frame(self) -> FrameType | None:
        return sys._current_frames().get(self.thread())

    def thread(self) -> int:
        return self._thread.ident or 0 if self._thread is not None else 0

    def _wake(self) -> None:
        if self._function is not None and self._thread is None:
            self._thread = threading.Thread(target=self._variables.run, args=(self._run,), daemon=True)
            self._thread.start()
        else:
            self._turn.release()

    def _run(self) -> None:
        assert self._function is not None
        torch.set_num_threads(torch.get_num_threads())  # a new thread of Python takes all cores else
        try:
            self._function()
        except Ended:
            pass
        except BaseException as error:
            self._hub._raise = error
        finally:
            self._hub._running = self._hub
            self._hub._turn.release()

"""How one process holds the unfinished calls of thousands of simulated ranks: one runs, the others wait in mid-line.

    hub ──switch──► rank 0 ──switch──► rank 1 ──switch──► … ──switch──► hub

Two kinds, with the same few methods:

    GreenletContext   a switch takes under a microsecond, and a rank a few kilobytes, so thousands of ranks are cheap.
                      All run in one thread, and torch keeps the state of a backward pass per thread: a rank must not
                      switch while it is inside `backward`.
    ThreadContext     a switch takes tens of microseconds, but every rank has its own thread, and may do anything.

Where each rank has a thread, its collectives need not run there: a `CallInHub` is a greenlet in the thread of the hub,
with those of the other ranks, while its rank's thread waits. Only one context runs at a time.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import queue
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
    """A call that can be left in the middle and continued later.

    Attributes:
        in_hub: whether it runs in the thread of the hub.
    """

    in_hub: bool

    def switch(self) -> None:
        """Leave the context that calls this, and continue this one. Returns when somebody switches back."""

    def kill(self, kind: type[BaseException] | None = None) -> None:
        """End this context: its `finally` blocks run, then the caller goes on.

        Args:
            kind: what to raise in it if it is not waiting, but in the midst of something. None: an `Ended`.
        """

    def frame(self) -> FrameType | None:
        """Where this context is waiting."""


class Ended(greenlet.GreenletExit):
    """Raised inside a context that is to end; it goes no further than that context."""


def raise_in(thread: int, kind: type[BaseException]) -> None:
    """Have Python raise an exception in the thread of this number: before its next line, or when its call of C ends."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


# ── greenlets ────────────────────────────────────────────────────────────────────────────────────────────────────────


class GreenletContext:
    """A context that shares its thread with the others. `function` None: the hub, which is the caller itself."""

    in_hub = True

    def __init__(self, function: Callable[[], None] | None = None, hub: GreenletContext | None = None) -> None:
        self.greenlet = greenlet.greenlet(function) if function else greenlet.getcurrent()
        self.switch = self.greenlet.switch
        if function:
            self.greenlet.gr_context = contextvars.copy_context()  # with the variables of the notebook's cell

    def kill(self, kind: type[BaseException] | None = None) -> None:
        self.greenlet.throw(Ended)  # it is waiting: what interrupts it while it runs is raised in it, since it is here

    def frame(self) -> FrameType | None:
        return self.greenlet.gr_frame


current_backward = private_torch.current_backward
"""The number of the backward pass of torch that the caller is in, where a greenlet must not be left; else OUTSIDE."""
OUTSIDE = -1


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────────────


_LOOK_SECONDS = 0.1  # how often a hub that waits lets Python raise what is to be raised in its thread
_PATIENCE_SECONDS = 10.0  # how long a hub waits for a thread that is to end and may be in a call of C


class ThreadContext:
    """A context with a thread of its own, which waits until it is switched to. `function` None: the hub.

    Which context of a run has its turn, its hub knows: there can be several runs at a time, one inside another, too.
    An interrupt, or the end of the time, comes to the hub, which waits meanwhile, and then ends the context that runs.

    Attributes:
        greenlet: of the hub: the caller itself, in whose thread a `CallInHub` runs.
    """

    in_hub = False

    def __init__(self, function: Callable[[], None] | None = None, hub: ThreadContext | None = None) -> None:
        self.greenlet = greenlet.getcurrent()
        self._turns: queue.SimpleQueue[None] = queue.SimpleQueue()  # in C: no exception comes in the middle of it
        self._variables = contextvars.copy_context()
        self._function = function
        self._thread: threading.Thread | None = None
        self._raise: BaseException | None = None  # what the context raises when it goes on
        self._hub = hub or self
        self._running = self  # of the hub: the context whose turn it is

    def switch(self) -> None:
        before, self._hub._running = self._hub._running, self
        if before is self:  # a call that runs in the hub's thread goes back to the hub
            self.greenlet.switch()
            return
        self._wake()
        before._wait()
        if before._raise is not None:
            raise before._raise

    def kill(self, kind: type[BaseException] | None = None) -> None:
        """See `Context`. A thread that does not end for seconds is left alone: it ends when its call of C does."""
        self._raise = Ended()
        if self._thread is not None and self._thread.is_alive():
            if self._hub._running is self:
                raise_in(self._number(), kind or Ended)
            self._turns.put(None)
            self._thread.join(_PATIENCE_SECONDS)

    def frame(self) -> FrameType | None:
        return sys._current_frames().get(self._number())

    def _number(self) -> int:
        return self._thread.ident or 0 if self._thread is not None else 0

    def _wake(self) -> None:
        if self._function is not None and self._thread is None:
            self._thread = threading.Thread(target=self._variables.run, args=(self._run,), daemon=True)
            self._thread.start()
        else:
            self._turns.put(None)

    def _wait(self) -> None:
        if self is not self._hub:
            self._turns.get()
            return
        while True:
            with contextlib.suppress(queue.Empty):
                return self._turns.get(timeout=_LOOK_SECONDS)

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
            if self._hub._running is self:
                self._hub._running = self._hub
                self._hub._turns.put(None)


class CallInHub:
    """A call of a rank that has a thread, run in the thread of the hub: to switch takes as little as for greenlets.

    Args:
        call: what to run, without arguments. What it raises is kept for the rank.
        when_over: called after it, in the hub's thread.
        thread: of the rank. It waits meanwhile.
        hub: of the same run.
    """

    in_hub = True

    def __init__(
        self, call: Callable[[], object], when_over: Callable[[], None], thread: Context, hub: ThreadContext
    ) -> None:
        self.error: Exception | None = None
        self._call, self._when_over, self._thread, self._hub = call, when_over, thread, hub
        self._variables = contextvars.copy_context()
        self._greenlet: greenlet.greenlet | None = None

    def switch(self) -> None:
        if self._greenlet is None:  # made here, since a greenlet belongs to the thread that makes it
            self._greenlet = greenlet.greenlet(self._run, self._hub.greenlet)
            self._greenlet.gr_context = self._variables
        self._greenlet.switch()

    def kill(self, kind: type[BaseException] | None = None) -> None:
        if self._greenlet is not None and not self._greenlet.dead:
            self._greenlet.throw(Ended)
        self._thread.kill(kind)

    def frame(self) -> FrameType | None:
        return self._thread.frame()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self.error = error
        self._when_over()

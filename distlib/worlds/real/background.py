"""Calls that run in the background while the rank carries on, one after the other: behind `Communicator.start`.

    the rank's own thread     start(A)   start(B)      computing …            B.wait()
    the communication thread      ╰► A: send, receive, … │ B: send, receive, …   ╯

Calls never overtake each other, and communication of the rank's own thread waits until all of them are done. So the
messages of a rank leave in one order, whichever thread sends them, and the rank's endpoint is used by one thread at a
time. CUDA streams, and the collectives of NCCL, keep order in the same way.

A call that a started call starts runs at once, as a part of it: nothing else could run it before that one is over.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from distlib.communicator import Work
from distlib.worlds.call_order import RUNS_ONLY_AFTER_IT


class StartedCall(Work):
    """A call that `Communicator.start` has begun.

    Args:
        call: what to run, without arguments.
        rank: what `wait` returns.

    Attributes:
        waited: whether somebody has waited for it, and so got to know how it ended.
        parts: the calls that it has started itself.
        thread: the one that runs it.
    """

    def __init__(self, call: Callable[[], object], rank: int) -> None:
        self.waited = False
        self.parts: list[StartedCall] = []
        self.thread: threading.Thread | None = None
        self._call = call
        self._rank = rank
        self._done = threading.Event()
        self._error: BaseException | None = None

    def wait(self) -> int:
        """See `Work.wait`.

        Raises:
            RuntimeError: a started call waits for one that comes after it, or for itself.
            whatever the call raised, or one that it has started and not waited for.
        """
        if threading.current_thread() is self.thread and not self.is_completed():
            raise RuntimeError(RUNS_ONLY_AFTER_IT)
        self._done.wait()
        self.waited = True
        if self._error is not None:
            raise self._error
        return self._rank

    def is_completed(self) -> bool:
        return self._done.is_set()

    def run(self) -> None:
        """Run the call, in the thread that calls this. Afterwards nothing of it is kept: its tensors may be large."""
        try:
            self._call()
            for part in self.parts:
                if not part.waited:
                    part.wait()
        except BaseException as error:
            self._error = error
        finally:
            self._call = _nothing
            self.parts.clear()
            self._done.set()


def _nothing() -> None:
    """What is left of a call that has run."""


class Background:
    """The communication thread of a rank. It exists from the first call that is started.

    Args:
        prepare: called once in the new thread, before anything else.
    """

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._calls: queue.SimpleQueue[StartedCall | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running: StartedCall | None = None  # on that thread
        self._started: list[StartedCall] = []  # those that nobody has waited for yet

    def start(self, call: StartedCall) -> None:
        """Run `call` after all that was started before; returns at once. In a started call: run it now."""
        if self._running is not None and threading.current_thread() is self._thread:
            self._running.parts.append(call)
            call.run()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="communication", daemon=True)
            self._thread.start()
        call.thread = self._thread
        self._started = [each for each in self._started if not each.waited] + [call]
        self._calls.put(call)

    def wait_for_all(self) -> None:
        """Return when nothing that was started is under way. A started call itself does not wait.

        Raises:
            whatever a call raised, if nobody has waited for that call.
        """
        if self._started and threading.current_thread() is not self._thread:
            for call in self._started:
                if not call.waited:
                    call.wait()
            self._started = []

    def is_running(self) -> bool:
        """Whether a started call is under way, in a thread other than the caller's."""
        if threading.current_thread() is self._thread:
            return False
        return not all(call.is_completed() for call in self._started)

    def end(self) -> None:
        """End the thread after the call that it is in. The next call that is started gets a new one."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join()
        self._thread = None
        self._started = []

    def _work(self) -> None:
        self._prepare()
        while (call := self._calls.get()) is not None:
            self._running = call
            call.run()
            self._running = None

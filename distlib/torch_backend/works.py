"""What a call of a process group returns before it is over: torch's Work and Future, over a `Work` of this course.

DDP asks for a Future while backward is still under way, and waits for it at the end of backward, in C++. So a Future
has to be filled in by whoever finishes the call: on real ranks that is the communication thread.

In virtual time nothing runs in the background of a rank. There the call is run when its Future is asked for, on the
clock of the background; the rank's own clock goes on to the call's end where the rank waits: at the end of its backward
pass, in `wait`, or in a function that was handed to `then`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed

from distlib.communicator import Communicator, Work
from distlib.worlds.private_torch import at_end_of_backward, current_backward

_PASSES_ON = True  # see worlds.call_site

_dist: Any = torch.distributed
_OUTSIDE = -1


class CallWork(_dist.Work):
    """A call that has been started, or is over already.

    Args:
        work: of the communicator.
        result: the tensors that the call brings, as torch's `Work.result` returns them.
        progress: how far a call in the background has come; None for a message, or a call that is over.
    """

    def __init__(self, work: Work, result: Sequence[torch.Tensor], progress: Underway | None = None) -> None:
        super().__init__()
        self._work, self._result, self._progress = work, list(result), progress
        self._future: CallFuture | None = None
        self._source = -1

    def wait(self, timeout: object = None) -> bool:
        """Block until the call is over. `timeout` is not needed: a call that can't end is an error of the world.

        Raises:
            whatever the call raised, as it is.
        """
        self._source = self._work.wait()
        return True

    def is_completed(self) -> bool:
        """True once `wait` would return at once."""
        return self._work.is_completed()

    def is_success(self) -> bool:
        """Whether it is over, and went well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """What the call has raised; None if nothing, or if it is still under way."""
        try:
            if self.is_completed():
                self._work.wait()
        except Exception as error:
            return error
        return None

    def result(self) -> list[torch.Tensor]:
        """The tensors that the call writes into."""
        return self._result

    def source_rank(self) -> int:
        """The rank of the group that a message came from."""
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Wait: on a CPU there is no stream that could do it later."""
        self.wait()

    block_current_stream = synchronize

    def get_future(self) -> CallFuture:
        """torch's Future of the same call; its value is the list of tensors."""
        if self._future is None:
            self._future = CallFuture(self._work)
            filled = self._future
            if self._progress is None:
                filled.fill(self._result, None)
            else:
                self._progress.when_over(lambda error: filled.fill(self._result, error))
            filled.follow_backward()
        return self._future


class Underway:
    """Whether a started call is over, and how: told to those that ask, at once or later."""

    def __init__(self, call: Callable[[Communicator], object]) -> None:
        self._call: Callable[[Communicator], object] | None = call
        self._lock = threading.Lock()
        self._over = False
        self._error: BaseException | None = None
        self._told: list[Callable[[BaseException | None], None]] = []

    def run(self, comm: Communicator) -> None:
        """Run the call. Afterwards nothing of it is kept: its tensors may be large."""
        assert self._call is not None
        try:
            comm.run_collective(self._call)
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._call = None
            with self._lock:
                self._over = True
            for tell in self._told:
                tell(self._error)

    def when_over(self, tell: Callable[[BaseException | None], None]) -> None:
        """Have `tell` called with the call's error, or None, as soon as the call is over."""
        with self._lock:
            if not self._over:
                self._told.append(tell)
                return
        tell(self._error)


class CallFuture(torch.futures.Future[Any]):
    """The Future of a started call. In Python it waits for the call itself, and raises what the call raised.

    C++ knows no errors of Python. What waits there goes on when the call has failed; the error follows at the end of
    the backward pass, or with the next call.
    """

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work
        self._is_telling = False  # those that were handed to `then`: they run as a part of the call
        self._error: BaseException | None = None

    def fill(self, result: list[torch.Tensor], error: BaseException | None) -> None:
        """The call is over: with a result, or with an error."""
        self._error, self._is_telling = error, True
        try:
            self.set_result(result)
        finally:
            self._is_telling = False

    def follow_backward(self) -> None:
        """Where the caller is in a backward pass, wait at its end."""
        self._work.is_completed()  # in virtual time: run it now
        if current_backward() != _OUTSIDE:
            at_end_of_backward(self.wait)

    def wait(self) -> Any:
        """See torch.futures.Future.wait. Raises what the call raised, as it is."""
        self._wait_for_call()
        return super().wait()

    def value(self) -> Any:
        """As torch.futures.Future.value. Raises what the call raised, as it is."""
        self._wait_for_call()
        return super().value()

    def _wait_for_call(self) -> None:
        if not self._is_telling:
            self._work.wait()
        elif self._error is not None:
            raise self._error

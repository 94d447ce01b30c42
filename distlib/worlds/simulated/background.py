"""What a simulated rank does in the background: calls that take virtual time while the rank computes.

    computing       start(A) ─── sleep 3 ─── start(B) ─── sleep 2 ───┐ B.wait()
    background          A: 0 … 4               └ B: 4 … 6            └───► the clock says 6

Nothing is run at the moment of the start. When the rank waits for a call, its clock is put back to when that call could
begin; the call runs on this clock, then the clock goes on to whichever is later. What a run computes depends on when
things happen in virtual time and not on the order in which Python does them, so this is exact. Computing that comes
after a start has been done by then; it can't have used what the call was still to bring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from distlib.communicator import Work
from distlib.trace import CallSite
from distlib.worlds.call_order import RUNS_ONLY_AFTER_IT

_PASSES_ON = True  # see worlds.call_site


class OwningRank(Protocol):
    """What a background needs of its rank.

    Attributes:
        now: the rank's clock, in virtual seconds.
        site: the line that it speaks from, if that isn't the one that runs.
    """

    background: SimulatedBackground
    now: float
    site: CallSite | None

    def let_go_of_tensors(self) -> None:
        """Keep no tensor of calls that have returned."""


class SimulatedCall(Work):
    """A call that a rank has started.

    Args:
        call: what to run, without arguments.
        owner: the rank that has started it.
        number: what `wait` returns.
        site: the line that has started it; its messages are sent from there.
        started: when, in virtual seconds. None: now.
    """

    def __init__(
        self, call: Callable[[], object], owner: OwningRank, number: int, site: CallSite, started: float | None = None
    ) -> None:
        self.started, self.end = owner.now if started is None else started, 0.0
        self.done = False
        self._call, self._owner, self._number, self._site = call, owner, number, site
        self._error: Exception | None = None

    def wait(self) -> int:
        """See `Work.wait`.

        Raises:
            RuntimeError: a started call waits for one that comes after it, or for itself.
            whatever the call raised.
        """
        self._owner.background.run_up_to(self)
        self._owner.now = max(self._owner.now, self.end)
        if self._error is not None:
            self._owner.background.failed.discard(self)
            raise self._error
        return self._number

    def is_completed(self) -> bool:
        if not self._owner.background.runs:
            self._owner.background.run_up_to(self)
        return self.done and self.end <= self._owner.now

    def run(self, not_before: float) -> float:
        """Run the call on the clock of the background, which has come to `not_before`; returns where it ends."""
        rank = self._owner
        spoken_from, rank.site = rank.site, self._site
        rank.now = max(self.started, not_before)
        try:
            self._call()
        except Exception as error:
            self._error = error
            rank.background.failed.add(self)
        rank.site = spoken_from
        rank.let_go_of_tensors()
        self.done, self.end = True, rank.now
        return self.end


class SimulatedBackground:
    """The calls that one rank has started and nobody has waited for yet.

    Attributes:
        calls: in their order; empty while one of them is running, since that one need not wait for itself.
        failed: those that have raised something which nobody has seen yet.
        runs: whether one of them is running.
    """

    def __init__(self, rank: OwningRank) -> None:
        self.calls: deque[SimulatedCall] = deque()
        self.failed: set[SimulatedCall] = set()
        self._rank = rank
        self._free = 0.0  # when the last call that has run ended
        self.runs = False

    def start(self, call: SimulatedCall) -> None:
        """Note a call; it runs when somebody waits for it. What a started call starts runs at once, as in a World."""
        if self.runs:
            call.run(self._rank.now)
        else:
            self.calls.append(call)

    def run_up_to(self, last: SimulatedCall) -> None:
        """Run the calls up to `last`. The rank's clock is the same afterwards."""
        if self.runs and not last.done:
            raise RuntimeError(RUNS_ONLY_AFTER_IT)
        computing_until = self._rank.now
        calls, self.calls = self.calls, deque()
        while not last.done:
            self.runs = True
            self._free = calls.popleft().run(self._free)
            self.runs = False
        self.calls = calls
        self._rank.now = computing_until

    def wait_for_all(self) -> None:
        """Wait for all calls. Raises what one of them has raised."""
        while waiting := [*self.failed, *self.calls]:  # a call may fail while another one runs, which has started it
            waiting[0].wait()

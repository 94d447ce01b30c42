"""A paced network: real ranks, real tensors, a real clock, and messages that take as long as on the links of a cluster.

The model is that of `SimulatedWorld`. A message of m bytes over a link of latency α and bandwidth B:

    sender offers at s, receiver asks at r        start = max(s, r, out-port free, in-port free)
    both ports are busy                           start … start + m/B
    send and recv return                          end = start + m/B + α

The payload itself moves as in any world, and mostly much faster. When the two sides have met, the receiver books both
ports (see port_table) and sends the times to the sender; then both wait until `end`. So a rank that waits for its
message sleeps, and calls that it has started with `isend`, `irecv` or `start` go on while it computes.

A network does not wait for Python. Handling a message takes some hundred microseconds, waking up a rank as well, and
longer where ranks share cores. If every step of an algorithm began only when Python had got there, 100 steps would add
up 100 such delays. So a rank has a clock of the network, which lags behind the real one by what it was late:

    the network   ──── message ────┤end                         an operation that follows at once counts as posted
    the rank           sleeps      ┊····│ awake, isend          at the end of the one before, not when Python was there
                                   └lag─┘

The times in the trace, and `comm.time()`, are those of this clock. Three rules keep it honest. The lag is never more
than MOST_LAG seconds. It ends with the next message that the rank sleeps for, and with a barrier: from there all ranks
go on at the moment when the last one has come. And computing counts as it is on the real clock, but for the first
AT_ONCE seconds after a message: they are taken for Python's own. (AT_ONCE of running: while a rank waits for a core,
which Linux reports, it can't compute.)

Messages of at most `eager_limit` bytes, uplinks that the ranks of a node share, and two kinds of links are as in a
`SimulatedWorld`. So are stragglers and jitter: they stretch `comm.sleep`. Real computing is not stretched. A rank that
computes can't answer others (one that is in `comm.sleep`, or has started something that is still under way, can): a
message that comes meanwhile gets the times of the network, but its sender learns them late.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from io import FileIO

from distlib.network import Cluster
from distlib.worlds.real.background import StartedCall
from distlib.worlds.real.port_table import PortTable

AT_ONCE = 0.001
MOST_LAG = 0.25


def make_port_table(cluster: Cluster, directory: str, create: bool = False) -> PortTable:
    """The ports of a world: out and in of each rank, then out and in of each node for shared uplinks."""
    return PortTable(os.path.join(directory, "ports"), 2 * (cluster.world_size + cluster.nodes), create)


class NetworkClock(threading.local):
    """A rank's time on the network: the real one without the delays of Python and of the operating system.

    The thread that communicates in the background has a clock of its own.

    Args:
        real: seconds since the run began, the same clock for all ranks.
    """

    def __init__(self, real: Callable[[], float]) -> None:
        self._real = real
        self._core = CoreWait()
        self.restart()

    def restart(self) -> None:
        """Set the clock to the real time: another run begins."""
        self._told = 0.0
        self._lag = 0.0
        self.reach(self._real())

    def now(self) -> float:
        """The time at which an operation counts as posted."""
        now = self._real() - self._lag
        since = now - self._reached
        at_once = since < AT_ONCE or since - (self._core.seconds() - self._waited_for_core) < AT_ONCE
        return self._reached if at_once else now

    def time(self) -> float:
        """The time on this clock, which never goes back."""
        self._told = max(self._told, self._real() - self._lag)
        return self._told

    def reach(self, time: float) -> None:
        """Something on the network was over at `time`, and this rank has just noticed."""
        self._reached, self._lag = time, min(max(0.0, self._real() - time), MOST_LAG)
        self._waited_for_core = self._core.seconds()

    def resume(self, time: float) -> None:
        """A call that was started at `time` begins, unless something before it on the network took longer."""
        self.reach(max(time, self._reached))


class CoreWait:
    """How long a thread has had something to do but no free core to do it on. Linux; else 0."""

    def __init__(self) -> None:
        self._file: FileIO | None = None
        with contextlib.suppress(OSError):
            self._file = open("/proc/thread-self/schedstat", "rb", buffering=0)  # see proc(5)

    def seconds(self) -> float:
        """How many seconds it was since the thread began."""
        if self._file is None:
            return 0.0
        self._file.seek(0)
        return int(self._file.read(100).split()[1]) * 1e-9


class PacedCall(StartedCall):
    """A call in the background of a paced rank: it begins when it was started, not when Python got to it.

    Args:
        call, rank: see `StartedCall`.
        clock: of the rank.
    """

    def __init__(self, call: Callable[[], object], rank: int, clock: NetworkClock) -> None:
        super().__init__(self._on_its_clock, rank)
        self._to_do, self._clock = call, clock
        self._begin = self._end = clock.now()

    def wait(self) -> int:
        called = self._clock.now()
        try:
            return super().wait()
        finally:
            self._clock.reach(max(called, self._end))

    def _on_its_clock(self) -> None:
        self._clock.resume(self._begin)
        try:
            self._to_do()
        finally:
            self._end = self._clock.now()


class Pacing:
    """The paced network, as one rank knows it.

    Args:
        cluster: its links; it has as many ranks as the world.
        directory: the world's private directory.
        rank: this rank.
        real: seconds since the run began.

    Attributes:
        clock: this rank's time on the network.
    """

    def __init__(self, cluster: Cluster, directory: str, rank: int, real: Callable[[], float]) -> None:
        self.cluster = cluster
        self.clock = NetworkClock(real)
        self._rank = rank
        self._ports = make_port_table(cluster, directory)
        self._run = self._computations = 0

    def begin(self, run: int) -> None:
        """Begin run number `run`: from here on, the clock counts anew."""
        self._run, self._computations = run, 0
        self.clock.restart()

    def leave(self, dst: int, nbytes: int, posted: float) -> tuple[float, float] | None:
        """Send an eager message on its way. Returns when it reaches rank `dst`, and when `send` returns.

        None: it is not eager, because it has more bytes than the cluster's `eager_limit`, or there is no limit.
        """
        if not 0 < self.cluster.eager_limit >= nbytes:
            return None
        link = self.cluster.link(self._rank, dst)
        busy = nbytes / link.bandwidth
        start = self._ports.book(self._run, [self._out(self._rank)], posted, busy)
        return start + link.latency, start + busy

    def meet(self, src: int, nbytes: int, sent: float, left: float | None, received: float) -> tuple[float, float]:
        """A message from rank `src` and a receive of this rank have met. Returns when it starts, and when it is here.

        Args:
            sent, received: when the two were posted.
            left: of an eager message: when it has reached this rank's in-port.
        """
        link = self.cluster.link(src, self._rank)
        busy = nbytes / link.bandwidth
        if left is not None:
            start = self._ports.book(self._run, [self._in(self._rank)], left, busy)
            return start, max(start + busy, received)
        ports = [self._out(src), self._in(self._rank), *self._uplinks(src)]
        start = self._ports.book(self._run, ports, max(sent, received), busy)
        return start, start + busy + link.latency

    def slowdown(self) -> float:
        """How many times longer the next computation of this rank takes."""
        self._computations += 1
        return self.cluster.slowdown(self._rank, self._computations)

    def _out(self, rank: int) -> int:
        return 2 * rank

    def _in(self, rank: int) -> int:
        return 2 * rank + 1

    def _uplinks(self, src: int) -> list[int]:
        """The ports of the nodes that a message from `src` passes, if the ranks of a node share one."""
        there, here = self.cluster.node_of(src), self.cluster.node_of(self._rank)
        if not self.cluster.shared_uplink or there == here:
            return []
        ranks = self.cluster.world_size
        return [self._out(ranks + there), self._in(ranks + here)]

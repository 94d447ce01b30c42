"""Streams of a simulated GPU: the work of each runs in its order and on a clock of its own, at the same time as others.

    default stream      F0 ───────── F1 ───────── F2 …        computing: the rank's own clock
    all-gather stream   G1 ──── G2 ────   G3 ────             collectives: each waits for the events that it is told of

On a GPU the code of a rank only launches work, and runs ahead of it; what overlaps is decided by streams and events.
`fully_shard` gathers the next layer in that way while this one computes, though its call looks as if it waited. On a
CPU torch's streams do nothing: there each collective is over before the next line, and nothing overlaps.

So this module is what torch asks for streams where tensors lie on its device "meta" and a rank is simulated. A tensor
there has a shape and no contents, so that work may be launched long before its time has come. The model:

    the default stream is the rank's clock        its code costs no time, so the clock is that of the computing alone
    a collective launched in another stream       begins when the events are over which that stream was told to wait for
    collectives of one rank                       run one after the other in the order of their launch, as those of one
                                                  NCCL communicator do; here also if they belong to different groups
    an event                                      all that has been launched in its stream so far
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from distlib.communicator import Work
from distlib.worlds.private_torch import add_device_module, allow_pipelines_on, allow_sharding_on
from distlib.worlds.simulated.simulator import SimulatedCommunicator

_PASSES_ON = True  # see worlds.call_site

DEVICE = "meta"


class Stream:
    """A stream that is not the default one.

    Attributes:
        ready: from when on its next collective may run, in virtual seconds.
        last: the last collective that it has, or waits for, and that one's number in the order of their launch.
    """

    def __init__(self, device: object = None, priority: int = 0) -> None:
        self.ready = 0.0
        self.last: tuple[int, Work | None] = (0, None)

    def launch(self, comm: SimulatedCommunicator, call: Callable[[], object]) -> None:
        """Begin a collective after all that this stream waits for."""
        number, _ = _rank.last
        self.last = _rank.last = number + 1, comm.start_at(self.ready, call)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that is over when all is over that this stream has now."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Begin no later work before the event is over. Collectives run in their order anyway: see the module."""
        self.ready = max(self.ready, event.time)
        self.last = max(self.last, event.last, key=_number)

    def wait_stream(self, stream: Stream) -> None:
        """Begin no later work before all is over that the other stream has now."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """Let the rank's clock wait for this stream."""
        _rank.default.wait_stream(self)

    def query(self) -> bool:
        """Whether all is over."""
        return self.record_event().query()


class DefaultStream(Stream):
    """The stream in which a rank computes: its clock. A collective is over there before the next line."""

    def wait_event(self, event: Event) -> None:
        """Let the rank's clock wait until the event is over."""
        _, work = event.last
        if work is not None:
            work.wait()


class Event:
    """A moment in a stream: what has been launched there before `record`."""

    def __init__(self, *args: object, **options: object) -> None:
        self.time = 0.0
        self.last: tuple[int, Work | None] = (0, None)

    def record(self, stream: Stream | None = None) -> None:
        """Take note of all that the stream has now; None: the current one."""
        stream = stream or current_stream()
        is_default = stream is _rank.default
        self.time = _rank.comm.time() if is_default else stream.ready
        self.last = (0, None) if is_default else stream.last

    def wait(self, stream: Stream | None = None) -> None:
        """Have the stream wait for this event; None: the current one."""
        (stream or current_stream()).wait_event(self)

    def synchronize(self) -> None:
        """Let the rank's clock wait for this event."""
        self.wait(_rank.default)

    def query(self) -> bool:
        """Whether it is over."""
        _, work = self.last
        return work is None or work.is_completed()


def _number(last: tuple[int, Work | None]) -> int:
    return last[0]


class _OfRank(threading.local):
    """The streams of the simulated rank that this thread is."""

    comm: Any = None
    default: Any = None
    current: Any = None
    last: tuple[int, Work | None] = (0, None)  # of all streams


_rank = _OfRank()
_pipelines = False  # whether stages may lie on the device


@contextlib.contextmanager
def streams_of_this_rank(comm: SimulatedCommunicator) -> Iterator[None]:
    """In this block the thread has streams on the device "meta", whose default stream is the clock of `comm`."""
    global _pipelines
    _register()
    _pipelines = _pipelines or allow_pipelines_on(DEVICE)
    _rank.comm, _rank.default = comm, DefaultStream()
    _rank.current = _rank.default
    try:
        yield
    finally:
        _rank.comm = _rank.default = _rank.current = None
        _rank.last = 0, None


def is_rank() -> bool:
    """Whether this thread is a simulated rank."""
    return _rank.comm is not None


@cache
def _register() -> None:
    add_device_module(DEVICE, sys.modules[__name__])


# ── what torch asks the module of a device ───────────────────────────────────────────────────────────────────────────


def current_stream(device: object = None) -> Any:
    """The stream in which work is launched now. None in a thread that is no simulated rank."""
    return _rank.current


def is_other() -> bool:
    """Whether work is launched in a stream that is not the default one."""
    return _rank.current is not _rank.default


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Launch what is launched in this block in the given stream; None changes nothing."""
    before = _rank.current
    _rank.current = stream or before
    try:
        yield
    finally:
        _rank.current = before


def synchronize(device: object = None) -> None:
    """Let the rank's clock wait for all that has been launched."""
    _, work = _rank.last
    if work is not None:
        work.wait()


@cache
def current_device() -> int:
    """Always 0. `fully_shard` asks for it first, so from now on it takes parameters on this device."""
    allow_sharding_on(DEVICE)
    return 0


def device_count() -> int:
    """Each rank has one."""
    return 1


def set_device(device: object) -> None:
    """There is nothing to choose."""


def is_initialized() -> bool:
    """There is nothing to prepare."""
    return True


is_available = is_initialized

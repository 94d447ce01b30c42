"""Calling a function that does not communicate, and noticing when the library does its work.

The function runs on a rank of its own, as the others do: what it prints is caught, and if it never ends or exits, only
that rank does. The student's lines may call what describes a cluster (`Link`, `Cluster`), and the helpers that the
check supplies; any other function of the library is noted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from distlib.checks.library_calls import library_calls
from distlib.checks.supplied import helper_origin
from distlib.communicator import Communicator
from distlib.grading.observe import run_on_ranks
from distlib.judge.remote.stand_in import RemoteFunction
from distlib.network import choose_all_reduce
from distlib.worlds import pickling
from distlib.worlds.diagnosis import RankError

__calls_answers__ = True  # see checks.library_calls

_ALLOWED = ("distlib.network.cluster", "distlib.network.powers")


@dataclass(frozen=True)
class Reply:
    """What a call has given.

    Attributes:
        value: what the function returned if that is a number or a text, else None.
        returned_type: the name of the type of what it returned.
        library: the first function of the library that it called and must not, as "distlib.network.choice.f"; or None.
    """

    value: float | str | None
    returned_type: str
    library: str | None


@dataclass(frozen=True)
class Call:
    """A call as seen from the check.

    Attributes:
        reply: None if there was an error.
        error: what went wrong, or None.
        printed: what was printed meanwhile.
        seconds: how long it took.
    """

    reply: Reply | None
    error: RankError | TypeError | None
    printed: str
    seconds: float


def call(
    function: Callable[..., object], arguments: tuple[Any, ...], timeout: float, helpers: Sequence[str] = ()
) -> Call:
    """Call `function(*arguments)` on a rank, for at most `timeout` seconds. Its prints and errors are in the result.

    Args:
        helpers: names of helpers that it may call, and that have been supplied to it.
    """
    if isinstance(function, RemoteFunction):
        return _call_remotely(function, arguments, timeout, helpers)
    allowed = tuple(map(helper_origin, helpers))
    try:
        packed = pickling.pack_call(function, arguments, {})
    except TypeError as error:
        return Call(None, error, "", 0.0)
    run = run_on_ranks(1, "", timeout, _call_and_watch, packed, allowed)
    return Call(None if run.error else run.results[0], run.error, run.printed, run.seconds)


def _call_remotely(
    function: RemoteFunction, arguments: tuple[Any, ...], timeout: float, helpers: Sequence[str]
) -> Call:
    """The library's formulas are not there where a remote function is, so there is nothing to watch."""
    start = time.perf_counter()
    try:
        returned, returned_type = function.reply(arguments, timeout, helpers)
    except RankError as error:
        return Call(None, error, function.printed(), time.perf_counter() - start)
    reply = Reply(_number_or_text(returned), returned_type, None)
    return Call(reply, None, function.printed(), time.perf_counter() - start)


def _call_and_watch(comm: Communicator, packed: bytes, allowed: Sequence[str]) -> Reply:
    choose_all_reduce.cache_clear()  # what it remembers would come without a call
    function, arguments, _ = pickling.loads(packed)
    with library_calls((*_ALLOWED, *allowed)) as noted:
        returned = function(*arguments)
    return Reply(_number_or_text(returned), type(returned).__name__, noted[0] if noted else None)


def _number_or_text(value: object) -> float | str | None:
    if isinstance(value, bool):
        return None
    return float(value) if isinstance(value, Real) else value if isinstance(value, str) else None

"""Where a case is played. A venue plays a case once and says what was seen; what is right is none of its business.

    Simulated    all ranks in one process: quick, exact, in virtual time, as many ranks as one likes
    Real         a process for each rank: shares no memory, and shows what each rank prints
    (the judge)  a graded class's functions carry a venue of their own, `_venue`; see `distlib.judge`

Neither of the first two runs in the notebook's process: simulated ranks live in the process of a `World` of one rank.
So a function that crashes, or never ends, takes only that process along. Worlds are kept between cases, one for each
number of ranks, and are closed when the notebook's process ends. They are CPU worlds, also on a machine with GPUs, so
that a mark does not depend on the machine.

nbgrader gives no marks to a test cell that has anything on stderr, be it a warning. So what the student's function
prints, on whichever stream, is caught on the ranks and in the notebook's process, and shown in our own words.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import linecache
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from distlib.checks import on_a_rank
from distlib.checks.case import Case
from distlib.checks.on_a_rank import Run
from distlib.checks.plays import import_plays
from distlib.checks.seen import Seen
from distlib.checks.supplied import Helper, supplied
from distlib.trace import Trace
from distlib.worlds import call_site, pickling
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.output_relay import mark_lines
from distlib.worlds.real.world import World

_PATIENCE = 3.0  # seconds more for the process of simulated ranks, if these don't react when their time is up
_IMPORT_SECONDS = 120.0  # TensorFlow on a busy machine
_worlds: dict[int, World] = {}
_folders: list[tempfile.TemporaryDirectory[str]] = []  # one or none
_simulated_only = ContextVar("_simulated_only", default=False)


class Venue(Protocol):
    """Plays cases with one function."""

    def play(self, case: Case, seconds: float, is_fresh: bool = False) -> Seen:
        """Play a case, at most `seconds`.

        `is_fresh`: the function is new, as if its cell had just been run. Else it may have kept something of the cases
        that were played here before.
        """


class FunctionElsewhere(Venue, Protocol):
    """The venue of a function that is not in this process."""

    def seed(self, seed: int) -> int:
        """A seed of a test cell, made one that the student can't know."""

    def prepare(self, cases: Sequence[Case], helpers: Sequence[Helper[..., Any]]) -> None:
        """Have ready what these cases need."""

    def play(self, case: Case, seconds: float, is_fresh: bool = False, is_empty: bool = False) -> Seen:
        """As of `Venue`. `is_empty`: every message arrives with zeros in it."""


class Simulated:
    """Simulated ranks, in virtual time.

    Args:
        packed: what `pack` has made of the function.
        helpers: what their names in the student's notebook lead to.
    """

    def __init__(self, packed: bytes, helpers: Sequence[Helper[..., Any]], allowed: Sequence[str] = ()) -> None:
        self._packed = packed
        self._allowed = (*_origins(helpers), *allowed)
        self._has_played = False

    def play(self, case: Case, seconds: float, is_fresh: bool = False) -> Seen:
        """Play a case, at most `seconds`. `is_fresh`: as of `Venue`; the first time the function always is."""
        is_fresh, self._has_played = is_fresh or not self._has_played, True
        arguments = self._packed, case.part, self._allowed, case.cluster, seconds, is_fresh, case.deaths
        if _simulated_only.get():
            caught = _catch(lambda: [on_a_rank.simulate(None, *arguments)])
        else:
            _import_on_ranks(1, case)
            caught = _run_on_ranks(1, "", seconds + _PATIENCE, on_a_rank.simulate, *arguments)
        if isinstance(caught.result, RankError):  # of the process that all of them share
            lost: Run = [], Trace(case.world_size, []), _of_a_simulated_rank(caught.result)
            caught.result = [lost]
        played, trace, error = caught.result[0]
        return Seen(case, played, trace, True, error, caught.printed, caught.seconds)


class Real:
    """Real ranks. Times mean nothing there, and the function is new each time. Arguments as of `Simulated`."""

    def __init__(self, packed: bytes, helpers: Sequence[Helper[..., Any]], allowed: Sequence[str] = ()) -> None:
        self._packed = packed
        self._allowed = (*_origins(helpers), *allowed)

    def play(self, case: Case, seconds: float, is_fresh: bool = True) -> Seen:
        """Play a case, at most `seconds`. `is_fresh`: without it the function is that of the last time."""
        arguments, options = (self._packed, case.part, self._allowed), {"time_passes": False, "is_fresh": is_fresh}
        _import_on_ranks(case.world_size, case)
        caught = _run_on_ranks(case.world_size, "[rank {}] ", seconds, on_a_rank.play, *arguments, **options)
        trace = _worlds[case.world_size].trace
        error = caught.result if isinstance(caught.result, RankError) else None
        return Seen(case, [] if error else caught.result, trace, False, error, caught.printed, caught.seconds)


def pack(function: Callable[..., object], helpers: Sequence[Helper[..., Any]]) -> bytes:
    """The function as it travels to the ranks, with `helpers` in the place of the student's own.

    Raises:
        TypeError: it can't travel.
    """
    with supplied(function, helpers):
        return pickling.pack_call(function, (), _cells())


def _cells() -> dict[str, Any]:
    """The lines of this notebook's cells, by file: TensorFlow's AutoGraph reads a function before it turns it into a
    graph, also on a rank.
    """
    files = call_site.learn_cells() if "tensorflow" in sys.modules else ()
    return {file: linecache.getlines(file) for file in files}


@contextlib.contextmanager
def simulated_only() -> Iterator[None]:
    """Checks that run meanwhile, in this thread, play all their cases on simulated ranks, in this process.

    Without real ranks a check is several times faster, and does not notice what only they show. Nothing protects this
    process from the function then. So this is for code that one trusts: `make answers ARGS=--fast`.
    """
    before = _simulated_only.set(True)
    try:
        yield
    finally:
        _simulated_only.reset(before)


def real_ranks_allowed() -> bool:
    """Whether a check may start processes for ranks. False inside `simulated_only`."""
    return not _simulated_only.get()


def close_worlds() -> None:
    """End the ranks of all checks. The next check starts new ones."""
    while _worlds:
        _worlds.popitem()[1].close()
    while _folders:
        _folders.pop().cleanup()


atexit.register(close_worlds)


class _Caught:
    """What a call has given, or the error that it has raised; what was printed; and how long it took."""

    def __init__(self, result: Any, printed: str, seconds: float) -> None:
        self.result, self.printed, self.seconds = result, printed, seconds


def _run_on_ranks(
    world_size: int, mark: str, timeout: float, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> _Caught:
    """`World.run` on ranks that are kept between runs. `mark`: what each print begins with; {} in it is the rank."""
    world = _warm_world(world_size)
    lines: list[str] = []
    world.on_output = lambda rank, stream, text: lines.append(mark_lines(text, mark.format(rank)))
    caught = _catch(lambda: world.run(function, *args, timeout=timeout, **kwargs))
    caught.printed = "".join(lines) + caught.printed
    return caught


def _catch(call: Callable[[], Any]) -> _Caught:
    """Call it, and catch its `RankError` and what Python code of this process prints, warnings included."""
    stream, start = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        try:
            result = call()
        except RankError as error:
            result = error
    return _Caught(result, stream.getvalue(), time.perf_counter() - start)


def _of_a_simulated_rank(error: RankError) -> RankError:
    """Reports the end of the process that all simulated ranks share as that of "a rank": which one is unknown."""
    return type(error)(str(error).replace("rank 0", "a rank"), error.ranks, error.site, error.stack)


def _warm_world(world_size: int) -> World:
    """The world of this size, with its ranks running, so that their start does not count as the student's time."""
    if world_size not in _worlds:
        world = World(world_size, backend="gloo", output_limit=200_000)
        world.run(_do_nothing)
        _worlds[world_size] = world
    return _worlds[world_size]


def _import_on_ranks(world_size: int, case: Case) -> None:
    """Let the ranks import what the case's play imports late: that does not count as the student's time either."""
    name = case.play.__module__
    if getattr(sys.modules[name], "IMPORTED_LATE", ()):
        _run_on_ranks(world_size, "", _IMPORT_SECONDS, _import_plays, name, _temporary_folder())


def _temporary_folder() -> str:
    """Where ranks have their temporary files: it is removed when they are gone."""
    if not _folders:
        _folders.append(tempfile.TemporaryDirectory(prefix="distlib-", ignore_cleanup_errors=True))
    return _folders[0].name


def _import_plays(comm: object, name: str, folder: str) -> None:
    tempfile.tempdir = folder  # TensorFlow leaves files there when its process is ended
    import_plays(name)


def _do_nothing(comm: object) -> None:
    """What a world runs so that its ranks start."""


def _origins(helpers: Sequence[Helper[..., Any]]) -> tuple[str, ...]:
    return tuple(origin for helper in helpers for origin in helper.origins)

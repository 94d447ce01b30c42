"""Running one case on ranks, simulated or real, and keeping what it prints away from the test cell.

    observe_simulated   all ranks in one process, one after the other: quick, exact, as many ranks as one likes
    observe             a process for each rank: shares no memory, and shows what each rank prints

Neither runs in the notebook's process: simulated ranks live in the process of a `World` of one rank. So a function that
crashes, or never ends, takes only that process along.

nbgrader gives no marks to a test cell that has anything on stderr, be it a warning. So what the student's function
prints, on whichever stream, is caught on the ranks and in the notebook's process, and shown in our own words.

Inside `places.simulated_only` there are no such processes: all of it runs in this one.

Worlds are kept between cases, one for each number of ranks, and are closed when the notebook's process ends. They are
CPU worlds, also on a machine with GPUs, so that a mark does not depend on the machine.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from distlib.checks.places import real_ranks_allowed
from distlib.grading.case import Case
from distlib.grading.rank_side import Outcome, run_case, simulate_case
from distlib.trace import Trace
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.output_relay import mark_lines
from distlib.worlds.real.world import World
from distlib.worlds.simulated.simulator import SimulatedWorld

_PATIENCE = 1.0  # seconds more for the process of simulated ranks, if these don't react when their time is up
_worlds: dict[int, World] = {}


@dataclass(frozen=True)
class Observation:
    """What one run of a case has shown.

    Attributes:
        outcomes: by rank; empty if there was an error.
        trace: the messages, up to the error if there was one.
        error: what went wrong on the ranks, or None.
        printed: what was printed meanwhile; on real ranks, lines that begin with the rank.
        seconds: how long it took, without the start of the ranks.
    """

    outcomes: list[Outcome]
    trace: Trace
    error: RankError | None
    printed: str
    seconds: float = 0.0


def observe(packed: bytes, case: Case, timeout: float) -> Observation:
    """Run a function (see `run_case`) for `case` on real ranks, at most `timeout` seconds."""
    return Observation(*run_on_ranks(case.world_size, "[rank {}] ", timeout, run_case, packed, case))


def observe_simulated(packed: bytes, case: Case, timeout: float) -> Observation:
    """As `observe`, on simulated ranks. What they print does not say which of them it was."""
    return Observation(*run_simulated(case.world_size, timeout, simulate_case, packed, case))


class Run(NamedTuple):
    """What `World.run` has given: its results, or an error instead."""

    results: list[Any]
    trace: Trace
    error: RankError | None
    printed: str
    seconds: float


def run_on_ranks(world_size: int, mark: str, timeout: float, function: Callable[..., Any], *args: Any) -> Run:
    """`World.run` on ranks that are kept between runs, with everything caught.

    Args:
        mark: what each piece of print begins with; {} in it is the rank.
    """
    if not real_ranks_allowed():
        return _run_here(lambda: _simulate(world_size, timeout, function, *args))
    lines: list[str] = []
    results: list[Any] = []
    error: RankError | None = None
    with _caught_streams(lines):
        world = _warm_world(world_size)
        world.on_output = lambda rank, stream, text: lines.append(mark_lines(text, mark.format(rank)))
        start = time.perf_counter()
        try:
            results = world.run(function, *args, timeout=timeout)
        except RankError as caught:
            error = caught
        seconds = time.perf_counter() - start
    return Run(results, world.trace, error, "".join(lines), seconds)


def run_simulated(world_size: int, timeout: float, function: Callable[..., Any], *args: Any) -> Run:
    """Call `function(comm, *args, timeout)`, which simulates ranks in its process and returns results, trace, error."""
    if not real_ranks_allowed():
        return _run_here(lambda: function(None, *args, timeout))
    run = run_on_ranks(1, "", timeout + _PATIENCE, function, *args, timeout)
    if run.error is not None:
        return Run([], Trace(world_size, []), _of_a_simulated_rank(run.error), run.printed, run.seconds)
    results, trace, error = run.results[0]
    return Run(results, trace, error, run.printed, run.seconds)


def _run_here(play: Callable[[], tuple[list[Any], Trace, RankError | None]]) -> Run:
    """A run on simulated ranks in this process, with everything caught that Python code prints."""
    lines: list[str] = []
    start = time.perf_counter()
    with _caught_streams(lines):
        results, trace, error = play()
    return Run(results, trace, error, "".join(lines), time.perf_counter() - start)


def _simulate(
    world_size: int, timeout: float, function: Callable[..., Any], *args: Any
) -> tuple[list[Any], Trace, RankError | None]:
    world = SimulatedWorld(world_size)
    try:
        return world.run(function, *args, timeout=timeout), world.trace, None
    except RankError as error:
        return [], world.trace, error


def _of_a_simulated_rank(error: RankError) -> RankError:
    """The end of the process of all simulated ranks, told as that of one of them: which one is not known."""
    return type(error)(str(error).replace("rank 0", "a rank"), error.ranks, error.site, error.stack)


def _warm_world(world_size: int) -> World:
    """The world of this size, with its ranks running, so that their start does not count as the student's time."""
    if world_size not in _worlds:
        world = World(world_size, backend="gloo", output_limit=200_000)
        world.run(_do_nothing)
        _worlds[world_size] = world
    return _worlds[world_size]


def _do_nothing(comm: object) -> None:
    """What a world runs so that its ranks start."""


@contextlib.contextmanager
def _caught_streams(lines: list[str]) -> Iterator[None]:
    """Append to `lines` what Python code of this process prints to stdout and stderr, warnings included."""
    stream = io.StringIO()
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            yield
    finally:
        if stream.getvalue():
            lines.append(stream.getvalue())


@atexit.register
def close_worlds() -> None:
    """End the ranks of all checks. The next check starts new ones."""
    while _worlds:
        _worlds.popitem()[1].close()

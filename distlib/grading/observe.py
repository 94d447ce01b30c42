"""Running one case on real ranks, and keeping what it prints away from the test cell.

nbgrader gives no marks to a test cell that has anything on stderr, be it a warning. So what the student's function
prints, on whichever stream, is caught on the ranks and in the notebook's process, and shown in our own words.

Worlds are kept between cases, one for each number of ranks, and are closed when the notebook's process ends. They are
CPU worlds, also on a machine with GPUs, so that a mark does not depend on the machine.
"""

from __future__ import annotations

import atexit
import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from distlib.diagnosis import RankError
from distlib.grading.case import Case
from distlib.grading.rank_side import Outcome, run_case
from distlib.trace import Trace
from distlib.world import World

_worlds: dict[int, World] = {}


@dataclass(frozen=True)
class Observation:
    """What one run of a case has shown.

    Attributes:
        outcomes: by rank; empty if there was an error.
        trace: the messages, up to the error if there was one.
        error: what went wrong on the ranks, or None.
        printed: what was printed meanwhile, lines that begin with the rank.
    """

    outcomes: list[Outcome]
    trace: Trace
    error: RankError | TypeError | None
    printed: str


def observe(function: Callable[..., object], case: Case, timeout: float) -> Observation:
    """Run `function` for `case` on real ranks, at most `timeout` seconds. Its prints and errors are in the result."""
    lines: list[str] = []
    outcomes: list[Outcome] = []
    error: RankError | TypeError | None = None
    with _caught_streams(lines):
        world = _warm_world(case.world_size)
        world.on_output = lambda rank, stream, text: lines.append(f"[rank {rank}] {text}")
        try:
            outcomes = world.run(run_case, function, case, timeout=timeout)
        except (RankError, TypeError) as caught:  # TypeError: the function can't be sent to the ranks
            error = caught
        trace = world.trace if not isinstance(error, TypeError) else Trace(case.world_size, [])
    return Observation(outcomes, trace, error, "".join(lines))


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

"""What runs on each rank of a notebook during a check. (In the judge's sandbox `judge.remote.sandbox_side` does it.)"""

from __future__ import annotations

import copy
import linecache
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import torch

from distlib.checks.case import Part
from distlib.checks.library_calls import could_call, library_calls
from distlib.checks.plays.plain_values import changed_inputs, plain
from distlib.checks.seen import Played, with_the_dead
from distlib.checks.student_communicator import Handles, StudentCommunicator
from distlib.communicator import Communicator
from distlib.network import Cluster
from distlib.trace import Trace
from distlib.worlds import pickling
from distlib.worlds.deaths import WhileWaiting
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedWorld

_PASSES_ON = True  # see worlds.call_site

Run = tuple[list[Played], Trace, RankError | None]  # by rank (nothing after an error), messages, error

_unpacked: dict[int, tuple[bytes, Any]] = {}  # by rank: what was unpacked last, with all that it has kept since


def play(
    comm: Communicator,
    packed: bytes,
    part: Part,
    allowed: tuple[str, ...],
    *,
    time_passes: bool,
    is_fresh: bool = True,
) -> Played:
    """Play a case on this rank. Exceptions of the student's function pass through.

    Args:
        packed: what `pickling.pack_call` made of the function, with lines of cells by file in the place of arguments.
            Each rank unpacks it for itself, so that it has the notebook's variables of its own, also simulated ranks
            that share a process.
        allowed: functions of the library that may be called; only looked at where there is one rank, because a
            function that communicates is found out by its messages.
        time_passes: whether passing a gate takes its seconds: in virtual time, not on real ranks.
        is_fresh: whether the function is unpacked anew. Else it still has what it has kept since it last was.
    """
    if is_fresh or _unpacked.get(comm.rank, (b"", None))[0] != packed:
        _unpacked[comm.rank] = packed, pickling.loads(packed)
    function, _, cells = _unpacked[comm.rank][1]
    linecache.cache.update({file: (len("".join(lines)), None, lines, file) for file, lines in cells.items()})
    gates: list[tuple[int, float]] = []
    shown: list[tuple[int, torch.Tensor | None]] = []
    handles = Handles()

    def gate(k: int, values: torch.Tensor | None = None) -> float:
        seconds = part.seconds(comm.rank, k) if time_passes else 0.0
        if seconds:  # a rank that lets no time pass is not interrupted
            comm.sleep(seconds)
        gates.append((k, comm.time()))
        shown.append((k, None if values is None else values.detach().clone()))
        return part.factor(comm.rank, k)

    comm.sleep(part.delay(comm.rank))
    inputs = copy.deepcopy(part.inputs[comm.rank])
    with _watch(packed, part, allowed) as noted:
        result = plain(part.play(StudentCommunicator(comm, handles), function, inputs, gate))
    changed = changed_inputs(part.inputs[comm.rank], inputs)
    return Played(result, gates, shown, handles.slips(), noted[0] if noted else None, changed)


def _watch(packed: bytes, part: Part, allowed: tuple[str, ...]) -> AbstractContextManager[list[str]]:
    """Look for calls of the library on a rank that is alone; in a play with many calls only if one could be there."""
    of_the_play = vars(sys.modules[part.play.__module__])
    if part.world_size > 1 or of_the_play.get("RUNS_TORCH"):
        return nullcontext([])
    many_calls = of_the_play.get("MANY_CALLS", False)
    return nullcontext([]) if many_calls and not _could_call(packed) else library_calls(allowed)


@lru_cache(maxsize=1)  # all cases of a check have the same
def _could_call(packed: bytes) -> bool:
    function, _, _ = pickling.loads(packed)
    return could_call(function)


def simulate(
    comm: object,
    packed: bytes,
    part: Part,
    allowed: tuple[str, ...],
    cluster: Cluster | None,
    timeout: float,
    is_fresh: bool = True,
    deaths: Mapping[int, float | WhileWaiting] | None = None,
) -> Run:
    """Play on simulated ranks, all of them inside this process, at most `timeout` seconds. `is_fresh`: as of `play`.

    Ranks are threads where time passes or messages are sent inside backward; the file of the play says so.
    """
    of_the_play = vars(sys.modules[part.play.__module__])
    contexts = "threads" if of_the_play.get("INSIDE_BACKWARD") or of_the_play.get("RUNS_TORCH") else "greenlets"
    world = SimulatedWorld(part.world_size, cluster, record=True, contexts=contexts, deaths=deaths)
    try:
        played = world.run(play, packed, part, allowed, time_passes=True, is_fresh=is_fresh, timeout=timeout)
        return with_the_dead(played), world.trace, None
    except RankError as error:
        return [], world.trace, error

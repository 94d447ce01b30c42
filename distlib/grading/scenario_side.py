"""What runs on each rank of a notebook during a check by scenario. (In the sandbox `remote.rank_process` does it.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from distlib.checks.library_calls import library_calls
from distlib.checks.plays.plain import plain
from distlib.checks.student_communicator import StudentCommunicator
from distlib.communicator import Communicator
from distlib.grading.scenario_case import Part
from distlib.network import Cluster
from distlib.trace import Trace
from distlib.worlds import pickling
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedWorld

__passes_on__ = True  # see worlds.call_site


@dataclass(frozen=True)
class Played:
    """What a scenario has shown on one rank.

    Attributes:
        result: what it returned, as plain values.
        gates: the gates that were passed: number, and the moment on the rank's clock.
        library: the first function of the library that was called and must not, where that was watched; else None.
    """

    result: Any
    gates: tuple[tuple[int, float], ...]
    library: str | None = None


def play(comm: Communicator, packed: bytes, part: Part, allowed: tuple[str, ...], *, time_passes: bool) -> Played:
    """Play a scenario on this rank. Exceptions of the student's function pass through.

    Args:
        packed: what `pickling.pack_call` made of the function without arguments, unpacked by each rank for itself.
        allowed: functions of the library that may be called; only looked at where there is one rank, because a
            function that communicates is found out by its messages.
        time_passes: whether passing a gate takes its seconds: in virtual time, not on real ranks.
    """
    function, _, _ = pickling.loads(packed)
    gates: list[tuple[int, float]] = []

    def gate(k: int, seconds: float = 0.0) -> float:
        if time_passes:
            comm.sleep(seconds)
        gates.append((k, comm.time()))
        return part.factor(comm.rank, k)

    comm.sleep(part.delay(comm.rank))
    arguments = StudentCommunicator(comm), function, part.inputs[comm.rank], gate
    if part.world_size > 1:
        return Played(plain(part.play(*arguments)), tuple(gates))
    with library_calls(allowed) as noted:
        result = plain(part.play(*arguments))
    return Played(result, tuple(gates), noted[0] if noted else None)


def simulate_play(
    comm: Communicator, packed: bytes, part: Part, allowed: tuple[str, ...], cluster: Cluster | None, timeout: float
) -> tuple[list[Played], Trace, RankError | None]:
    """Play on simulated ranks, all of them inside this one rank's process, at most `timeout` seconds.

    Their contexts are threads, because functions may communicate inside backward.

    Returns:
        What each rank has shown (nothing if there was an error), the messages, and the error of the run.
    """
    world = SimulatedWorld(part.world_size, cluster, record=True, contexts="threads")
    try:
        return world.run(play, packed, part, allowed, time_passes=True, timeout=timeout), world.trace, None
    except RankError as error:
        return [], world.trace, error

"""Playing a scenario on remote ranks: each gets its inputs, and hands back what the scenario returned there.

Here gates are kept: the factor by which a gradient is multiplied comes only when its gate is passed.
"""

from __future__ import annotations

from typing import Any

from distlib.grading.scenario_case import ScenarioCase
from distlib.grading.scenario_side import Played
from distlib.judge.remote.proxy import Proxy, RemoteRun
from distlib.judge.remote.ranks import RemoteRanks
from distlib.trace import Trace
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedCommunicator, SimulatedWorld


def prepare_to_play(ranks: RemoteRanks, case: ScenarioCase) -> None:
    """Have the ranks there that a scenario needs."""
    ranks.prepare(_file_of(case))
    ranks.gather(case.world_size)


def play_remotely(
    ranks: RemoteRanks, name: str, case: ScenarioCase, helpers: tuple[str, ...], seconds: float
) -> tuple[list[Played], Trace, RankError | None]:
    """Play a scenario with the function `name` on remote ranks, at most `seconds`.

    Returns:
        What each rank has shown (nothing if there was an error), the messages, and the error of the run.
    """
    prepare_to_play(ranks, case)
    run = RemoteRun(ranks, name, case, helpers, seconds)
    return run.on(SimulatedWorld(case.world_size, case.cluster, record=True), _speak)


def _speak(run: RemoteRun, comm: SimulatedCommunicator) -> Played:
    part = run.case.part
    comm.sleep(part.delay(comm.rank))
    result: Any = Proxy(run, comm).converse(
        {
            "job": "play", "name": run.name, "scenario": (_file_of(run.case), part.play.__name__),
            "inputs": part.inputs[comm.rank], "helpers": list(run.helpers),
            "rank": comm.rank, "world_size": comm.world_size,
        }
    )  # fmt: skip
    return Played(result["result"], tuple(run.gates.get(comm.rank, ())))


def _file_of(case: ScenarioCase) -> str:
    """The file of `distlib.checks.plays` that a scenario stands in."""
    return case.part.play.__module__.rpartition(".")[2]

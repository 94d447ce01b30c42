"""Playing a scenario once, on simulated, real or remote ranks, and what was seen of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from distlib.checks.supplied import helper_origins
from distlib.grading.observe import Run, run_on_ranks, run_simulated
from distlib.grading.scenario_case import ScenarioCase
from distlib.grading.scenario_side import Played, play, simulate_play
from distlib.trace import Trace
from distlib.worlds.diagnosis import RankError


@dataclass(frozen=True)
class Scene:
    """What one run of a scenario has shown.

    Attributes:
        results: by rank, what the scenario returned: plain values and tensors.
        gates: by rank, the gates that were passed, in their order: number, and the moment on the rank's clock.
        trace: the messages, up to the error if there was one. The clocks of its times and of the gates are the same.
        in_virtual_time: whether times mean anything: those of simulated and of remote ranks do, the wall clock doesn't.
        error: what went wrong on the ranks; then there are no results and no gates. None if nothing did.
        library: the first function of the library that was called and must not; None where that was not watched.
        printed: what was printed meanwhile.
        seconds: how long it took, in real seconds.
    """

    results: Sequence[Any]
    gates: Sequence[Sequence[tuple[int, float]]]
    trace: Trace
    in_virtual_time: bool
    error: RankError | None = None
    library: str | None = None
    printed: str = ""
    seconds: float = 0.0

    def passed(self, rank: int, k: int) -> list[float]:
        """The moments at which a rank passed gate k, in their order."""
        return [moment for number, moment in self.gates[rank] if number == k]


def play_simulated(packed: bytes, helpers: Sequence[str], case: ScenarioCase, timeout: float) -> Scene:
    """Play a case on simulated ranks, at most `timeout` seconds."""
    call = partial(simulate_play, packed=packed, part=case.part, allowed=_origins(helpers), cluster=case.cluster)
    return scene_of(run_simulated(case.world_size, timeout, _simulate, call), in_virtual_time=True)


def play_for_real(packed: bytes, helpers: Sequence[str], case: ScenarioCase, timeout: float) -> Scene:
    """Play a case on real ranks, at most `timeout` seconds."""
    call = partial(play, packed=packed, part=case.part, allowed=_origins(helpers), time_passes=False)
    return scene_of(run_on_ranks(case.world_size, "[rank {}] ", timeout, call), in_virtual_time=False)


def scene_of(run: Run, *, in_virtual_time: bool) -> Scene:
    """What a run of `Played` results has shown."""
    played: list[Played] = run.results
    return Scene(
        results=[each.result for each in played],
        gates=[each.gates for each in played],
        trace=run.trace,
        in_virtual_time=in_virtual_time,
        error=run.error,
        library=next((each.library for each in played if each.library), None),
        printed=run.printed,
        seconds=run.seconds,
    )


def _simulate(comm: Any, call: partial[Any], timeout: float) -> Any:
    return call(comm, timeout=timeout)


def _origins(helpers: Sequence[str]) -> tuple[str, ...]:
    return tuple(origin for name in helpers for origin in helper_origins(name))

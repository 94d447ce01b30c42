"""Running a case of a check on remote ranks: each gets its tensor, and hands back what is in its memory afterwards."""

from __future__ import annotations

from typing import Any

import torch

from distlib.grading.case import Case, lay_out, rank_input
from distlib.grading.rank_side import Outcome, outcome_of, starting_delay
from distlib.judge.remote.proxy import Proxy, RemoteRun, made_no_sense, short
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.wire import WireError
from distlib.trace import Trace
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedCommunicator, SimulatedWorld


def run_remotely(
    ranks: RemoteRanks, name: str, case: Case, helpers: tuple[str, ...], seconds: float
) -> tuple[list[Outcome], Trace, RankError | None]:
    """Run the function `name` for `case` on remote ranks, at most `seconds`.

    Returns:
        The outcomes by rank (none if there was an error), the messages, and the error of the run.
    """
    run = RemoteRun(ranks, name, case, helpers, seconds)
    return run.on(SimulatedWorld(case.world_size, record=True), _speak)


def _speak(run: RemoteRun, comm: SimulatedCommunicator) -> Outcome:
    """Hand the remote rank its input, do what it asks for, and look at what it hands back."""
    case = run.case
    memory, view = lay_out(rank_input(case, comm.rank), case.layout)
    shape = list(view.shape), list(view.stride()), view.storage_offset()
    comm.sleep(starting_delay(case, comm.rank))
    told = Proxy(run, comm).converse(
        {
            "job": "check", "name": run.name, "memory": memory, "view": shape, "helpers": list(run.helpers),
            "options": case.options,
            "rank": comm.rank, "world_size": comm.world_size,
        }
    )  # fmt: skip
    return _outcome(comm.rank, memory, view, told)


def _outcome(rank: int, before: torch.Tensor, view: torch.Tensor, told: Any) -> Outcome:
    try:
        memory, returned = told["memory"], told["returned"]
        if memory.shape != before.shape or memory.dtype != before.dtype:
            raise WireError("another tensor came back")
        return outcome_of(
            memory, before, memory.as_strided(view.shape, view.stride(), view.storage_offset()),
            returned=None if returned is None else [item.flatten() for item in returned],
            returned_is_other=bool(told["returned_is_other"]), returned_type=short(told["returned_type"]),
            moved=None if told["moved"] is None else told["moved"].flatten(),
        )  # fmt: skip
    except (WireError, KeyError, TypeError, AttributeError) as error:
        raise made_no_sense(rank, error) from None

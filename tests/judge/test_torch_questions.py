"""torch's own calls of a graded rank: the judge runs what makes sense, and refuses the rest before it is run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from distlib import Communicator, SimulatedWorld
from distlib.judge.remote.torch_questions import torch_call

ONES = torch.ones(2)
ALL_REDUCE = {"call": "all_reduce", "text": "all_reduce(2 float32, op=SUM)", "given": [ONES], "root": 0, "op": "SUM"}
PIECES = {"call": "reduce_scatter", "text": "reduce_scatter_tensor(3 × 2 float32, op=SUM)"}


def asked(details: dict[str, Any], landings: int = 0) -> list[list[float]]:
    """What three ranks get for a call that all of them ask for: the first tensor that has changed, by rank."""

    def rank(comm: Communicator) -> list[float]:
        own = {**details, "given": [each + comm.rank for each in details["given"]]}
        call = torch_call(comm, own, [torch.zeros(2) for _ in range(landings)])
        call.run(comm.within(call.text))
        return [float(value) for value in call.changed[0]]

    return SimulatedWorld(3).run(rank)


@pytest.mark.parametrize("form", ["all_gather(3 × 2 float32)", "all_gather_into_tensor_coalesced(3 × 2 float32)"])
def test_a_call_is_run_in_each_of_torchs_forms(form: str) -> None:
    assert asked({**ALL_REDUCE, "call": "all_gather", "text": form}, landings=3) == [[1, 1]] * 3
    assert asked(ALL_REDUCE) == [[6, 6]] * 3
    assert asked({**ALL_REDUCE, **PIECES, "given": [ONES, 2 * ONES, 3 * ONES]}, landings=1) == [
        [6, 6],
        [9, 9],
        [12, 12],
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"call": "system"},
        {"call": ["all_reduce"]},
        {"call": "reduce"},  # by the text it is another one
        {"text": "broadcast(2 float32, src=0)"},
        {"text": 7},
        {"given": ONES},
        {"given": ["a"]},
        {"given": {"$": 1}},
        {"root": 3},
        {"root": -1},
        {"root": 0.0},
        {"op": "EVAL"},
        {"op": ["SUM"]},
        {"op": "AVG", "given": [torch.ones(2, dtype=torch.int64)]},
        {**PIECES, "given": [ONES]},
        {**PIECES, "given": []},
        {"call": "all_gather", "text": "all_gather(3 × 2 float32)"},  # without a place for what comes
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(wrong: dict[str, Any]) -> None:
    def rank(comm: Communicator) -> None:
        with pytest.raises((ValueError, TypeError, LookupError)):
            torch_call(comm, {**ALL_REDUCE, **wrong}, [])

    world = SimulatedWorld(3)
    world.run(rank)
    assert not world.trace

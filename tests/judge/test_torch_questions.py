"""torch's own calls of a graded rank: the judge runs what makes sense, and refuses the rest before it is run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from distlib import Communicator, SimulatedWorld
from distlib.checks import CheckFailed
from distlib.checks.task import Task
from distlib.exercises.ddp.torchs_ddp import Accumulation, check_train_with_ddp
from distlib.exercises.zero.checkpoint_cases import Break
from distlib.exercises.zero.checkpoint_checks import check_load_whole_state, check_whole_state
from distlib.judge.remote.torch_questions import torch_call
from tests.heard import tells
from tests.remote_functions import on_remote_ranks

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


ALL_CALLS = """
import torch.distributed as dist

def train_with_ddp(model, steps, rate):
    rank, size = dist.get_rank(), dist.get_world_size()
    own, whole = torch.full((2, 3), float(rank)), torch.arange(2.0 * size)
    everybody = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(everybody, own)
    assert [float(each[0, 0]) for each in everybody] == [0, 1, 2]
    dist.all_reduce(own)
    work = dist.all_reduce(own, op=dist.ReduceOp.AVG, async_op=True)
    work.wait()
    assert own.tolist() == [[3.0] * 3] * 2
    dist.broadcast(last := torch.full((2, 3), float(rank)), 2)
    assert float(last.sum()) == 12
    part = torch.empty(2)
    dist.reduce_scatter(part, list(whole.split(2)))
    assert part.tolist() == [6.0 * rank, 6.0 * rank + 3]
    dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.MAX)
    again = torch.empty_like(whole)
    dist.all_gather_into_tensor(again, part)
    assert again.tolist() == whole.tolist()
    dist.scatter(part, [whole[:2] + each for each in range(size)] if rank == 1 else None, 1)
    assert part.tolist() == [rank, rank + 1]
    pieces = [torch.empty(2) for _ in range(size)] if rank == 0 else None
    dist.gather(part, pieces)
    dist.reduce(part, 0)
    assert part.tolist() == [3, 6] or rank
    dist.all_to_all_single(again, whole + 100 * rank)
    assert again.tolist() == [100.0 * src + 2 * rank + each for src in range(size) for each in range(2)]
    texts = [None] * size
    dist.all_gather_object(texts, f"rank {rank}")
    assert texts == ["rank 0", "rank 1", "rank 2"]
    after, before = (rank + 1) % size, (rank - 1) % size
    came = torch.tensor([9])
    sending, receiving = dist.P2POp(dist.isend, torch.tensor([rank]), after), dist.P2POp(dist.irecv, came, before)
    for work in dist.batch_isend_irecv([sending, receiving]):
        work.wait()
    assert came.tolist() == [before]
    dist.barrier(async_op=True).wait()
    pair = dist.new_group([0, 2])
    if rank != 1:
        dist.all_reduce(came, group=pair)
        assert came.tolist() == [3]
    dist.monitored_barrier()
    raise ValueError("every call went well")
"""


def test_a_graded_rank_has_all_calls_of_torch() -> None:
    with (
        on_remote_ranks(ALL_CALLS, "train_with_ddp") as function,
        pytest.raises(CheckFailed, match="every call went well"),
    ):
        check_train_with_ddp(function, world_sizes=(3,), trainings=[Accumulation([2, 3], microbatches=[2])])


def test_a_graded_rank_reads_of_a_mistake_with_torchs_calls() -> None:
    text = ALL_CALLS[: ALL_CALLS.index("    own, whole")] + "    dist.all_reduce(torch.ones(2 + rank))\n"
    with (
        on_remote_ranks(text, "train_with_ddp") as function,
        pytest.raises(CheckFailed, match=r"(?s)cell 2, line 6: .*all_reduce\(2 float32"),
    ):
        check_train_with_ddp(function, world_sizes=(3,), trainings=[Accumulation([2, 3], microbatches=[2])])


CHECKPOINT = """
import copy
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_state_dict, set_model_state_dict, set_optimizer_state_dict
)

def whole_state(model, optimizer):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return copy.deepcopy(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer, options=options))))

def load_whole_state(model, optimizer, state):
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, state.get("model", {}), options=options)
    set_optimizer_state_dict(model, optimizer, state.get("optimizer", {}), options=options)
"""


@pytest.mark.parametrize("check", [check_whole_state, check_load_whole_state])
def test_a_graded_rank_has_torchs_checkpoints(check: Task) -> None:
    with on_remote_ranks(CHECKPOINT, check.__name__.removeprefix("check_")) as function:
        assert len(check(function, runs=[Break(3, (4, 5, 7, 2), 1)])) == 1


AROUND_TORCH = """
import gc
from distlib.communicator import Communicator

def train_with_ddp(model, steps, rate):
    comm = next(each for each in gc.get_objects() if isinstance(each, Communicator) and each.world_size == 3)
    came = torch.zeros(2)
    comm.exchange(torch.ones(2), (comm.rank + 1) % 3, came, (comm.rank - 1) % 3)
"""


def test_what_a_program_of_torchs_sends_without_torch_does_not_count() -> None:
    with on_remote_ranks(AROUND_TORCH, "train_with_ddp") as function, pytest.raises(CheckFailed) as found:
        check_train_with_ddp(function, world_sizes=(3,), trainings=[Accumulation([2, 3], microbatches=[2])])
    assert tells(str(found.value), "checks/senders.txt: not_torchs")

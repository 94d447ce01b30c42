"""What the checks of exercise 11 are made of: shards, one process, and the bytes that are alive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch

from distlib import SimulatedWorld
from distlib.checks.plays.bytes_alive import LiveBytes
from distlib.checks.student_communicator import StudentCommunicator
from distlib.checks.task import Draw
from distlib.communicator import Communicator
from distlib.exercises.zero import checks, plays
from distlib.exercises.zero.cases import (
    Clipping,
    FlatShards,
    Optimizing,
    WholeGradient,
    WholeOptimizer,
    clipping_case,
    optimizing_case,
)
from distlib.exercises.zero.checks import _memory_mistakes, by_stage
from distlib.training.zero import memory_by_stage
from distlib.worlds.private_torch import IMPORTED_LATE

# ── cases ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ranks", range(1, 8))
def test_shards_are_equal_and_make_the_buffer_again(ranks: int) -> None:
    plan = FlatShards(ranks, [(2, 3), (), (4,)])
    flat = torch.arange(1.0, 12)
    shards = plan.shards(flat)
    assert (plan.length, [len(shard) for shard in shards]) == (11, [plan.shard] * ranks)
    assert torch.equal(torch.cat(shards)[:11], flat)
    assert not torch.cat(shards)[11:].any()
    assert plan.shard_bytes == plan.shard * 8
    assert [piece.shape for piece in plan.pieces(flat)] == [(2, 3), (), (4,)]


def test_the_optimizer_of_the_play_works_element_by_element() -> None:
    whole = WholeOptimizer(optimizing_case(Draw(1), Optimizing(3, [(2, 3), (4,)])))
    case = optimizing_case(Draw(1), Optimizing(3, [(2, 3), (4,)]))
    pieces = [each.clone() for each in case.inputs[0]["sets"][0]["parameters"]]
    optimizer = plays.TwoStates(pieces)
    for step in range(3):
        gradient = torch.cat([given["sets"][0]["gradients"][step] for given in case.inputs])
        for piece, its in zip(pieces, whole.plan.pieces(gradient), strict=True):
            piece.grad = its
        optimizer.step()
        assert torch.equal(torch.cat([piece.flatten() for piece in pieces]), whole.flat[step + 1])
    optimizer.zero_grad()
    assert [piece.grad for piece in pieces] == [None, None]


def test_what_mistakes_of_a_step_leave_differs_from_what_is_right_and_from_one_another() -> None:
    case = optimizing_case(Draw(2), Optimizing(3, [(2, 3), (4,)], next_to=True))
    whole = WholeOptimizer(case)
    table = checks._step_mistakes(case, whole, number=0, rank=1, step=1)
    values = [whole.flat[2], *table.values()]
    assert len(values) == 10
    for one, other in combinations(values, 2):
        assert not torch.allclose(one, other)


def test_a_rank_is_given_its_shard_of_the_gradient_and_the_parameters_of_all() -> None:
    case = optimizing_case(Draw(3), Optimizing(4, [(5,), (2,)], next_to=True))
    assert [len(given["sets"]) for given in case.inputs] == [2] * 4
    first, second = (given["sets"][0] for given in case.inputs[:2])
    assert all(torch.equal(*pair) for pair in zip(first["parameters"], second["parameters"], strict=True))
    assert not torch.equal(first["gradients"][0], second["gradients"][0])
    assert [len(each) for each in first["gradients"]] == [2, 2, 2]


@pytest.mark.parametrize(("relative", "is_clipped"), [(0.5, True), (10.0, False), (float("inf"), False)])
def test_what_is_clipped_has_the_norm_that_is_asked_for(relative: float, is_clipped: bool) -> None:
    case = clipping_case(Draw(4), Clipping(3, [(2, 3), (4,)], relative_norm=relative, calls=2))
    for call in range(2):
        whole = WholeGradient(case, call)
        right = torch.cat(whole.shards())[:10]
        parameter = torch.nn.Parameter(torch.zeros(10, dtype=torch.float64))
        parameter.grad = whole.average.clone()
        assert float(torch.nn.utils.clip_grad_norm_([parameter], whole.max_norm)) == pytest.approx(whole.norm)
        torch.testing.assert_close(right, parameter.grad)
        assert bool(right.norm() < 0.99 * whole.norm) == is_clipped
        assert sum(norm**2 for norm in whole.shard_norms()) == pytest.approx(whole.norm**2)


@pytest.mark.parametrize("seed", range(10))
def test_where_the_norm_is_4_max_norm_is_between_it_and_its_square(
    seed: int,
) -> None:
    whole = WholeGradient(clipping_case(Draw(seed), Clipping(4, [(3, 4), (2,)], relative_norm=1.5, norm=4.0)), 0)
    assert whole.norm == pytest.approx(4)
    assert whole.norm < whole.max_norm < whole.norm**2


def test_where_the_norm_is_small_the_epsilon_is_seen() -> None:
    plan = Clipping(2, [(5,), (2, 2)], relative_norm=0.5, norm=1e-5)
    case = clipping_case(Draw(8), plan)
    whole = WholeGradient(case, 0)
    without = whole.shards(whole.max_norm / whole.norm)
    assert not any(checks._same(*pair) for pair in zip(whole.shards(), without, strict=True))
    assert case.title.endswith("clipped, the norm is 1e-05")


def test_the_bytes_of_each_stage_are_those_of_the_library_where_the_ranks_divide() -> None:
    theirs = memory_by_stage(20, 4)
    assert by_stage([12, 8], 4, checks.BYTES) == [sum(kinds.values()) for kinds in theirs]


def test_one_question_tells_all_wrong_formulas_apart() -> None:
    lengths, ranks, nbytes = [10, 5, 6], 4, (3, 5, 17)
    table = _memory_mistakes(lengths, ranks, nbytes)
    values = [by_stage(lengths, ranks, nbytes), *table.values()]
    assert len(table) == 15
    for one, other in combinations(values, 2):
        assert one != other


# ── bytes that are alive ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_view_holds_all_memory_and_a_copy_its_own() -> None:
    with LiveBytes() as live:
        flat = torch.zeros(100)
        part = flat[:2]
        assert live.now() == 400
        del flat
        assert live.now() == 400
        part = part.clone()
        assert (live.now(), live.peak) == (8, 408)
        live.forget_peak()
        assert live.peak == 8
        del part
    assert live.now() == 0


def test_memory_that_was_given_back_has_no_bytes() -> None:
    with LiveBytes() as live:
        flat = torch.zeros(100)
        flat.untyped_storage().resize_(0)
        assert live.now() == 0
        flat.untyped_storage().resize_(400)
        assert live.now() == 400


def test_what_was_there_before_counts_only_if_it_is_given() -> None:
    weight, other = torch.nn.Parameter(torch.zeros(10)), torch.ones(10)
    with LiveBytes([weight]) as live:
        other += 1
        weight.data = other[:5]
        assert live.now() == 0, "the memory of weight is gone, and that of other was not given"
        made = torch.tensor([1.0, 2.0])
        assert live.now() == made.nbytes


def test_gradients_of_a_backward_pass_are_seen() -> None:
    weight = torch.nn.Parameter(torch.ones(50, 2))
    with LiveBytes() as live:
        (weight * 3).tanh().sum().backward()
        assert live.now() == weight.nbytes  # its gradient
        assert live.peak >= 2 * weight.nbytes
        weight.grad = None
        assert live.now() == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3),
        lambda: torch.ones(3).new_empty(3),
        lambda: torch.empty_like(torch.ones(3)),
        lambda: torch.empty_strided((3,), (1,)),
    ],
)
def test_memory_that_nobody_has_written_holds_nan(make: Callable[[], torch.Tensor]) -> None:
    with LiveBytes():
        assert make().isnan().all()
        assert torch.empty(3, dtype=torch.int64).dtype == torch.int64
        assert torch.zeros(3).tolist() == [0, 0, 0]


def test_a_circle_that_nobody_can_reach_is_freed_when_there_is_too_much() -> None:
    class Holder:
        def __init__(self) -> None:
            self.own, self.flat = self, torch.zeros(100)

    with LiveBytes() as live:
        Holder()
        assert live.settled(most=400) == 400
        assert live.settled(most=399) == 0


def test_ranks_are_counted_each_by_itself_and_nothing_of_the_simulation_stays() -> None:
    """Neither the engine nor a handle keeps the tensor of a message that has arrived."""

    def count(inside: Communicator) -> tuple[int, int]:
        comm: Any = StudentCommunicator(inside)
        other = 1 - comm.rank
        with LiveBytes() as live:
            own = torch.ones(10 + 10 * comm.rank)
            incoming = torch.empty(10 + 10 * other)
            comm.exchange(own, other, incoming, other)
            work = comm.isend(own.clone(), other)
            comm.recv(incoming, other)
            work.wait()
            del own, incoming, work
            comm.barrier()
            return live.now(), live.peak

    (alive, _), (also_alive, peak) = SimulatedWorld(2, contexts="threads").run(count)
    assert (alive, also_alive) == (0, 0)
    assert peak >= 120


def test_counting_does_not_import_a_compiler() -> None:
    def count(comm: Communicator) -> bool:
        before = IMPORTED_LATE[0] in sys.modules
        with LiveBytes():
            torch.ones(3)
        return before or IMPORTED_LATE[0] not in sys.modules

    assert SimulatedWorld(1, contexts="threads").run(count) == [True]


# ── what a play refuses ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", [torch.zeros(3), [3.0], [torch.zeros(2), None]])
def test_an_optimizer_is_made_for_a_list_of_tensors(given: object) -> None:
    with pytest.raises(TypeError, match="make_optimizer expected a list of tensors"):
        plays._Maker()(given)


def test_what_optimizers_are_made_for_is_noted() -> None:
    maker = plays._Maker()
    first, second = torch.zeros(3), torch.zeros(2, 2)
    first.grad, second.grad = torch.ones(3), torch.ones(2, 2)
    maker([first, second]).step()
    assert (maker.made, maker.states) == ([[3, 4]], 7)
    maker([torch.zeros(5)]).step()  # without a gradient there are no states
    assert (maker.made, maker.states) == ([[3, 4], [5]], 7)


@pytest.mark.parametrize(
    ("found", "number"),
    [(2, 2.0), (2.5, 2.5), (torch.tensor([2.5]), 2.5), (torch.tensor(3), 3.0), (True, None), ("2", None)],
)
def test_a_norm_is_a_number_or_a_tensor_with_one(found: object, number: float | None) -> None:
    assert checks._as_number(found) == number

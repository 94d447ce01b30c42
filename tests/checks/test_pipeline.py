"""What the checks of exercise 09 are made of: drawn schedules, what a single process computes, what a stage keeps."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
import torch

from distlib import SimulatedWorld
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import every_call
from distlib.checks.rules.values import explain_factor
from distlib.checks.student_communicator import StudentCommunicator
from distlib.checks.task import Draw, first
from distlib.communicator import Communicator
from distlib.exercises.pipeline.cases import Alone, Plan, drawn_plan, stage_case
from distlib.exercises.pipeline.pipelining_checks import TorchStep, _StagesAlone, check_pipeline_step, drawn_step
from distlib.exercises.pipeline.pipelining_plays import loss_of
from distlib.exercises.pipeline.plays import NotedStage, StageNotes
from distlib.exercises.pipeline.schedule_rules import all_forward_first, is_a_schedule, keeps_as_1f1b, takes
from distlib.training import schedules


@pytest.mark.parametrize("seed", range(20))
def test_a_drawn_plan_can_be_executed_and_is_another_one_each_time(seed: int) -> None:
    plan, other = drawn_plan(Draw(seed), 3, 4), drawn_plan(Draw(seed + 100), 3, 4)
    schedules.check_schedule(plan.schedule)
    assert [len(row) for row in plan.schedule] == [8] * 3
    assert len(plan.samples) == 4
    assert plan.schedule != other.schedule


def test_the_shares_of_the_microbatches_add_up_to_the_gradients_of_the_batch() -> None:
    case = stage_case(Draw(1), Plan("GPipe", schedules.gpipe(3, 3), samples=[1, 4, 2]))
    alone = Alone(case.inputs, case.facts.samples)
    for stage in range(3):
        shares = [alone.share(stage, i) for i in range(3)]
        for k, parameter in enumerate(alone.parameters[stage]):
            torch.testing.assert_close(sum(share[k] for share in shares), parameter.grad, rtol=1e-12, atol=1e-14)
    weighted = sum(n / 7 * loss for n, loss in zip([1, 4, 2], alone.losses, strict=True))
    assert alone.loss == pytest.approx(weighted, rel=1e-12)


def test_a_stage_notes_what_is_kept_until_its_backward_pass() -> None:
    notes = StageNotes()
    stage = NotedStage(torch.ones(2, 3).double(), torch.zeros(2).double(), notes)
    outputs = {}
    for i in range(3):
        outputs[i] = stage(torch.full((1, 3), float(i)).double())
    assert notes.kept == [1, 2, 3]
    outputs.pop(1).sum().backward()
    outputs.pop(0).sum().backward(retain_graph=True)
    stage(torch.zeros(1, 3).double())
    assert notes.did == [("F", 0), ("F", 1), ("F", 2), ("B", 1), ("B", 0), ("F", 3)]
    assert notes.kept[-1] == 2  # microbatch 2, and the one that is just under way


def test_a_retained_graph_counts_as_kept() -> None:
    notes = StageNotes()
    stage = NotedStage(torch.ones(2, 3).double(), torch.zeros(2).double(), notes)
    kept = stage(torch.zeros(1, 3).double())
    kept.sum().backward(retain_graph=True)
    later = stage(torch.zeros(1, 3).double())
    assert notes.kept == [1, 2]
    assert kept.shape == later.shape


def test_a_message_under_way_keeps_no_graph_alive() -> None:
    assert SimulatedWorld(2, contexts="threads").run(_keeps_a_graph) == [False, False]


def _keeps_a_graph(comm: Communicator) -> bool:
    student = StudentCommunicator(comm)
    leaf = torch.ones(3, requires_grad=True)
    alive = weakref.ref(leaf)
    if comm.rank == 1:
        student.recv(torch.empty(3), 0)
        return False
    work = student.isend(leaf * 2, 1)
    del leaf
    is_kept = alive() is not None
    work.wait()
    return is_kept


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "it returned None"),
        ([["0F0", "0B0"]], "1 row for 2 stages"),
        ([["0F0", "0B0"], ["1F0", "1X0"]], "'1X0' is not an action"),
        ([["0F0", "0B0"], ["1F0", "1I0", "1W0"]], "'1I0' is not an action"),
        ([["0F0", "0B0"], ["1F0", "1B0", "1F1"]], "row 1 contains 1F1"),
        ([["0F0", "0B0"], ["1F0"]], "1B0 is missing"),
        ([["0F0", "0B0", "0B0"], ["1F0", "1B0"]], "0B0 stands in the table 2 times"),
        ([["0B0", "0F0"], ["1F0", "1B0"]], "cannot be executed"),
    ],
)
def test_what_is_not_a_schedule_is_named(found: object, words: str) -> None:
    remark = first(is_a_schedule(found, 2, 1))
    assert remark is not None and words in remark.seen


def test_the_rules_tell_gpipe_and_1f1b_apart() -> None:
    all_first, in_turns = schedules.gpipe(3, 5), schedules.one_forward_one_backward(3, 5)
    assert first(all_forward_first(all_first)) is None
    assert first(all_forward_first(in_turns)) is not None
    assert first(keeps_as_1f1b(in_turns, 5)) is None
    assert "GPipe" in getattr(first(keeps_as_1f1b(all_first, 5)), "cause", "")
    assert takes(all_first, 21, "") is takes(in_turns, 21, "") is None
    assert takes(schedules.naive(3, 5), 21, "") is not None


def test_a_multiple_is_named() -> None:
    right = torch.tensor([1.0, -2.0, 4.0])
    assert explain_factor(3 * right, right) == "this is 3 times what it should be. "
    assert explain_factor(right / 3, right.double() / 3).startswith("this is almost right. ")
    assert explain_factor(right + 1, right) == explain_factor(None, right) == explain_factor(right[:2], right) == ""


def test_a_detached_input_counts_as_kept() -> None:
    notes = StageNotes()
    stage, log = NotedStage(torch.ones(2, 3).double(), torch.zeros(2).double(), notes), []
    for _ in range(3):
        log.append((values := torch.ones(1, 3).double()).detach())
        stage(values)
    log.clear()
    stage(torch.ones(1, 3).double())
    assert notes.kept_inputs[:3] == [1, 2, 3]
    assert notes.kept_inputs[3] <= 2  # `values` still holds that of the last turn


def test_a_second_call_is_judged_as_the_first_one() -> None:
    def judge(found: object) -> Iterator[Remark | None]:
        yield None if found == [1] else Remark("it is wrong.")

    assert first(every_call([1], judge)) is None
    assert first(every_call({"first": [1], "again": [1]}, judge)) is None
    assert getattr(first(every_call([2], judge)), "seen", "") == "it is wrong."
    assert "Called once more, it is wrong." in getattr(
        first(every_call({"first": [1], "again": [2]}, judge)), "seen", ""
    )


def test_a_rounded_value_is_called_so() -> None:
    right = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)
    assert "rounded" in explain_factor(right.float().double(), right)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_microbatches_together_have_the_gradients_of_the_whole_batch(reduction: str) -> None:
    step = TorchStep(3, samples=2, features=[2, 4, 3], loss="absolute error", reduction=reduction)
    (case,) = check_pipeline_step.cases(Draw(1), steps=[step])
    alone = _StagesAlone(case.inputs, step)
    parameters = [each[name].clone().requires_grad_() for each in case.inputs for name in ("weight", "bias")]
    values = case.inputs[0]["inputs"]
    for k in (0, 2):
        values = torch.tanh(torch.nn.functional.linear(values, parameters[k], parameters[k + 1]))
    loss_of("absolute error", reduction)(values, case.inputs[-1]["targets"]).backward()
    for k, parameter in enumerate(parameters):
        assert parameter.grad is not None
        torch.testing.assert_close(alone.gradient(*divmod(k, 2)), parameter.grad, rtol=1e-12, atol=1e-14)


def test_a_drawn_step_has_more_microbatches_than_ranks() -> None:
    drawn = [drawn_step(Draw(seed), 3) for seed in range(9)]
    assert all(step.microbatches > step.ranks == 3 for step in drawn)
    assert {step.reduction for step in drawn} == {"mean", "sum"}

"""The checks of DataParallel: what they expect is what one process computes; what they say when something differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from distlib.checks.plays import master_parts
from distlib.checks.plays.gated import open_gate
from distlib.checks.plays.master import Classifier, loss_of
from distlib.grading import (
    CheckFailed,
    Gradients,
    Step,
    check_data_parallel_step,
    check_gather_outputs,
    check_reduce_gradients,
    check_replicate,
    check_split_batch,
)
from distlib.grading.master_messages import Way, judge_ways
from distlib.grading.master_step_checks import PARTS, _case, total, work_of_ranks
from distlib.trace import CallSite, Message, Trace
from tests.answer_files import read_answers

TEXTS = {str(answer): answer.text for answer in read_answers("04_data_parallel")}
Check = Callable[..., object]
CHECKS: dict[str, Check] = {
    "split_batch": lambda function: check_split_batch(function, world_sizes=(3,), batch_sizes=(7,)),
    "replicate": lambda function: check_replicate(function, world_sizes=(3,), buffers=True),
    "gather_outputs": lambda function: check_gather_outputs(function, world_sizes=(3,), batch_sizes=(7,)),
    "reduce_gradients": lambda function: check_reduce_gradients(
        function, world_sizes=(3,), models=[Gradients([(2, 3), (3,)], frozen=[1])]
    ),
    "data_parallel_step": lambda function: check_data_parallel_step(
        function, world_sizes=(3,), steps=[Step(7, earlier=True)]
    ),
}


def answer(name: str) -> Callable[..., object]:
    """The function of an answer, as a notebook that has the right parts would define it."""
    names: dict[str, object] = {"__name__": "__main__", "torch": torch}
    names |= {part: getattr(master_parts, part) for part in PARTS}
    exec(compile(TEXTS[name], f"{name.replace('/', '_')}.py", "exec"), names)
    found = names[name.partition("/")[0]]
    assert callable(found)
    return found


# What is expected


@pytest.mark.parametrize("loss", ["mean", "sum", "joint"])
@pytest.mark.parametrize("world_size", [1, 3, 4])
def test_without_factors_the_expected_gradients_are_those_of_one_process(
    loss: str, world_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = _case("step", world_size, Step(7, loss=loss, frozen=("last.bias",)), seed=5)
    monkeypatch.setattr("distlib.grading.scenario_case.Part.factor", lambda part, rank, k: 1.0)
    found_loss, parts = work_of_ranks(case)
    inputs = case.part.inputs[0]
    model = Classifier(inputs["state"], open_gate, inputs["frozen"])
    wanted = loss_of(loss, model(inputs["images"]), inputs["labels"])
    wanted.backward()
    assert torch.allclose(found_loss, wanted, rtol=1e-12)
    for name, gradient in total(parts).items():
        expected = model.get_parameter(name).grad
        if gradient is None or expected is None:
            assert gradient is None and expected is None
        else:
            assert torch.allclose(gradient, expected, rtol=1e-12, atol=1e-12)


def test_factors_differ_between_ranks_and_matter() -> None:
    case = _case("step", 3, Step(7), seed=5)
    factors = [case.part.factor(rank, 0) for rank in range(3)]
    assert len(set(factors)) == 3
    _, parts = work_of_ranks(case)
    single = Classifier(case.part.inputs[0]["state"], lambda k, seconds=0.0: factors[0])
    loss_of("mean", single(case.part.inputs[0]["images"]), case.part.inputs[0]["labels"]).backward()
    assert not torch.allclose(total(parts)["first.weight"], single.first.weight.grad, rtol=1e-3)  # type: ignore[arg-type]


# Answers, on the ranks of this machine


@pytest.mark.timeout(120)
@pytest.mark.parametrize("function", CHECKS)
def test_right_answers_pass(function: str) -> None:
    for name in (name for name in TEXTS if name.startswith(f"{function}/right_")):
        CHECKS[function](answer(name))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("split_batch/wrong_whole_batch", "rank 0 sends rank 1 56 bytes. Expected: its rows, 16 bytes."),
        ("split_batch/wrong_own_batch", "rows of this rank's own tensor"),
        ("replicate/wrong_forgets_buffers", "on rank 1, 1.mean is not that of rank 0."),
        ("gather_outputs/wrong_reversed", "all rows are there, in the wrong order"),
        ("gather_outputs/wrong_sends_all_back", "rank 0 sends rank 1 56 bytes, and should send nothing."),
        ("reduce_gradients/wrong_all_reduce", "nothing comes back"),
        ("data_parallel_step/wrong_average", "it was divided by the number of ranks"),
        ("data_parallel_step/wrong_master_does_it_all", "is not that of the whole batch"),
        ("data_parallel_step/wrong_labels_sent", "labels are sent, too"),
        ("data_parallel_step/wrong_clears_only_on_the_master", "gradients from before are still inside"),
    ],
)
def test_wrong_answers_are_told_why(name: str, told: str) -> None:
    with pytest.raises(CheckFailed) as caught:
        CHECKS[name.partition("/")[0]](answer(name))
    assert told in " ".join(str(caught.value).split())


# Messages


def trace(*messages: tuple[int, int, int]) -> Trace:
    """Messages of (src, dst, bytes)."""
    site = CallSite("cell 1, line 2", "f", "cell", 2)
    made = [Message(src, dst, 0, n, "uint8", (n,), 0.0, 0.0, 1.0, 1, site, site) for src, dst, n in messages]
    return Trace(3, made)


WAYS = [Way(0, 1, 8, 2, "its part", {16: "the whole batch is sent."}), Way(0, 2, 4, 1, "its part")]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([(0, 1, 8), (0, 2, 4)], None),
        ([(0, 1, 5), (0, 1, 3), (0, 2, 4)], None),
        ([(0, 1, 16), (0, 2, 4)], "the whole batch is sent."),
        ([(0, 1, 9), (0, 2, 4)], "too much is sent."),
        ([(0, 1, 8)], "too little is sent."),
        ([(0, 1, 4), (0, 1, 2), (0, 1, 2), (0, 2, 4)], "every message pays for its latency."),
        ([(0, 1, 8), (0, 2, 4), (2, 1, 1)], "nobody else"),
        ([(0, 1, 8), (0, 2, 4), (1, 0, 0)], "nobody else"),
    ],
)
def test_ways_are_compared_byte_by_byte(messages: Sequence[tuple[int, int, int]], told: str | None) -> None:
    remark = judge_ways(trace(*messages), WAYS, "nobody else")
    assert remark is None if told is None else remark is not None and remark.cause.startswith(told)

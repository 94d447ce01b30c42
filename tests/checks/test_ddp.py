"""Checks of exercises 05 and 05b: what the answers don't show. In a notebook on simulated ranks, and by the judge."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from distlib.checks import CheckFailed
from distlib.checks.case import Case, Part
from distlib.checks.models import Gradients
from distlib.checks.plays.gated import open_gate
from distlib.checks.task import Draw
from distlib.checks.venues import simulated_only
from distlib.exercises.ddp.all_reduces import all_reduces, reduced_bytes
from distlib.exercises.ddp.cases import Training, train_alone, training_inputs
from distlib.exercises.ddp.checks import check_average_gradients, check_sampler
from distlib.exercises.ddp.moments import in_order
from distlib.exercises.ddp.overlapped_ddp import BucketCase, check_overlapped_ddp, hidden_share_of
from distlib.exercises.ddp.torchs_ddp import (
    Accumulation,
    check_train_with_ddp,
    mistakes_of,
    train_alone as accumulate_alone,
)
from distlib.exercises.ddp.torchs_ddp_plays import WatchedLayers, train_in_group
from distlib.exercises.ddp.training_plays import BACKWARD, BEGIN, END, GATES, Model, first_gate, train
from distlib.trace import CallSite, Message
from tests.answer_files import read_answers
from tests.heard import tells
from tests.remote_functions import in_a_notebook, on_remote_ranks

ANSWERS = {str(answer): answer.text for name in ("05_ddp", "05b_ddp_in_practice") for answer in read_answers(name)}
SET_UP = (
    "import contextlib\nfrom collections.abc import Sequence, Sized\nfrom distlib import Communicator\n"
    "from torch.nn.functional import mse_loss\nfrom torch.nn.parallel import DistributedDataParallel\n"
)
MODELS = (Gradients([(2, 3), (3,)]), Gradients([(2, 3), (3,), (4,)], missing=[(1, 1)], frozen=[2]))
SHORT = [Training([3, 4, 4, 2], bucket_bytes=80, first_bucket_bytes=10)]


@pytest.fixture(params=["simulated", "judged"])
def place(request: pytest.FixtureRequest) -> Callable[[str, str], Any]:
    """Where functions are: in a notebook, or on the judge's ranks."""
    return here if request.param == "simulated" else on_remote_ranks


@contextlib.contextmanager
def here(text: str, name: str) -> Iterator[Callable[..., Any]]:
    """In a notebook, checked on simulated ranks."""
    with in_a_notebook(text, name) as function, simulated_only():
        yield function


def answer(name: str, *changes: tuple[str, str]) -> str:
    """An answer with changes, and what stands in its notebook's set-up cell."""
    text = ANSWERS[name]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return SET_UP + text


def remark(check: Callable[..., Any], function: Callable[..., Any], **options: Any) -> str:
    """What a student reads, on one line; empty if everything is right."""
    try:
        check(function, **options)
    except CheckFailed as error:
        return " ".join(str(error).split())
    return ""


# ── average_gradients ────────────────────────────────────────────────────────────────────────────────────────────────

FLAT = "average_gradients/right_concatenated"
REDUCE = "all_reduce(comm, flat)"


def test_right_averages_and_their_report(place: Any) -> None:
    with place(answer(FLAT), "average_gradients") as function:
        report = check_average_gradients(function, world_sizes=(1, 2, 3), models=MODELS)
    assert len(report) == 6
    assert report[1].trace.messages_sent == [2, 2]
    assert sum(report[2].trace.bytes_sent) == 4 * 9 * 4  # twice (N - 1) times nine float32
    assert str(report).splitlines()[2].endswith("2 ranks, 2 parameters: 4 messages, 72 bytes in all")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ("all_reduce(comm, flat, async_op=True).wait()", ""),
        ("import distlib; distlib.all_reduce(comm, flat)", ""),
        ("all_reduce(comm, flat, async_op=True)", "rank 0 never waits for the all_reduce that it begins at"),
        ("all_reduce(flat, comm)", "expected comm as the first argument and the tensor as the second, got a Tensor"),
        ("broadcast(comm, flat); all_reduce(comm, flat)", "the gradient of parameter 0 is wrong"),
        ("all_reduce(comm, flat); broadcast(comm, flat)", "rank 0 sent 3 messages of gradients; one all-reduce takes"),
    ],
)
def test_ways_to_reduce(place: Any, new: str, words: str) -> None:
    with place(answer(FLAT, (REDUCE, new)), "average_gradients") as function:
        said = remark(check_average_gradients, function, world_sizes=(1, 2), models=MODELS)
    assert words in said and bool(words) == bool(said)


def test_another_algorithm_of_the_library_does_not_count() -> None:
    tree = "import distlib.collectives as c; c.tree_all_reduce(comm, flat)"
    with here(answer(FLAT, (REDUCE, tree)), "average_gradients") as function:
        said = remark(check_average_gradients, function, world_sizes=(2,), models=MODELS[:1])
    assert "2 of 2 messages were sent by distlib.collectives.tree.tree_all_reduce" in said


def message(src: int, nbytes: int, dst: int = 0, dtype: str = "float32") -> Message:
    site = CallSite("cell 1, line 2", "f", "cell", 2)
    return Message(src, dst, 0, nbytes, dtype, (nbytes // 4,), 0.0, 0.0, 1.0, 1, site, site)


RING = [[message(rank, 4)] * 4 for rank in range(3)]  # one all-reduce of 12 bytes on 3 ranks


@pytest.mark.parametrize(
    ("sent", "found", "words"),
    [
        (RING, [12], ""),
        ([2 * each for each in RING], [12, 12], "there are 2 all-reduces of tensors, of 12 bytes each"),
        ([[message(0, 8)] * 3, RING[1], RING[2]], None, "rank 0 sent 3 messages of tensors; one all-reduce takes 4"),
        ([[message(0, 12, 1)], [message(1, 12, 2)], []], None, "one all_reduce(comm, tensor) for each"),
        ([[message(0, 4, dtype="int32")] * 4, *RING[1:]], [12], "rank 0 sends tensors as int32; they are float32"),
    ],
)  # fmt: skip
def test_the_rule_about_all_reduces(sent: list[list[Message]], found: list[int] | None, words: str) -> None:
    assert reduced_bytes(sent) == found
    said = all_reduces(sent, [12], torch.float32, what="tensors", before="but ", mistakes={}, otherwise="?")
    assert words in f"{said.seen} {said.cause}" if said else not words


# ── DistributedSampler ───────────────────────────────────────────────────────────────────────────────────────────────

CUT = "DistributedSampler/right_filled_and_cut"


def test_a_right_sampler(place: Any) -> None:
    with place(answer(CUT), "DistributedSampler") as function:
        report = check_sampler(function, world_sizes=(1, 2, 3), lengths=(12, 10, 2, 0))
    assert len(report) == 48
    assert report[0][0]["lengths"] == [12, 12]


def test_a_right_sampler_is_never_accused_by_chance() -> None:
    """Two random halves of 8 samples are the same now and then."""
    with here(answer(CUT), "DistributedSampler") as function:
        for seed in range(60):
            check_sampler(function, world_sizes=(2,), lengths=(8,), drop_last=(False,), shuffle=(True,), seed=seed)


def test_the_hash_of_a_text_differs_from_rank_to_rank(place: Any) -> None:
    changed = answer(CUT, ("manual_seed(self.seed + self.epoch)", "manual_seed(hash(f'{self.seed} {self.epoch}'))"))
    with place(changed, "DistributedSampler") as function:
        said = remark(check_sampler, function, world_sizes=(1, 2), lengths=(12,))
    assert "hash of a text gives another number in each process" in said
    numbers = answer(CUT, ("manual_seed(self.seed + self.epoch)", "manual_seed(hash((self.seed, self.epoch)))"))
    with place(numbers, "DistributedSampler") as function:
        assert remark(check_sampler, function, world_sizes=(1, 2), lengths=(12,)) == ""


def test_torchs_own_sampler_does_not_count(place: Any) -> None:
    text = """
class DistributedSampler(torch.utils.data.DistributedSampler):
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        super().__init__(dataset, comm.world_size, comm.rank, shuffle, seed, drop_last)
"""
    with place(text, "DistributedSampler") as function:
        assert "a library function does the work" in remark(check_sampler, function, world_sizes=(1,), lengths=(8,))


# ── OverlappedDDP ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_right_ddp_hides_its_communication(place: Any) -> None:
    with place(answer("OverlappedDDP/right_sets_of_missing"), "OverlappedDDP") as function:
        report = check_overlapped_ddp(function, world_sizes=(1, 2), trainings=SHORT)
    assert len(report) == 2
    assert BucketCase(report[1].case.inputs[0]).buckets == [[6], [5, 4], [3, 2], [1, 0]]
    assert report[1].trace.messages_sent[1] == 2 * 4 * 2  # steps, buckets, messages of an all-reduce on 2 ranks
    assert hidden_share_of(report[0]) == 1.0
    assert 0.5 < hidden_share_of(report[1]) < 1.0
    (last_layer,), (first_layer,) = report[1].passed(0, first_gate(1) + 2), report[1].passed(0, first_gate(1))
    assert first_layer - last_layer == pytest.approx(0.02)  # nobody waits inside backward


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong_averages_once_at_the_end", "when the backward pass was over"),
        ("wrong_blocks_in_the_hook", "waits inside the backward pass"),
        ("wrong_one_flat_copy", "that is one all-reduce of everything"),
        ("wrong_does_not_wait", "never waits for the all_reduce"),
    ],
)
def test_moments_and_messages_are_judged_alike_everywhere(place: Any, name: str, words: str) -> None:
    with place(answer(f"OverlappedDDP/{name}"), "OverlappedDDP") as function:
        assert words in remark(check_overlapped_ddp, function, world_sizes=(2,), trainings=SHORT)


class _NoGates(Part):
    """A part whose gates multiply by 1."""

    def factor(self, rank: int, k: int) -> float:
        """Nothing is changed."""
        return 1.0


class _CaseWithoutGates(Case):
    @property
    def part(self) -> Part:
        """Its gates multiply by 1."""
        return _NoGates(self.play, self.inputs, self.seed)


@pytest.mark.parametrize("tied", [False, True])
def test_the_right_values_are_those_of_one_model_on_all_samples(tied: bool) -> None:
    """Without gates, the average of the ranks' gradients is that of the mean over all their samples."""
    training = replace(Training([4, 4, 4], steps=1), tied=tied)
    inputs = [training_inputs(training, rank, 9, 0.0) for rank in range(3)]
    right = train_alone(_CaseWithoutGates("", train, inputs, training))
    model = Model(inputs[0]["state"], open_gate)
    batches = [rank["steps"][0][0] for rank in inputs]
    outputs = model(torch.cat([batch["inputs"][0] for batch in batches]), True)
    torch.nn.functional.mse_loss(outputs, torch.cat([batch["y"] for batch in batches])).backward()
    for parameter, average in zip(model.parameters(), right.steps[0].averages, strict=True):
        assert parameter.grad is not None and average is not None
        assert torch.allclose(parameter.grad, average, rtol=1e-12, atol=1e-15)


def in_order_of(*gates: int) -> str:
    """What is said of a pass of rank 0 through these gates, of a model with two layers."""
    played = SimpleNamespace(gates=[(GATES + gate, float(moment)) for moment, gate in enumerate(gates)])
    remark = in_order(SimpleNamespace(played=[played]), 1, "in step 1", 0, [0, 1])  # type: ignore[arg-type]
    return "" if remark is None else f"{remark.seen} Usual cause: {remark.cause}"


def test_gates_are_passed_once_and_in_their_order() -> None:
    """Only a class that passes gates by itself is told so: tests/judge/test_what_scores.py has one."""
    assert in_order_of(BEGIN, BACKWARD, 1, 0, END) == ""
    assert tells(in_order_of(BEGIN, BACKWARD, 1, 0, 0, END), "ddp/moments.txt: passed_twice")
    assert tells(in_order_of(BEGIN, BACKWARD, 0, 1, END), "ddp/moments.txt: not_in_order")


# ── train_with_ddp ───────────────────────────────────────────────────────────────────────────────────────────────────

ACCUMULATION = Accumulation([3, 4, 5], [2, 3])
A_ROUND = 41 * 8  # bytes of parameters, and of gradients


def test_a_program_of_torchs_and_its_report(place: Any) -> None:
    with place(answer("train_with_ddp/right_nullcontext"), "train_with_ddp") as function:
        report = check_train_with_ddp(function, world_sizes=(1, 2), trainings=[ACCUMULATION])
    sent = [(message.site.collective, message.nbytes) for message in report[1].trace if message.dtype == "float64"]
    assert sum(nbytes for call, nbytes in sent if call == "all_reduce") == 2 * 2 * A_ROUND
    assert sum(nbytes for call, nbytes in sent if call == "broadcast") == A_ROUND


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("context = ddp", "context = contextlib.nullcontext() or ddp", "a round after each microbatch"),
        ("ddp(inputs)", "ddp.module(inputs)", "went through the model alone"),
        ("ddp(inputs)", "ddp.forward(inputs)", ""),
        ("DistributedDataParallel(model)", "DistributedDataParallel(model, find_unused_parameters=True)", ""),
    ],
)
def test_programs_of_torchs_are_judged_alike_everywhere(place: Any, old: str, new: str, words: str) -> None:
    with place(answer("train_with_ddp/right_nullcontext", (old, new)), "train_with_ddp") as function:
        said = remark(check_train_with_ddp, function, world_sizes=(2,), trainings=[ACCUMULATION])
    assert words in said and bool(words) == bool(said)


@pytest.mark.parametrize(
    ("name", "words"),
    [("right_with_a_hook_of_its_own", ""), ("wrong_by_hand", "after the backward pass, by a call of your own")],
)
def test_who_averages_is_judged_alike_everywhere(place: Any, name: str, words: str) -> None:
    with place(answer(f"train_with_ddp/{name}"), "train_with_ddp") as function:
        said = remark(check_train_with_ddp, function, world_sizes=(1, 2), trainings=[ACCUMULATION])
    assert words in said and bool(words) == bool(said)


def test_a_step_is_that_of_one_model_on_all_samples_and_no_mistake_is_right() -> None:
    draw = Draw(7)
    inputs = next(iter(check_train_with_ddp.cases(draw, world_sizes=(3,), trainings=[ACCUMULATION]))).inputs
    case = Case("", train_in_group, inputs, ACCUMULATION)
    model = WatchedLayers(inputs[0]["layers"], [])
    for step in range(2):
        batches = [batch for rank in inputs for batch in rank["steps"][step]]
        outputs = model(torch.cat([batch[0] for batch in batches]))
        torch.nn.functional.mse_loss(outputs, torch.cat([batch[1] for batch in batches])).backward()
        for parameter in model.parameters():
            parameter.data -= inputs[0]["rate"] * parameter.grad
            parameter.grad = None
    right = accumulate_alone(case)
    assert all(map(torch.allclose, right[1], model.parameters()))
    wrong = [accumulate_alone(case, way)[1][0] for _, way in mistakes_of(case)]
    for number, (name, _) in enumerate(mistakes_of(case)):
        assert not torch.allclose(wrong[number], right[1][0]), name

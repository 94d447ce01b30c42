"""Exercises 06 and 06b: known mistakes are told apart, and the optimizer and the reference are what they stand for."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from distlib.checks import CheckFailed
from distlib.checks.case import Case
from distlib.checks.plays.gated import open_gate
from distlib.checks.rules.flat_all_reduce import EVERYBODY, TWICE, one_all_reduce
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, first
from distlib.exercises.large_batches.checks import MISTAKES, Rounds, check_local_sgd_round, play_rounds, weights
from distlib.exercises.large_batches.plays import LOSSES, MOMENTUM, GatedLayers, MomentumDescent, local_rounds
from distlib.trace import CallSite, Message, Trace
from distlib.training.large_batch import local_sgd_round
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedWorld
from tests.answer_files import read_answers
from tests.remote_functions import PLACES

TEXTS = {str(answer): answer.text for answer in read_answers("06b_how_large_a_batch")}
UNEVEN = [[4, 4, 2], [4, 1], [3]]


# ── one flat all-reduce ──────────────────────────────────────────────────────────────────────────────────────────────


def a_run(world_size: int, *messages: tuple[int, int]) -> Seen:
    """Messages of (src, bytes), each to the next rank."""
    site = CallSite("cell 1, line 2", "f", "cell", 2)
    made = [
        Message(src, (src + 1) % world_size, 0, n, "uint8", (n,), 0.0, 0.0, 1.0, 1, site, site) for src, n in messages
    ]
    case = Case("", lambda *args: None, [None] * world_size)
    return Seen(case, [], Trace(world_size, made), True)


ONCE = [(0, 4), (1, 4)] * 2  # an all-reduce of 8 bytes, in halves


@pytest.mark.parametrize(
    ("messages", "rounds", "words"),
    [
        (ONCE, None, None),
        ([(0, 8), (1, 8)], None, None),  # through a master
        (ONCE * 2, 2, None),
        ([(0, 3), (1, 3)] * 2, None, None),  # without what may be left out
        (ONCE * 2, None, "32 bytes were sent. One all-reduce of all gradients, 8 bytes, sends 16 in all."),
        (ONCE * 3, 2, "One all-reduce of all gradients in each round, 8 bytes, sends 32 in all."),
        ([(0, 2), (1, 2)] * 4, None, "rank 0 sent 4 messages. One all-reduce of all gradients together takes 2."),
        ([], None, "0 bytes were sent."),
    ],
)
def test_one_flat_all_reduce(messages: list[tuple[int, int]], rounds: int | None, words: str | None) -> None:
    remark = first(one_all_reduce(a_run(2, *messages), 8, "all gradients", right="they", rounds=rounds, also=[6]))
    assert (remark is None) == (words is None)
    assert remark is None or words is None or words in remark.seen


@pytest.mark.parametrize(
    ("messages", "cause"),
    [
        ([(0, 8), (1, 8), (2, 8)] * 2, EVERYBODY),
        ([(0, 40), (1, 40)], "known"),  # as an all-reduce of 20 bytes
        ([(0, 32), (1, 32)], TWICE),
        ([(0, 4), (1, 4)], ""),
    ],
)
def test_what_explains_other_bytes(messages: list[tuple[int, int]], cause: str) -> None:
    remark = first(one_all_reduce(a_run(3, *messages), 8, "all", right="they", mistakes={20: "known"}))
    assert remark is not None and remark.cause == cause


# ── accumulate_gradients ─────────────────────────────────────────────────────────────────────────────────────────────


def test_mistakes_count_samples_otherwise_than_the_right_gradient_and_than_each_other() -> None:
    places = [(rank, number) for rank, mine in enumerate(UNEVEN) for number in range(len(mine))]
    found = [weight for each in weights(UNEVEN, rank=0).values() for weight in each]
    tables = [tuple(round(weight(*place), 12) for place in places) for weight in found]
    right = (round(1 / sum(map(sum, UNEVEN)), 12),) * len(places)
    assert len({*tables, right}) == len(found) + 1


# ── local_sgd_round ──────────────────────────────────────────────────────────────────────────────────────────────────


def a_case(plan: Rounds) -> Case:
    (case,) = check_local_sgd_round.cases(Draw(5), plans=[plan])
    return case


def numbers(case: Case, mistake: str) -> torch.Tensor:
    tensors = [t for own in play_rounds(case, mistake) for each in own for t in each.values()]
    return torch.cat([tensor.double().flatten() for tensor in tensors])


@pytest.mark.parametrize(
    ("steps", "left_out"), [([3, 3, 3], "counters"), ([1, 2, 3], "average_in_each_step")], ids=["equal", "unequal"]
)
def test_mistaken_rounds_differ_from_the_right_one_and_from_each_other(steps: list[int], left_out: str) -> None:
    case = a_case(Rounds(steps, rounds=2, buffers=2))
    results = {mistake: numbers(case, mistake) for mistake in ("", *MISTAKES) if mistake != left_out}
    for (one, values), (other, others) in combinations(results.items(), 2):
        assert not torch.allclose(values, others, rtol=1e-6), f"{one} and {other} can't be told apart"


@pytest.mark.parametrize("plan", [Rounds([2, 1, 3], 2, buffers=2), Rounds([2, 2], loss="squared", frozen=True)])
def test_the_reference_is_the_librarys_round(plan: Rounds) -> None:
    case = a_case(plan)

    def play(comm):
        return local_rounds(comm, local_sgd_round, case.inputs[comm.rank], case.part.gate(comm.rank))["rounds"]

    for own, found in zip(play_rounds(case), SimulatedWorld(case.world_size).run(play), strict=True):
        for tensors, others in zip(own, found, strict=True):
            assert all(torch.allclose(tensor, others[name], rtol=1e-12) for name, tensor in tensors.items())


def test_a_mistake_that_can_not_be_played_is_an_error() -> None:
    with pytest.raises(RankError):
        play_rounds(a_case(Rounds([1, 3])), "average_in_each_step")


def test_descent_is_torchs_sgd_with_or_without_a_closure() -> None:
    inputs = a_case(Rounds([3], frozen=True)).inputs[0]
    models = [GatedLayers(inputs["state"], open_gate) for _ in range(3)]
    optimizers = [MomentumDescent(model.parameters(), 0.25) for model in models[:2]]
    for optimizer in (*optimizers, torch.optim.SGD(models[2].parameters(), lr=0.25, momentum=MOMENTUM)):
        model = models[len(optimizers) if isinstance(optimizer, torch.optim.SGD) else optimizers.index(optimizer)]
        for x, y in inputs["batches"][0]:

            def closure(model=model, optimizer=optimizer, x=x, y=y):
                optimizer.zero_grad()
                loss = LOSSES[inputs["loss"]](model(x), y).mean()
                loss.backward()
                return loss

            if optimizer is optimizers[0]:
                closure()
                assert optimizer.step() is None
            else:
                assert optimizer.step(closure).ndim == 0
    for plain, other, torchs in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(plain, other) and torch.allclose(plain, torchs, rtol=1e-12)


def test_a_message_before_the_last_local_step_is_seen() -> None:
    text = "import torch\nfrom distlib import ReduceOp\n" + TEXTS["local_sgd_round/right_flat_and_back"].replace(
        "        optimizer.step()\n",
        "        if inputs is batches[0][0]:\n            all_reduce(comm, torch.zeros(0))\n        optimizer.step()\n",
    )
    for place in PLACES:
        with place(text, "local_sgd_round") as function, pytest.raises(CheckFailed) as error:
            check_local_sgd_round(function, plans=[Rounds([3, 3])])
        assert "rank 0 sent" in " ".join(str(error.value).split())

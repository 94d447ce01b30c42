"""The checks of exercise 06: right answers pass, mistakes are told apart, here and on the ranks of a judge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
import torch

from distlib.grading import (
    CheckFailed,
    Pieces,
    Rounds,
    check_accumulate_gradients,
    check_local_sgd_round,
    check_warmup_learning_rate,
)
from distlib.grading.accumulation_causes import weights
from distlib.grading.local_sgd_checks import _case
from distlib.grading.local_sgd_reference import MISTAKES, play_mistaken
from tests.answer_files import read_answers
from tests.remote_functions import PLACES

pytestmark = pytest.mark.timeout(120)
TEXTS = {str(answer): answer.text for answer in read_answers("06_large_batches")}
UNEVEN = [[4, 4, 2], [4, 1], [3]]


def answer(function: str, name: str) -> str:
    return "from distlib import ReduceOp\n" + TEXTS[f"{function}/{name}"]


def told(error: pytest.ExceptionInfo[CheckFailed]) -> str:
    return " ".join(str(error.value).split())


# accumulate_gradients


@pytest.mark.parametrize("place", PLACES)
def test_accumulation_passes_and_fails(place) -> None:
    batches = [Pieces([[3, 3]]), Pieces([[3, 2], [3]]), Pieces([[2], [], [1, 1]], loss="squared", frozen=True)]
    with place(answer("accumulate_gradients", "right_flat_and_back"), "accumulate_gradients") as function:
        report = check_accumulate_gradients(function, batches=batches)
        assert [sum(report[case].trace.bytes_sent) for case in range(3)] == [0, 2 * 31 * 8, 4 * 27 * 8]
    with place(answer("accumulate_gradients", "wrong_divides_twice"), "accumulate_gradients") as function:
        with pytest.raises(CheckFailed) as error:
            check_accumulate_gradients(function, batches=batches)
    assert "accumulate_gradients on 2 ranks with microbatches of 3, 2 | 3 samples" in told(error)
    assert "it was divided twice" in told(error)


def test_mistakes_give_other_gradients_than_the_right_one_and_than_each_other() -> None:
    """What samples count, by each mistake: as a table over all microbatches, no two are the same."""
    places = [(rank, number) for rank, mine in enumerate(UNEVEN) for number in range(len(mine))]
    total = sum(map(sum, UNEVEN))
    tables = [tuple(round(weight(*place), 12) for place in places) for weight, _ in weights(UNEVEN, rank=0)]
    assert len({*tables, (round(1 / total, 12),) * len(places)}) == len(tables) + 1


@pytest.mark.parametrize("size", [1, 2])
def test_a_mistake_that_changes_nothing_is_none(size: int) -> None:
    """Equal pieces: the mean of means is right, and a check that has only these would not see it."""
    lengths = [[3, 3]] * size
    table = dict((words, weight(0, 0)) for weight, words in weights(lengths, rank=0))
    assert next(value for words, value in table.items() if words.startswith("each rank's mean")) == 1 / (6 * size)


# warmup_learning_rate


def test_the_warm_up_is_checked_by_values_and_told_by_cause() -> None:
    questions = [(4, 0.1, 32, 160, 4), (1, 0.1, 32, 160, 4), (9, 0.1, 32, 160, 4)]
    for place in PLACES:
        with place(answer("warmup_learning_rate", "right_two_cases"), "warmup_learning_rate") as function:
            assert len(check_warmup_learning_rate(function, questions=questions)) == 3
        with place(answer("warmup_learning_rate", "wrong_never_ends"), "warmup_learning_rate") as function:
            with pytest.raises(CheckFailed, match="goes on growing"):
                check_warmup_learning_rate(function, questions=questions)


# local_sgd_round


@pytest.mark.parametrize("place", PLACES)
def test_local_sgd_passes_and_fails(place) -> None:
    plans = [Rounds([2]), Rounds([2, 1, 3], rounds=2, buffers=True)]
    with place(answer("local_sgd_round", "right_vector"), "local_sgd_round") as function:
        report = check_local_sgd_round(function, plans=plans)
        assert sum(report[1].trace.bytes_sent) == 2 * 4 * 34 * 8
    with place(answer("local_sgd_round", "wrong_forgets_buffers"), "local_sgd_round") as function:
        with pytest.raises(CheckFailed) as error:
            check_local_sgd_round(function, plans=plans)
    assert "running.mean is wrong after round 1" in told(error) and "are averaged, too" in told(error)


def parameters_after(tensors: Sequence[dict[str, torch.Tensor]]) -> torch.Tensor:
    return torch.cat([value.double().flatten() for value in tensors[0].values()])


def test_mistaken_rounds_differ_from_the_right_one_and_from_each_other() -> None:
    case = _case("local_sgd_round", Rounds([3, 3, 3], buffers=True), seed=5)
    results = {mistake: parameters_after(play_mistaken(case.part, mistake)) for mistake in MISTAKES}
    results["none"] = parameters_after(case.expected.averaged[0])
    for (one, values), (other, others) in combinations(results.items(), 2):
        assert not torch.allclose(values, others, rtol=1e-6), f"{one} and {other} can't be told apart"


def test_a_message_before_the_last_local_step_is_seen() -> None:
    text = "import torch\n" + answer("local_sgd_round", "right_flat_and_back").replace(
        "        optimizer.step()\n",
        "        if inputs is batches[0][0]:\n            all_reduce(comm, torch.zeros(0))\n        optimizer.step()\n",
    )
    for place in PLACES:
        with place(text, "local_sgd_round") as function, pytest.raises(CheckFailed) as error:
            check_local_sgd_round(function, plans=[Rounds([3, 3])])
        assert "rank 0 sent" in told(error)

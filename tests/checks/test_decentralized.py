"""Exercise 08: usual mistakes of a step can be told apart, and the gradient that students get says what it expects."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from distlib.checks.plays.gated import open_gate
from distlib.exercises.decentralized.checks import GossipTraining, _missteps, _points
from distlib.exercises.decentralized.plays import train
from distlib.training.mixing import metropolis_weights

HOUSE = metropolis_weights([[1, 4], [0, 2, 4], [1, 3], [2, 4], [0, 1, 3]])
ONE_WAY = (3 * torch.eye(4) + 2 * torch.eye(4).roll(1, dims=0) + torch.eye(4).roll(-1, dims=0)).double() / 6


@pytest.mark.parametrize("matrix", [HOUSE, ONE_WAY], ids=["irregular", "one way"])
def test_what_usual_mistakes_leave_differs_from_the_right_step_and_from_each_other(matrix: torch.Tensor) -> None:
    generator = torch.Generator().manual_seed(3)
    x, slopes = torch.randn(2, len(matrix), 4, dtype=torch.float64, generator=generator)
    left = _missteps(matrix, x, slopes, rate=GossipTraining(matrix).rate)
    if torch.equal(matrix, matrix.T):
        left = {words: values for words, values in left.items() if "row and column" not in words}  # that is no mistake
    for words, values in left.items():
        assert not any(torch.allclose(matrix @ x - GossipTraining(matrix).rate * slopes, value) for value in values), (
            words
        )
    for (one, ones), (other, others) in combinations(left.items(), 2):
        assert not any(torch.allclose(a, b) for a in ones for b in others), f"{one} / {other}"
    for (one, ones), (other, others) in combinations(_points(matrix, x).items(), 2):
        assert not any(torch.allclose(a, b) for a in ones for b in others), f"{one} / {other}"


def inputs(**more: Any) -> dict[str, Any]:
    ones = torch.ones(2, dtype=torch.float64)
    given = {"values": 3 * ones, "layout": "contiguous", "curvature": ones, "target": ones, "is_slow": False}
    return {**given, "matrix": torch.ones(1, 1, dtype=torch.float64), "rate": 0.5, "steps": 2, **more}


def right(comm: object, parameters: torch.Tensor, gradient: Any, matrix: torch.Tensor, rate: float) -> None:
    parameters -= rate * gradient(parameters)


def test_a_play_takes_the_steps_and_notes_where_gradients_are_taken() -> None:
    handed: list[tuple[int, list[float]]] = []

    def gate(k: int, values: torch.Tensor | None = None) -> float:
        assert values is not None
        handed.append((k, values.tolist()))
        return 1.0

    found = train(SimpleNamespace(), right, inputs(), gate)  # type: ignore[arg-type]
    assert [step.tolist() for step in found["steps"]] == [[2.0, 2.0], [1.5, 1.5]]
    assert handed == [(0, [3.0, 3.0]), (1, [2.0, 2.0])]
    assert not found["changed"] and not found["strayed"]


@pytest.mark.parametrize(
    ("wrong", "came"),
    [(lambda x: x[:1], r"got \[1\], torch.float64"), (lambda x: x.float(), "got .*float32"), (list, "got list")],
)
def test_a_gradient_says_what_it_expects(wrong: Any, came: str) -> None:
    def function(comm: object, parameters: torch.Tensor, gradient: Any, matrix: torch.Tensor, rate: float) -> None:
        gradient(wrong(parameters))

    with pytest.raises(ValueError, match=rf"expected this rank's parameters, \[2\], torch.float64; {came}"):
        train(SimpleNamespace(), function, inputs(), open_gate)  # type: ignore[arg-type]

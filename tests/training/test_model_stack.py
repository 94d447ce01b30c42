"""A stack of models against the same models trained one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib.training.model_stack import ModelStack


def make(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs, targets, reduction="none")


def samples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For three models, other samples for each."""
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(3, 5, 6, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (3, 5), generator=generator)


def with_momentum(parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, with_momentum, torch.optim.Adam])
def test_each_model_learns_as_if_it_were_alone(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    rates = [0.1, 0.02, 0.4]
    stack = ModelStack([make(seed) for seed in range(3)], rates, optimizer)
    alone = [make(seed) for seed in range(3)]
    optimizers = [optimizer(model.parameters(), lr=rate) for model, rate in zip(alone, rates, strict=True)]
    for step in range(6):
        inputs, targets = samples(step)
        stack.step(losses, inputs, targets)
        for number, model in enumerate(alone):
            optimizers[number].zero_grad()
            losses(model(inputs[number]), targets[number]).mean().backward()
            optimizers[number].step()
    for number, model in enumerate(alone):
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(stack.parameters[name][number], parameter, rtol=1e-9, atol=1e-12)


def test_the_models_given_are_not_changed_and_rates_may_change() -> None:
    model = make(0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    stack = ModelStack([model, model, model], [0.0, 0.5, 0.5])
    stack.rates[1] = 0
    stack.step(losses, *samples(0))
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    weight = stack.parameters["0.weight"]
    assert torch.equal(weight[0], before[0]) and torch.equal(weight[1], before[0])
    assert not torch.equal(weight[2], before[0])


def test_accuracies_are_counted_for_each_model() -> None:
    stack = ModelStack([make(seed) for seed in range(3)], [0.1] * 3)
    inputs = samples(0)[0][0]
    labels = make(1)(inputs).argmax(dim=1)
    assert stack.accuracies(inputs, labels)[1] == 1
    assert stack.accuracies(inputs, (labels + 1) % 3)[1] == 0


def test_what_can_not_be_stacked_is_an_error() -> None:
    with pytest.raises(ValueError, match="a rate for each of at least one model, got 2 and 1"):
        ModelStack([make(0), make(1)], [0.1])
    with pytest.raises(ValueError, match="at least one model, got 0 and 0"):
        ModelStack([], [])
    with pytest.raises(ValueError, match="without buffers, got running_mean"):
        ModelStack([nn.BatchNorm1d(3)], [0.1])

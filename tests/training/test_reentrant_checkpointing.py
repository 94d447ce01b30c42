"""Reentrant checkpointing: a backward pass that runs inside another one belongs to it."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from distlib import Communicator, RankError, SimulatedWorld
from distlib.training.ddp import VERSIONS, DistributedDataParallel
from distlib.training.zero import FullyShardedModule, ShardedGradients, ShardedOptimizer

WAYS = [*VERSIONS, "stage 1", "stage 2", "stage 3"]
MIDDLE, LAST, TWICE = ("a", "[b]", "c"), ("a", "b", "[c]"), ("a", "[b]", "[b]", "c")


class Layers(nn.Module):
    """Layers one after the other; those in brackets are computed again in the backward pass."""

    def __init__(self, uses: tuple[str, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (nn.Linear(4, 4, dtype=torch.float64) for _ in range(3))
        self.uses = uses

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for name in self.uses:
            layer = self.get_submodule(name.strip("[]"))
            inputs = checkpoint(layer, inputs, use_reentrant=True) if name.startswith("[") else layer(inputs)
            inputs = torch.tanh(inputs)
        return inputs


def rows(comm: Communicator | None, step: int) -> torch.Tensor:
    everything = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    return everything if comm is None else everything.view(comm.world_size, -1, 4)[comm.rank]


def wrapped(comm: Communicator | None, way: str, model: Any) -> tuple[Any, Any]:
    """The model, and its optimizer. A bucket for each parameter, so that the first ones are sent early."""
    if comm is None:
        pass
    elif way in VERSIONS:
        model = DistributedDataParallel(comm, model, version=way, bucket_bytes=1, first_bucket_bytes=1)
    elif way == "stage 3":
        model = FullyShardedModule(comm, model, reshard_after_forward=True)
    else:
        maker = ShardedOptimizer if way == "stage 1" else ShardedGradients
        return model, maker(comm, model, torch.optim.SGD, lr=0.5)
    return model, torch.optim.SGD(model.parameters(), lr=0.5)


def fail(gradient: torch.Tensor) -> None:
    raise ArithmeticError


def fail_in_backward(layer: nn.Module, args: object, output: torch.Tensor) -> None:
    if output.requires_grad:
        output.register_hook(fail)


def train(comm: Communicator | None, way: str, uses: tuple[str, ...], fails: str = "") -> dict[str, torch.Tensor]:
    """Parameters after 2 steps. Before them comes a backward pass that fails in the layer `fails`, if there is one."""
    layers = Layers(uses)
    model, optimizer = wrapped(comm, way, layers)
    if fails:
        hook = layers.get_submodule(fails).register_forward_hook(fail_in_backward)
        with pytest.raises(ArithmeticError):
            model(rows(comm, 0)).square().mean().backward()
        hook.remove()
    for step in range(2):
        optimizer.zero_grad()
        model(rows(comm, step)).square().mean().backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def equal_to_one_process(way: str, uses: tuple[str, ...], fails: str = "") -> None:
    expected = train(None, way, uses)
    for found in SimulatedWorld(2, contexts="threads").run(train, way, uses, fails, timeout=60):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_a_layer_in_the_middle(way: str) -> None:
    equal_to_one_process(way, MIDDLE)


@pytest.mark.parametrize("fails", ["a", "b"])
@pytest.mark.parametrize("way", ["overlapped", "stage 2", "stage 3"])
def test_after_a_pass_that_failed_inside_or_outside_of_the_nested_one(way: str, fails: str) -> None:
    equal_to_one_process(way, MIDDLE, fails)


@pytest.mark.parametrize("way", ["stage 1", "stage 2", "stage 3"])
def test_the_last_layer(way: str) -> None:
    equal_to_one_process(way, LAST)


def refused(way: str, uses: tuple[str, ...], words: str) -> None:
    with pytest.raises(RankError, match=rf"on rank 0 {words}.*call checkpoint\(…, use_reentrant=False\)"):
        SimulatedWorld(2, contexts="threads").run(train, way, uses, timeout=60)


def test_ddp_refuses_the_last_layer() -> None:
    """Its nested pass comes before everything else, so that nobody can know that it is one."""
    refused("overlapped", LAST, "the backward pass produced no gradient for")


@pytest.mark.parametrize("way", ["overlapped", "stage 2", "stage 3"])
def test_a_layer_that_computes_twice_is_refused(way: str) -> None:
    """The first gradient is on its way when the second one comes."""
    refused(way, TWICE, r"a second gradient came for b\.\w+ in one backward pass")

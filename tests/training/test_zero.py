"""ZeRO: equal to one process at every stage, to the digit; its messages and bytes; what it refuses."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import Communicator, SimulatedWorld, World
from distlib.training.zero import FullyShardedModule, ShardedGradients, ShardedOptimizer

DOUBLE = torch.float64
STEPS = 10


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """On tensors this small, several threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def simulated(ranks: int) -> SimulatedWorld:
    return SimulatedWorld(ranks, contexts="threads")


class Tied(nn.Module):
    """An embedding that is the output layer as well, two blocks between, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5)) for _ in range(3))
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.head(hidden * self.scale)


def make_model(seed: int = 0) -> Tied:
    torch.manual_seed(seed)
    return Tied().to(DOUBLE)


def batch(step: int, rank: int | None, ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch of a step, or a rank's part of it."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(7, (60, 2), generator=generator)
    mine = tokens if rank is None else tokens.view(ranks, -1, 2)[rank]
    return mine[:, 0], mine[:, 1]


OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


def alone(optimizer: str, max_norm: float | None = None) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and parameters of one process."""
    model = make_model()
    kind, options = OPTIMIZERS[optimizer]
    steps = kind(model.parameters(), **options)  # type: ignore[call-arg]
    losses = []
    for step in range(STEPS):
        tokens, labels = batch(step, None, 1)
        loss = cross_entropy(model(tokens), labels)
        steps.zero_grad()
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        steps.step()
        losses.append(loss.item())
    return losses, {name: each.detach().clone() for name, each in model.state_dict().items()}


def train(
    comm: Communicator, stage: int, optimizer: str, max_norm: float | None = None, **options: Any
) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = make_model(comm.rank)
    kind, defaults = OPTIMIZERS[optimizer]
    steps: Any
    if stage == 3:
        wrapped: Any = FullyShardedModule(comm, model, units=model.blocks, **options)
        steps, clip = kind(wrapped.parameters(), **defaults), wrapped.clip_grad_norm  # type: ignore[call-arg]
    else:
        wrapped = model
        maker = ShardedOptimizer if stage == 1 else ShardedGradients
        steps = maker(comm, model, kind, units=model.blocks, **defaults, **options)
        clip = steps.clip_grad_norm
    losses = []
    for step in range(STEPS):
        tokens, labels = batch(step, comm.rank, comm.world_size)
        loss = cross_entropy(wrapped(tokens), labels)
        steps.zero_grad()
        loss.backward()
        if max_norm is not None:
            clip(max_norm)
        steps.step()
        losses.append(loss.item())
    return losses, {name: each.clone() for name, each in wrapped.state_dict().items()}


def equal_to_one_process(
    found: list[tuple[list[float], dict[str, torch.Tensor]]], expected: tuple[list[float], dict[str, torch.Tensor]]
) -> None:
    mean = torch.tensor([losses for losses, _ in found], dtype=DOUBLE).mean(0)
    torch.testing.assert_close(mean, torch.tensor(expected[0], dtype=DOUBLE), rtol=0, atol=1e-9)
    for _, parameters in found:
        torch.testing.assert_close(parameters, expected[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ten_steps_are_those_of_one_process(stage: int, ranks: int, optimizer: str) -> None:
    equal_to_one_process(simulated(ranks).run(train, stage, optimizer), alone(optimizer))


# ── ways to train ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_norm_is_that_of_all_parameters(stage: int) -> None:
    """Small enough to clip in every step; 5 ranks, so that every unit is padded."""
    equal_to_one_process(simulated(5).run(train, stage, "sgd", 0.05), alone("sgd", 0.05))


@pytest.mark.parametrize("options", [{"reshard_after_forward": True}, {"reshard_after_forward": False}])
@pytest.mark.parametrize("prefetch", [True, False])
def test_when_units_are_gathered_does_not_matter(options: dict[str, Any], prefetch: bool) -> None:
    equal_to_one_process(simulated(2).run(train, 3, "adamw", prefetch=prefetch, **options), alone("adamw"))


def test_real_processes_compute_the_same() -> None:
    with World(2) as world:
        for stage in (1, 2, 3):
            equal_to_one_process(world.run(train, stage, "adamw", timeout=120), alone("adamw"))

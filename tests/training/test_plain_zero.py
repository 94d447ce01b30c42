"""The plain editions of ZeRO's stages 1 and 3: the numbers, the messages and the bytes of the full ones, to the bit."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import Communicator, SimulatedWorld, World, barrier
from distlib.trace import Trace, Volume
from distlib.training.zero import FullyShardedModule, MemoryAccount, ShardedOptimizer
from distlib.training.zero.plain_stage1 import PlainShardedOptimizer
from distlib.training.zero.plain_stage3 import PlainShardedUnit, gather

DOUBLE = torch.float64
SIZES = [1, 2, 3, 4, 5]  # of these only 1 divides all numbers of weights
Weights = dict[str, torch.Tensor]


def small_model(seed: int, features: int = 5) -> nn.Sequential:
    """Three parts: of 82, 83 and 18 weights. One has no bias, and one a weight that is used twice."""
    torch.manual_seed(seed)
    twice = nn.Linear(features, features, bias=False)
    parts = [
        nn.Sequential(nn.Linear(features, 7), nn.Tanh(), nn.Linear(7, features)),
        nn.Sequential(twice, nn.GELU(), twice, nn.LayerNorm(features), nn.Linear(features, 8, bias=False)),
        nn.Sequential(nn.ReLU(), nn.Linear(8, 3)),
    ]
    return nn.Sequential(*parts).to(DOUBLE)


def batch(comm: Communicator, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's part of a batch; 60 samples, so that the parts are equal."""
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(60, 5, dtype=DOUBLE, generator=generator)
    labels = torch.randint(3, (60,), generator=generator)
    return inputs.tensor_split(comm.world_size)[comm.rank], labels.tensor_split(comm.world_size)[comm.rank]


def train(comm: Communicator, model: nn.Module, optimizer: Any, steps: int) -> None:
    for step in range(steps):
        model.zero_grad()
        inputs, labels = batch(comm, step)
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if isinstance(optimizer, ShardedOptimizer):
            optimizer.zero_grad()


ADAMW: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1}


def full_stage_1(comm: Communicator, steps: int) -> Weights:
    model = small_model(comm.rank)
    train(comm, model, ShardedOptimizer(comm, model, torch.optim.AdamW, units=[], **ADAMW), steps)
    return dict(model.state_dict())


def plain_stage_1(comm: Communicator, steps: int) -> Weights:
    model = small_model(comm.rank)
    optimizer = PlainShardedOptimizer(comm, model, torch.optim.AdamW, **ADAMW)
    assert len(optimizer.shard) == -(-sum(each.numel() for each in model.parameters()) // comm.world_size)
    train(comm, model, optimizer, steps)
    assert all(
        each.shape in ((), optimizer.shard.shape) for each in optimizer.optimizer.state[optimizer.shard].values()
    )
    return dict(model.state_dict())


def full_stage_3(comm: Communicator, steps: int) -> Weights:
    model = FullyShardedModule(comm, small_model(comm.rank), reshard_after_forward=True, prefetch=False)
    train(comm, model, torch.optim.AdamW(model.parameters(), **ADAMW), steps)
    return dict(model.state_dict())


def plain_stage_3(comm: Communicator, steps: int) -> Weights:
    units = [PlainShardedUnit(comm, part) for part in small_model(comm.rank)]
    model = nn.Sequential(*units)
    assert [len(each) for each in model.parameters()] == [-(-length // comm.world_size) for length in LENGTHS]
    train(comm, model, torch.optim.AdamW(model.parameters(), **ADAMW), steps)
    found = [(f"{index}.", unit.weights_in(gather(comm, unit.shard))) for index, unit in enumerate(units)]
    return {part + name: weight for part, weights in found for name, weight in weights.items()}


LENGTHS = [82, 75, 27]


def in_steps(ranks: int, function: Any, steps: int) -> tuple[list[Weights], dict[str, Volume]]:
    """The weights of each rank after some steps, and what was sent in these steps, by collective."""
    world = SimulatedWorld(ranks, contexts="threads")
    world.run(function, 0)
    before = world.trace
    weights = world.run(function, steps)
    return weights, difference(world.trace, before)


def difference(after: Trace, before: Trace) -> dict[str, Volume]:
    none = Volume(0, 0)
    found = {name: (volume, before.by_collective().get(name, none)) for name, volume in after.by_collective().items()}
    return {name: Volume(a.messages - b.messages, a.nbytes - b.nbytes) for name, (a, b) in found.items()}


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize(("plain", "full"), [(plain_stage_1, full_stage_1), (plain_stage_3, full_stage_3)])
def test_it_is_the_full_one(plain: Any, full: Any, ranks: int) -> None:
    found, sent = in_steps(ranks, plain, 4)
    expected, wanted = in_steps(ranks, full, 4)
    assert sent == wanted
    for ours, theirs in zip(found, expected, strict=True):
        assert {*ours} <= {*theirs}  # of a weight that is used twice the full ones have both names
        for name, weight in ours.items():
            torch.testing.assert_close(weight, theirs[name], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_real_ranks() -> None:
    expected = SimulatedWorld(3, contexts="threads").run(full_stage_1, 2)[0]
    with World(3) as world:
        for weights in [*world.run(plain_stage_1, 2), *world.run(plain_stage_3, 2)]:
            for name, weight in weights.items():
                torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-12)


def test_a_unit_of_which_autograd_keeps_no_weight_is_gathered_once() -> None:
    def run(comm: Communicator) -> None:
        unit = PlainShardedUnit(comm, nn.Linear(6, 2))
        unit(torch.ones(3, 6)).sum().backward()  # the inputs need no gradient, so that nobody needs the weight

    world = SimulatedWorld(2, contexts="threads")
    world.run(run)
    gathered, scattered = (world.trace.by_collective()[name] for name in ("all_gather", "reduce_scatter"))
    assert gathered == scattered == Volume(2, 14 * 4)


def test_weights_are_there_only_while_a_unit_computes() -> None:
    features, units, ranks = 64, 3, 2

    def live(comm: Communicator, plain: bool) -> tuple[int, int]:
        """Bytes after the forward pass, and the most at any time of a step."""
        blocks = [nn.Sequential(nn.Linear(features, features), nn.Tanh()) for _ in range(units)]
        if plain:
            model: nn.Module = nn.Sequential(*[PlainShardedUnit(comm, block) for block in blocks])
        else:
            model = FullyShardedModule(comm, nn.Sequential(*blocks), reshard_after_forward=True, prefetch=False)
        with MemoryAccount(comm, model, None) as account:
            loss = model(torch.ones(1, features)).sum()
            barrier(comm)  # the simulated world keeps what the last collective was given
            after_forward = sum(account.now().values())
            loss.backward()
        return after_forward, account.peak.total

    world = SimulatedWorld(ranks, contexts="threads")
    (after_forward, plain), (_, full) = world.run(live, True)[0], world.run(live, False)[0]
    shards, activations = 4 * units * features * (features + 1) // ranks, 4 * features * (units + 2)
    assert shards < after_forward < shards + activations
    assert plain <= full

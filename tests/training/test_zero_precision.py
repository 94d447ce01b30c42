"""Mixed precision, to the bit: parameters in bfloat16, averages in float32 or bfloat16, the optimizer in float32."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from distlib import Communicator, SimulatedWorld
from distlib.training.zero import FullyShardedModule, ShardedGradients, ShardedOptimizer

RANKS, STEPS = 2, 5  # two, since then no order of adding makes a difference
HALF = torch.bfloat16


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def loss_of(model: nn.Module, step: int, rank: int) -> torch.Tensor:
    inputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * step + rank)).to(HALF)
    return model(inputs).square().mean()


def cast_in_one_process(reduce_dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The parameters after all steps: each step computes with copies in bfloat16, and averages their gradients."""
    master = make_model()
    optimizer = torch.optim.AdamW(master.parameters(), lr=0.1)
    for step in range(STEPS):
        gradients = []
        for rank in range(RANKS):
            copy = make_model()
            copy.load_state_dict(master.state_dict())
            loss_of(copy.to(HALF), step, rank).backward()
            gradients.append([parameter.grad.to(reduce_dtype) for parameter in copy.parameters()])
        for parameter, *parts in zip(master.parameters(), *gradients, strict=True):
            parameter.grad = (torch.stack(parts).sum(0) / RANKS).float()
        optimizer.step()
    return dict(master.state_dict())


def train(comm: Communicator, stage: int, reduce_dtype: torch.dtype | None) -> tuple[Any, set[torch.dtype]]:
    """The parameters that the shards make up together, and the dtypes of the optimizer's states."""
    model: Any = make_model()
    options: dict[str, Any] = {"param_dtype": HALF, "reduce_dtype": reduce_dtype}
    if stage == 3:
        model = FullyShardedModule(comm, model, **options)
        optimizer: Any = torch.optim.AdamW(model.parameters(), lr=0.1)
        inner = optimizer
    else:
        maker = ShardedOptimizer if stage == 1 else ShardedGradients
        optimizer = maker(comm, model, torch.optim.AdamW, lr=0.1, **options)
        inner = optimizer.optimizer
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, step, comm.rank)
        assert loss.dtype is HALF, "the model computes in bfloat16"
        loss.backward()
        optimizer.step()
    units = model.units if stage == 3 else optimizer.units
    assert {unit.whole.dtype for unit in units} == {HALF}
    assert {unit.shard.dtype for unit in units} == {torch.float32}
    return model.state_dict(), {each.dtype for state in inner.state.values() for each in state.values()}


@pytest.mark.parametrize("reduce_dtype", [None, torch.float32, HALF])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_mixed_precision_is_that_of_one_process_that_casts(stage: int, reduce_dtype: torch.dtype | None) -> None:
    world = SimulatedWorld(RANKS, contexts="threads")
    expected = cast_in_one_process(reduce_dtype or torch.float32)
    if stage < 3:  # there the model's parameters are the copies, and the shards are not in its state
        expected = {name: tensor.to(HALF) for name, tensor in expected.items()}
    for found, state_dtypes in world.run(train, stage, reduce_dtype):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert state_dtypes == {torch.float32}
    calls = [(message.site.call or "", message.dtype) for message in world.trace]
    of_units = [(call, dtype) for call, dtype in calls if " of unit " in call and " of the state " not in call]
    sent = {(call.partition(" ")[0], dtype) for call, dtype in of_units} - {("broadcast", "float32")}
    averaged = {None: "float32", torch.float32: "float32", HALF: "bfloat16"}[reduce_dtype]
    assert sent == {("all_gather", "bfloat16"), ("reduce_scatter", averaged)}


class Pair(NamedTuple):
    inputs: torch.Tensor
    numbers: torch.Tensor


class OfPairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 5)

    def forward(self, pairs: list[Pair]) -> tuple[torch.Tensor, torch.dtype]:
        (pair,) = pairs
        return self.layer(pair.inputs), pair.numbers.dtype


def test_inputs_in_a_named_tuple_are_cast() -> None:
    def run(comm: Communicator) -> tuple[torch.dtype, torch.dtype]:
        model = FullyShardedModule(comm, OfPairs(), param_dtype=HALF)
        output, numbers = model([Pair(torch.ones(2, 6), torch.arange(3))])
        return output.dtype, numbers

    assert SimulatedWorld(RANKS, contexts="threads").run(run) == [(HALF, torch.int64)] * RANKS

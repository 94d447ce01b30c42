"""The plain edition of tensor parallelism: the numbers, messages and bytes of the full one, and of the whole layers."""

from typing import Any

import pytest
import torch
from torch import nn

from distlib import Communicator, SimulatedWorld
from distlib.trace import Volume
from distlib.training.tensor_parallel import ParallelAttention, ParallelMLP
from distlib.training.tensor_parallel.plain import PlainColumnLinear, PlainParallelAttention, PlainRowLinear

DOUBLE = torch.float64
BATCH, SEQUENCE, FEATURES, HIDDEN, HEADS = 2, 3, 8, 12, 4
NUMBERS = BATCH * SEQUENCE * FEATURES  # of one activation


def whole_layers(hidden: int = HIDDEN) -> list[nn.Linear]:
    torch.manual_seed(0)
    shapes = [*[(FEATURES, FEATURES)] * 4, (FEATURES, hidden), (hidden, FEATURES)]
    return [nn.Linear(*shape).to(DOUBLE) for shape in shapes]


def plain_blocks(comm: Communicator, hidden: int = HIDDEN) -> list[nn.Module]:
    *attention, up, down = whole_layers(hidden)
    mlp = nn.Sequential(PlainColumnLinear(comm, up), nn.GELU(), PlainRowLinear(comm, down))
    return [PlainParallelAttention(comm, HEADS, *attention), mlp]


def full_blocks(comm: Communicator) -> list[nn.Module]:
    query, key, value, output, up, down = whole_layers()
    attention = ParallelAttention(comm, FEATURES, HEADS, dtype=DOUBLE)
    mlp = ParallelMLP(comm, FEATURES, HIDDEN, dtype=DOUBLE)
    three = [query, key, value]
    weight, bias = torch.cat([each.weight for each in three]), torch.cat([each.bias for each in three])
    attention.queries_keys_values.load_whole(weight, bias)
    attention.output.load_whole(output.weight, output.bias)
    mlp.load_whole(up, down)
    return [attention, mlp]


def train(comm: Communicator, make: Any, *options: Any, steps: int = 4) -> tuple[list[torch.Tensor], list[float]]:
    """The weights of this rank after some steps, and the losses; below the blocks is a layer that is not cut."""
    torch.manual_seed(1)
    below, losses = nn.Linear(FEATURES, FEATURES).to(DOUBLE), []
    attention, mlp = make(comm, *options)
    weights = [*below.parameters(), *attention.parameters(), *mlp.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=0.01)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x = below(torch.randn(BATCH, SEQUENCE, FEATURES, dtype=DOUBLE, generator=generator))
        x = x + attention(x)
        loss = (x + mlp(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [each.detach().clone() for each in weights], losses


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_it_is_the_full_one(ranks: int) -> None:
    world = SimulatedWorld(ranks, contexts="threads")
    found = world.run(train, plain_blocks)
    sent = world.trace.by_collective(), world.trace.bytes_sent
    expected = world.run(train, full_blocks)
    assert sent == (world.trace.by_collective(), world.trace.bytes_sent)
    assert {*sent[0]} <= {"all_reduce"}
    for (ours, losses), (theirs, wanted) in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
        assert losses == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_block_sends_one_all_reduce_forward_and_one_backward(ranks: int) -> None:
    world = SimulatedWorld(ranks, contexts="threads")
    world.run(train, plain_blocks, steps=1)
    assert world.trace.by_collective() == {
        "all_reduce": Volume(4 * ranks * 2 * (ranks - 1), 4 * 2 * (ranks - 1) * NUMBERS * 8)
    }


def test_ranks_that_do_not_divide_the_hidden_features() -> None:
    """The full one refuses them; here a rank has a row more than another one."""
    by_rank = SimulatedWorld(4, contexts="threads").run(train, plain_blocks, 10)
    ((_, wanted),) = SimulatedWorld(1, contexts="threads").run(train, plain_blocks, 10)
    for _, losses in by_rank:
        assert losses == pytest.approx(wanted, abs=1e-12)


def test_heads_stay_whole() -> None:
    with pytest.raises(Exception, match="unflatten"):
        SimulatedWorld(3, contexts="threads").run(train, plain_blocks)  # 8 features, 4 heads of 2

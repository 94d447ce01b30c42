"""The plain edition of pipelines: the numbers, messages and bytes of the full one, and 1F1B's time and memory."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import Cluster, Communicator, Link, SimulatedWorld
from distlib.training.pipeline import Pipeline
from distlib.training.pipeline.plain import PlainPipeline
from distlib.training.schedules import most_live, one_forward_one_backward

DOUBLE = torch.float64
WIDTHS = [6, 5, 7, 4, 8, 3]  # between the stages, which are at most five


def stages(num_stages: int) -> list[nn.Module]:
    torch.manual_seed(0)
    widths = [*WIDTHS[:num_stages], 3]
    layers = [nn.Sequential(nn.Linear(*pair), nn.Tanh()) for pair in zip(widths, widths[1:], strict=False)]
    return [layer.to(DOUBLE) for layer in layers]


def train(
    comm: Communicator, plain: bool, microbatches: int, samples: int, steps: int
) -> tuple[list[torch.Tensor], Any]:
    """The weights of this rank's stage after some steps, and the losses."""
    built = stages(comm.world_size)
    own, losses = built[comm.rank], []
    pipeline: Any
    if plain:
        pipeline = PlainPipeline(comm, own, cross_entropy, microbatches, [WIDTHS[comm.rank]])
    else:
        schedule = one_forward_one_backward(comm.world_size, microbatches)
        pipeline = Pipeline(comm, built, schedule, cross_entropy)
    optimizer = torch.optim.AdamW(own.parameters(), lr=0.01)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(samples, WIDTHS[0], dtype=DOUBLE, generator=generator)
        optimizer.zero_grad()
        losses.append(pipeline.step(inputs, torch.randint(3, (samples,), generator=generator)))
        optimizer.step()
    return [each.detach().clone() for each in own.parameters()], losses


def in_steps(ranks: int, *arguments: Any) -> tuple[list[Any], list[int], list[int]]:
    """What each rank returns after four steps, and its messages and bytes in the last three: the first finds shapes."""
    world = SimulatedWorld(ranks)
    world.run(train, *arguments, 1)
    before = world.trace
    found = world.run(train, *arguments, 4)
    after = world.trace
    messages = [a - b for a, b in zip(after.messages_sent, before.messages_sent, strict=True)]
    return found, messages, [a - b for a, b in zip(after.bytes_sent, before.bytes_sent, strict=True)]


@pytest.mark.parametrize(
    ("ranks", "microbatches", "samples"), [(1, 3, 6), (2, 1, 4), (3, 2, 8), (4, 4, 12), (4, 5, 13), (5, 7, 9)]
)
def test_it_is_the_full_one(ranks: int, microbatches: int, samples: int) -> None:
    found, *sent = in_steps(ranks, True, microbatches, samples)
    expected, *wanted = in_steps(ranks, False, microbatches, samples)
    assert sent == wanted
    assert found[-1][1] == pytest.approx(expected[-1][1], abs=1e-12)
    for (ours, _), (theirs, _) in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


class TakesTime(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, comm: Communicator, x: torch.Tensor) -> torch.Tensor:
        ctx.comm = comm
        comm.sleep(1)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.comm.sleep(2)
        return None, gradients[0]


class Slow(nn.Module):
    """Takes a second forward and two backward; its weight is there to be trained."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__()
        self.comm, self.weight = comm, nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return TakesTime.apply(self.comm, x * self.weight)


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 2), (3, 8), (4, 3), (4, 6)])
def test_time_and_memory_are_those_of_1f1b(ranks: int, microbatches: int) -> None:
    def step(comm: Communicator) -> int:
        pipeline = PlainPipeline(comm, Slow(comm), lambda outputs, targets: outputs.mean(), microbatches, [2])
        most = 0

        def note(*_: Any) -> None:
            nonlocal most
            most = max(most, len(pipeline.kept) + 1)  # and the one that comes

        pipeline.stage.register_forward_hook(note)
        pipeline.step(torch.ones(2 * microbatches, 2), torch.ones(2 * microbatches))
        return most

    world = SimulatedWorld(ranks, Cluster.flat(ranks, Link(latency=1e-9, bandwidth=1e12)), contexts="threads")
    assert world.run(step) == most_live(one_forward_one_backward(ranks, microbatches))
    assert world.elapsed == pytest.approx((microbatches + ranks - 1) * 3, rel=1e-6)

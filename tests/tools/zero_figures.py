"""What sharded training costs: a step of stage 3 against torch's. Part of `make bench`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from distlib import Communicator, World
from distlib.training.zero import FullyShardedModule
from distlib.worlds.real.process_group import torch_distributed

Row = tuple[str, str, str]  # what, measured, to reach
_BLOCKS = 6


def figures() -> Iterator[Row]:
    """Everything, row by row."""
    for width in (128, 512):
        yield from against_torch(width)


# ── against torch's fully_shard ──────────────────────────────────────────────────────────────────────────────────────


def against_torch(width: int) -> Iterator[Row]:
    """A step of our stage 3 over that of torch's, in the same run, where they take turns; median of five runs."""
    megabytes = sum(parameter.nbytes for parameter in _blocks(width).parameters()) / 1e6
    for backend in (None, "gloo"):
        with World(4, backend=backend) as world:
            via = world.backend.replace("_", " ")
            runs = [world.run(_race_of_steps, width, 12)[0] for _ in range(5)]
        ratio = statistics.median(ours / theirs for ours, theirs in runs)
        ours, theirs = (1000 * statistics.median(times) for times in zip(*runs, strict=True))
        yield (
            f"stage 3, {_BLOCKS} units of {megabytes:.1f} MB together, 4 ranks, by {via}, against torch's fully_shard",
            f"{ratio:.2f}× ({ours:.0f} against {theirs:.0f} ms)",
            "≤ 1.3×",
        )


def _race_of_steps(comm: Communicator, width: int, steps: int) -> list[float]:
    """Median seconds of a step of each, from the moment when all ranks begin until all are done."""
    inputs = torch.randn(32, width, generator=torch.Generator().manual_seed(comm.rank))
    with torch_distributed(comm):
        models = _ours(comm, width), _theirs(comm, width)
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
        measured: list[list[float]] = [[], []]
        losses: list[list[float]] = [[], []]
        for _ in range(steps):
            for place, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
                comm.barrier()
                start = time.perf_counter()
                losses[place].append(_step(model, optimizer, inputs))
                comm.barrier()
                measured[place].append(time.perf_counter() - start)
    torch.testing.assert_close(*losses)  # the same model is trained
    return [statistics.median(times[2:]) for times in measured]


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def _blocks(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)) for _ in range(_BLOCKS))
    )


def _ours(comm: Communicator, width: int) -> nn.Module:
    model = _blocks(width)
    return FullyShardedModule(comm, model, units=list(model))


def _theirs(comm: Communicator, width: int) -> nn.Module:
    model: Any = _blocks(width)
    mesh = init_device_mesh("cpu", (comm.world_size,))
    for block in model:
        fully_shard(block, mesh=mesh)
    whole: nn.Module = fully_shard(model, mesh=mesh)
    return whole

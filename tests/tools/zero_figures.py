"""What sharded training costs: a step of stage 3 against torch's, and a step of GPT-3 played by shapes.

Part of `make bench`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from distlib import Cluster, Communicator, Link, SimulatedWorld, World, torch_distributed
from distlib.collectives import ring_all_gather
from distlib.network import duration
from distlib.training.zero import FlatLayout, FullyShardedModule, UnitAction, play_step, step_plan

Row = tuple[str, str, str]  # what, measured, to reach
_BLOCKS = 6


def figures() -> Iterator[Row]:
    """Everything, row by row."""
    for width in (128, 512):
        yield from against_torch(width)
    yield from gpt_3_by_shapes()


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
    with torch_distributed(comm, "gloo"):
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


# ── 175 billion parameters on 1,024 ranks ────────────────────────────────────────────────────────────────────────────

_WIDTH, _DEPTH, _WORDS, _POSITIONS = 12288, 96, 50257, 2048  # T. Brown et al., "Language models are few-shot learners"
_CLUSTER = Cluster(128, 8, Link(2e-6, 150e9), Link(5e-6, 25e9))
_BLOCK = 12 * _WIDTH**2 + 13 * _WIDTH  # attention 4·d², feed-forward 8·d²; biases and two norms
_LENGTHS = [(_WORDS + _POSITIONS + 2) * _WIDTH] + [_BLOCK] * _DEPTH  # the root: both embeddings and the last norm


def gpt_3_by_shapes() -> Iterator[Row]:
    """A step of stage 3 of 97 units, its 193 all-gathers and 97 reduce-scatters one after the other."""
    world = SimulatedWorld(_CLUSTER.world_size, _CLUSTER, record=False)
    plan = step_plan(len(_LENGTHS), root=True)
    start, processor = time.perf_counter(), time.process_time()
    options = {"all_gather": "recursive_doubling", "reduce_scatter": "recursive_halving"}
    world.run(play_step, plan, _LENGTHS, **options)
    took, processor = time.perf_counter() - start, time.process_time() - processor
    expected = _seconds_by_formula(plan)
    yield (
        f"stage 3 of {sum(_LENGTHS) / 1e9:.0f} billion parameters, {world.world_size:,} simulated ranks, a step, "
        "recursive doubling and halving",
        f"{took:.0f} s, of it {processor:.0f} s on a processor ({len(world.trace) / 1e6:.1f} M messages)",
        "≤ 30 s",
    )
    yield (
        "the same: its virtual time against the closed forms",
        f"{world.elapsed:.6f} s, {world.elapsed / expected - 1:+.1e}",
        "0",
    )
    start = time.perf_counter()
    world.run(_gather_a_block)
    took = time.perf_counter() - start
    collectives = sum(action.kind in "GR" for action in plan)
    yield (
        "one all-gather of these in a ring",
        f"{took:.0f} s ({len(world.trace) / 1e6:.1f} M messages): {collectives * took / 60:.0f} min for the step",
        "-",
    )


def _seconds_by_formula(plan: list[UnitAction]) -> float:
    """Nothing is computed, so the collectives follow one another."""
    padded = [FlatLayout({"unit": (length,)}, _CLUSTER.world_size).padded_length for length in _LENGTHS]
    gathers = [duration.recursive_doubling_all_gather(_CLUSTER, length, 2) for length in padded]
    reductions = [duration.recursive_halving_reduce_scatter(_CLUSTER, length, 4) for length in padded]
    times = {"G": gathers, "R": reductions}
    return sum(times[kind][unit] for kind, unit in plan if kind in times)


def _gather_a_block(comm: Communicator) -> None:
    ring_all_gather(comm, torch.empty(_BLOCK, dtype=torch.bfloat16, device="meta"))

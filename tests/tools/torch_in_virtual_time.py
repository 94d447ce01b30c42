"""How long it takes to price torch's own programs, and what they cost: fully_shard on many simulated ranks.

    python -m tests.tools.torch_in_virtual_time                small layers with contents, 64 ranks
    python -m tests.tools.torch_in_virtual_time 256            … 256 ranks
    python -m tests.tools.torch_in_virtual_time 64 --llama     Llama-3-8B by shapes alone

Nodes of 8 GPUs: 450 GB/s inside, 50 GB/s between two, 400 · 10¹² FLOPs per second.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from distlib import Cluster, Communicator, Link, SimulatedWorld, charge_computing, torch_distributed
from tests.torch_backend.llama import Llama, Shapes

FLOPS = 400e12
IN_BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def cluster_of(ranks: int) -> Cluster:
    """Nodes of 8 GPUs."""
    intra, inter = Link(3e-6, 450e9), Link(10e-6, 50e9)
    return Cluster(nodes=max(1, ranks // 8), ranks_per_node=min(8, ranks), intra=intra, inter=inter)


def small_step(comm: Communicator) -> float:
    """20 layers of 64 × 64 and a root, with contents, on the CPU: returns the loss."""
    with torch_distributed(comm) as dist:
        mesh = dist.device_mesh.init_device_mesh("cpu", (comm.world_size,))
        model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(20)])
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        loss = model(torch.ones(5, 64) * comm.rank).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()


def llama_step(comm: Communicator, shapes: Shapes, tokens: int, rate: float = FLOPS) -> float:
    """A step of Llama by shapes alone, each layer a unit: returns its seconds."""
    with torch_distributed(comm) as dist, charge_computing(comm, flops_per_second=rate):
        mesh = dist.device_mesh.init_device_mesh("meta", (comm.world_size,))
        with torch.device("meta"):
            model, text = Llama(shapes), torch.zeros(1, tokens + 1, dtype=torch.int64)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=IN_BF16)
        fully_shard(model, mesh=mesh, mp_policy=IN_BF16)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
        began = comm.time()
        logits = model(text[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()
        return comm.time() - began


@dataclass(frozen=True)
class Priced:
    """What it took to price a step.

    Attributes:
        world: in which it ran.
        wall, processor: seconds.
        memory: the most that this process has had, in bytes.
    """

    world: SimulatedWorld
    wall: float
    processor: float
    memory: float

    def __str__(self) -> str:
        sent = f"{self.world.trace.messages_sent[0]:,} messages and {self.world.trace.bytes_sent[0] / 1e9:.3f} GB"
        return (
            f"{self.wall:.0f} s, of it {self.processor:.0f} s on a processor, {self.memory / 1e9:.1f} GB of memory "
            f"({sent} sent by each rank)"
        )


def price(ranks: int, step: Callable[..., float], *args: Any) -> Priced:
    """Run a step on simulated ranks."""
    SimulatedWorld(1, contexts="threads").run(small_step)  # what torch imports late is there then
    world = SimulatedWorld(ranks, cluster_of(ranks), contexts="threads", record=False)
    wall, processor = time.perf_counter(), time.process_time()
    world.run(step, *args)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return Priced(world, wall, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def figures() -> Iterator[tuple[str, str, str]]:
    """What is priced, what that took, and the figure to reach. Part of `make bench`."""
    yield "torch's fully_shard of 20 layers, 64 simulated ranks, a step", str(price(64, small_step)), "≤ 12 s"
    yield (
        "torch's fully_shard of Llama-3-8B by shapes alone, 64 simulated ranks, a step",
        str(price(64, llama_step, Shapes(), 8192)),
        "≤ 5 min, ≤ 8 GB",
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", type=int, nargs="?", default=64)
    parser.add_argument("--llama", action="store_true")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=8192)
    options = parser.parse_args()
    if not options.llama:
        print(price(options.ranks, small_step))
        return
    shapes, tokens = Shapes(layers=options.layers), options.tokens
    priced = price(options.ranks, llama_step, shapes, tokens)
    computing = 3 * (shapes.layers * shapes.layer_flops(tokens) + shapes.head_flops(tokens)) / FLOPS
    print(priced)
    print(f"the step takes {priced.world.elapsed:.4f} s of virtual time, of which computing {computing:.4f} s")


if __name__ == "__main__":
    main()

"""A parameter server, lesson 07b: rank 0 has the parameters and the optimizer, all others compute gradients.

rank 1    pull ◄─ parameters   compute   push gradient ─►  ┐
rank 2    pull ◄─ parameters   compute   push gradient ─►  ┼─► rank 0: a step of AdamW for each gradient that comes
rank 3    pull ◄─ parameters   compute   push gradient ─►  ┘

Asynchronously, N workers make N steps out of a batch. AdamW's steps do not become shorter when a gradient is divided by
N, so the rate is. With a bound of 0 the server waits for all of them, and takes one step, which is that of one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from distlib.capstone.train_alone import RATE, new_optimizer, rate_of
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, Weights, clip_in_each_step
from distlib.communicator import Communicator
from distlib.training.parameter_server import ASYNCHRONOUS, SYNCHRONOUS, ParameterClient, server_loop, worker_loop
from distlib.training.replicas import copy_from_rank_0
from distlib.training.shards import flatten, shard_parameters, unflatten


def with_parameter_server(comm: Communicator, plan: CapstonePlan, *, bound: float = ASYNCHRONOUS) -> WayOnRank:
    """Train with a server on rank 0.

    Args:
        bound: how many gradients a worker may be ahead of the slowest.

    Raises:
        ValueError: one rank, or a batch with fewer sequences than workers.
    """
    if comm.world_size < 2:
        raise ValueError("the way parameter_server expected at least 2 ranks, a server and a worker, got 1")
    own = comm.split(0)  # for the server's messages alone: it takes requests from anyone, and others may be done sooner
    assert own is not None
    model = plan.whole_model(own)
    return _server(own, plan, model, bound) if comm.rank == 0 else _worker(own, plan, model)


def _server(comm: Communicator, plan: CapstonePlan, model: nn.Sequential, bound: float) -> WayOnRank:
    parameters, workers = list(model.parameters()), range(1, comm.world_size)
    (shard,) = shard_parameters(parameters, 1)
    flat = flatten(parameters, shard)
    optimizer = new_optimizer([flat])
    clip_in_each_step(optimizer, [flat])
    steps_of_a_batch = 1 if bound == SYNCHRONOUS else len(workers)

    def train(steps: Iterable[int]) -> list[float]:
        steps = list(steps)

        def factor(samples: int) -> float:
            return rate_of(steps[0] + samples // plan.task.batch_size) / RATE / steps_of_a_batch

        for group in optimizer.param_groups:
            group["lr"] = RATE
        server_loop(comm, workers, flat, lambda _: optimizer, bound=bound, schedule=factor)
        return [0.0] * len(steps)

    def whole() -> Weights:
        unflatten(flat, parameters, shard)
        copy_from_rank_0(comm, model)
        return model.state_dict()

    return WayOnRank(train, [flat], optimizer, whole)


def _worker(comm: Communicator, plan: CapstonePlan, model: nn.Sequential) -> WayOnRank:
    parameters = list(model.parameters())
    client = ParameterClient(comm, [0], parameters, shard_parameters(parameters, 1))

    def train(steps: Iterable[int]) -> list[float]:
        steps, shares = list(steps), []

        def compute(number: int) -> tuple[Sequence[torch.Tensor], int]:
            tokens, following = plan.part_of(comm, steps[number], comm.rank - 1, comm.world_size - 1)
            model.zero_grad()
            share = plan.share_of_loss(model(tokens), following)
            ((comm.world_size - 1) * share).backward()  # the server divides by the workers
            shares.append(share.item())
            return [each.grad for each in parameters if each.grad is not None], len(tokens)

        worker_loop(client, compute, len(steps))
        return shares

    def whole() -> Weights:
        copy_from_rank_0(comm, model)
        return model.state_dict()

    return WayOnRank(train, parameters, None, whole)

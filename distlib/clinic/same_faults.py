"""The faults of the patients, written against `Communicator`: what a `World` says of each.

    skipped_collective(comm)      run it with `run_on_our_ranks("skipped_collective")`

Those of wrong_port, wrong_world_size and two_rank_zeros can't be made here: a World numbers its ranks itself, and has
no port. Nor that of not_in_the_group: a Communicator made by `split` is one that the rank is in.
"""

import multiprocessing
import os
import signal
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from distlib import Communicator, all_reduce, broadcast
from distlib.clinic.replica_check import ReplicaCheck, check_samples
from distlib.collectives import gather
from distlib.training.ddp import DistributedDataParallel, average_per_parameter


def skipped_collective(comm: Communicator) -> None:
    """Rank 2 has no samples left in the last step."""
    for step in range(3):
        batch = torch.ones(max(0, 4 - comm.rank - step))
        if len(batch) == 0:
            continue
        all_reduce(comm, batch.sum().view(1))
    comm.barrier()


def order_of_calls(comm: Communicator) -> None:
    """The same two calls in a different order."""
    loss, stop = torch.ones(4), torch.zeros(4)
    if comm.rank == 0:
        broadcast(comm, stop)
        all_reduce(comm, loss)
    else:
        all_reduce(comm, loss)
        broadcast(comm, stop)


def order_of_groups(comm: Communicator) -> None:
    """Two groups in a different order."""
    data, tensor = comm.split(0), comm.split(0)
    gradients, activations = torch.ones(4), torch.ones(4)
    if comm.rank == 0:
        all_reduce(data, gradients)
        all_reduce(tensor, activations)
    else:
        all_reduce(tensor, activations)
        all_reduce(data, gradients)


def barrier_on_rank_zero(comm: Communicator) -> None:
    """A barrier that only rank 0 calls."""
    gradient = torch.ones(4)
    for _ in range(3):
        all_reduce(comm, gradient)
        if comm.rank == 0:
            comm.barrier()


def local_condition(comm: Communicator) -> None:
    """A call that depends on the rank's own loss."""
    weights, gradient = torch.ones(4), torch.ones(4)
    loss = 1.5 + comm.rank
    if loss > 2:
        broadcast(comm, weights)
    all_reduce(comm, gradient)


def uneven_data(comm: Communicator) -> None:
    """Five samples on rank 0, four on rank 1."""
    model = DistributedDataParallel(comm, nn.Linear(2, 1))
    for batch in torch.ones(9, 2)[comm.rank :: 2].split(1):
        model(batch).sum().backward()
    comm.barrier()


def save_on_rank_zero(comm: Communicator) -> None:
    """Only rank 0 collects what every rank has a part of."""
    state = torch.ones(4)
    if comm.rank == 0:
        gather(comm, state)
    comm.barrier()


def extra_forward(comm: Communicator) -> None:
    """Rank 0 makes one forward pass more, in which buffers are sent."""
    model = DistributedDataParallel(comm, nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    for _ in range(2):
        model(torch.randn(4, 2)).square().sum().backward()
        if comm.rank == 0:
            model(torch.ones(4, 2))


def slow_rank(comm: Communicator) -> None:
    """Rank 1 has much more to do."""
    for _ in range([0, 10_000][comm.rank]):
        time.sleep(1)
    all_reduce(comm, torch.ones(1))


def shapes_differ(comm: Communicator) -> None:
    """Tensors of different length."""
    all_reduce(comm, torch.ones(8 if comm.rank == 0 else 4))


def float64_on_one_rank(comm: Communicator) -> None:
    """float64 on rank 1."""
    all_reduce(comm, torch.ones(1, dtype=[torch.float32, torch.float64][comm.rank]))


def exception_on_one_rank(comm: Communicator) -> None:
    """A label that is no digit on rank 1."""
    for label in [3 + comm.rank, 9 + comm.rank]:
        if label > 9:
            raise ValueError(f"expected a digit, got {label}")
        all_reduce(comm, torch.ones(1))


def unused_parameters(comm: Communicator) -> None:
    """A layer that rank 1 does not use."""
    body, head = nn.Linear(2, 2), nn.Linear(2, 1)
    model = DistributedDataParallel(comm, nn.ModuleList([body, head]))
    for _ in range(2):
        output = model.module[0](torch.ones(1, 2))
        (output if comm.rank == 1 else model.module[1](output)).sum().backward()


def killed_loader_worker(comm: Communicator) -> None:
    """A worker of rank 1's DataLoader is killed, while the rank waits for its third batch."""
    awaited = multiprocessing.Event()

    def load(samples: list[int]) -> torch.Tensor:
        if comm.rank == 1 and samples[0] >= 4:
            awaited.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.tensor(samples, dtype=torch.float32)

    for step, batch in enumerate(DataLoader(range(12), batch_size=2, num_workers=1, collate_fn=load)):
        all_reduce(comm, batch)
        if step == 1:
            awaited.set()


def dead_rank(comm: Communicator) -> None:
    """The system kills rank 1."""
    for step in range(5):
        if comm.rank == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        all_reduce(comm, torch.ones(1))


def int32_on_one_rank(comm: Communicator) -> None:
    """int32 on rank 1."""
    all_reduce(comm, torch.ones(4, dtype=[torch.float32, torch.int32][comm.rank]))


def read_before_wait(comm: Communicator) -> None:
    """Weights that are used before they have come."""
    model, coming = nn.Linear(2, 1, bias=False), torch.zeros(1, 2)
    check = ReplicaCheck(model, comm, every=1)
    work = comm.irecv(coming, src=0) if comm.rank == 1 else None
    if work:
        model.weight.data.copy_(coming)
    comm.barrier()  # rank 0 is late
    work.wait() if work else comm.send(model.weight.data, dst=1)
    check()


def different_seeds(comm: Communicator) -> None:
    """Weights of its own on each rank."""
    torch.manual_seed(comm.rank)
    model = nn.Linear(2, 1)
    check = ReplicaCheck(model, comm, every=10)
    for _ in range(10):
        model(torch.ones(1, 2)).sum().backward()
        average_per_parameter(comm, model)
        check()


def same_samples(comm: Communicator) -> None:
    """No sampler: every rank reads all samples."""
    seen = [index for batch in DataLoader(range(8), batch_size=2) for index in batch.tolist()]
    check_samples(seen, 8, comm)

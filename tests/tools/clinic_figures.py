"""How soon a World names the fault of a patient; and what `ReplicaCheck` costs in the training of lesson 05.

The first: from the start of the program to the error, on ranks that have run a program before.

The second: the time spent in it, as a share of all other time.

Both are measured in the same steps. What a rank waits for the others in the check is counted in full, also what it
would have waited for in the next all-reduce: the true cost is at most this.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import Communicator, World, torch_distributed
from distlib.clinic import PATIENTS
from distlib.clinic.our_ranks import run_on_our_ranks
from distlib.clinic.replica_check import ReplicaCheck
from distlib.training.datasets import digits
from distlib.training.ddp import DistributedDataParallel, average_per_parameter

_RANKS, _EVERY, _ROUNDS = 4, 50, 11


def figures() -> Iterator[tuple[str, str, str]]:
    """Rows of the table: what, measured, to reach."""
    yield "hang clinic on our ranks: from the start to the message, the slowest patient", f"{_slowest():.1f} s", "≤ 2 s"
    with World(_RANKS) as world:
        for name, of_torch in (("torch.distributed", True), ("our ranks", False)):
            for how, is_plain in (("an all-reduce for each parameter", True), ("DDP", False)):
                share = max(world.run(_share, of_torch, is_plain))
                what = f"ReplicaCheck each {_EVERY} steps, lesson 05 on {name}, {how}: of a step, at most"
                yield what, f"{100 * share:.1f} %", "≤ 3 %"


def _slowest() -> float:
    """Of those that are no slow rank, which only a time limit ends."""
    with World(2) as two, World(3) as three, World(4) as four:
        ranks, seconds = {2: two, 3: three, 4: four}, {}
        for name in [*PATIENTS, *PATIENTS]:  # the first time, a rank may have to import something
            if name != "slow_rank":
                start = time.perf_counter()
                error = run_on_our_ranks(name, ranks[PATIENTS[name].ranks], timeout=100, quiet=True)
                seconds[name] = (error is not None) * (time.perf_counter() - start)
    return max(seconds.values())


def _share(comm: Communicator, of_torch: bool, is_plain: bool) -> float:
    """The median over rounds of 50 steps."""
    if not of_torch:
        return _rounds(comm, None, is_plain)
    with torch_distributed(comm, "gloo") as dist:
        return _rounds(comm, dist, is_plain)


def _rounds(comm: Communicator, dist: object, is_plain: bool) -> float:
    model = _model()
    wrapped = model if is_plain else _ddp(comm, dist, model)
    check = ReplicaCheck(model, comm if dist is None else None, every=_EVERY)
    return statistics.median([_train(comm, dist, wrapped, is_plain, check) for _ in range(_ROUNDS)][1:])


def _train(comm: Communicator, dist: object, model: nn.Module, is_plain: bool, check: ReplicaCheck) -> float:
    """50 steps. Returns the time spent in the check, over all other time."""
    images, labels = _BATCH
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    start, checking = time.perf_counter(), 0.0
    for _ in range(_EVERY):
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        if is_plain:
            _average(comm, dist, model)
        before = time.perf_counter()
        check()
        checking += time.perf_counter() - before
        optimizer.step()
    return checking / (time.perf_counter() - start - checking)


def _average(comm: Communicator, dist: object, model: nn.Module) -> None:
    if dist is None:
        return average_per_parameter(comm, model)
    for parameter in model.parameters():
        assert parameter.grad is not None
        torch.distributed.all_reduce(parameter.grad)
        parameter.grad /= comm.world_size


def _ddp(comm: Communicator, dist: object, model: nn.Module) -> nn.Module:
    return DistributedDataParallel(comm, model) if dist is None else nn.parallel.DistributedDataParallel(model)


def _model() -> nn.Module:
    """That of lesson 05."""
    torch.manual_seed(0)
    first, second = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)).double()


_TRAIN_SET, _ = digits()
_BATCH = (_TRAIN_SET.images[:16].double(), _TRAIN_SET.labels[:16])  # a rank's part of a batch of 64

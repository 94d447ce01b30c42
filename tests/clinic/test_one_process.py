"""`check_against_one_process`: what it lets pass, and what it says of gradients that all ranks have wrong alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from distlib import Communicator, RankError, SimulatedWorld, all_reduce, run_program, torch_distributed
from distlib.clinic import PATIENTS
from distlib.clinic.one_process import check_against_one_process
from distlib.training.ddp import average_per_parameter

Pair = tuple[torch.Tensor, torch.Tensor]


def loss(model: nn.Module, batch: Pair) -> torch.Tensor:
    inputs, targets = batch
    return mse_loss(model(inputs), targets)


def part(rank: int, samples: int = 4) -> Pair:
    torch.manual_seed(10 + rank)
    return torch.randn(samples, 3), torch.randn(samples, 1)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def step(comm: Communicator, combine: Callable[..., None], samples: int = 4) -> None:
    """One backward pass, what the ranks make of their gradients, and the check."""
    model, batch = network(), part(comm.rank, samples + comm.rank * (samples != 4))
    loss(model, batch).backward()
    combine(comm, model)
    check_against_one_process(model, loss, batch, comm)


def averaged(comm: Communicator, model: nn.Module) -> None:
    average_per_parameter(comm, model)


def summed(comm: Communicator, model: nn.Module) -> None:
    for parameter in model.parameters():
        all_reduce(comm, parameter.grad)


def averaged_twice(comm: Communicator, model: nn.Module) -> None:
    averaged(comm, model)
    for parameter in model.parameters():
        parameter.grad /= comm.world_size


def one_left_out(comm: Communicator, model: nn.Module) -> None:
    for parameter in list(model.parameters())[:-1]:
        all_reduce(comm, parameter.grad)
        parameter.grad /= comm.world_size


def none_on_rank_one(comm: Communicator, model: nn.Module) -> None:
    averaged(comm, model)
    if comm.rank == 1:
        model[2].weight.grad = None


def too_large(comm: Communicator, model: nn.Module) -> None:
    averaged(comm, model)
    model[2].weight.grad *= 1.5


def test_a_right_step_passes(worlds: Any) -> None:
    worlds(3).run(step, averaged, timeout=100)
    SimulatedWorld(3).run(step, averaged)


@pytest.mark.parametrize(
    ("combine", "words"),
    [
        (summed, "0.weight has another gradient on ranks 0, 1 and 2 than in one process with the whole batch: 3 times"),
        (summed, "It was summed over the 3 ranks"),
        (averaged_twice, "0.3333 times that one. It was divided by the number of ranks once too often"),
        (one_left_out, "2.bias has another gradient on ranks 0, 1 and 2"),
        (none_on_rank_one, "2.weight has another gradient on rank 1 than"),
        (too_large, "2.weight has another gradient on ranks 0, 1 and 2 than in one process with the whole batch: 1.5"),
    ],
)
def test_a_wrong_one_is_told(worlds: Any, combine: Callable[..., None], words: str) -> None:
    with pytest.raises(RankError) as caught:
        worlds(3).run(step, combine, timeout=100)
    assert words in str(caught.value)


def test_the_mean_of_means_where_ranks_have_unequally_many_samples(worlds: Any) -> None:
    with pytest.raises(RankError, match="does each sample count as much as every other"):
        worlds(2).run(step, averaged, 3, timeout=100)


@pytest.mark.parametrize("backend", ["gloo", "distlib"])
def test_torch_and_its_ddp(worlds: Any, backend: str) -> None:
    def train(comm: Communicator) -> None:
        if torch.distributed.is_initialized():  # left by another test's function, on the ranks that all tests share
            torch.distributed.destroy_process_group()
        with torch_distributed(comm, backend):
            replica = nn.parallel.DistributedDataParallel(network())
            batch = part(comm.rank)
            loss(replica, batch).backward()
            check_against_one_process(replica, loss, batch)

    worlds(2).run(train, timeout=100)


def test_one_tensor_as_the_batch(worlds: Any) -> None:
    def train(comm: Communicator) -> None:
        model = network()
        batch = part(comm.rank)[0]
        model(batch).mean().backward()
        average_per_parameter(comm, model)
        check_against_one_process(model, lambda model, batch: model(batch).mean(), batch, comm)

    worlds(2).run(train, timeout=100)


CHECK = """\
    from distlib.clinic.one_process import check_against_one_process
    check_against_one_process(model, loss_of, batch)
    optimizer.step()
"""


def test_the_patient_that_no_rank_differs_in(worlds: Any) -> None:
    patient = PATIENTS["summed_gradients"]
    ill, well = (text.replace("    optimizer.step()\n", CHECK) for text in (patient.program, patient.healed))
    assert ill != patient.program
    run_program(worlds(2), well, timeout=100)
    with pytest.raises(RankError, match="2 times that one. It was summed over the 2 ranks"):
        run_program(worlds(2), ill, timeout=100)

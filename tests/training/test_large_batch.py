"""Accumulation, the warmed-up rate and local SGD: against a single process, by their messages, and with bad input."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, World, all_reduce
from distlib.training.datasets import digits
from distlib.training.large_batch import (
    Batch,
    accumulate_gradients,
    check_gradients,
    local_sgd_round,
    warmup_learning_rate,
)

SEVERAL = pytest.mark.parametrize("world_size", [1, 2, 3, 4])


def losses_of(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs, targets, reduction="none")


class Odd(nn.Module):
    """A frozen layer, a layer used twice, and a parameter that is used by even samples only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.frozen, self.twice, self.last = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.rare = nn.Parameter(torch.randn(3))
        self.frozen.requires_grad_(False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.twice(torch.tanh(self.twice(torch.tanh(self.frozen(inputs)))))
        outputs = self.last(hidden)
        return outputs * self.rare if inputs[0, 0] > 0 else outputs


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def with_batch_norm() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 7), nn.BatchNorm1d(7), nn.Linear(7, 3)).double()


def samples(count: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 6, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (count,), generator=generator)


def cut(batch: Batch, lengths: list[int]) -> list[Batch]:
    return list(zip(batch[0].split(lengths), batch[1].split(lengths), strict=True))


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def alone(model: nn.Module, batch: Batch) -> list[torch.Tensor]:
    cross_entropy(model(batch[0]), batch[1]).backward()
    return gradients(model)


def assert_all_close(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def assert_one_all_reduce(world: SimulatedWorld, numbers: int) -> None:
    """The last run has sent what one all-reduce of so many float64 sends."""
    seen = world.trace
    world.run(lambda comm: all_reduce(comm, torch.zeros(numbers, dtype=torch.float64)))
    assert seen.bytes_sent == world.trace.bytes_sent and seen.messages_sent == world.trace.messages_sent


# Accumulation


def accumulate(comm: Communicator, make: Callable[[], nn.Module], pieces: list[list[Batch]]) -> list[torch.Tensor]:
    model = make()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0) if parameter.requires_grad else None
    total = sum(len(targets) for mine in pieces for _, targets in mine)
    accumulate_gradients(comm, model, losses_of, pieces[comm.rank], total)
    return gradients(model)


UNEVEN = [[4, 4, 1], [3, 2], [], [5]]


@SEVERAL
def test_accumulated_gradients_are_those_of_one_process_with_the_whole_batch(worlds, world_size: int) -> None:
    lengths = [length for mine in UNEVEN[:world_size] for length in mine]
    batch = samples(sum(lengths))
    cuts = iter(cut(batch, lengths))
    pieces = [[next(cuts) for _ in mine] for mine in UNEVEN[:world_size]]
    wanted = alone(plain(), batch)
    for found in worlds(world_size).run(accumulate, plain, pieces, timeout=100):
        assert_all_close(found, wanted)


def test_frozen_shared_and_rarely_used_parameters() -> None:
    one, other = samples(4, seed=1), samples(4, seed=2)
    one[0][0, 0], other[0][0, 0] = 1.0, -1.0
    model = Odd().double()
    losses = [losses_of(model(inputs), targets).sum() for inputs, targets in (one, other)]
    (sum(losses) / 8).backward()  # type: ignore[union-attr]
    for found in SimulatedWorld(2).run(accumulate, lambda: Odd().double(), [[one], [other]]):
        assert_all_close(found, gradients(model))


@SEVERAL
def test_there_is_one_all_reduce_after_the_last_microbatch(world_size: int) -> None:
    def slowly(comm: Communicator) -> int:
        def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            comm.sleep(1)
            return losses_of(outputs, targets)

        model = plain()
        accumulate_gradients(comm, model, losses, cut(samples(8), [2, 2, 2, 2]), 8 * comm.world_size)
        return sum(parameter.numel() for parameter in model.parameters())

    world = SimulatedWorld(world_size, Cluster.flat(world_size, Link(1e-6, 1e9)))
    numbers = world.run(slowly)[0]
    assert all(message.start >= 4 for message in world.trace)
    assert_one_all_reduce(world, numbers)


# The learning rate


@settings(max_examples=30)
@given(st.floats(1e-4, 1), st.tuples(st.integers(1, 512), st.integers(512, 8192)), st.integers(1, 50))
def test_the_rate_is_that_of_torchs_linear_warm_up(base: float, sizes: tuple[int, int], warmup_steps: int) -> None:
    scale = sizes[1] / sizes[0]
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=base * scale)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / scale, total_iters=warmup_steps)
    for step in range(warmup_steps + 5):
        ours = warmup_learning_rate(step, base, *sizes, warmup_steps)
        assert ours == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        schedule.step()


def test_the_rate_at_its_corners() -> None:
    assert warmup_learning_rate(0, 0.1, 32, 256, 4) == 0.1
    assert [warmup_learning_rate(step, 0.5, 2, 6, 4) for step in range(6)] == [0.5, 0.75, 1.0, 1.25, 1.5, 1.5]
    assert warmup_learning_rate(0, 0.5, 32, 64, 0) == warmup_learning_rate(10**6, 0.5, 32, 64, 5) == 1.0
    assert warmup_learning_rate(3, 0.5, 64, 32, 0) == 0.25


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"base_batch_size": 0}, {"step": -1}, {"warmup_steps": -1}])
def test_sizes_that_make_no_sense(wrong: dict[str, int]) -> None:
    right = {"step": 0, "base_learning_rate": 0.1, "base_batch_size": 32, "batch_size": 64, "warmup_steps": 3}
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        warmup_learning_rate(**{**right, **wrong})  # type: ignore[arg-type]


# Local SGD


def local_round(
    comm: Communicator, make: Callable[[], nn.Module], batches: list[list[Batch]], momentum: float
) -> dict[str, torch.Tensor]:
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    local_sgd_round(comm, model, losses_of, batches[comm.rank], optimizer)
    return model.state_dict()


def steps_alone(make: Callable[[], nn.Module], batches: list[Batch], momentum: float) -> dict[str, torch.Tensor]:
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    for inputs, targets in batches:
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    return model.state_dict()


@SEVERAL
@pytest.mark.parametrize("make", [plain, with_batch_norm])
def test_a_round_averages_the_models_that_ranks_reach_alone(worlds, world_size: int, make) -> None:
    batches = [[samples(4, seed=10 * rank + step) for step in range(3)] for rank in range(world_size)]
    reached = [steps_alone(make, mine, momentum=0.9) for mine in batches]
    for found in worlds(world_size).run(local_round, make, batches, 0.9, timeout=100):
        for name, value in found.items():
            mean = sum(one[name] for one in reached) / world_size
            torch.testing.assert_close(value, mean.to(value.dtype), rtol=1e-10, atol=1e-12)


def test_one_local_step_is_a_step_with_the_whole_batch() -> None:
    batch = samples(12)
    wanted = steps_alone(plain, [batch], momentum=0)
    for found in SimulatedWorld(3).run(local_round, plain, [[piece] for piece in cut(batch, [4, 4, 4])], 0):
        assert_all_close(list(found.values()), list(wanted.values()))


@pytest.mark.parametrize("steps", [1, 4])
def test_a_round_of_any_length_has_the_messages_of_one_all_reduce(steps: int) -> None:
    world = SimulatedWorld(4)
    states = world.run(local_round, with_batch_norm, [[samples(4)] * steps] * 4, 0)
    numbers = sum(value.numel() for value in states[0].values() if value.is_floating_point())
    assert_one_all_reduce(world, numbers)


def test_local_sgd_learns_digits(worlds) -> None:
    def train(comm: Communicator) -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        (images, labels), _ = digits()
        mine = list(zip(images[comm.rank :: 2].split(16), labels[comm.rank :: 2].split(16), strict=True))
        for start in range(0, len(mine), 8):
            local_sgd_round(comm, model, losses_of, mine[start : start + 8], optimizer)
        return model

    _, (images, labels) = digits()
    one, other = worlds(2).run(train, timeout=100)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert (one(images).argmax(dim=1) == labels).float().mean() > 0.8


# Bad input


def both(comm: Communicator, which: str, mine: list[Batch], total: int) -> None:
    model = plain()
    if which == "accumulate":
        accumulate_gradients(comm, model, losses_of, mine, total)
    else:
        local_sgd_round(comm, model, losses_of, mine, torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("which", ["accumulate", "local"])
@pytest.mark.parametrize("make", [World, SimulatedWorld])
def test_a_nan_is_told_with_its_rank_and_parameter_and_nobody_hangs(make, which: str) -> None:
    def one_is_broken(comm: Communicator) -> None:
        batch = samples(4)
        if comm.rank == 1:
            batch[0][2, 3] = torch.nan
        both(comm, which, [batch], 12)

    with pytest.raises(RankError, match=r"rank 1: .* numbers in the gradient of '0.weight' are NaN or infinite"):
        make(3).run(one_is_broken, timeout=100)


@pytest.mark.parametrize("which", ["accumulate", "local"])
@pytest.mark.parametrize("make", [World, SimulatedWorld])
def test_a_rank_that_has_left_is_told_and_nobody_hangs(make, which: str) -> None:
    def rank_2_leaves(comm: Communicator) -> None:
        if comm.rank != 2:
            both(comm, which, [samples(4)], 12)

    with pytest.raises(RankError, match="rank 2 .*(ended|finished|returned|left)"):
        make(3).run(rank_2_leaves, timeout=100)


@pytest.mark.parametrize("total", [0, 2])
def test_a_batch_smaller_than_the_ranks(total: int) -> None:
    with pytest.raises(RankError, match=f"at least 3 samples, one for each rank, got {total}"):
        SimulatedWorld(3).run(both, "accumulate", [], total)


def test_a_round_without_a_batch() -> None:
    with pytest.raises(RankError, match="at least one batch for its local steps, got none"):
        SimulatedWorld(3).run(both, "local", [], 0)


def test_a_loss_that_is_already_a_mean() -> None:
    def mean_loss(comm: Communicator) -> None:
        accumulate_gradients(comm, plain(), cross_entropy, [samples(4)], 12)

    with pytest.raises(RankError, match='one loss for each of 4 samples.*reduction="none"'):
        SimulatedWorld(3).run(mean_loss)


def test_a_loss_for_each_number_is_not_one_for_each_sample_but_sums_up() -> None:
    """Squared errors come as [samples, outputs]: their sum over a sample is its loss."""

    def squared(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return mse_loss(outputs, targets, reduction="none")

    def run(comm: Communicator) -> list[torch.Tensor]:
        model, inputs = nn.Linear(6, 2).double(), samples(4)[0]
        with torch.no_grad():
            model.weight.fill_(0.1), model.bias.zero_()
        accumulate_gradients(comm, model, squared, [(inputs, inputs[:, :2])], 4 * comm.world_size)
        return gradients(model)

    one, two = SimulatedWorld(1).run(run)[0], SimulatedWorld(2).run(run)[0]
    assert_all_close(two, one)


def test_finite_gradients_pass() -> None:
    def run(comm: Communicator) -> None:
        model = plain()
        check_gradients(comm, model)  # none yet
        alone(model, samples(4))
        check_gradients(comm, model)

    SimulatedWorld(1).run(run)

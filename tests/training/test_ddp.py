"""DistributedDataParallel: four versions equal to a single process, and everything that can come in between."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from distlib import (
    Communicator,
    DeadlockError,
    RankError,
    ReduceOp,
    SimulatedWorld,
    World,
    all_reduce,
    torch_distributed,
)
from distlib.training.datasets import digits
from distlib.training.ddp import (
    VERSIONS,
    DistributedDataParallel,
    PlainDDP,
    average_per_parameter,
    load_checkpoint,
    save_checkpoint,
)
from tests.tools.midst import until_there


@pytest.fixture(scope="module")
def two() -> Iterator[World]:
    with World(2) as world:
        yield world


@pytest.fixture(scope="module")
def four() -> Iterator[World]:
    with World(4) as world:
        yield world


def small_cnn(seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10)]
    return nn.Sequential(*layers).to(dtype)


def small_mlp(seed: int = 0, *between: nn.Module) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), *between, nn.Tanh(), nn.Linear(5, 3)).double()


def batch(length: int = 12, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(length, 6, dtype=torch.float64, generator=generator), torch.randint(
        3, (length,), generator=generator
    )


def part(comm: Communicator, *tensors: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.tensor_split(comm.world_size)[comm.rank] for tensor in tensors]


def values(module: nn.Module) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in module.state_dict().values()]


def largest_difference(first: list[torch.Tensor], second: list[torch.Tensor]) -> float:
    assert len(first) == len(second)
    return max(float((a - b).abs().max()) for a, b in zip(first, second, strict=True))


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, steps: int) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        chosen = slice(step % 4, None, 4)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    return values(model)


def train_on_ranks(
    comm: Communicator, version: str, images: torch.Tensor, labels: torch.Tensor, steps: int
) -> list[torch.Tensor]:
    """Other weights on each rank at the start; a quarter of each batch."""
    model = small_cnn(comm.rank, images.dtype)
    ddp = DistributedDataParallel(comm, model, version=version, bucket_bytes=4_000, first_bucket_bytes=1_000)
    shards = [tensor[comm.rank :: comm.world_size] for tensor in (images, labels)]
    return train(ddp, *shards, steps)


# ── the same as one process ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-4)])
@pytest.mark.parametrize("version", VERSIONS)
def test_twenty_steps_on_four_ranks_equal_a_single_process(
    four: World, version: str, dtype: torch.dtype, tolerance: float
) -> None:
    images, labels = digits()[0]
    images, labels = images[:256].to(dtype), labels[:256]
    by_rank = four.run(train_on_ranks, version, images, labels, 20)
    # rank r has the samples r, r+4, …; a step takes every 4th of these: the same samples as every 16th block of 4
    order = torch.arange(256).reshape(16, 4, 4).transpose(0, 1).reshape(4, -1)
    model = small_cnn(0, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(20):
        chosen = order[step % 4]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    assert largest_difference(by_rank[0], values(model)) <= tolerance
    for other in by_rank[1:]:
        assert all(torch.equal(a, b) for a, b in zip(by_rank[0], other, strict=True))


@pytest.mark.parametrize("algorithm", ["naive", "tree", "halving_doubling", "double_tree"])
def test_any_all_reduce_can_be_plugged_in(algorithm: str) -> None:
    def step(comm: Communicator) -> list[torch.Tensor]:
        ddp = DistributedDataParallel(comm, small_mlp(comm.rank), algorithm=algorithm)
        return train(ddp, *part(comm, *batch()), 2)

    ours = SimulatedWorld(3, contexts="threads").run(step)
    ring = SimulatedWorld(3, contexts="threads").run(lambda comm: train(
        DistributedDataParallel(comm, small_mlp(comm.rank)), *part(comm, *batch()), 2
    ))  # fmt: skip
    assert largest_difference(ours[1], ring[2]) < 1e-14


def test_an_all_reduce_of_ones_own_can_be_plugged_in(two: World) -> None:
    def largest(comm: Communicator, tensor: torch.Tensor) -> None:
        all_reduce(comm, tensor, ReduceOp.MAX)
        tensor *= comm.world_size

    def step(comm: Communicator) -> list[float]:
        model = nn.Linear(1, 1, bias=False)
        ddp = DistributedDataParallel(comm, model, algorithm=largest)
        ddp(torch.tensor([[float(comm.rank)]])).sum().backward()
        assert model.weight.grad is not None
        return model.weight.grad.flatten().tolist()

    assert two.run(step) == [[1.0], [1.0]]


def test_gradients_averaged_after_the_backward_pass(two: World) -> None:
    def step(comm: Communicator) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        model = small_mlp()
        inputs, labels = part(comm, *batch())
        nn.functional.cross_entropy(model(inputs), labels).backward()
        average_per_parameter(comm, model)
        alone = small_mlp()
        nn.functional.cross_entropy(alone(batch()[0]), batch()[1]).backward()
        return [[p.grad for p in m.parameters() if p.grad is not None] for m in (model, alone)]  # type: ignore

    for ours, alone in two.run(step):
        assert largest_difference(ours, alone) < 1e-15


@pytest.mark.parametrize("limits", [(1, 1), (200, 50), (1 << 20, 1 << 20)])
def test_the_plain_version_equals_a_single_process(two: World, limits: tuple[int, int]) -> None:
    def run(comm: Communicator) -> list[torch.Tensor]:
        model = small_mlp(comm.rank)  # other weights on each rank at the start
        ddp, optimizer = PlainDDP(comm, model, *limits), torch.optim.SGD(model.parameters(), lr=0.1)
        for seed in range(5):
            inputs, labels = part(comm, *batch(seed=seed))
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(inputs), labels).backward()
            ddp.finish()
            optimizer.step()
        return values(model)

    first, second = two.run(run)
    alone = small_mlp(0)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for seed in range(5):
        inputs, labels = batch(seed=seed)
        optimizer.zero_grad()
        nn.functional.cross_entropy(alone(inputs), labels).backward()
        optimizer.step()
    assert largest_difference(first, values(alone)) < 1e-15
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# ── messages, and when ───────────────────────────────────────────────────────────────────────────────────────────────

COUNTS = {"per_parameter": 6, "flat": 1, "bucketed": 3, "overlapped": 3}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_its_own_all_reduces(four: World, version: str) -> None:
    images, labels = digits()[0]
    images, labels = images[:64].double(), labels[:64]
    four.run(train_on_ranks, version, images, labels, 1)
    before = four.trace
    four.run(train_on_ranks, version, images, labels, 3)
    of_gradients = sum(p.nbytes for p in small_cnn().parameters())
    assert [b - a for a, b in zip(before.messages_sent, four.trace.messages_sent, strict=True)] == [
        2 * 6 * COUNTS[version]
    ] * 4
    assert sum(four.trace.bytes_sent) - sum(before.bytes_sent) == 2 * 2 * 3 * of_gradients


def test_overlap_hides_communication_in_virtual_time() -> None:
    def step(comm: Communicator, version: str) -> float:
        model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(50, 50), Computes(comm, 1e-3))))
        limits = {"bucket_bytes": 10_000, "first_bucket_bytes": 10_000}
        plain = PlainDDP(comm, model, **limits) if version == "plain" else None
        ddp = plain or DistributedDataParallel(comm, model, version=version, **limits)
        comm.barrier()
        start = comm.time()
        ddp(torch.ones(1, 50)).sum().backward()
        if plain:
            plain.finish()
        return comm.time() - start

    world = SimulatedWorld(4, contexts="threads")
    after, beside, plain = (world.run(step, version)[0] for version in ("bucketed", "overlapped", "plain"))
    computing, one_bucket = 6e-3, (after - 6e-3) / 6
    assert one_bucket > 0
    assert beside == pytest.approx(max(computing + one_bucket, 1e-3 + 6 * one_bucket))
    assert plain == pytest.approx(beside)


class Computes(nn.Module):
    """Passes its input through; in the backward pass it takes so many seconds."""

    def __init__(self, comm: Communicator, seconds: float) -> None:
        super().__init__()
        self._pause = lambda gradient: comm.sleep(seconds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.view_as(x)
        y.register_hook(self._pause)
        return y


def test_ranks_need_not_import_what_an_optimizer_needs() -> None:
    """torch takes two seconds for it in each process. Ranks have it from the start if the kernel has."""
    torch.optim.SGD(small_mlp().parameters(), lr=0.1)
    with World(1) as world:
        assert world.run(lambda comm: "torch._dynamo" in sys.modules) == [True]


# ── accumulation, parameters without a gradient, dtypes, layers used twice ───────────────────────────────────────────


@pytest.mark.parametrize("version", ["flat", "overlapped"])
def test_no_sync_sends_nothing_and_accumulates(two: World, version: str) -> None:
    def accumulate(comm: Communicator) -> tuple[int, list[torch.Tensor], list[torch.Tensor]]:
        model = small_mlp()
        ddp = DistributedDataParallel(comm, model, version=version)
        inputs, labels = part(comm, *batch())
        with ddp.no_sync():
            (nn.functional.cross_entropy(ddp(inputs[:3]), labels[:3]) / 2).backward()
        local = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        (nn.functional.cross_entropy(ddp(inputs[3:]), labels[3:]) / 2).backward()
        return 0, local, [p.grad for p in model.parameters() if p.grad is not None]

    first, second = two.run(accumulate)
    assert largest_difference(first[1], second[1]) > 1e-3
    alone = small_mlp()
    nn.functional.cross_entropy(alone(batch()[0]), batch()[1]).backward()
    wanted = [p.grad for p in alone.parameters() if p.grad is not None]
    assert largest_difference(first[2], wanted) < 1e-15 and largest_difference(second[2], wanted) < 1e-15


def test_inside_no_sync_there_are_no_messages(two: World) -> None:
    def run(comm: Communicator, steps: int) -> None:
        ddp = DistributedDataParallel(comm, small_mlp(0, nn.BatchNorm1d(5)))
        for _ in range(steps):
            with ddp.no_sync():
                ddp(batch()[0]).sum().backward()

    two.run(run, 0)
    nothing = two.trace.messages_sent
    two.run(run, 5)
    assert two.trace.messages_sent == nothing


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.left, self.right, self.never = (nn.Linear(2, 2) for _ in range(4))

    def forward(self, x: torch.Tensor, use_left: bool) -> torch.Tensor:
        return (self.left if use_left else self.right)(self.body(x)).sum()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_parameter_may_be_used_on_some_ranks_only(two: World, version: str) -> None:
    def step(comm: Communicator) -> dict[str, float | None]:
        torch.manual_seed(0)
        model = TwoHeads()
        ddp = DistributedDataParallel(comm, model, version=version, find_unused_parameters=True, bucket_bytes=20)
        ddp(torch.ones(1, 2), comm.rank == 0).backward()
        return {name: None if p.grad is None else p.grad[0].mean().item() for name, p in model.named_parameters()}

    first, second = two.run(step)
    assert first == second
    assert first["left.bias"] == first["right.bias"] == 0.5  # one of two ranks had 1
    assert first["never.bias"] is None and first["never.weight"] is None


def test_a_parameter_without_a_gradient_is_named(two: World) -> None:
    def step(comm: Communicator) -> None:
        DistributedDataParallel(comm, TwoHeads())(torch.ones(1, 2), True).backward()

    with pytest.raises(RankError, match=r"no gradient for .*right\.weight.*find_unused_parameters=True"):
        two.run(step)


def test_frozen_layers_several_dtypes_and_a_layer_used_twice(two: World) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.twice = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)
            self.exact = nn.Linear(4, 4).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.exact(self.twice(self.twice(self.frozen(x))).double())

    def step(comm: Communicator, version: str) -> list[torch.Tensor | None]:
        torch.manual_seed(comm.rank)
        model = Odd()
        ddp = DistributedDataParallel(comm, model, version=version)
        ddp(torch.full((1, 4), comm.rank + 1.0)).sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    by_version = [two.run(step, version) for version in VERSIONS]
    for first, second in by_version:
        assert [None if g is None else g.dtype for g in first] == 2 * [None] + 2 * [torch.float32] + 2 * [torch.float64]
        assert all(torch.equal(a, b) for a, b in zip(first[2:], second[2:], strict=True))
    torch.manual_seed(0)
    alone = Odd()
    alone(torch.tensor([[1.0] * 4, [2.0] * 4])).sum().backward()
    wanted = [parameter.grad / 2 for parameter in alone.parameters() if parameter.grad is not None]
    assert all(torch.allclose(a, b) for by_rank in by_version for a, b in zip(by_rank[0][2:], wanted, strict=True))


def test_gradients_may_lie_in_memory_in_any_order(two: World) -> None:
    def step(comm: Communicator) -> list[float]:
        weight = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())
        model = nn.Module()
        model.weight = weight
        model.forward = lambda x: (weight * x).sum()  # type: ignore[method-assign]
        DistributedDataParallel(comm, model)(torch.arange(6.0).reshape(3, 2) * (comm.rank + 1)).backward()
        assert weight.grad is not None
        return weight.grad.flatten().tolist()

    assert two.run(step) == [[0, 1.5, 3, 4.5, 6, 7.5]] * 2


# ── buffers, state, checkpoints ──────────────────────────────────────────────────────────────────────────────────────


def test_buffers_are_kept_in_step(two: World) -> None:
    def run(comm: Communicator, broadcast_buffers: bool) -> torch.Tensor:
        norm = nn.BatchNorm1d(5)
        ddp = DistributedDataParallel(comm, small_mlp(comm.rank, norm), broadcast_buffers=broadcast_buffers)
        inputs, _ = part(comm, *batch())
        for _ in range(2):
            ddp(inputs).sum().backward()
        with torch.no_grad():
            ddp(inputs)  # no communication: an evaluation may run on one rank only
        with ddp.no_sync():
            pass
        seen = []
        ddp.module[1].register_forward_pre_hook(lambda module, args: seen.append(module.running_mean.clone()))
        ddp(inputs)
        return seen[0]

    first, second = two.run(run, True)
    assert torch.equal(first, second)
    first, second = two.run(run, False)
    assert not torch.equal(first, second)


def test_the_state_has_no_prefix_and_loads_into_the_model_alone(two: World) -> None:
    def states(comm: Communicator) -> tuple[list[str], bool]:
        ddp = DistributedDataParallel(comm, small_mlp(comm.rank))
        alone = small_mlp(7)
        alone.load_state_dict(ddp.state_dict())
        ddp.load_state_dict(small_mlp(8).state_dict())
        return list(ddp.state_dict()), torch.equal(alone[0].weight, small_mlp(0)[0].weight)

    assert two.run(states) == [(["0.weight", "0.bias", "2.weight", "2.bias"], True)] * 2


def test_a_checkpoint_is_written_by_one_rank_and_loaded_by_all(two: World, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"

    def with_optimizer(comm: Communicator, seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        ddp = DistributedDataParallel(comm, small_mlp(seed))
        return ddp, torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)

    def step(comm: Communicator, ddp: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        inputs, labels = part(comm, *batch())
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(inputs), labels).backward()
        optimizer.step()

    def save_and_go_on(comm: Communicator) -> list[torch.Tensor]:
        ddp, optimizer = with_optimizer(comm, 0)
        step(comm, ddp, optimizer)
        save_checkpoint(comm, path, ddp, optimizer, epoch=3)
        step(comm, ddp, optimizer)
        return values(ddp)

    def load_and_go_on(comm: Communicator) -> tuple[int, list[torch.Tensor]]:
        ddp, optimizer = with_optimizer(comm, 5)
        more = load_checkpoint(comm, path, ddp, optimizer)
        step(comm, ddp, optimizer)
        return more["epoch"], values(ddp)

    wanted = two.run(save_and_go_on)[0]
    for epoch, found in two.run(load_and_go_on):
        assert epoch == 3
        assert largest_difference(found, wanted) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


# ── uneven inputs ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lengths", [(3, 1), (1, 3), (2, 2), (0, 2)])
def test_join_lets_ranks_have_other_numbers_of_batches(two: World, lengths: tuple[int, int]) -> None:
    def run(comm: Communicator) -> tuple[int, list[torch.Tensor]]:
        ddp = DistributedDataParallel(comm, small_mlp(0, nn.BatchNorm1d(5)))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        steps = 0
        for seed in ddp.join(range(lengths[comm.rank])):
            inputs, labels = batch(seed=10 * comm.rank + seed)
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(inputs), labels).backward()
            optimizer.step()
            steps += 1
        return steps, values(ddp)

    results = two.run(run)
    assert [steps for steps, _ in results] == list(lengths)
    assert largest_difference(results[0][1], results[1][1]) == 0


def test_join_in_evaluation_mode_where_no_buffers_are_sent(two: World) -> None:
    def run(comm: Communicator) -> list[torch.Tensor]:
        ddp = DistributedDataParallel(comm, small_mlp(0, nn.BatchNorm1d(5))).eval()
        for seed in ddp.join(range(3 if comm.rank else 1)):
            ddp(batch(seed=seed)[0]).sum().backward()
        return values(ddp)

    first, second = two.run(run, timeout=60)
    assert largest_difference(first, second) == 0


def test_join_averages_over_those_that_have_a_batch(two: World) -> None:
    def run(comm: Communicator) -> list[float]:
        model = nn.Linear(1, 1, bias=False)
        ddp, seen = DistributedDataParallel(comm, model), []
        for value in ddp.join([6.0, 8.0] if comm.rank else [2.0]):
            model.zero_grad()
            ddp(torch.tensor([[value]])).sum().backward()
            assert model.weight.grad is not None
            seen.append(model.weight.grad.item())
        return seen

    assert two.run(run) == [[4.0], [4.0, 8.0]]


# ── inside torch's own DDP ───────────────────────────────────────────────────────────────────────────────────────────


def test_torchs_ddp_with_our_messages_has_our_gradients(two: World) -> None:
    def step(comm: Communicator) -> list[list[torch.Tensor]]:
        inputs, labels = part(comm, *batch())
        model, same = small_mlp(), small_mlp()
        with torch_distributed(comm):
            theirs = nn.parallel.DistributedDataParallel(model)
            nn.functional.cross_entropy(theirs(inputs), labels).backward()
        nn.functional.cross_entropy(DistributedDataParallel(comm, same)(inputs), labels).backward()
        return [[p.grad for p in each.parameters() if p.grad is not None] for each in (model, same)]

    for theirs, ours in two.run(step):
        assert largest_difference(theirs, ours) < 1e-15


def test_a_ddp_that_outlives_its_group_does_not_wait_for_gloo_forever(two: World, tmp_path: Path) -> None:
    """On rank 0 the thread of gloo that calls back is still busy with that when the block and its DDP end."""

    class SlowToEnd:
        """Ends when the event has come."""

        def __init__(self, event: Event) -> None:
            self.event = event

        def __del__(self) -> None:
            self.event.wait()

    def train_a_ddp(comm: Communicator, file: Path, is_over: Event) -> None:
        def average(state: object, bucket: GradBucket) -> Future[torch.Tensor]:
            if comm.rank == 1:
                until_there(file.parent, file.name)
            summed = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
            # Only gloo has it, which lets go of it when it has called back.
            averaged = summed.then(partial(_first, SlowToEnd(is_over) if comm.rank == 0 else None))
            if comm.rank == 0:
                file.touch()
            return averaged

        with torch_distributed(comm, "gloo") as dist:
            ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
            ddp.register_comm_hook(None, average)
            ddp(torch.ones(1, 2)).sum().backward()

    def train(comm: Communicator, file: Path) -> int:
        is_over = Event()
        train_a_ddp(comm, file, is_over)
        is_over.set()
        return comm.rank

    two.run(train, tmp_path / "1", timeout=100)  # the first DDP of a process imports modules that refer to its group
    assert two.run(train, tmp_path / "2", timeout=100) == [0, 1]


def _first(kept: object, future: Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]


# ── when something is wrong ──────────────────────────────────────────────────────────────────────────────────────────


def wrap(comm: Communicator, model: nn.Module, **options: Any) -> None:
    DistributedDataParallel(comm, model, **options)


def test_models_that_differ_are_named(two: World) -> None:
    with pytest.raises(RankError, match=r"rank 0 has the parameter 'weight' of shape \(2, 4\).* rank 1 has .*\(2, 5\)"):
        two.run(lambda comm: wrap(comm, nn.Linear(4 + comm.rank, 2)))
    with pytest.raises(RankError, match=r"rank 0 has the parameter 'bias'.* rank 1 has nothing more"):
        two.run(lambda comm: wrap(comm, nn.Linear(4, 2, bias=comm.rank == 0)))
    with pytest.raises(RankError, match=r"rank 0 has nothing more where rank 1 has the buffer"):
        two.run(lambda comm: wrap(comm, nn.BatchNorm1d(4, track_running_stats=comm.rank == 1)))
    with pytest.raises(RankError, match=r"dtype float32 where rank 1 has .* dtype float64"):
        two.run(lambda comm: wrap(comm, nn.Linear(4, 2, dtype=(torch.float32, torch.float64)[comm.rank])))


@pytest.mark.parametrize("options", [{"version": "fast"}, {"algorithm": "rign"}, {"bucket_bytes": 0}])
def test_options_that_do_not_exist_are_named(two: World, options: dict[str, Any]) -> None:
    def run(comm: Communicator) -> None:
        ddp = DistributedDataParallel(comm, small_mlp(), **options)
        ddp(batch()[0]).sum().backward()

    with pytest.raises(RankError, match="expected"):
        two.run(run)


def test_a_model_without_parameters_is_an_error(two: World) -> None:
    with pytest.raises(RankError, match="expected a model with parameters to train"):
        two.run(lambda comm: wrap(comm, nn.ReLU()))


@pytest.mark.parametrize("version", ["per_parameter", "overlapped"])
def test_a_gradient_that_is_no_number_is_named_with_rank_and_parameter(two: World, version: str) -> None:
    def step(comm: Communicator) -> None:
        model = small_mlp()
        ddp = DistributedDataParallel(comm, model, version=version)
        loss = ddp(batch()[0]).sum()
        if comm.rank == 1:
            model[2].bias.register_hook(lambda gradient: gradient * float("nan"))
        loss.backward()

    with pytest.raises(RankError, match=r"rank 1 \(2\.bias\)"):
        two.run(step)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_a_backward_pass_that_failed_the_next_one_averages(two: World, version: str) -> None:
    """Student code catches the error of one batch and goes on with the next."""

    def step(comm: Communicator) -> list[torch.Tensor]:
        model = small_mlp()
        # A bucket for each parameter: the last layer's are on their way when the first layer fails.
        ddp = DistributedDataParallel(comm, model, version=version, bucket_bytes=8, first_bucket_bytes=8)
        images = batch()[0]

        def fail(gradient: torch.Tensor) -> None:
            raise FloatingPointError("a bad batch")

        handle = model[0].weight.register_hook(fail)
        with pytest.raises(FloatingPointError):
            ddp(3 * images).sum().backward()
        handle.remove()
        ddp.zero_grad()
        ddp(images[comm.rank :: 2]).mean(0).sum().backward()
        return [parameter.grad for parameter in model.parameters()]  # type: ignore[misc]

    single = small_mlp()
    single(batch()[0]).mean(0).sum().backward()
    for gradients in two.run(step):
        assert largest_difference(gradients, [p.grad for p in single.parameters()]) < 1e-12  # type: ignore[misc]


def test_a_rank_that_leaves_the_loop_early_is_a_deadlock_not_a_hang(two: World) -> None:
    def run(comm: Communicator) -> None:
        ddp = DistributedDataParallel(comm, small_mlp())
        for _ in range(3 - comm.rank):
            ddp(batch()[0]).sum().backward()

    with pytest.raises(DeadlockError, match="rank 1"):
        two.run(run, timeout=100)


def test_greenlets_are_told_that_it_takes_threads() -> None:
    def run(comm: Communicator) -> None:
        DistributedDataParallel(comm, small_mlp())(batch()[0]).sum().backward()

    with pytest.raises(RankError, match='contexts="threads"'):
        SimulatedWorld(2).run(run)


# ── on GPUs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.gpu(1)
def test_ranks_on_gpus_equal_simulated_ranks() -> None:
    def step(comm: Communicator) -> list[torch.Tensor]:
        ddp = DistributedDataParallel(comm, small_mlp(comm.rank).to(comm.device))
        return [value.cpu() for value in train(ddp, *(each.to(comm.device) for each in part(comm, *batch())), 1)]

    with World(2, backend="nccl") as world:
        found = world.run(step, timeout=200)
    simulated = SimulatedWorld(2, contexts="threads").run(step)
    assert largest_difference(found[0], simulated[0]) < 1e-12
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))

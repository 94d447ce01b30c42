"""What users of torch bring to a wrapped model: each thing works, or one sentence says what to do.

Each entry is played with each wrapper that it is about, on simulated ranks, and once between real processes.
"""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Communicator, RankError, SimulatedWorld, World
from distlib.training.ddp import VERSIONS, DistributedDataParallel, PlainDDP
from distlib.training.tensor_parallel import ColumnParallelLinear
from distlib.training.zero import FullyShardedModule, ShardedGradients, ShardedOptimizer

INPUTS = torch.linspace(-1, 1, 18, dtype=torch.float64).view(3, 6)
WRAPPERS = ("plain", *VERSIONS, "stage 1", "stage 2", "stage 3")
DDP = ("plain", *VERSIONS)
STAGES = ("stage 1", "stage 2", "stage 3")


class Bench:
    """A model with a frozen layer, wrapped in one of the ways, and an optimizer."""

    def __init__(self, comm: Communicator, wrapper: str, model: nn.Module | None = None, **options: Any) -> None:
        torch.manual_seed(0)
        self.comm, self.wrapper = comm, wrapper
        self.inner: Any = model or nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)).double()
        if model is None:
            self.inner[0].requires_grad_(False)
        self.model: Any = self.inner
        if wrapper in ("stage 1", "stage 2"):
            maker = ShardedOptimizer if wrapper == "stage 1" else ShardedGradients
            self.optimizer: Any = maker(comm, self.inner, torch.optim.SGD, lr=0.1, **options)
            return
        if wrapper == "plain":
            self.model = PlainDDP(comm, self.inner)
        elif wrapper == "stage 3":
            self.model = FullyShardedModule(comm, self.inner, **options)
        else:
            self.model = DistributedDataParallel(comm, self.inner, version=wrapper, **options)
        trained = [each for each in self.model.parameters() if each.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=0.1)

    def backward(self, scale: float = 1.0) -> None:
        """One backward pass, on other numbers on each rank."""
        (self.model(INPUTS * (1 + self.comm.rank)).square().mean() * scale).backward()
        if self.wrapper == "plain":
            self.model.finish()

    def step(self) -> None:
        """One step of training."""
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()

    def weights(self) -> list[list[float]]:
        """The values of the model's parameters, whole."""
        state = self.model.state_dict()
        return [value.flatten().tolist() for _, value in sorted(state.items())]


def alike(results: Any) -> bool:
    return all(result == results[0] for result in results)


# ── parameters that change after wrapping ────────────────────────────────────────────────────────────────────────────


def unfreeze(bench: Bench) -> None:
    bench.inner[0].requires_grad_(True)
    bench.step()


def add_a_layer(bench: Bench) -> None:
    bench.inner.append(nn.Linear(3, 3).double())
    bench.step()


def replace_a_layer(bench: Bench) -> None:
    bench.inner[0] = nn.Linear(6, 4).double()
    bench.step()


def freeze(bench: Bench) -> None:
    bench.inner[2].bias.requires_grad_(False)
    bench.step()


def convert(bench: Bench) -> None:
    bench.inner.float()
    bench.model(INPUTS.float()).square().mean().backward()
    bench.optimizer.step()


# ── copies, and what is sent ─────────────────────────────────────────────────────────────────────────────────────────


def wrapped(bench: Bench) -> Any:
    return bench.optimizer if bench.wrapper in ("stage 1", "stage 2") else bench.model


def deep_copy(bench: Bench) -> None:
    copy.deepcopy(wrapped(bench))


def pickled(bench: Bench) -> None:
    pickle.dumps(wrapped(bench))


def moving_average(bench: Bench) -> None:
    torch.optim.swa_utils.AveragedModel(bench.model)


# ── gradients ────────────────────────────────────────────────────────────────────────────────────────────────────────


def clip_by_torch(bench: Bench) -> None:
    bench.optimizer.zero_grad()
    bench.backward()
    torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 0.1)


def clip_the_model_inside(bench: Bench) -> None:
    bench.optimizer.zero_grad()
    bench.backward()
    torch.nn.utils.clip_grad_norm_(bench.inner.parameters(), 0.1)


WRAP_AGAIN = "is trained now, and was not when the model was wrapped"
REFUSED: list[tuple[Callable[[Bench], object], tuple[str, ...], str]] = [
    (unfreeze, WRAPPERS, f"0.weight, 0.bias {WRAP_AGAIN}"),
    (add_a_layer, WRAPPERS, f"3.weight, 3.bias {WRAP_AGAIN}"),
    (replace_a_layer, WRAPPERS, f"0.weight, 0.bias {WRAP_AGAIN}"),
    (freeze, STAGES, "frozen after the model was sharded|freeze those that are not to be trained before"),
    (convert, WRAPPERS, "has the dtype torch.float32 now, and had torch.float64"),
    (deep_copy, WRAPPERS, "it can't be copied, sent or saved whole"),
    (pickled, WRAPPERS, "it can't be copied, sent or saved whole"),
    (moving_average, ("plain", *VERSIONS, "stage 3"), "it can't be copied, sent or saved whole"),
    (clip_by_torch, STAGES, "Call clip_grad_norm"),
    (clip_the_model_inside, STAGES, "Call clip_grad_norm"),
]


@pytest.mark.parametrize("entry, wrappers, words", REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_told_in_one_sentence(entry: Callable[[Bench], object], wrappers: tuple[str, ...], words: str) -> None:
    for wrapper in wrappers:
        with pytest.raises(RankError, match=words):
            SimulatedWorld(2, contexts="threads").run(lambda comm, w=wrapper: entry(Bench(comm, w)), timeout=60)


# ── what works ───────────────────────────────────────────────────────────────────────────────────────────────────────


def rate_schedule(comm: Communicator, wrapper: str) -> Any:
    bench = Bench(comm, wrapper)
    schedule = torch.optim.lr_scheduler.StepLR(bench.optimizer, step_size=1, gamma=0.5)
    for _ in range(3):
        bench.step()
        schedule.step()
    return schedule.get_last_lr(), bench.weights()


def average_of_the_model_inside(comm: Communicator, wrapper: str) -> Any:
    bench = Bench(comm, wrapper)
    average = torch.optim.swa_utils.AveragedModel(bench.inner)
    bench.step()
    average.update_parameters(bench.inner)
    return [parameter.tolist() for parameter in average.parameters()]


def scaled(comm: Communicator, wrapper: str) -> Any:
    """The second step has an infinite gradient on rank 1: every rank leaves it out."""
    bench = Bench(comm, wrapper, **({} if wrapper not in VERSIONS else {"check_finite": False}))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for factor in (1.0, float("inf") if comm.rank == 1 else 1.0, 1.0):
        bench.optimizer.zero_grad()
        bench.backward(scale=factor * scaler.get_scale())
        scaler.scale(torch.zeros(()))  # as scaler.scale(loss) does, which notes where the scale is kept
        scaler.step(bench.optimizer)
        scaler.update()
    return scaler.get_scale(), bench.weights()


def with_a_closure(comm: Communicator, wrapper: str) -> Any:
    bench = Bench(comm, wrapper)

    def closure() -> float:
        bench.optimizer.zero_grad()
        bench.backward()
        return 0.5

    return bench.optimizer.step(closure), bench.weights()


def compiled_inside(comm: Communicator, wrapper: str) -> Any:
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    bench = Bench(comm, wrapper, torch.compile(model, backend="eager"))
    bench.step()
    return bench.weights()


def in_one_process(steps: int, rates: list[float]) -> list[list[float]]:
    """The weights after as many steps on the numbers of both ranks."""
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    model[0].requires_grad_(False)
    for step in range(steps):
        model.zero_grad()
        (sum(model(INPUTS * (1 + rank)).square().mean() for rank in range(2)) / 2).backward()
        with torch.no_grad():
            for parameter in model[2].parameters():
                parameter -= rates[step] * parameter.grad
    return [value.flatten().tolist() for _, value in sorted(model.state_dict().items())]


def close(first: list[list[float]], second: list[list[float]]) -> bool:
    return all(a == pytest.approx(b, abs=1e-12) for a, b in zip(first, second, strict=True))


def on_two_ranks(entry: Callable[[Communicator, str], Any], wrapper: str) -> Any:
    results = SimulatedWorld(2, contexts="threads").run(entry, wrapper, timeout=60)
    assert alike(results)
    return results[0]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_rate_schedule(wrapper: str) -> None:
    rates, weights = on_two_ranks(rate_schedule, wrapper)
    assert rates == [0.0125]
    assert close(weights, in_one_process(3, [0.1, 0.05, 0.025]))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_all_ranks_leave_out_a_step_whose_gradient_is_infinite_on_one(wrapper: str) -> None:
    scale, weights = on_two_ranks(scaled, wrapper)
    assert scale == 2.0  # halved once
    assert close(weights, in_one_process(2, [0.1, 0.1]))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_closure(wrapper: str) -> None:
    loss, weights = on_two_ranks(with_a_closure, wrapper)
    assert loss == 0.5 and close(weights, in_one_process(1, [0.1]))


@pytest.mark.parametrize("wrapper", [*DDP, "stage 1", "stage 2"])
def test_an_average_of_the_model_inside(wrapper: str) -> None:
    on_two_ranks(average_of_the_model_inside, wrapper)


def test_a_compiled_model_inside() -> None:
    with World(2) as world:
        for wrapper in ("overlapped", "stage 2"):
            assert alike(world.run(compiled_inside, wrapper, timeout=200))


def test_the_same_between_processes() -> None:
    with World(2) as world:
        for wrapper in ("overlapped", "stage 1", "stage 3"):
            assert alike(world.run(scaled, wrapper, timeout=100))
            with pytest.raises(RankError, match=WRAP_AGAIN):
                world.run(lambda comm, w=wrapper: unfreeze(Bench(comm, w)), timeout=100)
        with pytest.raises(RankError, match="Call clip_grad_norm"):
            world.run(lambda comm: clip_by_torch(Bench(comm, "stage 3")), timeout=100)


# ── single things ────────────────────────────────────────────────────────────────────────────────────────────────────


def sparse_embedding(comm: Communicator, wrapper: str) -> None:
    model = nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Linear(4, 3))
    bench = Bench(comm, wrapper, model, **({"units": [model[0], model[1]]} if wrapper == "stage 3" else {}))
    bench.model(torch.tensor([[1, 2], [2, 4]])).square().mean().backward()
    bench.optimizer.step()


@pytest.mark.parametrize("wrapper", [*VERSIONS, *STAGES])
def test_a_sparse_gradient(wrapper: str) -> None:
    with pytest.raises(RankError, match=r"0.weight has a sparse gradient.*sparse=False"):
        SimulatedWorld(2, contexts="threads").run(sparse_embedding, wrapper, timeout=60)


def test_an_optimizer_for_matrices_only() -> None:
    def make(comm: Communicator) -> None:
        ShardedOptimizer(comm, nn.Linear(4, 4, bias=False), torch.optim.Muon, lr=0.1)

    with pytest.raises(RankError, match="Muon can't be sharded: it does not work on flat pieces"):
        SimulatedWorld(2).run(make, timeout=60)


def test_more_parameters_for_a_sharded_optimizer() -> None:
    def add(comm: Communicator) -> None:
        Bench(comm, "stage 1").optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})

    with pytest.raises(RankError, match="gets its parameters when it is made"):
        SimulatedWorld(2).run(add, timeout=60)


def test_a_layer_that_is_cut_over_the_ranks_is_not_clipped_by_torch() -> None:
    def clip(comm: Communicator) -> None:
        layer = ColumnParallelLinear(comm, 6, 4, dtype=torch.float64)
        layer(INPUTS).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 0.1)

    SimulatedWorld(1, contexts="threads").run(clip, timeout=60)  # one rank has the whole
    with pytest.raises(RankError, match="Call clip_over_groups"):
        SimulatedWorld(2, contexts="threads").run(clip, timeout=60)


def test_what_is_no_part_is_clipped_and_scaled_as_before() -> None:
    """Also in a process that has had shards."""
    SimulatedWorld(2, contexts="threads").run(lambda comm: Bench(comm, "stage 3").step(), timeout=60)
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.grad = torch.tensor([[3.0, 4.0]])
    assert float(torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)) == 5.0
    assert layer.weight.grad.norm() == pytest.approx(1.0, abs=1e-5)
    assert float(torch.nn.utils.clip_grad_norm_(layer.weight, 2.0)) == pytest.approx(1.0, abs=1e-5)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)

"""Nine ways of one training: which of them are the training of one process, what they keep, and what they refuse."""

import sys
from typing import Any

import pytest
import torch

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, World
from distlib.capstone import Additions, Texts, new_gpt, train_alone
from distlib.capstone.ways import WAYS, CapstonePlan, TrainedModel, step_costs, train_by
from distlib.training.mesh import SmallTransformer
from distlib.training.mixing import complete, metropolis_weights
from distlib.training.zero import memory_by_stage

TINY = SmallTransformer(vocabulary=16, features=16, hidden=32, heads=4, num_layers=2)
PLAN = CapstonePlan(Additions(batch_size=12), TINY, dtype=torch.float64)
STEPS = 20


@pytest.fixture(scope="module")
def one_process() -> TrainedModel:
    """Losses and weights of `train_alone`."""
    return trained_alone(PLAN, STEPS)


def trained_alone(plan: CapstonePlan, steps: int) -> TrainedModel:
    model = new_gpt(plan.shape, plan.seed, plan.dtype)
    losses = train_alone(model, plan.task, steps)
    return TrainedModel(losses, model.state_dict(), {})


def simulated(ranks: int, way: str, plan: CapstonePlan = PLAN, steps: int = STEPS, **options: Any) -> list[Any]:
    return SimulatedWorld(ranks, contexts="threads").run(train_by, way, plan, steps, **options)


def distance(found: list[TrainedModel], wanted: TrainedModel) -> float:
    """The largest difference of a loss or a weight, on any rank."""
    losses = [abs(a - b) for each in found for a, b in zip(each.losses, wanted.losses, strict=True)]
    assert all(each.weights.keys() == wanted.weights.keys() for each in found)
    weights = [
        float((each.weights[name] - wanted.weights[name]).abs().max()) for each in found for name in wanted.weights
    ]
    return max(losses + weights)


@pytest.mark.parametrize(
    ("way", "ranks", "options"),
    [
        pytest.param("alone", 1, {}, marks=pytest.mark.slow),
        pytest.param("ddp", 4, {}, marks=pytest.mark.slow),
        ("ddp", 5, {}),  # parts of 3, 3, 2, 2 and 2 sequences
        pytest.param("parameter_server", 4, {"bound": 0}, marks=pytest.mark.slow),
        ("parameter_server", 6, {"bound": 0}),  # parts of 3, 3, 2, 2 and 2
        pytest.param("pipeline", 3, {}, marks=pytest.mark.slow),
        ("pipeline", 4, {"microbatches": 5}),  # of different sizes
        pytest.param("tensor_parallel", 2, {}, marks=pytest.mark.slow),  # as in the mesh
        pytest.param("zero", 3, {}, marks=pytest.mark.slow),
        ("zero", 5, {}),
        ("mesh", 4, {}),
        pytest.param("mesh", 8, {}, marks=pytest.mark.slow),
        pytest.param("mesh", 6, {"sizes": {"tp": 2, "dp": 3, "pp": 1}, "microbatches": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_way_that_is_the_training_of_one_process(
    way: str, ranks: int, options: dict[str, Any], one_process: TrainedModel
) -> None:
    assert distance(simulated(ranks, way, **options), one_process) < 1e-9


@pytest.mark.parametrize(
    ("way", "options"),
    [
        ("local_sgd", {}),
        ("local_sgd", {"round_steps": 1}),
        ("parameter_server", {}),
        ("gossip", {}),
        ("gossip", {"schedule": metropolis_weights(complete(4))}),
    ],
)
def test_a_way_that_is_another_training(way: str, options: dict[str, Any], one_process: TrainedModel) -> None:
    """AdamW and clipping are not linear: an average of steps is not the step of an average. All ranks agree, though."""
    found = simulated(4, way, **options)
    assert 1e-4 < distance(found, one_process) < 0.5
    assert distance(found, found[0]) == 0
    assert found[0].losses[-1] < 0.9 * found[0].losses[0]


@pytest.mark.parametrize(("way", "ranks"), [("local_sgd", 1), ("gossip", 1), ("parameter_server", 2)])
def test_with_one_rank_that_computes_there_is_no_difference(way: str, ranks: int, one_process: TrainedModel) -> None:
    assert distance(simulated(ranks, way), one_process) < 1e-9


@pytest.mark.parametrize("way", ["ddp", "pipeline", "tensor_parallel"])
def test_a_text_of_which_all_tokens_count(way: str) -> None:
    plan = CapstonePlan(Texts("the quick brown fox " * 9, length=7, batch_size=6), TINY, seed=3, dtype=torch.float64)
    assert distance(simulated(2, way, plan, 5), trained_alone(plan, 5)) < 1e-9


def test_clipping_matters_here(one_process: TrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else no test above would see a wrong norm."""
    monkeypatch.setattr(sys.modules["distlib.capstone.train_alone"], "MAX_NORM", 1e9)
    assert distance([trained_alone(PLAN, STEPS)], one_process) > 1e-3


@pytest.mark.parametrize(
    ("way", "ranks"),
    [
        ("zero", 2),
        pytest.param("pipeline", 2, marks=pytest.mark.slow),
        pytest.param("parameter_server", 2, marks=pytest.mark.slow),
        ("gossip", 1),
    ],
)
def test_on_real_processes(way: str, ranks: int, one_process: TrainedModel) -> None:
    with World(ranks) as world:
        assert distance(world.run(train_by, way, PLAN, STEPS), one_process) < 1e-9


# ── what a rank keeps ────────────────────────────────────────────────────────────────────────────────────────────────


def test_kept_bytes_are_those_of_lesson_11() -> None:
    numbers = sum(each.numel() for each in new_gpt(PLAN.shape).parameters())
    kinds = {"param_bytes": 8, "gradient_bytes": 8, "optimizer_bytes": 16}
    by_stage = memory_by_stage(numbers, 4, **kinds)  # type: ignore[arg-type]
    assert [each.kept for each in simulated(4, "ddp", steps=1)] == [by_stage[0]] * 4
    assert [each.kept for each in simulated(4, "zero", steps=1)] == [by_stage[3]] * 4
    server, worker = (each.kept for each in simulated(2, "parameter_server", steps=1))
    assert server == by_stage[0] and worker == {**by_stage[0], "optimizer states": 0}


def test_stages_and_parts_add_up_to_the_model() -> None:
    whole = simulated(1, "alone", steps=1)[0].kept["parameters"]
    shape = PLAN.shape
    assert sum(each.kept["parameters"] for each in simulated(4, "pipeline", steps=1)) == whole
    on_tp = sum(each.kept["parameters"] for each in simulated(4, "tensor_parallel", steps=1))
    assert on_tp == whole + 3 * 8 * shape.numbers_copied


# ── what a rank sends ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("way", "period", "models"),
    [
        ("ddp", 1, 2 * 3 / 4),
        ("local_sgd", 4, 2 * 3 / 4 / 4),
        ("gossip", 1, 2.0),
        ("parameter_server", 1, 3.0),  # the server answers three pulls
        ("zero", 1, 3 * 3 / 4),
    ],
)
def test_bytes_of_a_step(way: str, period: int, models: float) -> None:
    """In models sent by the rank that sends most; what does not grow with the model is far below a tenth of one."""
    model = sum(each.nbytes for each in new_gpt(PLAN.shape, dtype=PLAN.dtype).parameters())
    assert step_costs(way, PLAN, Cluster(1, 4), period).most_sent / model == pytest.approx(models, abs=0.05)


# ── virtual time ─────────────────────────────────────────────────────────────────────────────────────────────────────


def seconds(ranks: int, way: str, link: Link | None = None) -> float:
    """Virtual seconds of one step, computing at 1 operation per microsecond."""
    return step_costs(way, PLAN.with_speed(1e6), Cluster.flat(ranks, link or Link(0, 1e30))).seconds


def test_computing_takes_time() -> None:
    """6 operations for each number of a matrix and each token: forward 2, backward 4. Links that take none."""
    shape = PLAN.shape
    layer = 4 * shape.features**2 + 2 * shape.features * shape.hidden
    head = shape.vocabulary * shape.features
    tokens = 12 * PLAN.task.length
    alone = 6 * tokens * (2 * layer + head) / 1e6
    assert seconds(1, "alone") == pytest.approx(alone)
    assert seconds(4, "ddp") == pytest.approx(alone / 4)
    assert seconds(4, "zero") == pytest.approx(alone / 4)
    assert seconds(4, "tensor_parallel") == pytest.approx(alone / 4)
    assert seconds(5, "parameter_server") == pytest.approx(alone / 4)
    slowest = 6 * tokens * (layer + head) / 1e6  # the second of two stages
    bubble = 6 * tokens / 4 * layer / 1e6  # the first microbatch's way through the first stage, forward and backward
    assert seconds(2, "pipeline") == pytest.approx(slowest + bubble)


def test_workers_that_are_done_sooner_do_not_disturb_the_server() -> None:
    """Their parts differ in size, and so do their times; what they do next has messages, too."""
    found = simulated(8, "parameter_server", PLAN.with_speed(1e6), steps=1)
    assert distance(found, found[0]) == 0


def test_messages_are_hidden_behind_computing() -> None:
    """Two of three transfers of ZeRO 3 at least: the next layer's parameters, and the last layer's gradients."""
    whole = simulated(1, "alone", steps=1)[0].kept["parameters"]
    half_takes = 5e-3  # half a model to the other rank; each layer computes for longer than its part of this
    assert seconds(2, "zero", Link(0, whole / 2 / half_takes)) < seconds(2, "zero") + 2 * half_takes


# ── what it refuses ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("way", "ranks", "words"),
    [
        ("alone", 2, "alone expected 1 rank, got 2"),
        ("ddp", 13, "at least 13 sequences, one for each rank that takes a part of it, got 12"),
        ("zero", 13, "at least 13 sequences"),
        ("local_sgd", 13, "at least 13 sequences"),
        ("gossip", 13, "at least 13 sequences"),
        ("parameter_server", 1, "at least 2 ranks, a server and a worker, got 1"),
        ("pipeline", 5, "at most one per layer, got 5 stages for 4 layers"),
        ("tensor_parallel", 3, "3 ranks"),
        ("mesh", 6, "a number of ranks that 4 divides, for pp 2 × tp 2, got 6"),
        ("zer0", 2, f"one of the ways {', '.join(WAYS)}, got 'zer0'"),
    ],
)
def test_ranks_that_a_way_can_not_use(way: str, ranks: int, words: str) -> None:
    with pytest.raises(RankError, match="ValueError") as caught:
        simulated(ranks, way, steps=1)
    assert words in str(caught.value)


def test_no_step() -> None:
    with pytest.raises(RankError, match="steps"):
        simulated(1, "alone", steps=0)


def test_a_speed_of_nothing() -> None:
    def make(comm: Communicator) -> None:
        PLAN.with_speed(0.0).whole_model(comm)

    with pytest.raises(RankError, match="speed"):
        SimulatedWorld(1).run(make)


@pytest.mark.gpu(1)
@pytest.mark.parametrize(
    ("way", "ranks", "options"),
    [
        ("alone", 1, {}),
        ("ddp", 3, {}),
        ("parameter_server", 3, {"bound": 0}),
        ("pipeline", 3, {}),
        ("tensor_parallel", 2, {}),
        ("zero", 3, {}),
        ("mesh", 4, {}),
        ("local_sgd", 2, {"round_steps": 1}),
        ("gossip", 2, {}),
    ],
)
def test_the_same_on_gpus(way: str, ranks: int, options: dict[str, Any]) -> None:
    steps = 5
    with World(ranks, backend="nccl") as world:
        found = world.run(train_by, way, PLAN, steps, timeout=250, **options)
    exact = way not in ("local_sgd", "gossip")
    wanted = trained_alone(PLAN, steps) if exact else simulated(ranks, way, steps=steps, **options)[0]
    assert distance(found, wanted) < 1e-9


@pytest.mark.gpu(1)
def test_one_process_learns_on_its_gpu_what_it_learns_on_the_processor(one_process: TrainedModel) -> None:
    model = new_gpt(PLAN.shape, PLAN.seed, PLAN.dtype).cuda()
    losses = train_alone(model, PLAN.task, STEPS)
    weights = {name: each.cpu() for name, each in model.state_dict().items()}
    assert distance([TrainedModel(losses, weights, {})], one_process) < 1e-9
    assert PLAN.task.sample(model) and 0 <= PLAN.task.accuracy(model) <= 1

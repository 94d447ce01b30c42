"""A step in three directions: equal to one process on any mesh, what is sent along which axis, and what is refused."""

from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
import torch

from distlib import Communicator, RankError, SimulatedWorld, World, all_reduce
from distlib.training.mesh import (
    AxisTraffic,
    HybridTrainer,
    Mesh,
    SmallTransformer,
    cut_parameters,
    own_parts,
    step_traffic,
    traffic_by_axis,
)
from distlib.training.pipeline import stages_of
from distlib.training.schedules import Schedule, gpipe, interleaved_1f1b, one_forward_one_backward, zero_bubble
from distlib.training.schedules.actions import stages_in
from distlib.training.tensor_parallel import (
    GroupedQueryAttention,
    ParallelTransformerLayer,
    vocabulary_parallel_cross_entropy,
)

MODEL = SmallTransformer(vocabulary=16, features=8, hidden=16, heads=4, num_layers=3)
TIED = SmallTransformer(vocabulary=16, features=8, hidden=16, heads=4, num_layers=3, tied=True)
PLACED = SmallTransformer(vocabulary=16, features=8, hidden=16, heads=4, num_layers=3, tied=True, positions=6)
SAMPLES, SEQUENCE, STEPS = 8, 5, 10
CUBE = {"dp": 2, "pp": 2, "tp": 2}
State = dict[str, torch.Tensor]


def batch(step: int, samples: int = SAMPLES) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(MODEL.vocabulary, (samples, SEQUENCE + 1), generator=torch.Generator().manual_seed(step))
    return drawn[:, :-1], drawn[:, 1:]


@cache  # many meshes are compared with the same training
def train_alone(model: SmallTransformer, max_norm: float | None = None) -> tuple[list[float], list[float], State]:
    """Losses, norms and the model at the end, of one process that knows no mesh."""

    def run(comm: Communicator) -> tuple[list[float], list[float], State]:
        layers, losses, norms = model.layers(comm, dtype=torch.float64), [], []
        optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
        for step in range(STEPS):
            tokens, following = batch(step)
            optimizer.zero_grad()
            loss = vocabulary_parallel_cross_entropy(comm, layers(tokens), following)
            loss.backward()
            if max_norm is not None:
                norms.append(float(torch.nn.utils.clip_grad_norm_(layers.parameters(), max_norm)))
            optimizer.step()
            losses.append(loss.item())
        return losses, norms, layers.state_dict()

    return SimulatedWorld(1).run(run)[0]


def make_trainer(
    comm: Communicator, sizes: dict[str, int], schedule: Schedule, model: SmallTransformer = MODEL, **options: Any
) -> HybridTrainer:
    mesh = Mesh(comm, sizes)
    layers = model.layers(mesh["tp"], dtype=torch.float64)
    stages = stages_of(layers, stages_in(tuple(map(tuple, schedule))))
    loss_function = partial(vocabulary_parallel_cross_entropy, mesh["tp"])
    return HybridTrainer(mesh, stages, schedule, loss_function, torch.optim.AdamW, lr=0.01, **options)


def train(
    comm: Communicator,
    sizes: dict[str, int],
    schedule: Schedule,
    whole: State,
    max_norm: float | None = None,
    **options: Any,
) -> tuple[list[float | None], list[float | None], float, set[str]]:
    """Losses, norms, the largest difference from the whole model's parameters, and the names that were compared."""
    trainer = make_trainer(comm, sizes, schedule, **options)
    losses, norms = [], []
    for step in range(STEPS):
        losses.append(trainer.step(*batch(step), max_norm))
        norms.append(trainer.norm)
    wanted: State = {}
    for stage in trainer.stages.values():
        wanted |= own_parts(stage, whole)
    found = trainer.state_dict()
    off = max(float((found[name] - part).abs().max()) for name, part in wanted.items())
    return losses, norms, off, set(wanted)


def check_equal(by_rank: list[Any], alone: tuple[list[float], list[float], State]) -> None:
    losses, norms, whole = alone
    with_losses = [found for found, *_ in by_rank if found[0] is not None]
    means = [sum(each) / len(each) for each in zip(*with_losses, strict=True)]
    assert means == pytest.approx(losses, abs=1e-9)
    assert {name for *_, names in by_rank for name in names} == set(whole)
    for _, found, off, _ in by_rank:
        assert off <= 1e-9
        if norms:
            assert found == pytest.approx(norms, abs=1e-9)


def hybrid_world() -> SimulatedWorld:
    return SimulatedWorld(8, contexts="threads")


# ── the same as one process ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sizes", "make"),
    [
        pytest.param(CUBE, gpipe, marks=pytest.mark.slow),
        (CUBE, one_forward_one_backward),
        ({"tp": 2, "pp": 2, "dp": 2}, one_forward_one_backward),
        pytest.param({"pp": 2, "tp": 2, "dp": 2}, gpipe, marks=pytest.mark.slow),
        pytest.param({"dp": 4, "pp": 1, "tp": 2}, gpipe, marks=pytest.mark.slow),
        pytest.param({"tp": 4, "dp": 1, "pp": 2}, one_forward_one_backward, marks=pytest.mark.slow),
        pytest.param({"pp": 4, "tp": 1, "dp": 2}, one_forward_one_backward, marks=pytest.mark.slow),
        pytest.param({"dp": 1, "pp": 4, "tp": 2}, gpipe, marks=pytest.mark.slow),
        pytest.param({"dp": 8, "pp": 1, "tp": 1}, one_forward_one_backward, marks=pytest.mark.slow),
    ],
)
def test_ten_steps_equal_one_process(sizes: dict[str, int], make: Any) -> None:
    alone = train_alone(MODEL)
    schedule = make(sizes["pp"], 2 if sizes["dp"] < SAMPLES else 1)
    check_equal(hybrid_world().run(train, sizes, schedule, alone[2]), alone)


@pytest.mark.parametrize("zero_stage", [0, *(pytest.param(stage, marks=pytest.mark.slow) for stage in (1, 2)), 3])
@pytest.mark.parametrize("max_norm", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_zero_along_dp(zero_stage: int, max_norm: float | None) -> None:
    alone = train_alone(MODEL, max_norm)
    options = {"max_norm": max_norm, "zero_stage": zero_stage}
    check_equal(hybrid_world().run(train, CUBE, one_forward_one_backward(2, 2), alone[2], **options), alone)


@pytest.mark.parametrize(
    ("sizes", "zero_stage"),
    [
        (CUBE, 1),
        pytest.param({"tp": 1, "pp": 4, "dp": 2}, 0, marks=pytest.mark.slow),
        pytest.param(CUBE, 0, marks=pytest.mark.slow),
        pytest.param({"tp": 1, "pp": 4, "dp": 2}, 1, marks=pytest.mark.slow),
        *(pytest.param({"dp": 4, "pp": 1, "tp": 2}, stage, marks=pytest.mark.slow) for stage in (0, 1)),
    ],
)
def test_tied_weights_and_a_clipped_norm(sizes: dict[str, int], zero_stage: int) -> None:
    alone = train_alone(TIED, max_norm=0.2)
    assert min(alone[1]) > 0.2  # every step is clipped
    options = {"model": TIED, "max_norm": 0.2, "zero_stage": zero_stage}
    check_equal(hybrid_world().run(train, sizes, gpipe(sizes["pp"], 2), alone[2], **options), alone)


@pytest.mark.parametrize(("zero_stage", "tied"), [pytest.param(1, True, marks=pytest.mark.slow), (3, False)])
def test_positions(zero_stage: int, tied: bool) -> None:
    model = replace(PLACED, tied=tied)
    alone = train_alone(model, max_norm=0.2)
    assert "embedding.positions" in alone[2]
    options = {"model": model, "max_norm": 0.2, "zero_stage": zero_stage}
    check_equal(hybrid_world().run(train, CUBE, gpipe(2, 2), alone[2], **options), alone)


def test_more_tokens_than_positions() -> None:
    def run(comm: Communicator) -> None:
        PLACED.layers(comm)(torch.zeros(1, 7, dtype=torch.long))

    with pytest.raises(RankError, match="expected at most 6 tokens, one for each position, got 7"):
        SimulatedWorld(1).run(run)


def test_stage_2_with_weights_that_are_tied_inside_a_stage() -> None:
    alone = train_alone(TIED, max_norm=0.2)
    options = {"model": TIED, "max_norm": 0.2, "zero_stage": 2}
    check_equal(hybrid_world().run(train, {"dp": 4, "pp": 1, "tp": 2}, gpipe(1, 2), alone[2], **options), alone)


@pytest.mark.parametrize(
    "schedule",
    [pytest.param(schedule, marks=pytest.mark.slow) for schedule in (interleaved_1f1b(2, 2, 2), zero_bubble(2, 2))],
)
def test_other_schedules(schedule: Schedule) -> None:
    alone = train_alone(TIED, max_norm=0.5)
    check_equal(hybrid_world().run(train, CUBE, schedule, alone[2], 0.5, model=TIED, zero_stage=1), alone)


@pytest.mark.slow
def test_activations_computed_again() -> None:
    alone = train_alone(MODEL)
    check_equal(hybrid_world().run(train, CUBE, gpipe(2, 4), alone[2], recompute=True), alone)


@pytest.mark.parametrize("zero_stage", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_real_ranks(zero_stage: int) -> None:
    alone = train_alone(MODEL, max_norm=0.5)
    with World(8) as world:
        schedule = one_forward_one_backward(2, 2)
        check_equal(world.run(train, CUBE, schedule, alone[2], 0.5, zero_stage=zero_stage), alone)


# ── copies along tp ──────────────────────────────────────────────────────────────────────────────────────────────────


def gradients_of_copies(comm: Communicator) -> tuple[tuple[int, int], dict[str, torch.Tensor], set[str]]:
    """Before any average: which replica and stage, the gradients of what every rank of a tp group has, other names."""
    trainer = make_trainer(comm, CUBE, gpipe(2, 2))
    dp, pp = trainer.mesh.coordinates["dp"], trainer.mesh.coordinates["pp"]
    tokens, following = (part.tensor_split(2)[dp] for part in batch(0))
    trainer.pipeline.step(tokens, following)
    (stage,) = trainer.stages.values()
    cut = cut_parameters(stage)
    copies = {name: each.grad for name, each in stage.named_parameters() if each not in cut and each.grad is not None}
    return (dp, pp), copies, {name for name, each in stage.named_parameters() if each in cut}


def test_copies_along_tp_have_equal_gradients() -> None:
    found: dict[tuple[int, int], list[dict[str, torch.Tensor]]] = {}
    for place, copies, cut in hybrid_world().run(gradients_of_copies):
        found.setdefault(place, []).append(copies)
        assert {name for name in copies if "norm" not in name} == {
            f"layer{number}.{name}.bias" for number in _layers(copies) for name in ("attention.output", "mlp.down")
        }
        assert not any("norm" in name for name in cut)
    for first, second in found.values():
        assert first and first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(each, found[1, 0][0][name]) for name, each in found[0, 0][0].items())  # other samples


def _layers(names: Any) -> set[int]:
    return {int(name[len("layer")]) for name in names if name.startswith("layer")}


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def sent(sizes: dict[str, int], steps: int, num_microbatches: int, **options: Any) -> dict[str, AxisTraffic]:
    """What all steps after the first send, by axis."""

    def run(comm: Communicator, count: int) -> None:
        trainer = make_trainer(comm, sizes, gpipe(sizes["pp"], num_microbatches), **options)
        for step in range(count):
            trainer.step(*batch(step))

    traces = []
    for count in (1, steps + 1):
        world = hybrid_world()
        world.run(run, count)
        traces.append(traffic_by_axis(world.trace, sizes))
    assert traces[0].keys() == traces[1].keys() == sizes.keys()
    return {name: traces[1][name] - traces[0][name] for name in sizes}


@pytest.mark.parametrize(
    ("sizes", "model", "m"),
    [
        (CUBE, MODEL, 2),
        (CUBE, TIED, 3),  # microbatches of two lengths
        pytest.param({"tp": 2, "pp": 4, "dp": 1}, TIED, 4, marks=pytest.mark.slow),
        ({"dp": 4, "pp": 2, "tp": 1}, MODEL, 1),
        pytest.param({"dp": 2, "pp": 1, "tp": 4}, TIED, 2, marks=pytest.mark.slow),
        pytest.param({"dp": 8, "pp": 1, "tp": 1}, MODEL, 1, marks=pytest.mark.slow),
    ],
)
def test_traffic_is_that_of_the_formulas(sizes: dict[str, int], model: SmallTransformer, m: int) -> None:
    options = {"samples": SAMPLES, "sequence": SEQUENCE, "num_microbatches": m, "itemsize": 8}
    assert step_traffic(model, sizes, **options) == sent(sizes, 1, m, model=model)


@pytest.mark.slow
def test_what_zero_sends_along_dp() -> None:
    """Stage 1 as stage 0, but for the padding. Stage 2 sends gradients m times; stage 3 parameters 2m times, too."""
    m = 2
    by_stage = [sent(CUBE, 1, m, zero_stage=stage) for stage in range(4)]
    plain = by_stage[0]["dp"].nbytes
    assert all({**each, "dp": None} == {**by_stage[0], "dp": None} for each in by_stage)
    assert by_stage[1]["dp"].nbytes == pytest.approx(plain, rel=0.01)
    assert by_stage[2]["dp"].nbytes == pytest.approx((m + 1) / 2 * plain, rel=0.01)
    assert by_stage[3]["dp"].nbytes == pytest.approx((m + 2 * m) / 2 * plain, rel=0.01)


def test_a_message_along_two_axes_has_an_entry_of_its_own() -> None:
    def run(comm: Communicator) -> None:
        all_reduce(Mesh(comm, CUBE)["dp", "tp"], torch.zeros(4))

    world = SimulatedWorld(8)
    world.run(run)
    found = traffic_by_axis(world.trace, CUBE)
    assert found["pp"] == AxisTraffic() and found["dp"] == AxisTraffic()
    assert found["tp"] == found["dp and tp"] == AxisTraffic(2 * 2 * 6, 2 * 2 * 6 * 4)


def test_a_trace_of_another_world() -> None:
    world = SimulatedWorld(4)
    world.run(lambda comm: None)
    with pytest.raises(ValueError, match="a mesh of 4 ranks, got dp 2 × pp 2 × tp 2 = 8"):
        traffic_by_axis(world.trace, CUBE)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sizes", "schedule", "options", "words"),
    [
        ({"dp": 4, "tp": 2}, gpipe(1, 2), {}, "a mesh with the axes dp, pp and tp, some of size 1, got dp, tp"),
        (CUBE, gpipe(4, 2), {}, "expected a schedule for 2 ranks, got one for 4"),
        (CUBE, gpipe(2, 2), {"zero_stage": 4}, "an integer from 0 to 3 as zero_stage, got zero_stage=4"),
        (CUBE, gpipe(2, 2), {"model": TIED, "zero_stage": 2}, "two stages of the model share a weight, got 2"),
        (CUBE, gpipe(2, 2), {"model": TIED, "zero_stage": 3}, "two stages of the model share a weight, got 3"),
        (
            {"dp": 4, "pp": 1, "tp": 2},
            gpipe(1, 2),
            {"model": TIED, "zero_stage": 3},
            "embedding.weight and head.tokens.weight of stage 0 are one weight, got 3",
        ),
        (CUBE, zero_bubble(2, 2), {"zero_stage": 2}, "backward passes in two halves, got 2"),
    ],
)
def test_trainers_that_can_not_be(sizes: Any, schedule: Schedule, options: dict[str, Any], words: str) -> None:
    with pytest.raises(RankError) as caught:
        hybrid_world().run(make_trainer, sizes, schedule, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (partial(ParallelTransformerLayer, features=8, hidden=16, heads=4, sequence=True), "with sequence=True"),
        (partial(GroupedQueryAttention, features=8, heads=4, kv_heads=1), "got 0, a GroupedQueryAttention"),
    ],
)
def test_layers_whose_copies_find_different_gradients(make: Any, words: str) -> None:
    def run(comm: Communicator) -> None:
        mesh = Mesh(comm, {"dp": 1, "pp": 1, "tp": 4})
        stage = torch.nn.Sequential(make(mesh["tp"]))
        HybridTrainer(mesh, [stage], gpipe(1, 1), torch.nn.functional.mse_loss, torch.optim.SGD, lr=0.1)

    with pytest.raises(RankError) as caught:
        SimulatedWorld(4, contexts="threads").run(run)
    assert words in str(caught.value)


def test_a_batch_that_the_replicas_do_not_divide() -> None:
    def step(comm: Communicator) -> None:
        make_trainer(comm, CUBE, gpipe(2, 2)).step(*batch(0, samples=7))

    with pytest.raises(RankError, match="expected a batch that 2 replicas divide, got 7 samples"):
        hybrid_world().run(step)


def test_a_model_that_tp_does_not_divide() -> None:
    with pytest.raises(RankError, match="a number of heads that 8 ranks divide, got 4"):
        hybrid_world().run(make_trainer, {"dp": 1, "pp": 1, "tp": 8}, gpipe(1, 1))


def test_a_stage_with_nothing_to_train() -> None:
    def run(comm: Communicator) -> None:
        stages = [torch.nn.Linear(2, 2).requires_grad_(comm.rank > 0) for _ in range(2)]
        mesh = Mesh(comm, {"dp": 1, "pp": 2, "tp": 1})
        HybridTrainer(mesh, stages, gpipe(2, 1), torch.nn.functional.mse_loss, torch.optim.SGD, lr=0.1)

    with pytest.raises(RankError, match="expected parameters to train on every rank of pp, got none on rank 0"):
        SimulatedWorld(2).run(run)


@pytest.mark.parametrize("model", [MODEL, TIED, PLACED])
def test_numbers_of_a_model(model: SmallTransformer) -> None:

    def numbers(comm: Communicator) -> tuple[int, int]:
        layers = model.layers(comm)
        cut = cut_parameters(layers)
        return sum(each.numel() for each in cut), sum(each.numel() for each in layers.parameters() if each not in cut)

    for ranks in (1, 4):
        wanted = (model.numbers_cut // ranks, model.numbers_copied)
        assert SimulatedWorld(ranks).run(numbers) == [wanted] * ranks

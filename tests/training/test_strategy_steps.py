"""A step by formulas and the same step on simulated ranks: what it needs, what it sends, how far the two are apart."""

from dataclasses import replace

import pytest
import torch

from distlib import Cluster, Communicator, Link, SimulatedWorld
from distlib.network import duration
from distlib.training.pipeline.activations import ActivationMeter
from distlib.training.schedules import Costs, one_forward_one_backward, time_schedule
from distlib.training.strategy import (
    Device,
    ParallelLayout,
    TransformerShape,
    all_layouts,
    model_flops_utilization,
    predict_step,
    simulate_step,
)
from distlib.training.strategy.parallel_layout import layers_by_stage
from distlib.training.strategy.published_runs import LLAMA, MEGATRON
from distlib.training.strategy.stage_work import SEND, layer_unit
from distlib.training.strategy.step_memory import step_memory
from distlib.training.tensor_parallel import ParallelTransformerLayer
from distlib.training.zero import memory_by_stage

SHAPE = TransformerShape(4, 256, 1024, 4, 1000, 128)
DEVICE = Device(10e12, 80e9, overhead=10e-6)
FAST = Link(2e-6, 100e9)
NODES = Cluster(2, 2, FAST, Link(10e-6, 5e9))
BATCH = 8

# ── where which rank is ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_axis_is_the_fastest() -> None:
    layout = ParallelLayout(2, 2, 2)
    assert [layout.coordinate("tp", rank) for rank in range(8)] == [0, 1, 0, 1, 0, 1, 0, 1]
    assert [layout.coordinate("dp", rank) for rank in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [layout.group_of("pp", rank) for rank in range(8)] == [0, 1, 0, 1, 4, 5, 4, 5]
    assert [replace(layout, axes=("tp", "dp", "pp")).coordinate("tp", rank) for rank in (0, 3, 4, 7)] == [0, 0, 1, 1]


def test_layers_are_spread_as_in_llama_3() -> None:
    """One layer fewer on the first and on the last stage (section 3.3.2 of its paper)."""
    assert layers_by_stage(LLAMA[0].shape, 16) == (7, *[8] * 14, 7)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_one_stage_keeps_what_zero_keeps(stage: int) -> None:
    found = step_memory(SHAPE, BATCH, ParallelLayout(4, stage=stage))
    wanted = memory_by_stage(SHAPE.parameters, 4)[stage]
    assert {kind: found[kind] for kind in wanted} == wanted


def test_a_layer_keeps_34_bytes_per_token_and_feature_and_its_scores() -> None:
    """Korthikanti et al., equation 2."""
    tokens = BATCH * SHAPE.sequence
    layer = tokens * (34 * SHAPE.features + 5 * SHAPE.heads * SHAPE.sequence)
    kept = step_memory(SHAPE, BATCH, ParallelLayout())["activations"]
    assert kept == SHAPE.layers * layer + tokens * 4 * SHAPE.vocabulary
    again = step_memory(SHAPE, BATCH, ParallelLayout(recompute="full"))["activations"]
    assert again == SHAPE.layers * tokens * 2 * SHAPE.features + max(layer, tokens * 4 * SHAPE.vocabulary)


def numbers_kept(comm: Communicator, positions: int, features: int) -> float:
    """What a layer of ours keeps for its backward pass on this rank: numbers per position and feature."""
    several = comm.world_size > 1
    layer = ParallelTransformerLayer(comm, features, 4 * features, 8, sequence=several, causal=True)
    meter = ActivationMeter(layer.parameters())
    inputs = torch.randn(1, positions // comm.world_size, features, requires_grad=True)
    with meter.watch((0, 0)):
        kept = layer(inputs)
    assert kept.requires_grad
    return meter.kept[0, 0] / inputs.itemsize / positions / features


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_layer_of_ours_keeps_what_the_formula_says(ranks: int) -> None:
    """But for two masks of dropout, a byte each, which it does not have; its attention keeps no scores."""
    shape = TransformerShape(1, 128, 512, 8, 8, 64)
    layout = ParallelLayout(tp=ranks, recompute="attention")
    formula = step_memory(replace(shape, layers=2), 1, layout)["activations"]
    formula -= step_memory(shape, 1, layout)["activations"]
    wanted = formula / shape.sequence / shape.features - 2 / ranks
    found = SimulatedWorld(ranks, contexts="threads").run(numbers_kept, shape.sequence, shape.features)
    assert [2 * each for each in found] == [pytest.approx(wanted, rel=0.01)] * ranks


def test_a_pipeline_keeps_as_many_microbatches_as_it_has_stages() -> None:
    """The first stage of 4 keeps 4 of 8 microbatches of a quarter of the layers: half of what one rank keeps of 4."""
    alone = step_memory(SHAPE, BATCH, ParallelLayout(microbatches=8, recompute="attention"))["activations"]
    piped = step_memory(SHAPE, BATCH, ParallelLayout(pp=4, microbatches=8, recompute="attention"))["activations"]
    scores = 5 * SHAPE.heads * SHAPE.sequence * SHAPE.sequence  # of one layer, while it is computed again
    assert piped == alone - max(0, SHAPE.sequence * 4 * SHAPE.vocabulary - scores)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_rank_computes_all_operations() -> None:
    shape = replace(SHAPE, biases=False, tied=False)
    products = shape.layers * shape.layer_matrices + shape.vocabulary * shape.features
    operations = BATCH * shape.sequence * (6 * products + 3 * shape.layers * shape.score_operations)
    found = predict_step(shape, replace(DEVICE, overhead=0), Cluster.flat(1), BATCH, ParallelLayout()).seconds
    assert found == pytest.approx(operations / DEVICE.peak, rel=1e-12)


def test_a_simulated_step_on_one_rank_uses_what_its_products_reach() -> None:
    """The roofline of one rank: norms alone, which count as parameters and compute nothing, are beyond it."""
    shape, device = replace(SHAPE, biases=False), replace(DEVICE, overhead=0, reached=0.5)
    played = simulate_step(shape, device, Cluster.flat(1), BATCH, ParallelLayout())
    norms = (2 * shape.layers + 1) * shape.features
    products = shape.model_operations - 6 * norms
    found = model_flops_utilization(shape, device, 1, BATCH, played.seconds)
    assert found == pytest.approx(0.5 * shape.model_operations / products, rel=1e-12)
    again = simulate_step(shape, device, Cluster.flat(1), BATCH, ParallelLayout(recompute="full"))
    assert model_flops_utilization(shape, device, 1, BATCH, again.seconds) < 0.8 * found


def test_equal_stages_have_the_bubble_of_lesson_09() -> None:
    shape = replace(SHAPE, vocabulary=1)  # no output layer to speak of
    cluster = Cluster.flat(4, Link(0, 1e18))
    found = predict_step(shape, DEVICE, cluster, BATCH, ParallelLayout(pp=4, microbatches=8))
    assert found.parts["bubble"] / found.seconds == pytest.approx(3 / 11, rel=1e-3)


def test_latency_between_stages_adds_what_the_clock_of_lesson_09_says() -> None:
    shape = replace(SHAPE, vocabulary=1, tied=False)
    found = predict_step(shape, DEVICE, Cluster.flat(4, Link(1e-3, 1e18)), BATCH, ParallelLayout(pp=4, microbatches=8))
    passes = found.parts["compute"] / 8 - 2 * DEVICE.overhead
    costs = Costs(passes / 3 + DEVICE.overhead, 2 * passes / 3 + DEVICE.overhead, transfer=1e-3)
    wanted = time_schedule(one_forward_one_backward(4, 8), costs).seconds
    assert found.seconds == pytest.approx(wanted, rel=1e-3)


def test_a_layer_on_several_ranks_takes_four_all_reduces() -> None:
    cluster = Cluster.flat(4, FAST)
    found = predict_step(SHAPE, DEVICE, cluster, BATCH, ParallelLayout(tp=4)).parts["tp"]
    numbers = BATCH * SHAPE.sequence * SHAPE.features
    tokens = BATCH * SHAPE.sequence
    loss = sum(duration.ring_all_reduce(cluster, each * tokens, 4) for each in (1, 2))
    all_reduces = 4 * SHAPE.layers + 2  # embedding and output layer: half of one each, forward and backward
    assert found == pytest.approx(all_reduces * duration.ring_all_reduce(cluster, numbers, 2) + loss, rel=1e-9)


def test_copies_hide_their_gradients_behind_computing() -> None:
    found = predict_step(SHAPE, DEVICE, Cluster.flat(4, FAST), BATCH, ParallelLayout(4))
    ring = duration.ring_all_reduce(Cluster.flat(4, FAST), SHAPE.parameters, 2)
    assert 0 < found.parts["dp"] < ring / 2


SLOW_LINKS = Cluster(4, 1, Link(20e-6, 1e9), Link(20e-6, 1e9))
UNEVEN = Cluster(2, 3, FAST, Link(10e-6, 5e9))
STRAGGLER = replace(NODES, stragglers={3: 1.5})


@pytest.mark.parametrize(
    ("cluster", "batch", "apart"),
    [
        pytest.param(NODES, 4, 0.05, marks=pytest.mark.slow),
        pytest.param(UNEVEN, 6, 0.1, marks=pytest.mark.slow),
        (STRAGGLER, 4, 0.05),
        pytest.param(SLOW_LINKS, 4, 0.15, marks=pytest.mark.slow),
    ],
    ids=["two nodes", "nodes of three", "straggler", "slow links"],
)
def test_formulas_and_simulated_steps_are_close(cluster: Cluster, batch: int, apart: float) -> None:
    """On slow links messages take as long as passes, and two that come to a stage at once are not accounted for."""
    gaps = []
    for layout in all_layouts(SHAPE, cluster, batch):
        played = simulate_step(SHAPE, DEVICE, cluster, batch, layout)
        gaps.append(abs(predict_step(SHAPE, DEVICE, cluster, batch, layout).seconds / played.seconds - 1))
    assert max(gaps) < apart
    assert sorted(gaps)[len(gaps) // 2] < 0.01


def test_without_a_pipeline_formulas_are_exact_where_nothing_is_sent_in_layers() -> None:
    for stage in range(4):
        for recompute in ("none", "attention", "full"):
            layout = ParallelLayout(4, stage=stage, microbatches=2, recompute=recompute)
            played = simulate_step(SHAPE, DEVICE, NODES, BATCH, layout).seconds
            assert predict_step(SHAPE, DEVICE, NODES, BATCH, layout).seconds == pytest.approx(played, rel=1e-9)


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def go_through_a_layer(comm: Communicator, positions: int, features: int) -> None:
    layer = ParallelTransformerLayer(comm, features, 4 * features, 8, sequence=True)
    layer(torch.randn(1, positions // comm.world_size, features, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_layer_of_ours_sends_what_is_played(ranks: int) -> None:
    """Ours computes in float32: twice the bytes."""
    world = SimulatedWorld(ranks, contexts="threads")
    world.run(go_through_a_layer, 64, 128)
    unit = layer_unit(TransformerShape(1, 128, 512, 8, 8, 64), DEVICE, 1, ParallelLayout(tp=ranks))
    sent = sum(step.amount for step in (*unit.forward, *unit.backward) if step.kind == SEND)
    assert world.trace.bytes_sent == [2 * sent * (ranks - 1) / ranks] * ranks
    assert world.trace.messages_sent == [8 * (ranks - 1)] * ranks


def test_bytes_of_each_axis_are_those_of_the_lessons() -> None:
    shape = replace(SHAPE, tied=False)
    layout = ParallelLayout(2, 2, 2, microbatches=2)
    played = simulate_step(shape, DEVICE, Cluster(2, 4, FAST, FAST), BATCH, layout)
    activations = BATCH // 2 * shape.sequence * shape.features * 2  # of a copy's batch
    assert sum(played.sent["pp"]) == 2 * 2 * activations  # of both copies, forward and backward
    tokens = BATCH // 2 * shape.sequence
    layers, end = 8 * activations, activations + tokens * 24  # two rounds of 12 bytes per token: the loss
    on_last = shape.layers // 2 * layers // 2 + (end + activations) // 2
    assert played.sent["tp"][layout.world_size - 1] == on_last
    parameters = shape.layers // 2 * shape.layer_parameters(2) + shape.head_parameters(2)
    assert played.sent["dp"][-1] == 2 * parameters // 2 * 2
    assert played.crossing == {"dp": sum(played.sent["dp"]), "pp": 0, "tp": 0}


def test_tp_across_nodes_crosses_and_is_slower() -> None:
    inside = ParallelLayout(2, 1, 2)
    across = replace(inside, axes=("tp", "pp", "dp"))
    near, far = (simulate_step(SHAPE, DEVICE, NODES, BATCH, layout) for layout in (inside, across))
    assert near.crossing["tp"] == 0 < far.crossing["tp"]
    assert far.crossing["dp"] == 0 < near.crossing["dp"]
    assert near.seconds < far.seconds
    assert sum(near.computing) == pytest.approx(sum(far.computing))


# ── what cannot be ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (ParallelLayout(2, 2, 2), "is 8 ranks, and the cluster has 4"),
        (ParallelLayout(pp=4, microbatches=3), "a batch of 8 .* 1 × 3 microbatches is 3"),
        (ParallelLayout(pp=4, layers=(1, 1, 2)), "expected 4 layers over 4 stages, got 4 over 3"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout: ParallelLayout, words: str) -> None:
    for step in (predict_step, simulate_step):
        with pytest.raises(ValueError, match=words):
            step(SHAPE, DEVICE, NODES, BATCH, layout)  # type: ignore[operator]


def test_more_stages_than_layers_and_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="pipeline of 4 stages needs as many layers, and there are 2"):
        predict_step(replace(SHAPE, layers=2), DEVICE, NODES, BATCH, ParallelLayout(pp=4))
    with pytest.raises(ValueError, match="tp 4 does not divide the 2 heads"):
        predict_step(replace(SHAPE, heads=2), DEVICE, NODES, BATCH, ParallelLayout(tp=4))


@pytest.mark.parametrize(
    "options",
    [{"dp": 0}, {"tp": -2}, {"stage": 4}, {"recompute": "half"}, {"axes": ("dp", "dp", "tp")}, {"layers": (0, 4)}],
)
def test_a_layout_that_cannot_be_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ParallelLayout(**options)  # type: ignore[arg-type]


def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match="predict_step expected a Device as device"):
        predict_step(SHAPE, 312e12, NODES, BATCH, ParallelLayout(4))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a TransformerShape as shape"):
        simulate_step("GPT", DEVICE, NODES, BATCH, ParallelLayout(4))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a Cluster as cluster"):
        predict_step(SHAPE, DEVICE, 4, BATCH, ParallelLayout(4))  # type: ignore[arg-type]


# ── published layouts ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("run", MEGATRON, ids=lambda run: run.name)
def test_megatrons_layouts_fit_and_the_large_ones_reach_what_was_measured(run) -> None:  # type: ignore[no-untyped-def]
    """To a quarter: hardware utilization, which counts the recomputation, a third more operations.

    Models below 7 billion parameters have smaller matrices, which reach less of the peak than is assumed here.
    """
    found = predict_step(run.shape, run.device, run.cluster, run.batch, run.layout)
    assert found.nbytes < run.device.memory
    operations = 4 / 3 * run.shape.model_operations * run.batch * run.shape.sequence
    reached = operations / found.seconds / run.cluster.world_size / run.device.peak
    assert run.billions < 7 or abs(reached / run.hardware_utilization - 1) < 0.25

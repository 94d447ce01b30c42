"""The chosen strategy against simulated runs of all others, what it says, and what it refuses."""

from dataclasses import replace

import pytest

from distlib import Cluster, Link
from distlib.training.strategy import (
    Device,
    ParallelLayout,
    StepPrediction,
    TransformerShape,
    all_layouts,
    choose_strategy,
    predict_step,
    simulate_step,
)
from distlib.training.strategy.published_runs import LLAMA, MEGATRON

MODELS = {
    "narrow": TransformerShape(4, 256, 1024, 4, 1000, 128),
    "wide": TransformerShape(2, 1024, 4096, 8, 2000, 128),
    "deep": TransformerShape(6, 256, 1024, 2, 500, 256),
    "many words": TransformerShape(3, 480, 1536, 6, 8000, 64, key_heads=2, gated=True, tied=False, biases=False),
}
FAST, MIDDLE, SLOW = Link(2e-6, 100e9), Link(10e-6, 5e9), Link(20e-6, 1e9)
CLUSTERS = {
    "one GPU": Cluster.flat(1),
    "one box": Cluster.flat(4, FAST),
    "slow": Cluster(4, 1, SLOW, SLOW),
    "fast": Cluster(4, 2, FAST, Link(5e-6, 25e9)),
    "nodes of three": Cluster(2, 3, FAST, MIDDLE, shared_uplink=True),
    "unequal machines": Cluster(2, 2, FAST, MIDDLE, stragglers={3: 1.5}),
    "little memory": Cluster(2, 2, FAST, MIDDLE),
}
DEVICE = Device(10e12, 80e9, overhead=10e-6)


def devices(shape: TransformerShape, cluster: Cluster, name: str, batch: int) -> Device:
    """For "little memory" one in which a tenth of the layouts fit."""
    if name != "little memory":
        return DEVICE
    needed = sorted(
        predict_step(shape, DEVICE, cluster, batch, each).nbytes for each in all_layouts(shape, cluster, batch)
    )
    return replace(DEVICE, memory=needed[len(needed) // 10])


def may_be_faster(prediction: StepPrediction, seconds: float) -> bool:
    """Whether the slowest stage alone, which does one thing after the other, is busy for less time."""
    return sum(prediction.parts[part] for part in ("compute", "recompute", "tp")) < seconds * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("model", MODELS)
def test_no_simulated_layout_is_much_faster_than_the_chosen_one(model: str, name: str) -> None:
    """All that fit are played but those whose slowest stage has more to do than the chosen layout takes as a whole."""
    shape, cluster = MODELS[model], CLUSTERS[name]
    batch = 8 if cluster.world_size == 8 else 6
    batch = 12 if cluster.world_size == 4 else batch
    device = devices(shape, cluster, name, batch)
    chosen = choose_strategy(shape, device, cluster, batch).layout
    taken = simulate_step(shape, device, cluster, batch, chosen).seconds
    predictions = [predict_step(shape, device, cluster, batch, each) for each in all_layouts(shape, cluster, batch)]
    fitting = [each for each in predictions if each.nbytes <= device.memory]
    assert chosen in [each.layout for each in fitting]
    for each in fitting:
        if may_be_faster(each, taken):
            assert taken <= 1.05 * simulate_step(shape, device, cluster, batch, each.layout).seconds, each.layout


# ── how it decides ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_equal_layouts_are_decided_by_simplicity() -> None:
    """Without latency and messages that cost, copies and stages 0 to 3 take as long as each other."""
    device, cluster = replace(DEVICE, overhead=0), Cluster.flat(2, Link(0, 1e30))
    choice = choose_strategy(MODELS["narrow"], device, cluster, 4)
    assert choice.layout == ParallelLayout(2)


def test_it_is_the_fastest_of_all_that_fit_by_formula() -> None:
    """What is not timed would not have been faster."""
    shape, cluster = MODELS["deep"], Cluster(2, 2, FAST, MIDDLE)
    for share in (4, 10, 40):
        every = [predict_step(shape, DEVICE, cluster, 12, each) for each in all_layouts(shape, cluster, 12)]
        device = replace(DEVICE, memory=sorted(each.nbytes for each in every)[len(every) // share])
        best = min(each.seconds for each in every if each.nbytes <= device.memory)
        assert choose_strategy(shape, device, cluster, 12).best.seconds == pytest.approx(best, rel=1e-9)


def test_tp_stays_in_the_node_and_the_sentence_says_what_it_would_cost() -> None:
    run = MEGATRON[5]
    choice = choose_strategy(run.shape, run.device, run.cluster, run.batch)
    layout = choice.layout
    assert (layout.dp, layout.pp, layout.tp) == (run.layout.dp, run.layout.pp, run.layout.tp) == (32, 4, 8)
    text = str(choice)
    across = predict_step(run.shape, run.device, run.cluster, run.batch, replace(layout, axes=("tp", "dp", "pp")))
    assert f"Across nodes they would take {across.parts['tp']:.3g} s." in text
    assert f"the bubble costs {choice.best.parts['bubble'] / choice.best.seconds:.1%} of the step" in text
    assert f"model FLOPs utilization {choice.utilization:.1%}" in text
    second = choice.ranked[1]
    assert f"{second.seconds / choice.best.seconds - 1:.1%} more" in text


def test_what_does_not_fit_is_named_with_the_bytes_that_are_missing() -> None:
    run = MEGATRON[-1]
    choice = choose_strategy(run.shape, run.device, run.cluster, run.batch)
    less = replace(choice.layout, stage=choice.layout.stage - 1)
    lacking = predict_step(run.shape, run.device, run.cluster, run.batch, less).nbytes - run.device.memory
    assert lacking > 0
    assert f"At ZeRO's stage {less.stage} it would lack {lacking / 1e9:.1f} GB." in str(choice)


def test_llama_3_is_cut_as_published_inside_a_node() -> None:
    """It recomputes layers where the published run does not: our layers keep whole inputs, those gather them again."""
    run = LLAMA[0]
    choice = choose_strategy(run.shape, run.device, run.cluster, run.batch)
    assert choice.layout.tp == run.layout.tp == 8
    published = predict_step(run.shape, run.device, run.cluster, run.batch, run.layout)
    assert published.nbytes > run.device.memory
    assert published.seconds < choice.best.seconds
    assert choice.layout.recompute == "full"
    assert "GB too many here" in run.compared()
    assert "The chosen one takes" in run.compared()


def test_a_published_layout_is_compared_with_the_chosen_one() -> None:
    run = MEGATRON[5]
    text = run.compared()
    published = predict_step(run.shape, run.device, run.cluster, run.batch, run.layout)
    choice = choose_strategy(run.shape, run.device, run.cluster, run.batch)
    more = published.parts["recompute"] - choice.best.parts["recompute"]
    longer = published.seconds - choice.best.seconds
    assert f"The published one takes {longer:.3g} s more; of recompute it has {more:.3g} s more." in text
    assert str(run.layout) in text
    assert str(choice.layout) in text


# ── what cannot be ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_that_fits_nowhere_is_refused_with_the_nearest_layout() -> None:
    shape, cluster = MODELS["wide"], Cluster.flat(2, FAST)
    every = [predict_step(shape, DEVICE, cluster, 4, each) for each in all_layouts(shape, cluster, 4)]
    least = min(each.nbytes for each in every)
    with pytest.raises(ValueError, match=f"no layout fits into 1,000,000 bytes .* {least - 1e6:,.0f}: it needs"):
        choose_strategy(shape, replace(DEVICE, memory=1e6), cluster, 4)


def test_nothing_that_divides_is_refused() -> None:
    shape = replace(MODELS["narrow"], heads=1, layers=1)
    with pytest.raises(ValueError, match="no layout of 4 ranks divides 1 heads by tp, a batch of 3 by dp"):
        choose_strategy(shape, DEVICE, Cluster.flat(4, FAST), 3)


@pytest.mark.parametrize("batch", [0, -1, 2.5, None])
def test_a_batch_that_is_none_is_refused(batch: object) -> None:
    with pytest.raises(ValueError, match="integer of at least 1 as batch"):
        choose_strategy(MODELS["narrow"], DEVICE, Cluster.flat(1), batch)  # type: ignore[arg-type]


def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match="choose_strategy expected a TransformerShape as shape"):
        choose_strategy({"layers": 4}, DEVICE, Cluster.flat(1), 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="choose_strategy expected a Device as device"):
        choose_strategy(MODELS["narrow"], Cluster.flat(1), DEVICE, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="choose_strategy expected a Cluster as cluster"):
        choose_strategy(MODELS["narrow"], DEVICE, 8, 4)  # type: ignore[arg-type]

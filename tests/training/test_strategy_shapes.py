"""The shape of a transformer: its parameters are those of torch's modules and those that people have published."""

from dataclasses import replace

import pytest
from torch import nn

from distlib.network import Cluster, Link
from distlib.training.strategy import Device, ParallelLayout, TransformerShape, model_flops_utilization
from distlib.training.strategy.published_runs import LLAMA, MEGATRON, PublishedRun
from distlib.training.tensor_parallel import ParallelTransformerLayer
from distlib.worlds.simulated.simulator import SimulatedWorld

PALM = PublishedRun(
    "PaLM 540B",
    "Chowdhery et al., JMLR 2023, sections 2 and 4",
    540.35,
    TransformerShape(
        118, 18_432, 4 * 18_432, 48, 256_000, 2048, key_heads=1, head_features=256, gated=True, biases=False
    ),
    Device(peak=275e12, memory=32 * 2**30),  # TPU v4
    Cluster(2, 3072, intra=Link(1e-6, 100e9), inter=Link(20e-6, 6e9)),
    2048,
    ParallelLayout(512, 1, 12, 3, 1, "full"),
    utilization=0.462,
)
RUNS = (*MEGATRON, *LLAMA, PALM)
EVERY_RUN = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
SMALL = TransformerShape(layers=3, features=16, hidden=64, heads=4, vocabulary=50, sequence=8)


def numbers(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


def test_a_layer_has_the_parameters_of_torchs_layer() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 64)
    assert SMALL.layer_parameters() == numbers(layer)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_has_the_parameters_of_our_parallel_layer(ranks: int) -> None:
    found = SimulatedWorld(ranks).run(lambda comm: numbers(ParallelTransformerLayer(comm, 16, 64, 4)))
    assert set(found) == {SMALL.layer_parameters(ranks)}


def test_the_ends_have_an_embedding_of_tokens_and_one_of_positions() -> None:
    tied = numbers(nn.Embedding(50, 16)) + numbers(nn.Embedding(8, 16)) + numbers(nn.LayerNorm(16))
    assert SMALL.parameters == 3 * SMALL.layer_parameters() + tied
    assert SMALL.embedding_parameters(4) == (13 + 8) * 16  # 50 tokens are padded to 52


def test_key_heads_that_are_fewer_than_the_ranks_are_on_several() -> None:
    shape = TransformerShape(2, 16, 64, 4, 50, 8, key_heads=2, gated=True, biases=False)
    assert shape.layer_matrices == 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 64
    assert shape.matrices_of_rank(4) == (2 * 16 * 16 + 3 * 16 * 64) // 4 + 2 * 16 * 4


@EVERY_RUN
def test_a_published_model_has_as_many_parameters_as_published(run: PublishedRun) -> None:
    billions = run.shape.parameters / 1e9
    assert abs(billions / run.billions - 1) < 0.02 or f"{billions:.1f}" == f"{run.billions:.1f}"


def test_the_utilization_of_palm_is_what_its_paper_says() -> None:
    """238.3 thousand tokens per second: 46.2 % (PaLM, section 4.1)."""
    seconds = PALM.batch * PALM.shape.sequence / 238.3e3
    found = model_flops_utilization(PALM.shape, PALM.device, PALM.cluster.world_size, PALM.batch, seconds)
    assert round(found, 3) == PALM.utilization


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": 0}, "integer of at least 1 as layers, got layers=0"),
        ({"features": -16}, "at least 1 as features"),
        ({"heads": 3}, "heads that divide 16 features, got 3 heads"),
        ({"key_heads": 3}, "key heads that divide 4 heads, got 3 key heads"),
        ({"sequence": 2.5}, "integer of at least 1 as sequence"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"peak": 0}, {"memory": -1}, {"reached": 1.5}, {"reached": 0}, {"overhead": -1e-6}, {"peak": "fast"}],
)
def test_a_device_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected a"):
        Device(**{"peak": 1e12, "memory": 1e9, **change})  # type: ignore[arg-type]


def test_no_time_has_no_utilization() -> None:
    with pytest.raises(ValueError, match="above 0 as seconds"):
        model_flops_utilization(SMALL, Device(1e12, 1e9), 1, 1, 0.0)

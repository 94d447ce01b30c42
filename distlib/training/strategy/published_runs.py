"""Layouts that people have trained with, and published: models, hardware, and what they reached.

Megatron-LM    D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
               SC 2021, arXiv:2104.04473, table 1: A100s of 80 GB, 8 in a node, joined by NVLink, and a 200 Gb/s
               InfiniBand adapter for each; sequences of 2,048 tokens, 51,200 of vocabulary
Llama 3        A. Grattafiori et al., "The Llama 3 Herd of Models", arXiv:2407.21783 (2024), tables 3 and 4: H100s of
               80 GB, 8 in a node, joined by NVLink, and a 400 Gb/s network for each

What the links reach is assumed, in round numbers, from what they are made for: 300 and 450 GB/s per direction for
NVLink of the A100 and the H100. Which part of the peak products of matrices reach is assumed, too.

What the formulas of this package do not have, and these runs do: several stages of the pipeline per rank (Megatron-LM,
Llama 3), inputs that are gathered again instead of kept whole (Llama 3), attention that never stores its scores (Llama
3; here it recomputes them). Megatron-LM was without sequence parallelism in 2021, and recomputed all layers; what is
chosen instead has both.
"""

from __future__ import annotations

from dataclasses import dataclass

from distlib.network import Cluster, Link
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import ParallelLayout
from distlib.training.strategy.step_time import PARTS, StepPrediction, predict_step
from distlib.training.strategy.strategy_choice import in_seconds
from distlib.training.strategy.strategy_search import choose_strategy
from distlib.training.strategy.transformer_shape import TransformerShape

A100 = Device(peak=312e12, memory=80e9, reached=0.65)
H100 = Device(peak=989e12, memory=80e9, reached=0.55)


@dataclass(frozen=True)
class PublishedRun:
    """A run that somebody has published.

    Attributes:
        name, source: of the run.
        billions: of parameters, as they are published.
        shape, device, cluster, batch: what was trained, on what; sequences of a step.
        layout: how it was laid out, as far as it can be said here.
        utilization: of model FLOPs; None if only hardware FLOPs are published, which count recomputation.
        hardware_utilization: operations per second over the peak, recomputation counted; None if it isn't published.
    """

    name: str
    source: str
    billions: float
    shape: TransformerShape
    device: Device
    cluster: Cluster
    batch: int
    layout: ParallelLayout
    utilization: float | None = None
    hardware_utilization: float | None = None

    def compared(self) -> str:
        """What the formulas say about the published layout, and about the one that `choose_strategy` chooses."""
        given = (self.shape, self.device, self.cluster, self.batch)
        published, choice = predict_step(*given, self.layout), choose_strategy(*given)
        over = published.nbytes - self.device.memory
        fits = f"{over / 1e9:.1f} GB too many here" if over > 0 else "fits"
        return "\n".join(
            [
                f"{self.name} ({self.source})",
                f"published: {self.layout}: {in_seconds(published.seconds)}, {published.nbytes / 1e9:.1f} GB ({fits})",
                f"chosen:    {choice.layout}: {in_seconds(choice.best.seconds)}, {choice.best.nbytes / 1e9:.1f} GB",
                _difference(published, choice.best),
            ]
        )


def _difference(published: StepPrediction, chosen: StepPrediction) -> str:
    slower, faster = (published, chosen) if published.seconds > chosen.seconds else (chosen, published)
    name = "published" if slower is published else "chosen"
    part = max(PARTS, key=lambda each: slower.parts[each] - faster.parts[each])
    more, extra = slower.seconds - faster.seconds, slower.parts[part] - faster.parts[part]
    return f"The {name} one takes {in_seconds(more)} more; of {part} it has {in_seconds(extra)} more."


def _selene(ranks: int) -> Cluster:
    return Cluster(ranks // 8, 8, intra=Link(2e-6, 300e9), inter=Link(5e-6, 25e9))


def _megatron(
    billions: float, heads: int, features: int, layers: int, sizes: tuple[int, int, int], batch: int, part: float
) -> PublishedRun:
    """A row of the table. `sizes`: tp, pp and the number of GPUs. Microbatches of one sequence are assumed."""
    tp, pp, ranks = sizes
    dp = ranks // tp // pp
    layout = ParallelLayout(dp, pp, tp, 0, batch // dp, "full", ("pp", "dp", "tp"))
    shape = TransformerShape(layers, features, 4 * features, heads, 51_200, 2048)
    source = "Narayanan et al., SC 2021, table 1"
    cluster = _selene(ranks)
    name = f"Megatron-LM {billions:g}B"
    return PublishedRun(name, source, billions, shape, A100, cluster, batch, layout, hardware_utilization=part)


MEGATRON = (
    _megatron(1.7, 24, 2304, 24, (1, 1, 32), 512, 0.44),
    _megatron(3.6, 32, 3072, 30, (2, 1, 64), 512, 0.44),
    _megatron(7.5, 32, 4096, 36, (4, 1, 128), 512, 0.46),
    _megatron(18.4, 48, 6144, 40, (8, 1, 256), 1024, 0.43),
    _megatron(39.1, 64, 8192, 48, (8, 2, 512), 1536, 0.44),
    _megatron(76.1, 80, 10_240, 60, (8, 4, 1024), 1792, 0.45),
    _megatron(145.6, 96, 12_288, 80, (8, 8, 1536), 2304, 0.47),
    _megatron(310.1, 128, 16_384, 96, (8, 16, 1920), 2160, 0.50),
    _megatron(529.6, 128, 20_480, 105, (8, 35, 2520), 2520, 0.52),
    _megatron(1008.0, 160, 25_600, 128, (8, 64, 3072), 3072, 0.52),
)
"""The rows of the table."""


def _llama(ranks: int, part: float) -> PublishedRun:
    dp = ranks // 128
    return PublishedRun(
        f"Llama 3 405B on {ranks:,} GPUs",
        "Grattafiori et al., arXiv:2407.21783, tables 3 and 4",
        405.0,
        TransformerShape(126, 16_384, 53_248, 128, 128_000, 8192, key_heads=8, gated=True, tied=False, biases=False),
        H100,
        Cluster(ranks // 8, 8, intra=Link(2e-6, 450e9), inter=Link(5e-6, 50e9)),
        2048,
        ParallelLayout(dp, 16, 8, 1, 2048 // dp, "attention"),
        utilization=part,
    )


LLAMA = (_llama(8192, 0.43), _llama(16_384, 0.41))
"""The two rows of the table with sequences of 8,192 tokens."""

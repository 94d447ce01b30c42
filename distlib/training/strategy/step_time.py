"""How long a step takes, by formulas: part by part, in the words of lessons 09, 10 and 11.

With p stages, m microbatches, c for both passes of a stage, and L for a message between two stages:

    seconds      Σ c  +  2·Σ L            +  what m − 1 further microbatches add  +  dp
                 the first microbatch        `pipeline_time`: (m−1)·c of the slowest stage, or more where L counts

    compute      m·c of the slowest stage, as far as it computes what one process would compute, too
    recompute    what it computes once more
    tp           its messages to the ranks that share its layers: rings, (t−1)·(α + S/(t·B)) each
    bubble       the first microbatch in the other stages: (p−1)·c where all are alike
    pp           what the messages between stages add, and the gradients of tied weights
    dp           what messages between copies add: gradients and parameters that nothing hides; see `stage_time`

The first stage ends last; the other stages begin to average in their bubble. A stage with stragglers among its ranks
computes as slowly as the slowest of them. A cluster's jitter and its eager messages are left out of account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from distlib.arguments import check_type
from distlib.network import Cluster
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import ParallelLayout, axis_link, boundary_links, check_layout
from distlib.training.strategy.pipeline_time import further_microbatches
from distlib.training.strategy.stage_time import StageTime, ring_seconds, stage_times
from distlib.training.strategy.stage_work import BYTES, activation_bytes
from distlib.training.strategy.step_memory import step_memory
from distlib.training.strategy.transformer_shape import TransformerShape

PARTS = ("compute", "recompute", "tp", "bubble", "pp", "dp")


@dataclass(frozen=True)
class StepPrediction:
    """What a step needs.

    Attributes:
        layout: which.
        memory: kind → bytes, of the fullest rank.
        parts: part → seconds; see the text of this module.
    """

    layout: ParallelLayout
    memory: dict[str, float]
    parts: dict[str, float]

    @cached_property
    def nbytes(self) -> float:
        """Bytes that the fullest rank needs."""
        return sum(self.memory.values())

    @cached_property
    def seconds(self) -> float:
        """Predicted seconds of the whole step."""
        return sum(self.parts.values())


def predict_step(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, layout: ParallelLayout
) -> StepPrediction:
    """Memory and time of a step, part by part. A layout that does not fit into memory has a time, too.

    Args:
        shape: of the model.
        device: of every rank; the cluster's stragglers compute more slowly.
        cluster: with `layout.world_size` ranks.
        batch: sequences of a step, on all ranks together.
        layout: how they are laid out.

    Raises:
        TypeError, ValueError: as `check_layout`.
    """
    check_type("predict_step", "device", device, Device, "Device(312e12, 80e9)")
    check_layout(shape, cluster, batch, layout)
    return StepPrediction(layout, step_memory(shape, batch, layout), step_parts(shape, device, cluster, batch, layout))


def step_parts(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, layout: ParallelLayout
) -> dict[str, float]:
    """Part → seconds, of a layout that fits the shape, the cluster and the batch."""
    stages = stage_times(shape, device, cluster, batch, layout)
    slowest, count = max(stages, key=lambda stage: stage.seconds), layout.microbatches
    nbytes = -(-activation_bytes(shape, batch, layout) // layout.tp)
    messages = [link.seconds(nbytes) for link in boundary_links(cluster, layout)]
    further = further_microbatches(stages, messages, count) - (count - 1) * slowest.seconds
    tied = _tied(shape, cluster, layout)
    return {
        "compute": count * slowest.compute,
        "recompute": count * slowest.recompute,
        "tp": count * slowest.tp,
        "bubble": sum(stage.seconds for stage in stages) - slowest.seconds + min(0.0, further),
        "pp": 2 * sum(messages) + max(0.0, further) + tied,
        "dp": count * slowest.dp + _after_passes(stages, messages, tied),
    }


def _after_passes(stages: Sequence[StageTime], messages: Sequence[float], tied: float) -> float:
    """What copies send when the first stage is done. The last one has waited for it to add up what they share."""
    begun = list(accumulate((stage.backward + way for stage, way in zip(stages, messages, strict=False)), initial=0.0))
    if tied:
        begun = [0.0, *(before + tied for before in begun[1:-1]), 0.0][: len(stages)]
    return max(stage.after - before for stage, before in zip(stages, begun, strict=True))


def _tied(shape: TransformerShape, cluster: Cluster, layout: ParallelLayout) -> float:
    """An all-reduce between the first and the last stage of the gradients of what they share."""
    if layout.pp == 1 or not shape.tied:
        return 0.0
    nbytes = -(-shape.vocabulary // layout.tp) * shape.features * BYTES
    return 2 * ring_seconds(axis_link(cluster, layout, "pp"), 2, nbytes)

"""What a stage of a pipeline has to do for one microbatch: unit by unit, what it computes and what it sends.

    embedding    forward   ── reduce-scatter          backward   all-gather ──
    layer        forward   all-gather ─ attention ─ reduce-scatter   all-gather ─ MLP ─ reduce-scatter
                 backward  the same four messages, twice the computing; "full": the forward pass before it
    head         forward   all-gather ─ scores ─ four small all-reduces of the cross-entropy, as two pairs
                 backward  twice the computing ─ reduce-scatter

Those are the messages of `tensor_parallel` with sequences cut between the blocks. S = tokens · features · 2 bytes are
in each of them but the cross-entropy's, whose max and sums take 4 and 8 bytes per token. With one rank nothing is
sent. A unit is also what ZeRO gathers and averages at once.

The formulas and the simulated step both begin here: what they disagree about is when all this happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import ParallelLayout, stage_layers
from distlib.training.strategy.transformer_shape import TransformerShape

COMPUTE, SEND = "compute", "send"
BYTES = 2
"""Of a number that is sent or computed with: bfloat16."""


class WorkStep(NamedTuple):
    """`amount` seconds of COMPUTE, or a ring with a tensor of `amount` bytes: SEND, one of its N−1 rounds each way."""

    kind: str
    amount: float


@dataclass(frozen=True)
class StageUnit:
    """A part of a stage, on one of the ranks that share it.

    Attributes:
        kind: "embedding", "layer" or "head".
        parameters: of this rank.
        compute: seconds of its forward pass, without `overhead`. Its backward pass takes twice as long.
        again: seconds of what its backward pass computes once more.
        overhead: seconds that each pass takes besides.
        forward, backward: the steps of both passes.
    """

    kind: str
    parameters: int
    compute: float
    again: float
    overhead: float
    forward: Sequence[WorkStep]
    backward: Sequence[WorkStep]


def activation_bytes(shape: TransformerShape, batch: int, layout: ParallelLayout) -> int:
    """S: the bytes of a microbatch's activations between two layers, on all ranks of a tp group together."""
    return layout.sequences(batch) * shape.sequence * shape.features * BYTES


def stage_units(
    shape: TransformerShape, device: Device, batch: int, layout: ParallelLayout, stage: int
) -> list[StageUnit]:
    """The units of a stage, in the order of the forward pass."""
    first, layer, last = unit_kinds(shape, device, batch, layout)
    layers = [layer] * stage_layers(shape, layout)[stage]
    return [*[first] * (stage == 0), *layers, *[last] * (stage == layout.pp - 1)]


def unit_kinds(
    shape: TransformerShape, device: Device, batch: int, layout: ParallelLayout
) -> tuple[StageUnit, StageUnit, StageUnit]:
    """The three kinds of units: the embedding, a layer, and the head."""
    layer = layer_unit(shape, device, batch, layout)
    return embedding_unit(shape, batch, layout), layer, head_unit(shape, device, batch, layout)


def layer_unit(shape: TransformerShape, device: Device, batch: int, layout: ParallelLayout) -> StageUnit:
    """One layer, on each of the ranks that share it."""
    tokens = layout.sequences(batch) * shape.sequence
    scores = tokens * shape.score_operations / layout.tp / device.speed
    compute = 2 * tokens * shape.matrices_of_rank(layout.tp) / device.speed + scores
    again = {"none": 0.0, "attention": scores, "full": compute + device.overhead}[layout.recompute]
    forward = _blocks(activation_bytes(shape, batch, layout), compute + device.overhead, layout.tp)
    backward = _blocks(activation_bytes(shape, batch, layout), 2 * compute + device.overhead, layout.tp)
    before = forward if layout.recompute == "full" else [WorkStep(COMPUTE, again)]
    parameters = shape.layer_parameters(layout.tp)
    return StageUnit("layer", parameters, compute, again, device.overhead, forward, [*before, *backward])


def _blocks(nbytes: int, seconds: float, tp: int) -> list[WorkStep]:
    block = [WorkStep(SEND, nbytes), WorkStep(COMPUTE, seconds / 2), WorkStep(SEND, nbytes)]
    return _only_computing(block * 2) if tp == 1 else block * 2


def embedding_unit(shape: TransformerShape, batch: int, layout: ParallelLayout) -> StageUnit:
    """The embedding: it looks up, and computes nothing that counts."""
    sent = _only_computing([WorkStep(SEND, activation_bytes(shape, batch, layout))], layout.tp)
    return StageUnit("embedding", shape.embedding_parameters(layout.tp), 0.0, 0.0, 0.0, sent, sent)


def head_unit(shape: TransformerShape, device: Device, batch: int, layout: ParallelLayout) -> StageUnit:
    """The output layer and the loss."""
    tokens, sent = layout.sequences(batch) * shape.sequence, WorkStep(SEND, activation_bytes(shape, batch, layout))
    compute = 2 * tokens * -(-shape.vocabulary // layout.tp) * shape.features / device.speed
    loss = [WorkStep(SEND, tokens * nbytes) for nbytes in (4, 4, 8, 8)]
    forward = _only_computing([sent, WorkStep(COMPUTE, compute), *loss], layout.tp)
    backward = _only_computing([WorkStep(COMPUTE, 2 * compute), sent], layout.tp)
    parameters = shape.head_parameters(layout.tp, shared=layout.pp == 1)
    return StageUnit("head", parameters, compute, 0.0, 0.0, forward, backward)


def _only_computing(steps: list[WorkStep], tp: int = 1) -> list[WorkStep]:
    """Of steps on one rank, those that are not messages; all of them on several ranks."""
    return [step for step in steps if tp > 1 or step.kind == COMPUTE]

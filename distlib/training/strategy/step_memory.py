"""How many bytes each rank needs, by kind. Of all stages the fullest counts.

    parameters, gradients, states   2, 2 and 12 per parameter of the stage, sharded as `zero.memory_by_stage` says
    activations                     of a layer and token of t ranks that share it, in bytes:
                                      none        4·f + (4·f + 2·f + [4·a + 4·k] + [2·h + 2·h, gated: 6·h])/t + scores
                                      attention   the same without the scores: 5·heads·s/t
                                      full        2·f/t, and one layer of "none" while it is computed again
                                    stage s of p keeps those of min(m, p − s) microbatches at the same time
                                    of the scores of the output layer, 4·V/t per token of one microbatch
    buffers                         stages 2 and 3: the gradients of two units, 2 per parameter;
                                    stage 3: two whole units, 2 per parameter

f features, h hidden, a features of all heads, k of all heads of keys, s tokens of a sequence. With f = a = k, h = 4·f
and t = 1 a layer keeps 34·f + 5·heads·s per token.

Source: V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023, equations 2
and 4, with one difference: the classes of `tensor_parallel` keep the inputs of the two column-parallel layers whole, on
each rank (the 4·f); there they are gathered again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from distlib.training.strategy.parallel_layout import ParallelLayout, stage_layers
from distlib.training.strategy.transformer_shape import TransformerShape
from distlib.training.zero.stage_memory import memory_by_stage

KINDS = ("parameters", "gradients", "optimizer states", "activations", "buffers")


def step_memory(shape: TransformerShape, batch: int, layout: ParallelLayout) -> dict[str, float]:
    """Kind → bytes, of the stage that needs the most; with a layout that fits the shape and the batch."""
    layers = stage_layers(shape, layout)
    stages = [_stage_memory(shape, batch, layout, stage, layers[stage]) for stage in _fullest_stages(layers)]
    return max(stages, key=lambda kinds: sum(kinds.values()))


def _fullest_stages(layers: tuple[int, ...]) -> Iterator[int]:
    """Of the stages with the same number of layers, the first one keeps the most; the last one has the output layer."""
    seen = set()
    last = len(layers) - 1
    for stage, count in enumerate(layers):
        key = (count, stage == 0, stage == last)
        if key not in seen:
            seen.add(key)
            yield stage


def _stage_memory(
    shape: TransformerShape, batch: int, layout: ParallelLayout, stage: int, layers: int
) -> dict[str, float]:
    layer, ends = shape.layer_parameters(layout.tp), _end_parameters(shape, layout, stage)
    kept = _kept(layers * layer + sum(ends), layout.dp)[layout.stage]
    whole_units = {0: 0, 1: 0, 2: 2, 3: 4}[layout.stage] if layout.dp > 1 else 0
    live = min(layout.microbatches, layout.pp - stage)
    tokens = layout.sequences(batch) * shape.sequence
    per_token = _layer_activations(shape, layout.tp, layout.recompute)
    again = _again(shape, layout)
    scores = 4 * shape.vocabulary / layout.tp if stage == layout.pp - 1 else 0.0
    return {
        **kept,
        "activations": tokens * (live * layers * per_token + max(again, scores)),
        "buffers": whole_units * 2 * max([layer, *ends]),
    }


@lru_cache(maxsize=1024)
def _kept(parameters: int, dp: int) -> list[dict[str, float]]:
    return memory_by_stage(parameters, dp)


def _end_parameters(shape: TransformerShape, layout: ParallelLayout, stage: int) -> list[int]:
    """Of the embedding and of the output layer, as far as a stage has them."""
    first = [shape.embedding_parameters(layout.tp)] if stage == 0 else []
    last = [shape.head_parameters(layout.tp, shared=layout.pp == 1)] if stage == layout.pp - 1 else []
    return [*first, *last]


def _again(shape: TransformerShape, layout: ParallelLayout) -> float:
    """Bytes per token that are there for a while, where a layer is computed again."""
    kept = _layer_activations(shape, layout.tp, layout.recompute) if layout.recompute == "attention" else 0.0
    return 0.0 if layout.recompute == "none" else _layer_activations(shape, layout.tp, "none") - kept


@lru_cache(maxsize=1024)
def _layer_activations(shape: TransformerShape, tp: int, recompute: str) -> float:
    """Bytes per token that a layer keeps on each of its ranks."""
    if recompute == "full":
        return 2 * shape.features / tp
    queries, keys = shape.attention_features, -(-shape.keys // tp) * tp * shape.head
    mlp = (6 if shape.gated else 4) * shape.hidden
    whole = 4 * shape.features if tp > 1 else 0
    cut = 6 * shape.features + 4 * queries + 4 * keys + mlp + (4 * shape.features if tp == 1 else 0)
    scores = 5 * shape.heads * shape.sequence if recompute == "none" else 0
    return whole + (cut + scores) / tp

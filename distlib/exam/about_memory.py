"""Questions about memory: ZeRO's stages, tensor parallel layers, checkpoints."""

from __future__ import annotations

import math
import random

from distlib.exam.exam_question import Asked, asks_about
from distlib.exam.number_words import shown
from distlib.network import traffic
from distlib.training.zero.stage_memory import bytes_sent_by_stage, first_stage_within, memory_by_stage

_TOPIC = "memory"
_GB = 1e9


def _model(draw: random.Random) -> tuple[int, int]:
    """Billions of parameters, and ranks."""
    return draw.choice((1, 2, 3, 7, 13)), draw.choice((8, 16, 32, 64))


_MIXED = "Adam in mixed precision: 2 bytes per parameter for it, 2 for its gradient, 12 for the optimizer's states."


@asks_about(_TOPIC)
def memory_of_adam(draw: random.Random) -> Asked:
    """16 bytes per parameter."""
    billions, _ = _model(draw)
    return Asked(
        f"{_MIXED} How many GB (10⁹ bytes) does a rank of DDP keep for a model of {billions} billion parameters, "
        "without "
        "activations?",
        sum(memory_by_stage(billions * 10**9, 8)[0].values()) / _GB,
        f"16 · {billions}.",
        {"billions": billions},
        "GB",
    )


@asks_about(_TOPIC)
def memory_of_a_stage(draw: random.Random) -> Asked:
    """What a stage of ZeRO shards."""
    (billions, ranks), stage = _model(draw), draw.choice((1, 2, 3))
    whole = 16 - sum((12, 2, 2)[:stage])
    return Asked(
        f"{_MIXED} How many GB does each of {ranks} ranks keep for {billions} billion parameters at stage "
        f"{stage} of ZeRO, "
        "without activations?",
        sum(memory_by_stage(billions * 10**9, ranks)[stage].values()) / _GB,
        f"{billions} · ({whole} + {16 - whole}/{ranks}).",
        {"billions": billions, "ranks": ranks, "stage": stage},
        "GB",
    )


@asks_about(_TOPIC)
def first_stage_that_fits(draw: random.Random) -> Asked:
    """The mildest stage that does."""
    billions, ranks = _model(draw)
    by_stage = memory_by_stage(billions * 10**9, ranks)
    wanted = draw.randint(0, 3)
    limit = math.ceil(sum(by_stage[wanted].values()) / _GB)
    return Asked(
        f"{_MIXED} {billions} billion parameters, {ranks} ranks, {limit} GB (10⁹ bytes) on each for all of this. "
        "Which is the "
        "first stage of ZeRO that fits? 0 is DDP.",
        first_stage_within(limit * _GB, by_stage),
        f"The stages take {', '.join(shown(sum(kinds.values()) / _GB) for kinds in by_stage)} GB.",
        {"billions": billions, "ranks": ranks, "limit": limit},
    )


@asks_about(_TOPIC)
def bytes_of_stage_three(draw: random.Random) -> Asked:
    """Parameters travel twice, gradients once."""
    ranks = draw.choice((4, 8, 16))
    length = ranks * draw.randint(1_000, 9_000)
    return Asked(
        f"{ranks} ranks train {shown(length)} float32 parameters at stage 3 of ZeRO: parameters are gathered for "
        "the forward pass "
        "and again for the backward pass, gradients are reduce-scattered, all in rings. How many bytes does each "
        "rank send "
        "in a step?",
        bytes_sent_by_stage([length], ranks, reshard_after_forward=True)[3],
        f"3 · ({ranks} − 1)/{ranks} · {shown(4 * length)}; DDP sends two thirds of it.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def parameters_of_a_column(draw: random.Random) -> Asked:
    """A linear layer cut by columns of its result."""
    ranks, features = draw.choice((2, 4, 8)), 64 * draw.randint(2, 16)
    return Asked(
        f"A linear layer takes {features} features and gives {4 * features}, with a bias. It is column-parallel "
        f"on {ranks} ranks: "
        "each computes an equal part of the results. How many parameters does a rank have?",
        4 * features // ranks * (features + 1),
        f"{4 * features // ranks} rows of {features} weights, each with a bias.",
        {"ranks": ranks, "features": features},
        "parameters",
    )


@asks_about(_TOPIC)
def parameters_of_a_row(draw: random.Random) -> Asked:
    """A linear layer cut by its inputs; the bias is whole."""
    ranks, features = draw.choice((2, 4, 8)), 64 * draw.randint(2, 16)
    return Asked(
        f"A linear layer takes {4 * features} features and gives {features}, with a bias. It is row-parallel on "
        f"{ranks} ranks: each "
        "has an equal part of the inputs; every rank keeps the whole bias. How many parameters does a rank have?",
        features * (4 * features // ranks) + features,
        f"{features} rows of {4 * features // ranks} weights, and {features} biases.",
        {"ranks": ranks, "features": features},
        "parameters",
    )


@asks_about(_TOPIC)
def all_reduces_of_tensor_parallel(draw: random.Random) -> Asked:
    """One after each half of a layer, there and back."""
    layers = draw.choice((12, 24, 32, 40, 96))
    return Asked(
        f"A transformer of {layers} layers is tensor-parallel, as in Megatron-LM, without recomputation. How "
        "many all-reduces does "
        "a step have in these layers, forward and backward?",
        4 * layers,
        "After attention and after the MLP one in forward, and one before each of them in backward.",
        {"layers": layers},
        "all-reduces",
    )


@asks_about(_TOPIC)
def bytes_of_tensor_parallel(draw: random.Random) -> Asked:
    """What a rank sends for a layer."""
    ranks, tokens, features = draw.choice((2, 4, 8)), draw.choice((1024, 2048)), draw.choice((1024, 4096))
    each = traffic.ring_all_reduce(ranks, tokens * features, 2).nbytes[0]
    return Asked(
        f"{ranks} ranks share a transformer layer by tensor parallelism. Each of its 2 all-reduces in the "
        "forward pass sums "
        f"{shown(tokens)} tokens of {shown(features)} features in bfloat16, in a ring. How many bytes does a "
        "rank send in the "
        "forward pass of the layer?",
        2 * each,
        f"2 · 2 · {ranks - 1}/{ranks} · {shown(2 * tokens * features)}.",
        {"ranks": ranks, "tokens": tokens, "features": features},
        "bytes",
    )


@asks_about(_TOPIC)
def time_between_checkpoints(draw: random.Random) -> Asked:
    cost, hours = draw.choice((20, 30, 60, 120)), draw.choice((6, 12, 24, 48))
    return Asked(
        f"A checkpoint takes {cost} s, and a job fails every {hours} h on average. After how many seconds of "
        "work should it write "
        "one, by Young's formula?",
        math.sqrt(2 * cost * hours * 3600),
        f"√(2 · {cost} s · {hours * 3600} s).",
        {"cost": cost, "hours": hours},
        "s",
    )


@asks_about(_TOPIC)
def bytes_of_a_sharded_checkpoint(draw: random.Random) -> Asked:
    """Weights and both moments of Adam, in float32."""
    billions, ranks = _model(draw)
    return Asked(
        f"Each of {ranks} ranks writes its shard of a checkpoint: parameters and both moments of Adam, all in "
        "float32, of "
        f"{billions} billion parameters. How many GB (10⁹ bytes) does a rank write?",
        12 * billions / ranks,
        f"3 · 4 · {billions} / {ranks}.",
        {"billions": billions, "ranks": ranks},
        "GB",
    )

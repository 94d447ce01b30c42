"""Where in torchtitan's code each lesson's algorithm stands. It is read here, not run: it wants GPUs.

    print(torchtitan_places())

Read at the commit named below, of 21 August 2026; the version in that tree is 0.2.2. Paths are below `torchtitan/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from distlib.trainers.side_by_side import SideBySide

REPOSITORY = "https://github.com/pytorch/torchtitan"
COMMIT = "b5bcd76c66d0acb1a08b176d9639425bc55e0b2a"


@dataclass(frozen=True)
class Place:
    """A function of torchtitan.

    Attributes:
        lesson: whose algorithm it is, as "12b".
        file: its path below `torchtitan/`.
        name: of the function or class.
        does: what happens there, in the words of the lesson.
    """

    lesson: str
    file: str
    name: str
    does: str


def torchtitan_places() -> SideBySide:
    """All places as a table, in the order of the lessons."""
    rows = [[place.lesson, place.does, f"`{place.file}`", f"`{place.name}`"] for place in PLACES]
    return SideBySide(["lesson", "what happens there", "file", "function or class"], rows)


PLACES = (
    Place("05", "components/data/sources.py", "HuggingFaceStreamingSource", "each data-parallel rank reads its part"),
    Place("05", "distributed/fsdp.py", "disable_fsdp_gradient_division", "gradients are summed, and not averaged …"),
    Place("06", "trainer.py", "train_step", "… for each loss is divided by the tokens of all ranks and micro-batches"),
    Place(
        "06", "components/optimizer/lr_scheduler.py", "linear_warmup_stable_decay", "the rate warms up, stays, falls"
    ),
    Place("09", "distributed/pipeline_parallel.py", "_split_module", "a stage keeps its layers, drops the rest"),
    Place(
        "09",
        "distributed/pipeline_parallel.py",
        "_build_pipeline_schedule",
        "1F1B and others, by their name, from torch",
    ),
    Place("10", "models/common/decoder_sharding.py", "colwise_config", "a matrix is cut by columns"),
    Place(
        "10", "models/common/decoder_sharding.py", "rowwise_config", "by rows; then an all-reduce or a reduce-scatter"
    ),
    Place("10", "models/llama3/sharding.py", "_set_llama3_layer_sharding", "which matrix of a block is cut which way"),
    Place("10b", "components/loss.py", "_LossParallelCrossEntropy", "cross-entropy over a vocabulary that is cut"),
    Place("11", "distributed/fsdp.py", "apply_fsdp_to_decoder", "each block is a unit: `fully_shard`"),
    Place(
        "11", "distributed/fsdp.py", "get_fsdp_reshard_after_forward_policy", "stage 3; nearly 2 where there are stages"
    ),
    Place("11", "distributed/activation_checkpoint.py", "SelectiveAC", "activations are computed again, some are kept"),
    Place("11", "distributed/utils.py", "clip_grad_norm_", "a norm over all shards, and over all stages"),
    Place(
        "12", "distributed/parallel_dims.py", "build_mesh", "the mesh and its axes: pp, dp_replicate, dp_shard, cp, tp"
    ),
    Place(
        "12", "models/llama3/parallelize.py", "parallelize_llama", "the order: tensors, activations, compiler, shards"
    ),
    Place(
        "12b", "distributed/context_parallel/api.py", "prepare_context_parallel_input", "a sequence is cut over ranks"
    ),
    Place(
        "12b",
        "models/common/decoder_sharding.py",
        "set_gqa_inner_attention_local_map",
        "keys, values are gathered whole",
    ),
    Place(
        "12b",
        "models/common/token_dispatcher.py",
        "AllToAllTokenDispatcher",
        "tokens travel to their experts, and back",
    ),
    Place("16", "components/checkpointer/dcp.py", "CheckpointManager", "each rank writes its shards"),
    Place("17", "distributed/utils.py", "set_pg_timeouts", "short timeouts, for every group, after the first step"),
    Place("17", "distributed/utils.py", "init_distributed", "the flight recorder is switched on before the start"),
)

"""Which framework does which lesson's algorithm, and under which name.

    print(algorithm_map(["pipeline", "experts"], ["torch", "deepspeed"]))

    lesson  algorithm              torch 2.13.0                      DeepSpeed 0.19.8
    09      stages of a pipeline   `PipelineStage`, `Schedule1F1B`   `PipelineModule(num_stages=…)`
    12b     experts over ranks     –                                 `MoE(ep_size=…)`

Each entry was read in the source of the version that is named; `Entry.source` says where. A dash means: nothing of its
own. Whoever writes the training loop himself may use torch's there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distlib.trainers.side_by_side import SideBySide

FRAMEWORKS = {
    "torch": "torch 2.13.0",
    "lightning": "Lightning 2.6.6, Fabric in it",
    "accelerate": "Accelerate 1.15.0",
    "deepspeed": "DeepSpeed 0.19.8",
    "ray": "Ray Train 2.60.0",
    "torchtitan": "torchtitan, b5bcd76c",
}
NOTHING = "–"


@dataclass(frozen=True)
class Entry:
    """What a framework has for an algorithm.

    Attributes:
        name: what its users write; `NOTHING` if it has nothing of its own.
        source: where that was read: "folder/file.py: a name in it", below the package. Of nothing: "no WORDS", a
            regular expression that no Python file of it matches, whether in capitals or not.
    """

    name: str
    source: str


@dataclass(frozen=True)
class Algorithm:
    """A row of the map.

    Attributes:
        lesson: whose algorithm it is, as "12b".
        title: what it is.
        entries: by framework, in the order of `FRAMEWORKS`.
    """

    lesson: str
    title: str
    entries: dict[str, Entry]


def algorithm_map(algorithms: Sequence[str] = (), frameworks: Sequence[str] = ()) -> SideBySide:
    """The map as a table.

    Args:
        algorithms: some of `ALGORITHMS`, in this order; by default all.
        frameworks: some of `FRAMEWORKS`, likewise.

    Raises:
        ValueError: there is no such algorithm or framework.
    """
    rows = [ALGORITHMS[name] for name in _chosen(algorithms, list(ALGORITHMS), "algorithms")]
    columns = _chosen(frameworks, list(FRAMEWORKS), "frameworks")
    head = ["lesson", "algorithm", *(FRAMEWORKS[name] for name in columns)]
    return SideBySide(head, [[row.lesson, row.title, *(row.entries[name].name for name in columns)] for row in rows])


def sources(algorithm: str) -> SideBySide:
    """Where the entries of a row were read.

    Raises:
        ValueError: there is no such algorithm.
    """
    (name,) = _chosen([algorithm], list(ALGORITHMS), "algorithms")
    entries = ALGORITHMS[name].entries
    rows = [[FRAMEWORKS[framework], entry.name, entry.source] for framework, entry in entries.items()]
    return SideBySide(["framework", "name", "read in"], rows)


def _chosen(names: Sequence[str], known: Sequence[str], what: str) -> Sequence[str]:
    for name in names:
        if name not in known:
            raise ValueError(f"expected {what} of {', '.join(known)}, got {name!r}")
    return names or known


def _row(lesson: str, title: str, *entries: tuple[str, str]) -> Algorithm:
    by_framework = zip(FRAMEWORKS, entries, strict=True)
    return Algorithm(lesson, title, {framework: Entry(*entry) for framework, entry in by_framework})


ALGORITHMS = {
    "start": _row(
        "16",
        "start the ranks",
        ("`torchrun`", "distributed/run.py: nproc-per-node"),
        ("the script starts itself again; or `torchrun`", "fabric/strategies/launchers/subprocess_script.py: Popen"),
        ("`accelerate launch`, `notebook_launcher`, or `torchrun`", "launchers.py: notebook_launcher"),
        ("`deepspeed`, a launcher; or `torchrun`", "launcher/runner.py: hostfile"),
        ("actors, by `TorchTrainer`", "train/v2/torch/torch_trainer.py: TorchTrainer"),
        ("`torchrun`", "train.py: main"),
    ),
    "samples": _row(
        "05",
        "deal out samples",
        ("`DistributedSampler`", "utils/data/distributed.py: DistributedSampler"),
        ("replaces yours by torch's: `use_distributed_sampler`", "fabric/fabric.py: _requires_distributed_sampler"),
        ("whole batches in turn: `BatchSamplerShard`", "data_loader.py: BatchSamplerShard"),
        ("torch's, if it makes the loader: `training_data=`", "runtime/dataloader.py: DistributedSampler"),
        ("replaces yours by torch's: `prepare_data_loader`", "train/v2/torch/train_loop_utils.py: prepare_data_loader"),
        ("a stream, split by `dp_rank`", "components/data/sources.py: dp_rank"),
    ),
    "buckets": _row(
        "05",
        "gradients in buckets",
        ("`DistributedDataParallel`, `bucket_cap_mb`", "nn/parallel/distributed.py: bucket_cap_mb"),
        ('torch\'s: `strategy="ddp"`', "fabric/strategies/ddp.py: DistributedDataParallel"),
        ("torch's: `DistributedDataParallelKwargs`", "utils/dataclasses.py: DistributedDataParallelKwargs"),
        ("its own: `reduce_bucket_size`, in numbers", "runtime/zero/config.py: reduce_bucket_size"),
        ("torch's: `prepare_model`", "train/v2/torch/train_loop_utils.py: DistributedDataParallel"),
        ("no DDP: units of `fully_shard`, also for plain copies", "models/llama3/parallelize.py: shard_degree=1"),
    ),
    "compress": _row(
        "05",
        "another all-reduce; fewer bits",
        ("`register_comm_hook`", "nn/parallel/distributed.py: register_comm_hook"),
        ("`DDPStrategy(ddp_comm_hook=…)`, of the Trainer", "pytorch/strategies/ddp.py: ddp_comm_hook"),
        ("`DDPCommunicationHookType`", "utils/dataclasses.py: DDPCommunicationHookType"),
        ("`zero_quantized_gradients`", "runtime/zero/config.py: zero_quantized_gradients"),
        (NOTHING, "no comm_hook"),
        (NOTHING, "no comm_hook"),
    ),
    "accumulate": _row(
        "06",
        "several batches, one step",
        ("`no_sync()`; you divide", "nn/parallel/distributed.py: no_sync"),
        (
            "Fabric: `no_backward_sync`, you divide; Trainer: `accumulate_grad_batches`, it divides",
            "pytorch/loops/optimization/automatic.py: accumulate_grad_batches",
        ),
        (
            "`accumulate(model)`; `accelerator.backward` divides, in every call",
            "accelerator.py: loss / self.gradient_accumulation_steps",
        ),
        (
            "`gradient_accumulation_steps`; it divides",
            "runtime/engine.py: loss / self.gradient_accumulation_steps()",
        ),
        (NOTHING, "no no_sync|accumulation_steps"),
        ("a sum, divided by the tokens of all ranks", "trainer.py: global_valid_tokens"),
    ),
    "local": _row(
        "06",
        "local SGD",
        ("`PeriodicModelAverager`", "distributed/algorithms/model_averaging/averagers.py: PeriodicModelAverager"),
        ("`model_averaging_period`, of the Trainer", "pytorch/strategies/ddp.py: model_averaging_period"),
        ("`LocalSGD`", "local_sgd.py: LocalSGD"),
        (NOTHING, "no local_?sgd"),
        (NOTHING, "no local_?sgd"),
        ("an experiment: `torchft`", "experiments/torchft/README.md: local_sgd"),
    ),
    "server": _row(
        "07b",
        "parameter server",
        ("by hand, with `rpc`", "distributed/rpc/__init__.py: init_rpc"),
        (NOTHING, "no parameter.server"),
        (NOTHING, "no parameter.server"),
        (NOTHING, "no parameter.server"),
        ("by hand, with actors of Ray itself", "actor.py: class ActorClass"),
        (NOTHING, "no parameter.server"),
    ),
    "pipeline": _row(
        "09",
        "stages of a pipeline",
        ("`PipelineStage`, `Schedule1F1B` and others", "distributed/pipelining/schedules.py: Schedule1F1B"),
        (NOTHING, "no pipelin"),
        (
            "inference: `prepare_pippy`; training by Megatron-LM: `pp_degree`",
            "utils/dataclasses.py: pp_degree",
        ),
        ("`PipelineModule(num_stages=…)`, up to ZeRO-1", "runtime/pipe/engine.py: incompatible with pipeline"),
        (NOTHING, "no pipeline_parallel|num_stages"),
        ("torch's: `pipeline_llm`", "distributed/pipeline_parallel.py: pipeline_llm"),
    ),
    "tensor": _row(
        "10",
        "layers cut by column and row",
        ("`parallelize_module`", "distributed/tensor/parallel/api.py: parallelize_module"),
        (
            "torch's, and you write it: `ModelParallelStrategy`",
            "fabric/strategies/model_parallel.py: tensor_parallel_size",
        ),
        ("of models that `transformers` has cut: `tp_size`", "accelerator.py: get_model_tp_size"),
        ("`autotp_size`", "runtime/tensor_parallel/config.py: autotp_size"),
        (NOTHING, "no tensor_parallel"),
        ("`colwise_config`, `rowwise_config`", "models/common/decoder_sharding.py: rowwise_config"),
    ),
    "zero1": _row(
        "11",
        "ZeRO-1: optimizer in shards",
        (
            "`ZeroRedundancyOptimizer`: whole tensors",
            "distributed/optim/zero_redundancy_optimizer.py: ZeroRedundancyOptimizer",
        ),
        ("DeepSpeed's: `DeepSpeedStrategy(stage=1)`", "fabric/strategies/deepspeed.py: deepspeed_stage_1"),
        ("DeepSpeed's: `DeepSpeedPlugin(zero_stage=1)`", "utils/dataclasses.py: zero_stage"),
        ('`"stage": 1`', "runtime/zero/config.py: optimizer_states"),
        (NOTHING, "no ZeroRedundancy|zero_stage"),
        (NOTHING, "no ZeroRedundancy|zero_stage"),
    ),
    "zero3": _row(
        "11",
        "ZeRO-3: all in shards, unit by unit",
        ("`fully_shard`", "distributed/fsdp/_fully_shard/_fully_shard.py: fully_shard"),
        (
            "torch's older FSDP: `FSDPStrategy`, only on GPUs; `fully_shard`: you call it, in `ModelParallelStrategy`",
            "fabric/strategies/model_parallel.py: FSDP2",
        ),
        ("torch's: `FullyShardedDataParallelPlugin(fsdp_version=2)`", "utils/dataclasses.py: fsdp_version"),
        ('`"stage": 3`; `2` is between', "runtime/zero/config.py: ZeroStageEnum"),
        (
            'torch\'s older FSDP: `prepare_model(parallel_strategy="fsdp")`; only on GPUs',
            "train/v2/torch/train_loop_utils.py: FSDP is only available with GPU",
        ),
        ("torch's: `apply_fsdp_to_decoder`", "distributed/fsdp.py: apply_fsdp_to_decoder"),
    ),
    "hybrid": _row(
        "11",
        "shards inside of a node, copies of them",
        ("`fully_shard` on a mesh of two axes", "distributed/fsdp/_fully_shard/_fully_shard.py: HSDP"),
        ('`"HYBRID_SHARD"`', "fabric/strategies/fsdp.py: HYBRID_SHARD"),
        ("`dp_replicate_size`, `dp_shard_size`", "parallelism_config.py: dp_replicate_size"),
        ("of parameters alone: `zero_hpz_partition_size`", "runtime/zero/config.py: zero_hpz_partition_size"),
        (NOTHING, "no hybrid_shard"),
        ("`data_parallel_replicate_degree`", "config/configs.py: data_parallel_replicate_degree"),
    ),
    "mesh": _row(
        "12",
        "a mesh of axes",
        ("`init_device_mesh`", "distributed/device_mesh.py: init_device_mesh"),
        ("torch's, two axes: `ModelParallelStrategy`", "fabric/strategies/model_parallel.py: data_parallel_size"),
        ("torch's: `ParallelismConfig`", "parallelism_config.py: ParallelismConfig"),
        ("`PipeModelDataParallelTopology`", "runtime/pipe/topology.py: PipeModelDataParallelTopology"),
        (NOTHING, "no device_?mesh"),
        ("torch's: `ParallelDims`", "distributed/parallel_dims.py: ParallelDims"),
    ),
    "sequence": _row(
        "12b",
        "a sequence over ranks",
        (
            "`context_parallel`, experimental",
            "distributed/tensor/experimental/_context_parallel/_attention.py: context_parallel",
        ),
        (NOTHING, "no sequence_parallel|context_parallel|ulysses"),
        ("torch's: `cp_size`; DeepSpeed's: `sp_size`", "parallelism_config.py: sp_size"),
        ("`DistributedAttention`: Ulysses", "sequence/layer.py: DistributedAttention"),
        (NOTHING, "no sequence_parallel|context_parallel|ulysses"),
        ("`context_parallel_degree`", "config/configs.py: context_parallel_degree"),
    ),
    "experts": _row(
        "12b",
        "experts over ranks",
        ("by hand, with `all_to_all_single`", "distributed/distributed_c10d.py: all_to_all_single"),
        (NOTHING, r"no expert_parallel|\bmoe\b"),
        ("Megatron-LM's: `expert_model_parallel_size`", "utils/dataclasses.py: expert_model_parallel_size"),
        ("`MoE(ep_size=…)`", "moe/layer.py: ep_size"),
        (NOTHING, r"no expert_parallel|\bmoe\b"),
        ("`AllToAllTokenDispatcher`", "models/common/token_dispatcher.py: AllToAllTokenDispatcher"),
    ),
    "checkpoint": _row(
        "11",
        "a checkpoint in shards",
        ("`distributed.checkpoint`", "distributed/checkpoint/state_dict_saver.py: def save"),
        ('torch\'s: `FSDPStrategy(state_dict_type="sharded")`', "fabric/strategies/fsdp.py: state_dict_type"),
        ('torch\'s: `state_dict_type="SHARDED_STATE_DICT"`', "utils/constants.py: SHARDED_STATE_DICT"),
        (
            "its own; back to one file by `zero_to_fp32.py`",
            "utils/zero_to_fp32.py: get_fp32_state_dict_from_zero_checkpoint",
        ),
        ("a folder of yours, with `ray.train.report`", "train/v2/api/train_fn_utils.py: def report"),
        ("torch's: `CheckpointManager`", "components/checkpointer/dcp.py: CheckpointManager"),
    ),
    "failure": _row(
        "16",
        "go on after a failure",
        ("`torchrun --max-restarts --nnodes=1:4`", "distributed/run.py: max-restarts"),
        ("`torchrun`'s", "fabric/plugins/environments/torchelastic.py: TorchElasticEnvironment"),
        ("`torchrun`'s: `--max_restarts`", "commands/launch.py: max_restarts"),
        ("`torchrun`'s; its own was taken out", "runtime/config.py: Elastic training has been removed"),
        ("`FailureConfig`, `num_workers=(2, 4)`", "train/v2/api/config.py: FailureConfig"),
        ("`torchrun`'s", "train.py: main"),
    ),
}
"""By a short name, in the order of the lessons."""

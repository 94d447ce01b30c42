"""Which framework for which use, and what it costs to leave it again.

    print(by_use())

Opinions, with their reasons. Each reason can be checked: `Use.read` says where.
"""

from __future__ import annotations

from dataclasses import dataclass

from distlib.trainers.side_by_side import SideBySide


@dataclass(frozen=True)
class Use:
    """What somebody has, and what serves him.

    Attributes:
        have: in his words.
        take: what to take.
        reason: why that.
        leaving: what he must do to leave it again.
        read: where the reason was read: a package's file and a name in it, or a lesson.
    """

    have: str
    take: str
    reason: str
    leaving: str
    read: str


def by_use() -> SideBySide:
    """All uses as a table."""
    rows = [[use.have, use.take, use.reason, use.leaving] for use in USES]
    return SideBySide(["you have", "take", "because", "to leave it again"], rows)


USES = (
    Use(
        "one machine with 8 GPUs, a script, a model that fits",
        "torch: DDP, `torchrun`",
        "a few lines, and nothing to install",
        "nothing",
        "lesson 05",
    ),
    Use(
        "the same, on machines of several kinds: laptop, one GPU, eight",
        "Fabric or Accelerate",
        "device, precision, number of ranks are settings; the loop stays yours",
        "put back the lines that you have changed",
        "lightning fabric/fabric.py: class Fabric",
    ),
    Use(
        "many experiments, and no wish to write loops",
        "Lightning's Trainer",
        "loop, logs, checkpoints, early stopping are there",
        "write the loop again; take the names in checkpoints apart",
        "lightning pytorch/trainer/trainer.py: class Trainer",
    ),
    Use(
        "a model of `transformers` to tune",
        "Accelerate",
        "it is made by the people who make `transformers`, for these models",
        "as Fabric's; with FSDP or DeepSpeed, that one's checkpoints, too",
        "https://huggingface.co/docs/transformers/v4.49.0/accelerate",
    ),
    Use(
        "a model that does not fit on a GPU, a loop of your own",
        "torch: `fully_shard`",
        "stage 3, and nothing to install",
        "nothing, if you save whole tensors",
        "lesson 11",
    ),
    Use(
        "not even all GPUs together can hold it, but the machines' memory can",
        "torch: `fully_shard(…, offload_policy=CPUOffloadPolicy())`",
        "offloading: shards wait in the host's memory, and the optimizer runs there",
        "nothing, if you save whole tensors",
        "torch distributed/fsdp/_fully_shard/_fsdp_api.py: CPUOffloadPolicy",
    ),
    Use(
        "not even their memory can",
        "DeepSpeed, ZeRO-3 with offloading to NVMe",
        "of these, it alone trains with shards on a disk",
        "a loop with an engine; `zero_to_fp32.py` for each checkpoint",
        "deepspeed runtime/zero/offload_config.py: nvme",
    ),
    Use(
        "Slurm and 70 B parameters",
        "torchtitan, or a mesh of your own with torch's parts",
        "tensors, stages, shards and sequences together; the parts are torch's",
        "its model and its checkpoint: an adapter for each model",
        "torchtitan models/llama3/config_registry.py: llama3_70b; models/llama3/state_dict_adapter.py: to_hf",
    ),
    Use(
        "500 small models to tune",
        "Ray Tune, or a job array of Slurm",
        "each fits on one device: nothing is distributed but the jobs",
        "a function that reports; the search",
        "ray tune/tuner.py: class Tuner",
    ),
    Use(
        "machines that come and go",
        "`torchrun --nnodes=2:8 --max-restarts=10`, or Ray Train",
        "both start anew with fewer or more ranks, from your checkpoint; torchrun's default is no restart",
        "torchrun: nothing; Ray: a function, its configuration, its cluster",
        "ray train/v2/api/config.py: min_workers, max_workers",
    ),
    Use(
        "a parameter server, or gossip",
        "none of them",
        "none of them has it: lessons 07b and 08, torch's `rpc`, actors of Ray",
        "it is your own",
        "the map's row",
    ),
)

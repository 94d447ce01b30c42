"""Distributed data parallel training: the same model on every rank, each with its own part of the batch.

replicas      is it the same model everywhere? rank 0's weights to all
averaging     gradients averaged after the backward pass: one all-reduce per parameter, one in all, or in buckets
bucket        gradients that travel together
finite        which rank produced an infinite or NaN gradient?
reducer       gradients averaged while the backward pass still runs
module        DistributedDataParallel, which puts these together
torch_hook    our all-reduces inside torch's own DistributedDataParallel
step_times    when a rank computes, when it communicates, and how much of that at once
checkpoint    saved by one rank, loaded by all
"""

from distlib.training.ddp.averaging import average_buckets, average_flat, average_per_parameter
from distlib.training.ddp.checkpoint import load_checkpoint, save_checkpoint
from distlib.training.ddp.module import VERSIONS, DistributedDataParallel
from distlib.training.ddp.replicas import check_same_model, copy_from_rank_0
from distlib.training.ddp.step_times import Span, StepClock, StepTimes
from distlib.training.ddp.torch_hook import all_reduce_hook

__all__ = [
    "VERSIONS",
    "DistributedDataParallel",
    "Span",
    "StepClock",
    "StepTimes",
    "all_reduce_hook",
    "average_buckets",
    "average_flat",
    "average_per_parameter",
    "check_same_model",
    "copy_from_rank_0",
    "load_checkpoint",
    "save_checkpoint",
]

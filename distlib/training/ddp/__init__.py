"""Distributed data parallel training: the same model on every rank, each with its own part of the batch.

plain         read this first: gradients averaged after the backward pass, and in buckets while it still runs

bucket        gradients that travel together, also where some parameters were not used
finite        which rank produced an infinite or NaN gradient?
active_ranks  which ranks still have a batch?
reducer       gradients averaged at the end of every backward pass, or while it still runs
module        DistributedDataParallel, which puts these together
step_times    when a rank computes, when it communicates, and how much of the two overlaps
checkpoint    saved by one rank, loaded by all
"""

from distlib.training.ddp.checkpoint import load_checkpoint, save_checkpoint
from distlib.training.ddp.module import VERSIONS, DistributedDataParallel
from distlib.training.ddp.plain import PlainDDP, average_per_parameter
from distlib.training.ddp.step_times import Span, StepClock, StepTimes
from distlib.training.replicas import check_same_model, copy_from_rank_0

__all__ = [
    "VERSIONS",
    "DistributedDataParallel",
    "PlainDDP",
    "Span",
    "StepClock",
    "StepTimes",
    "average_per_parameter",
    "check_same_model",
    "copy_from_rank_0",
    "load_checkpoint",
    "save_checkpoint",
]

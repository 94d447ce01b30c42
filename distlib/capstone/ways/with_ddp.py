"""DDP, lesson 05: the model on every rank, the batch in parts, gradients averaged while the backward pass runs.

rank 0    part 0 ──► backward ┐
rank 1    part 1 ──► backward ┼─ all-reduces of the gradients ──► every rank: clip, AdamW: the same step
rank 2    part 2 ──► backward ┘

After the all-reduce every rank has the whole gradient, so each can clip it by itself.
"""

from __future__ import annotations

from torch import nn

from distlib.capstone.train_alone import MAX_NORM, new_optimizer, set_rate
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, one_by_one
from distlib.communicator import Communicator
from distlib.training.ddp import DistributedDataParallel


def with_ddp(comm: Communicator, plan: CapstonePlan) -> WayOnRank:
    """Train with DDP. A batch needs a sequence for each rank, or ValueError is raised."""
    model = DistributedDataParallel(comm, plan.whole_model(comm))
    optimizer = new_optimizer(model.parameters())

    def train_one(step: int) -> float:
        tokens, following = plan.part(comm, step)
        set_rate(optimizer, step)
        optimizer.zero_grad()
        share = plan.share_of_loss(model(tokens), following)
        (comm.world_size * share).backward()  # DDP averages, and shares are to be added up
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        return share.item()

    return WayOnRank(one_by_one(train_one), list(model.parameters()), optimizer, model.state_dict)

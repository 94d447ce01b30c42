"""ZeRO 3, lesson 11: as DDP, and each rank keeps a shard of every layer's parameters, gradients and states.

forward     gather a layer ──► compute ──► free it
backward    gather it again ──► compute ──► average its gradients: each rank keeps its shard of them ──► free it
AdamW       each rank its own shards

Each rank has a shard of the gradients alone. So the norm by which all are clipped is a sum over the ranks.
"""

from __future__ import annotations

from distlib.capstone.train_alone import MAX_NORM, new_optimizer, set_rate
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, one_by_one
from distlib.communicator import Communicator
from distlib.training.zero import FullyShardedModule


def with_zero(comm: Communicator, plan: CapstonePlan) -> WayOnRank:
    """Train with all states in shards. A batch needs a sequence for each rank, or ValueError is raised."""
    model = FullyShardedModule(comm, plan.whole_model(comm))
    optimizer = new_optimizer(model.parameters())

    def train_one(step: int) -> float:
        tokens, following = plan.part(comm, step)
        set_rate(optimizer, step)
        optimizer.zero_grad()
        share = plan.share_of_loss(model(tokens), following)
        (comm.world_size * share).backward()  # gradients are averaged, and shares are to be added up
        model.clip_grad_norm(MAX_NORM)
        optimizer.step()
        return share.item()

    return WayOnRank(one_by_one(train_one), list(model.parameters()), optimizer, model.state_dict)

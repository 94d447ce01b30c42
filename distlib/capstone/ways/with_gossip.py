"""Gossip, lesson 08: a model on every rank, averaged with those of two neighbors in each step.

rank 3 ──model──► rank 0 ◄──model── rank 1        and then a step of its own, along the gradient of its part

The models differ, and stay near each other. What comes out of the training is their mean.
"""

from __future__ import annotations

import torch

from distlib.capstone.train_alone import new_optimizer, set_rate
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, Weights, clip_in_each_step, one_by_one
from distlib.communicator import Communicator, ReduceOp
from distlib.training.gossip import Schedule, decentralized_step
from distlib.training.large_batch import all_reduce_together
from distlib.training.mixing import metropolis_weights, ring


def with_gossip(comm: Communicator, plan: CapstonePlan, *, schedule: Schedule | None = None) -> WayOnRank:
    """Train with neighbors only.

    Args:
        schedule: of mixing matrices; None: a ring.

    Raises:
        ValueError: a schedule for another number of ranks, or a batch with fewer sequences than ranks.
    """
    matrices = metropolis_weights(ring(comm.world_size)) if schedule is None else schedule
    model = plan.whole_model(comm)
    optimizer = new_optimizer(model.parameters())

    def train_one(step: int) -> float:
        shares: list[float] = []

        def losses(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
            shares.append(plan.share_of_loss(scores.detach(), following).item())
            return plan.loss_by_sequence(scores, following)

        set_rate(optimizer, step)
        decentralized_step(comm, model, losses, plan.part(comm, step), optimizer, matrices, step)
        return shares[0]

    def mean_model() -> Weights:
        found = {name: each.detach().clone() for name, each in model.state_dict().items()}
        all_reduce_together(comm, list(found.values()), ReduceOp.AVG)
        return found

    clip_in_each_step(optimizer, list(model.parameters()))
    return WayOnRank(one_by_one(train_one), list(model.parameters()), optimizer, mean_model)

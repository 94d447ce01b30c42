"""Local steps, lesson 06b: each rank trains a model of its own for some steps; then all take the average model.

rank 0    step step step step ┐
rank 1    step step step step ┼─ all-reduce of the parameters ──► every rank: the average model
rank 2    step step step step ┘

AdamW's states stay with their rank, and each rank clips its own gradient. Both are not linear: so not even with an
average after each step is this the training of one process, as it is with plain SGD.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import torch

from distlib.arguments import check_integer
from distlib.capstone.train_alone import new_optimizer, set_rate
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, clip_in_each_step
from distlib.communicator import Communicator
from distlib.training.large_batch import local_sgd_round


def with_local_sgd(comm: Communicator, plan: CapstonePlan, *, round_steps: int = 4) -> WayOnRank:
    """Train with local steps.

    Args:
        round_steps: H, steps between two averages. Also the last of the steps that are asked for ends a round.

    Raises:
        ValueError: H below 1, or a batch with fewer sequences than ranks.
    """
    check_integer("with_local_sgd", "round_steps", round_steps, 1)
    model = plan.whole_model(comm)
    optimizer = new_optimizer(model.parameters())
    coming: list[int] = []  # steps of this round that are still to come
    shares: list[float] = []

    def losses(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        step = coming.pop(0)
        set_rate(optimizer, step)
        shares.append(plan.share_of_loss(scores.detach(), following).item())
        return plan.loss_by_sequence(scores, following)

    def train(steps: Iterable[int]) -> list[float]:
        shares.clear()
        for _, members in groupby(steps, lambda step: step // round_steps):
            coming.extend(members)
            local_sgd_round(comm, model, losses, [plan.part(comm, step) for step in coming], optimizer)
        return list(shares)

    clip_in_each_step(optimizer, list(model.parameters()))
    return WayOnRank(train, list(model.parameters()), optimizer, model.state_dict)

"""One process: what all others are held against.

rank 0    batch ──► forward, backward ──► clip ──► AdamW          no messages
"""

from __future__ import annotations

from distlib.capstone.train_alone import new_optimizer, step_alone
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, one_by_one
from distlib.communicator import Communicator


def alone(comm: Communicator, plan: CapstonePlan) -> WayOnRank:
    """Train in one process.

    Raises:
        ValueError: more than one rank.
    """
    if comm.world_size != 1:
        raise ValueError(f"the way alone expected 1 rank, got {comm.world_size}: each would train the same model")
    model = plan.whole_model(comm)
    optimizer = new_optimizer(model.parameters())

    def train_one(step: int) -> float:
        return step_alone(model, optimizer, plan.task, step)

    return WayOnRank(one_by_one(train_one), list(model.parameters()), optimizer, model.state_dict)

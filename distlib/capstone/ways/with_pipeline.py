"""A pipeline, lesson 09: each rank has some of the layers, and microbatches go through them.

rank 0    embedding, layer 0 ──activations──► rank 1    layers 1, 2 ──activations──► rank 2    layer 3, head, loss
                             ◄──gradients────                       ◄──gradients────

Each rank has the gradients of its own layers alone. So the norm by which all are clipped is a sum over the ranks.
"""

from __future__ import annotations

from distlib.capstone.train_alone import MAX_NORM, loss_of_scores, new_optimizer, set_rate
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, Weights, one_by_one, put_together
from distlib.communicator import Communicator
from distlib.training.mesh.global_norm import clip_over_groups
from distlib.training.pipeline import Pipeline, stages_of
from distlib.training.schedules import one_forward_one_backward


def with_pipeline(comm: Communicator, plan: CapstonePlan, *, microbatches: int = 4) -> WayOnRank:
    """Train with a stage of the model on each rank, by the schedule 1F1B.

    Args:
        microbatches: of a batch.

    Raises:
        ValueError: more ranks than layers, or more microbatches than sequences.
    """
    stages = stages_of(plan.whole_model(comm), comm.world_size)
    schedule = one_forward_one_backward(comm.world_size, microbatches)
    pipeline = Pipeline(comm, stages, schedule, lambda scores, following: loss_of_scores(plan.task, scores, following))
    parameters = list(pipeline.parameters())
    optimizer = new_optimizer(parameters)

    def train_one(step: int) -> float:
        tokens, following = plan.batch(comm, step)
        set_rate(optimizer, step)
        optimizer.zero_grad()
        loss = pipeline.step(tokens, following)
        clip_over_groups([comm], [(each, 1.0) for each in parameters], MAX_NORM)
        optimizer.step()
        return loss or 0.0  # None where the last stage is not

    def whole() -> Weights:
        return put_together(comm, plan.plain_weights(), stages[comm.rank].state_dict())

    return WayOnRank(one_by_one(train_one), parameters, optimizer, whole)

"""Tensor parallelism, lesson 10: every layer is cut, and each rank has its part of each.

rank 0    heads 0, 1   ┐               ┌  hidden features 0 to 255   ┐
rank 1    heads 2, 3   ┴─ all-reduce ──┴  hidden features 256 to 511 ┴─ all-reduce ──► the next layer

Every rank sees the whole batch. Norms and some biases are copied to every rank: in the norm of the gradients they count
once.
"""

from __future__ import annotations

from distlib.capstone.train_alone import MAX_NORM, new_optimizer, set_rate
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, Weights, one_by_one, put_together
from distlib.communicator import Communicator
from distlib.training.mesh import cut_parameters, cuts_of
from distlib.training.mesh.global_norm import clip_over_groups
from distlib.training.mesh.plain_transformer import plain_state
from distlib.training.tensor_parallel import vocabulary_parallel_cross_entropy


def with_tensor_parallel(comm: Communicator, plan: CapstonePlan) -> WayOnRank:
    """Train with every layer cut.

    Raises:
        ValueError: the ranks do not divide the vocabulary, the heads or the hidden features.
    """
    model = plan.cut_model(comm, comm)
    optimizer, cut = new_optimizer(model.parameters()), cut_parameters(model)
    counts = [(each, 1.0 if comm.rank == 0 or each in cut else 0.0) for each in model.parameters()]

    def train_one(step: int) -> float:
        tokens, following = plan.batch(comm, step)
        set_rate(optimizer, step)
        optimizer.zero_grad()
        loss = vocabulary_parallel_cross_entropy(comm, *plan.task.counted(model(tokens), following))
        loss.backward()
        clip_over_groups([comm], counts, MAX_NORM)
        optimizer.step()
        return loss.item() / comm.world_size  # every rank has the whole loss

    def whole() -> Weights:
        cuts = cuts_of(model)
        own = {name: each for name, each in model.state_dict().items() if comm.rank == 0 or name in cuts}
        return plain_state(put_together(comm, plan.first_weights(), own, cuts))

    return WayOnRank(one_by_one(train_one), list(model.parameters()), optimizer, whole)

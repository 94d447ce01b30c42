"""Three directions at once, lesson 12: dp × pp × tp.

batch ──dp──► replica 0    stage 0 ──pp──► stage 1        each stage on the ranks of one tp group, which
              replica 1    stage 0 ──pp──► stage 1        all-reduce inside every layer
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from distlib.capstone.train_alone import BETAS, MAX_NORM, RATE, set_rate
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, Weights, one_by_one, put_together
from distlib.communicator import Communicator
from distlib.training.mesh import HybridTrainer, Mesh, cuts_of
from distlib.training.mesh.plain_transformer import plain_state
from distlib.training.pipeline import stages_of
from distlib.training.schedules import one_forward_one_backward
from distlib.training.tensor_parallel import vocabulary_parallel_cross_entropy


def with_mesh(
    comm: Communicator, plan: CapstonePlan, *, sizes: Mapping[str, int] | None = None, microbatches: int = 4
) -> WayOnRank:
    """Train on a mesh.

    Args:
        sizes: of the axes dp, pp and tp; None: pp 2, tp 2, and dp as many as there are then.
        microbatches: of a replica's part of the batch.

    Raises:
        ValueError: sizes that do not fit the ranks or the model, or a batch that the replicas do not divide.
    """
    mesh = Mesh(comm, sizes or _default_sizes(comm.world_size))
    dp, pp, tp = mesh["dp"], mesh["pp"], mesh["tp"]
    stages = stages_of(plan.cut_model(comm, tp), pp.size)

    def loss_of(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return vocabulary_parallel_cross_entropy(tp, *plan.task.counted(scores, following))

    schedule = one_forward_one_backward(pp.size, microbatches)
    trainer = HybridTrainer(mesh, stages, schedule, loss_of, torch.optim.AdamW, lr=RATE, betas=BETAS)
    optimizer = trainer.optimizer.optimizer

    def train_one(step: int) -> float:
        set_rate(optimizer, step)
        loss = trainer.step(*plan.batch(comm, step), max_norm=MAX_NORM)
        return (loss or 0.0) / (dp.size * tp.size)  # the ranks of a last stage have its replica's loss

    def whole() -> Weights:
        (stage,) = trainer.stages.values()
        cuts, own = cuts_of(stage), {}
        if dp.rank == 0:
            own = {name: each for name, each in stage.state_dict().items() if tp.rank == 0 or name in cuts}
        return plain_state(put_together(comm, plan.first_weights(), own, cuts))

    return WayOnRank(
        one_by_one(train_one),
        [each for stage in trainer.stages.values() for each in stage.parameters()],
        optimizer,
        whole,
    )


def _default_sizes(ranks: int) -> dict[str, int]:
    if ranks % 4:
        raise ValueError(
            f"the way mesh expected a number of ranks that 4 divides, for pp 2 × tp 2, got {ranks}: take 4 or 8"
        )
    return {"dp": ranks // 4, "pp": 2, "tp": 2}

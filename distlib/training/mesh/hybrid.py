"""A step in three directions at once: a pipeline along pp, of layers that are cut along tp, averaged along dp.

    batch ──dp──► replica 0    stage 0 ──pp──► stage 1         each stage on the ranks of one tp group, which
                  replica 1    stage 0 ──pp──► stage 1         all-reduce inside every layer
                               └── dp: averages of each stage's gradients ──┘

    mesh = Mesh(comm, {"dp": 2, "pp": 2, "tp": 2})
    model = SmallTransformer(vocabulary=64, features=32, hidden=128, heads=4, num_layers=4).layers(mesh["tp"])
    schedule = one_forward_one_backward(mesh["pp"].size, num_microbatches=4)
    trainer = HybridTrainer(mesh, stages_of(model, 2), schedule, loss_function, torch.optim.AdamW, lr=1e-3)
    for tokens, following in batches:
        trainer.step(tokens, following)            # the whole batch on every rank; each takes its part

What may change along dp is the ZeRO stage:

    stage    sent along dp, per step of m microbatches       with a pipeline
    0        1 all-reduce of the gradients                   the plain way
    1        1 reduce-scatter, 1 all-gather                  as many bytes
    2        m reduce-scatters, 1 all-gather                 each backward pass frees its gradients, so each sends them
    3        m reduce-scatters, up to 2m all-gathers         each microbatch gathers every layer again

Stages 2 and 3 can't have weights that two stages of the pipeline share: these add up their gradients after the last
microbatch, when no rank has them whole any more. At stage 3 two layers of one stage can't share a weight, either. Nor
can stages 2 and 3 have backward passes in two halves. So with a pipeline many trainers stop at stage 1; DeepSpeed's
refuses the others.

Sources: D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC
2021; S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from distlib.arguments import check_integer
from distlib.training.mesh.cut_parameters import check_layers, cut_parameters
from distlib.training.mesh.global_norm import Counted, clip_over_groups
from distlib.training.mesh.rank_mesh import Mesh
from distlib.training.mesh.replicated_optimizer import ReplicatedOptimizer
from distlib.training.mesh.sharded_stages import ShardedStages
from distlib.training.pipeline import Pipeline
from distlib.training.pipeline.executor import LossFunction
from distlib.training.pipeline.tied import tied_weights
from distlib.training.schedules import Costs, Schedule
from distlib.training.schedules.actions import WEIGHT, ranks_of_stages
from distlib.training.zero import FullyShardedModule, ShardedGradients, ShardedOptimizer

AXES = ("dp", "pp", "tp")


class HybridTrainer:
    """One rank's part of a training on a mesh with the axes dp, pp and tp, in any order.

    In a SimulatedWorld it takes contexts="threads".

    Args:
        mesh: of this rank.
        stages: all stages of the model, as `stages_of` cuts them, made of layers that `mesh["tp"]` shares; with the
            same weights on every replica.
        schedule: by rank of `mesh["pp"]`, its actions.
        loss_function: (outputs, targets) → the mean loss over the samples, the same on all ranks of `mesh["tp"]`.
        optimizer_class: of torch.optim.
        zero_stage: what is sharded along dp, 0 to 3; see the text of this module.
        recompute, costs: as of `Pipeline`.
        defaults: of the optimizer, such as lr=1e-3.

    Attributes:
        stages: by number, the stages of this rank.
        pipeline: see `Pipeline`; its `record` is of the last step.
        optimizer: `ReplicatedOptimizer`, `ShardedOptimizer`, `ShardedGradients` or `ShardedStages`, by ZeRO stage.
        norm: of all gradients in the last step that clipped them, before it did.

    Raises:
        ValueError: a mesh with other axes; a schedule that does not fit it; a ZeRO stage that can't be had; layers with
            copies whose gradients would have to be added up, see `check_layers`.
    """

    def __init__(
        self,
        mesh: Mesh,
        stages: Sequence[nn.Module],
        schedule: Schedule,
        loss_function: LossFunction,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        zero_stage: int = 0,
        recompute: bool = False,
        costs: Costs | None = None,
        **defaults: Any,
    ) -> None:
        if set(mesh.names) != set(AXES):
            raise ValueError(
                f"expected a mesh with the axes dp, pp and tp, some of size 1, got {', '.join(mesh.names)}"
            )
        tied = tied_weights(stages, ranks_of_stages(schedule))
        _check_zero_stage(zero_stage, bool(tied), schedule)
        if zero_stage == 3:
            _check_not_shared(stages)
        for stage in stages:
            check_layers(stage)
        self.mesh = mesh
        self.norm: float | None = None
        owners = ranks_of_stages(schedule)
        self.stages = {number: each for number, each in enumerate(stages) if owners.get(number) == mesh["pp"].rank}
        if not any(each.requires_grad for stage in self.stages.values() for each in stage.parameters()):
            raise ValueError(
                f"expected parameters to train on every rank of pp, got none on rank {mesh['pp'].rank}: put layers "
                "that are frozen, or have no parameters, into a stage with others"
            )
        self._not_counted = self._copies() | self._shared_with_earlier_stages(tied)
        self._norm_groups = [mesh["tp"], mesh["pp"]] + [mesh["dp"]] * (zero_stage > 0)
        modules: dict[int, nn.Module] = dict(self.stages)
        if zero_stage == 3:
            modules = {number: FullyShardedModule(mesh["dp"], each) for number, each in self.stages.items()}
        stages = [modules.get(number, each) for number, each in enumerate(stages)]
        self.pipeline = Pipeline(mesh["pp"], stages, schedule, loss_function, recompute=recompute, costs=costs)
        self.optimizer = _make_optimizer(mesh, modules, zero_stage, optimizer_class, **defaults)

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, max_norm: float | None = None) -> float | None:
        """Train on a batch.

        Args:
            inputs, targets: [samples, …], the whole batch on every rank. Replica d takes part d of dp equal parts.
            max_norm: where given, gradients are clipped so that their norm over the whole mesh is at most this.

        Returns:
            On the ranks of the last stage the mean loss over the replica's part of the batch; None elsewhere. The mean
            over the replicas is the loss of the batch.

        Raises:
            ValueError: a batch that the replicas do not divide; see `Pipeline.step`.
        """
        self.optimizer.zero_grad()
        loss = self.pipeline.step(self._own_part(inputs), self._own_part(targets))
        self.optimizer.average_gradients()
        if max_norm is not None:
            self.norm = clip_over_groups(self._norm_groups, self._counted(), max_norm)
        self.optimizer.step()
        return loss

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The tensors of this rank's stages, whole along dp and cut along tp; every rank must call it."""
        found: dict[str, torch.Tensor] = {}
        for stage in self.pipeline.stages.values():
            found |= stage.state_dict()
        return found

    def _own_part(self, batch: torch.Tensor) -> torch.Tensor:
        replicas = self.mesh["dp"]
        if len(batch) % replicas.size:
            raise ValueError(
                f"expected a batch that {replicas.size} replicas divide, got {len(batch)} samples: in the average "
                "over dp each replica counts the same, so each must have as many samples as the others"
            )
        return batch.tensor_split(replicas.size)[replicas.rank]

    # ── what counts in the norm ──────────────────────────────────────────────────────────────────────────────────────

    def _copies(self) -> set[nn.Parameter]:
        """What the rank of the tp group that counts it has as well."""
        if self.mesh["tp"].rank == 0:
            return set()
        return {each for stage in self.stages.values() for each in set(stage.parameters()) - cut_parameters(stage)}

    def _shared_with_earlier_stages(self, tied: Sequence[tuple[nn.Parameter, list[int]]]) -> set[nn.Parameter]:
        """Weights that two stages share are counted by the first of their ranks."""
        return {parameter for parameter, ranks in tied if self.mesh["pp"].rank != ranks[0]}

    def _weight(self, parameter: nn.Parameter) -> float:
        return 0.0 if parameter in self._not_counted else 1.0

    def _counted(self) -> Counted:
        if isinstance(self.optimizer, ReplicatedOptimizer):
            return [(parameter, self._weight(parameter)) for parameter in self.optimizer.parameters]
        counted = []
        for unit in self.optimizer.units:
            layout, own = unit.layout, unit.parameters
            weights = {name: torch.full(shape, self._weight(own[name])) for name, shape in layout.shapes.items()}
            counted.append((unit.shard, layout.shard(layout.flatten(weights), unit.comm.rank)))
        return counted


def _make_optimizer(
    mesh: Mesh,
    stages: dict[int, Any],
    zero_stage: int,
    optimizer_class: type[torch.optim.Optimizer],
    **defaults: Any,
) -> ReplicatedOptimizer | ShardedOptimizer | ShardedStages:
    if zero_stage == 3:
        return ShardedStages(stages, optimizer_class, **defaults)
    whole = nn.ModuleDict({str(number): stage for number, stage in stages.items()})
    kinds = (ReplicatedOptimizer, ShardedOptimizer, ShardedGradients)
    return kinds[zero_stage](mesh["dp"], whole, optimizer_class, **defaults)


def _check_zero_stage(zero_stage: int, tied: bool, schedule: Schedule) -> None:
    check_integer("HybridTrainer", "zero_stage", zero_stage, 0, 3)
    if zero_stage >= 2 and tied:
        raise ValueError(
            f"expected ZeRO stage 0 or 1, since two stages of the model share a weight, got {zero_stage}: the stages "
            f"add up its gradients after the last microbatch, and stage {zero_stage} has cut them up by then"
        )
    if zero_stage >= 2 and any(action.kind == WEIGHT for row in schedule for action in row):
        raise ValueError(
            f"expected ZeRO stage 0 or 1, since the schedule has backward passes in two halves, got {zero_stage}: it "
            "sends gradients when a backward pass is over, and expects all of them then"
        )


def _check_not_shared(stages: Sequence[nn.Module]) -> None:
    """At stage 3 each layer is a unit, which is gathered and freed by itself."""
    for number, stage in enumerate(stages):
        names: dict[nn.Parameter, list[str]] = {}
        for name, parameter in stage.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, []).append(name)
        for shared in names.values():
            if len(shared) > 1:
                raise ValueError(
                    f"expected ZeRO stage 0, 1 or 2, since {' and '.join(shared)} of stage {number} are one weight, "
                    "got 3: each layer is freed by itself, and the weight with one of them"
                )

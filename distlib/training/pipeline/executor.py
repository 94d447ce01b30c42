"""A model over several ranks, trained by any schedule.

    rank 0   stage 0   ──activations──►   rank 1   stage 1   ──activations──►   rank 2   stage 2, loss
                       ◄───gradient────                      ◄───gradient────

    schedule = one_forward_one_backward(comm.world_size, num_microbatches=8)
    pipeline = Pipeline(comm, stages_of(model, comm.world_size), schedule, cross_entropy)
    optimizer = SGD(pipeline.parameters(), lr=0.1)
    for inputs, labels in batches:
        optimizer.zero_grad()
        pipeline.step(inputs, labels)             # all microbatches, forward and backward
        optimizer.step()                          # each rank its own stages

The gradients are those of the mean loss over the batch, as in one process. The sums over the microbatches are done in
another order, so they are equal to rounding. Each boundary between ranks costs 2m messages per step for m microbatches:
the activations of the whole batch forward, and as many bytes backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn

from distlib.communicator import Communicator
from distlib.training.pipeline.activations import ActivationMeter, Key
from distlib.training.pipeline.messages import Messages
from distlib.training.pipeline.passes import StagePasses
from distlib.training.pipeline.plan import plan_of
from distlib.training.pipeline.shapes import Forms, agree_on_forms
from distlib.training.pipeline.tied import sum_up_gradients, tied_weights
from distlib.training.schedules.actions import BACKWARD, FORWARD, INPUT, WEIGHT, Action, Schedule
from distlib.training.schedules.timing import ActionSpan, Costs

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes outputs and targets, returns the mean loss over the samples."""


@dataclass
class StepRecord:
    """What one rank did in one step.

    Attributes:
        spans: its actions in order, with their times on the rank's clock.
        kept: after each action, by stage and microbatch, the bytes that are kept for the backward pass.
        peak_bytes: the most bytes that were kept at the same time, also during an action.
    """

    spans: list[ActionSpan] = field(default_factory=list)
    kept: list[dict[Key, int]] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def most_live(self) -> int:
        """The most microbatches of which something was kept at the same time. With several stages, each counts."""
        return max(map(len, self.kept), default=0)


class Pipeline:
    """One rank's part of a model that is cut into stages.

    Args:
        comm: of this rank; as many ranks as the schedule has.
        stages: all stages, as `stages_of` cuts them, with the same weights on every rank. This rank keeps its own. A
            parameter that two stages share stays the same on their ranks.
        schedule: by rank, its actions.
        loss_function: (outputs, targets) → the mean loss over the samples.
        recompute: keep only the input of each microbatch, and run the forward pass again in the backward pass. Layers
            that count their forward passes, such as BatchNorm, then see each microbatch twice.
        costs: what each action takes: the rank sleeps that long (see `Communicator.sleep`), for virtual time or for a
            pipeline that can be watched. None: nothing is added.
        ahead: for how many coming actions receives are posted.

    With a schedule of halves ("I" and "W"), a stage that is an `nn.Sequential` is cut at its layers, and none of them
    may change its input in place. A stage must not begin with a layer that does.

    Attributes:
        stages: by number, the stages of this rank.
        record: of the last step.

    Raises:
        ScheduleError: the schedule cannot be executed.
        ValueError: another number of ranks or of stages than the schedule has.
    """

    def __init__(
        self,
        comm: Communicator,
        stages: Sequence[nn.Module],
        schedule: Schedule,
        loss_function: LossFunction,
        *,
        recompute: bool = False,
        costs: Costs | None = None,
        ahead: int = 1,
    ) -> None:
        self._comm, self._plan = comm, plan_of(schedule)
        self._loss_function, self._costs, self._ahead = loss_function, costs, ahead
        if len(self._plan.rows) != comm.world_size:
            raise ValueError(f"expected a schedule for {comm.world_size} ranks, got one for {len(self._plan.rows)}")
        if len(stages) != self._plan.num_stages:
            raise ValueError(f"expected {self._plan.num_stages} stages, as the schedule has, got {len(stages)}")
        rank_of = self._plan.rank_of
        self.stages = {number: stage for number, stage in enumerate(stages) if rank_of[number] == comm.rank}
        self._tied = [(each, ranks) for each, ranks in tied_weights(stages, rank_of) if comm.rank in ranks]
        self._in_halves = any(action.kind == WEIGHT for action in self._plan.rows[comm.rank])
        self._recompute = recompute
        self._forms: Forms | None = None
        self.record = StepRecord()

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of this rank's stages, each once."""
        seen = dict.fromkeys(each for stage in self.stages.values() for each in stage.parameters())
        return iter(seen)

    def step(self, inputs: torch.Tensor | None = None, targets: torch.Tensor | None = None) -> float | None:
        """Run all microbatches forward and backward, and add to the gradients of this rank's parameters.

        Args:
            inputs: [samples, …], used by the rank of the first stage. Each batch has the shape of the first one.
            targets: [samples, …], used by the rank of the last stage.

        Returns:
            On the rank of the last stage the mean loss over the batch; None elsewhere.

        Raises:
            ValueError: stages that do not fit together; a batch that is not there where it is needed, is not like the
                first one, or has fewer samples than there are microbatches.
        """
        if self._plan.num_microbatches == 0:
            return None
        if 0 in self.stages and inputs is None:
            raise ValueError(f"expected inputs on rank {self._comm.rank}, which has the first stage, got None")
        if self._forms is None:
            self._forms = agree_on_forms(self._comm, self._plan, self.stages, inputs)
        self._check(inputs, targets)
        loss = _RankStep(self, self._forms, inputs, targets).run()
        sum_up_gradients(self._comm, self._tied)
        return loss

    @property
    def _has_loss(self) -> bool:
        return self._plan.num_stages - 1 in self.stages

    def _check(self, inputs: torch.Tensor | None, targets: torch.Tensor | None) -> None:
        assert self._forms is not None
        if 0 in self.stages:
            assert inputs is not None
            wanted = (self._forms.batch, *self._forms.inputs[0][0].shape[1:])
            if tuple(inputs.shape) != wanted:
                raise ValueError(
                    f"expected inputs of shape {wanted}, as in the first step, got {tuple(inputs.shape)}: all ranks "
                    "have buffers for that shape. Make another Pipeline for batches of another shape"
                )
        if self._has_loss and (targets is None or len(targets) != self._forms.batch):
            got = "None" if targets is None else len(targets)
            raise ValueError(
                f"expected {self._forms.batch} targets on rank {self._comm.rank}, which has the last stage, got {got}"
            )


class _RankStep:
    """One step of one rank."""

    def __init__(
        self, pipeline: Pipeline, forms: Forms, inputs: torch.Tensor | None, targets: torch.Tensor | None
    ) -> None:
        self._comm, self._plan, self._costs = pipeline._comm, pipeline._plan, pipeline._costs
        self._loss_function, self._forms = pipeline._loss_function, forms
        self._messages = Messages(self._comm, self._plan, forms, pipeline._ahead)
        self._meter = ActivationMeter(pipeline.parameters())
        self._passes = {
            number: StagePasses(number, module, self._meter, pipeline._in_halves, pipeline._recompute)
            for number, module in pipeline.stages.items()
        }
        self._inputs = inputs.split(forms.lengths) if inputs is not None and 0 in pipeline.stages else ()
        self._targets = targets.split(forms.lengths) if targets is not None and pipeline._has_loss else ()
        self._loss = 0.0 if pipeline._has_loss else None
        self.record = pipeline.record = StepRecord()

    def run(self) -> float | None:
        for action in self._plan.rows[self._comm.rank]:
            arrived = self._messages.receive(action)
            start = self._comm.time()
            result = self._do(action, arrived)
            if self._costs is not None:
                self._comm.sleep(self._costs.of(action))
            self.record.spans.append(ActionSpan(action, start, self._comm.time()))
            self.record.kept.append(self._meter.kept)
            if result is not None:
                self._messages.send(action, result)
        self._messages.finish()
        self.record.peak_bytes = self._meter.peak_bytes
        return self._loss

    def _do(self, action: Action, arrived: torch.Tensor | None) -> torch.Tensor | None:
        passes, microbatch = self._passes[action.stage], action.microbatch
        if action.kind == FORWARD:
            return self._forward(action, self._inputs[microbatch] if arrived is None else arrived)
        if action.kind == BACKWARD:
            return passes.backward(microbatch, arrived)
        if action.kind == INPUT:
            return passes.backward_input(microbatch, arrived)
        passes.backward_weight(microbatch)
        return None

    def _forward(self, action: Action, inputs: torch.Tensor) -> torch.Tensor | None:
        passes, microbatch = self._passes[action.stage], action.microbatch
        if action.stage < self._plan.num_stages - 1:
            return passes.forward(microbatch, inputs)
        # A microbatch counts by its samples, so that the sum is the mean over the batch also where they differ in size.
        share = self._forms.lengths[microbatch] / self._forms.batch
        loss = passes.forward(microbatch, inputs, partial(self._share_of_loss, self._targets[microbatch], share))
        assert self._loss is not None
        self._loss += float(loss)
        return None

    def _share_of_loss(self, targets: torch.Tensor, share: float, outputs: torch.Tensor) -> torch.Tensor:
        return self._loss_function(outputs, targets) * share

"""Cases for stages of a pipeline: a plan, what each rank is given for it, and what a single process computes.

Plan("1F1B", schedule, samples=[2, 2, 1])       3 microbatches, the last one smaller
rank 0   tanh(linear) of 3 features ──► 5  ──►  rank 1   5 ──► 4  ──►  rank 2   4 ──► 2  ──►  loss
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.task import Draw
from distlib.exercises.pipeline.plays import LOSSES, one_stage
from distlib.training.schedules import Action, Schedule, gpipe
from distlib.training.schedules.execution import awaited_actions

FEATURES = (3, 5, 4, 2)  # where the test cell names none


@dataclass(frozen=True)
class Plan:
    """What ranks do, one stage on each.

    Attributes:
        name: of the schedule.
        schedule: by rank.
        samples: of each microbatch; empty: 2 of each.
        loss: which function, one of `LOSSES`.
        calls: how often it is carried out, with the same arguments. What is judged is the last time.
        features: of what goes into stage 0, 1, …, and so on from the beginning.
    """

    name: str
    schedule: Schedule
    samples: Sequence[int] = ()
    loss: str = "squared error"
    calls: int = 1
    features: Sequence[int] = FEATURES


def drawn_plan(draw: Draw, ranks: int, microbatches: int) -> Plan:
    """Any schedule that can be executed: one action after another whose needs are met.

    Microbatches have 1 to 4 samples, stages 1 to 7 features.
    """
    rows: list[list[Action]] = [[] for _ in range(ranks)]
    waiting = awaited_actions(gpipe(ranks, microbatches))
    while waiting:
        action = draw.choice(sorted(each for each, needs in waiting.items() if not waiting.keys() & needs))
        rows[action.stage].append(action)
        del waiting[action]
    samples = [draw.randint(1, 4) for _ in range(microbatches)]
    return Plan("drawn", rows, samples, features=[draw.randint(1, 7) for _ in range(ranks + 1)])


def stage_case(draw: Draw, plan: Plan) -> Case:
    """The case of a plan. Its facts are the plan, with its samples."""
    ranks, last = len(plan.schedule), len(plan.schedule) - 1
    samples = list(plan.samples or [2] * (len(plan.schedule[0]) // 2))
    features = [plan.features[stage % len(plan.features)] for stage in range(ranks + 1)]
    inputs: list[dict[str, Any]] = [
        {
            "weight": draw.normal((features[rank + 1], features[rank])) / 2,
            "bias": draw.normal((features[rank + 1],)) / 2,
            "loss": plan.loss,
            "calls": plan.calls,
            "actions": [str(action) for action in row],
            "shapes": [[each, features[rank]] for each in samples],
            "inputs": [draw.normal((each, features[0])) for each in samples] if rank == 0 else None,
            "targets": [draw.normal((each, features[ranks])) for each in samples] if rank == last else None,
        }
        for rank, row in enumerate(plan.schedule)
    ]
    title = f"on {count(ranks, 'rank')}, {plan.name}, batch of {' + '.join(map(str, samples))}"
    title += f", {plan.loss}" * (plan.loss != Plan.loss) + ", called twice" * (plan.calls == 2)
    return Case(title, one_stage, inputs, replace(plan, samples=samples))


class Alone:
    """What a single process computes for a case.

    Args:
        inputs: of all ranks.
        samples: of each microbatch.

    Attributes:
        samples: as given.
        values: by stage, then microbatch, what goes into it; at the end what comes out of the last one.
        arriving: by stage, then microbatch, the gradient of its output.
        parameters: by stage, weight and bias with their gradients.
        loss, losses: of the batch, and of each microbatch: means over samples.
        other_losses: of the batch, by the functions that are not asked for.
    """

    def __init__(self, inputs: Sequence[dict[str, Any]], samples: Sequence[int]) -> None:
        self.samples, targets = list(samples), inputs[-1]["targets"]
        self.parameters = [[given[name].clone().requires_grad_() for name in ("weight", "bias")] for given in inputs]
        whole = [torch.cat(inputs[0]["inputs"])]
        for weight, bias in self.parameters:
            whole.append(torch.tanh(torch.nn.functional.linear(whole[-1], weight, bias)))
        others = dict(LOSSES)
        function = others.pop(inputs[-1]["loss"])
        loss = function(whole[-1], torch.cat(targets))
        gradients = torch.autograd.grad(loss, whole[1:], retain_graph=True)
        loss.backward()
        self.values = [each.detach().split(self.samples) for each in whole]
        self.arriving = [each.split(self.samples) for each in gradients]
        self.loss = loss.item()
        self.losses = [function(*pair).item() for pair in zip(self.values[-1], targets, strict=True)]
        self.other_losses = [other(whole[-1], torch.cat(targets)).item() for other in others.values()]

    def share(self, stage: int, i: int) -> list[torch.Tensor]:
        """What microbatch i adds to the gradients of a stage, of weight and bias."""
        before = self.arriving[stage][i] * (1 - self.values[stage + 1][i].square())
        return [before.T @ self.values[stage][i], before.sum(dim=0)]

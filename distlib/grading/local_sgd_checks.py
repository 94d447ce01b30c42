"""The check of local_sgd_round: steps on one's own, then one average of parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.plays.gated import open_gate
from distlib.checks.plays.large_batches import FORWARD, Model, local_rounds
from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, is_close
from distlib.grading.case import count
from distlib.grading.checks import name_of
from distlib.grading.flat_all_reduce import judge_flat_all_reduce
from distlib.grading.large_batch_case import ROUNDED, draw_batch, draw_state, draw_values
from distlib.grading.local_sgd_reference import MISTAKES, Rounds, Tensors, play_mistaken, play_rounds
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.grading.scenario_checks import run_scenarios, seed_for
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene

_RATE = 0.25
_CAUSES = (
    ("'NoneType' object", "a parameter may have no gradient. Average parameters and buffers, not gradients."),
    ("Both need the same number of elements", "every rank averages once, after its last step, and the same tensors."),
)  # fmt: skip


@dataclass(frozen=True)
class _Right:
    """What the check knows: after each round, by rank, the tensors by name; before the average, and after it."""

    plan: Rounds
    alone: list[list[Tensors]]
    averaged: list[list[Tensors]]
    nbytes: int


def check_local_sgd_round(function: Callable[..., object], *, plans: Sequence[Rounds], seed: int = 1) -> ScenarioReport:
    """Check `function(comm, model, loss_function, batches, optimizer)`.

    Every rank takes a step for each of its batches without a message. Then parameters and floating-point buffers are
    averaged over the ranks, in one all-reduce; all_reduce is supplied.

    Args:
        plans: what the ranks do: one case each.
        seed: of the values.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name = name_of(function, ("comm", "model", "loss_function", "batches", "optimizer"))
    seed = seed_for(function, seed)
    cases = [_case(name, plan, seed + number) for number, plan in enumerate(plans)]
    return run_scenarios(
        function, name, cases, _judge, judge_times=_judge_times, helpers=("all_reduce",), causes=_CAUSES
    )


def _case(name: str, plan: Rounds, seed: int) -> ScenarioCase:
    generator = torch.Generator().manual_seed(seed)
    state = draw_state(generator, buffers=plan.buffers, frozen=False)
    shapes = [parameter.shape for parameter in Model(state, open_gate).parameters()]
    inputs = [
        {
            "state": state,
            "loss": plan.loss,
            "rate": _RATE,
            "old": [draw_values(generator, shape) for shape in shapes],
            "rounds": [
                [draw_batch(generator, plan.batch_size + rank, plan.loss) for _ in range(steps)]
                for _ in range(plan.rounds)
            ],
        }
        for rank, steps in enumerate(plan.steps)
    ]
    part = Part(local_rounds, inputs, seed)
    title = f"{name} on {count(len(inputs), 'rank')} with {_told(plan.steps)}{', with buffers' * plan.buffers}"
    title += f", {plan.rounds} rounds" if plan.rounds > 1 else ""
    alone, averaged = play_rounds(part, plan.rounds)
    floats = [tensor for tensor in averaged[0][0].values() if tensor.is_floating_point()]
    nbytes = sum(tensor.numel() * tensor.element_size() for tensor in floats)
    return ScenarioCase(title, part, expected=_Right(plan, alone, averaged, nbytes))


def _told(steps: Sequence[int]) -> str:
    alike = len(set(steps)) == 1
    return count(steps[0], "local step") if alike else f"{', '.join(map(str, steps))} local steps"


def _judge(case: ScenarioCase, scene: Scene) -> Remark | None:
    right: _Right = case.expected
    for rank, steps in enumerate(right.plan.steps):
        gates = [k for k, _ in scene.gates[rank]]
        expected = [gate for k in range(steps * right.plan.rounds) for gate in (FORWARD + k, k)]
        if gates != expected:
            forward = sum(k >= FORWARD for k in gates)
            return Remark(
                f"on rank {rank}, the model went forward {count(forward, 'time')} and backward "
                f"{count(len(gates) - forward, 'time')}; expected once each, in turns, for each batch, "
                f"{count(len(expected) // 2, 'time')} in all.",
                cause="every batch is a step of its own: forward, backward, optimizer.step().",
            )
    for number in range(right.plan.rounds):
        for rank in range(case.world_size):
            by_rank = [each["rounds"][number] for each in scene.results]
            if remark := _judge_round(case, right, number, rank, by_rank):
                return remark
    return judge_flat_all_reduce(
        scene.trace,
        right.nbytes,
        right="the models",
        what="all parameters and buffers",
        too_many_bytes="talk once, after the last step, and only about what is averaged.",
        rounds=right.plan.rounds,
    )


def _judge_round(
    case: ScenarioCase, right: _Right, number: int, rank: int, by_rank: Sequence[Tensors]
) -> Remark | None:
    for name, expected in right.averaged[number][rank].items():
        value = by_rank[rank].get(name)
        if is_close(value, expected):
            continue
        where = f" after round {number + 1}" if right.plan.rounds > 1 else ""
        return Remark(
            f"on rank {rank}, {name} is wrong{where}.",
            compared(expected, value),
            _cause(case, right, number, rank, name, [tensors.get(name) for tensors in by_rank]),
        )
    return None


def _cause(case: ScenarioCase, right: _Right, number: int, rank: int, name: str, by_rank: Sequence[Any]) -> str:
    found = by_rank[rank]
    reached, size = [tensors[name] for tensors in right.alone[number]], case.world_size
    if not reached[0].is_floating_point():
        return "it is a whole number, a count of this rank's own, and is left alone."
    if is_close(found, right.averaged[number][rank][name], relative=1e-4, absolute=1e-7):
        return ROUNDED
    if size > 1 and all(is_close(each, reached[0]) for each in by_rank):
        return "this is what rank 0 had. Average over all ranks."
    total = sum(reached, torch.zeros_like(reached[0]))
    known: list[tuple[torch.Tensor, str]] = [
        (reached[rank], _not_averaged(name)),
        (total, "these are the ranks' values added up. Average them: divide by comm.world_size, or all_reduce with "
         "op=ReduceOp.AVG."),
        (total / size**2, "it was divided by the number of ranks twice."),
    ]  # fmt: skip
    if number:
        known += [(right.averaged[number - 1][rank][name], "it has not changed in this round. The optimizer holds the "
                   "tensors that the model had at first: change them in place, parameter.copy_(…).")]  # fmt: skip
    else:
        known += [(play_mistaken(case.part, mistake)[rank][name], words) for mistake, words in MISTAKES.items()]
    return next((words for value, words in known if is_close(found, value)), "")


def _not_averaged(name: str) -> str:
    if name.startswith("running"):
        return "this is still the rank's own buffer. The buffers that hold floating-point numbers are averaged, too."
    return "this is still the rank's own. Is the average written back into the model, in place: parameter.copy_(…)?"


def _judge_times(case: ScenarioCase, scene: Scene) -> Remark | None:
    """No message of a rank in the first round before its last local step."""
    for rank, steps in enumerate(case.expected.plan.steps):
        (last,) = scene.passed(rank, steps - 1)
        early = [message for message in scene.trace if message.src == rank and message.start < last]
        if early:
            return Remark(
                f"rank {rank} sent {count(len(early), 'message')} before its last local step.",
                cause="local steps need nobody else. Talk once, after them.",
            )
    return None

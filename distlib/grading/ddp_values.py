"""What a student's OverlappedDDP has computed against what a single process computes, and what the difference means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, is_close, shown
from distlib.grading.ddp_case import DdpCase

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


def judge_values(case: DdpCase, results: Sequence[dict[str, Any]]) -> Remark | None:
    """The remark about the first value that differs from that of a single process; None if all are right."""
    for rank, result in enumerate(results):
        if remark := _judge_construction(case, rank, result["constructed"]):
            return remark
    for step in range(case.training.steps):
        for judge in (_judge_buffers, _judge_gradients, _judge_parameters):
            for rank, result in enumerate(results):
                if remark := judge(case, step, rank, result):
                    return remark
    return None


def _judge_construction(case: DdpCase, rank: int, found: Sequence[torch.Tensor]) -> Remark | None:
    expected, names = case.right.constructed, [*case.names, "running.mean"]
    for name, value, right in zip(names, found, expected, strict=True):
        if not _is_close(value, right):
            what = "the buffer" if name == "running.mean" else "the parameter"
            return Remark(
                f"after construction, {what} {name} of rank {rank} is not that of rank 0.",
                (f"rank 0 had   {shown(right)}", f"rank {rank} has   {shown(value)}"),
                "every rank came with weights of its own. broadcast every parameter, and every buffer, in __init__: "
                "also those that are not trained. module.buffers() has the buffers.",
            )
    return None


def _judge_gradients(case: DdpCase, step: int, rank: int, result: dict[str, Any]) -> Remark | None:
    found = result["gradients"][step]
    for number, (value, right) in enumerate(zip(found, case.right.gradients[step], strict=True)):
        own = [gradients[number] for gradients in case.right.own[step]]
        nobody_has_it = all(gradient is None for gradient in own)
        if right is None or _is_close(value, right) or (value is None and nobody_has_it):
            continue
        return Remark(
            f"in step {step + 1}, after finish, the gradient of {case.names[number]} on rank {rank} is wrong.",
            compared(right, value),
            _cause(case, step, rank, number, value),
        )
    return None


def _cause(case: DdpCase, step: int, rank: int, number: int, found: Any) -> str:
    own = [gradients[number] for gradients in case.right.own[step]]
    right, size = case.right.gradients[step][number], case.world_size
    mine = own[rank]
    assert right is not None
    if found is None:
        if own[rank] is None:
            return "this rank has no gradient for it, others have. Afterwards every rank has the average."
        return "it has no gradient any more. Or does the class work on a copy of the module?"
    weights = case.right.parameters[step - 1] if step else case.right.constructed
    known: list[tuple[Any, str]] = [
        (weights[number], "these are the parameters, not their gradients: average parameter.grad."),
        (own[rank], "this is still the rank's own gradient. finish must wait for the all-reduces, divide, and write "
         "the averages into parameter.grad."),
        (torch.zeros_like(right), "these are zeros. Was parameter.grad there when the hook was called? A hook of "
         "parameter.register_hook is called before, one of register_post_accumulate_grad_hook after it."),
        (right * size, "this is the sum over the ranks. Divide it by comm.world_size."),
        (right / size, "it was divided by the number of ranks twice."),
        (None if mine is None else mine / size, "the rank's own gradient was divided, but the others' are not in "
         "it. Did finish wait, work.wait(), before it read the bucket?"),
    ]  # fmt: skip
    for value, words in known:
        if value is not None and _is_close(found, value):
            return words
    there = sum(gradient is not None for gradient in own)
    if there and _is_close(found, right * size / there):
        return "a missing gradient counts as zeros: divide by comm.world_size, however many ranks have one."
    if case.training.passes > 1:
        return (
            "in no_sync, hooks do nothing, and gradients add up in parameter.grad on each rank; the pass after it must "
            "average the sum. Copy parameter.grad as it is when the hook is called, not the gradient of one pass alone."
        )
    if step:
        return (
            "the first step was right. What stays from one step to the next: the bucket's content, counters, handles?"
        )
    return "is each gradient put back into the parameter that it came from, in the same order?"


def _judge_buffers(case: DdpCase, step: int, rank: int, result: dict[str, Any]) -> Remark | None:
    seen, passes = result["seen"], case.training.passes
    for number in range(step * passes, (step + 1) * passes):
        right = case.right.seen[rank][number]
        if len(seen) > number and _is_close(seen[number], right):
            continue
        if len(seen) <= number:
            return Remark(
                f"in step {step + 1}, the module was not called.",
                cause="forward calls the module that was handed over, not a copy of it.",
            )
        details = compared(right, seen[number])
        if (number + 1) % passes:
            return Remark(
                f"in step {step + 1}, in no_sync, the buffer running.mean of rank {rank} is not its own any more.",
                details,
                "in no_sync nothing is sent: forward copies no buffers.",
            )
        return Remark(
            f"in step {step + 1}, rank {rank} computes with a buffer, running.mean, that is not rank 0's.",
            details,
            "every rank has moved its buffers by its own batch. Before each forward pass in training mode, but not in "
            "no_sync, broadcast rank 0's.",
        )
    return None


def _judge_parameters(case: DdpCase, step: int, rank: int, result: dict[str, Any]) -> Remark | None:
    found = result["parameters"][step]
    for name, value, right in zip(case.names, found, case.right.parameters[step], strict=True):
        if not _is_close(value, right):
            return Remark(
                f"after step {step + 1}, {name} on rank {rank} is not what a single process has.",
                compared(right, value),
                "the gradients are right, but the parameters are not: does the class change them itself? That is for "
                "the optimizer.",
            )
    return None


def _is_close(found: Any, right: torch.Tensor) -> bool:
    tolerance = TOLERANCE[right.dtype]
    return is_close(found, right, relative=tolerance, absolute=tolerance)

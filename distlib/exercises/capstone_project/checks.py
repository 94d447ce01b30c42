"""Exercises 19 and 19b: a step by ranks, its costs before the run, a training in a budget, and one that survives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, listed
from distlib.checks.helpers import all_reduce, broadcast, ring_all_gather, ring_reduce_scatter
from distlib.checks.rules.returns import called, shown, type_of
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.supplied import Helper
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.capstone_project.job_cases import Challenge, steps_case, training_case
from distlib.exercises.capstone_project.job_plays import BEGIN, NUMBERS, Adam, gradient_sum, images_of
from distlib.exercises.capstone_project.planned_steps import (
    PlannedStep,
    bytes_between,
    simulated_seconds,
    wrong_seconds,
)
from distlib.exercises.capstone_project.training_run import TrainingRun
from distlib.partition import chunk_lengths, chunk_start

say = Sentences(__file__)
FEWEST = 600  # samples that some rank computed for; the most frugal training that is known takes 1,000
MOST_ABOVE = 2  # times the target: the loss of the weights with which the last gradients are asked for
TOLERANCE = 0.1  # of a predicted time
COLLECTIVES: Sequence[Helper[..., Any]] = [ring_reduce_scatter, ring_all_gather, all_reduce, broadcast]
JOB_ERRORS = (
    ("died", say("died")),
    ("the job is stopped", say("stopped")),
    ("expected weights of", say("weights")),
    ("samples of this rank", say("numbers")),
    ("an optimizer for", say("optimizer")),
    ("must match the size of tensor", say("optimizer")),
    ("has already returned", say("left_early")),
)

SURVIVE_ERRORS = (
    ("Both need the same number of elements", say("out_of_step")),
    ("have to make the same collective calls", say("out_of_step")),
    ("deadlock", say("left_out")),
)


# ── train_step ───────────────────────────────────────────────────────────────────────────────────────────────────────


@task(
    "comm",
    "job",
    "weights",
    "optimizer",
    "batch",
    "shares",
    "rate",
    helpers=COLLECTIVES,
    errors=(("has already returned", say("waits")), *JOB_ERRORS),
)
def check_train_step(draw: Draw, *, shares: Sequence[Sequence[Sequence[int]]]) -> Iterator[Case]:
    """`function(comm, job, weights, optimizer, batch, shares, rate)`; by case and step, the shares of all ranks."""
    yield from (steps_case(draw, each) for each in shares)


@check_train_step.judge
def _(seen: Seen) -> Remarks:
    yield from _charged(seen)
    right = steps_alone(seen.case.inputs[0])
    for step, wanted in enumerate(right):
        for rank in seen.ranks:
            what = f"on rank {rank}, after step {step}, `weights`"
            mistakes = partial(_wrong_weights, seen, rank, step)
            yield holds(what, seen[rank]["weights"][step], wanted, mistakes, same=_is_exact, otherwise=say("step"))
    yield from _step_messages(seen, len(right))


def _charged(seen: Seen) -> Remarks:
    """Each rank has computed for its share, in each step, in one call."""
    for rank in seen.ranks:
        steps: list[list[int]] = []  # of each step, the samples of every call
        for k, _ in seen.played[rank].gates:
            if k == BEGIN:
                steps.append([])
            elif k < BEGIN:
                steps[-1].append(k)
        for step, (calls, shares) in enumerate(zip(steps, seen.facts, strict=True)):
            found = sum(calls)
            if found != shares[rank]:
                cause = say("whole_batch" if found == sum(shares) else "own_share")
                yield say.remark("charged", rank=rank, step=step, found=found, share=shares[rank], cause=cause)
            if len(calls) > 1:
                yield say.remark("many_calls", rank=rank, step=step, calls=len(calls))


def _is_exact(found: Any, right: Any) -> bool:
    return bool(is_close(found, right, relative=0.0, absolute=1e-9))


def steps_alone(inputs: dict[str, Any]) -> list[torch.Tensor]:
    """The weights after each step of one process."""
    images, weights, optimizer, after = images_of(inputs["images"]), inputs["weights"].clone(), Adam(NUMBERS), []
    for batch in inputs["batches"]:
        mean = gradient_sum(weights, images[batch], inputs["labels"][batch]) / len(batch)
        optimizer.step(weights, mean, inputs["rate"])
        after.append(weights.clone())
    return after


def _wrong_weights(seen: Seen, rank: int, step: int) -> dict[str, Any]:
    inputs = seen.case.inputs[0]
    start, stop = (chunk_start(NUMBERS, seen.size, rank + more) for more in (0, 1))
    before, right = [inputs["weights"], *steps_alone(inputs)][step : step + 2]
    own = before.clone()
    own[start:stop] = right[start:stop]
    return {say("nothing_changed"): before, say("not_gathered"): own}


def _step_messages(seen: Seen, steps: int) -> Remarks:
    """A rank sends its way through the ring twice, and no more: it neither gathers nor sends whole gradients."""
    longest = max(chunk_lengths(NUMBERS, seen.size))
    most = steps * 2 * (seen.size - 1) * longest * 8
    for rank, found in enumerate(seen.trace.bytes_sent):
        if found > most:
            per_step = f"{found / steps:,.0f}"
            yield say.remark("too_many_bytes", rank=rank, found=per_step, most=f"{most // steps:,}")


# ── predict_step ─────────────────────────────────────────────────────────────────────────────────────────────────────


@task(
    "numbers",
    "seconds_per_sample",
    "cluster",
    "shares",
    allowed=("distlib.network.cluster",),
    errors=(("KeyError", say("slow_alone")),),
)
def check_predict_step(draw: Draw, *, plans: Sequence[PlannedStep], drawn: int = 0) -> Iterator[Case]:
    """`function(numbers, seconds_per_sample, cluster, shares)`: seconds of a step, and bytes by rank between two.

    `drawn`: how many more plans, on clusters that nobody has seen.
    """
    for plan in (*plans, *(PlannedStep.drawn(draw) for _ in range(drawn))):
        yield called(plan.numbers, plan.seconds_per_sample, plan.cluster, list(plan.shares), facts=plan)


@check_predict_step.judge
def _(seen: Seen) -> Remarks:
    plan, found = seen.facts, seen[0]
    if not (isinstance(found, tuple | list) and len(found) == 2):
        yield say.remark("no_pair", found=shown(found))
        return
    seconds, memory = found
    right = bytes_between(plan)
    if not isinstance(memory, list | tuple) or len(memory) != len(right):
        yield say.remark("no_list", found=shown(memory), ranks=len(right))
        return
    if list(memory) != right:
        cause = _why_bytes(plan, list(memory))
        yield say.remark("bytes", f"expected {right}", f"found    {list(memory)}", cause=cause)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        yield say.remark("no_seconds", type=type_of(seconds))
        return
    measured = simulated_seconds(plan)
    if not abs(seconds - measured) <= TOLERANCE * measured:
        wrong = wrong_seconds(plan)
        causes = (cause for cause, value in wrong.items() if math.isclose(seconds, value, rel_tol=0.02))
        numbers = {"found": f"{seconds:.6g}", "measured": f"{measured:.6g}", "shares": listed(plan.shares)}
        yield say.remark("seconds", cluster=str(plan.cluster), **numbers, cause=next(causes, say("parts_of_step")))


def _why_bytes(plan: PlannedStep, found: list[Any]) -> str:
    ranks, whole = len(plan.shares), 24 * plan.numbers
    if found == [whole] * ranks:
        return say("unsharded_bytes")
    if len(set(found)) == 1 and plan.numbers % ranks:
        return say("same_bytes")
    return say("what_stays")


# ── train ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "job", helpers=COLLECTIVES, errors=JOB_ERRORS, seconds=15.0)
def check_train(draw: Draw, *, settings: Sequence[Challenge]) -> Iterator[Case]:
    """`function(comm, job)`: weights that reach the target, in time, within the memory."""
    yield from (training_case(draw, setting) for setting in settings)


@check_train.judge
def _(seen: Seen) -> Remarks:
    run = TrainingRun(seen)
    yield from _returned(run, say("average_once_more"))
    for rank in seen.ranks:
        held = seen[rank]["alive"]
        if held is not None and held > seen.facts.memory:
            limit, per_number = f"{seen.facts.memory:,.0f}", held / NUMBERS
            yield say.remark("memory", rank=rank, held=f"{held:,}", limit=limit, per_number=f"{per_number:.0f}")
    yield from _honest(run)


def _returned(run: TrainingRun, why_differ: str) -> Remarks:
    """Every living rank has returned the same weights, and these reach the target. `why_differ`: if they are not."""
    returned: list[torch.Tensor] = []
    for rank in run.living:
        weights = run.weights(rank)
        if weights is None:
            yield say.remark("no_weights", rank=rank, found=shown(run.seen[rank]["weights"]), numbers=NUMBERS)
            return
        returned.append(weights)
    for rank, weights in zip(run.living, returned, strict=True):
        if not torch.allclose(weights, returned[0], rtol=0, atol=1e-9):
            yield say.remark("differ", first=run.living[0], rank=rank, cause=why_differ)
    if not run.loss <= run.setting.target * (1 + 1e-9):
        cause = say("never_trained" if run.loss > 2 else "stopped_early")
        yield say.remark("loss", loss=f"{run.loss:.4f}", target=run.setting.target, cause=cause)


def _honest(run: TrainingRun) -> Remarks:
    """The gradients were those of the job, and the judge has seen the whole run."""
    for rank in run.living:
        if not run.is_seen_whole(rank):
            yield say.remark("not_seen_whole", rank=rank)
    if run.charged < FEWEST:
        yield say.remark("too_few_samples", charged=count(run.charged, "sample"))
    if not run.asked_loss <= MOST_ABOVE * run.setting.target:
        yield say.remark("learnt_elsewhere", asked=f"{run.asked_loss:.2f}", loss=f"{run.loss:.2f}")


@check_train.judge_times
def _in_time(seen: Seen) -> Remarks:
    """The training has ended within the budget; else why not."""
    run = TrainingRun(seen)
    if run.seconds > run.setting.budget:
        seconds = {"seconds": f"{run.seconds:.2f}", "computed": f"{run.busiest:.2f}"}
        calls = {"calls": run.calls, "samples": run.charged, "losses": run.losses}
        yield say.remark("late", **seconds, budget=f"{run.setting.budget:g}", **calls, cause=run.why_late())


# ── survive ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "job", helpers=COLLECTIVES, errors=(*JOB_ERRORS, *SURVIVE_ERRORS), seconds=15.0)
def check_survive(draw: Draw, *, settings: Sequence[Challenge]) -> Iterator[Case]:
    """`function(comm, job)`: as `train`, while ranks die; rank 0 lives."""
    yield from (training_case(draw, setting) for setting in settings)


@check_survive.judge
def _(seen: Seen) -> Remarks:
    run = TrainingRun(seen)
    yield from _returned(run, say("last_weights"))
    yield from _honest(run)
    for rank in run.living:
        if not run.samples(rank):
            yield say.remark("idle", rank=rank)


check_survive.judge_times(_in_time)

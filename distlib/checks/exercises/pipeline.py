"""Exercise 09: two schedules, judged by what they are like, and a stage that runs any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from distlib.checks.case import Case
from distlib.checks.plays.stages import half_square, run_actions
from distlib.checks.remark import Remark
from distlib.checks.rules.messages import Way, sends
from distlib.checks.rules.returns import called, shown
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count
from distlib.training import schedules
from distlib.training.schedules import Costs, Schedule, ScheduleError, check_schedule, most_live, parse_schedule
from distlib.training.schedules.actions import actions_of, microbatches_in, stages_in

# fmt: off
MAKERS = {"naive": schedules.naive, "gpipe": schedules.gpipe, "1f1b": schedules.one_forward_one_backward}
FEATURES, SLACK = 4, 1  # SLACK: a name that still holds the microbatch before is forgiven

Sizes = Sequence[tuple[int, int]]
"""Pairs of a number of stages and a number of microbatches."""


@task("num_stages", "num_microbatches")
def check_gpipe(draw: Draw, *, sizes: Sizes) -> Iterator[Case]:
    """`function(num_stages, num_microbatches)` returns by rank a list of actions, such as "2F0"."""
    yield from (called(p, m, facts=(p, m)) for p, m in sizes)


@task("num_stages", "num_microbatches")
def check_one_forward_one_backward(draw: Draw, *, sizes: Sizes) -> Iterator[Case]:
    """As `check_gpipe`."""
    yield from (called(p, m, facts=(p, m)) for p, m in sizes)


@check_gpipe.judge
def _(seen: Seen) -> Remarks:
    yield _misfit(seen)
    schedule = parse_schedule(map(" ".join, seen[0]))
    for rank, row in enumerate(schedule):
        kinds = "".join(action.kind for action in row)
        if "BF" in kinds:
            yield Remark(f"rank {rank} does {row[kinds.index('BF')]} before {row[kinds.index('BF') + 1]}.",
                         cause="in GPipe a rank does all its forward passes first. Then come the backward passes.")
    yield _slow(seen, schedule)


@check_one_forward_one_backward.judge
def _(seen: Seen) -> Remarks:
    yield _misfit(seen)
    schedule, (p, m) = parse_schedule(map(" ".join, seen[0])), seen.facts
    for rank, (kept, most) in enumerate(zip(most_live(schedule), most_live(MAKERS["1f1b"](p, m)), strict=True)):
        if kept > most:
            all_first = kept == m and "BF" not in "".join(action.kind for action in schedule[rank])
            yield Remark(f"rank {rank} keeps {_microbatches(kept)} at the same time. At most {most} may be kept there: min(m, p - stage).", cause=(
                "this is GPipe: all forward passes, then all backward passes." if all_first else
                "count the forward passes before the first backward pass, that one's own included: p - stage. From then on one backward pass, one forward pass."))
    yield _slow(seen, schedule)


def _microbatches(number: int) -> str:
    return f"{number} microbatch{'es' * (number != 1)}"


def _misfit(seen: Seen) -> Remark | None:
    """What is wrong with a schedule that is not one, or not one for these sizes, or cannot be executed."""
    found, (p, m) = seen[0], seen.facts
    if found is None:
        return Remark("it returned None.", cause="the last line must return the schedule.")
    if not isinstance(found, list | tuple) or not all(isinstance(row, list | tuple) for row in found):
        return Remark(f"it returned {shown(found)}.", cause="expected was a list with a list of actions for each rank, such as [['0F0', '0B0']].")
    if len(found) != p:
        return Remark(f"it returned {count(len(found), 'list')}, expected {p}, one for each rank.", cause="rank r has stage r.")
    if odd := [action for row in found for action in row if not isinstance(action, str)]:
        return Remark(f"{shown(odd[0])} is not an action.", cause="an action is a text: f'{stage}F{microbatch}' or f'{stage}B{microbatch}'.")
    try:
        check_schedule(schedule := parse_schedule(map(" ".join, found)))
    except ScheduleError as error:
        return Remark("this schedule cannot be executed.", tuple(str(error).removeprefix("this schedule cannot be executed: ").split("; ")),
                      "2F0 needs what 1F0 sends; 2B0 needs what 3B0 sends, and that 2F0 is done. A rank keeps to its order.")
    except ValueError as error:
        return Remark("there is something that is not an action.", (str(error),), "stage, then F or B, then microbatch; both from 0.")
    if lost := next((a for rank, a in actions_of(schedule) if a.stage != rank), None):
        return Remark(f"{lost} is not on rank {lost.stage}.", cause="rank r has stage r, and no other one.")
    if (stages_in(schedule), microbatches_in(schedule)) != (p, m):
        return Remark(f"there are {_microbatches(microbatches_in(schedule))}, expected {m}.", cause="range(num_microbatches) counts from 0 to num_microbatches - 1.")
    if any(action.kind in "IW" for _, action in actions_of(schedule)):
        return Remark("there are halves of backward passes.", cause="here a backward pass is one action, B.")
    return None


def _slow(seen: Seen, schedule: Schedule) -> Remark | None:
    """Both schedules take (m + p - 1) forward and backward passes."""
    (p, m), costs = seen.facts, Costs(forward=1, backward=2)
    timing, best = schedules.time_schedule(schedule, costs), 3 * (m + p - 1)
    if timing.seconds <= best:
        return None
    one_by_one = p > 1 and m > 1 and timing.seconds == schedules.time_schedule(MAKERS["naive"](p, m), costs).seconds
    grid = tuple(schedules.schedule_grid(timing).splitlines()) if timing.seconds <= 30 else ()
    return Remark(f"it takes {timing.seconds:g} units of time, if F takes 1 and B takes 2. Expected: 3·(m + p - 1) = {best}.", grid,
                  "only one rank computes at a time. Start the next microbatch before the one before has come back." if one_by_one else
                  "some rank waits longer than it must: is there a backward pass that others wait for, behind forward passes that could wait?")


@task("comm", "stage", "actions", "inputs", "targets", "loss_function", errors=[
    ("Every rank on this cycle sends", "both send first. Send with isend, and wait for its handles at the end."),
    ("waits to receive", "a message that is never sent, or under a tag of its own? Forward passes send on, backward passes send back; stage 0 and the last stage lack one neighbor."),
    ("does not require grad", "what you call backward on has no graph. Did something detach it, or was it computed under no_grad?"),
    ("second time", "each microbatch's graph is walked through once. Call backward on the output of this microbatch only."),
    ("grad can be implicitly created only for scalar", "the output is no single number: output.backward(gradient), with the gradient that the next rank has sent."),
])
def check_run_stage(draw: Draw, *, plans: Sequence[tuple[str, int, int, int]]) -> Iterator[Case]:
    """`function(comm, stage, actions, inputs, targets, loss_function)`; plans: schedule, ranks, microbatches, samples in each."""
    for name, p, m, samples in plans:
        schedule = MAKERS[name](p, m)
        inputs, targets = ([draw.normal((samples, FEATURES)) for _ in range(m)] for _ in range(2))
        yield Case(f"{name} on {count(p, 'rank')}, {_microbatches(m)} of {count(samples, 'sample')}", run_actions, [
            {"weight": draw.normal((FEATURES, FEATURES)) / 2, "actions": [str(action) for action in row], "microbatches": inputs, "targets": targets}
            for row in schedule], schedule)


def _alone(seen: Seen) -> tuple[float, list[torch.Tensor]]:
    """The loss, and the gradient of each stage's weight, in one process."""
    weights, loss = [weight.clone().requires_grad_() for weight in seen.given("weight")], torch.zeros(()).double()
    for x, target in zip(seen.given("microbatches")[0], seen.given("targets")[0], strict=True):
        for weight in weights:
            x = torch.tanh(x @ weight.T)
        loss = loss + half_square(x, target)
    return float(loss.detach()), list(torch.autograd.grad(loss, weights))


@check_run_stage.judge
def _(seen: Seen) -> Remarks:
    schedule, last, m = seen.facts, seen.size - 1, len(seen.given("targets")[0])
    loss, gradients = _alone(seen)
    for rank, row in enumerate(schedule):
        if (found := seen[rank]["passes"]) != (right := "".join(action.kind for action in row)):
            yield Remark(f"rank {rank} made the passes {found or 'none'}, expected {right}.", cause="go through `actions` in their order: F is stage(…), B is backward through what it returned.")
        yield holds(f"on rank {rank} the gradient of the weight", seen[rank]["gradient"], gradients[rank], {
            "it is divided by the number of microbatches. The loss function gives each one's share already.": gradients[rank] / m,
        }, same=is_close, otherwise="each backward pass adds to it: output.backward(gradient) with what the next rank has sent, in this microbatch; on the last rank the loss's.")
        if (kept := seen[rank]["alive"]) > (most := most_live(schedule)[rank]) + SLACK:
            yield Remark(f"rank {rank} keeps {kept} microbatches at the same time; this schedule needs {most}.", cause="after a backward pass forget the microbatch's input and output: outputs.pop(microbatch).")
    found = seen[last]["returned"]
    yield holds("on the last rank the loss that it returned", found if found is None else torch.as_tensor(found, dtype=torch.float64), torch.tensor(loss, dtype=torch.float64), {
        "this is the mean of the microbatches' losses. Add them up.": torch.tensor(loss / m, dtype=torch.float64)}, same=is_close, otherwise="add up the losses of all microbatches.")
    way = Way(m * seen.given("targets")[0][0].nbytes, "one tensor per microbatch", m)
    yield from sends(seen, {pair: way for rank in range(last) for pair in ((rank, rank + 1), (rank + 1, rank))}, "a stage sends its output to the next one and its input's gradient to the one before.")
# fmt: on

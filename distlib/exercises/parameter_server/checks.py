"""Exercise 07b: what a worker and a server do. (What the other two functions must return is said in the notebook.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, dtype_name
from distlib.checks.remark import Remark
from distlib.checks.rules.values import holds, known
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.parameter_server.helpers import may_proceed
from distlib.exercises.parameter_server.plays import LEAVE, PULL, PUSH, with_a_server, with_workers

say = Sentences(__file__)
SLACK = 0.02  # seconds in which a server has done all that it can
RATES = 0.125, 0.0859375, 0.0390625  # exact in binary; none is a multiple of another one
NAMES = {PULL: "PULL", PUSH: "PUSH", LEAVE: "LEAVE"}


# ── worker_loop ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _errors_of_a_worker(seen: Seen) -> Signs:
    numbers, idle = _numbers(seen.case), [rank for rank in seen.ranks if rank not in seen.facts]
    return [
        *((f"rank {rank} has already returned", say("not_the_server")) for rank in idle),
        (f"waits to send {numbers}", say("send_blocks")),
        (f"waits to receive {numbers}", say("receive_blocks")),
        ("waits to send 1 int64", say("not_taken")),
        ("out of range", say("no_such_step")),
        ("has already returned", say("no_leave")),
    ]


def _numbers(case: Case) -> str:
    """How an error names the parameters: "24 float64"."""
    parameters = next(inputs["parameters"] for inputs in case.inputs if "parameters" in inputs)
    return f"{len(parameters)} {dtype_name(parameters.dtype)}"


@task("comm", "server", "parameters", "compute", "steps", errors=_errors_of_a_worker)
def check_worker_loop(
    draw: Draw, *, steps: Sequence[int], server: int = 0, worker: int = 1, dtype: torch.dtype = torch.float64
) -> Iterator[Case]:
    """`function(comm, server, parameters, compute, steps)`; a case for each number of steps.

    server, worker: their ranks. The ranks below them that are neither do nothing.
    """
    for number in steps:
        (length,) = draw.sizes(1, but=[number, 2 * number], most=30)
        start, *tensors = [draw.normal((length,)).to(dtype) for _ in range(2 * number + 2)]
        of_rank: dict[int, dict[str, Any]] = {
            server: {"versions": tensors[number:]},
            worker: {"server": server, "parameters": start, "gradients": tensors[:number]},
        }
        ranks = range(max(of_rank) + 1)
        ours = [rank for rank in ranks if rank != worker]
        inputs = [of_rank.get(rank, {}) for rank in ranks]
        yield Case(f"with {count(number, 'step')}", with_a_server, inputs, (server, worker), ours=ours)


@check_worker_loop.judge
def _(seen: Seen) -> Remarks:
    server, worker = seen.facts
    given, versions, told = seen.case.inputs[worker], seen.case.inputs[server]["versions"], seen[server]
    gradients, called = given["gradients"], seen[worker]["called"]
    steps = len(gradients)
    yield _requests(told["requests"], steps)
    if called != list(range(steps)):
        yield say.remark("computed", called=called, steps=list(range(steps)))
    for number, held in enumerate(seen[worker]["held"]):
        when = "at the end" if number == steps else f"in compute({number})"
        mistakes = {say("not_received"): given["parameters"], say("an_earlier_pull"): versions[:number]}
        yield holds(f"what `parameters` holds {when}", held, versions[number], mistakes, otherwise=say("only_pulled"))
    for number, gradient in enumerate(gradients):
        mistakes = {say("sent_parameters"): versions, say("another_step"): gradients}
        what = f"gradient {number}, as it arrives,"
        yield holds(what, told["gradients"][number], gradient, mistakes, otherwise=say("as_it_is"))


def _requests(found: Sequence[int], steps: int) -> Remark | None:
    """Whether the worker has sent the right requests, in the right order."""
    right = [PULL, PUSH] * steps + [PULL, LEAVE]
    if found == right:
        return None
    one_pull = [[PULL] + [PUSH] * steps + end for end in ([PULL, LEAVE], [LEAVE])]
    mistakes = {
        say("no_last_pull"): torch.tensor([PULL, PUSH] * steps + [LEAVE]),
        say("one_pull"): [torch.tensor(requests) for requests in one_pull],
        say("push_first"): torch.tensor([PUSH, PULL] * steps + [LEAVE]),
    }
    lines = (f"expected {_shown(right)}", f"found    {_shown(found)}")
    return say.remark("requests", *lines, cause=known(torch.tensor(found), mistakes) or say("pull_and_push"))


def _shown(requests: Sequence[int]) -> str:
    return " ".join(str(NAMES.get(request, request)) for request in requests)


@check_worker_loop.judge_times
def _(seen: Seen) -> Remarks:
    """A request to push comes when its gradient is there: until that has come, the server serves nobody else."""
    _, worker = seen.facts
    requests = [message for message in seen.trace if message.src == worker and message.dtype == "int64"]
    for step, push in enumerate(requests[1:-1:2]):
        for moment in seen.passed(worker, 2 * step + 2):
            if push.start < moment:
                yield say.remark("push_too_soon", sent=push.start, step=step, computed=moment)


# ── server_loop ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _errors_of_a_server(seen: Seen) -> Signs:
    numbers = _numbers(seen.case)
    return [
        ("Every rank on this cycle sends", say("answered_twice")),
        ("waits to send 1 int64", say("ended_early")),
        (f"waits to send {numbers}", say("gradient_left")),
        (f"waits to receive {numbers}", say("never_answered")),
        ("Also blocked", say("never_answered")),
        ("expected one of the workers in clocks", say("has_left")),
        ("has already returned", say("never_ends")),
        ("raised KeyError", say("no_entry")),
    ]


@task(
    "comm",
    "workers",
    "parameters",
    "learning_rate",
    "bound",
    helpers=[may_proceed],
    untouched=["workers"],
    errors=_errors_of_a_server,
)
def check_server_loop(
    draw: Draw,
    *,
    races: Sequence[tuple[Sequence[Sequence[float]], float]],
    server: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Iterator[Case]:
    """`function(comm, workers, parameters, learning_rate, bound)`.

    races: by worker, the seconds that it takes to begin, for each gradient, and to leave; and the bound.
    dtype: of parameters. A step is exact in float32, too, if the number of workers is a power of two.
    """
    for seconds, bound in races:
        workers = [rank for rank in range(len(seconds) + 1) if rank != server]
        # Gradient k has a number in element k, and 0 elsewhere: parameters show which were applied, and how often.
        length = sum(len(own) - 2 for own in seconds) + draw.randint(1, 9)
        gradients = iter(draw.whole((length,), dtype, most=99) * torch.eye(length, dtype=dtype))
        inputs: list[dict[str, Any]] = [
            {
                "server": server,
                "parameters": torch.zeros(length, dtype=dtype),
                "seconds": own,
                "gradients": [next(gradients) for _ in own[2:]],
            }
            for own in seconds
        ]
        facts = {
            "server": server,
            "parameters": draw.whole((length,), dtype),
            "workers": workers,
            "learning_rate": draw.choice(RATES),
            "bound": bound,
        }
        inputs.insert(server, facts)
        steps = ", ".join(str(len(own) - 2) for own in seconds)
        title = f"with bound={bound}, workers of {steps} steps"
        yield Case(title, with_workers, inputs, facts, ours=workers)


def _applied(seen: Seen, tensor: torch.Tensor) -> dict[int, list[float]]:
    """By worker, how often parameters have each of its gradients applied."""
    moved = (seen.facts["parameters"] - tensor) * len(seen.case.ours) / seen.facts["learning_rate"]
    return {w: [round(float(moved @ g / (g @ g)), 6) for g in seen.case.inputs[w]["gradients"]] for w in seen.case.ours}


@check_server_loop.judge
def _(seen: Seen) -> Remarks:
    """On real ranks, too, where requests come in any order."""
    for worker in seen.case.ours:
        for k, tensor in seen.played[worker].shown:
            if k % 2 and tensor is not None:
                yield from _gradients_in(seen, tensor, f"what worker {worker} gets with pull {k // 2}", worker, k // 2)
    yield from _gradients_in(seen, seen[seen.facts["server"]]["parameters"], "`parameters` at the end")


def _gradients_in(seen: Seen, tensor: torch.Tensor, where: str, worker: int | None = None, pushed: int = 0) -> Remarks:
    """Whether these parameters have whole gradients applied, each once: all that `worker` has pushed, or all of all."""
    size, rate = len(seen.case.ours), seen.facts["learning_rate"]
    causes = {
        2: say("applied_twice"),
        -1: say("against"),
        round(size / rate, 6): say("not_scaled"),
        size: say("not_divided"),
        round(1 / rate, 6): say("no_rate"),
        round(1 / size, 6): say("divided_twice"),
    }
    for other, counts in _applied(seen, tensor).items():
        if odd := [each for each in counts if each not in (0, 1)]:
            cause = causes.get(odd[0], say("mixed"))
            yield say.remark("counts", where=where, worker=other, times=odd[0], cause=cause)
        expected = len(counts) if worker is None else pushed
        if worker in (None, other) and counts.count(1) != expected:
            cause = say("apply") if worker == other else say("not_in_place")
            yield say.remark("applied", where=where, number=counts.count(1), worker=other, cause=cause)


@check_server_loop.judge_times
def _(seen: Seen) -> Remarks:
    """What should have happened, from the moments at which workers pushed, and got their parameters."""
    for message in seen.trace:
        if message.taken > message.start + SLACK:
            yield say.remark("late_taken", worker=message.src, sent=message.start, taken=message.taken)
    clocks, bound, updates = dict.fromkeys(seen.case.ours, 0), seen.facts["bound"], list[dict[int, int]]()
    applied, versions, since = dict(clocks), dict[int, int](), dict[int, float]()
    for moment, k, worker in sorted((moment, k, w) for w in clocks for k, moment in seen.played[w].gates):
        if k % 2:
            yield from _answer(seen, worker, k, moment, since.get(worker), applied)
            versions[worker] = len(updates)
        elif k // 2 > len(seen.case.inputs[worker]["gradients"]):
            del clocks[worker]
        else:
            clocks[worker] += k > 0
            since.pop(worker, None)
        free = [w for w in clocks if may_proceed(clocks, w, bound)]
        since = {w: moment for w in free} | since
        if ripe := {w: len(updates) - versions[w] for w in free if applied[w] < clocks[w]}:
            updates.append(ripe)
            applied |= {w: clocks[w] for w in ripe}
    found = seen[seen.facts["server"]]["updates"]
    if found != updates:
        is_split = isinstance(found, list) and all(found) and len(found) > len(updates)
        lines = (f"expected {updates}", f"found    {found}")
        yield say.remark("returned", *lines, cause=say("split" if is_split else "staleness"))


def _answer(seen: Seen, worker: int, k: int, moment: float, since: float | None, applied: dict[int, int]) -> Remarks:
    """Whether what a worker gets at gate k comes in time, with the gradients in it that are applied by then.

    Args:
        since: the moment from which the worker may proceed; None if it may not.
    """
    answer: dict[str, Any] = {"worker": worker, "number": k // 2, "moment": moment}
    if since is None:
        yield say.remark("too_far_ahead", **answer)
    elif moment > since + SLACK:
        yield say.remark("late_answer", **answer, since=since)
    for other, counts in _applied(seen, seen.shown(worker, k)[0]).items():
        if (found := counts.count(1)) != applied[other]:
            cause = say("keep" if found > applied[other] else "apply")
            counted = {"found": found, "other": other, "expected": applied[other]}
            yield say.remark("other_gradients", **answer, **counted, cause=cause)

"""Exercise 07: what a worker and a server do. (What the other two functions must return is said in the notebook.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.remark import Remark
from distlib.checks.rules.values import holds, known
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count
from distlib.exercises.parameter_server.helpers import may_proceed
from distlib.exercises.parameter_server.plays import LEAVE, PULL, PUSH, with_a_server, with_workers

# fmt: off
LENGTH, SLACK = 24, 0.02  # elements of the parameters; seconds in which a server has done all that it can
SEND, RECEIVE = f"waits to send {LENGTH} float64", f"waits to receive {LENGTH} float64"


@task("comm", "server", "parameters", "compute", "steps", errors=[
    (SEND, "a request comes first: PULL, and receive with tag=PARAMETERS; or PUSH, and send the gradient with tag=GRADIENT."),
    (RECEIVE, "parameters come after each PULL, with tag=PARAMETERS; a gradient goes after each PUSH, with tag=GRADIENT."),
    ("waits to send 1 int64", "this request is not taken. Its tag is not REQUEST; or LEAVE came before it, and the server has ended."),
    ("out of range", "compute takes the number of a step: 0 … steps - 1."),
    ("has already returned", "the server waits for a request. The last one of every worker is LEAVE."),
])
def check_worker_loop(draw: Draw, *, steps: Sequence[int], server: int = 0) -> Iterator[Case]:
    """`function(comm, server, parameters, compute, steps)`; a case for each number of steps."""
    for number in steps:
        start, *tensors = [draw.normal((LENGTH,)) for _ in range(2 * number + 2)]
        inputs: list[dict[str, Any]] = [{"server": server, "parameters": start, "gradients": tensors[:number]}]
        inputs.insert(server, {"server": server, "versions": tensors[number:]})
        yield Case(f"with {count(number, 'step')}", with_a_server, inputs, server, ours=[server])


@check_worker_loop.judge
def _(seen: Seen) -> Remarks:
    given, versions, told = seen.case.inputs[1 - seen.facts], seen.case.inputs[seen.facts]["versions"], seen[seen.facts]
    steps, found = len(given["gradients"]), told["requests"]
    if found != (right := [PULL, PUSH] * steps + [PULL, LEAVE]):
        shown = [" ".join(str({PULL: "PULL", PUSH: "PUSH", LEAVE: "LEAVE"}.get(each, each)) for each in all_) for all_ in (right, found)]
        yield Remark("the requests are wrong.", (f"expected {shown[0]}", f"found    {shown[1]}"), known(torch.tensor(found), {
            "pull once more after the last push, then leave.": torch.tensor([PULL, PUSH] * steps + [LEAVE]),
            "pull before each gradient, not only before the first.": [torch.tensor([PULL] + [PUSH] * steps + end)
                                                                      for end in ([PULL, LEAVE], [LEAVE])],
            "pull first: the first gradient is computed with the server's parameters, too.": torch.tensor([PUSH, PULL] * steps + [LEAVE]),
        }) or "in each step PULL, then PUSH; after the last step PULL, then LEAVE.")
    if (called := seen[1 - seen.facts]["called"]) != list(range(steps)):
        yield Remark(f"compute was called for the steps {called}, expected {list(range(steps))}.", cause="once in each step, with its number.")
    for number, held in enumerate(seen[1 - seen.facts]["held"]):
        yield holds(f"what `parameters` holds {'at the end' if number == steps else f'in compute({number})'}", held, versions[number], {
            "it is as it was given. Receive into `parameters` itself, or copy into it: parameters.copy_(…).": given["parameters"],
            "that is what the pull before brought. Each pull must be in `parameters` before compute is called.": versions[:number],
        }, otherwise="only what a pull brings is written into `parameters`. Applying gradients is the server's business.")
    for number, gradient in enumerate(given["gradients"]):
        yield holds(f"gradient {number}, as it arrives,", told["gradients"][number], gradient, {
            "these are the parameters. Send what compute returns.": versions, "this is another step's.": given["gradients"],
        }, otherwise="send what compute returns, as it is. The server does all the rest.")


@check_worker_loop.judge_times
def _(seen: Seen) -> Remarks:
    """A request to push comes when its gradient is there: until that has come, the server serves nobody else."""
    worker = 1 - seen.facts
    requests = [message for message in seen.trace if message.src == worker and message.dtype == "int64"]
    for step, push in enumerate(requests[1:-1:2]):
        for moment in seen.passed(worker, 2 * step + 2):
            if push.start < moment:
                yield Remark(f"PUSH is sent after {push.start:.2f} s, but compute({step}) returns after {moment:.2f} s.", cause=
                             "compute first, then send PUSH and the gradient right after it. After a PUSH the server waits for the gradient, "
                             "and meanwhile it serves nobody else.")


@task("comm", "workers", "parameters", "learning_rate", "bound", helpers=[may_proceed], untouched=["workers"], errors=[
    ("Every rank on this cycle sends", "a worker gets parameters that it has not asked for. Each PULL is answered once."),
    ("waits to send 1 int64", "a worker's request is not taken. The server ends when every worker has sent LEAVE, not earlier."),
    (SEND, "after PUSH, receive the gradient from the same worker, with tag=GRADIENT. What the server sends has tag=PARAMETERS."),
    *((sign, "a worker waits for parameters that never come. After every request, be it PULL, PUSH or LEAVE, answer all that wait and "
       "may proceed, with tag=PARAMETERS; the last pull, too. Those that have left are no longer in clocks.")
      for sign in (RECEIVE, "Also blocked")),
    ("expected one of the workers in clocks", "this worker has left, or is not in `workers`. After every request apply all gradients "
     "whose worker may proceed, each once. Answer each pull once, when its worker may proceed. So nothing is left of one that leaves."),
    ("has already returned", "the server waits for a request when all workers have left. Then it ends."),
    ("raised KeyError", "which worker is it, and what is kept for it? One that has left has no clock any more; one has a gradient only "
     "after PUSH and until it is applied, and a version only after its first PULL."),
])
def check_server_loop(draw: Draw, *, races: Sequence[tuple[Sequence[Sequence[float]], float]], server: int = 0) -> Iterator[Case]:
    """`function(comm, workers, parameters, learning_rate, bound)`; races: by worker, the seconds that it takes to begin, for
    each gradient, and to leave; and the bound."""
    for seconds, bound in races:
        # Gradient k has a number in element k, and 0 elsewhere: so parameters show which gradients were applied, how often.
        gradients = iter((draw.whole((LENGTH,), torch.float64) * torch.eye(LENGTH)).double())
        inputs: list[dict[str, Any]] = [{"server": server, "parameters": torch.zeros(LENGTH).double(), "seconds": own,
                                         "gradients": [next(gradients) for _ in own[2:]]} for own in seconds]
        workers = [rank for rank in range(len(seconds) + 1) if rank != server]
        inputs.insert(server, {"server": server, "parameters": draw.whole((LENGTH,), torch.float64), "workers": workers,
                               "learning_rate": draw.choice([0.125, 0.0625]), "bound": bound})
        steps = ", ".join(str(len(own) - 2) for own in seconds)
        yield Case(f"with bound={bound}, workers of {steps} steps", with_workers, inputs, inputs[server], ours=workers)


def _applied(seen: Seen, tensor: torch.Tensor) -> dict[int, list[float]]:
    """By worker, how often parameters have each of its gradients applied."""
    moved = (seen.facts["parameters"] - tensor) * len(seen.case.ours) / seen.facts["learning_rate"]
    return {w: [round(float(moved @ g / (g @ g)), 6) for g in seen.case.inputs[w]["gradients"]] for w in seen.case.ours}


@check_server_loop.judge
def _(seen: Seen) -> Remarks:
    """On real ranks, too, where requests come in any order."""
    size, rate, server = len(seen.case.ours), seen.facts["learning_rate"], seen[seen.facts["server"]]
    causes = {2: "it is applied twice.", -1: "a step goes against the gradient: parameters -= ….", size / rate: "it counts "
              "learning_rate / len(workers).", size: "divide by len(workers), the number of all workers, whatever the bound.",
              1 / rate: "multiply it by learning_rate.", round(1 / size, 6): "divide it by len(workers) once, and by nothing else."}
    got = [(f"what worker {w} gets with pull {k // 2}", w, k // 2, t) for w in seen.case.ours for k, t in seen.played[w].shown if k % 2]
    for where, worker, pull, tensor in [*got, ("`parameters` at the end", None, 0, server["parameters"])]:
        for other, counts in _applied(seen, tensor).items():
            if odd := [each for each in counts if each not in (0, 1)]:
                yield Remark(f"in {where}, a gradient of worker {other} counts {odd[0]:.3g} times.", cause=causes.get(odd[0], MIXED))
            if worker in (None, other) and counts.count(1) != (len(counts) if worker is None else pull):
                yield Remark(f"in {where}, {counts.count(1)} of worker {other}'s gradients are applied.",
                             cause=APPLY if worker == other else "change `parameters` itself, in place: parameters -= ….")


@check_server_loop.judge_times
def _(seen: Seen) -> Remarks:
    """What should have happened, from the moments at which workers pushed, and got their parameters."""
    for late in [message for message in seen.trace if message.taken > message.start + SLACK]:
        yield Remark(f"what worker {late.src} sends after {late.start:.2f} s is not taken until {late.taken:.2f} s.", cause=
                     "requests come in any order. comm.recv(request, tag=REQUEST) takes the next one, of any worker.")
    clocks, bound, updates = dict.fromkeys(seen.case.ours, 0), seen.facts["bound"], list[dict[int, int]]()
    applied, versions, since = dict(clocks), dict[int, int](), dict[int, float]()
    for moment, k, worker in sorted((moment, k, w) for w in clocks for k, moment in seen.played[w].gates):
        what = f"worker {worker} gets its parameters for gradient {k // 2} after {moment:.2f} s"
        if k % 2:
            if worker not in since or moment > since[worker] + SLACK:
                allowed = f"may proceed after {since[worker]:.2f} s" if worker in since else "may not proceed: it is too far ahead"
                yield Remark(f"{what}. It {allowed}.", cause=LATE if worker in since else AHEAD)
            for other, counts in _applied(seen, seen.shown(worker, k)[0]).items():
                if (number := counts.count(1)) != applied[other]:
                    yield Remark(f"{what}. In them {number} of worker {other}'s gradients are applied; expected: {applied[other]}.",
                                 cause=EARLY if number > applied[other] else APPLY)
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
    if (found := seen[seen.facts["server"]]["updates"]) != updates:
        yield Remark("the values are right, but not what it returned.", (f"expected {updates}", f"found    {found}"),
                     SPLIT if isinstance(found, list) and all(found) and len(found) > len(updates) else STALENESS)


MIXED = "each gradient is applied once, times learning_rate / len(workers)."
APPLY = ("apply every gradient as soon as its worker may proceed, and before any worker is answered. Each one that is kept needs memory "
         "of its own.")
EARLY = ("keep a gradient until its worker may proceed, by this bound. A worker that comes late must not get parameters that others have "
         "changed further.")
LATE = ("after every request, be it PULL, PUSH or LEAVE, answer all workers that wait and may proceed by this bound. A clock counts what "
        "its worker has pushed; one that has left has no clock.")
AHEAD = "only workers that may proceed get parameters. A clock counts what its worker has pushed. All begin at 0, before any request."
SPLIT = "return a dict for each update. Gradients that are applied at the same moment make one update."
STALENESS = ("return the list of updates: for each a dict from the workers whose gradients are applied then to their staleness. That is the "
             "number of updates between what the worker has pulled for the gradient and this one.")
# fmt: on

"""Exercise 17: five patients that hang. What each has to compute, and what a cure must not leave out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.helpers import all_reduce, broadcast
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import nobody_returned, same, shown
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.hang_clinic.helpers import all_gather
from distlib.exercises.hang_clinic.plays import call_with_comm, read_and_add

say = Sentences(__file__)
SUPPLIED = (all_reduce, broadcast, all_gather)
WAITS = ("waits to", "waits in", "has already returned", "have to make the same collective calls", "receives into")


def waiting(cause: str) -> list[tuple[str, str]]:
    """The usual cause of every error of ranks that do not make the same calls."""
    return [(words, cause) for words in WAITS]


def number_is(what: str, found: Any, right: float, mistakes: Mapping[str, Any], otherwise: str) -> Remark | None:
    """A number that a rank has returned must be the right one. `mistakes`: as of `holds`, but numbers."""
    value = found.item() if isinstance(found, torch.Tensor) and found.numel() == 1 else found
    if same(value, right):
        return None
    if found is None:
        return say.remark("returned_none", what=what, right=shown(right))
    table = [
        (words, each) for words, wrong in mistakes.items() for each in (wrong if isinstance(wrong, list) else [wrong])
    ]
    cause = next((words for words, wrong in table if same(value, wrong)), otherwise)
    return say.remark("wrong", f"expected {shown(right)}", f"found    {shown(value)}", what=what, cause=cause)


# ── log_mean_loss ────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "loss", helpers=SUPPLIED, errors=waiting(say("only_rank_0")), untouched=["loss"])
def check_log_mean_loss(draw: Draw, *, world_sizes: Sequence[int]) -> Iterator[Case]:
    """`function(comm, loss)` returns the mean over all ranks on rank 0, and None elsewhere."""
    for ranks in world_sizes:
        inputs = [{"loss": draw.normal(()).abs()} for _ in range(ranks)]
        yield Case(f"on {count(ranks, 'rank')}", call_with_comm, inputs)


@check_log_mean_loss.judge
def _(seen: Seen) -> Remarks:
    losses = [loss.item() for loss in seen.given("loss")]
    total = sum(losses)
    mistakes = {
        say("own_loss"): losses[0],
        say("own_loss_divided"): losses[0] / seen.size,
        say("sum_of_losses"): total,
    }
    found = [told["returned"] for told in seen.results]
    yield nobody_returned(found, "the mean on rank 0")
    yield number_is("what rank 0 returned", found[0], total / seen.size, mistakes, say("mean_of_losses"))
    for rank in seen.ranks[1:]:
        if found[rank] is not None:
            yield say.remark("others_log", rank=rank, found=shown(found[rank]))


# ── average_workers ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Workers:
    """How many ranks there are, and how many of them train."""

    ranks: int
    workers: int

    @property
    def title(self) -> str:
        """ "on 4 ranks, 3 of them workers"."""
        return (
            f"on {count(self.ranks, 'rank')}, {self.workers} of them {'a worker' if self.workers == 1 else 'workers'}"
        )


@task("comm", "tensor", "workers", helpers=SUPPLIED, errors=[*waiting(say("all_split")), ("NoneType", say("no_group"))])
def check_average_workers(draw: Draw, *, workers: Sequence[tuple[int, int]]) -> Iterator[Case]:
    """`function(comm, tensor, workers)`: the first ranks average among themselves. `workers`: ranks, and workers."""
    for plan in (Workers(*each) for each in workers):
        inputs = [{"tensor": draw.normal((3,)), "workers": plan.workers} for _ in range(plan.ranks)]
        yield Case(plan.title, call_with_comm, inputs, plan)


@check_average_workers.judge
def _(seen: Seen) -> Remarks:
    given, workers = seen.given("tensor"), seen.facts.workers
    total, everyone = torch.stack(given[:workers]).sum(0), torch.stack(given).mean(0)
    for rank in seen.ranks:
        right = total / workers if rank < workers else given[rank]
        mistakes = {
            say("own_tensor"): given[rank],
            say("sum_of_workers"): total,
            say("all_ranks_count"): total / seen.size,
            say("all_ranks_averaged"): everyone,
        }
        otherwise = say("mean_of_workers" if rank < workers else "spare_changed")
        yield holds(
            f"on rank {rank} the tensor", seen[rank]["tensor"], right, mistakes, same=is_close, otherwise=otherwise
        )
    for message in seen.trace:
        if message.nbytes and max(message.src, message.dst) >= workers:
            yield say.remark("spare_speaks", src=message.src, dst=message.dst, nbytes=count(message.nbytes, "byte"))


# ── train_epoch ──────────────────────────────────────────────────────────────────────────────────────────────────────

FEATURES, RATE = 2, 0.5
MANY_ROWS = 40  # on one rank: more bytes than an honest epoch sends


@dataclass(frozen=True)
class BatchPlan:
    """The rows of each batch, by rank."""

    rows: Sequence[Sequence[int]]

    @property
    def title(self) -> str:
        """ "on 2 ranks, batches of 2 + 1 | 3"."""
        each = " | ".join(" + ".join(map(str, own)) or "none" for own in self.rows)
        return f"on {count(len(self.rows), 'rank')}, batches of {each}"


@task("comm", "weight", "batches", "rate", helpers=SUPPLIED, errors=waiting(say("more_batches")), untouched=["batches"])
def check_train_epoch(
    draw: Draw, *, epochs: Sequence[Sequence[Sequence[int]]], drawn: Sequence[int] = ()
) -> Iterator[Case]:
    """`function(comm, weight, batches, rate)`: as many steps as the rank with the most batches has.

    Args:
        epochs: of each the rows of every batch, by rank.
        drawn: numbers of ranks of more epochs.
    """
    more = [[[draw.randint(1, 3) for _ in range(draw.randint(0, 4))] for _ in range(ranks)] for ranks in drawn]
    for plan in (BatchPlan(rows) for rows in (*epochs, *more)):
        weight = draw.normal((FEATURES,))
        inputs = [
            {"weight": weight, "batches": [draw.normal((rows, FEATURES)) for rows in own], "rate": RATE}
            for own in plan.rows
        ]
        yield Case(plan.title, call_with_comm, inputs, plan)


@check_train_epoch.judge
def _(seen: Seen) -> Remarks:
    numbers = [len(batches) for batches in seen.given("batches")]
    for rank in seen.ranks:
        what, found, wrong = f"on rank {rank} the weight", seen[rank]["weight"], partial(_wrong_epochs, seen, rank)
        yield holds(what, found, trained(seen), wrong, same=is_close, otherwise=say("weight_of_epoch"))
    for rank in seen.ranks:
        mistakes = {say("own_steps"): numbers[rank], say("fewest_steps"): min(numbers), say("all_steps"): sum(numbers)}
        what = f"the number of steps that rank {rank} returned"
        yield number_is(what, seen[rank]["returned"], max(numbers), mistakes, say("most_steps"))
    for rank, own in enumerate(seen.given("batches")):
        nbytes, sent = sum(batch.nbytes for batch in own), seen.trace.bytes_sent[rank]
        if sum(map(len, own)) >= MANY_ROWS and sent >= nbytes:
            yield say.remark("rows_travel", rank=rank, sent=count(sent, "byte"), nbytes=count(nbytes, "byte"))


def trained(seen: Seen, way: str = "") -> torch.Tensor:
    """The weight after an epoch.

    Args:
        way: of usual mistakes: "cut" after the fewest batches, "again" from the first batch, the "last" one again,
            the "means" of ranks averaged, or by the number of "ranks".
    """
    weight, batches = seen.case.inputs[0]["weight"].clone(), seen.given("batches")
    lengths = [len(own) for own in batches]
    for step in range(min(lengths) if way == "cut" else max(lengths)):
        parts = [part for own in batches for part in _batch_of(own, step, way)]
        if way in ("means", "ranks"):
            means = torch.stack([(weight - part).mean(0) for part in parts]).sum(0)
            weight = weight - RATE * means / (len(parts) if way == "means" else seen.size)
        else:
            weight = weight - RATE * (weight - torch.cat(parts)).mean(0)
    return weight


def _batch_of(own: Sequence[torch.Tensor], step: int, way: str) -> list[torch.Tensor]:
    """What a rank uses in a step: one batch or none."""
    if step < len(own):
        return [own[step]]
    if not own or way not in ("again", "last"):
        return []
    return [own[step % len(own)] if way == "again" else own[-1]]


def _wrong_epochs(seen: Seen, rank: int) -> dict[str, Any]:
    own = seen.case.inputs[rank]
    alone = own["weight"].clone()
    for batch in own["batches"]:
        alone = alone - RATE * (alone - batch).mean(0)
    return {
        say("data_dropped"): trained(seen, "cut"),
        say("data_twice"): [trained(seen, "again"), trained(seen, "last")],
        say("mean_of_means"): [trained(seen, "means"), trained(seen, "ranks")],
        say("trained_alone"): alone,
        say("not_trained"): own["weight"],
    }


# ── train_until ──────────────────────────────────────────────────────────────────────────────────────────────────────

ROWS, STEPS, MOST_STEPS = 4, (2, 6), 50
LOOKED_AT = 25  # steps; all descents reach their target earlier


@task(
    "comm",
    "weight",
    "samples",
    "rate",
    "target",
    helpers=SUPPLIED,
    errors=waiting(say("all_stop")),
    untouched=["samples"],
)
def check_train_until(
    draw: Draw, *, world_sizes: Sequence[int], at_once: Sequence[int] = (), exact: Sequence[int] = ()
) -> Iterator[Case]:
    """`function(comm, weight, samples, rate, target)`: until the mean of all losses is at most the target.

    Args:
        world_sizes: numbers of ranks.
        at_once: the same, of cases in which it is so from the start.
        exact: the same, powers of two, of cases in which the mean becomes the target itself.
    """
    for ranks in world_sizes:
        yield _descent_case(draw, ranks, False)
    for ranks in at_once:
        yield _descent_case(draw, ranks, True)
    for ranks in exact:
        yield _exact_case(draw, ranks)


def _exact_case(draw: Draw, ranks: int) -> Case:
    """After 2 steps the mean of all losses is the target, without rounding: all numbers are whole or end in binary."""
    samples = draw.whole((ranks, ROWS, FEATURES), torch.float64)
    weight = samples.mean((0, 1)) + 16 * draw.whole((FEATURES,), torch.float64)
    losses = _descent(weight, samples)[1]
    title = f"on {count(ranks, 'rank')}, the mean of the losses is exactly the target after 2 steps"
    return _until(title, weight, samples, losses, 2, float(losses[2].mean()))


def _descent_case(draw: Draw, ranks: int, at_once: bool) -> Case:
    """A descent in which the steps of usual mistakes differ from the right ones, as far as they can."""
    while True:
        weight, samples = (
            draw.normal((FEATURES,)) + 4,
            draw.normal((ranks, ROWS, FEATURES)) + draw.normal((ranks, 1, 1)),
        )
        losses = _descent(weight, samples)[1]
        steps = 0 if at_once else draw.randint(*STEPS)
        means = losses.mean(1)
        target = float(means[0]) * 1.01 if at_once else float(means[steps - 1] + means[steps]) / 2
        if at_once or ranks == 1 or _tells_apart(losses, target, steps):
            break
    title = f"on {count(ranks, 'rank')}, {'the target is reached from the start' if at_once else count(steps, 'step')}"
    return _until(title, weight, samples, losses, steps, target)


def _until(
    title: str, weight: torch.Tensor, samples: torch.Tensor, losses: torch.Tensor, steps: int, target: float
) -> Case:
    inputs = [{"weight": weight, "samples": own.clone(), "rate": RATE / 2, "target": target} for own in samples]
    return Case(title, call_with_comm, inputs, {"steps": steps, "losses": losses, "target": target})


def _descent(weight: torch.Tensor, samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """After 0, 1, 2, … steps: the weight, [steps, features], and the loss of each rank, [steps, ranks].

    `samples`: [ranks, rows, features].
    """
    weights = [weight]
    for _ in range(LOOKED_AT):
        weights.append(weights[-1] - RATE / 2 * (weights[-1] - samples.mean((0, 1))))
    every = torch.stack(weights)
    return every, (samples - every[:, None, None]).square().mean((2, 3))


def _steps(deciding: torch.Tensor, target: float) -> int:
    """After how many steps a loss is at most the target."""
    reached = (deciding <= target).nonzero()
    return int(reached[0]) if len(reached) else MOST_STEPS


def _ways_to_stop(losses: torch.Tensor, target: float) -> dict[str, int]:
    """By the name of the sentence: after how many steps usual mistakes stop."""
    deciding = {"rank_0_stops": losses[:, 0], "first_stops": losses.amin(1), "last_stops": losses.amax(1)}
    return {name: _steps(each, target) for name, each in deciding.items()}


def _tells_apart(losses: torch.Tensor, target: float, steps: int) -> bool:
    """Whether usual mistakes stop after other numbers of steps; with 3 ranks or more, each after its own.

    The sum of the losses never reaches the target, and their maximum does.
    """
    found = _ways_to_stop(losses, target)
    if losses.shape[1] < 3:
        return steps not in found.values()
    is_reached = found["last_stops"] < LOOKED_AT and _steps(losses.sum(1), target) == MOST_STEPS
    return is_reached and len({steps, steps + 1, *found.values()}) == 2 + len(found)


@check_train_until.judge
def _(seen: Seen) -> Remarks:
    facts, weights = seen.facts, _descent(seen.case.inputs[0]["weight"], torch.stack(seen.given("samples")))[0]
    ways = _ways_to_stop(facts["losses"], facts["target"])
    steps = facts["steps"]
    numbers = {say("never_stops"): MOST_STEPS}
    if facts["losses"][steps].mean() == facts["target"]:
        numbers |= {say("just_the_target"): steps + 1}
    numbers |= {say(name): number for name, number in ways.items() if number != steps}
    numbers |= {say("one_step_more"): steps + 1}
    for rank in seen.ranks:
        what = f"the number of steps that rank {rank} returned"
        own = {say("own_stops"): _steps(facts["losses"][:, rank], facts["target"])} if rank else {}
        yield number_is(what, seen[rank]["returned"], steps, own | numbers, say("steps_until"))
    for rank in seen.ranks:
        mistakes = {say("weight_one_more"): weights[steps + 1], say("not_trained"): weights[0] if steps else None}
        what = f"on rank {rank} the weight"
        yield holds(what, seen[rank]["weight"], weights[steps], mistakes, same=is_close)
    if seen.size > 1 and seen.trace.rounds <= steps:
        yield say.remark("talk_in_each_step", rounds=count(seen.trace.rounds, "round"), steps=count(steps, "step"))


# ── sum_of_files ─────────────────────────────────────────────────────────────────────────────────────────────────────

READ_ERRORS = [
    ("OSError", say("error_alone")),
    ("expected a torch.Tensor, got None", say("nothing_read")),
    *waiting(say("agree_on_errors")),
]


@task("comm", "read", helpers=SUPPLIED, errors=READ_ERRORS)
def check_sum_of_files(draw: Draw, *, failing: Sequence[tuple[int, Sequence[int]]]) -> Iterator[Case]:
    """`function(comm, read)`: the sum of what all ranks read, or an error on all. `failing`: ranks, and who fails."""
    for ranks, bad in failing:
        inputs = [{"part": draw.normal((3,)), "fails": rank in bad} for rank in range(ranks)]
        who = f"reading fails on {', '.join(map(str, bad))}" if bad else "all files can be read"
        yield Case(f"on {count(ranks, 'rank')}, {who}", read_and_add, inputs, tuple(bad))


@check_sum_of_files.judge
def _(seen: Seen) -> Remarks:
    bad, parts = seen.facts, seen.given("part")
    total = torch.stack(parts).sum(0)
    for rank in seen.ranks:
        raised, reads = seen[rank].get("raised"), seen[rank]["reads"]
        if reads != 1:
            yield say.remark("reads_once", rank=rank, found=count(reads, "time"))
        if bad:
            yield _raises(rank, bad, raised)
            continue
        if raised is not None:
            yield say.remark("raises_for_nothing", rank=rank, raised=raised)
            return
        found, mistakes = (
            seen[rank]["returned"],
            {say("own_part"): parts[rank], say("mean_of_parts"): total / seen.size},
        )
        otherwise = say("sum_none") if found is None else say("sum_of_parts")
        yield holds(f"on rank {rank} what it returned", found, total, mistakes, same=is_close, otherwise=otherwise)


def _raises(rank: int, bad: Sequence[int], raised: str | None) -> Remark | None:
    """Whether a rank has raised an error that names just those on which reading failed."""
    who = ", ".join(map(str, bad))
    if raised is None:
        return say.remark("raises_nothing", rank=rank, who=who)
    digits = "".join(letter if letter.isdecimal() else " " for letter in raised)
    if sorted({int(number) for number in digits.split()}) != list(bad):
        return say.remark("names_others", rank=rank, raised=raised, who=who)
    return None

"""Exercises 17 and 17b: five patients that hang. What each has to compute, and what a cure must not leave out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.helpers import all_reduce, broadcast
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import nobody_returned, not_a_number, same, shown
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
    """A rank must have returned the right number, and no tensor. `mistakes`: as of `holds`, but numbers."""
    value = found.item() if isinstance(found, torch.Tensor) and found.numel() == 1 else found
    if same(value, right):
        return not_a_number(what, found)
    if found is None:
        return say.remark("returned_none", what=what, right=shown(right))
    table = [
        (words, each) for words, wrong in mistakes.items() for each in (wrong if isinstance(wrong, list) else [wrong])
    ]
    cause = next((words for words, wrong in table if same(value, wrong)), explain_digits(value, right) or otherwise)
    return say.remark("wrong", f"expected {shown(right)}", f"found    {shown(value)}", what=what, cause=cause)


def explain_digits(found: Any, right: float) -> str:
    """Why a number is nearly right; empty if it is not."""
    if not isinstance(found, float) or abs(found - right) > 1e-5 * abs(right):
        return ""
    return say("rounded" if any(found == round(found, digits) for digits in range(9)) else "single_precision")


def shapes(draw: Draw, sizes: Iterable[Collection[int]], dimensions: int) -> Iterator[tuple[int, ...]]:
    """A drawn shape for each case, with up to this many dimensions, all numbers in turn.

    Args:
        sizes: by case, the sizes that it has already: none of a shape is among them.
        dimensions: that the first one has.
    """
    for number, taken in enumerate(sizes):
        yield draw.sizes(dimensions - number % dimensions, but=taken)


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
def check_average_workers(draw: Draw, *, workers: Sequence[tuple[int, int]], dimensions: int = 1) -> Iterator[Case]:
    """`function(comm, tensor, workers)`: the first ranks average among themselves.

    Args:
        workers: ranks, and workers.
        dimensions: of the tensor, at most.
    """
    for plan, shape in zip((Workers(*each) for each in workers), shapes(draw, workers, dimensions), strict=True):
        inputs = [{"tensor": draw.normal(shape), "workers": plan.workers} for _ in range(plan.ranks)]
        yield Case(f"{plan.title}, a tensor of shape {list(shape)}", call_with_comm, inputs, plan)


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
        (features,) = draw.sizes(1, but=[len(plan.rows), *(rows for own in plan.rows for rows in own)])
        weight, rate = draw.normal((features,)), draw.rate()
        inputs = [
            {"weight": weight, "batches": [draw.normal((rows, features)) for rows in own], "rate": rate}
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
    first, batches = seen.case.inputs[0], seen.given("batches")
    weight, rate = first["weight"].clone(), first["rate"]
    lengths = [len(own) for own in batches]
    for step in range(min(lengths) if way == "cut" else max(lengths)):
        parts = [part for own in batches for part in _batch_of(own, step, way)]
        if way in ("means", "ranks"):
            means = torch.stack([(weight - part).mean(0) for part in parts]).sum(0)
            weight = weight - rate * means / (len(parts) if way == "means" else seen.size)
        else:
            weight = weight - rate * (weight - torch.cat(parts)).mean(0)
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
        alone = alone - own["rate"] * (alone - batch).mean(0)
    return {
        say("data_dropped"): trained(seen, "cut"),
        say("data_twice"): [trained(seen, "again"), trained(seen, "last")],
        say("mean_of_means"): [trained(seen, "means"), trained(seen, "ranks")],
        say("trained_alone"): alone,
        say("not_trained"): own["weight"],
    }


# ── train_until ──────────────────────────────────────────────────────────────────────────────────────────────────────

STEPS, MOST_STEPS = (2, 6), 50
POWERS_OF_TWO = (2, 4, 8, 16)  # a mean over so many numbers is not rounded


@task(
    "comm",
    "weight",
    "samples",
    "rate",
    "target",
    helpers=SUPPLIED,
    errors=[("not done after", say("no_limit")), *waiting(say("all_stop"))],
    untouched=["samples"],
)
def check_train_until(
    draw: Draw,
    *,
    world_sizes: Sequence[int],
    at_once: Sequence[int] = (),
    exact: Sequence[int] = (),
    never: Sequence[int] = (),
) -> Iterator[Case]:
    """`function(comm, weight, samples, rate, target)`: until the mean of all losses is at most the target.

    Args:
        world_sizes: numbers of ranks.
        at_once: the same, of cases in which it is so from the start.
        exact: the same, powers of two, of cases in which the mean becomes the target itself.
        never: the same, of cases in which the target is not reached in 50 steps.
    """
    for ranks in world_sizes:
        yield _descent_case(draw, ranks, False)
    for ranks in at_once:
        yield _descent_case(draw, ranks, True)
    for ranks in exact:
        yield _exact_case(draw, ranks)
    for ranks in never:
        yield _case_without_end(draw, ranks)


def _exact_case(draw: Draw, ranks: int) -> Case:
    """After 2 steps the mean of all losses is the target, without rounding: all numbers are whole or end in binary."""
    rows, features = draw.sample([size for size in POWERS_OF_TWO if size != ranks], 2)
    samples, rate = draw.whole((ranks, rows, features), torch.float64), draw.choice((0.25, 0.5))
    weight = samples.mean((0, 1)) + 16 * draw.whole((features,), torch.float64)
    losses = _descent(weight, samples, rate)[1]
    title = f"on {count(ranks, 'rank')}, the mean of the losses is exactly the target after 2 steps"
    return _until(title, weight, samples, rate, 2, float(losses[2].mean()))


def _case_without_end(draw: Draw, ranks: int) -> Case:
    """A descent so slow that each of 51 steps changes the weight, to a target below all losses."""
    weight, samples = _start(draw, ranks)
    rate = draw.rate(0.02, 0.06)
    target = float(_descent(weight, samples, rate)[1].mean(1).min()) / 2
    title = f"on {count(ranks, 'rank')}, a target that is not reached in {MOST_STEPS} steps"
    return _until(title, weight, samples, rate, MOST_STEPS, target)


def _start(draw: Draw, ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A drawn weight, [features], and samples around which it does not lie, [ranks, rows, features]."""
    rows, features = draw.sizes(2, but=[ranks])
    return draw.normal((features,)) + 4, draw.normal((ranks, rows, features)) + draw.normal((ranks, 1, 1))


def _descent_case(draw: Draw, ranks: int, at_once: bool) -> Case:
    """A descent in which the steps of usual mistakes differ from the right ones, as far as they can."""
    while True:
        (weight, samples), rate = _start(draw, ranks), draw.rate(0.15, 0.35)
        losses = _descent(weight, samples, rate)[1]
        steps = 0 if at_once else draw.randint(*STEPS)
        means = losses.mean(1)
        target = float(means[0]) * 1.01 if at_once else float(means[steps - 1] + means[steps]) / 2
        if at_once or ranks == 1 or _tells_apart(losses, target, steps):
            break
    title = f"on {count(ranks, 'rank')}, {'the target is reached from the start' if at_once else count(steps, 'step')}"
    return _until(title, weight, samples, rate, steps, target)


def _until(title: str, weight: torch.Tensor, samples: torch.Tensor, rate: float, steps: int, target: float) -> Case:
    inputs = [{"weight": weight, "samples": own.clone(), "rate": rate, "target": target} for own in samples]
    weights, losses = _descent(weight, samples, rate)
    facts = {"steps": steps, "weights": weights, "losses": losses, "target": target}
    return Case(title, call_with_comm, inputs, facts)


def _descent(weight: torch.Tensor, samples: torch.Tensor, rate: float) -> tuple[torch.Tensor, torch.Tensor]:
    """After 0, 1, 2, … 51 steps: the weight, [steps, features], and the loss of each rank, [steps, ranks].

    `samples`: [ranks, rows, features].
    """
    weights = [weight]
    for _ in range(MOST_STEPS + 1):
        weights.append(weights[-1] - rate * (weights[-1] - samples.mean((0, 1))))
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
    is_reached = found["last_stops"] < MOST_STEPS and _steps(losses.sum(1), target) == MOST_STEPS
    return is_reached and len({steps, steps + 1, *found.values()}) == 2 + len(found)


@check_train_until.judge
def _(seen: Seen) -> Remarks:
    facts, weights, steps = seen.facts, seen.facts["weights"], seen.facts["steps"]
    ways = _ways_to_stop(facts["losses"], facts["target"])
    numbers: dict[str, Any] = {say("never_stops"): MOST_STEPS}
    if facts["losses"][steps].mean() == facts["target"]:
        numbers |= {say("just_the_target"): steps + 1}
    numbers |= {say(name): number for name, number in ways.items() if number != steps}
    if steps < MOST_STEPS:
        numbers |= {say("one_step_more"): steps + 1}
    for rank in seen.ranks:
        what = f"the number of steps that rank {rank} returned"
        own = {say("own_stops"): _steps(facts["losses"][:, rank], facts["target"])} if rank else {}
        otherwise = say("no_limit" if steps == MOST_STEPS else "steps_until")
        yield number_is(what, seen[rank]["returned"], steps, own | numbers, otherwise)
    for rank in seen.ranks:
        mistakes = {say("weight_one_more"): weights[steps + 1], say("not_trained"): weights[0] if steps else None}
        what = f"on rank {rank} the weight"
        yield holds(what, seen[rank]["weight"], weights[steps], mistakes, same=is_close, otherwise=say("weight_until"))
    if seen.size > 1 and seen.trace.rounds <= steps:
        yield say.remark("talk_in_each_step", rounds=count(seen.trace.rounds, "round"), steps=count(steps, "step"))


# ── sum_of_files ─────────────────────────────────────────────────────────────────────────────────────────────────────

READ_ERRORS = [
    ("OSError", say("error_alone")),
    ("expected a torch.Tensor, got None", say("nothing_read")),
    *waiting(say("agree_on_errors")),
]


@task("comm", "read", helpers=SUPPLIED, errors=READ_ERRORS)
def check_sum_of_files(
    draw: Draw, *, failing: Sequence[tuple[int, Sequence[int]]], dimensions: int = 1
) -> Iterator[Case]:
    """`function(comm, read)`: the sum of what all ranks read, or an error on all.

    Args:
        failing: ranks, and who fails.
        dimensions: of what is read, at most.
    """
    drawn = shapes(draw, ([ranks] for ranks, _ in failing), dimensions)
    for (ranks, bad), shape in zip(failing, drawn, strict=True):
        inputs = [{"part": draw.normal(shape), "fails": rank in bad} for rank in range(ranks)]
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

"""Exercise 15: what share of a data set's samples is recognized, where the ranks can't share them evenly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import nobody_returned, shown
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.frameworks.accelerate_plays import accelerate_evaluation
from distlib.exercises.frameworks.checks import WAITS
from distlib.exercises.frameworks.fabric_plays import fabric_evaluation
from distlib.exercises.frameworks.port_plays import CountingModel

say = Sentences(__file__)
ERRORS = [
    ("receives into", say("same_shape")),
    *((words, say("all_ranks_gather")) for words in WAITS),
    ("division by zero", say("no_samples")),
]
DRAWN = 200  # to choose from
Plan = tuple[int, int, int]  # ranks, samples, batch_size
Parts = list[list[list[int]]]  # by rank: the samples of each batch, with those that fill up


@dataclass(frozen=True)
class Evaluation:
    """An evaluation to play on every rank.

    Attributes:
        ranks, samples, batch_size: numbers.
        parts: which samples the framework gives to which rank.
        right: by sample, whether it is recognized.
    """

    ranks: int
    samples: int
    batch_size: int
    parts: Parts
    right: Sequence[bool]

    @property
    def most(self) -> int:
        """Samples that a rank looks at."""
        return self.batch_size * -(-self.samples // (self.ranks * self.batch_size))

    @property
    def share(self) -> float:
        """What is to be found."""
        return sum(self.right) / self.samples

    def mistakes(self, rank: int) -> dict[str, list[float]]:
        """What a rank finds in other ways, by the name of the sentence."""
        own = [self.right[index] for batch in self.parts[rank] for index in batch]
        every = [self.right[index] for part in self.parts for batch in part for index in batch]
        by_batches = [
            self.right[index] for batches in zip(*self.parts, strict=True) for index in itertools.chain(*batches)
        ]
        of_batches = [_mean([self.right[index] for index in batch]) for part in self.parts for batch in part]
        size = self.ranks * self.batch_size
        together = [_mean(self.right[first : first + size]) for first in range(0, self.samples, size)]
        return {
            "fillers_counted": [_mean(every)],
            "fillers_above": [sum(every) / self.samples],
            "fillers_below": [sum(self.right) / len(every)],
            "cut_in_wrong_order": [_mean(every[: self.samples]), _mean(by_batches[: self.samples])],
            "own_samples": [_mean(own)],
            "own_above": [sum(own) / self.samples],
            "rest_dropped": self._without_rest(),
            "mean_of_batches": [_mean(of_batches), _mean(together)],
            "mean_of_shares": [self._mean_of_shares()],
            "number_not_share": [sum(self.right)],
            "first_batches": [_mean(self.right[:first]) for first in range(size, self.samples - size, size)],
        }

    def _without_rest(self) -> list[float]:
        """What is found where samples are left out that don't fill a round of all ranks, or of their batches."""
        rounds = (self.ranks, self.ranks * self.batch_size)
        kept = [self.right[: self.samples // size * size] for size in rounds if size <= self.samples]
        full = [i for part in self.parts for batch in part if len(batch) == self.batch_size for i in batch]
        kept += [[self.right[index] for index in full]] if full else []
        return [value for each in kept for value in (_mean(each), sum(each) / self.samples)]

    def _mean_of_shares(self) -> float:
        """What the ranks' shares are in the mean, without samples that are repeated."""
        owner: dict[int, int] = {}
        for batches in zip(*self.parts, strict=True):
            for rank, index in ((rank, index) for rank, batch in enumerate(batches) for index in batch):
                owner.setdefault(index, rank)
        return _mean(
            [_mean([self.right[i] for i, rank in owner.items() if rank == own]) for own in set(owner.values())]
        )

    @property
    def tells_apart(self) -> int:
        """How well: the mistakes that find something wrong, those of all ranks, and different numbers among them."""
        of_all = [set(itertools.chain(*self.mistakes(rank).values())) for rank in range(self.ranks)]
        wrong = [
            abs(each - self.share) > 1e-3
            for rank in range(self.ranks)
            for each in itertools.chain(*self.mistakes(rank).values())
        ]
        return 10 * sum(wrong) + sum(map(len, of_all))


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def evaluation_case(
    draw: Draw, plan: Plan, play: Callable[..., Any], parts: Callable[[Plan], Parts], layers: int = 1
) -> Case:
    """A case in which usual mistakes find something else, and each something of its own, as far as that can be.

    `layers`: of the model.
    """
    features, classes = draw.sample([number for number in range(2, 8) if number not in plan], 2)
    widths = [features, *(draw.randrange(3, 7) for _ in range(layers - 1)), classes]
    weights = [draw.normal((outputs, inputs)) for inputs, outputs in itertools.pairwise(widths)]
    biases, x = [draw.normal((width,)) for width in widths[1:-1]], draw.normal((plan[1], features))
    drawn = [[draw.random() < 0.6 for _ in range(plan[1])] for _ in range(DRAWN)]
    facts = max((Evaluation(*plan, parts(plan), each) for each in drawn), key=lambda each: each.tells_apart)
    with torch.no_grad():
        found = CountingModel(weights, biases)(x).argmax(1)
    labels = torch.where(torch.tensor(facts.right), found, (found + 1) % classes)
    model = {"weights": weights, "biases": biases}
    inputs = [model | {"x": x, "labels": labels, "batch_size": plan[2]} for _ in range(plan[0])]
    title = f"on {count(plan[0], 'rank')}, {count(plan[1], 'sample')} in batches of {plan[2]}"
    return Case(title, play, inputs, facts, seed=draw.randrange(10**6))


def strided_parts(plan: Plan) -> Parts:
    """Fabric's: a rank takes every so manieth sample."""
    ranks, samples, size = plan
    each = -(-samples // ranks)
    order = [index % samples for index in range(each * ranks)]
    own = [order[rank::ranks] for rank in range(ranks)]
    return [[indices[first : first + size] for first in range(0, each, size)] for indices in own]


def batched_parts(plan: Plan) -> Parts:
    """Accelerate's: a rank takes every so manieth batch."""
    ranks, samples, size = plan
    batches = ranks * -(-samples // (ranks * size))
    return [
        [[index % samples for index in range(k * size, (k + 1) * size)] for k in range(rank, batches, ranks)]
        for rank in range(ranks)
    ]


@task("fabric", "model", "loader", errors=ERRORS)
def check_fabric_evaluate(draw: Draw, *, evaluations: Sequence[Plan], layers: int = 1) -> Iterator[Case]:
    """`function(fabric, model, loader)`: the share of the samples that are recognized.

    `evaluations`: of each the ranks, the samples and the batch size. The ranks can't share the samples evenly.
    `layers`: of the model.
    """
    for plan in evaluations:
        yield evaluation_case(draw, plan, fabric_evaluation, strided_parts, layers)


@check_fabric_evaluate.judge
def _(seen: Seen) -> Remarks:
    yield from _judge_evaluation(seen, "drop_by_hand")


@task("accelerator", "model", "loader", errors=ERRORS)
def check_accelerate_evaluate(draw: Draw, *, evaluations: Sequence[Plan], layers: int = 1) -> Iterator[Case]:
    """`function(accelerator, model, loader)`: as of `check_fabric_evaluate`. The last batches are not full."""
    for plan in evaluations:
        yield evaluation_case(draw, plan, accelerate_evaluation, batched_parts, layers)


@check_accelerate_evaluate.judge
def _(seen: Seen) -> Remarks:
    yield from _judge_evaluation(seen, "drop_in_loop")


def _judge_evaluation(seen: Seen, how_to_drop: str) -> Remarks:
    """The share on every rank, and that the ranks share the work. `how_to_drop`: a name of a sentence."""
    facts: Evaluation = seen.facts
    yield nobody_returned([told["returned"] for told in seen.results], "the share, from each")
    for rank in seen.ranks:
        yield _share(seen, rank, how_to_drop)
    busy = [rank for rank in seen.ranks if seen[rank]["samples"] > facts.most]
    for rank in busy:
        found = count(seen[rank]["samples"], "sample")
        cause = say("all_look_at_all" if len(busy) == seen.size else "unequal_shares", rank=rank)
        yield say.remark("looks_at_more", rank=rank, found=found, most=facts.most, samples=facts.samples, cause=cause)
    if all(message.src == 0 for message in seen.trace if message.nbytes):
        yield say.remark("nobody_tells")


def _share(seen: Seen, rank: int, how_to_drop: str) -> Remark | None:
    facts: Evaluation = seen.facts
    found = seen[rank]["returned"]
    value = found.item() if isinstance(found, torch.Tensor) and found.numel() == 1 else found
    is_number = isinstance(value, int | float)
    if is_number and abs(value - facts.share) < 1e-6:
        return None
    table = [(name, each) for name, wrong in facts.mistakes(rank).items() for each in wrong]
    fitting = [name for name, each in table if is_number and abs(value - each) < 1e-6]
    is_nan = is_number and value != value
    name = (
        fitting[0] if fitting else "on_every_rank" if found is None else "no_samples" if is_nan else "share_of_samples"
    )
    cause = f"{say(name)} {say(how_to_drop)}" if name.startswith("fillers") else say(name)
    lines = f"expected {shown(facts.share)}", f"found    {shown(value)}"
    return say.remark("share", *lines, rank=rank, cause=cause)

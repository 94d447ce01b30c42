"""Cases for a loss over a vocabulary that is cut: what each rank is given, and what one process computes.

Loss(shares=(3, 4), positions=5)      rank 0 has the logits of tokens 0 to 2, rank 1 those of tokens 3 to 6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.task import Draw
from distlib.exercises.tensor_parallel.plays import vocabulary_loss


@dataclass(frozen=True)
class Loss:
    """A mean cross-entropy.

    Attributes:
        shares: by rank, of how many tokens it has the logits.
        positions: of each batch, how many there are.
        around: by rank, what its logits lie around; one number for all. Far from 0, an exponential overflows, or all of
            them are 0. In every other batch with the other sign.
        apart: by how much the logits of every other position are larger, on all ranks.
        targets_of: the rank that has the tokens of all targets; None: any has.
        forward_only: whether no gradients are wanted: torch.no_grad().
        strided: whether logits lie in memory that is not contiguous.
    """

    shares: Sequence[int]
    positions: Sequence[int] = (5,)
    around: float | Sequence[float] = 0.0
    apart: float = 0.0
    targets_of: int | None = None
    forward_only: bool = False
    strided: bool = False

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return sum(self.shares)

    @property
    def starts(self) -> list[int]:
        """By rank, its first token."""
        return [0, *accumulate(self.shares)][:-1]

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        each = f"{self.shares[0]} tokens each" if len(set(self.shares)) == 1 else f"{_listed(self.shares)} tokens"
        far = f", logits around {_listed(_by_rank(self))}" if any(_by_rank(self)) else ""
        far += f", every other position {self.apart:g} higher" * bool(self.apart)
        details = ", no gradients" * self.forward_only + ", memory not contiguous" * self.strided
        return f"on {count(len(self.shares), 'rank')}, {each}, {_listed(self.positions)} positions{far}{details}"


def _listed(numbers: Sequence[float]) -> str:
    """ "3, 4 and 5"; "3" if all are 3."""
    different = numbers[:1] if len(set(numbers)) == 1 else numbers
    *first, last = [f"{number:g}" for number in different]
    return f"{', '.join(first)} and {last}" if first else last


def _by_rank(plan: Loss) -> list[float]:
    return [plan.around] * len(plan.shares) if isinstance(plan.around, int | float) else list(plan.around)


def loss_case(draw: Draw, plan: Loss) -> Case:
    """The case of a plan; its facts are the plan. The gradient of each loss is a number that is drawn, too."""
    given: list[dict[str, Any]] = [
        {
            "first": first,
            "batches": [],
            "targets": [],
            "arriving": [],
            "forward_only": plan.forward_only,
            "strided": plan.strided,
        }
        for first in plan.starts
    ]
    tokens = range(plan.vocabulary)
    if plan.targets_of is not None:
        first = plan.starts[plan.targets_of]
        tokens = range(first, first + plan.shares[plan.targets_of])
    for k, positions in enumerate(plan.positions):
        targets = torch.tensor([draw.choice(tokens) for _ in range(positions)])
        higher = plan.apart * (torch.arange(positions) % 2).double().unsqueeze(1)
        arriving = torch.tensor(draw.uniform(0.5, 1.5), dtype=torch.float64)
        for entry, share, around in zip(given, plan.shares, _by_rank(plan), strict=True):
            entry["batches"].append((-1) ** k * around + higher + 2 * draw.normal((positions, share)))
            entry["targets"].append(targets.clone())
            entry["arriving"] += [] if plan.forward_only else [arriving.clone()]
    return Case(plan.title, vocabulary_loss, given, plan)


class WholeLoss:
    """What a single process with all logits computes for a case.

    Attributes:
        logits: by batch, [positions, vocabulary].
        targets: by batch.
        losses: by batch.
        gradients: by batch, of the logits; none where no gradients are wanted.
        columns: by rank, which of the logits are its own.
    """

    def __init__(self, case: Case) -> None:
        plan: Loss = case.facts
        self.plan = plan
        ends = [first + share for first, share in zip(plan.starts, plan.shares, strict=True)]
        self.columns = [slice(first, end) for first, end in zip(plan.starts, ends, strict=True)]
        parts = zip(*(given["batches"] for given in case.inputs), strict=True)
        self.logits = [torch.cat(each, dim=1) for each in parts]
        self.targets: list[torch.Tensor] = case.inputs[0]["targets"]
        self.arriving: list[torch.Tensor] = case.inputs[0]["arriving"]
        self.losses = [cross_entropy(*pair) for pair in zip(self.logits, self.targets, strict=True)]
        self.gradients = [arriving * self._by_logits(k) for k, arriving in enumerate(self.arriving)]

    def _by_logits(self, batch: int) -> torch.Tensor:
        """(softmax − 1 at the target) / positions."""
        return (self.softmax(batch) - self.at_target(batch)) / len(self.targets[batch])

    def softmax(self, batch: int) -> torch.Tensor:
        """The softmax over the whole vocabulary."""
        return self.logits[batch].softmax(dim=1)

    def at_target(self, batch: int) -> torch.Tensor:
        """1 at each position's target, 0 elsewhere."""
        return torch.nn.functional.one_hot(self.targets[batch], self.plan.vocabulary).double()

    def parts(self, values: torch.Tensor) -> list[torch.Tensor]:
        """The ranks' columns of values [positions, vocabulary]."""
        return [values[:, columns] for columns in self.columns]

    @property
    def most_numbers(self) -> int:
        """That the ranks may add up, or find the largest of: three for each position."""
        return 3 * sum(self.plan.positions)

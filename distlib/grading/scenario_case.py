"""One case of a check by scenario: what is played, with which inputs on which rank, on what network."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from distlib.network import Cluster

__passes_on__ = True  # see worlds.call_site

Play = Callable[..., Any]  # (comm, function, inputs, gate), a function of distlib.checks.plays


@dataclass(frozen=True)
class Part:
    """What the ranks need to know of a case. It travels to them; what is expected does not.

    Attributes:
        play: the scenario.
        inputs: by rank.
        seed: of the factors of the gates.
        apart: seconds between one rank's start and the next one's, in a shuffled order.
    """

    play: Play
    inputs: Sequence[Any]
    seed: int
    apart: float = 0.001

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.inputs)

    def delay(self, rank: int) -> float:
        """Seconds after which a rank begins: the ranks follow each other in an order that has nothing to do with their
        numbers, fixed for each case."""
        ranks = list(range(self.world_size))
        random.Random(f"{self.seed} {self.world_size}").shuffle(ranks)
        return self.apart * ranks.index(rank)

    def factor(self, rank: int, k: int) -> float:
        """What gate k multiplies the gradient on a rank by: 0.5 … 1.5."""
        return random.Random(f"{self.seed} {rank} {k}").uniform(0.5, 1.5)

    def gate(self, rank: int) -> Callable[..., float]:
        """The gate of a rank, gate(k, seconds), as the check itself passes it: it takes no time."""
        return lambda k, seconds=0.0: self.factor(rank, k)


@dataclass(frozen=True)
class ScenarioCase:
    """A case.

    Attributes:
        title: what a student's remark begins with, as "average_gradients on 3 ranks, 4 parameters".
        part: what the ranks need to know.
        cluster: the network of simulated ranks; None for one node with the default link.
        expected: whatever the check wants to remember of this case. It stays with the check.
    """

    title: str
    part: Part
    cluster: Cluster | None = None
    expected: Any = field(default=None, repr=False)

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.part.world_size

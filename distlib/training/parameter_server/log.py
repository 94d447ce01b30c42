"""What a server has done: which gradients it has applied, when, and how stale they were."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contribution:
    """A gradient that a server has applied.

    Attributes:
        worker: the rank that computed it.
        clock: its number among the worker's gradients, from 1 on.
        staleness: how many updates there were between the parameters it was computed with and this one.
        samples: how many samples it is of.
    """

    worker: int
    clock: int
    staleness: int
    samples: int


@dataclass(frozen=True)
class Update:
    """One change of the parameters.

    Attributes:
        time: on the server's clock, in seconds.
        contributions: the gradients that it is made of.
    """

    time: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class Refusal:
    """A gradient that a server has not applied.

    Attributes:
        worker, clock: as of a `Contribution`.
        reason: "late" (backup workers were faster), "not finite" (it holds NaN or infinity), or "not a member" (its
            worker had left, or the server had given up on it).
    """

    worker: int
    clock: int
    reason: str


@dataclass
class ServerLog:
    """What a server has done, in this order.

    Attributes:
        updates: number v, from 0 on, made version v + 1 of the parameters from version v.
        refused: what was not applied.
        waits: for each pull that had to wait: worker, and for how many seconds.
        lost: each worker that died, and when the server learned of it.
        joined: each worker that came later, and when.
        samples: of how many samples gradients were applied, since the training began: divided by the size of the data
            set, the *virtual epochs*.
    """

    updates: list[Update] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    waits: list[tuple[int, float]] = field(default_factory=list)
    lost: list[tuple[int, float]] = field(default_factory=list)
    joined: list[tuple[int, float]] = field(default_factory=list)
    samples: int = 0

    @property
    def contributions(self) -> list[Contribution]:
        """All gradients that were applied."""
        return [contribution for update in self.updates for contribution in update.contributions]

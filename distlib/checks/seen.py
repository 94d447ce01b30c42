"""What one run of a case has shown. Judges ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.trace import Trace
from distlib.worlds.diagnosis import PeerLost, RankError


@dataclass(frozen=True)
class Played:
    """What a play has shown on one rank.

    Attributes:
        result: what it returned, as plain values and tensors.
        gates: the gates that were passed: number, and the moment on the rank's clock.
        shown: what they were passed with: number, and a tensor or None, in the same order.
        slips: what was done wrong with handles: what (of `SLIPS`), of which call, at which line.
        library: the first function of the library that was called and must not, where that was watched; else None.
        changed: the inputs that were not what they had been, by name (by number, if they were not named), and what they
            were afterwards. A rank in a sandbox says so itself.
    """

    result: Any
    gates: Sequence[tuple[int, float]] = ()
    shown: Sequence[tuple[int, torch.Tensor | None]] = ()
    slips: Sequence[tuple[str, str, str]] = ()
    library: str | None = None
    changed: Mapping[str, Any] = field(default_factory=dict)


def with_the_dead(results: Sequence[Any]) -> list[Played]:
    """What a run has given by rank, where a dead rank's result is a `PeerLost`: it has shown nothing."""
    return [Played(None) if isinstance(each, PeerLost) else each for each in results]


@dataclass(frozen=True)
class Seen:
    """What one run of a case has shown. `seen[rank]` is what the play returned on a rank.

    Attributes:
        case: what was played.
        played: by rank; empty if there was an error.
        trace: the messages, up to the error if there was one. Its times and those of gates have one clock.
        in_virtual_time: whether times mean anything: those of simulated ranks do, those of real ones don't.
        error: what went wrong on the ranks, or None.
        printed: what was printed meanwhile.
        seconds: how long it took, in real seconds.
    """

    case: Case
    played: Sequence[Played]
    trace: Trace
    in_virtual_time: bool
    error: RankError | None = field(default=None)
    printed: str = ""
    seconds: float = 0.0

    def __getitem__(self, rank: int) -> Any:
        return self.played[rank].result

    @property
    def results(self) -> list[Any]:
        """What the play returned, by rank."""
        return [played.result for played in self.played]

    @property
    def ranks(self) -> range:
        """The numbers of all ranks."""
        return range(self.case.world_size)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.case.world_size

    @property
    def facts(self) -> Any:
        """What the check remembers of the case."""
        return self.case.facts

    def given(self, name: str) -> list[Any]:
        """An input, by rank."""
        return [inputs[name] for inputs in self.case.inputs]

    def passed(self, rank: int, k: int) -> list[float]:
        """The moments at which a rank passed gate k, in their order."""
        return [moment for number, moment in self.played[rank].gates if number == k]

    def shown(self, rank: int, k: int) -> list[torch.Tensor]:
        """The tensors with which a rank passed gate k, in their order."""
        return [values for number, values in self.played[rank].shown if number == k and values is not None]

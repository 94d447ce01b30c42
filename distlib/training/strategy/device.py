"""A device: how fast it computes, and how much memory it has. What joins devices is in a Cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass

from distlib.arguments import check_number


@dataclass(frozen=True)
class Device:
    """What a rank computes with.

    Attributes:
        peak: operations per second that its data sheet has.
        memory: bytes.
        reached: which part of the peak products of matrices reach, above 0 and at most 1.
        overhead: seconds of each pass through a layer that do not depend on its size.

    Raises:
        ValueError: what cannot be.
    """

    peak: float
    memory: float
    reached: float = 1.0
    overhead: float = 0.0

    def __post_init__(self) -> None:
        check_number("Device", "peak", self.peak, above=0)
        check_number("Device", "memory", self.memory, above=0)
        check_number("Device", "reached", self.reached, above=0)
        check_number("Device", "overhead", self.overhead, at_least=0)
        if self.reached > 1 or math.inf in (self.peak, self.overhead):
            raise ValueError(f"expected a part of at most 1 of a finite peak, got {self.reached} of {self.peak}")

    @property
    def speed(self) -> float:
        """Operations per second that it reaches."""
        return self.peak * self.reached

    def __str__(self) -> str:
        return f"{self.peak / 1e12:g} Tflop/s, of which {self.reached:.0%} are reached, and {self.memory / 1e9:g} GB"

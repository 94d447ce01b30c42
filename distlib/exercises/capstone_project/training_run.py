"""What a student's training was: how long it took, where it ended, and why it took too long.

run = TrainingRun(seen)            of a case of `check_train` or `check_survive`
run.seconds, run.loss              until the last rank had returned, and by the judge's own images
run.curve()                        the loss by virtual time, of the weights with which gradients were asked for
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.exercises.capstone_project.job_cases import Challenge
from distlib.exercises.capstone_project.job_plays import BEGIN, END, LOSS, LOSS_COSTS, NUMBERS, evaluated, images_of

say = Sentences(__file__)


@dataclass(frozen=True)
class TrainingRun:
    """A run of a case that came to its end, in virtual time if its venue has such.

    Attributes:
        seen: what the case has shown.
    """

    seen: Seen

    @property
    def setting(self) -> Challenge:
        """What was asked for."""
        setting: Challenge = self.seen.facts
        return setting

    @cached_property
    def living(self) -> list[int]:
        """The ranks that have returned."""
        return [rank for rank in self.seen.ranks if self.seen[rank] is not None]

    def weights(self, rank: int) -> torch.Tensor | None:
        """What a rank has returned; None if these are no weights."""
        found = self.seen[rank]["weights"]
        is_right = isinstance(found, torch.Tensor) and found.shape == (NUMBERS,) and found.dtype == torch.float64
        return found if is_right else None

    @cached_property
    def loss(self) -> float:
        """The loss that the returned weights have reached."""
        weights = self.weights(self.living[0])
        return float("nan") if weights is None else self._evaluated(weights)

    def samples(self, rank: int) -> int:
        """How many samples a rank has computed gradients for."""
        return sum(k for k, _ in self.seen.played[rank].gates if k < BEGIN)

    @cached_property
    def charged(self) -> int:
        """The same of all living ranks."""
        return sum(map(self.samples, self.living))

    @cached_property
    def asked_loss(self) -> float:
        """The loss of the weights with which the last gradients were asked for, on the rank where it is lowest."""
        asked = ([weights for k, weights in self.seen.played[rank].shown if k < BEGIN] for rank in self.living)
        last = [each[-1] for each in asked if each]
        return min((self._evaluated(weights) for weights in last if weights is not None), default=float("nan"))

    def is_seen_whole(self, rank: int) -> bool:
        """Whether a rank began once and ended once, and did all else in between."""
        gates = [k for k, _ in self.seen.played[rank].gates]
        return gates[:1] == [BEGIN] and gates[-1:] == [END] and gates.count(BEGIN) == gates.count(END) == 1

    @property
    def calls(self) -> int:
        """The most calls of gradient on a rank."""
        return max(sum(k < BEGIN for k, _ in self.seen.played[rank].gates) for rank in self.living)

    @property
    def losses(self) -> int:
        """The most calls of loss on a rank."""
        return max(len(self.seen.passed(rank, LOSS)) for rank in self.living)

    @cached_property
    def seconds(self) -> float:
        """From the start of the first rank until the last one has returned."""
        begin = min(self.seen.passed(rank, BEGIN)[0] for rank in self.living)
        return max(self.seen.passed(rank, END)[0] for rank in self.living) - begin

    def computed(self, rank: int) -> float:
        """The seconds in which a rank has computed gradients."""
        return self.samples(rank) * self._seconds_per_sample(rank)

    @property
    def busiest(self) -> float:
        """The most seconds in which a rank has computed gradients."""
        return max(map(self.computed, self.living))

    def why_late(self) -> str:
        """The sentence that says why it took too long."""
        slowest = max(self.living, key=self._seconds_per_sample)
        others = [self.computed(rank) for rank in self.living if rank != slowest] or [self.busiest]
        looked = max(len(self.seen.passed(r, LOSS)) * LOSS_COSTS * self._seconds_per_sample(r) for r in self.living)
        if self.setting.cluster.stragglers and self.computed(slowest) > 1.5 * max(others):
            return say("slow_rank")
        if self._is_one_after_the_other():
            return say("one_after_the_other")
        if looked > 0.3 * self.seconds:
            return say("often_looked")
        if self.busiest < 0.4 * self.seconds:
            return say("mostly_messages")
        return say("large_batches") if self.calls < 45 else say("small_batches")

    def _is_one_after_the_other(self) -> bool:
        """Whether ranks compute most of the time, and hardly ever two of them at once."""
        spans = sorted(span for own in self.computing() for span in own)
        both, until = 0.0, -math.inf  # seconds in which another rank still computes
        for begin, end in spans:
            both += max(0.0, min(end, until) - begin)
            until = max(until, end)
        total = sum(end - begin for begin, end in spans)
        return total > 0.5 * self.seconds and both < 0.1 * total

    def curve(self) -> list[tuple[float, float]]:
        """Moments, and the loss of the weights with which rank 0 then asked for a gradient or the loss."""
        gates = zip(self.seen.played[0].gates, self.seen.played[0].shown, strict=True)
        known = {moment: weights for (_, moment), (_, weights) in gates if weights is not None}
        begin, end = (self.seen.passed(0, gate)[0] for gate in (BEGIN, END))
        return [
            *((when - begin, self._evaluated(w)) for when, w in known.items() if when < end),
            (end - begin, self.loss),
        ]

    def computing(self) -> list[list[tuple[float, float]]]:
        """By rank, when it computed gradients: begin and end, on the clock of the messages."""
        return [
            [(when - k * self._seconds_per_sample(rank), when) for k, when in self.seen.played[rank].gates if k < BEGIN]
            for rank in self.seen.ranks
        ]

    def _seconds_per_sample(self, rank: int) -> float:
        return self.setting.seconds_per_sample * self.setting.cluster.stragglers.get(rank, 1.0)

    def _evaluated(self, weights: torch.Tensor) -> float:
        inputs = self.seen.case.inputs[0]
        return evaluated(weights, images_of(inputs["images"]), inputs["labels"])

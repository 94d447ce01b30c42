"""Cases of the project: which cluster, how much memory, which budget, and the data of a run, which nobody can know.

    Challenge("a slow network", Cluster.flat(4, Link(0.3, 1e6)), budget=24.0)
    Challenge("a rank that dies", …, deaths={2: 0.4})
    Challenge("one that dies as it waits", …, deaths={2: waiting_after(3)})

The images are those of `training.datasets`, but in each case samples, pixels, hidden units and classes are numbered
anew: what was learnt elsewhere is of no use. A rank has the samples of its own part alone, so that none gets far alone.
All networks start alike but for the numbering, so that luck plays a small part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.task import Draw
from distlib.exercises.capstone_project.job_plays import EVALUATED, NUMBERS, SAMPLES, SHAPES, run_steps, run_training
from distlib.network import Cluster
from distlib.partition import chunk_lengths
from distlib.training.datasets import digits
from distlib.worlds.deaths import WhileWaiting

HIDDEN = SHAPES[0][1]
SECONDS = 0.002  # per sample
TARGET = 0.27


@dataclass(frozen=True)
class Challenge:
    """A cluster and what is allowed on it.

    Attributes:
        name: in words.
        cluster: the ranks, their links, and which are slow.
        budget: virtual seconds.
        bytes_per_number: that a rank may hold between two steps, for each weight.
        deaths: by rank, the virtual second at which it dies, or `waiting_after` so many gradients.
        seconds_per_sample: on a rank that is not slow.
        target: the loss to reach.
    """

    name: str
    cluster: Cluster
    budget: float
    bytes_per_number: float = math.inf
    deaths: Mapping[int, float | WhileWaiting] = field(default_factory=dict)
    seconds_per_sample: float = SECONDS
    target: float = TARGET

    @property
    def memory(self) -> float:
        """Bytes that a rank may hold between two steps."""
        return self.bytes_per_number * NUMBERS


def waiting_after(gradients: int) -> WhileWaiting:
    """The death of a rank as it begins to wait for an answer, once it has sent so many gradients, or as many bytes."""
    return WhileWaiting(gradients * 8 * NUMBERS)


def training_case(draw: Draw, setting: Challenge) -> Case:
    """The case of a whole training. Its facts are the setting."""
    given = _given(draw, setting)
    ranks = setting.cluster.world_size
    title = f"on {count(ranks, 'rank')}, {setting.name}"
    lengths = chunk_lengths(SAMPLES, ranks)
    inputs = [_of_rank(given, sum(lengths[:rank]), length) for rank, length in enumerate(lengths)]
    seed = draw.getrandbits(60)
    return Case(title, run_training, inputs, setting, setting.cluster, seed, deaths=setting.deaths)


def steps_case(draw: Draw, shares: Sequence[Sequence[int]]) -> Case:
    """The case of some steps, each with the shares of all ranks. Its facts are these."""
    ranks = len(shares[0])
    given = _given(draw, Challenge("steps", Cluster.flat(ranks), math.inf))
    batches = [draw.sample(range(SAMPLES), sum(each)) for each in shares]
    more = {"batches": batches, "shares": [list(each) for each in shares], "rate": draw.choice([0.02, 0.03, 0.05])}
    inputs = [{**given, **more, "part": part} for part in chunk_lengths(NUMBERS, ranks)]
    words = " and ".join("+".join(map(str, each)) for each in shares)
    return Case(f"on {count(ranks, 'rank')}, shares {words}", run_steps, inputs, shares, seed=draw.getrandbits(60))


def _of_rank(given: dict[str, Any], first: int, length: int) -> dict[str, Any]:
    """What a rank is given: its own samples, and those that nobody learns from."""
    rows = [*range(first, first + length), *range(SAMPLES, SAMPLES + EVALUATED)]
    return {**given, "first": first, "images": given["images"][rows], "labels": given["labels"][rows]}


def _given(draw: Draw, setting: Challenge) -> dict[str, Any]:
    pixels, labels = _digits()
    samples = [*draw.sample(range(SAMPLES), SAMPLES), *range(SAMPLES, SAMPLES + EVALUATED)]
    of_pixels, of_hidden, of_classes = (draw.sample(range(size), size) for size in (64, HIDDEN, 10))
    return {
        "first": 0,
        "images": pixels[samples][:, of_pixels],
        "labels": torch.tensor(of_classes).argsort()[labels[samples]],
        "weights": _start(of_pixels, of_hidden, of_classes, torch.tensor([draw.choice([-1, 1]) for _ in of_hidden])),
        "cluster": setting.cluster,
        "seconds_per_sample": setting.seconds_per_sample,
        "memory": setting.memory,
        "target": setting.target,
        "budget": setting.budget,
    }


def _start(pixels: list[int], hidden: list[int], classes: list[int], signs: torch.Tensor) -> torch.Tensor:
    """The weights to start with, their pixels, hidden units and classes in this order. tanh is odd: signs cancel."""
    generator = torch.Generator().manual_seed(19)
    into_hidden, into_classes = (torch.randn(s, generator=generator).double() / s[0] ** 0.5 for s in SHAPES[::2])
    into_hidden, into_classes = (
        into_hidden[pixels][:, hidden] * signs,
        into_classes[hidden][:, classes] * signs[:, None],
    )
    biases = [torch.zeros(s).double() for s in SHAPES[1::2]]
    return torch.cat([into_hidden.flatten(), biases[0], into_classes.flatten(), biases[1]])


@lru_cache(maxsize=1)
def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    train, _ = digits()
    some = slice(0, SAMPLES + EVALUATED)
    return (train.images[some] * 16).round().to(torch.uint8).reshape(-1, 64), train.labels[some]

"""Cases for `resume`: which checkpoints each rank finds on its own disk, and in what state.

    Disks("a torn one", ["10 20 30", "10 20 30-torn"])      rank 1's newest is torn: both go on from step 20
    Disks("a new machine", ["10 20", None])                 rank 1 has no folder yet: from the start

A file is 32 bytes, the SHA-256 checksum of the rest, and then the rest, written by torch.save.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw
from distlib.exercises.environments.plays import as_tensor, of_the_model, resumed

say = Sentences(__file__)
DIGEST = 32  # bytes
STATES = {state: say(state) for state in ("torn", "short", "empty", "zeroed", "flipped", "checksum")}
NAMES = {  # of files that are no checkpoints, though some hold all of one
    "tmp": "step-{}.pt.tmp",
    "halftmp": "step-{}.pt.tmp",
    "other": "best-{}.pt",
    "zero": "step-0{}.pt",
    "last": "step-last-{}.pt",
    "renamed": "step-{}-old.pt",
    "old": "old-step-{}.pt",
}
# Of the model by name, weight [outputs, inputs], bias [outputs], layer2.weight [outputs, outputs], and so on; and the
# optimizer's velocity [inputs]. All are float64.
Values = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Disks:
    """What the disks of all ranks hold.

    Attributes:
        name: in words.
        ranks: by rank its steps, a state behind those that are not good, such as "10 20-torn 30-tmp"; None: no folder.
        layers: of each rank's model.
        is_large: whether its weight has more than a mebibyte, so that a file has, too.
    """

    name: str
    ranks: Sequence[str | None]
    layers: int = 1
    is_large: bool = False

    def states(self, rank: int) -> list[tuple[int, str]]:
        """Steps and states of a rank's files."""
        words = (word.partition("-") for word in (self.ranks[rank] or "").split())
        return [(int(step), state or "good") for step, _, state in words]

    def good(self, rank: int) -> set[int]:
        """The steps of which a rank has a good checkpoint: numbers from 1 on, of at most nine digits."""
        return {step for step, state in self.states(rank) if state == "good" and 0 < step < 10**9}

    @property
    def agreed(self) -> int:
        """The newest step of which all ranks have a good checkpoint; 0 if there is none."""
        return max(set.intersection(*(self.good(rank) for rank in range(len(self.ranks)))), default=0)


@dataclass(frozen=True)
class DiskCase:
    """What the judge remembers of a case.

    Attributes:
        disks: as given.
        values: by rank, what a whole checkpoint of each step holds; step 0 is the start.
        damaged: by rank, weights in damaged files that torch.load reads.
    """

    disks: Disks
    values: Sequence[Mapping[int, Values]] = field(repr=False)
    damaged: Sequence[Sequence[torch.Tensor]] = field(repr=False)


def drawn_disks(draw: Draw, ranks: int) -> Disks:
    """Disks on which half of the files are not good, but one step is on all ranks. Models have two or three layers."""
    steps = sorted(draw.sample(range(1, 1_500), 6))
    kept = draw.choice(steps[1:4])
    states = ["", "", "", *(f"-{state}" for state in (*STATES, "tmp", "halftmp"))]

    def disk() -> str:
        there = [
            f"{step}{'' if step == kept else draw.choice(states)}"
            for step in steps
            if step <= kept or draw.random() < 0.8
        ]
        return " ".join(draw.sample(there, len(there)))

    return Disks("drawn", [disk() for _ in range(ranks)], layers=draw.randint(2, 3))


def disks_case(draw: Draw, disks: Disks) -> Case:
    """The case of some disks. Its facts are a `DiskCase`."""
    inputs, values, damaged = [], [], []
    shape = draw.randint(1, 4), draw.randint(2, 5)
    if disks.is_large:
        shape = draw.randint(365, 380), draw.randint(381, 400)
    for rank, disk in enumerate(disks.ranks):
        states = disks.states(rank)
        values.append({step: _values(draw, shape, disks.layers) for step in (0, *(step for step, _ in states))})
        files = {
            NAMES.get(state, "step-{}.pt").format(step): _file(draw, step, state, values[-1][step])
            for step, state in states
        }
        inputs.append({"start": values[-1][0], "files": None if disk is None else files})
        damaged.append([_flipped(values[-1][step])["weight"] for step, state in states if state == "flipped"])
    title = f"on {count(len(disks.ranks), 'rank')}, {disks.name}"
    return Case(title, resumed, inputs, DiskCase(disks, values, damaged), seed=draw.getrandbits(60))


def _values(draw: Draw, shape: tuple[int, int], layers: int) -> dict[str, torch.Tensor]:
    values = {"weight": draw.normal(shape), "bias": draw.normal(shape[:1]), "velocity": draw.normal(shape[1:])}
    for layer in range(2, layers + 1):
        values[f"layer{layer}.weight"] = draw.normal((shape[0], shape[0]))
        values[f"layer{layer}.bias"] = draw.normal(shape[:1])
    return values


def _flipped(values: Values) -> dict[str, torch.Tensor]:
    signs = torch.ones_like(values["weight"])
    signs[0, 0] = -1
    return {**values, "weight": values["weight"] * signs}


def _file(draw: Draw, step: int, state: str, values: Values) -> torch.Tensor:
    """The bytes of a file."""
    content = content_of(step, values)
    whole = hashlib.sha256(content).digest() + content
    if state in ("torn", "halftmp"):
        whole = whole[: draw.randrange(DIGEST, len(whole))]
    elif state == "short":
        whole = whole[: draw.randrange(1, DIGEST)]
    elif state == "empty":
        whole = b""
    elif state == "zeroed":
        whole = whole[: len(whole) // 2].ljust(len(whole), b"\0")
    elif state == "flipped":
        whole = whole[:DIGEST] + content_of(step, _flipped(values))
    elif state == "checksum":
        whole = bytes([whole[0] ^ 1]) + whole[1:]
    return as_tensor(whole)


def content_of(step: int, values: Values) -> bytes:
    """What stands behind the checksum."""
    buffer = io.BytesIO()
    torch.save({"step": step, "model": of_the_model(values), "optimizer": {"velocity": values["velocity"]}}, buffer)
    return buffer.getvalue()

"""Cases for layers that are cut: what each rank is given, which share is its own, and what one process computes.

Column(ranks=2, in_features=4, out_features=6)     rank r has rows of the weight, and computes their output features
Row(ranks=2, in_features=4, out_features=6)        rank r has columns, and their input features
Attention(ranks=2, features=8, heads=4)            rank r has heads: rows of queries, keys and values, and columns
                                                   of the output's weight
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import linear

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.task import Draw
from distlib.exercises.tensor_parallel.attention_ways import ORDERS, SCALES
from distlib.exercises.tensor_parallel.plays import attention, linear_layer

Index = tuple[Any, ...]
Stored = dict[str, torch.Tensor]
EVERYTHING: Index = (slice(None),)


@dataclass(frozen=True)
class Share:
    """What is a rank's own, as indices of the whole.

    Attributes:
        stored: of each stored tensor.
        inputs, outputs: of a batch and of what comes out.
    """

    stored: dict[str, Index]
    inputs: Index = EVERYTHING
    outputs: Index = EVERYTHING


@dataclass(frozen=True)
class Column:
    """A linear layer whose output features are cut: a rank has rows of the weight.

    Attributes:
        ranks: how many there are.
        in_features, out_features: of the whole layer.
        batches: of each the shape, without the features. None: the layer is made, and not used.
        bias: whether there is one.
        forward_only: whether no gradients are wanted: torch.no_grad().
        strided: whether inputs and gradients lie in memory that is not contiguous.
        next_to: whether there is another layer, with other weights: what is kept in a global belongs to either.
    """

    ranks: int
    in_features: int
    out_features: int
    batches: Sequence[Sequence[int]] = ((5,),)
    bias: bool = True
    forward_only: bool = False
    strided: bool = False
    next_to: bool = False

    @property
    def cut(self) -> tuple[int, str]:
        """What the ranks must divide, and what it is called."""
        return self.out_features, "output features"

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        kind = f"{self.in_features} → {self.out_features} features{'' if self.bias else ', no bias'}"
        return f"on {count(self.ranks, 'rank')}, {kind}{_details(self)}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the whole tensors that are stored in shares, by name."""
        weight = {"weight": (self.out_features, self.in_features)}
        return {**weight, "bias": (self.out_features,)} if self.bias else dict(weight)

    def share(self, rank: int) -> Share:
        """Some output features, with their rows and their bias."""
        rows = _own(self.out_features, self.ranks, rank)
        return Share({"weight": (rows,), "bias": (rows,)}, outputs=(..., rows))

    def compute(self, stored: Stored, batch: torch.Tensor) -> torch.Tensor:
        """A linear layer, or a part of one."""
        return linear(batch, stored["weight"], stored.get("bias"))


@dataclass(frozen=True)
class Row(Column):
    """A linear layer whose input features are cut: a rank has columns of the weight, and the whole bias."""

    @property
    def cut(self) -> tuple[int, str]:
        """What the ranks must divide, and what it is called."""
        return self.in_features, "input features"

    def share(self, rank: int) -> Share:
        """Some input features, with their columns."""
        columns = _own(self.in_features, self.ranks, rank)
        return Share({"weight": (*EVERYTHING, columns), "bias": EVERYTHING}, inputs=(..., columns))


@dataclass(frozen=True)
class Attention:
    """Self-attention whose heads are cut. Attributes as of a `Column`; each head has features / heads features.

    Attributes:
        spread: of the inputs; the scores spread by its square, about.
    """

    ranks: int
    features: int
    heads: int
    batches: Sequence[Sequence[int]] = ((2, 3),)
    forward_only: bool = False
    strided: bool = False
    next_to: bool = False
    spread: float = 1.0

    @property
    def in_features(self) -> int:
        """The features of the input, on all ranks together."""
        return self.features

    @property
    def out_features(self) -> int:
        """The features of the output, on all ranks together."""
        return self.features

    @property
    def cut(self) -> tuple[int, str]:
        """What the ranks must divide, and what it is called."""
        return self.heads, "heads"

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        return f"on {count(self.ranks, 'rank')}, {self.features} features, {count(self.heads, 'head')}{_details(self)}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the whole tensors that are stored in shares, by name."""
        return {"qkv_weight": (3 * self.features, self.features), "output_weight": (self.features, self.features)}

    def share(self, rank: int) -> Share:
        """Some heads: of each of the three sections their rows, and their columns of the output's weight."""
        columns = _own(self.features, self.ranks, rank)
        rows = [section * self.features + row for section in range(3) for row in range(self.features)[columns]]
        return Share({"qkv_weight": (rows,), "output_weight": (*EVERYTHING, columns)})

    def compute(self, stored: Stored, batch: torch.Tensor, how: str = "") -> torch.Tensor:
        """Self-attention of the heads whose weights these are. [batch, length, features] → the same shape.

        Args:
            how: one of the ways in which it goes wrong, a key of `attention_ways.WAYS`.
        """
        if how == "across sequences":
            return self.compute(stored, batch.reshape(1, -1, self.features)).reshape(batch.shape)
        packed = linear(batch, stored["qkv_weight"])
        parts = self._taken_apart(packed, how)
        queries, keys, values = (parts[k] for k in ORDERS.get(how, (0, 1, 2)))
        if how == "within a place":
            queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))
        scale = SCALES[how](self.features, self.heads, self.ranks) if how in SCALES else queries.shape[-1]
        scores = queries @ keys.mT / math.sqrt(scale)
        if how == "masked":
            scores = scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
        mixed = scores.softmax({"over queries": 2, "over heads": 1}.get(how, 3)) @ values
        mixed = mixed if how in ("not put back", "within a place") else mixed.transpose(1, 2)
        mixed = mixed.transpose(2, 3) if how == "every nth feature" else mixed
        return linear(mixed.reshape(*batch.shape[:2], -1), stored["output_weight"])

    def _taken_apart(self, packed: torch.Tensor, how: str) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values, each [batch, heads, length, features of a head]. `how`: as of `compute`."""
        head, own = self.features // self.heads, packed.shape[-1] // 3
        if how == "one head":
            head = own
        if how == "too many heads" and packed.shape[-1] % (3 * self.heads) == 0:
            head = own // self.heads
        if how == "each head has its own three":
            return packed.unflatten(-1, (-1, 3, head)).permute(3, 0, 2, 1, 4).unbind()
        if how == "heads across places":
            batch, length, _ = packed.shape
            return tuple(each.reshape(batch, -1, length, head) for each in packed.chunk(3, -1))
        if how == "every nth feature":
            return packed.unflatten(-1, (3, head, -1)).permute(2, 0, 4, 1, 3).unbind()
        return packed.unflatten(-1, (3, -1, head)).permute(2, 0, 3, 1, 4).unbind()


Plan = Column | Attention


def _own(size: int, ranks: int, rank: int) -> slice:
    return slice(rank * size // ranks, (rank + 1) * size // ranks)


def _details(plan: Plan) -> str:
    if plan.cut[0] % plan.ranks:
        return ""
    batches = " and ".join(" × ".join(map(str, shape)) or "one row" for shape in plan.batches)
    no_gradients, strided = ", no gradients" * plan.forward_only, ", memory not contiguous" * plan.strided
    next_to = ", next to another layer" * plan.next_to
    return f", batch of {batches}{no_gradients}{strided}{next_to}" if plan.batches else ", not used yet"


# ── what ranks are given ─────────────────────────────────────────────────────────────────────────────────────────────


def cut_case(draw: Draw, plan: Plan) -> Case:
    """The case of a plan; its facts are the plan. Where the ranks do not divide what is cut, a layer has no batches.

    Each rank has a file of its own, and its part of inputs and gradients. A bias that all have is the same in all.
    """
    batches = () if isinstance(plan, Column) and plan.cut[0] % plan.ranks else plan.batches
    inputs, arriving = (
        [draw.normal((*shape, size)) for shape in batches] for size in (plan.in_features, plan.out_features)
    )
    if isinstance(plan, Attention):
        inputs = [plan.spread * each for each in inputs]
    bias = draw.normal((plan.out_features,))
    given: list[dict[str, Any]] = []
    for rank in range(plan.ranks):
        share = plan.share(rank)
        stored: dict[str, Any] = {"heads": plan.heads} if isinstance(plan, Attention) else {"bias": None}
        stored |= _drawn(draw, plan)
        if isinstance(plan, Row) and plan.bias:
            stored["bias"] = bias
        if plan.next_to:
            stored["other"] = {"bias": None, **_drawn(draw, plan)}
        entries = {
            "batches": [whole[share.inputs].clone() for whole in inputs],
            "arriving": [] if plan.forward_only else [whole[share.outputs].clone() for whole in arriving],
        }
        given.append({**stored, **entries, "forward_only": plan.forward_only, "strided": plan.strided})
    return Case(plan.title, attention if isinstance(plan, Attention) else linear_layer, given, plan)


def _drawn(draw: Draw, plan: Plan) -> Stored:
    return {name: draw.normal(shape) / math.sqrt(shape[-1]) for name, shape in plan.shapes.items()}


# ── what one process computes ────────────────────────────────────────────────────────────────────────────────────────


class Whole:
    """What a single process with the whole layer computes for a case.

    Attributes:
        stored: the whole tensors, put together from the ranks' shares; with their gradients.
        batches, arriving: likewise, by batch.
        outputs: by batch.
        shares: by rank.
    """

    def __init__(self, case: Case) -> None:
        plan: Plan = case.facts
        self.plan, self.shares, given = plan, [plan.share(rank) for rank in range(plan.ranks)], case.inputs
        self.stored = {}
        for name, shape in plan.shapes.items():
            own = [(share.stored[name], each[name]) for share, each in zip(self.shares, given, strict=True)]
            self.stored[name] = _put_together(shape, [(index, values[index]) for index, values in own])
            self.stored[name].requires_grad_()
        whole = self._whole("batches", given, plan.in_features, [share.inputs for share in self.shares])
        self.batches = [batch.requires_grad_(not plan.forward_only) for batch in whole]
        self.arriving = self._whole("arriving", given, plan.out_features, [share.outputs for share in self.shares])
        outputs = [plan.compute(self.stored, batch) for batch in self.batches]
        if not plan.forward_only:
            torch.autograd.backward(outputs, self.arriving)
        self.outputs = [output.detach() for output in outputs]

    @staticmethod
    def _whole(name: str, given: Sequence[Any], features: int, indices: Sequence[Index]) -> list[torch.Tensor]:
        whole = []
        for parts in zip(*(each[name] for each in given), strict=True):
            shape = (*parts[0].shape[:-1], features)
            whole.append(_put_together(shape, list(zip(indices, parts, strict=True))))
        return whole

    def part(self, rank: int, batch: int, times: int = 1, **options: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        """What a rank computes with its share alone: output, without a bias that all have, and input gradient.

        Args:
            times: what the input is multiplied by.
            options: of the plan's `compute`.
        """
        share = self.shares[rank]
        stored = {name: whole.detach()[share.stored[name]] for name, whole in self.stored.items()}
        if isinstance(self.plan, Row):
            stored.pop("bias", None)
        entry = self.batches[batch].detach()[share.inputs].clone().requires_grad_()
        output = self.plan.compute(stored, times * entry, **options)
        if not self.plan.forward_only:
            output.backward(self.arriving[batch][share.outputs])
        return output.detach(), entry.grad

    def gradient_of_one_input(self, name: str, batch: int) -> torch.Tensor | None:
        """The gradient of a stored tensor if all batches had the input of this one; None where their shapes differ."""
        if any(each.shape != self.batches[batch].shape for each in self.batches):
            return None
        stored = {key: whole.detach().clone().requires_grad_() for key, whole in self.stored.items()}
        outputs = [self.plan.compute(stored, self.batches[batch].detach()) for _ in self.batches]
        torch.autograd.backward(outputs, self.arriving)
        return stored[name].grad

    @property
    def ranks(self) -> range:
        """The numbers of all ranks."""
        return range(self.plan.ranks)

    @property
    def input_bytes(self) -> int:
        """The bytes of all batches."""
        return sum(batch.nbytes for batch in self.batches)

    @property
    def output_bytes(self) -> int:
        """The bytes of all outputs."""
        return sum(output.nbytes for output in self.outputs)


def _put_together(shape: Sequence[int], parts: Sequence[tuple[Index, torch.Tensor]]) -> torch.Tensor:
    whole = torch.zeros(tuple(shape), dtype=torch.float64)
    for index, part in parts:
        whole[index] = part
    return whole

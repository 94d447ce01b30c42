"""Exercise 12b: attention whose keys and values travel in a ring, and tokens that are sent to their experts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import same, shown
from distlib.checks.rules.sent_messages import Way, sends, such_as
from distlib.checks.rules.values import explain_factor, holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.long_and_sparse.plays import attend, dispatch

say = Sentences(__file__)


# ── ring_attention ───────────────────────────────────────────────────────────────────────────────────────────────────

HEADS, POSITIONS, FEATURES = 2, 3, 4
ATTEND_ERRORS = (
    ("waits to send", say("circle")),
    ("waits to receive", say("circle")),
    ("has already returned", say("circle")),
    ("float32", say("float64")),
)


@dataclass(frozen=True)
class RingPlan:
    """A sequence over several ranks.

    Attributes:
        ranks: how many.
        causal: whether a position sees only itself and those before it.
        scale: of queries and keys; with 60, scores are beyond the range of exp.
    """

    ranks: int
    causal: bool = False
    scale: float = 1.0

    @property
    def title(self) -> str:
        """ "on 3 ranks, causal, large scores"."""
        title = f"on {count(self.ranks, 'rank')}, {'causal' if self.causal else 'without a mask'}"
        return title + ", large scores" * (self.scale > 1)


@task("comm", "queries", "keys", "values", "causal", errors=ATTEND_ERRORS, untouched=["queries", "keys", "values"])
def check_ring_attention(draw: Draw, *, sequences: Sequence[tuple[int, bool, float]]) -> Iterator[Case]:
    """`function(comm, queries, keys, values, causal)`: the attention of this rank's positions to all of them.

    `sequences`: of each the number of ranks, whether it is causal, and the scale of queries and keys.
    """
    for plan in (RingPlan(*each) for each in sequences):
        inputs = [
            {
                name: draw.normal((HEADS, POSITIONS, FEATURES)) * (1 if name == "values" else plan.scale)
                for name in ("queries", "keys", "values")
            }
            | {"causal": plan.causal}
            for _ in range(plan.ranks)
        ]
        yield Case(plan.title, attend, inputs, plan)


@check_ring_attention.judge
def _(seen: Seen) -> Remarks:
    for rank in seen.ranks:
        found, right = seen[rank]["output"], attention(seen, rank)
        if isinstance(found, torch.Tensor) and found.shape == right.shape and not found.isfinite().all():
            yield say.remark("not_finite", rank=rank)
        what, mistakes = f"on rank {rank} the output", partial(_wrong_outputs, seen, rank)
        otherwise = say("none_returned") if found is None else explain_factor(found, right, say("output"))
        yield holds(what, found, right, mistakes, same=is_close, otherwise=otherwise)
    yield from _ring(seen)


def attention(
    seen: Seen,
    rank: int,
    blocks: Sequence[int] | None = None,
    *,
    scaled: bool = True,
    causal: bool | None = None,
    normalized: bool = True,
) -> torch.Tensor:
    """What a single process computes for the positions of a rank.

    Args:
        blocks: the ranks whose keys and values are seen; None for all.
        scaled: whether scores are divided by the root of the features.
        causal: whether it is masked; None: as in the case.
        normalized: whether weights add up to 1.
    """
    chosen = list(seen.ranks if blocks is None else blocks)
    queries = seen.case.inputs[rank]["queries"]
    keys, values = (torch.cat([seen.case.inputs[r][name] for r in chosen], dim=1) for name in ("keys", "values"))
    scores = queries @ keys.transpose(1, 2) / (math.sqrt(FEATURES) if scaled else 1)
    if seen.facts.causal if causal is None else causal:
        own = torch.arange(POSITIONS) + rank * POSITIONS
        others = torch.cat([torch.arange(POSITIONS) + r * POSITIONS for r in chosen])
        scores = scores.masked_fill(others > own[:, None], -math.inf)
    weights = scores.softmax(-1) if normalized else (scores - scores.amax(-1, keepdim=True)).exp()
    return weights.nan_to_num() @ values


def _wrong_outputs(seen: Seen, rank: int) -> dict[str, Any]:
    others = [r for r in seen.ranks if r != rank]
    each = torch.stack([attention(seen, rank, [r]) for r in seen.ranks])
    found = {
        say("own_only"): attention(seen, rank, [rank]),
        say("averaged_blocks"): [each.mean(0), each.sum(0)],
        say("not_scaled"): attention(seen, rank, scaled=False),
        say("not_normalized"): attention(seen, rank, normalized=False),
    }
    if len(others) > 1:
        found[say("block_missing")] = [
            attention(seen, rank, [r for r in seen.ranks if r != left_out]) for left_out in others
        ]
    if seen.facts.causal:
        found[say("no_mask")] = attention(seen, rank, causal=False)
        found[say("own_mask")] = _masked_alike(seen, rank)
    return found


def _masked_alike(seen: Seen, rank: int) -> torch.Tensor:
    """Every block masked as if it were the rank's own."""
    queries = seen.case.inputs[rank]["queries"]
    keys, values = (torch.cat([given[name] for given in seen.case.inputs], dim=1) for name in ("keys", "values"))
    scores = queries @ keys.transpose(1, 2) / math.sqrt(FEATURES)
    mask = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).triu(1).repeat(1, seen.size)
    return scores.masked_fill(mask, -math.inf).softmax(-1) @ values


def _ring(seen: Seen) -> Remarks:
    """Each rank sends its block, and what comes in, to the next one, N - 1 times."""
    steps = seen.size - 1
    nbytes = 2 * steps * HEADS * POSITIONS * FEATURES * 8
    ways = {}
    if steps:
        for rank in seen.ranks:
            way = Way(nbytes, "keys and values", 2 * steps, {nbytes + nbytes // steps: say("one_step_too_many")})
            ways[rank, (rank + 1) % seen.size] = way
    yield from sends(seen, ways, say("next_only"))


# ── dispatch_to_experts ──────────────────────────────────────────────────────────────────────────────────────────────

DISPATCH_ERRORS = (
    ("waits to send", say("all_talk")),
    ("waits to receive", say("all_talk")),
    ("has already returned", say("all_talk")),
    ("receives into", say("counts_first")),
    ("more than 8 times", say("all_talk")),
)
WIDTH = 3  # features of a token


@dataclass(frozen=True)
class DispatchPlan:
    """Which experts the tokens of each rank go to, and how many a rank may send to each."""

    experts: Sequence[Sequence[int]]
    capacity: int

    @property
    def title(self) -> str:
        """ "on 2 ranks, tokens for experts 0, 1 and 1 | none, capacity 2"."""
        each = " | ".join(", ".join(map(str, own)) or "no tokens" for own in self.experts)
        return f"on {count(len(self.experts), 'rank')}, experts {each}, capacity {self.capacity}"

    def kept(self, src: int, dst: int) -> list[int]:
        """The places of the tokens that a rank sends to an expert."""
        return [index for index, expert in enumerate(self.experts[src]) if expert == dst][: self.capacity]

    def dropped(self, src: int) -> int:
        """How many tokens of a rank go nowhere."""
        return len(self.experts[src]) - sum(len(self.kept(src, dst)) for dst in range(len(self.experts)))


def _drawn_routing(draw: Draw, ranks: int) -> DispatchPlan:
    experts = [[draw.randrange(ranks) for _ in range(draw.randint(0, 6))] for _ in range(ranks)]
    return DispatchPlan(experts, draw.randint(1, 3))


@task("comm", "tokens", "experts", "capacity", errors=DISPATCH_ERRORS, untouched=["tokens", "experts"])
def check_dispatch_to_experts(
    draw: Draw, *, routings: Sequence[tuple[Sequence[Sequence[int]], int]], drawn: Sequence[int] = ()
) -> Iterator[Case]:
    """`function(comm, tokens, experts, capacity)`: what comes to this rank's expert.

    Args:
        routings: of each the experts of the tokens, by rank, and the capacity.
        drawn: numbers of ranks of more routings.
    """
    for routing in (*(DispatchPlan(*each) for each in routings), *(_drawn_routing(draw, ranks) for ranks in drawn)):
        inputs = [
            {
                "tokens": draw.normal((len(own), WIDTH)),
                "experts": torch.tensor(list(own), dtype=torch.int64),
                "capacity": routing.capacity,
            }
            for own in routing.experts
        ]
        yield Case(routing.title, dispatch, inputs, routing)


@check_dispatch_to_experts.judge
def _(seen: Seen) -> Remarks:
    for rank in seen.ranks:
        found = seen[rank]["returned"]
        if not isinstance(found, tuple | list) or len(found) != 3:
            yield say.remark("three_values", rank=rank, found=shown(found))
            return
    for number, rule in enumerate((_tokens, _counts, _dropped)):
        for rank in seen.ranks:
            yield rule(seen, rank, seen[rank]["returned"][number])
    yield from _to_experts(seen)


def _arriving(seen: Seen, rank: int, *, capacity: bool = True) -> torch.Tensor:
    routing, parts = seen.facts, []
    for src in seen.ranks:
        kept = routing.kept(src, rank) if capacity else [p for p, e in enumerate(routing.experts[src]) if e == rank]
        parts.append(seen.case.inputs[src]["tokens"][kept])
    return torch.cat(parts)


def _tokens(seen: Seen, rank: int, found: Any) -> Remark | None:
    right, routing = _arriving(seen, rank), seen.facts
    last = [
        seen.case.inputs[src]["tokens"][
            [p for p, e in enumerate(routing.experts[src]) if e == rank][-routing.capacity :]
        ]
        for src in seen.ranks
    ]
    everyone = torch.cat(seen.given("tokens"))
    experts = torch.cat(seen.given("experts"))
    kept = everyone[experts == rank][: routing.capacity]
    mistakes = {
        say("no_capacity"): _arriving(seen, rank, capacity=False),
        say("last_kept"): torch.cat(last),
        say("capacity_of_all"): kept,
        say("own_tokens"): seen.case.inputs[rank]["tokens"][routing.kept(rank, rank)],
        say("order"): _in_other_orders(seen, rank),
    }
    what = f"on rank {rank} what came to its expert"
    return holds(what, found, right, mistakes, otherwise=say("tokens"))


def _in_other_orders(seen: Seen, rank: int) -> list[torch.Tensor]:
    parts = [seen.case.inputs[src]["tokens"][seen.facts.kept(src, rank)] for src in seen.ranks]
    turned = [parts[(rank - step) % seen.size] for step in range(seen.size)]
    forward = [parts[(rank + step) % seen.size] for step in range(seen.size)]
    own_last = [*(part for src, part in enumerate(parts) if src != rank), parts[rank]]
    return [torch.cat(each) for each in (turned, forward, own_last, parts[::-1])]


def _counts(seen: Seen, rank: int, found: Any) -> Remark | None:
    right = [len(seen.facts.kept(src, rank)) for src in seen.ranks]
    numbers = found.tolist() if isinstance(found, torch.Tensor) else found
    if same(numbers, right):
        return None
    sent = [len(seen.facts.kept(rank, dst)) for dst in seen.ranks]
    cause = "sent_counts" if same(numbers, sent) else "counts"
    return say.remark("wrong_counts", f"expected {right}", f"found    {shown(found)}", rank=rank, cause=say(cause))


def _dropped(seen: Seen, rank: int, found: Any) -> Remark | None:
    right = seen.facts.dropped(rank)
    number = found.item() if isinstance(found, torch.Tensor) and found.numel() == 1 else found
    if same(number, right):
        return None
    everyone = sum(seen.facts.dropped(src) for src in seen.ranks)
    cause = "dropped_of_all" if same(number, everyone) else "dropped"
    return say.remark("wrong_dropped", rank=rank, found=shown(found), right=right, cause=say(cause))


def _to_experts(seen: Seen) -> Remarks:
    """Tokens go from their rank to that of their expert, once; and one number before."""
    nbytes: dict[tuple[int, int], int] = {}
    pairs = Counter((message.src, message.dst) for message in seen.trace)
    for message in seen.trace:
        pair = message.src, message.dst
        nbytes[pair] = nbytes.get(pair, 0) + message.nbytes
        if message.nbytes > 8 and not seen.facts.kept(*pair):
            yield say.remark("no_tokens", such_as(message), src=pair[0], dst=pair[1])
    for (src, dst), found in nbytes.items():
        tokens = len(seen.facts.kept(src, dst)) * WIDTH * 8
        if found > tokens + 8:
            numbers = {"found": count(found, "byte"), "tokens": count(tokens, "byte")}
            yield say.remark("too_much", src=src, dst=dst, **numbers)
        if pairs[src, dst] > 2:
            yield say.remark("too_often", src=src, dst=dst, found=count(pairs[src, dst], "message"))

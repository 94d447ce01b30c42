"""Exercise 12d: attention whose keys and values travel in a ring, and tokens that are sent to their experts."""

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
        shape: heads, positions and features of each rank's queries, keys and values.
    """

    ranks: int
    causal: bool
    scale: float
    shape: tuple[int, int, int]

    @property
    def title(self) -> str:
        """ "on 3 ranks, [2, 5, 8] on each, causal, large scores"."""
        title = f"on {count(self.ranks, 'rank')}, {list(self.shape)} on each"
        return title + (", causal" if self.causal else ", without a mask") + ", large scores" * (self.scale > 1)

    @property
    def tensor_bytes(self) -> int:
        """Of a rank's queries, of its keys, and of its values."""
        return 8 * math.prod(self.shape)

    @property
    def most_alive(self) -> int:
        """Bytes on a rank that lets blocks go by: what it is given, two blocks more, and all that it computes with.

        That is generous: right answers need up to 17 times the queries, and messages under way are among that. But all
        blocks of twelve ranks are more, where a rank has far fewer positions than features, so that scores are small.
        """
        heads, positions, _ = self.shape
        scores = 8 * heads * positions**2
        return 20 * self.tensor_bytes + 8 * scores


def _drawn_shape(draw: Draw, ranks: int) -> tuple[int, int, int]:
    """Heads, positions and features: numbers that differ from each other, and from that of the ranks."""
    heads, positions = draw.sample([number for number in range(2, 7) if number != ranks], 2)
    return heads, positions, draw.choice([number for number in range(7, 13) if number != ranks])


Sequences = Sequence[tuple[int, bool, float] | tuple[int, bool, float, tuple[int, int, int]]]


@task("comm", "queries", "keys", "values", "causal", errors=ATTEND_ERRORS, untouched=["queries", "keys", "values"])
def check_ring_attention(draw: Draw, *, sequences: Sequences) -> Iterator[Case]:
    """`function(comm, queries, keys, values, causal)`: the attention of this rank's positions to all of them.

    `sequences`: of each the number of ranks, whether it is causal, the scale of queries and keys; and heads, positions
    and features. Where these are not there, they are drawn.
    """
    for ranks, causal, scale, *shape in sequences:
        plan = RingPlan(ranks, causal, scale, *shape or [_drawn_shape(draw, ranks)])
        inputs = [
            {
                name: draw.normal(plan.shape) * (1 if name == "values" else scale)
                for name in ("queries", "keys", "values")
            }
            | {"causal": causal}
            for _ in range(ranks)
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
    for rank in seen.ranks:
        yield _let_go_by(seen, rank)


def attention(
    seen: Seen,
    rank: int,
    blocks: Sequence[int] | None = None,
    *,
    divisor: float | None = None,
    causal: bool | None = None,
    normalized: bool = True,
) -> torch.Tensor:
    """What a single process computes for the positions of a rank.

    Args:
        blocks: the ranks whose keys and values are seen; None for all.
        divisor: of the scores; None: the root of the features.
        causal: whether it is masked; None: as in the case.
        normalized: whether weights add up to 1.
    """
    chosen = list(seen.ranks if blocks is None else blocks)
    queries = seen.case.inputs[rank]["queries"]
    keys, values = (torch.cat([seen.case.inputs[r][name] for r in chosen], dim=1) for name in ("keys", "values"))
    scores = queries @ keys.transpose(1, 2) / (divisor or math.sqrt(queries.shape[2]))
    if seen.facts.causal if causal is None else causal:
        positions = queries.shape[1]
        own = torch.arange(positions) + rank * positions
        others = torch.cat([torch.arange(positions) + r * positions for r in chosen])
        scores = scores.masked_fill(others > own[:, None], -math.inf)
    weights = scores.softmax(-1) if normalized else (scores - scores.amax(-1, keepdim=True)).exp()
    return weights.nan_to_num() @ values


def _wrong_outputs(seen: Seen, rank: int) -> dict[str, Any]:
    others = [r for r in seen.ranks if r != rank]
    each = torch.stack([attention(seen, rank, [r]) for r in seen.ranks])
    found = {
        say("own_only"): attention(seen, rank, [rank]),
        say("averaged_blocks"): [each.mean(0), each.sum(0)],
        say("not_scaled"): attention(seen, rank, divisor=1),
        say("scaled_otherwise"): [attention(seen, rank, divisor=each) for each in _other_divisors(seen)],
        say("not_normalized"): attention(seen, rank, normalized=False),
    }
    if len(others) > 1:
        found[say("block_missing")] = [
            attention(seen, rank, [r for r in seen.ranks if r != left_out]) for left_out in others
        ]
        back = [(rank - step) % seen.size for step in seen.ranks]
        found[say("blocks_missing")] = [attention(seen, rank, sorted(back[:n])) for n in range(2, seen.size - 1)]
    if seen.facts.causal:
        found[say("no_mask")] = attention(seen, rank, causal=False)
        found[say("own_mask")] = _masked_alike(seen, rank)
    return found


def _other_divisors(seen: Seen) -> list[float]:
    """What scores may be divided by in the place of the root of the features: these themselves, and other roots."""
    features = seen.facts.shape[2]
    return [features, *(math.sqrt(number) for number in range(2, 13) if number != features)]


def _masked_alike(seen: Seen, rank: int) -> torch.Tensor:
    """Every block masked as if it were the rank's own."""
    queries = seen.case.inputs[rank]["queries"]
    keys, values = (torch.cat([given[name] for given in seen.case.inputs], dim=1) for name in ("keys", "values"))
    scores = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[2])
    positions = queries.shape[1]
    mask = torch.ones(positions, positions, dtype=torch.bool).triu(1).repeat(1, seen.size)
    return scores.masked_fill(mask, -math.inf).softmax(-1) @ values


def _ring(seen: Seen) -> Remarks:
    """Each rank sends its block, and what comes in, to the next one, N - 1 times."""
    steps = seen.size - 1
    nbytes = 2 * steps * seen.facts.tensor_bytes
    ways = {}
    if steps:
        for rank in seen.ranks:
            way = Way(nbytes, "keys and values", 2 * steps, {nbytes + nbytes // steps: say("one_step_too_many")})
            ways[rank, (rank + 1) % seen.size] = way
    yield from sends(seen, ways, say("next_only"))


def _let_go_by(seen: Seen, rank: int) -> Remark | None:
    """A rank keeps at most two blocks besides its own."""
    plan: RingPlan = seen.facts
    alive = seen[rank]["peak"]
    if alive <= plan.most_alive:
        return None
    numbers = {"alive": count(alive, "byte"), "block": count(2 * plan.tensor_bytes, "byte")}
    return say.remark("keeps_blocks", rank=rank, **numbers, blocks=alive // (2 * plan.tensor_bytes))


# ── dispatch_to_experts ──────────────────────────────────────────────────────────────────────────────────────────────

DISPATCH_ERRORS = (
    ("waits to send", say("all_talk")),
    ("waits to receive", say("all_talk")),
    ("has already returned", say("all_talk")),
    ("receives into", say("counts_first")),
    ("got NoneType", say("none_has_come")),
    ("more than 8 times", say("all_talk")),
)


@dataclass(frozen=True)
class DispatchPlan:
    """Which experts the tokens of each rank go to, and how many a rank may send to each."""

    experts: Sequence[Sequence[int]]
    capacity: int

    @property
    def title(self) -> str:
        """ "on 2 ranks, tokens for experts 0, 1 and 1 | none, capacity 2"."""
        each = " | ".join(_listed(own) or "no tokens" for own in self.experts)
        return f"on {count(len(self.experts), 'rank')}, experts {each}, capacity {self.capacity}"

    def kept(self, src: int, dst: int) -> list[int]:
        """The places of the tokens that a rank sends to an expert."""
        return [index for index, expert in enumerate(self.experts[src]) if expert == dst][: self.capacity]

    def dropped(self, src: int) -> int:
        """How many tokens of a rank go nowhere."""
        return len(self.experts[src]) - sum(len(self.kept(src, dst)) for dst in range(len(self.experts)))


def _listed(experts: Sequence[int], most: int = 12) -> str:
    """ "0, 1, 1"; of many tokens the first experts, and how many there are."""
    more = f" … of {count(len(experts), 'token')}" if len(experts) > most else ""
    return ", ".join(map(str, experts[:most])) + more


def _drawn_routing(draw: Draw, ranks: int) -> DispatchPlan:
    experts = [[draw.randrange(ranks) for _ in range(draw.randint(0, 9))] for _ in range(ranks)]
    return DispatchPlan(experts, draw.randint(1, 4))


def _drawn_features(draw: Draw, routing: DispatchPlan) -> int:
    """Of a token: a number that differs from those of ranks, of tokens, and of what comes to an expert."""
    ranks = range(len(routing.experts))
    taken = {len(ranks), routing.capacity, *map(len, routing.experts)}
    taken |= {sum(len(routing.kept(src, dst)) for src in ranks) for dst in ranks}
    return draw.choice([number for number in range(2, 12) if number not in taken])


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
        features = _drawn_features(draw, routing)
        inputs = [
            {
                "tokens": draw.normal((len(own), features)),
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
    numbers = _numbers(found)
    if same(numbers, right):
        return None
    sent = [len(seen.facts.kept(rank, dst)) for dst in seen.ranks]
    cause = "sent_counts" if same(numbers, sent) else "counts"
    return say.remark("wrong_counts", f"expected {right}", f"found    {shown(found)}", rank=rank, cause=say(cause))


def _dropped(seen: Seen, rank: int, found: Any) -> Remark | None:
    right, number = seen.facts.dropped(rank), _numbers(found)
    if same(number, right):
        return None
    everyone = sum(seen.facts.dropped(src) for src in seen.ranks)
    cause = "dropped_of_all" if same(number, everyone) else "dropped"
    return say.remark("wrong_dropped", rank=rank, found=shown(found), right=right, cause=say(cause))


def _numbers(found: Any) -> Any:
    """What is in a tensor, also in those of a list: the text does not say which of both a count is."""
    if isinstance(found, list | tuple):
        return [_numbers(each) for each in found]
    return found.tolist() if isinstance(found, torch.Tensor) else found


def _to_experts(seen: Seen) -> Remarks:
    """Tokens go from their rank to that of their expert, once; and one number before."""
    nbytes: Counter[tuple[int, int]] = Counter()
    counts: Counter[tuple[int, int]] = Counter()  # bytes of whole numbers
    pairs = Counter((message.src, message.dst) for message in seen.trace)
    for message in seen.trace:
        pair = message.src, message.dst
        nbytes[pair] += message.nbytes
        is_whole = "int" in message.dtype
        counts[pair] += message.nbytes * is_whole
        if message.nbytes > 8 and not is_whole and not seen.facts.kept(*pair):
            yield say.remark("no_tokens", such_as(message), src=pair[0], dst=pair[1])
    features = seen.case.inputs[0]["tokens"].shape[1]
    for (src, dst), found in nbytes.items():
        tokens = len(seen.facts.kept(src, dst)) * features * 8
        whole = counts[src, dst]
        if found - whole > tokens + 8:
            numbers = {"found": count(found, "byte"), "tokens": count(tokens, "byte")}
            yield say.remark("too_much", src=src, dst=dst, **numbers)
        if found > tokens + 8:
            yield say.remark("too_many_numbers", src=src, dst=dst, found=count(found - tokens, "byte"))
        if pairs[src, dst] > 2:
            yield say.remark("too_often", src=src, dst=dst, found=count(pairs[src, dst], "message"))

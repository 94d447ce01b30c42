"""Exercise 08: a mixing matrix for any graph, and gossip with it. Weights and averages are judged by what must hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from distlib.checks.case import Case
from distlib.checks.plays.tensor import LAYOUTS, one_tensor
from distlib.checks.remark import Remark
from distlib.checks.rules.messages import Way, sends
from distlib.checks.rules.returns import called, type_of
from distlib.checks.rules.values import compared, is_close, known
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count, dtype_name

# fmt: off
NEAR = {torch.float32: 1e-4, torch.float64: 1e-9}
ROWS = ("if all ranks agree, nobody may change. What the weights of the neighbors leave of 1 is the rank's own: subtract when "
        "all of them are there.")
COLUMNS = ("a rank must count 1 in all, or the mean moves. Do both ends of an edge use the same weight? It depends on the "
           "neighbors of both, and must suit the one that has more.")


@task("neighbors")
def check_mixing_matrix(draw: Draw, *, graphs: Sequence[Sequence[Sequence[int]]]) -> Iterator[Case]:
    """`function(neighbors)`: a doubly stochastic matrix, with weights of at least 1/n on the graph and 0 elsewhere."""
    for neighbors in graphs:
        yield called([list(others) for others in neighbors], facts=neighbors)


@check_mixing_matrix.judge
def _(seen: Seen) -> Remarks:
    neighbors, W, n = seen.facts, seen[0], len(seen.facts)
    if not isinstance(W, torch.Tensor) or list(W.shape) != [n, n] or W.dtype != torch.float64:
        found = f"a tensor of {dtype_name(W.dtype)}, shape {list(W.shape)}" if isinstance(W, torch.Tensor) else type_of(W)
        yield Remark(f"it returned {found}; expected was float64, shape [{n}, {n}].", cause="does the last line return the "
                     f"matrix? At first it is torch.zeros({n}, {n}, dtype=torch.float64).")
        return
    yours = ("your matrix:", *(", ".join(f"{weight:.4g}" for weight in row) for row in W.tolist()))
    for i, j in ((i, j) for i in range(n) for j in range(n)):
        place, little = f"row {i}, column {j} is {W[i, j]:.6g}", not W[i, j] >= 1 / n - NEAR[W.dtype]
        if i != j and j not in neighbors[i] and W[i, j] != 0:
            yield Remark(f"{place}, but ranks {i} and {j} are not neighbors.", yours, "only neighbors talk. Elsewhere, but "
                         "for the diagonal, the weight is 0.")
        elif little and (i == j or j in neighbors[i]):
            yield Remark(f"{place}; at least 1/{n} was expected.", yours, f"ranks {i} and {j} are neighbors. Is every edge "
                         "filled in, and with a weight that lets the neighbor be heard?" if i != j else "the weights of a "
                         f"rank's neighbors leave something of 1, and that is its own. Are those of rank {i}, which has "
                         f"{count(len(neighbors[i]), 'neighbor')}, small enough, and is the diagonal filled in at the end?")
    for noun, sums, cause in (("row", W.sum(dim=1), ROWS), ("column", W.sum(dim=0), COLUMNS)):
        for i in ((sums - 1).abs() > NEAR[W.dtype]).nonzero().flatten().tolist():
            yield Remark(f"{noun} {i} adds up to {sums[i]:.10g}, and not to 1.", yours, cause)


@dataclass(frozen=True)
class Gossip:
    """A doubly stochastic matrix [ranks, ranks], the number of rounds; length, dtype and layout of every rank's tensor."""

    matrix: torch.Tensor
    rounds: int = 1
    length: int = 6
    dtype: torch.dtype = torch.float64
    layout: str = "contiguous"


EQUALLY = "every rank does the same number of rounds, and every message is received. "
LIKE = "a buffer for what comes in has the tensor's shape and dtype: torch.empty_like(tensor)."
ORDER = ("ranks wait for each other in a circle. Begin all receives with irecv and all sends with isend, and wait for them "
         "afterwards: then no order of the ranks matters.")
MOVED = ("the mean of all ranks has moved. Does a tensor change before it was sent to everybody in this round, or is a buffer "
         "read before it was waited for? Else look at the weights.")
STRANGERS = "the matrix says who is whose neighbor. Rank i sends to rank j only if matrix[j, i] is not 0."
ONE_WAY = ("the two ranks don't agree on whether there is a message. Rank i hears from j if matrix[i, j] is not 0, and sends "
           "to j if matrix[j, i] is not 0. One may be true without the other.")


def _errors(seen: Seen) -> Sequence[tuple[str, str]]:
    wait = ORDER if torch.equal(seen.facts.matrix > 0, seen.facts.matrix.T > 0) else ONE_WAY
    return [("but the ranks are", "who the neighbors are is in the matrix: row comm.rank says from whom a rank hears."),
            (" itself.", "a rank sends nothing to itself: leave comm.rank out. Its own tensor counts matrix[rank, rank]."),
            ("has already returned", EQUALLY + ONE_WAY), ("nobody received", EQUALLY + ONE_WAY), ("waits", wait),
            ("share memory", "what comes in needs a buffer of its own."), ("float64", LIKE), ("must match the size", LIKE)]


@task("comm", "tensor", "matrix", "rounds", errors=_errors)
def check_gossip_average(draw: Draw, *, plans: Sequence[Gossip]) -> Iterator[Case]:
    """`function(comm, tensor, matrix, rounds)`: W^k x in place, by messages between neighbors alone."""
    for plan in plans:
        notes = f"{count(plan.rounds, 'round')}, {plan.length} {dtype_name(plan.dtype)}{LAYOUTS[plan.layout]}"
        yield Case(f"on {count(len(plan.matrix), 'rank')}, {notes}", one_tensor, [
            {"values": draw.normal((plan.length,)).to(plan.dtype), "layout": plan.layout,
             "options": {"matrix": plan.matrix.clone(), "rounds": plan.rounds}} for _ in plan.matrix
        ], plan, seed=draw.getrandbits(60))


def _in_turns(x: torch.Tensor, matrix: torch.Tensor, rounds: int) -> torch.Tensor:
    """A tensor changes between two exchanges of a round; every rank takes its neighbors in the order of their numbers."""
    edges = sorted((i, j) for i, j in matrix.nonzero().tolist() if i > j)
    for i, j in edges * rounds:
        x = x.index_add(0, torch.tensor([i, j]), torch.stack([matrix[i, j] * (x[j] - x[i]), matrix[j, i] * (x[i] - x[j])]))
    return x


def _mistakes(start: torch.Tensor, W: torch.Tensor, k: int, is_silent: bool) -> dict[str, list[torch.Tensor]]:
    own, power = torch.diag(W.diagonal()), torch.linalg.matrix_power
    others, edges = W - own, ((W != 0) & ~torch.eye(len(W), dtype=torch.bool)).double()
    return {
        "the rank's own values are there, as at the start, and no message was sent. Make `rounds` rounds." if is_silent else
        "the rank's own values are there, as at the start. Write into the tensor: tensor.copy_(…).": [start],
        "this is the mean of all ranks. Gossip only comes nearer to it: a rank takes its neighbors' tensors, `rounds` times.":
            [start.mean(dim=0).expand_as(start)],
        "this is one round. Repeat it `rounds` times.": [W @ start], "this is a round too many.": [power(W, k + 1) @ start],
        "this is a round too few.": [power(W, max(k - 1, 0)) @ start],
        "row and column are exchanged: rank i multiplies the tensor of rank j by matrix[i, j].":
            [power(m, k) @ start for m in (W.T, own + edges * W.T)],
        "the rank's own tensor is left out. It counts matrix[rank, rank].": [power(others, k) @ start],
        "the rank's own tensor counts fully. It must be multiplied by matrix[rank, rank] before the others are added.":
            [power(others + torch.eye(len(W)), k) @ start],
        "the neighbors' tensors are added without their weights. That of rank j counts matrix[rank, j].":
            [power(own + edges, k) @ start],
        "every neighbor counts equally. The weights are in the matrix.":
            [power((m := edges + torch.eye(len(W))) / m.sum(dim=1, keepdim=True), k) @ start],
        "the rank's own tensor was multiplied by its weight before it was sent. Others need it as it was.":
            [power(own + others @ own, k) @ start],
        "the neighbors' tensors of the first round are used in every round. Send anew in each.":
            [sum((power(own, r) @ others @ start for r in range(k)), power(own, k) @ start)],
        "the tensor is changed while others still wait for it. In a round every rank sends what it had when the round began: "
        "add up elsewhere, and write at its end.": [_in_turns(start, W, k)] if torch.equal(W, W.T) else [],
    }


@check_gossip_average.judge
def _(seen: Seen) -> Remarks:
    plan, start = seen.facts, torch.stack(seen.given("values")).double()
    found, near = torch.stack([seen[rank]["values"] for rank in seen.ranks]).double(), NEAR[plan.dtype]
    same, right = partial(is_close, relative=near, absolute=near), torch.linalg.matrix_power(plan.matrix, plan.rounds) @ start
    for rank in (rank for rank in seen.ranks if not same(found[rank], right[rank])):
        cause = known(found, _mistakes(start, plan.matrix, plan.rounds, not len(seen.trace)), same) or MOVED * (
            not same(found.mean(dim=0), start.mean(dim=0))) or "it becomes the sum of matrix[rank, j] * tensor of j."
        yield Remark(f"on rank {rank} the tensor is wrong.", compared(right[rank], found[rank]), cause)
    yield from (Remark(f"on rank {r} memory outside of the tensor was written.") for r in seen.ranks if seen[r]["strayed"])
    own = plan.rounds * plan.length * plan.dtype.itemsize
    yield from sends(seen, {(j, i): Way(own, f"its tensor in {count(plan.rounds, 'round')}", plan.rounds)
                            for i, j in plan.matrix.nonzero().tolist() if i != j and own}, STRANGERS)
# fmt: on

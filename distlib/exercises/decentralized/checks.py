"""Exercise 08: a mixing matrix for any graph, gossip with it, a step of training. All are judged by what must hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, dtype_name
from distlib.checks.plays.tensor import LAYOUTS, one_tensor
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import called, type_of
from distlib.checks.rules.sent_messages import Way, sends
from distlib.checks.rules.values import compared, is_close, known
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.decentralized.plays import EXPECTED, slope, train

say = Sentences(__file__)
NEAR = {torch.float32: 1e-4, torch.float64: 1e-9}
Left = dict[str, list[torch.Tensor]]  # by the words for a mistake, the values that it leaves, [ranks, length]


# ── mixing_matrix ────────────────────────────────────────────────────────────────────────────────────────────────────


@task("neighbors", errors=[("division by zero", say("alone")), ("empty", say("alone"))])
def check_mixing_matrix(draw: Draw, *, graphs: Sequence[Sequence[Sequence[int]]]) -> Iterator[Case]:
    """`function(neighbors)`: a doubly stochastic matrix, with weights of at least 1/n on the graph and 0 elsewhere."""
    for neighbors in graphs:
        yield called([list(others) for others in neighbors], facts=neighbors)


@check_mixing_matrix.judge
def _(seen: Seen) -> Remarks:
    neighbors, W, n = seen.facts, seen[0], len(seen.facts)
    if not isinstance(W, torch.Tensor) or list(W.shape) != [n, n] or W.dtype != torch.float64:
        yield _no_matrix(W, n)
        return
    yours = ("your matrix:", *(", ".join(f"{weight:.4g}" for weight in row) for row in W.tolist()))
    for breach in _breaches(neighbors, W, near=1e-6):
        yield Remark(breach.seen, yours, breach.cause)
    for breach in _breaches(neighbors, W, near=NEAR[W.dtype]):
        yield Remark(breach.seen, yours, say("rounded"))


def _no_matrix(found: object, n: int) -> Remark:
    """The remark about a result that is no float64 tensor of shape [n, n]."""
    if found is None:
        return say.remark("returned_nothing", found=type_of(found), n=n)
    if not isinstance(found, torch.Tensor):
        return say.remark("no_tensor", found=type_of(found), n=n)
    return say.remark("other_tensor", dtype=dtype_name(found.dtype), shape=list(found.shape), n=n)


def _breaches(neighbors: Sequence[Sequence[int]], W: torch.Tensor, near: float) -> Iterator[Remark]:
    """What a matrix breaks by more than `near`."""
    n, rows, columns = len(W), W.sum(dim=1), W.sum(dim=0)
    for i, j in product(range(n), repeat=2):
        is_edge = j in neighbors[i]
        if i != j and not is_edge and W[i, j] != 0:
            yield say.remark("strangers", i=i, j=j, weight=W[i, j])
        elif (i == j or is_edge) and not W[i, j] >= 1 / n - near:
            yield _too_small(neighbors, W, i, j)
    row_sum = "row_sum" if ((columns - 1).abs() > near).any() else "row_sum_alone"
    for name, sums in ((row_sum, rows), ("column_sum", columns)):
        for i in ((sums - 1).abs() > near).nonzero().flatten().tolist():
            yield say.remark(name, i=i, sum=sums[i])


def _too_small(neighbors: Sequence[Sequence[int]], W: torch.Tensor, i: int, j: int) -> Remark:
    """The remark about a weight on the graph that is less than 1/n."""
    cell = {"i": i, "j": j, "weight": W[i, j], "n": len(W)}
    if i == j:
        return say.remark("small_own_weight", **cell, neighbors=count(len(neighbors[i]), "neighbor"))
    return say.remark("timid" if W[i, j] else "missing_edge", **cell)


# ── gossip_average ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Gossip:
    """A doubly stochastic matrix [ranks, ranks], the number of rounds; length, dtype, layout of every rank's tensor."""

    matrix: torch.Tensor
    rounds: int = 1
    length: int = 6
    dtype: torch.dtype = torch.float64
    layout: str = "contiguous"


def _gossip_errors(seen: Seen) -> Signs:
    return _errors(seen, say("rounds_differ"))


def _errors(seen: Seen, differ: str) -> Signs:
    """`differ`: the cause where a rank does more than another."""
    is_symmetric = torch.equal(seen.facts.matrix > 0, seen.facts.matrix.T > 0)
    return [
        ("but the ranks are", say("no_rank")),
        (" itself.", say("itself")),
        ("has already returned", differ),
        ("nobody received", differ),
        ("waits", say("circle") if is_symmetric else say("disagree")),
        ("share memory", say("own_buffer")),
        ("same dtype", say("dtypes")),
        ("expected scalar type", say("dtypes")),
        ("float64", say("buffer_like")),
        ("must match the size", say("buffer_like")),
    ]


@task("comm", "tensor", "matrix", "rounds", errors=_gossip_errors)
def check_gossip_average(draw: Draw, *, plans: Sequence[Gossip]) -> Iterator[Case]:
    """`function(comm, tensor, matrix, rounds)`: W^k x in place, by messages between neighbors alone."""
    for plan in plans:
        notes = f"{count(plan.rounds, 'round')}, {plan.length} {dtype_name(plan.dtype)}{LAYOUTS[plan.layout]}"
        inputs = [
            {
                "values": draw.normal((plan.length,)).to(plan.dtype),
                "layout": plan.layout,
                "options": {"matrix": plan.matrix.clone(), "rounds": plan.rounds},
            }
            for _ in plan.matrix
        ]
        title = f"on {count(len(plan.matrix), 'rank')}, {notes}"
        yield Case(title, one_tensor, inputs, plan, seed=draw.getrandbits(60))


@check_gossip_average.judge
def _(seen: Seen) -> Remarks:
    for rank in seen.ranks:
        yield from (say.remark("argument_changed", rank=rank, argument=name) for name in seen[rank]["changed"])
    yield from _wrong_tensors(seen)
    yield from (say.remark("strayed_from_tensor", rank=rank) for rank in seen.ranks if seen[rank]["strayed"])
    plan = seen.facts
    nbytes = plan.rounds * plan.length * plan.dtype.itemsize
    way = Way(nbytes, say("tensor_each_round", rounds=count(plan.rounds, "round")), plan.rounds)
    yield from sends(seen, dict.fromkeys(_edges(plan.matrix), way) if plan.rounds else {}, say("rounds_by_matrix"))


def _wrong_tensors(seen: Seen) -> Remarks:
    plan, start = seen.facts, torch.stack(seen.given("values")).double()
    found = torch.stack([seen[rank]["values"] for rank in seen.ranks]).double()
    right = torch.linalg.matrix_power(plan.matrix, plan.rounds) @ start
    same = partial(is_close, relative=NEAR[plan.dtype], absolute=NEAR[plan.dtype])
    for rank in seen.ranks:
        if not same(found[rank], right[rank]):
            is_silent = not len(seen.trace)
            cause = known(found, _mistakes(start, plan.matrix, plan.rounds, is_silent), same)
            cause = cause or _unknown(seen, found, right, is_mean_kept=same(found.mean(dim=0), start.mean(dim=0)))
            yield say.remark("wrong_tensor", *compared(right[rank], found[rank]), rank=rank, cause=cause)


def _mistakes(start: torch.Tensor, W: torch.Tensor, k: int, is_silent: bool) -> Left:
    """What usual mistakes leave after k rounds."""
    own, power = torch.diag(W.diagonal()), torch.linalg.matrix_power
    others, edges, one = W - own, _graph(W), torch.eye(len(W))
    return {
        say("silent" if is_silent else "not_written"): [start],
        say("mean"): [start.mean(dim=0).expand_as(start)],
        say("one_round"): [W @ start],
        say("too_many"): [power(W, k + 1) @ start],
        say("transposed"): [power(W.T, k) @ start, power(own + edges * W.T, k) @ start],
        say("own_left_out"): [power(others, k) @ start],
        say("own_fully"): [power(others + one, k) @ start],
        say("no_weights"): [power(own + edges, k) @ start],
        say("equally"): [power(_equal_weights(W), k) @ start],
        say("scaled_first"): [power(own + others @ own, k) @ start],
        say("first_round_again"): [_first_round_again(start, W, k)],
        say("in_turns"): [_in_turns(start, W, k)] if torch.equal(W, W.T) else [],
        say("zeros"): [0 * start],
    }


def _graph(W: torch.Tensor) -> torch.Tensor:
    """1 for each edge, and 0 elsewhere; float64 [ranks, ranks]."""
    return ((W != 0) & ~torch.eye(len(W), dtype=torch.bool)).double()


def _equal_weights(W: torch.Tensor) -> torch.Tensor:
    """A matrix on the same graph in which a rank and all its neighbors count equally."""
    ones = _graph(W) + torch.eye(len(W))
    return ones / ones.sum(dim=1, keepdim=True)


def _first_round_again(x: torch.Tensor, W: torch.Tensor, rounds: int) -> torch.Tensor:
    """Every round adds what the neighbors had in the first one."""
    own, power = torch.diag(W.diagonal()), torch.linalg.matrix_power
    return sum((power(own, r) @ (W - own) @ x for r in range(rounds)), power(own, rounds) @ x)


def _in_turns(x: torch.Tensor, W: torch.Tensor, rounds: int) -> torch.Tensor:
    """A tensor changes between two exchanges of a round; a rank takes its neighbors in the order of their numbers."""
    for i, j in sorted((i, j) for i, j in W.nonzero().tolist() if i > j) * rounds:
        x = x.index_add(0, torch.tensor([i, j]), torch.stack([W[i, j] * (x[j] - x[i]), W[j, i] * (x[i] - x[j])]))
    return x


def _unknown(seen: Seen, found: torch.Tensor, right: torch.Tensor, is_mean_kept: bool) -> str:
    """The cause where no usual mistake leaves these tensors."""
    if is_close(found, right, relative=1e-6, absolute=1e-6):
        return say("float32_tensor")
    if deaf := _deaf(seen):
        return deaf
    if not is_mean_kept:
        return say("mean_moved")
    return say("what_rounds_are" if seen.facts.rounds > 1 else "what_a_round_is")


def _edges(W: torch.Tensor) -> list[tuple[int, int]]:
    """(source, destination) of every message of a round."""
    return [(j, i) for i, j in W.nonzero().tolist() if i != j]


def _deaf(seen: Seen) -> str:
    """The first edge without a message, in words."""
    heard = {(m.src, m.dst) for m in seen.trace}
    return next((say("deaf", i=i, j=j) for j, i in _edges(seen.facts.matrix) if (j, i) not in heard), "")


# ── decentralized_step ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class GossipTraining:
    """A doubly stochastic matrix [ranks, ranks], the number of steps; rate; length, dtype, layout of the parameters."""

    matrix: torch.Tensor
    steps: int = 1
    rate: float = 0.4  # not 1/2: then a gradient without its rate would be one that is subtracted twice
    length: int = 4
    dtype: torch.dtype = torch.float64
    layout: str = "contiguous"


def _step_errors(seen: Seen) -> Signs:
    own = [("'function'", say("gradient_is_function")), (EXPECTED, say("alike"))]
    return [*own, *_errors(seen, say("steps_differ"))]


@task("comm", "parameters", "gradient", "matrix", "learning_rate", errors=_step_errors)
def check_decentralized_step(draw: Draw, *, plans: Sequence[GossipTraining]) -> Iterator[Case]:
    """`function(comm, parameters, gradient, matrix, learning_rate)`: x_i becomes (Wx)_i - rate * g_i(x_i), in place."""
    for plan in plans:
        slow = draw.randrange(len(plan.matrix))
        values = f"{count(plan.length, 'parameter')}, {dtype_name(plan.dtype)}{LAYOUTS[plan.layout]}"
        notes = f"{count(plan.steps, 'step')}, {values}{', a rate of 0' * (plan.rate == 0)}"
        inputs = [
            {
                "values": draw.normal((plan.length,)).to(plan.dtype),
                "layout": plan.layout,
                "curvature": torch.tensor([draw.uniform(0.5, 1.5) for _ in range(plan.length)]).double(),
                "target": draw.normal((plan.length,)),
                "is_slow": rank == slow,
                "matrix": plan.matrix.clone(),
                "rate": plan.rate,
                "steps": plan.steps,
            }
            for rank in range(len(plan.matrix))
        ]
        title = f"on {count(len(plan.matrix), 'rank')}, {notes}"
        yield Case(title, train, inputs, plan, seed=draw.getrandbits(60))


@check_decentralized_step.judge
def _(seen: Seen) -> Remarks:
    plan, x = seen.facts, torch.stack(seen.given("values")).double()
    for rank in seen.ranks:
        if seen[rank]["changed"]:
            yield say.remark("argument_changed", rank=rank, argument="matrix")
    for step in range(plan.steps):
        g = _slopes(seen, x, step)
        yield from _wrong_gradients(seen, x, step)
        yield from _wrong_parameters(seen, x, g, step)
        x = plan.matrix @ x - plan.rate * g
    yield from (say.remark("strayed_from_parameters", rank=rank) for rank in seen.ranks if seen[rank]["strayed"])
    nbytes = plan.steps * plan.length * plan.dtype.itemsize
    way = Way(nbytes, say("parameters_each_step", steps=count(plan.steps, "step")), plan.steps)
    yield from sends(seen, dict.fromkeys(_edges(plan.matrix), way), say("steps_by_matrix"))


def _slopes(seen: Seen, x: torch.Tensor, step: int) -> torch.Tensor:
    """The gradient of each rank at its row of x, as gate `step` hands it out; float64 [ranks, length]."""
    return torch.stack([slope(given, x[r], seen.case.part.factor(r, step)) for r, given in enumerate(seen.case.inputs)])


def _in_step(plan: GossipTraining, step: int) -> str:
    return f" in step {step + 1}" if plan.steps > 1 else ""


def _wrong_gradients(seen: Seen, x: torch.Tensor, step: int) -> Remarks:
    """A rank takes one gradient in a step, at its own parameters as they were when the step began."""
    plan = seen.facts
    same = partial(is_close, relative=NEAR[plan.dtype], absolute=NEAR[plan.dtype])
    for rank in seen.ranks:
        calls, handed = len(seen.passed(rank, step)), seen.shown(rank, step)
        where = {"rank": rank, "in_step": _in_step(plan, step)}
        if not calls:
            yield say.remark("not_called", **where)
        elif not same(handed[0].double(), x[rank]):
            cause = known(_first_points(seen, step), _points(plan.matrix, x), same) or say("other_place")
            yield say.remark("wrong_place", *compared(x[rank], handed[0].double()), **where, cause=cause)
        elif calls > 1:
            where["in_step"] = where["in_step"] or " in one step"
            yield say.remark("called_often", **where, times=count(calls, "time"))


def _first_points(seen: Seen, step: int) -> torch.Tensor:
    """What each rank handed to `gradient` first; zeros for a rank that did not call it. Float64 [ranks, length]."""
    none = torch.zeros(seen.facts.length).double()
    handed = [seen.shown(rank, step) for rank in seen.ranks]
    return torch.stack([first[0].double() if first else none for first in handed])


def _points(W: torch.Tensor, x: torch.Tensor) -> Left:
    """Where a gradient is taken by mistake: what each rank handed to `gradient`."""
    return {
        say("place_after_mixing"): [W @ x],
        say("place_scaled"): [W.diagonal().unsqueeze(1) * x],
        say("place_mean"): [x.mean(dim=0).expand_as(x)],
        say("place_zeros"): [0 * x],
    }


def _wrong_parameters(seen: Seen, x: torch.Tensor, g: torch.Tensor, step: int) -> Remarks:
    """What the ranks hold after a step from x with the gradients g."""
    plan, W = seen.facts, seen.facts.matrix
    same = partial(is_close, relative=NEAR[plan.dtype], absolute=NEAR[plan.dtype])
    right = W @ x - plan.rate * g
    found = torch.stack([seen[rank]["steps"][step] for rank in seen.ranks]).double()
    for rank in seen.ranks:
        if not same(found[rank], right[rank]):
            cause = known(found, _missteps(W, x, g, plan.rate), same) or _unknown_step(seen, found, right)
            lines, in_step = compared(right[rank], found[rank]), _in_step(plan, step)
            yield say.remark("wrong_parameters", *lines, rank=rank, in_step=in_step, cause=cause)


def _missteps(W: torch.Tensor, x: torch.Tensor, g: torch.Tensor, rate: float) -> Left:
    """What usual mistakes leave after a step from x with the gradients g."""
    own, one, down = torch.diag(W.diagonal()), torch.eye(len(W), dtype=W.dtype), x - rate * g
    others, edges, average = W - own, _graph(W), torch.full_like(W, 1 / len(W))
    mixed_down = others @ down + own @ x
    return {
        say("step_not_written"): [x],
        say("mixing_alone"): [W @ x],
        say("gradient_alone"): [down],
        say("gradient_added"): [W @ x + rate * g],
        say("no_rate"): [W @ x - g, W @ x + g],
        say("adapt_then_combine"): [W @ down],
        say("neighbors_stepped"): [mixed_down, mixed_down - rate * g, others @ down + x - rate * g],
        say("gradients_mixed"): [x - rate * W @ g],
        say("average_of_all"): [average @ x - rate * g, average @ down, x - rate * average @ g, average @ x],
        say("gradient_scaled"): [W @ x - rate * own @ g],
        say("own_parameters_left_out"): [others @ x - rate * g],
        say("own_parameters_fully"): [(others + one) @ x - rate * g],
        say("parameters_scaled_first"): [(own + others @ own) @ x - rate * g],
        say("parameters_without_weights"): [(own + edges) @ x - rate * g],
        say("equally"): [_equal_weights(W) @ x - rate * g],
        say("parameters_transposed"): [W.T @ x - rate * g, (own + edges * W.T) @ x - rate * g],
        say("mixed_twice"): [W @ W @ x - rate * g, W @ (W @ x - rate * g)],
        say("gradient_twice"): [W @ x - 2 * rate * g],
    }


def _unknown_step(seen: Seen, found: torch.Tensor, right: torch.Tensor) -> str:
    """The cause where no usual mistake leaves these parameters."""
    if is_close(found, right, relative=1e-6, absolute=1e-6):
        return say("float32_parameters")
    return _deaf(seen) or say("what_steps_are" if seen.facts.steps > 1 else "what_a_step_is")

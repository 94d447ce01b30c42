"""Exercise 08: a mixing matrix for any graph, gossip with it, and a step of training. All are judged by what must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from distlib.exercises.decentralized.plays import EXPECTED, slope, train

# fmt: off
NEAR = {torch.float32: 1e-4, torch.float64: 1e-9}
AGREE = "Do both ends of an edge use the same weight? It depends on the neighbors of both, and must suit the one that has more."
ROWS = "if all ranks agree, nobody may change. What the weights of the neighbors leave of 1 is the rank's own: subtract when all of them are there."
MISSING = "this is the weight of an edge. Is every edge filled in, in the rows of both its ends? (And 1 // 2 is 0: divide with /.)"
ALONE = "a single rank has no neighbors: [[]] gives a matrix of one row, [[1]]. Here you divide by 0, or ask for the largest of none."


@task("neighbors", errors=[("division by zero", ALONE), ("empty", ALONE)])
def check_mixing_matrix(draw: Draw, *, graphs: Sequence[Sequence[Sequence[int]]]) -> Iterator[Case]:
    """`function(neighbors)`: a doubly stochastic matrix, with weights of at least 1/n on the graph and 0 elsewhere."""
    for neighbors in graphs:
        yield called([list(others) for others in neighbors], facts=neighbors)


def _breaches(neighbors: Sequence[Sequence[int]], W: torch.Tensor, near: float) -> Iterator[tuple[str, str]]:
    """What a matrix breaks by more than `near`, and the usual cause."""
    n, rows, columns = len(W), W.sum(dim=1), W.sum(dim=0)
    for i, j in ((i, j) for i in range(n) for j in range(n)):
        place, is_edge = f"row {i}, column {j} is {W[i, j]:.10g}", j in neighbors[i]
        if i != j and not is_edge and W[i, j] != 0:
            yield f"{place}, but ranks {i} and {j} are not neighbors.", "only neighbors talk. Elsewhere, but for the diagonal, the weight is 0."
        elif (i == j or is_edge) and not W[i, j] >= 1 / n - near:
            own = f"the weights of a rank's neighbors leave something of 1, and that is its own. Are those of rank {i}, which has {count(len(neighbors[i]), 'neighbor')}, small enough, and is the diagonal filled in at the end?"
            yield f"{place}; at least 1/{n} was expected.", own if i == j else "that is too little for an edge: choose a weight that lets the neighbor be heard." if W[i, j] else MISSING
    why = ROWS if ((columns - 1).abs() > near).any() else f"every column adds up to 1, but every row must, too. {AGREE}"
    for noun, sums, cause in (("row", rows, why), ("column", columns, f"a rank must count 1 in all, or the mean moves. {AGREE}")):
        for i in ((sums - 1).abs() > near).nonzero().flatten().tolist():
            yield f"{noun} {i} adds up to {sums[i]:.10g}, and not to 1.", cause


@check_mixing_matrix.judge
def _(seen: Seen) -> Remarks:
    neighbors, W, n = seen.facts, seen[0], len(seen.facts)
    if not isinstance(W, torch.Tensor) or list(W.shape) != [n, n] or W.dtype != torch.float64:
        found = f"a tensor of {dtype_name(W.dtype)}, shape {list(W.shape)}" if isinstance(W, torch.Tensor) else type_of(W)
        cause = "does the last line return the matrix?" if W is None else f"begin with torch.zeros({n}, {n}, dtype=torch.float64), fill it in, and return it."
        yield Remark(f"it returned {found}; expected was a tensor of float64, shape [{n}, {n}].", cause=cause)
        return
    yours = ("your matrix:", *(", ".join(f"{weight:.4g}" for weight in row) for row in W.tolist()))
    yield from (Remark(text, yours, cause) for text, cause in _breaches(neighbors, W, near=1e-6))
    yield from (Remark(text, yours, "numbers were rounded to float32 on the way. Give the matrix dtype=torch.float64 where you make it, not at the end.") for text, _ in _breaches(neighbors, W, near=NEAR[W.dtype]))


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
MOVED = "the mean of all ranks has moved. Does a tensor change before it was sent to everybody in this round, or is a buffer read before it was waited for? Else look at the weights."
HEARS = "Rank i hears from j if matrix[i, j] is not 0, and sends to j if matrix[j, i] is not 0. One may be true without the other."
DTYPES = "the matrix is float64, the tensor may be float32. matrix.to(tensor.dtype) has the tensor's; matrix[i, j] alone will do, too."


def _errors(seen: Seen) -> Sequence[tuple[str, str]]:
    wait = "ranks wait for each other in a circle. Begin all receives with irecv and all sends with isend, and wait for them afterwards: then no order of the ranks matters." if torch.equal(seen.facts.matrix > 0, seen.facts.matrix.T > 0) else f"the two ranks don't agree on whether there is a message. {HEARS}"
    return [("but the ranks are", "who the neighbors are is in the matrix: row comm.rank says from whom a rank hears."),
            (" itself.", "a rank sends nothing to itself: leave comm.rank out. Its own tensor counts matrix[rank, rank]."),
            ("has already returned", EQUALLY + HEARS), ("nobody received", EQUALLY + HEARS), ("waits", wait),
            ("share memory", "what comes in needs a buffer of its own."), ("same dtype", DTYPES), ("expected scalar type", DTYPES),
            ("float64", LIKE), ("must match the size", LIKE)]


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
        "the rank's own values are there, as at the start" + (", and no message was sent. Make `rounds` rounds." if is_silent else ". Write into the tensor: tensor.copy_(…)."): [start],
        "this is the mean of all ranks. Gossip only comes nearer to it: a rank takes its neighbors' tensors, `rounds` times.": [start.mean(dim=0).expand_as(start)],
        "this is one round. Repeat it `rounds` times.": [W @ start],
        "this is a round too few.": [power(W, max(k - 1, 0)) @ start], "this is a round too many.": [power(W, k + 1) @ start],
        "row and column are exchanged: rank i multiplies the tensor of rank j by matrix[i, j].": [power(m, k) @ start for m in (W.T, own + edges * W.T)],
        "the rank's own tensor is left out. It counts matrix[rank, rank].": [power(others, k) @ start],
        "the rank's own tensor counts fully. It must be multiplied by matrix[rank, rank] before the others are added.": [power(others + torch.eye(len(W)), k) @ start],
        "the neighbors' tensors are added without their weights. That of rank j counts matrix[rank, j].": [power(own + edges, k) @ start],
        "every neighbor counts equally. The weights are in the matrix.": [power((m := edges + torch.eye(len(W))) / m.sum(dim=1, keepdim=True), k) @ start],
        "the rank's own tensor was multiplied by its weight before it was sent. Others need it as it was.": [power(own + others @ own, k) @ start],
        "the neighbors' tensors of the first round are used in every round. Send anew in each.": [sum((power(own, r) @ others @ start for r in range(k)), power(own, k) @ start)],
        "the tensor is changed while others still wait for it. In a round every rank sends what it had when the round began: add up elsewhere, and write at its end.": [_in_turns(start, W, k)] if torch.equal(W, W.T) else [],
        "these are zeros. Is something rounded to whole numbers, or a buffer read before it was waited for?": [0 * start],
    }


@check_gossip_average.judge
def _(seen: Seen) -> Remarks:
    plan, start = seen.facts, torch.stack(seen.given("values")).double()
    found, near = torch.stack([seen[rank]["values"] for rank in seen.ranks]).double(), NEAR[plan.dtype]
    same, right = partial(is_close, relative=near, absolute=near), torch.linalg.matrix_power(plan.matrix, plan.rounds) @ start
    yield from (Remark(f"on rank {r} the {x} has changed.", cause="the matrix is the caller's. Change a copy: matrix = matrix.clone().") for r in seen.ranks for x in seen[r]["changed"])
    heard, edges = {(m.dst, m.src) for m in seen.trace}, [(i, j) for i, j in plan.matrix.nonzero().tolist() if i != j]
    for rank in (rank for rank in seen.ranks if not same(found[rank], right[rank])):
        cause = known(found, _mistakes(start, plan.matrix, plan.rounds, not heard), same) or "this is right to 7 digits only: something is float32 on the way. Compute in the tensor's dtype, with the matrix as it is." * (
            is_close(found, right, relative=1e-6, absolute=1e-6)) or _deaf(plan.matrix, heard) or MOVED * (
            not same(found.mean(dim=0), start.mean(dim=0))) or "it becomes the sum of matrix[rank, j] * tensor of j, all as they were when the round began." + (
            " If you receive from anyone, a message of the next round may come first: name the rank that you receive from, or give each round a tag of its own.") * (plan.rounds > 1)
        yield Remark(f"on rank {rank} the tensor is wrong.", compared(right[rank], found[rank]), cause)
    yield from (Remark(f"on rank {r} memory outside of the tensor was written.") for r in seen.ranks if seen[r]["strayed"])
    way = Way(plan.rounds * plan.length * plan.dtype.itemsize, f"its tensor in {count(plan.rounds, 'round')}", plan.rounds)
    yield from sends(seen, {(j, i): way for i, j in edges if plan.rounds}, "the matrix says who is whose neighbor, in every round: as it is given, not a power of it. Rank i sends to rank j only if matrix[j, i] is not 0.")


# ── decentralized_step ───────────────────────────────────────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class Training:
    """A doubly stochastic matrix [ranks, ranks], the number of steps; rate, length, dtype and layout of the parameters."""

    matrix: torch.Tensor
    steps: int = 1
    rate: float = 0.4  # not 1/2: then a gradient without its rate would be one that is subtracted twice
    length: int = 4
    dtype: torch.dtype = torch.float64
    layout: str = "contiguous"


EVERY_STEP = "every rank takes part in every step, and every message is received. "
IS_FUNCTION = "gradient is a function. What it returns for the parameters is the gradient: gradient(parameters)."
ALIKE = "hand gradient the tensor `parameters`, or a copy of it: it has this shape and dtype."
ONCE = "computing a gradient is what takes time. Call gradient once in a step, and keep what it returns."
ORDER = "the step is the sum of matrix[rank, j] * (parameters of j, as they were when the step began), minus learning_rate * the rank's own gradient."
IN_PLACE = "Change the tensor in place: parameters.copy_(…), or parameters -= …"
ANYONE = " If you receive from any rank, a message of the next step may come first: name the rank that you receive from."


def _step_errors(seen: Seen) -> Sequence[tuple[str, str]]:
    known_ones = [(sign, cause.replace(EQUALLY, EVERY_STEP)) for sign, cause in _errors(seen)]
    return (("'function'", IS_FUNCTION), (EXPECTED, ALIKE), *known_ones)


@task("comm", "parameters", "gradient", "matrix", "learning_rate", errors=_step_errors)
def check_decentralized_step(draw: Draw, *, plans: Sequence[Training]) -> Iterator[Case]:
    """`function(comm, parameters, gradient, matrix, learning_rate)`: x_i becomes (Wx)_i - rate * g_i(x_i), in place."""
    for plan in plans:
        slow = draw.randrange(len(plan.matrix))
        notes = f"{count(plan.steps, 'step')}, {count(plan.length, 'parameter')}, {dtype_name(plan.dtype)}{LAYOUTS[plan.layout]}{', a rate of 0' * (plan.rate == 0)}"
        yield Case(f"on {count(len(plan.matrix), 'rank')}, {notes}", train, [
            {"values": draw.normal((plan.length,)).to(plan.dtype), "layout": plan.layout,
             "curvature": torch.tensor([draw.uniform(0.5, 1.5) for _ in range(plan.length)]).double(),
             "target": draw.normal((plan.length,)), "is_slow": rank == slow, "matrix": plan.matrix.clone(), "rate": plan.rate,
             "steps": plan.steps}
            for rank in range(len(plan.matrix))
        ], plan, seed=draw.getrandbits(60))


def _slopes(seen: Seen, x: torch.Tensor, step: int) -> torch.Tensor:
    """The gradient of each rank at its row of x, as gate `step` hands it out; float64 [ranks, length]."""
    return torch.stack([slope(given, x[r], seen.case.part.factor(r, step)) for r, given in enumerate(seen.case.inputs)])


def _places(W: torch.Tensor, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
    """Where a gradient is taken by mistake: what each rank handed to `gradient`."""
    own = W.diagonal().unsqueeze(1)
    return {
        "these are the parameters after the mixing. The gradient is that of the rank's own parameters, as they were when the step began: call gradient before you write into them, or keep a copy.": [W @ x],
        "the parameters were already multiplied by matrix[rank, rank]. Call gradient before you write into them.": [own * x],
        "this is the mean of all ranks. A rank takes the gradient at its own parameters.": [x.mean(dim=0).expand_as(x)],
        "these are zeros. Hand over the parameters.": [0 * x],
    }


def _missteps(W: torch.Tensor, x: torch.Tensor, g: torch.Tensor, rate: float) -> dict[str, list[torch.Tensor]]:
    """What usual mistakes leave after a step from x with the gradients g."""
    n, own = len(W), torch.diag(W.diagonal())
    others, one, down = W - own, torch.eye(n, dtype=W.dtype), x - rate * g
    edges = ((W != 0) & ~torch.eye(n, dtype=torch.bool)).double()
    equal = (edges + one) / (edges + one).sum(dim=1, keepdim=True)
    average = torch.full_like(W, 1 / n)
    return {
        f"they are as they were when the step began. {IN_PLACE}": [x],
        "only the mixing is there. Subtract learning_rate * gradient(parameters), too, in place.": [W @ x],
        "only the gradient step is there. The parameters of the neighbors are missing: sum matrix[rank, j] * parameters of j.": [down],
        "the gradient is added. A step goes against it: minus.": [W @ x + rate * g],
        "the gradient is not multiplied by learning_rate.": [W @ x - g, W @ x + g],
        "the neighbors' gradients are in it: it was mixed after the gradient step (adapt, then combine), which is another algorithm, or the gradient was mixed, too. Send the parameters as they were when the step began, and subtract the rank's own gradient from the mixed ones.": [W @ down],
        "the neighbors' parameters have their gradients in them. Send the parameters as they were when the step began.": [others @ down + own @ x, others @ down + own @ x - rate * g, others @ down + x - rate * g],
        "the gradients are mixed. Mix the parameters, and subtract the rank's own gradient.": [x - rate * W @ g],
        "this is an average over all ranks. A rank mixes with its neighbors only, by its row of the matrix.": [average @ x - rate * g, average @ down, x - rate * average @ g, average @ x],
        "the gradient step was multiplied by matrix[rank, rank]. Mix first, then subtract the gradient, or add up elsewhere.": [W @ x - rate * own @ g],
        "the rank's own parameters are left out. They count matrix[rank, rank].": [others @ x - rate * g],
        "the rank's own parameters count fully. Multiply them by matrix[rank, rank].": [(others + one) @ x - rate * g],
        "the rank's own parameters were multiplied by their weight before they were sent. Others need them as they were.": [(own + others @ own) @ x - rate * g],
        "the neighbors' parameters are added without their weights. Those of rank j count matrix[rank, j].": [(own + edges) @ x - rate * g],
        "every neighbor counts equally. The weights are in the matrix.": [equal @ x - rate * g],
        "row and column are exchanged: rank i multiplies the parameters of rank j by matrix[i, j].": [m @ x - rate * g for m in (W.T, own + edges * W.T)],
        "the parameters were mixed twice in a step. Once is enough.": [W @ W @ x - rate * g, W @ (W @ x - rate * g)],
        "the gradient was subtracted twice.": [W @ x - 2 * rate * g],
    }


@check_decentralized_step.judge
def _(seen: Seen) -> Remarks:
    plan, W = seen.facts, seen.facts.matrix
    near, nbytes = NEAR[plan.dtype], plan.length * plan.dtype.itemsize
    same = partial(is_close, relative=near, absolute=near)
    for rank in (rank for rank in seen.ranks if seen[rank]["changed"]):
        yield Remark(f"on rank {rank} the matrix has changed.", cause="the matrix is the caller's. Change a copy: matrix = matrix.clone().")
    x, heard = torch.stack(seen.given("values")).double(), {(m.dst, m.src) for m in seen.trace}
    for step in range(plan.steps):
        after = f" in step {step + 1}" if plan.steps > 1 else ""
        g = _slopes(seen, x, step)
        right, found = W @ x - plan.rate * g, torch.stack([seen[rank]["steps"][step] for rank in seen.ranks]).double()
        for rank in seen.ranks:
            yield from _where(seen, rank, step, x, after, same)
        for rank in (rank for rank in seen.ranks if not same(found[rank], right[rank])):
            cause = known(found, _missteps(W, x, g, plan.rate), same) or (
                "this is right to 7 digits only: something is float32 on the way. Compute in the dtype of the parameters, with the matrix as it is."
                if is_close(found, right, relative=1e-6, absolute=1e-6) else _deaf(W, heard) or f"{ORDER}{ANYONE * (plan.steps > 1)}")
            yield Remark(f"on rank {rank} the parameters are wrong{after}.", compared(right[rank], found[rank]), cause)
        x = right
    for rank in (rank for rank in seen.ranks if seen[rank]["strayed"]):
        yield Remark(f"on rank {rank} memory outside of the parameters was written.")
    way = Way(plan.steps * nbytes, f"its parameters in {count(plan.steps, 'step')}", plan.steps)
    edges = [(j, i) for i, j in W.nonzero().tolist() if i != j]
    yield from sends(seen, dict.fromkeys(edges, way), "the matrix says who is whose neighbor. Rank i sends to rank j only if matrix[j, i] is not 0.")


def _where(seen: Seen, rank: int, step: int, x: torch.Tensor, after: str, same: Callable[..., bool]) -> Remarks:
    """A rank takes one gradient in a step, at its own parameters as they were when the step began."""
    calls, handed = len(seen.passed(rank, step)), seen.shown(rank, step)
    if not calls:
        yield Remark(f"on rank {rank} gradient was not called{after}.", cause=f"a step needs the gradient at the rank's parameters, anew in each step: gradient(parameters). {ORDER}")
    elif not same(handed[0].double(), x[rank]):
        every = [seen.shown(r, step) for r in seen.ranks]
        table = _places(seen.facts.matrix, x)
        rows = torch.stack([shown[0].double() if shown else 0 * x[0] for shown in every])
        cause = known(rows, table, same) or "the gradient is that of the rank's own parameters, as they were when the step began. Call gradient before you write into them, or keep a copy."
        yield Remark(f"on rank {rank} the gradient was taken at the wrong parameters{after}.", compared(x[rank], handed[0].double()), cause)
    elif calls > 1:
        yield Remark(f"on rank {rank} gradient was called {count(calls, 'time')}{after or ' in one step'}.", cause=ONCE)


def _deaf(W: torch.Tensor, heard: set[tuple[int, int]]) -> str:
    """The first edge without a message, in words."""
    missing = [(i, j) for i, j in W.nonzero().tolist() if i != j and (i, j) not in heard]
    return "".join(f"rank {j} sends rank {i} no message, but matrix[{i}, {j}] is not 0." for i, j in missing[:1])

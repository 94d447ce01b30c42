"""Exercises 06 and 06b: one gradient from many microbatches, a rate that is warmed up, and rounds of local SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name
from distlib.checks.helpers import all_reduce
from distlib.checks.plays.gated import open_gate
from distlib.checks.remark import Remark
from distlib.checks.rules.flat_all_reduce import SIGNS, one_all_reduce
from distlib.checks.rules.returns import called, returns
from distlib.checks.rules.values import compared, explain_average, holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.communicator import Communicator, ReduceOp
from distlib.exercises.large_batches.plays import FORWARD, LOSSES, GatedLayers, accumulate, local_rounds
from distlib.training.large_batch import all_reduce_together, warmup_learning_rate
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedWorld

say = Sentences(__file__)
SIZES = (3, 4, 3)  # of a model, where the test cell names none: features, hidden ones, classes
Tensors = Mapping[str, torch.Tensor]  # of a model, by name
Parts = Mapping[tuple[int, int], Tensors]  # by rank and microbatch


@dataclass(frozen=True, kw_only=True)
class Data:
    """A model, and what its samples are like.

    Attributes:
        loss: "cross_entropy" or "squared".
        frozen: whether a parameter is not trained.
        sizes: of the model: features, hidden ones, classes.
        sample: the shape of a sample, whose numbers are the features; by default it has one dimension.
        dtype: of everything but classes.
    """

    loss: str = "cross_entropy"
    frozen: bool = False
    sizes: Sequence[int] = SIZES
    sample: Sequence[int] = ()
    dtype: torch.dtype = torch.float64

    @property
    def notes(self) -> str:
        """Of a title: what is unusual."""
        shape = f", each of shape {list(self.sample)}" if self.sample else ""
        dtype = f", {dtype_name(self.dtype)}" if self.dtype != torch.float64 else ""
        return shape + ", one parameter frozen" * self.frozen + dtype

    def normal(self, draw: Draw, shape: Sequence[int]) -> torch.Tensor:
        """Random numbers of the dtype."""
        return draw.normal(shape).to(self.dtype)

    def model(self, draw: Draw, buffers: int = 0) -> dict[str, Any]:
        """The state of the model, as `GatedLayers` takes it."""
        new = partial(self.normal, draw)
        layers = [(new((after, before)), new((after,))) for before, after in pairwise(self.sizes)]
        mean, number = (new(self.sizes[:1]), torch.tensor(0)) if buffers else (None, None)
        more = [new((number + 1,) if number else ()) for number in range(buffers - 2)]
        return {"layers": layers, "frozen": self.frozen, "mean": mean, "count": number, "more": more}

    def old_gradients(self, draw: Draw, state: dict[str, Any]) -> Tensors:
        """By name of a trained parameter, what an earlier step has left."""
        parameters = GatedLayers(state, open_gate).named_parameters()
        return {name: self.normal(draw, each.shape) for name, each in parameters if each.requires_grad}

    def batch(self, draw: Draw, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of this many samples."""
        classes = torch.tensor([draw.randrange(self.sizes[-1]) for _ in range(length)])
        inputs = self.normal(draw, (length, *(self.sample or self.sizes[:1])))
        return inputs, self.normal(draw, (length,)) if self.loss == "squared" else classes


def _same(found: object, right: object, absolute: float = 1e-12) -> bool:
    """Whether two tensors differ by rounding at most."""
    single = isinstance(right, torch.Tensor) and right.dtype == torch.float32
    return is_close(found, right, relative=1e-4, absolute=1e-5) if single else is_close(found, right, absolute=absolute)


def _nbytes(tensors: Any) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _passes(seen: Seen, rank: int, number: int, noun: str, why: Sequence[str]) -> Remarks:
    """One forward and one backward pass for each microbatch or batch, in turns, and in training mode.

    Args:
        why: usual causes: of a wrong number of calls, of too few backward passes, of passes that don't take turns.
    """
    gates, these = [k for k, _ in seen.played[rank].gates], count(number, noun)
    forward, backward = sum(k >= FORWARD for k in gates), [k for k in gates if k < FORWARD]
    some = len(set(backward))
    pairs = zip(gates[::2], gates[1::2], strict=True)
    if forward != number:
        yield say.remark("called", rank=rank, times=count(forward, "time"), these=these, cause=why[0])
    if some < number:
        yield say.remark("too_few_backward", rank=rank, found=some, these=these, cause=why[1])
    if len(backward) > number:
        yield say.remark("too_many_backward", rank=rank, found=len(backward), these=these)
    if any(before < FORWARD or after != before - FORWARD for before, after in pairs):
        yield say.remark("not_in_turns", rank=rank, noun=noun, cause=why[2])
    if not seen[rank]["training"]:
        yield say.remark("evaluation", rank=rank)


# ── accumulate_gradients ─────────────────────────────────────────────────────────────────────────────────────────────
# In the right gradient every sample counts 1/B, with B samples in the whole batch. By a mistake, those of microbatch m
# of rank r count otherwise.

BACKWARD_SIGNS = (
    ("does not require grad", say("no_history")),
    ("must be Tensor, not tuple", say("pairs")),
    ("'tuple' object has no attribute", say("pairs")),
    ("not implemented for 'Long'", say("outputs_first")),
    ("too many indices", say("outputs_first")),
    ("setup_context", say("torch_func")),
    ("have the same dtype", say("one_dtype")),
)
ERRORS = (
    *SIGNS,
    *BACKWARD_SIGNS,
    ("only for scalar", say("add_up_losses")),
    ("'NoneType'", say("none_here")),
    ("expected Tensor as element", say("none_here")),
    ("division by zero", say("no_microbatch")),
    ("without such a call", say("every_rank_calls")),
    ("Both need the same number of elements", say("as_many_numbers")),
    ("make the same collective calls", say("as_many_numbers")),
)
EACH_MICROBATCH = (say("call_for_each"), say("backward_for_each"), say("backward_in_loop"))


@dataclass(frozen=True)
class Pieces(Data):
    """What the ranks have. `lengths`: by rank, the lengths of its microbatches."""

    lengths: Sequence[Sequence[int]]


@task(
    "comm",
    "model",
    "loss_function",
    "microbatches",
    "global_batch_size",
    helpers=[all_reduce],
    untouched=["microbatches"],
    errors=ERRORS,
)
def check_accumulate_gradients(draw: Draw, *, batches: Sequence[Pieces]) -> Iterator[Case]:
    """`function(comm, model, loss_function, microbatches, global_batch_size)`: the gradient of the whole batch."""
    for pieces in batches:
        state, total = pieces.model(draw), sum(map(sum, pieces.lengths))
        lengths = " | ".join(", ".join(map(str, own)) or "no" for own in pieces.lengths)
        notes = f"microbatches of {lengths} samples{pieces.notes}"
        inputs = [
            {
                "state": state,
                "loss": pieces.loss,
                "total": total,
                "old": pieces.old_gradients(draw, state),
                "microbatches": [pieces.batch(draw, length) for length in own],
            }
            for own in pieces.lengths
        ]
        title = f"on {count(len(pieces.lengths), 'rank')} with {notes}"
        yield Case(title, accumulate, inputs, pieces, seed=draw.getrandbits(60))


@check_accumulate_gradients.judge
def _(seen: Seen) -> Remarks:
    pieces, given, parts = seen.facts, seen.case.inputs[0], _gradients(seen)
    for rank, own in enumerate(pieces.lengths):
        yield from _passes(seen, rank, len(own), "microbatch", EACH_MICROBATCH)
    parameters = dict(GatedLayers(given["state"], open_gate).named_parameters())
    for rank in seen.ranks:
        for name in seen[rank]["gradients"]:
            now, before = seen[rank]["parameters"][name], parameters[name].detach()
            yield untouched(f"on rank {rank}, {name} itself", now, before, say("leave_parameters"))
            yield _gradient(seen, parts, rank, name)
    number, nbytes = max(map(len, pieces.lengths)), _nbytes(given["old"].values())
    mistakes = {number * nbytes: say("after_each"), _nbytes(parameters.values()): say("frozen_sent")}
    yield from one_all_reduce(seen, nbytes, "all gradients", right="the gradients", mistakes=mistakes)


def _gradient(seen: Seen, parts: Parts, rank: int, name: str) -> Remark | None:
    """Whether a parameter's gradient on a rank is that of the whole batch, or None if it is frozen."""
    given, found, what = seen.case.inputs[0], seen[rank]["gradients"][name], f"on rank {rank}, the gradient of {name}"
    if name not in given["old"]:
        return holds(what, found, None, otherwise=say("frozen"))
    right = _added(parts, name, lambda r, m: 1 / given["total"])
    if is_close(found, right, relative=1e-4, absolute=1e-7):
        return holds(what, found, right, same=_same, otherwise=say("rounded"))
    otherwise = say("no_gradient" if found is None else "mixed_up")
    mistakes = partial(_mistakes, seen, parts, rank, name, right)
    return holds(what, found, right, mistakes, same=_same, otherwise=otherwise)


def _gradients(seen: Seen) -> Parts:
    """By rank and microbatch, the gradients of the sum of its losses."""
    found: dict[tuple[int, int], Tensors] = {}
    for rank, given in enumerate(seen.case.inputs):
        for m, (inputs, targets) in enumerate(given["microbatches"]):
            model = GatedLayers(given["state"], lambda k, values=None, rank=rank, m=m: seen.case.part.factor(rank, m))
            LOSSES[given["loss"]](model(inputs), targets).sum().backward()
            found[rank, m] = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found


def _added(parts: Parts, name: str, weight: Callable[[int, int], float]) -> torch.Tensor:
    return torch.stack([own[name] * weight(*key) for key, own in parts.items()]).sum(0)


def _mistakes(seen: Seen, parts: Parts, rank: int, name: str, right: torch.Tensor) -> dict[str, list[torch.Tensor]]:
    old, lengths = [inputs["old"][name] for inputs in seen.case.inputs], seen.facts.lengths
    size, total = len(lengths), sum(map(sum, lengths))
    idle = sum(before for before, own in zip(old, lengths, strict=True) if not own)
    every = sum(old)
    left = [every, old[rank], every / size, every / total, every / total / size]  # added up, kept, averaged, divided
    table: dict[str, list[torch.Tensor]] = {say("old_contents"): []}
    for words, each in weights(lengths, rank).items():
        table[words] = [_added(parts, name, weight) for weight in each]
    added = [right, *(each for words, values in table.items() if words != say("zeros") for each in values)]
    table[say("old_contents")] = [right + idle, *(each + before for each in added for before in left)]
    return table


def weights(lengths: Sequence[Sequence[int]], rank: int) -> dict[str, list[Callable[[int, int], float]]]:
    """What a sample of microbatch m of rank r counts by each mistake, in the gradient on a rank."""
    size, own, total = len(lengths), [sum(mine) for mine in lengths], sum(map(sum, lengths))
    most, is_uneven = max(map(len, lengths)), size < total and total % size
    return {
        say("mean_of_ranks"): [lambda r, m: 1 / total / size],
        say("sum_of_samples"): [lambda r, m: 1.0],
        say("divided_by_ranks"): [lambda r, m: 1 / size],
        say("own_samples"): [lambda r, m: (r == rank) / total],
        say("zeros"): [lambda r, m: 0.0],
        say("last_microbatch"): [lambda r, m: (m == len(lengths[r]) - 1) / total],
        say("mean_of_means"): [lambda r, m: 1 / own[r] / size],
        say("ranks_too_large"): [lambda r, m: size / total],
        say("divided_by_own"): [lambda r, m: 1 / own[r]],
        say("mean_of_microbatch_means"): [lambda r, m: 1 / lengths[r][m] / len(lengths[r]) / size],
        say("sum_of_microbatch_means"): [
            lambda r, m: 1 / lengths[r][m],
            lambda r, m: 1 / lengths[r][m] / size,
            lambda r, m: 1 / lengths[r][m] / len(lengths[r]),
        ],
        say("divided_by_microbatch_too"): [lambda r, m: 1 / lengths[r][m] / total, lambda r, m: 1 / total**2],
        say("multiplied"): [lambda r, m: total],
        say("rounded_quotient"): (
            [lambda r, m: 1 / (total // size) / size, lambda r, m: 1 / (total // size)] if is_uneven else []
        ),
        say("divided_by_microbatches"): [lambda r, m: 1 / total / len(lengths[r])],
        say("added_to_own"): [lambda r, m: (1 + (r == rank)) / total],
        say("added_up_again"): [lambda r, m: size ** (most - 1 - m) / total],
    }


# ── warmup_learning_rate ─────────────────────────────────────────────────────────────────────────────────────────────

Question = tuple[int, float, int, int, int]  # step, base_learning_rate, base_batch_size, batch_size, warmup_steps


@task(
    "step",
    "base_learning_rate",
    "base_batch_size",
    "batch_size",
    "warmup_steps",
    errors=[("division by zero", say("no_steps"))],
)
def check_warmup_learning_rate(draw: Draw, *, questions: Sequence[Question], drawn: int = 0) -> Iterator[Case]:
    """`function(step, base_learning_rate, base_batch_size, batch_size, warmup_steps)` returns the rate of the step.

    `drawn`: how many more questions come at the end, which no table of answers has.
    """
    more = [_question(draw) for _ in range(drawn)]
    yield from (called(*question, facts=question) for question in (*questions, *more))


def _question(draw: Draw) -> Question:
    step, base = draw.randint(0, 300), draw.uniform(0.01, 1.0)
    return step, base, draw.randint(1, 512), draw.randint(1, 4096), draw.randint(0, 200)


@check_warmup_learning_rate.judge
def _(seen: Seen) -> Remarks:
    right, found = warmup_learning_rate(*seen.facts), seen[0]
    if isinstance(found, torch.Tensor):
        yield say.remark("returned_tensor")
    is_near = isinstance(found, float) and (
        abs(found - right) < 1e-2 * abs(right) or found in (round(right, 2), round(right, 3))
    )
    mistakes = {say("whole_number"): found if type(found) is int else None, **_wrong_rates(*seen.facts)}
    yield returns(seen, right, mistakes, otherwise=say("rounded_rate") if is_near else "")


def _wrong_rates(step: int, base: float, small: int, large: int, steps: int) -> dict[str, float | None]:
    """The rates of usual mistakes; None where one makes no other rate."""
    k, part = large / small, step / steps if steps else 1.0
    full, ramped = base * k, min(part, 1.0)
    late = min((step + 1) / steps, 1.0) if steps else 1.0
    early = min(step / (steps - 1), 1.0) if steps > 1 else 1.0
    later = min(step / (steps + 1), 1.0)
    return {
        say("goes_on_growing"): base * (1 + (k - 1) * part),
        say("begins_at_0"): full * ramped,
        say("begins_at_part"): full * late if late < 1 else None,
        say("next_step"): base * (1 + (k - 1) * late) if late < 1 else None,
        say("one_step_early"): base * (1 + (k - 1) * early) if steps > 1 else None,
        say("full_already"): full if k < 1 else None,
        say("no_warmup"): full,
        say("no_base"): 1 + (k - 1) * ramped,
        say("no_parentheses"): base + full - base * ramped,
        say("whole_quotient"): base * (1 + (large // small - 1) * ramped) if large > small else None,
        say("smaller_batch"): base if k < 1 else None,
        say("base_without_warmup"): None if steps or step else base,
        say("base_after_warmup"): base if step >= steps else None,
        say("still_base"): base,
        say("base_for_each_step"): base * (1 + step),
        say("square_root"): base * (1 + (k**0.5 - 1) * ramped),
        say("wrong_way_round"): base * (1 + (1 / k - 1) * ramped),
        say("one_step_late"): base * (1 + (k - 1) * later) if steps else None,
        say("same_factor"): base * k**ramped,
        say("added_scale"): base + k * ramped,
        say("above_full"): base * (1 + k * ramped),
    }


# ── local_sgd_round ──────────────────────────────────────────────────────────────────────────────────────────────────
# Usual mistakes are programs: `one_round` makes any of them. Where models are wrong, it plays each on the same case.
# The one that leaves the same numbers on all ranks is the student's.

EACH_BATCH = (say("each_batch"),) * 3
MISTAKES = (
    "no_average",
    "only_rank_0_writes",
    "no_step",
    "no_state",
    "sum",
    "divided_twice",
    "rank_0",
    "no_buffers",
    "counters",
    "new_parameters",
    "no_zero_grad",
    "zero_grad_once",
    "step_once",
    "last_step",
    "plain_steps",
    "sum_of_losses",
    "average_in_each_step",
)


def one_round(
    comm: Communicator, model: Any, loss_function: Any, batches: Any, optimizer: Any, mistake: str = ""
) -> None:
    """A round of local SGD, as it should be or with one of the `MISTAKES`."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point() or mistake == "counters"]
    tensors = [*model.parameters(), *([] if mistake == "no_buffers" else buffers)]
    if mistake in ("zero_grad_once", "step_once"):
        optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(batches):
        if mistake not in ("no_zero_grad", "zero_grad_once", "step_once"):
            optimizer.zero_grad()
        losses = loss_function(model(inputs), targets)
        (losses.sum() if mistake == "sum_of_losses" else losses.mean()).backward()
        _step(model, optimizer, mistake, is_last=number == len(batches) - 1)
        if mistake == "average_in_each_step":
            all_reduce_together(comm, tensors, ReduceOp.AVG)
    if mistake == "no_state":
        optimizer.state.clear()
    _average(comm, tensors, mistake)
    for layer in model.layers if mistake == "new_parameters" else ():
        layer.weight, layer.bias = (torch.nn.Parameter(old.detach().clone()) for old in (layer.weight, layer.bias))


def _step(model: Any, optimizer: Any, mistake: str, is_last: bool) -> None:
    if mistake == "plain_steps":
        for parameter in filter(lambda parameter: parameter.requires_grad, model.parameters()):
            parameter.data -= optimizer.param_groups[0]["lr"] * parameter.grad
    elif mistake != "no_step" and (is_last or mistake not in ("step_once", "last_step")):
        optimizer.step()


def _average(comm: Communicator, tensors: Sequence[torch.Tensor], mistake: str) -> None:
    size = comm.world_size
    factors = {"sum": size, "divided_twice": 1 / size, "rank_0": size * (comm.rank == 0)}
    for tensor in tensors if mistake in factors else ():
        tensor.data *= factors[mistake]
    own = [tensor.detach().clone() for tensor in tensors]
    if mistake != "no_average":
        all_reduce_together(comm, tensors, ReduceOp.AVG)
    for tensor, value in zip(tensors, own, strict=True) if mistake == "only_rank_0_writes" and comm.rank else ():
        tensor.data.copy_(value)


def play_rounds(case: Case, mistake: str = "") -> list[list[Tensors]]:
    """What each rank has after each round, by rank and round. Raises RankError: ranks wait for each other for ever."""

    def play(comm: Communicator) -> list[Tensors]:
        program = partial(one_round, mistake=mistake)
        found: list[Tensors] = local_rounds(comm, program, case.inputs[comm.rank], case.part.gate(comm.rank))["rounds"]
        return found

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on tensors this small, several only wait for each other
    try:
        return SimulatedWorld(case.world_size).run(play)
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Rounds(Data):
    """What the ranks do.

    Attributes:
        steps: by rank, the local steps of a round.
        rounds: how many rounds.
        buffers: how many the model has: none, or two and more, of which one is a counter.
        batch_size: of rank 0; every further rank has one sample more.
        rate: of the optimizer.
    """

    steps: Sequence[int]
    rounds: int = 1
    buffers: int = 0
    batch_size: int = 3
    rate: float = 0.25


def _errors(seen: Seen) -> Sequence[tuple[str, str]]:
    return (
        *SIGNS,
        *BACKWARD_SIGNS,
        ("only for scalar", say("mean_of_losses")),
        ("'NoneType'", say("none_in_round")),
        ("ranks have to make the same collective calls", say("same_tensors")),
        *([("wait", say("unequal_steps"))] if len(set(seen.facts.steps)) > 1 else []),
    )


@task(
    "comm",
    "model",
    "loss_function",
    "batches",
    "optimizer",
    helpers=[all_reduce],
    untouched=["batches"],
    errors=_errors,
)
def check_local_sgd_round(draw: Draw, *, plans: Sequence[Rounds]) -> Iterator[Case]:
    """`function(comm, model, loss_function, batches, optimizer)`: local steps, then the average of all models."""
    for plan in plans:
        state = plan.model(draw, plan.buffers)
        steps = list(plan.steps) if len(set(plan.steps)) > 1 else [plan.steps[0]]
        notes = f"{', '.join(map(str, steps))} local step{'' if steps == [1] else 's'}"
        notes += ", with buffers" * bool(plan.buffers) + plan.notes + f", {plan.rounds} rounds" * (plan.rounds > 1)
        inputs = [
            {
                "state": state,
                "loss": plan.loss,
                "rate": plan.rate,
                "old": plan.old_gradients(draw, state),
                "batches": [
                    [plan.batch(draw, plan.batch_size + rank + step % 2) for step in range(number)]
                    for _ in range(plan.rounds)
                ],
            }
            for rank, number in enumerate(plan.steps)
        ]
        title = f"on {count(len(plan.steps), 'rank')} with {notes}"
        yield Case(title, local_rounds, inputs, plan, seed=draw.getrandbits(60))


@check_local_sgd_round.judge
def _(seen: Seen) -> Remarks:
    plan, right, given = seen.facts, play_rounds(seen.case), seen.case.inputs[0]
    for rank, steps in enumerate(plan.steps):
        yield from _passes(seen, rank, steps * plan.rounds, "batch", EACH_BATCH)
    for number in range(plan.rounds):
        for rank in seen.ranks:
            for name, expected in right[rank][number].items():
                yield _averaged(seen, rank, number, name, expected)
    every = {name: tensor for name, tensor in right[0][0].items() if tensor.is_floating_point()}
    frozen = [tensor for name, tensor in every.items() if not name.startswith("running") and name not in given["old"]]
    nbytes = _nbytes(every.values())
    yield from one_all_reduce(
        seen,
        nbytes,
        "all parameters and buffers",
        right="the models",
        rounds=plan.rounds,
        also=[nbytes - _nbytes(frozen)],
        mistakes={_nbytes(right[0][0].values()): say("counters_sent")},
        otherwise=say("talk_once"),
    )


def _averaged(seen: Seen, rank: int, number: int, name: str, expected: torch.Tensor) -> Remark | None:
    """Whether a rank has the right parameter or buffer of this name after a round."""
    found = seen[rank]["rounds"][number].get(name)
    if _same(found, expected):
        return None
    is_rounded = is_close(found, expected, relative=1e-4, absolute=1e-7)
    has_other_dtype = not is_rounded and is_close(found, expected, relative=1e-4, absolute=1e-5, any_dtype=True)
    otherwise = say("one_dtype") if has_other_dtype else explain_average(found, expected) or say("step_or_average")
    cause = say("rounded") if is_rounded else _mistake(seen, otherwise)
    entry = "wrong_after_round" if seen.facts.rounds > 1 else "wrong"
    return say.remark(entry, *compared(expected, found), rank=rank, name=name, round=number + 1, cause=cause)


def _mistake(seen: Seen, otherwise: str) -> str:
    """The words for the mistake that leaves what the student's function leaves."""
    mistake = next((mistake for mistake in MISTAKES if _is_played(seen, mistake)), "")
    if mistake != "no_average":
        return say(mistake) if mistake else otherwise
    if not len(seen.trace):
        return say("silent")
    if not seen.in_virtual_time:
        return ""
    has_late = any(message.start >= seen.played[message.src].gates[-1][1] for message in seen.trace)
    return say(mistake) if has_late else say("talked_early")


def _is_played(seen: Seen, mistake: str) -> bool:
    try:
        played = play_rounds(seen.case, mistake)
    except RankError:
        return False
    return all(
        _same(seen[rank]["rounds"][number].get(name), tensor, absolute=1e-8)
        for rank, own in enumerate(played)
        for number, tensors in enumerate(own)
        for name, tensor in tensors.items()
    )

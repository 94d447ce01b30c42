"""Exercise 06: one gradient from many microbatches, a rate that is warmed up, and rounds of local SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.helpers import all_reduce
from distlib.checks.plays.gated import open_gate
from distlib.checks.remark import Remark
from distlib.checks.rules.flat import SIGNS, one_all_reduce
from distlib.checks.rules.returns import called, returns
from distlib.checks.rules.values import compared, explain_average, holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count
from distlib.communicator import Communicator, ReduceOp
from distlib.exercises.large_batches.plays import FORWARD, LOSSES, Model, accumulate, local_rounds
from distlib.training.large_batch import all_reduce_together, warmup_learning_rate
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedWorld

# fmt: off
FEATURES, HIDDEN, CLASSES, RATE = 3, 4, 3, 0.25
ROUNDED = "it is right to about seven digits only. Make buffers of the parameters' dtype: torch.cat and zeros_like do."
Tensors = Mapping[str, torch.Tensor]  # of a model, by name


def _model(draw: Draw, *, frozen: bool, buffers: bool = False) -> dict[str, Any]:
    layers = [(draw.normal(shape), draw.normal(shape[:1])) for shape in ((HIDDEN, FEATURES), (CLASSES, HIDDEN))]
    mean, number = (draw.normal((FEATURES,)), torch.tensor(0)) if buffers else (None, None)
    return {"layers": layers, "frozen": frozen, "mean": mean, "count": number}


def _old_gradients(draw: Draw, state: dict[str, Any]) -> Tensors:
    parameters = Model(state, open_gate).named_parameters()
    return {name: draw.normal(parameter.shape) for name, parameter in parameters if parameter.requires_grad}


def _batch(draw: Draw, length: int, loss: str) -> tuple[torch.Tensor, torch.Tensor]:
    classes = torch.tensor([draw.randrange(CLASSES) for _ in range(length)])
    return draw.normal((length, FEATURES)), draw.normal((length,)) if loss == "squared" else classes


def _nbytes(tensors: Any) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _passes(seen: Seen, rank: int, number: int, noun: str, why: Sequence[str]) -> Remarks:
    """One forward and one backward pass for each microbatch or batch, in turns, and in training mode."""
    gates, these = [k for k, _ in seen.played[rank].gates], f"{number} {noun}{'' if number == 1 else 'es'}"
    forward, backward = sum(k >= FORWARD for k in gates), [k for k in gates if k < FORWARD]
    if forward != number:
        yield Remark(f"on rank {rank}, the model was called {count(forward, 'time')} for {these}.", cause=why[0])
    if len(set(backward)) < number:
        yield Remark(f"on rank {rank}, only {len(set(backward))} of {these} had a backward pass.", cause=why[1])
    if len(backward) > number:
        yield Remark(f"on rank {rank}, there were {len(backward)} backward passes for {these}.",
                     cause="one is enough for all its samples: combine their losses into one number, and call backward().")
    if any(before < FORWARD or after != before - FORWARD for before, after in zip(gates[::2], gates[1::2], strict=True)):
        yield Remark(f"on rank {rank}, a second {noun} went forward before the first had gone backward.", cause=why[2])
    if not seen[rank]["training"]:
        yield Remark(f"on rank {rank}, the model is in evaluation mode; it came in training mode.",
                     cause="the caller chooses the mode. In evaluation, dropout is off, and running means stand still.")


# ── accumulate_gradients ─────────────────────────────────────────────────────────────────────────────────────────────
# In the right gradient every sample counts 1/B, with B samples in the whole batch. By a mistake, those of microbatch m
# of rank r count otherwise.

BACKWARD_SIGNS = (
    ("does not require grad", "the loss has no history, so backward() finds no way back: it was computed under "
     "torch.no_grad(), from something that was detached, or without the model."),
    ("must be Tensor, not tuple", "each piece is a pair: for inputs, targets in …"),
    *((sign, "loss_function takes the outputs first, then the targets.") for sign in ("not implemented for 'Long'", "too many indices")),
    ("setup_context", "torch.func does not go with the model of the tests. Call backward(), or torch.autograd.grad."),
)
ERRORS = (
    *SIGNS, *BACKWARD_SIGNS,
    ("only for scalar", "loss_function returns a loss for each sample. Add them up, and divide by global_batch_size, before "
     "backward()."),
    *((sign, "something here is None. The .grad of a parameter is, if it is frozen, or if this rank has no samples: a "
       "frozen one is left out, a missing one counts as zeros. And all_reduce returns None: it works in place.")
      for sign in ("'NoneType'", "expected Tensor as element")),
    ("division by zero", "a rank may have no microbatch. It adds zeros, and takes part in the all-reduce."),
    ("without such a call", "every rank calls all_reduce once, also one without any microbatch. It adds zeros."),
    *((sign, "every rank must take part in the all-reduce, with as many numbers, also a rank without any microbatch.")
      for sign in ("Both need the same number of elements", "make the same collective calls")),
)
EACH_MICROBATCH = (
    "call it once for each microbatch, and leave none out. All samples at once would need the memory of them all.",
    "call backward for the loss of every microbatch: it adds to parameter.grad.",
    "what backward needs is then kept in memory for all microbatches together. Call backward inside the loop, for each "
    "microbatch: it adds to parameter.grad.")


@dataclass(frozen=True)
class Pieces:
    """What the ranks have.

    Attributes:
        lengths: by rank, the lengths of its microbatches.
        loss: "cross_entropy" or "squared".
        frozen: whether a parameter is not trained.
    """

    lengths: Sequence[Sequence[int]]
    loss: str = "cross_entropy"
    frozen: bool = False


@task("comm", "model", "loss_function", "microbatches", "global_batch_size", helpers=[all_reduce], untouched=["microbatches"],
      errors=ERRORS)
def check_accumulate_gradients(draw: Draw, *, batches: Sequence[Pieces]) -> Iterator[Case]:
    """`function(comm, model, loss_function, microbatches, global_batch_size)`: the gradient of the whole batch."""
    for pieces in batches:
        state, total = _model(draw, frozen=pieces.frozen), sum(map(sum, pieces.lengths))
        lengths = " | ".join(", ".join(map(str, own)) or "no" for own in pieces.lengths)
        notes = f"microbatches of {lengths} samples{', one parameter frozen' * pieces.frozen}"
        yield Case(f"on {count(len(pieces.lengths), 'rank')} with {notes}", accumulate, [
            {
                "state": state, "loss": pieces.loss, "total": total, "old": _old_gradients(draw, state),
                "microbatches": [_batch(draw, length, pieces.loss) for length in own],
            }
            for own in pieces.lengths
        ], pieces, seed=draw.getrandbits(60))


@check_accumulate_gradients.judge
def _(seen: Seen) -> Remarks:
    pieces, given, parts = seen.facts, seen.case.inputs[0], _gradients(seen)
    for rank, own in enumerate(pieces.lengths):
        yield from _passes(seen, rank, len(own), "microbatch", EACH_MICROBATCH)
    parameters = dict(Model(given["state"], open_gate).named_parameters())
    for rank in seen.ranks:
        for name, found in seen[rank]["gradients"].items():
            yield untouched(f"on rank {rank}, {name} itself", seen[rank]["parameters"][name], parameters[name].detach(),
                            "fill parameter.grad, and leave the parameters to the optimizer.")
            if name not in given["old"]:
                yield holds(f"on rank {rank}, the gradient of {name}", found, None,
                            otherwise="this parameter is frozen: it never gets a gradient. Leave it out.")
                continue
            right = _added(parts, name, lambda r, m: 1 / given["total"])
            is_rounded = is_close(found, right, relative=1e-4, absolute=1e-7)
            yield holds(f"on rank {rank}, the gradient of {name}", found, right,
                        None if is_rounded else partial(_mistakes, seen, parts, rank, name, right), same=is_close,
                        otherwise=ROUNDED if is_rounded else "there is none. Every rank, also one without samples, ends with "
                        "the sum over all ranks in parameter.grad, and nothing clears it afterwards." if found is None else
                        "is each pass about a microbatch of its own? And does each part of the flat tensor go back to the "
                        "parameter that it came from?")
    number, nbytes = max(map(len, pieces.lengths)), _nbytes(given["old"].values())
    yield from one_all_reduce(seen, nbytes, "all gradients", right="the gradients", mistakes={
        number * nbytes: "the ranks talk after each microbatch. Keep what comes from them in parameter.grad, and talk "
                         "once, after the last.",
        _nbytes(parameters.values()): "frozen parameters are sent, too. They never get a gradient: leave them out.",
    })


def _gradients(seen: Seen) -> dict[tuple[int, int], Tensors]:
    """By rank and microbatch, the gradients of the sum of its losses."""
    found: dict[tuple[int, int], Tensors] = {}
    for rank, given in enumerate(seen.case.inputs):
        for m, (inputs, targets) in enumerate(given["microbatches"]):
            model = Model(given["state"], lambda k, values=None, rank=rank, m=m: seen.case.part.factor(rank, m))
            LOSSES[given["loss"]](model(inputs), targets).sum().backward()
            found[rank, m] = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found


def _added(parts: Mapping[tuple[int, int], Tensors], name: str, weight: Callable[[int, int], float]) -> torch.Tensor:
    return torch.stack([own[name] * weight(*place) for place, own in parts.items()]).sum(0)


def _mistakes(seen: Seen, parts: Any, rank: int, name: str, right: torch.Tensor) -> dict[str, list[torch.Tensor]]:
    old = [inputs["old"][name] for inputs in seen.case.inputs]
    table = {words: [_added(parts, name, weight) for weight in each]
             for words, each in weights(seen.facts.lengths, rank).items()}
    return {"the old contents of parameter.grad were added. Clear them first: model.zero_grad().":
            [right + sum(old), right + old[rank], right + sum(o for o, own in zip(old, seen.facts.lengths, strict=True)
                                                              if not own)], **table}


def weights(lengths: Sequence[Sequence[int]], rank: int) -> dict[str, list[Callable[[int, int], float]]]:
    """What a sample of microbatch m of rank r counts by each mistake, in the gradient on a rank."""
    size, own, total = len(lengths), [sum(mine) for mine in lengths], sum(map(sum, lengths))
    most = max(map(len, lengths))
    return {
        "it was divided twice: the losses by global_batch_size, and the sum by comm.world_size. Add the ranks' gradients "
        "up, and do not average them.": [lambda r, m: 1 / total / size],
        "this is a sum over samples. Divide each loss by global_batch_size.": [lambda r, m: 1.0],
        "this is a sum, divided by the number of ranks. Divide by global_batch_size instead.": [lambda r, m: 1 / size],
        "these are the rank's own samples only. Is the result of all_reduce written back into parameter.grad?":
            [lambda r, m: (r == rank) / total],
        "these are zeros. Clear parameter.grad before the first backward(), not after it.": [lambda r, m: 0.0],
        "this is the last microbatch of each rank only. The gradients of the microbatches add up: set them to zero once, "
        "before the first.": [lambda r, m: (m == len(lengths[r]) - 1) / total],
        "each rank's mean was taken, and the means were averaged. That is right only if all ranks have equally many "
        "samples. Add up the losses, and divide by global_batch_size.": [lambda r, m: 1 / own[r] / size],
        "it is too large by the number of ranks. Is each loss divided by the samples of its own rank, not by "
        "global_batch_size? Or was the sum added up twice?": [lambda r, m: size / total],
        "each rank divided by the number of its own samples. Divide by global_batch_size.": [lambda r, m: 1 / own[r]],
        "each microbatch's mean was taken, and means were averaged. That is right only if all have equally many samples. "
        "Add up the losses, and divide by global_batch_size.": [
            lambda r, m: 1 / lengths[r][m] / len(lengths[r]) / size,
        ],
        "each microbatch's mean was taken, and means were added up. Add up the losses, and divide by global_batch_size.": [
            lambda r, m: 1 / lengths[r][m],
            lambda r, m: 1 / lengths[r][m] / size,
            lambda r, m: 1 / lengths[r][m] / len(lengths[r]),
        ],
        "it was divided twice: by the samples of the microbatch, and by global_batch_size; or by that twice. Take the sum of "
        "the losses, and divide it once.": [lambda r, m: 1 / lengths[r][m] / total, lambda r, m: 1 / total**2],
        "it was multiplied by global_batch_size. Divide by it.": [lambda r, m: total],
        "it was divided by global_batch_size // comm.world_size, which is rounded. Divide by global_batch_size, and add up.":
            [lambda r, m: 1 / (total // size) / size, lambda r, m: 1 / (total // size)] if size < total and total % size else [],
        "it was divided by the number of microbatches, too. global_batch_size has counted every sample already.":
            [lambda r, m: 1 / total / len(lengths[r])],
        "the sum over all ranks was added to the rank's own gradient. Put it in its place: parameter.grad.copy_(…).":
            [lambda r, m: (1 + (r == rank)) / total],
        "the sums of earlier microbatches were added up over the ranks again with each later one. Talk once, after the "
        "last.": [lambda r, m: size ** (most - 1 - m) / total],
    }


# ── warmup_learning_rate ─────────────────────────────────────────────────────────────────────────────────────────────

Question = tuple[int, float, int, int, int]  # step, base_learning_rate, base_batch_size, batch_size, warmup_steps


@task("step", "base_learning_rate", "base_batch_size", "batch_size", "warmup_steps", errors=[
    ("division by zero", "warmup_steps may be 0: every step has the full rate then. Ask for that before you divide.")])
def check_warmup_learning_rate(draw: Draw, *, questions: Sequence[Question], drawn: int = 0) -> Iterator[Case]:
    """`function(step, base_learning_rate, base_batch_size, batch_size, warmup_steps)` returns the rate of the step.

    `drawn`: how many more questions come at the end, which no table of answers has.
    """
    more = [(draw.randint(0, 300), draw.uniform(0.01, 1.0), draw.randint(1, 512), draw.randint(1, 4096), draw.randint(0, 200))
            for _ in range(drawn)]
    yield from (called(*question, facts=question) for question in (*questions, *more))


@check_warmup_learning_rate.judge
def _(seen: Seen) -> Remarks:
    step, base, small, large, steps = seen.facts
    right, found = warmup_learning_rate(*seen.facts), seen[0]
    if isinstance(found, torch.Tensor):
        yield Remark("it returned a tensor.", cause="return a number: item() of a tensor is one.")
    k, part = large / small, step / steps if steps else 1.0
    full, ramped = base * k, min(part, 1.0)
    late = min((step + 1) / steps, 1.0) if steps else 1.0
    early = min(step / (steps - 1), 1.0) if steps > 1 else 1.0
    is_near = isinstance(found, float) and (abs(found - right) < 1e-2 * abs(right) or found in (round(right, 2), round(right, 3)))
    yield returns(seen, right, {
        "is it rounded to a whole number? Return the rate as it is.": found if type(found) is int else None,
        "that goes on growing. After warmup_steps the rate stays what it is.": base * (1 + (k - 1) * part),
        "that begins at 0. Begin at base_learning_rate.": full * ramped,
        "that begins at a part of the full rate. Begin at base_learning_rate.": full * late if late < 1 else None,
        "that is the rate of the next step. Step 0 has base_learning_rate.":
            base * (1 + (k - 1) * late) if late < 1 else None,
        "that reaches the full rate one step too early: in step warmup_steps - 1.": base * (1 + (k - 1) * early)
            if steps > 1 else None,
        "that is the full rate already. With a smaller batch the rate falls in the warm-up, and min(…) would take the end of "
        "it at once.": full if k < 1 else None,
        "that is the full rate, as without a warm-up. Begin at base_learning_rate.": full,
        "that is not multiplied by base_learning_rate.": 1 + (k - 1) * ramped,
        "is a pair of parentheses missing? The rate grows by (full rate - base rate), divided by warmup_steps.":
            base + full - base * ramped,
        "the quotient of the batch sizes need not be a whole number: /, not //.":
            base * (1 + (large // small - 1) * ramped) if large > small else None,
        "that is the base rate. If the batch is smaller than base_batch_size, so is the rate.": base if k < 1 else None,
        "that is the base rate. With warmup_steps = 0 every step, also step 0, has batch_size / base_batch_size times that.":
            None if steps or step else base,
        "that is the base rate. In step warmup_steps and later it is batch_size / base_batch_size times that.":
            base if step >= steps else None,
        "that is still the base rate. It grows in every step of the warm-up. (/ divides, // rounds down.)": base,
        "that grows by base_learning_rate in each step. It reaches the full rate after warmup_steps steps.": base * (1 + step),
        "that is scaled by the square root. k times the batch, k times the rate.": base * (1 + (k**0.5 - 1) * ramped),
        "that is scaled by base_batch_size / batch_size, the wrong way round.": base * (1 + (1 / k - 1) * ramped),
        "that reaches the full rate one step too late: in step warmup_steps + 1.":
            base * (1 + (k - 1) * min(step / (steps + 1), 1.0)) if steps else None,
        "that grows by the same factor in each step. It should grow by the same amount.": base * k**ramped,
        "the scale multiplies the rate; it is not added to it.": base + k * ramped,
        "that ends above the full rate: from 1 to k times the base rate, it grows by k - 1.": base * (1 + k * ramped),
    }, otherwise="is something rounded? Return the number as it is." if is_near else "")


# ── local_sgd_round ──────────────────────────────────────────────────────────────────────────────────────────────────
# Usual mistakes are programs: `one_round` makes any of them. Where models are wrong, it plays each on the same case. The
# one that leaves the same numbers on all ranks is the student's.

EACH_BATCH = ("every batch is a step of its own: forward, backward, optimizer.step().",) * 3
MISTAKES = {
    "no average": "this is still the rank's own. Is the average taken after the last optimizer.step(), of the parameters and "
                  "not of their gradients, and written back into the model, in place: parameter.copy_(…)?",
    "only rank 0 writes": "this is still the rank's own. The average is written back on rank 0 only.",
    "no step": "the parameters are as they were before the first step. Is optimizer.step() called, with parentheses, and "
               "before zero_grad()? Is what is averaged read after the last step?",
    "no state": "the optimizer's state is lost between the rounds. It stays with its rank: use the optimizer as it is.",
    "sum": "these are the ranks' values added up. Average them: divide by comm.world_size, or all_reduce with "
           "op=ReduceOp.AVG.",
    "divided twice": "it was divided by the number of ranks twice.",
    "rank 0": "this is what rank 0 had. Average over all ranks.",
    "no buffers": "this is still the rank's own buffer. The buffers that hold floating-point numbers are averaged, too.",
    "counters": "it is a whole number, a count of this rank's own, and is left alone.",
    "new parameters": "it has not changed in this round. The optimizer holds the tensors that the model had at first: "
                      "change them in place, parameter.copy_(…).",
    "no zero_grad": "the gradients of earlier steps were still in parameter.grad: optimizer.zero_grad() before each "
                    "backward.",
    "zero_grad once": "the gradients of earlier steps were still in parameter.grad: optimizer.zero_grad() before each "
                      "backward, inside the loop.",
    "step once": "this is a single step with the gradients of all batches. Each batch is a step: optimizer.step() inside "
                 "the loop.",
    "last step": "this is a single step, with the last gradients. Each batch is a step: optimizer.step() inside the loop.",
    "plain steps": "these are steps without momentum. How to step is the optimizer's business: optimizer.step().",
    "sum of losses": "the losses of a batch were added up. A step follows their mean.",
    "average in each step": "this is what averaging in each step gives, be it gradients or parameters. Ranks take their "
                            "steps alone; then the parameters are averaged, once.",
}
OTHERWISE = ("a step, or the average. Every rank takes a step for each batch of its own, with the mean loss of that batch and "
             "the optimizer as it is. The average is the sum divided by comm.world_size, and each part goes back to the "
             "tensor that it came from.")
SILENT = "this is the rank's own, and no message was sent. After their last step the ranks average their models."
EARLY = ("this is the rank's own: the ranks have talked before its last local step, and not after it. First all local "
         "steps, then the average.")


def one_round(comm: Communicator, model: Any, loss_function: Any, batches: Any, optimizer: Any, mistake: str = "") -> None:
    """A round of local SGD, as it should be or with one of the `MISTAKES`."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point() or mistake == "counters"]
    tensors = [*model.parameters(), *([] if mistake == "no buffers" else buffers)]
    if mistake in ("zero_grad once", "step once"):
        optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(batches):
        if mistake not in ("no zero_grad", "zero_grad once", "step once"):
            optimizer.zero_grad()
        losses = loss_function(model(inputs), targets)
        (losses.sum() if mistake == "sum of losses" else losses.mean()).backward()
        if mistake == "plain steps":
            for parameter in filter(lambda parameter: parameter.requires_grad, model.parameters()):
                parameter.data -= RATE * parameter.grad
        elif mistake != "no step" and (mistake not in ("step once", "last step") or number == len(batches) - 1):
            optimizer.step()
        if mistake == "average in each step":
            all_reduce_together(comm, tensors, ReduceOp.AVG)
    size = comm.world_size
    factor = {"sum": size, "divided twice": 1 / size, "rank 0": size * (comm.rank == 0)}.get(mistake)
    for tensor in tensors if factor is not None else ():
        tensor.data *= factor
    own = [tensor.detach().clone() for tensor in tensors]
    if mistake == "no state":
        optimizer.state.clear()
    if mistake != "no average":
        all_reduce_together(comm, tensors, ReduceOp.AVG)
    for tensor, value in zip(tensors, own, strict=True) if mistake == "only rank 0 writes" and comm.rank else ():
        tensor.data.copy_(value)
    for layer in model.layers if mistake == "new parameters" else ():
        layer.weight, layer.bias = (torch.nn.Parameter(old.detach().clone()) for old in (layer.weight, layer.bias))


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
class Rounds:
    """What the ranks do.

    Attributes:
        steps: by rank, the local steps of a round.
        rounds: how many rounds.
        buffers: whether the model has any.
        loss: "cross_entropy" or "squared".
        batch_size: of rank 0; every further rank has one sample more.
        frozen: whether a parameter is not trained.
    """

    steps: Sequence[int]
    rounds: int = 1
    buffers: bool = False
    loss: str = "cross_entropy"
    batch_size: int = 3
    frozen: bool = False


def _errors(seen: Seen) -> Sequence[tuple[str, str]]:
    unequal = ("wait", "ranks may take different numbers of local steps. Does one of them wait for others inside its loop? "
               "Talk once, after it.")
    return (
        *SIGNS, *BACKWARD_SIGNS,
        ("only for scalar", "loss_function returns a loss for each sample. Take their mean before backward()."),
        ("'NoneType'", "something here is None. The .grad of a parameter may be: average parameters and buffers, not "
         "gradients. And all_reduce returns None: it works in place."),
        ("Both need the same number of elements", "every rank averages once, after its last step, and the same tensors."),
        *([unequal] if len(set(seen.facts.steps)) > 1 else []),
    )


@task("comm", "model", "loss_function", "batches", "optimizer", helpers=[all_reduce], untouched=["batches"], errors=_errors)
def check_local_sgd_round(draw: Draw, *, plans: Sequence[Rounds]) -> Iterator[Case]:
    """`function(comm, model, loss_function, batches, optimizer)`: local steps, then the average of all models."""
    for plan in plans:
        state = _model(draw, frozen=plan.frozen, buffers=plan.buffers)
        steps = list(plan.steps) if len(set(plan.steps)) > 1 else [plan.steps[0]]
        notes = f"{', '.join(map(str, steps))} local step{'' if steps == [1] else 's'}{', with buffers' * plan.buffers}"
        notes += ", one parameter frozen" * plan.frozen + f", {plan.rounds} rounds" * (plan.rounds > 1)
        yield Case(f"on {count(len(plan.steps), 'rank')} with {notes}", local_rounds, [
            {
                "state": state, "loss": plan.loss, "rate": RATE, "old": _old_gradients(draw, state),
                "batches": [[_batch(draw, plan.batch_size + rank, plan.loss) for _ in range(steps)]
                           for _ in range(plan.rounds)],
            }
            for rank, steps in enumerate(plan.steps)
        ], plan, seed=draw.getrandbits(60))


@check_local_sgd_round.judge
def _(seen: Seen) -> Remarks:
    plan, right, given = seen.facts, play_rounds(seen.case), seen.case.inputs[0]
    for rank, steps in enumerate(plan.steps):
        yield from _passes(seen, rank, steps * plan.rounds, "batch", EACH_BATCH)
    for number in range(plan.rounds):
        where = f" after round {number + 1}" if plan.rounds > 1 else ""
        for rank in seen.ranks:
            for name, expected in right[rank][number].items():
                found = seen[rank]["rounds"][number].get(name)
                if not is_close(found, expected):
                    is_rounded = is_close(found, expected, relative=1e-4, absolute=1e-7)
                    yield Remark(f"on rank {rank}, {name} is wrong{where}.", compared(expected, found),
                                 ROUNDED if is_rounded else _mistake(seen, explain_average(found, expected) or OTHERWISE))
    every = {name: tensor for name, tensor in right[0][0].items() if tensor.is_floating_point()}
    frozen = [tensor for name, tensor in every.items() if not name.startswith("running") and name not in given["old"]]
    counters = {_nbytes(right[0][0].values()): "counters are sent, too. Average the buffers that hold floating-point "
                                               "numbers."}
    yield from one_all_reduce(seen, _nbytes(every.values()), "all parameters and buffers", right="the models",
                              rounds=plan.rounds, also=[_nbytes(every.values()) - _nbytes(frozen)], mistakes=counters,
                              otherwise="talk once, after the last step, and only about what is averaged: not about the "
                                        "optimizer's state or numbers of steps.")


def _mistake(seen: Seen, otherwise: str) -> str:
    """The words for the mistake that leaves what the student's function leaves."""
    words = next((words for mistake, words in MISTAKES.items() if _is_played(seen, mistake)), otherwise)
    if words != MISTAKES["no average"]:
        return words
    if not len(seen.trace):
        return SILENT
    late = [message for message in seen.trace if message.start >= seen.played[message.src].gates[-1][1]]
    return "" if not seen.in_virtual_time else words if late else EARLY


def _is_played(seen: Seen, mistake: str) -> bool:
    try:
        played = play_rounds(seen.case, mistake)
    except RankError:
        return False
    return all(is_close(seen[rank]["rounds"][number].get(name), tensor, absolute=1e-8)
               for rank, own in enumerate(played) for number, tensors in enumerate(own) for name, tensor in tensors.items())


@check_local_sgd_round.judge_times
def _(seen: Seen) -> Remarks:
    for rank, steps in enumerate(seen.facts.steps):
        early = [m for m in seen.trace if m.src == rank and m.start < seen.passed(rank, steps - 1)[0]]
        if early:
            yield Remark(f"rank {rank} sent {count(len(early), 'message')} before its last local step.",
                         cause="local steps need nobody else. Talk once, after them.")
# fmt: on

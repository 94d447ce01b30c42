"""Exercise 11: a training program with torch's fully_shard. Judged by values, and by the sizes of its messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.rules.block_training import GATHER, NUMBER_BYTES, ROOT, SCATTER, is_same_norm
from distlib.checks.rules.torch_messages import messages_by_size
from distlib.checks.rules.values import Mistakes, holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.zero.fsdp_cases import TrainingAsOne, Wrapping, rows_of, wrapping_case

say = Sentences(__file__)

SIGNS: Signs = (
    ("got mixed torch.Tensor and DTensor", say("mixed")),
    ("value was None when it should not be", say("root_first")),
    ("containers that do not implement forward", say("container")),
    ("has no attribute 'set_requires_gradient_sync'", say("not_wrapped")),
    ("has no attribute 'full_tensor'", say("no_dtensor")),
    ("has no attribute 'no_sync'", say("no_sync")),
    ("list index out of range", say("mesh")),
)


@task("model", "steps", "rate", "max_norm", errors=SIGNS, untouched=["steps"])
def check_train_fully_sharded(draw: Draw, *, runs: Sequence[Wrapping]) -> Iterator[Case]:
    """`function(model, steps, rate, max_norm)`: each block a unit, microbatches, clipping, SGD."""
    for run in runs:
        yield wrapping_case(draw, run)


@check_train_fully_sharded.judge
def _(seen: Seen) -> Remarks:
    right = TrainingAsOne(seen.case)
    yield from cuts_every_parameter(seen)
    yield from returns_norms(seen, right)
    yield from ends_as_one_process(seen, right)
    if seen.size > 1:
        for rank in seen.ranks:
            yield from travels_unit_by_unit(seen, rank)


def _same(found: Any, right: Any) -> bool:
    """Whether two tensors differ by rounding at most, or by an epsilon in the clipping."""
    single = isinstance(right, torch.Tensor) and right.dtype == torch.float32
    return (
        is_close(found, right, relative=1e-3, absolute=1e-4)
        if single
        else is_close(found, right, relative=1e-5, absolute=1e-6)
    )


def cuts_every_parameter(seen: Seen) -> Remarks:
    """Each parameter is a DTensor."""
    for rank in seen.ranks:
        parameters = seen[rank]["parameters"]
        left = [name for name, each in parameters.items() if not each["is_cut"]]
        if left:
            outside = not any(name.startswith("blocks.") for name in left)
            cause = say("blocks_only") if outside else say("nothing_wrapped")
            yield say.remark("whole", rank=rank, name=left[0], cause=cause)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def returns_norms(seen: Seen, right: TrainingAsOne) -> Remarks:
    """A list with the norm of each step, on each rank."""
    for rank in seen.ranks:
        found = seen[rank]["norms"]
        if not isinstance(found, list) or len(found) != len(right.norms):
            shown = count(len(found), "entry") if isinstance(found, list) else type(found).__name__
            yield say.remark("no_list", rank=rank, steps=len(right.norms), found=shown)
            return
        for step, (one, norm) in enumerate(zip(found, right.norms, strict=True)):
            yield _norm_holds(seen, rank, step, one, norm)


def _norm_holds(seen: Seen, rank: int, step: int, found: Any, right: float) -> Remark | None:
    if found == "a DTensor":
        return say.remark("norm_is_dtensor", rank=rank)
    what = f"on rank {rank} the norm of step {step + 1}"
    mistakes = partial(_norm_mistakes, seen, rank, step)
    return holds(what, found, right, mistakes, same=is_same_norm, otherwise=say("norm_values"))


def _norm_mistakes(seen: Seen, rank: int, step: int) -> Mistakes:
    right, limit = TrainingAsOne(seen.case).norms[step], seen.given("max_norm")[0]
    own = TrainingAsOne(seen.case, seen_by=rank).norms[step]
    table: dict[str, Any] = {say("no_gradient"): 0.0, say("own_norm"): own, say("clipped_norm"): min(right, limit)}
    return table | {words: [each.norms[step] for each in wrong] for words, wrong in _wrong_trainings(seen).items()}


def _wrong_trainings(seen: Seen) -> dict[str, list[TrainingAsOne]]:
    """What usual mistakes make of the case."""
    case, ranks = seen.case, seen.size
    return {
        say("undivided"): [TrainingAsOne(case, divides=False)],
        say("last_only"): [TrainingAsOne(case, divides=False, used="last")],
        say("last_divided"): [TrainingAsOne(case, used="last")],
        say("first_sent"): [TrainingAsOne(case, divides=divides, used="first") for divides in (True, False)],
        say("never_cleared"): [TrainingAsOne(case, clears=False)],
        say("not_moved"): [TrainingAsOne(case, moves=False, clears=clears) for clears in (True, False)],
        say("unclipped"): [TrainingAsOne(case, clips="never")],
        say("clipped_by_own_norm"): [TrainingAsOne(case, clips="by the norm of each rank")],
        say("divided_by_ranks"): [TrainingAsOne(case, scale=1 / ranks)],
        say("times_ranks"): [TrainingAsOne(case, scale=ranks)],
        say("thawed"): [TrainingAsOne(case, thaws=True)],
    }


def ends_as_one_process(seen: Seen, right: TrainingAsOne) -> Remarks:
    """Each rank has its rows of the parameters that one process ends with."""
    wrong: dict[str, list[TrainingAsOne]] = {}
    for rank in seen.ranks:
        due = rows_of(right.state, seen.size, rank)
        for name, found in ((name, seen[rank]["parameters"][name]["local"]) for name in due):

            def mistakes(name: str = name, rank: int = rank) -> Mistakes:
                wrong.update({} if wrong else _wrong_trainings(seen))
                ends = {words: [rows_of(each.state, seen.size, rank) for each in ways] for words, ways in wrong.items()}
                return {words: [each[name] for each in ways] for words, ways in ends.items()}

            what = f"on rank {rank} its part of {name}"
            yield holds(what, found, due[name], mistakes, same=_same, otherwise=say("parameter_values"))


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def travels_unit_by_unit(seen: Seen, rank: int) -> Remarks:
    """Each block is gathered twice in each microbatch, and its gradients travel once a step."""
    plan: Wrapping = seen.facts
    sent = messages_by_size(seen.trace, rank)
    yield from _gathered(plan, sent, rank)
    yield from _scattered(plan, sent, rank)
    yield _others(plan, sent, rank)


def _number(plan: Wrapping, sent: Counter[tuple[str, int]], kind: str, nbytes: int) -> float:
    return sent[kind, nbytes] / (plan.ranks - 1)


def _gathered(plan: Wrapping, sent: Counter[tuple[str, int]], rank: int) -> Remarks:
    units, passes = plan.unit_bytes(), sum(plan.passes)
    block, root = _number(plan, sent, GATHER, units["blocks.0"]), _number(plan, sent, GATHER, units[ROOT])
    facts = {"rank": rank, "passes": passes}
    if 0 in (block, root):
        yield say.remark("other_units", **facts)
    due = 2 * passes * plan.blocks
    if block != due:
        kept = "kept_after_forward" if block == due / 2 and root >= passes else "kept_whole"
        cause = say(kept if block < due else "gathered_again")
        yield say.remark("blocks_gathered", found=f"{block:g}", due=due, blocks=plan.blocks, cause=cause, **facts)
    if root not in (passes, 2 * passes):
        cause = say("one_backward" if root < passes else "gathered_again")
        yield say.remark("root_gathered", found=f"{root:g}", cause=cause, **facts)


def _scattered(plan: Wrapping, sent: Counter[tuple[str, int]], rank: int) -> Remarks:
    due = Counter(nbytes for nbytes in plan.unit_bytes(trained=True).values() if nbytes)
    steps = len(plan.passes)
    for nbytes, units in due.items():
        found = _number(plan, sent, SCATTER, nbytes) / units
        if found != steps:
            yield say.remark("gradients_sent", rank=rank, found=f"{found:g}", steps=steps)


def _others(plan: Wrapping, sent: Counter[tuple[str, int]], rank: int) -> Remark | None:
    """Besides, only the numbers of the norm travel."""
    known = {(GATHER, each) for each in plan.unit_bytes().values()}
    known |= {(SCATTER, each) for each in plan.unit_bytes(trained=True).values()}
    others: Counter[str] = Counter()
    for (kind, nbytes), number in sent.items():
        others[kind] += nbytes * number * ((kind, nbytes) not in known)
    parameters = len(list(plan.model().parameters()))
    due = len(plan.passes) * parameters * 2 * (plan.ranks - 1) * NUMBER_BYTES
    if others.total() <= due:
        return None
    kind, nbytes = others.most_common(1)[0]
    return say.remark("more_sent", rank=rank, sent=count(nbytes, "byte"), kind=kind)

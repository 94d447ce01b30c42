"""Rules about models that are cut unit by unit: values, what is there at which moment, and bytes that are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.formatting import count, enumerated, listed
from distlib.checks.remark import Remark
from distlib.checks.rules.values import Mistakes, explain_factor, holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Remarks
from distlib.exercises.zero.unit_cases import Flat, Sharding, WholeModel

say = Sentences(__file__)


def _same(found: Any, right: Any) -> bool:
    """Whether two tensors differ by rounding at most."""
    single = isinstance(right, torch.Tensor) and right.dtype == torch.float32
    return is_close(found, right, relative=1e-3, absolute=1e-4) if single else is_close(found, right, relative=1e-5)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def cuts_parameters(seen: Seen, whole: WholeModel, number: int) -> Remarks:
    """The shards are those of the parameters, and hold no other memory."""
    plan = whole.plan
    for rank in seen.ranks:
        told = seen[rank]["sets"][number]
        for unit, (cut, flat, found) in enumerate(zip(plan.units, whole.flat[0], told["shards"], strict=True)):
            right = cut.shards(flat)[rank]
            mistakes = partial(_shard_mistakes, whole, unit, rank)
            what = f"on rank {rank} the shard of unit {unit}{_of_model(plan, number)}"
            padded = _with_any_padding(found, right, max(0, min(len(right), cut.length - rank * cut.shard)))
            yield holds(what, padded, right, mistakes, same=_same, otherwise=say("shard_values"))
        if told["held"] > plan.shards and plan.ranks > 1:
            yield say.remark("view_kept", rank=rank, held=count(told["held"], "byte"), shards=f"{plan.shards:,}")


def _with_any_padding(found: torch.Tensor, right: torch.Tensor, length: int) -> torch.Tensor:
    """What was found, with the padding that is right behind `length` numbers: what it holds is nobody's business."""
    if found.shape != right.shape:
        return found
    return torch.cat([found[:length], right[length:].to(found.dtype)])


def _shard_mistakes(whole: WholeModel, unit: int, rank: int) -> Mistakes:
    flat = whole.flat[0][unit]
    shards = whole.plan.units[unit].shards(flat)
    others = [cut.shards(own)[rank] for k, (cut, own) in enumerate(_pairs(whole, whole.flat[0])) if k != unit]
    return {
        say("another_unit"): others,
        say("whole_kept"): [flat, torch.cat(list(shards))],
        say("another_shard"): [each for k, each in enumerate(shards) if k != rank],
        say("not_padded"): [flat.tensor_split(len(shards))[rank], *_chunk(flat, len(shards), rank)],
    }


def _chunk(flat: torch.Tensor, ranks: int, rank: int) -> list[torch.Tensor]:
    """torch.chunk makes fewer chunks of some lengths: then there may be none."""
    return list(flat.chunk(ranks)[rank : rank + 1])


def _of_model(plan: Sharding, number: int) -> str:
    return f" of model {number + 1}" if plan.number > 1 else ""


def trains_as_one(seen: Seen, whole: WholeModel, number: int) -> Remarks:
    """Outputs and gradients are those of one process, step by step."""
    plan = whole.plan
    other = WholeModel(seen.case, 1 - number) if plan.number > 1 else None
    for step in range(plan.steps):
        for k in range(plan.passes):
            yield from _outputs_as_one(seen, whole, number, step, k, other)
        yield from _gradients_as_one(seen, whole, number, step)
        if plan.evaluates:
            yield from _outputs_as_one(seen, whole, number, step, None, other)


def _outputs_as_one(
    seen: Seen, whole: WholeModel, number: int, step: int, k: int | None, other: WholeModel | None
) -> Remarks:
    """The output of pass `k` of a step (None: of the evaluation after it), on every rank."""
    plan = whole.plan
    index = step * (plan.passes + plan.evaluates) + (plan.passes if k is None else k)
    for rank in seen.ranks:
        found, right = seen[rank]["sets"][number]["passes"][index]["output"], whole.outputs(step, k, rank)
        when = f"the evaluation after step {step + 1}" if k is None else _forward_pass(plan, step, k)
        what = f"on rank {rank} the output of {when}{_of_model(plan, number)}"
        mistakes = partial(_output_mistakes, whole, step, k, rank, other)
        is_nan = isinstance(found, torch.Tensor) and bool(found.isnan().any())
        yield holds(what, found, right, mistakes, same=_same, otherwise=say("nan" if is_nan else "output_values"))


def _forward_pass(plan: Sharding, step: int, k: int) -> str:
    return f"forward pass {k + 1} of step {step + 1}" if plan.passes > 1 else f"the forward pass of step {step + 1}"


def _output_mistakes(whole: WholeModel, step: int, k: int | None, rank: int, other: WholeModel | None) -> Mistakes:
    now = step + (k is None)
    outputs = partial(whole.outputs, step, k, rank)
    flat, plan = whole.flat[now], whole.plan
    return {
        say("units_only"): outputs() / 2,
        say("stale"): [outputs(flat=earlier) for earlier in whole.flat[:now]],
        say("others_zero"): outputs(flat=_only(whole, flat, rank)),
        say("gathered_average"): outputs(flat=[each / plan.ranks for each in flat]),
        say("another_model"): outputs(flat=other.flat[now]) if other else None,
    }


def _only(whole: WholeModel, flat: Flat, rank: int) -> Flat:
    """The parameters, with zeros in the shards of all other ranks."""
    parts = [[each * (k == rank) for k, each in enumerate(cut.shards(own))] for cut, own in _pairs(whole, flat)]
    return [torch.cat(each)[: len(own)] for each, own in zip(parts, flat, strict=True)]


def _pairs(whole: WholeModel, flat: Flat) -> Any:
    return zip(whole.plan.units, flat, strict=True)


def _gradients_as_one(seen: Seen, whole: WholeModel, number: int, step: int) -> Remarks:
    """After the passes of a step each shard has its gradient."""
    plan = whole.plan
    for rank in seen.ranks:
        told = seen[rank]["sets"][number]["gradients"]
        for unit, (cut, average) in enumerate(_pairs(whole, whole.average[step])):
            found, right = told[step][unit], cut.shards(average)[rank]
            passes = "passes" if plan.passes > 1 else "pass"
            when = f"after the backward {passes} of step {step + 1}"
            what = f"{when}, on rank {rank}, the gradient of the shard of unit {unit}{_of_model(plan, number)}"
            mistakes = partial(_gradient_mistakes, whole, step, unit, rank)
            otherwise = _of_a_gradient(found, right, is_first=step == 0)
            yield holds(what, found, right, mistakes, same=_same, otherwise=otherwise)


def _of_a_gradient(found: Any, right: torch.Tensor, is_first: bool) -> str:
    if found is None:
        return say("no_gradient" if is_first else "no_gradient_again")
    if found.isnan().any():
        return say("padding_unwritten")
    return explain_factor(found, right, say("gradient_values"))


def _gradient_mistakes(whole: WholeModel, step: int, unit: int, rank: int) -> Mistakes:
    plan, cut = whole.plan, whole.plan.units[unit]
    average, passes = whole.average[step][unit], _by_pass(whole, step, unit)
    own = sum(each[rank][unit] for each in whole.gradients[step])
    until_now = sum(each[unit] for each in whole.average[: step + 1])

    def shard(flat: Any) -> Any:
        return cut.shards(flat)[rank]

    several = plan.passes > 1
    return {
        say("sum"): shard(plan.ranks * average),
        say("own_gradient"): [shard(own), shard(own) / plan.ranks],
        say("last_pass_only"): shard(passes[-1]) if several else None,
        say("first_pass_only"): shard(passes[0]) if several else None,
        say("average_of_passes"): shard(average / plan.passes) if several else None,
        say("earlier_steps"): shard(until_now) if step else None,
        say("divided_twice"): shard(average / plan.ranks),
        say("another_shards_gradient"): [each for k, each in enumerate(cut.shards(average)) if k != rank],
    }


def _by_pass(whole: WholeModel, step: int, unit: int) -> list[torch.Tensor]:
    """By pass, the average over the ranks."""
    return [torch.stack([own[unit] for own in each]).mean(0) for each in whole.gradients[step]]


# ── what is there, and alive ─────────────────────────────────────────────────────────────────────────────────────────


def holds_one_unit(seen: Seen, plan: Sharding, number: int) -> Remarks:
    """While a unit computes it is the only one that is there; and afterwards none is."""
    for k in range(len(seen[0]["sets"][number]["passes"])):
        for rank in seen.ranks:
            told = seen[rank]["sets"][number]["passes"][k]
            facts = {"rank": rank, "model": _of_model(plan, number)}
            for note in told["forward"]:
                yield _alone_in_forward(plan, note, facts, told["kind"])
            for note in told["backward"]:
                yield _alone_in_backward(plan, note, facts)
            yield _free_at_the_end(plan, told, facts)
            if told["peak"] > plan.most_at_all:
                numbers = {"alive": count(told["peak"], "byte"), "most": f"{plan.most_at_all:,}"}
                yield say.remark("too_much_at_once", **numbers, **facts)


def _alone_in_forward(plan: Sharding, note: Mapping[str, Any], facts: Mapping[str, Any], kind: str) -> Remark | None:
    unit, others = note["unit"], [each for each in note["there"] if each != note["unit"]]
    if others:
        not_freed = "evaluation_not_freed" if kind == "evaluation" else "not_freed_after_forward"
        cause = say(not_freed if max(others) < unit else "there_too_early")
        return say.remark("others_there", unit=unit, others=_units_are(others), when="forward", cause=cause, **facts)
    return _alive_with(plan, note, "forward", say("kept_in_forward"), facts)


def _units(numbers: Sequence[int]) -> str:
    return f"{'units' if len(numbers) > 1 else 'unit'} {enumerated(numbers)}"


def _units_are(numbers: Sequence[int]) -> str:
    return f"{_units(numbers)} {'are' if len(numbers) > 1 else 'is'}"


def _alive_with(
    plan: Sharding, note: Mapping[str, Any], when: str, cause: str, facts: Mapping[str, Any]
) -> Remark | None:
    most = plan.most_with(note["unit"])
    if note["alive"] <= most:
        return None
    numbers = {"alive": count(note["alive"], "byte"), "most": f"{most:,}", "unit": note["unit"], "when": when}
    return say.remark("alive_with_unit", **numbers, cause=cause, **facts)


def _alone_in_backward(plan: Sharding, note: Mapping[str, Any], facts: Mapping[str, Any]) -> Remark | None:
    unit, others = note["unit"], [each for each in note["there"] if each != note["unit"]]
    if others:
        cause = say("not_freed_after_backward" if min(others) > unit else "gathered_at_once")
        return say.remark("others_there", unit=unit, others=_units_are(others), when="backward", cause=cause, **facts)
    gradients = [each for each in note["gradients"] if each != unit]
    if gradients:
        return say.remark("gradients_there", unit=unit, others=_units(gradients), **facts)
    return _alive_with(plan, note, "backward", say("kept_in_backward"), facts)


def _free_at_the_end(plan: Sharding, told: Mapping[str, Any], facts: Mapping[str, Any]) -> Remark | None:
    end, when = told["end"], "evaluation" if told["kind"] == "evaluation" else "backward pass"
    if end["there"]:
        cause = say("evaluation_not_freed" if told["kind"] == "evaluation" else "not_freed_after_backward")
        return say.remark("left_there", when=when, others=_units_are(end["there"]), cause=cause, **facts)
    if end["gradients"]:
        return say.remark("gradients_left", others=_units(end["gradients"]), **facts)
    if end["alive"] > plan.most_between:
        numbers = {"alive": count(end["alive"], "byte"), "most": f"{plan.most_between:,}"}
        return say.remark("alive_between", when=when, **numbers, **facts)
    return None


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────────────────────────


def sends_little(seen: Seen, plan: Sharding) -> Remarks:
    """Forward passes gather each unit, backward passes gather it and scatter its gradients; nothing else is sent."""
    forward = (seen.size - 1) * plan.shards * plan.number
    passes, evaluations = plan.steps * plan.passes, plan.steps * plan.evaluates
    due, sent = (3 * passes + evaluations) * forward, seen.trace.bytes_sent
    for rank in seen.ranks:
        if sent[rank] > due:
            more = sum(sent) - seen.size * due
            cause = _causes(passes, evaluations, seen.size * forward).get(more, say("sent_too_much"))
            cause = say("one_rank_sends") if min(sent) <= due else cause
            facts = {"sent": count(sent[rank], "byte"), "due": f"{due:,}"}
            yield say.remark("too_much", f"bytes sent by each rank: {listed(sent)}", rank=rank, cause=cause, **facts)


def _causes(passes: int, evaluations: int, forward: int) -> dict[int, str]:
    """From the bytes that are too many to their cause. `forward`: the bytes of a forward pass."""
    return {
        forward: say("sent_at_start"),
        passes * forward: say("all_reduced"),
        evaluations * forward: say("evaluation_gathers_twice"),
        (2 * passes + evaluations) * forward: say("gathered_by_all_reduce"),
        (3 * passes + evaluations) * forward: say("all_by_all_reduce"),
    }

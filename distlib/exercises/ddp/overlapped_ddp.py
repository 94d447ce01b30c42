"""Exercise 05: OverlappedDDP. What it computes, against a single process, and when it sends what, in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count
from distlib.checks.helpers import all_reduce, broadcast
from distlib.checks.plays.gated import open_gate
from distlib.checks.remark import Remark
from distlib.checks.rules.flat_all_reduce import TOGETHER
from distlib.checks.rules.values import explain_average, holds
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.ddp.all_reduces import all_reduces
from distlib.exercises.ddp.cases import (
    ALONE,
    BUFFER,
    EVALUATION,
    SHARED,
    Right,
    Training,
    same,
    tensors_of,
    train_alone,
    training_inputs,
)
from distlib.exercises.ddp.helpers import assign_buckets
from distlib.exercises.ddp.moments import EPSILON, Pass, computes_only, hidden_share, in_order, ms, outside, pass_of
from distlib.exercises.ddp.training_plays import Model, train
from distlib.network import Cluster, Link

say = Sentences(__file__)
GATE_SECONDS, ALL_REDUCE_SECONDS = 0.01, 0.008  # the latter of an average bucket

SUPPLIED_ERRORS: Signs = (
    ("has no 'all_reduce'", say("no_method_all_reduce")),
    ("has no 'broadcast'", say("no_method_broadcast")),
    ("comm as the first argument", say("comm_first")),
    ("Default process group has not been initialized", say("torch_distributed")),
    ("DistStoreError", say("torch_distributed")),
)
ERRORS: Signs = (
    ("'NoneType' object has no attribute 'wait'", say("no_handle")),
    ("forward returned NoneType", say("forward_returns")),
    ("missing 1 required positional argument: 'uses_extra'", say("hand_on_inputs")),
    ("this module takes", say("hand_on_inputs")),
    ("forward() takes", say("take_inputs")),
    ("positional argument but", say("hook_takes")),
    ("positional arguments but", say("hook_takes")),
    ("Module.__init__() call", say("super_first")),
    ("doesn't require gradient", say("leave_frozen_out")),
    ("a leaf Variable that requires grad", say("write_to_detached")),
    ("has no attribute 'no_sync'", say("no_sync_missing")),
    ("object is not an iterator", say("no_sync_yields")),
    ("context manager", say("no_sync_is_context")),
    ("has no 'start'", say("own_all_reduce")),
    *SUPPLIED_ERRORS,
    ("Boolean value of Tensor", say("in_a_list")),
    ("must match the size of tensor", say("in_a_list")),
    *TOGETHER,
    ("receives into", say("orders")),
    ("have to make the same collective calls", say("orders")),
    ("waits to", say("orders")),
)


def _errors(seen: Seen) -> Signs:
    if seen.facts.unused:
        return (*ERRORS, ("NoneType", say("no_gradient")), ("expected a non-empty list", say("no_gradient")))
    return (*ERRORS, ("NoneType", say("none_here")))


@task(
    "comm",
    "module",
    "bucket_bytes=250",
    "first_bucket_bytes=100",
    helpers=[all_reduce, broadcast, assign_buckets],
    errors=_errors,
)
def check_overlapped_ddp(draw: Draw, *, world_sizes: Sequence[int], trainings: Sequence[Training]) -> Iterator[Case]:
    """The class `function(comm, module, bucket_bytes=, first_bucket_bytes=)`: some steps of training with it.

    In virtual time, computing the gradients of a layer takes 10 ms, and the all-reduce of an average bucket 8 ms.
    """
    for training, ranks in ((training, n) for training in trainings for n in world_sizes):
        seed = draw.getrandbits(60)
        inputs = [training_inputs(training, rank, seed, GATE_SECONDS) for rank in range(ranks)]
        sizes = BucketCase(inputs[0]).nbytes
        bandwidth = max(1.0, 2 * (ranks - 1) / ranks * sum(sizes) / len(sizes) / ALL_REDUCE_SECONDS)
        cluster = Cluster.flat(ranks, Link(latency=1e-5, bandwidth=bandwidth))
        yield Case(f"on {count(ranks, 'rank')}, {training.title}", train, inputs, training, cluster, seed)


class BucketCase:
    """The buckets of a case: `buckets` holds positions among the parameters that are trained. `inputs`: of a rank."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        model = Model(inputs["state"], open_gate)
        self._limits: tuple[int, int] = inputs["options"]["bucket_bytes"], inputs["options"]["first_bucket_bytes"]
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.names = [name for name, _ in trained]
        self.layers = [
            [k for k, layer in enumerate(model.layers) if any(p is own for own in layer.parameters())]
            for _, p in trained
        ]
        self._sizes, self._elements = [p.nbytes for _, p in trained], [p.numel() for _, p in trained]
        self._with_frozen = [p.nbytes for p in model.parameters()]
        self._by_layer = [
            p.nbytes for part in model.modules() for p in part.parameters(recurse=False) if p.requires_grad
        ]
        self.buckets = assign_buckets(self._sizes, *self._limits)
        self.nbytes = _together(self._sizes, self.buckets)

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each bucket."""
        names = [", ".join(self.names[position] for position in bucket) for bucket in self.buckets]
        return tuple(f"bucket {k}: {n:,} bytes, {names[k]}" for k, n in enumerate(self.nbytes))

    @cached_property
    def mistakes(self) -> dict[str, list[list[int]]]:
        """The sizes that all-reduces have by usual mistakes."""
        sizes, (limit, first) = self._sizes, self._limits

        def filled(nbytes: Sequence[int], limit: int, first: int) -> list[int]:
            return _together(nbytes, assign_buckets(nbytes, limit, first))

        return {
            say("everything"): [[sum(sizes)]],
            say("one_each"): [sizes, sizes[::-1]],
            say("one_limit"): [filled(sizes, limit, limit)],
            say("exchanged"): [filled(sizes, first, limit)],
            say("elements"): [_together(sizes, assign_buckets(self._elements, limit, first))],
            say("shared_weight"): [filled(self._by_layer, limit, first)],
            say("frozen_sent"): [filled(self._with_frozen, limit, first)],
            say("another_order"): [list(order) for order in itertools.permutations(self.nbytes)],
        }


def _together(sizes: Sequence[int], buckets: Sequence[Sequence[int]]) -> list[int]:
    return [sum(sizes[position] for position in bucket) for bucket in buckets]


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@check_overlapped_ddp.judge
def _(seen: Seen) -> Remarks:
    right = train_alone(seen.case)
    yield from _constructed(seen, right)
    for step in range(seen.facts.steps):
        for judge in (_buffers, _averages, _parameters):
            for rank in seen.ranks:
                yield from judge(seen, right, step, rank)


def _constructed(seen: Seen, right: Right) -> Remarks:
    """After construction, every rank must have rank 0's parameters and buffers."""
    brought = [tensors_of(Model(state, open_gate)) for state in seen.given("state")]
    for rank in seen.ranks:
        for (name, first), found in zip(right.constructed.items(), seen[rank]["constructed"], strict=True):
            everyone = torch.stack([tensors[name] for tensors in brought])
            mistakes = {
                say("still_own"): everyone[rank],
                say("sums_or_averages"): [everyone.sum(0), everyone.double().mean(0).to(everyone.dtype)],
            }
            yield holds(say("constructed", name=name, rank=rank), found, first, mistakes, is_wrong="", same=same)


BUFFERS = {
    ALONE: ("not_its_own", say("copies_in_no_sync")),
    EVALUATION: ("not_its_own", say("copies_in_evaluation")),
    SHARED: ("not_rank_0s", say("copies_missing")),
}


def _buffers(seen: Seen, right: Right, step: int, rank: int) -> Remarks:
    kinds, found = seen.facts.kinds, seen[rank]["seen"]
    buffers = ", ".join(name.removeprefix(BUFFER) for name in right.constructed if name.startswith(BUFFER))
    for number, kind in enumerate(kinds, step * len(kinds)):
        if len(found) <= number:
            yield say.remark("not_called", step=step + 1)
        entry, cause = BUFFERS[kind]
        if kind == SHARED and seen.facts.passes > 1:
            cause = say("copies_missing_after_no_sync")
        wrong = say(entry, step=step + 1, kind=kind, buffers=buffers, rank=rank)
        yield holds(wrong, found[number], right.seen[rank][number], is_wrong="", same=same, otherwise=cause)


def _averages(seen: Seen, right: Right, step: int, rank: int) -> Remarks:
    names, truth = list(right.constructed), right.steps[step]
    for number, (found, average) in enumerate(zip(seen[rank]["gradients"][step], truth.averages, strict=True)):
        own = [gradients[number] for gradients in truth.own]
        if average is None or (found is None and not any(gradient is not None for gradient in own)):
            continue
        what = f"in step {step + 1}, after finish, the gradient of {names[number]} on rank {rank}"
        mistakes = partial(_mistakes, seen, right, step, rank, number)
        if found is None:
            otherwise = say("missing" if own[rank] is None else "gradient_lost")
        else:
            otherwise = explain_average(found, average) or say("stale" if step else "put_back")
        yield holds(what, found, average, mistakes, same=same, otherwise=otherwise)


def _mistakes(seen: Seen, right: Right, step: int, rank: int, number: int) -> dict[str, Any]:
    truth, before = right.steps[step], right.steps[step - 1] if step else None
    own, average = [gradients[number] for gradients in truth.own], truth.averages[number]
    assert average is not None
    mine = own[rank]
    passes = [[each[number] for each in gradients] for gradients in truth.earlier]
    earlier = [sum(each for each in gradients if each is not None) / seen.size for gradients in passes]
    return {
        say("stale"): [torch.zeros_like(average), before.averages[number], mine] if before else None,
        say("parameters"): before.parameters[number] if before else list(right.constructed.values())[number],
        say("without_last_pass"): earlier,
        say("last_pass_alone"): average - earlier[-1] if earlier else None,
        say("own"): mine,
        say("zeros"): torch.zeros_like(average),
        say("sum"): average * seen.size,
        say("divided_twice"): average / seen.size,
        say("own_divided"): None if mine is None else mine / seen.size,
        say("added"): None if mine is None else mine + average,
    }


def _parameters(seen: Seen, right: Right, step: int, rank: int) -> Remarks:
    values = zip(right.constructed, seen[rank]["parameters"][step], right.steps[step].parameters, strict=False)
    for name, found, value in values:
        wrong = say("other_parameters", step=step + 1, name=name, rank=rank)
        yield holds(wrong, found, value, same=same, is_wrong="", otherwise=say("changes_parameters"))


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@check_overlapped_ddp.judge_times
def _(seen: Seen) -> Remarks:
    training, layout = seen.facts, BucketCase(seen.case.inputs[0])
    order = training.order or range(len(training.widths) - 1)
    numbered = list(enumerate(itertools.product(range(training.steps), training.kinds), 1))
    for number, (step, kind) in numbered:
        for rank in seen.ranks:
            yield in_order(seen, number, f"in step {step + 1}", rank, () if kind == EVALUATION else order)
        passes = [pass_of(seen, number, f"in step {step + 1}", rank) for rank in seen.ranks if seen.size > 1]
        if kind == SHARED and passes:
            yield from _shared_pass(seen, layout, passes)
        for each in passes:
            if kind != SHARED:
                yield _silence(each, kind)
            elif (step, each.rank) not in training.unused:
                yield from _begins_in_time(training, step, layout, each, passes)
    for rank in seen.ranks:
        yield outside(seen, len(numbered), rank)


def _shared_pass(seen: Seen, layout: BucketCase, passes: Sequence[Pass]) -> Remarks:
    """What all ranks together send in a pass outside of no_sync."""
    state = seen.given("state")[0]
    buffers = [each for each in (state["mean"], state["count"], *state["more"]) if each is not None]
    yield _forward(passes, (seen.size - 1) * sum(buffer.nbytes for buffer in buffers))
    yield from (computes_only(each, GATE_SECONDS, say("hook_waits")) for each in passes)
    yield all_reduces(
        [each.later for each in passes],
        layout.nbytes,
        seen.facts.dtype,
        what="gradients",
        before=f"{passes[0].when}, ",
        mistakes=layout.mistakes,
        details=layout.lines,
        otherwise=say("one_flat_buffer"),
    )


def _silence(each: Pass, kind: str) -> Remark | None:
    if not each.messages:
        return None
    cause = say("copies_in_evaluation" if kind == EVALUATION else "silent_in_no_sync")
    messages = count(len(each.messages), "message")
    return say.remark("not_silent", when=each.when, rank=each.rank, messages=messages, kind=kind, cause=cause)


def _forward(passes: Sequence[Pass], expected: int) -> Remark | None:
    """Whether more than the buffers was sent before backward began."""
    found = sum(message.nbytes for each in passes for message in each.messages if message.start < each.backward)
    if found <= expected:
        return None
    return say.remark("sent_in_forward", when=passes[0].when, found=found, expected=expected)


def _begins_in_time(training: Training, step: int, layout: BucketCase, each: Pass, passes: Sequence[Pass]) -> Remarks:
    """Whether each all-reduce begins as soon as the bucket is complete and the all-reduce before it is done."""
    ring, layers = 2 * (len(passes) - 1), each.layers
    received = sorted((m for other in passes for m in other.later if m.dst == each.rank), key=lambda m: m.end)
    begun = done = each.backward
    for bucket, positions in enumerate(layout.buckets):
        complete = max([each.backward, *(layers[k] for position in positions for k in layout.layers[position])])
        part = slice(ring * bucket, ring * (bucket + 1))
        start = each.later[part][0].start
        if start > max(complete, done) + EPSILON:
            lines = [
                say("was_complete", after=ms(complete - each.backward), bucket=bucket),
                say("began", after=ms(begun - each.backward), bucket=bucket - 1),
                say("began", after=ms(start - each.backward), bucket=bucket),
                say("last_gradient", after=ms(each.over - each.backward)),
            ]
            if not bucket:
                del lines[1]
            cause = _cause_of_delay(training, step, bucket, complete < begun - EPSILON)
            what = {"when": each.when, "rank": each.rank, "bucket": bucket, "cause": cause}
            if start >= each.over - EPSILON:
                yield say.remark("began_at_the_end", *lines, **what)
            else:
                yield say.remark("began_too_late", *lines, **what, late=ms(start - complete))
        begun, done = start, max(message.end for message in (*each.later[part], *received[part]))


def _cause_of_delay(training: Training, step: int, bucket: int, had_to_wait: bool) -> str:
    if had_to_wait:
        return say("look_further", bucket=bucket, before=bucket - 1)
    if step:
        return say("stale")
    if training.passes > 1:
        return say("counted_in_no_sync")
    return say("bucket_before_in_time", before=bucket - 1) if bucket else say("begin_in_the_hook")


def hidden_share_of(seen: Seen) -> float:
    """How much of the communication each rank hides behind its backward passes: the least of all ranks, 0 … 1."""
    numbers = [
        n
        for n, (_, kind) in enumerate(itertools.product(range(seen.facts.steps), seen.facts.kinds), 1)
        if kind == SHARED
    ]
    return min(hidden_share([pass_of(seen, number, "", rank) for number in numbers]) for rank in seen.ranks)

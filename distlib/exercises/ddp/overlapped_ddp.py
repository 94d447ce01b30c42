"""Exercise 05: OverlappedDDP. What it computes, against a single process, and when it sends what, in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.helpers import all_reduce, broadcast
from distlib.checks.plays.gated import open_gate
from distlib.checks.remark import Remark
from distlib.checks.rules.flat import TOGETHER
from distlib.checks.rules.values import explain_average, holds
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count
from distlib.exercises.ddp.all_reduces import all_reduces
from distlib.exercises.ddp.cases import (
    ALONE,
    EVALUATION,
    SHARED,
    Right,
    Training,
    same,
    tensors_of,
    train_alone,
    training_inputs,
)  # fmt: skip
from distlib.exercises.ddp.helpers import assign_buckets
from distlib.exercises.ddp.moments import EPSILON, Pass, computes_only, hidden_share, in_order, ms, outside, pass_of
from distlib.exercises.ddp.training_plays import Model, train
from distlib.network import Cluster, Link

GATE_SECONDS, ALL_REDUCE_SECONDS = 0.01, 0.008  # the latter of an average bucket


# fmt: off
SUPPLIED_ERRORS: Signs = (
    ("has no 'all_reduce'", "it is a function, and comm its first argument: all_reduce(comm, tensor)."),
    ("has no 'broadcast'", "it is a function, and comm its first argument: broadcast(comm, tensor)."),
    ("comm as the first argument", "first comm, then the tensor: all_reduce(comm, tensor), broadcast(comm, tensor)."),
    *((sign, "torch.distributed is not set up on these ranks. The set-up cell has imported what to use: "
       "all_reduce(comm, tensor).") for sign in ("Default process group has not been initialized", "DistStoreError")),
)
IN_A_LIST = ("is a parameter looked up in a list, as in `p in bucket`? That compares numbers. A set or a dict finds the "
             "parameter itself.")
ORDERS = ("ranks began their all-reduces in different orders, or some rank left one out. Every rank calls broadcast, not rank 0 "
          "alone. On every rank all buckets begin, in the same order: one that is complete early waits for those before it, and "
          "finish begins the rest.")
ERRORS: Signs = (
    ("'NoneType' object has no attribute 'wait'", "all_reduce only returns a handle with async_op=True. Without it, it "
     "waits at once, in the middle of the backward pass."),
    ("forward returned NoneType", "is there a return in forward, before self.module(*inputs)?"),
    ("missing 1 required positional argument: 'uses_extra'", "forward hands on all its inputs: self.module(*inputs)."),
    ("forward() takes", "forward takes all inputs, and hands on all of them: def forward(self, *inputs), self.module(*inputs)."),
    *((sign, "a hook is called with its parameter, and every method with self: def hook(self, parameter).")
      for sign in ("positional argument but", "positional arguments but")),
    ("Module.__init__() call", "super().__init__() comes first in __init__: only then can a module hold another one."),
    ("doesn't require gradient", "leave out the parameters that need no gradient: they get no hook, and are in no bucket."),
    ("a leaf Variable that requires grad", "write to tensor.detach(), not to the parameter itself."),
    ("has no attribute 'no_sync'", "the class needs a method no_sync, for `with parallel.no_sync():`."),
    ("object is not an iterator", "no_sync needs a yield, where the lines inside `with parallel.no_sync():` run."),
    ("context manager", "no_sync is used as `with parallel.no_sync():`. Put @contextlib.contextmanager above it."),
    ("has no 'start'", "for all_reduce with async_op=True, use the name all_reduce as the set-up cell has imported it. A "
     "class of the library does not count."),
    *SUPPLIED_ERRORS, ("Boolean value of Tensor", IN_A_LIST), ("must match the size of tensor", IN_A_LIST), *TOGETHER,
    *((sign, ORDERS) for sign in ("receives into", "have to make the same collective calls", "waits to")),
)


def _errors(seen: Seen) -> Signs:
    if seen.facts.unused:
        none = "a parameter may have no gradient: its .grad is None. It counts as zeros."
        return (*ERRORS, ("NoneType", none), ("expected a non-empty list", none))
    return (*ERRORS, (
        "NoneType", "something is None here. A gradient, because its bucket begins before its hook was called in this step? What "
        "all_reduce returns without async_op=True?"))


@task("comm", "module", "bucket_bytes=250", "first_bucket_bytes=100", helpers=[all_reduce, broadcast, assign_buckets],
      errors=_errors)
def check_overlapped_ddp(draw: Draw, *, world_sizes: Sequence[int], trainings: Sequence[Training]) -> Iterator[Case]:
    """The class `function(comm, module, bucket_bytes=, first_bucket_bytes=)`: some steps of training with it.

    In virtual time, computing the gradients of a layer takes 10 ms, and the all-reduce of an average bucket 8 ms.
    """
    for training, ranks in ((training, n) for training in trainings for n in world_sizes):
        seed = draw.getrandbits(60)
        inputs = [training_inputs(training, rank, seed, GATE_SECONDS) for rank in range(ranks)]
        sizes = Layout(inputs[0]).nbytes
        bandwidth = max(1.0, 2 * (ranks - 1) / ranks * sum(sizes) / len(sizes) / ALL_REDUCE_SECONDS)
        yield Case(f"on {count(ranks, 'rank')}, {training.title}", train, inputs, training,
                   Cluster.flat(ranks, Link(latency=1e-5, bandwidth=bandwidth)), seed)


class Layout:
    """The buckets of a case: `buckets` holds positions among the parameters that are trained. `inputs`: of a rank."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        model = Model(inputs["state"], open_gate)
        self._limits: tuple[int, int] = inputs["options"]["bucket_bytes"], inputs["options"]["first_bucket_bytes"]
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.names = [name for name, _ in trained]
        self.layers = [[k for k, layer in enumerate(model.layers) if any(p is own for own in layer.parameters())]
                       for _, p in trained]
        self._sizes, self._elements = [p.nbytes for _, p in trained], [p.numel() for _, p in trained]
        self._with_frozen = [p.nbytes for p in model.parameters()]
        self._by_layer = [p.nbytes for part in model.modules() for p in part.parameters(recurse=False) if p.requires_grad]
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
            "that is one all-reduce of everything: it can only begin when the last gradient is there.": [[sum(sizes)]],
            "that is one all-reduce for each parameter. The parameters of a bucket share one.": [sizes, sizes[::-1]],
            "the first bucket has the same limit as the others. Hand first_bucket_bytes to assign_buckets, too.":
                [filled(sizes, limit, limit)],
            "bucket_bytes and first_bucket_bytes are exchanged. assign_buckets takes the sizes, then bucket_bytes, then "
            "first_bucket_bytes.": [filled(sizes, first, limit)],
            "the limits are in bytes: hand over the bytes of each parameter, parameter.nbytes. numel() counts elements.":
                [_together(sizes, assign_buckets(self._elements, limit, first))],
            "a weight that two layers share is one parameter, with one gradient: module.parameters() has it once.":
                [filled(self._by_layer, limit, first)],
            "parameters that need no gradient are sent along. Leave them out: parameter.requires_grad is False.":
                [filled(self._with_frozen, limit, first)],
            "these are the buckets in another order. Bucket 0, with the last parameters, begins first, also if another one "
            "is complete before it.": [list(order) for order in itertools.permutations(self.nbytes)],
            "there is no all-reduce. Were the hooks registered, and does finish begin what was not begun?": [[]],
        }


def _together(sizes: Sequence[int], buckets: Sequence[Sequence[int]]) -> list[int]:
    return [sum(sizes[position] for position in bucket) for bucket in buckets]


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@check_overlapped_ddp.judge
def _(seen: Seen) -> Remarks:
    right = train_alone(seen.case)
    brought = [tensors_of(Model(state, open_gate)) for state in seen.given("state")]
    for rank in seen.ranks:
        for (name, first), found in zip(right.constructed.items(), seen[rank]["constructed"], strict=True):
            everyone = torch.stack([tensors[name] for tensors in brought])
            yield holds(f"after construction, {name} of rank {rank}", found, first, {
                "this is still the rank's own. In __init__, broadcast every parameter and every buffer of the module that was "
                "handed over, not of a copy: frozen parameters, too. module.buffers() has the buffers.": everyone[rank],
                "these are sums over the ranks, or averages. All must have what rank 0 has: broadcast(comm, tensor).":
                    [everyone.sum(0), everyone.mean(0)],
            }, is_wrong=" is not what rank 0 came with.", same=same)
    for step in range(seen.facts.steps):
        for judge in (_buffers, _averages, _parameters):
            for rank in seen.ranks:
                yield from judge(seen, right, step, rank)


BUFFERS = {
    ALONE: (" is not its own any more.", "in no_sync nothing is sent: forward copies no buffers."),
    EVALUATION: (" is not its own any more.", "forward copies the buffers in training mode only, where self.training is "
                 "True, and before it calls the module, not after. In evaluation nothing is sent."),
    SHARED: (" is not rank 0's.", "every rank has moved its buffers by its own batch. Before each forward pass in training "
             "mode, but not in no_sync, broadcast rank 0's."),
}


def _buffers(seen: Seen, right: Right, step: int, rank: int) -> Remarks:
    kinds, found = seen.facts.kinds, seen[rank]["seen"]
    for number, kind in enumerate(kinds, step * len(kinds)):
        if len(found) <= number:
            yield Remark(f"in step {step + 1}, the module was not called.",
                         cause="forward calls the module that was handed over, not a copy of it.")
        is_wrong, cause = BUFFERS[kind]
        what = f"in step {step + 1}, {kind}{', ' * bool(kind)}the buffer running.mean with which rank {rank} computes"
        yield holds(what, found[number], right.seen[rank][number], is_wrong=is_wrong, same=same, otherwise=
                    cause + " Does no_sync end with its `with` block?" * (kind == SHARED and seen.facts.passes > 1))


def _averages(seen: Seen, right: Right, step: int, rank: int) -> Remarks:
    names, truth = list(right.constructed), right.steps[step]
    for number, (found, average) in enumerate(zip(seen[rank]["gradients"][step], truth.averages, strict=True)):
        own = [gradients[number] for gradients in truth.own]
        if average is None or (found is None and not any(gradient is not None for gradient in own)):
            continue
        yield holds(f"in step {step + 1}, after finish, the gradient of {names[number]} on rank {rank}", found, average,
                    partial(_mistakes, seen, right, step, rank, number), same=same, otherwise=
                    explain_average(found, average) or
                    (STALE if found is not None and step else
                    "is each gradient put back into the parameter that it came from, in the same order?" if found is not None
                    else "this rank has no gradient for it, others have. Afterwards every rank has the average."
                    if own[rank] is None else "it has no gradient any more. Or does the class work on a copy of the module?"))


def _mistakes(seen: Seen, right: Right, step: int, rank: int, number: int) -> dict[str, Any]:
    truth, before = right.steps[step], right.steps[step - 1] if step else None
    own, average = [gradients[number] for gradients in truth.own], truth.averages[number]
    assert average is not None
    mine, there = own[rank], sum(gradient is not None for gradient in own)
    passes = [[each[number] for each in gradients] for gradients in truth.earlier]
    earlier = [sum(each for each in gradients if each is not None) / seen.size for gradients in passes]
    return {
        STALE: [torch.zeros_like(average), before.averages[number], mine] if before else None,
        "these are the parameters, not their gradients: average parameter.grad.":
            before.parameters[number] if before else list(right.constructed.values())[number],
        "the gradients of the last pass are not in it. In no_sync the hooks do nothing: they begin no all-reduce, and do not "
        "note that a gradient is there. It will still change.": earlier,
        "this is the gradient of the last pass alone. In no_sync, gradients add up in parameter.grad on each rank. Leave "
        "parameter.grad alone there, and copy it as it is when the hook is called after that.":
            average - earlier[-1] if earlier else None,
        "this is still the rank's own gradient. finish must wait for the all-reduces, divide, and write the averages into "
        "parameter.grad.": mine,
        "these are zeros. Was parameter.grad there when it was copied? A hook of parameter.register_hook is called before, one "
        "of register_post_accumulate_grad_hook after it; and a bucket is copied when its last gradient is there.":
            torch.zeros_like(average),
        "this is the sum over the ranks. Divide it by comm.world_size.": average * seen.size,
        "it was divided by the number of ranks twice.": average / seen.size,
        "the rank's own gradient was divided, but the others' are not in it. Is what the all-reduce has made of the flat "
        "buffer written back?": None if mine is None else mine / seen.size,
        "the average was added to the gradient that was there. Put it in its place.":
            None if mine is None else mine + average,
        "a missing gradient counts as zeros: divide by comm.world_size, however many ranks have one.":
            average * seen.size / there if there else None,
    }


STALE = ("the first step was right. Does finish make everything ready for the next one: which gradients are there, what has "
         "begun, flat buffers, handles? And each parameter keeps the one hook that __init__ has registered.")


def _parameters(seen: Seen, right: Right, step: int, rank: int) -> Remarks:
    for name, found, value in zip(right.constructed, seen[rank]["parameters"][step], right.steps[step].parameters, strict=False):
        yield holds(f"after step {step + 1}, {name} on rank {rank}", found, value, same=same,
                    is_wrong=" is not what a single process has.", otherwise="the gradients are right, but the parameters "
                    "are not: does the class change them itself? That is for the optimizer.")


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@check_overlapped_ddp.judge_times
def _(seen: Seen) -> Remarks:
    training, layout = seen.facts, Layout(seen.case.inputs[0])
    order = training.order or range(len(training.widths) - 1)
    numbered = list(enumerate(itertools.product(range(training.steps), training.kinds), 1))
    for number, (step, kind) in numbered:
        for rank in seen.ranks:
            yield in_order(seen, number, f"in step {step + 1}", rank, () if kind == EVALUATION else order)
        passes = [pass_of(seen, number, f"in step {step + 1}", rank) for rank in seen.ranks if seen.size > 1]
        if kind == SHARED and passes:
            yield _forward(passes, (seen.size - 1) * seen.given("state")[0]["mean"].nbytes)
            yield from (computes_only(each, GATE_SECONDS, WAITING) for each in passes)
            yield all_reduces(
                [each.later for each in passes], layout.nbytes, training.dtype, what="gradients",
                before=f"{passes[0].when}, ", mistakes=layout.mistakes, details=layout.lines,
                otherwise="each bucket of assign_buckets has one flat buffer, of its gradients and nothing else.")
        for each in passes:
            if kind != SHARED:
                yield _silence(each, kind)
            elif (step, each.rank) not in training.unused:
                yield from _begins_in_time(training, step, layout, each, passes)
    for rank in seen.ranks:
        yield outside(seen, len(numbered), rank)


WAITING = ("a hook must not wait for its all-reduce: all_reduce(comm, bucket, async_op=True) returns at once with a handle. "
           "Keep the handles; finish waits for them.")


def _silence(each: Pass, kind: str) -> Remark | None:
    sent = f"{each.when}, rank {each.rank} sent {count(len(each.messages), 'message')} {kind}; expected none."
    return Remark(sent, cause=BUFFERS[EVALUATION][1] if kind == EVALUATION else "inside no_sync the hooks begin no "
                  "all-reduce, and forward copies no buffers. Gradients just add up.") if each.messages else None


def _forward(passes: Sequence[Pass], expected: int) -> Remark | None:
    """Whether more than the buffers was sent before backward began."""
    found = sum(message.nbytes for each in passes for message in each.messages if message.start < each.backward)
    sent = f"{passes[0].when}, {found:,} bytes were sent in the forward pass; expected {expected:,}, for the buffers."
    return Remark(sent, cause="parameters are copied once, by the constructor. Equal parameters that take equal steps stay "
                  "equal.") if found > expected else None


def _begins_in_time(training: Training, step: int, layout: Layout, each: Pass, passes: Sequence[Pass]) -> Remarks:
    """Whether each all-reduce begins as soon as the bucket is complete and the all-reduce before it is done."""
    ring, layers = 2 * (len(passes) - 1), each.layers
    received = sorted((m for other in passes for m in other.later if m.dst == each.rank), key=lambda m: m.end)
    begun = done = each.backward
    for bucket, positions in enumerate(layout.buckets):
        complete = max([each.backward, *(layers[k] for position in positions for k in layout.layers[position])])
        part = slice(ring * bucket, ring * (bucket + 1))
        start = each.later[part][0].start
        if start > max(complete, done) + EPSILON:
            where = "when the backward pass was over" if start >= each.over - EPSILON else f"{ms(start - complete)} too late"
            yield Remark(f"{each.when}, rank {each.rank} began the all-reduce of bucket {bucket} {where}.", (
                f"{ms(complete - each.backward)} after the backward pass began, bucket {bucket} was complete;",
                *[f"{ms(begun - each.backward)} after it, the all-reduce of bucket {bucket - 1} began;"] * (bucket > 0),
                f"{ms(start - each.backward)} after it, the all-reduce of bucket {bucket} began;",
                f"{ms(each.over - each.backward)} after it, the last gradient was there.",
            ), _cause_of_delay(training, step, bucket, complete < begun - EPSILON))
        begun, done = start, max(message.end for message in (*each.later[part], *received[part]))


OWN_PARAMETER = "Does each hook note its own parameter? (A lambda in a loop uses the loop's last value.)"


def _cause_of_delay(training: Training, step: int, bucket: int, had_to_wait: bool) -> str:
    if had_to_wait:
        return (f"bucket {bucket} was complete before bucket {bucket - 1} had begun. So the hook that begins bucket "
                f"{bucket - 1} must look further, and begin bucket {bucket}, too.")
    if step:
        return STALE
    if training.passes > 1:
        return ("do the hooks count gradients in no_sync, too? There they do nothing; the pass after it counts from the "
                "beginning.")
    if bucket:
        return f"bucket {bucket - 1} began in time. Does a hook begin whichever bucket is complete? {OWN_PARAMETER}"
    return ("begin it in the hook of the parameter that makes the bucket complete, while backward goes on: "
            f"parameter.register_post_accumulate_grad_hook, and all_reduce(comm, bucket, async_op=True). {OWN_PARAMETER}")


def hidden_share_of(seen: Seen) -> float:
    """How much of the communication each rank hides behind its backward passes: the least of all ranks, 0 … 1."""
    numbers = [n for n, (_, kind) in enumerate(itertools.product(range(seen.facts.steps), seen.facts.kinds), 1)
               if kind == SHARED]
    return min(hidden_share([pass_of(seen, number, "", rank) for number in numbers]) for rank in seen.ranks)
# fmt: on

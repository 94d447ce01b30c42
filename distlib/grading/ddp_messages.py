"""When a student's OverlappedDDP has sent what: one all-reduce per bucket, each as soon as its gradients are there.

    computing        BACKWARD ── 10 ms ── gate 2 ── 10 ms ── gate 1 ── 10 ms ── gate 0    finish    END
    communication                            ╰ bucket 0 ─ 8 ms ╯ ╰ bucket 1 ─ 8 ms ╯ ╰ bucket 2 ─ 8 ms ╯

Moments are those of virtual time, which computing passes only at gates. So a rank that waits inside backward for its
messages is seen by its gates: there is more time between two of them than computing takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from distlib.checks.plays.training import BACKWARD, BEGIN, END, first_gate
from distlib.checks.remark import Remark
from distlib.grading.case import count
from distlib.grading.ddp_case import GATE_SECONDS, DdpCase
from distlib.grading.scene import Scene
from distlib.trace import Message

_EPSILON = 1e-7  # seconds


@dataclass(frozen=True)
class _Pass:
    """One forward and backward pass of a rank.

    Attributes:
        case: what is played.
        step: counting from 1.
        rank: whose.
        backward: the moment at which backward began.
        gates: the moments at which gates were passed, by layer; those before all layers that are trained have none.
        messages: what the rank sent in the whole pass, finish included.
    """

    case: DdpCase
    step: int
    rank: int
    backward: float
    gates: dict[int, float]
    messages: Sequence[Message]

    @property
    def reduces(self) -> list[Message]:
        """The messages since backward began; those before are about buffers."""
        return [message for message in self.messages if message.start >= self.backward]

    def ready(self, position: int) -> float:
        """The moment at which the gradient of a parameter is there."""
        layer = self.case.layer_of(position)
        return self.backward if layer is None else self.gates[layer]


def judge_messages(case: DdpCase, scene: Scene) -> Remark | None:
    """The remark about the first message that is missing, too much, or too late; None if all is right."""
    for number in range(1, case.training.steps * case.training.passes + 1):
        seen = [_pass_of(case, scene, rank, number) for rank in range(case.world_size)]
        is_last = number % case.training.passes == 0
        for each in seen:
            remark = _judge_synchronized(each, seen) if is_last else _silence(each)
            if remark is not None:
                return remark
    return None


def hidden_share(scene: Scene) -> float:
    """Of the seconds for which gradients of a rank were under way, the share in which it computed: 0 … 1.

    The least of all ranks; over all passes with a backward pass of more than one layer.
    """
    return min(_hidden_share_of(scene, rank) for rank in range(scene.trace.world_size))


def _hidden_share_of(scene: Scene, rank: int) -> float:
    under_way = hidden = 0.0
    passes = itertools.groupby(scene.gates[rank], key=lambda gate: gate[0] // first_gate(1))
    for number, gates in passes:
        moments = {k - first_gate(number): moment for k, moment in gates}
        if BACKWARD not in moments:
            continue
        over = max(moment for k, moment in moments.items() if k not in (BEGIN, END))
        for message in scene.trace:
            if message.src == rank and moments[BACKWARD] <= message.start < moments[END]:
                under_way += message.end - message.start
                hidden += max(0.0, min(message.end, over) - message.start)
    return hidden / under_way if under_way else 1.0


def _pass_of(case: DdpCase, scene: Scene, rank: int, number: int) -> _Pass:
    moments = {k - first_gate(number): moment for k, moment in scene.gates[rank] if k // first_gate(1) == number}
    begin, backward, end = (moments.pop(mark) for mark in (BEGIN, BACKWARD, END))
    messages = [message for message in scene.trace if message.src == rank and begin <= message.start < end]
    return _Pass(case, 1 + (number - 1) // case.training.passes, rank, backward, moments, messages)


def _silence(seen: _Pass) -> Remark | None:
    if not seen.messages:
        return None
    return Remark(
        f"in step {seen.step}, rank {seen.rank} sent {count(len(seen.messages), 'message')} in no_sync; expected none.",
        cause="inside no_sync the hooks begin no all-reduce, and forward copies no buffers. Gradients just add up.",
    )


def _judge_synchronized(seen: _Pass, everybody: Sequence[_Pass]) -> Remark | None:
    if seen.case.world_size == 1:
        return None
    return _forward(seen, everybody) or _waiting(seen) or _numbers(seen) or _sizes(seen) or _moments(seen, everybody)


def _forward(seen: _Pass, everybody: Sequence[_Pass]) -> Remark | None:
    """Whether more than the buffers was sent before backward began."""
    found = sum(message.nbytes for each in everybody for message in each.messages if message.start < each.backward)
    expected = (seen.case.world_size - 1) * seen.case.right.constructed[-1].nbytes
    if found <= expected:
        return None
    return Remark(
        f"in step {seen.step}, {found:,} bytes were sent in the forward pass; expected {expected:,}, for the buffers.",
        cause="parameters are copied once, by the constructor. Equal parameters that take equal steps stay equal.",
    )


def _waiting(seen: _Pass) -> Remark | None:
    """Whether backward itself has waited for messages."""
    passed = sorted(seen.gates.items(), reverse=True)
    for (layer, before), (earlier, after) in itertools.pairwise(passed):
        if after - before > GATE_SECONDS + _EPSILON:
            return Remark(
                f"in step {seen.step}, rank {seen.rank} waits inside the backward pass: from the gradients of layer "
                f"{layer} to those of layer {earlier} it took {_ms(after - before)}. Computing takes "
                f"{_ms(GATE_SECONDS)}.",
                cause="a hook must not wait for its all-reduce: all_reduce(comm, bucket, async_op=True) returns at "
                "once with a handle. Keep the handles; finish waits for them.",
            )
    return None


def _numbers(seen: _Pass) -> Remark | None:
    """Whether there is one all-reduce for each bucket."""
    found, ring, buckets = len(seen.reduces), _ring(seen.case), len(seen.case.buckets)
    if found == ring * buckets:
        return None
    return Remark(
        f"in step {seen.step}, rank {seen.rank} sent {count(found, 'message')} for its gradients; expected "
        f"{ring * buckets}: {count(buckets, 'bucket')}, and {ring} messages for each one's all-reduce.",
        _layout(seen.case),
        _cause_of_number(seen, found / ring),
    )


def _cause_of_number(seen: _Pass, all_reduces: float) -> str:
    buckets = len(seen.case.buckets)
    if not all_reduces:
        return "nothing was sent. Were the hooks registered, and does finish begin what was not begun?"
    if all_reduces == 1 < buckets:
        return "that is one all-reduce of everything: it can only begin when the last gradient is there."
    if all_reduces == len(seen.case.sizes) != buckets:
        return "that is one all-reduce for each parameter. The parameters of a bucket share one."
    return "each bucket has one flat buffer, and one all_reduce with the default algorithm."


def _sizes(seen: _Pass) -> Remark | None:
    """Whether the buckets go in their order, each with its gradients and nothing else."""
    case, ring = seen.case, _ring(seen.case)
    for bucket in range(len(case.buckets)):
        found = sum(message.nbytes for message in _of_bucket(seen.reduces, bucket, ring))
        expected = ring * case.bucket_nbytes(bucket) / case.world_size
        if abs(found - expected) > ring * case.training.dtype.itemsize:  # chunks differ by one element
            return Remark(
                f"in step {seen.step}, rank {seen.rank} sent {found:,} bytes in its all-reduce {bucket}; expected "
                f"about {expected:,.0f}, since bucket {bucket} has {case.bucket_nbytes(bucket):,} bytes.",
                _layout(case),
                "the buckets are those of assign_buckets, for the parameters that need a gradient, in the order of "
                "module.parameters(). They begin in their order: the last layers first.",
            )
    return None


def _moments(seen: _Pass, everybody: Sequence[_Pass]) -> Remark | None:
    """Whether each all-reduce begins as soon as the bucket is complete and the all-reduce before it is done."""
    case, ring = seen.case, _ring(seen.case)
    if (seen.step - 1, seen.rank) in case.training.unused:
        return None
    received = [message for other in everybody for message in other.reduces if message.dst == seen.rank]
    received.sort(key=lambda message: message.end)
    through = seen.backward
    for bucket, positions in enumerate(case.buckets):
        complete = max(map(seen.ready, positions))
        sent = _of_bucket(seen.reduces, bucket, ring)
        if sent[0].start > max(complete, through) + _EPSILON:
            return _too_late(seen, bucket, complete, sent[0].start)
        through = max(message.end for message in (*sent, *_of_bucket(received, bucket, ring)))
    return None


def _too_late(seen: _Pass, bucket: int, complete: float, start: float) -> Remark:
    last = max(seen.gates.values())
    where = "when the backward pass was over" if start >= last - _EPSILON else f"{_ms(start - complete)} too late"
    return Remark(
        f"in step {seen.step}, rank {seen.rank} began the all-reduce of bucket {bucket} {where}.",
        (
            f"{_ms(complete - seen.backward)} after the backward pass began, bucket {bucket} was complete;",
            f"{_ms(start - seen.backward)} after it, the all-reduce began;",
            f"{_ms(last - seen.backward)} after it, the last gradient was there.",
        ),
        "begin it in the hook of the parameter that makes the bucket complete, while backward goes on: "
        "parameter.register_post_accumulate_grad_hook, and all_reduce(comm, bucket, async_op=True).",
    )


def _of_bucket(messages: Sequence[Message], bucket: int, ring: int) -> Sequence[Message]:
    return messages[ring * bucket : ring * (bucket + 1)]


def _ring(case: DdpCase) -> int:
    """The messages that each rank sends in a ring all-reduce."""
    return 2 * (case.world_size - 1)


def _layout(case: DdpCase) -> tuple[str, ...]:
    lines = []
    for bucket, positions in enumerate(case.buckets):
        names = ", ".join(case.names[case.trained[position]] for position in positions)
        lines.append(f"bucket {bucket}: {case.bucket_nbytes(bucket):,} bytes, {names}")
    return tuple(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"

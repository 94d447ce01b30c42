"""What torch.profiler has seen of a training step, as the spans that `draw.step_timeline` draws.

The profiler's file (`export_chrome_trace`, the format of chrome://tracing) has an event for each operation: on which
thread of the processor, or in which stream of a GPU, from when to when. Here only this is kept:

    a CPU   computing: operations of the thread that ran the step     communication: "gloo:all_reduce" on gloo's threads
    a GPU   computing: kernels                                        communication: kernels that NCCL has named

    with profiled_step() as profile:
        with profile.part("forward"):
            loss = …
        with profile.part("backward"):
            loss.backward()
    profile.times                     a StepTimes

A kernel belongs to the part in which a thread has put it into the queue. It runs later, and in the backward pass that
is another thread, autograd's own for the GPU.

Operations that follow each other closely are one span. What the processor does between two operations is no computing:
on a CPU it shows as waiting. That is Python, and the time in which the thread that computes hands a bucket to gloo.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from distlib.training.ddp.step_times import Span, StepTimes

_STEP = "distlib step"
_PARTS = ("forward", "backward")
_NO_COMPUTING = ("c10d::", "autograd::engine::")  # to begin a collective, and the frame in which that happens
_CLOSE = 0.002  # of the step: a shorter gap between two operations is not shown

Event = Mapping[str, Any]


class ProfiledStep:
    """One step under torch.profiler.

    Attributes:
        times: what was seen, when the block is over.
        events: how many events the profiler has written.
    """

    def __init__(self) -> None:
        self.times = StepTimes(0.0, 0.0, [])
        self.events = 0

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Everything in the block belongs to this part of the step: "forward" or "backward"."""
        if name not in _PARTS:
            raise ValueError(f"expected the part 'forward' or 'backward', got {name!r}")
        with record_function(name):
            yield


@contextlib.contextmanager
def profiled_step() -> Iterator[ProfiledStep]:
    """Profile the block, the processor and the GPU that this process uses. The result is there when the block is over.

    The first time on a GPU includes seconds in which the profiler starts there.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages
    on_gpu = torch.cuda.is_initialized()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    step = ProfiledStep()
    with profile(activities=activities, acc_events=True) as seen, record_function(_STEP):
        yield step
        if on_gpu:
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    step.events, step.times = len(events), step_times(events)


def step_times(events: list[Event]) -> StepTimes:
    """The spans of a step, from the profiler's events, in seconds since the profiler began.

    Raises:
        ValueError: the events are not of `profiled_step`.
    """
    timed = [event for event in events if event.get("ph") == "X"]
    whole = next((event for event in timed if event["name"] == _STEP and event.get("cat") == "user_annotation"), None)
    if whole is None:
        raise ValueError("expected the events of a step profiled with profiled_step(), got none of these")
    kernels = [event for event in timed if event.get("cat") == "kernel"]
    parts = {event["name"]: event for event in timed if event.get("cat") == "user_annotation"}
    if kernels:
        communication = [event for event in kernels if "nccl" in event["name"].lower()]
        computing = [event for event in kernels if event not in communication]
    else:
        communication = [event for event in timed if event["name"].startswith("gloo:")]
        computing = [event for event in timed if event.get("cat") == "cpu_op" and event["tid"] == whole["tid"]]
        computing = [event for event in computing if not event["name"].startswith(_NO_COMPUTING)]
    close = _CLOSE * whole["dur"]
    begun = _launches(timed)
    spans = [*_communication_spans(communication)]
    for name in _PARTS:
        if name in parts:
            start, end = parts[name]["ts"], _end(parts[name])
            inside = [event for event in computing if start <= begun.get(_correlation(event), float(event["ts"])) < end]
            spans += [Span(name, "", first / 1e6, last / 1e6) for first, last in _merged(inside, close)]
    end = max([_end(whole), *(_end(event) for event in kernels)])
    return StepTimes(whole["ts"] / 1e6, end / 1e6, sorted(spans, key=lambda span: span.end))


def _launches(events: list[Event]) -> dict[int, float]:
    """When each kernel was put into the queue, by the number that the call and its kernel have in common."""
    calls = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    return {_correlation(event): float(event["ts"]) for event in calls}


def _correlation(event: Event) -> int:
    return int(event.get("args", {}).get("correlation", -1))


def _communication_spans(events: list[Event]) -> Iterator[Span]:
    for number, event in enumerate(sorted(events, key=lambda event: float(event["ts"]))):
        yield Span("communication", f"bucket {number}", event["ts"] / 1e6, _end(event) / 1e6)


def _merged(events: list[Event], close: float) -> Iterator[tuple[float, float]]:
    """(start, end) of stretches without a gap; operations that are parts of another one lie within it."""
    stretch: tuple[float, float] | None = None
    for event in sorted(events, key=lambda event: float(event["ts"])):
        if stretch is None or event["ts"] > stretch[1] + close:
            if stretch is not None:
                yield stretch
            stretch = event["ts"], _end(event)
        else:
            stretch = stretch[0], max(stretch[1], _end(event))
    if stretch is not None:
        yield stretch


def _end(event: Event) -> float:
    return float(event["ts"] + event["dur"])

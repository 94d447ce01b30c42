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
    """Profile the block, the processor and a GPU if there is one. The result is there when the block is over."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    step = ProfiledStep()
    with profile(activities=activities) as seen, record_function(_STEP):
        yield step
        if torch.cuda.is_available():
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
    parts = _parts(timed, on_gpu=bool(kernels))
    if kernels:
        communication = [event for event in kernels if "nccl" in event["name"].lower()]
        computing = [event for event in kernels if event not in communication]
    else:
        communication = [event for event in timed if event["name"].startswith("gloo:")]
        computing = [event for event in timed if event.get("cat") == "cpu_op" and event["tid"] == whole["tid"]]
        computing = [event for event in computing if not event["name"].startswith(_NO_COMPUTING)]
    close = _CLOSE * whole["dur"]
    spans = [*_computing_spans(computing, parts, close), *_communication_spans(communication)]
    end = max([_end(whole), *(_end(event) for event in kernels)])
    return StepTimes(whole["ts"] / 1e6, end / 1e6, sorted(spans, key=lambda span: span.end))


def _parts(events: list[Event], on_gpu: bool) -> dict[str, Event]:
    """The parts of the step; on a GPU as its kernels ran, later than the calls that put them into the queue."""
    category = "gpu_user_annotation" if on_gpu else "user_annotation"
    return {event["name"]: event for event in events if event.get("cat") == category and event["name"] in _PARTS}


def _computing_spans(events: list[Event], parts: Mapping[str, Event], close: float) -> Iterator[Span]:
    for name, part in parts.items():
        inside = [event for event in events if part["ts"] <= event["ts"] < _end(part)]
        for start, end in _merged(inside, close):
            yield Span(name, "", start / 1e6, end / 1e6)


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

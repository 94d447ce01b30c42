"""What a profiler's events become: of made-up events, on a CPU and on a GPU, and of a real step."""

from __future__ import annotations

from typing import Any

import pytest

from distlib import World
from distlib.gpus.measurements import profile_ddp
from distlib.gpus.profiler_trace import profiled_step, step_times

MAIN, GLOO = 7, 8  # threads
COMPUTE, NCCL = 20, 21  # streams


def event(name: str, category: str, start: float, end: float, tid: int = MAIN) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": category, "ts": start * 1e6, "dur": (end - start) * 1e6, "tid": tid}


ON_BOTH = [
    event("distlib step", "user_annotation", 1, 11),
    event("forward", "user_annotation", 1, 4),
    event("backward", "user_annotation", 4, 11),
    {"ph": "M", "name": "process_name"},
]


def spans(events: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    return [(span.kind, span.start, span.end) for span in step_times(events).spans]


def test_operations_that_follow_each_other_are_one_span_and_parts_lie_within() -> None:
    operations = [
        event("aten::linear", "cpu_op", 1, 2),
        event("aten::addmm", "cpu_op", 1.2, 1.9),
        event("aten::relu", "cpu_op", 2.01, 3),
        event("autograd::engine::evaluate_function: AddmmBackward0", "cpu_op", 5, 7.9),
        event("AddmmBackward0", "cpu_op", 5, 7),
        event("c10d::allreduce_", "cpu_op", 7, 7.8),
        event("gloo:all_reduce", "user_annotation", 7.2, 10, GLOO),
        event("aten::copy_", "cpu_op", 7.5, 8, GLOO),
        event("AddmmBackward0", "cpu_op", 8, 9),
    ]
    assert spans([*ON_BOTH, *operations]) == [
        ("forward", 1, 3),
        ("backward", 5, 7),
        ("backward", 8, 9),
        ("communication", 7.2, 10),
    ]
    assert step_times([*ON_BOTH, *operations]).hidden == pytest.approx(1)


def test_on_a_gpu_kernels_count_and_the_step_ends_with_the_last() -> None:
    operations = [
        event("aten::linear", "cpu_op", 1, 1.1),
        event("forward", "gpu_user_annotation", 2, 5, COMPUTE),
        event("backward", "gpu_user_annotation", 5, 13, COMPUTE),
        event("gemm", "kernel", 2, 5, COMPUTE),
        event("gemm", "kernel", 6, 9, COMPUTE),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", 8, 13, NCCL),
    ]
    assert spans([*ON_BOTH, *operations]) == [("forward", 2, 5), ("backward", 6, 9), ("communication", 8, 13)]
    times = step_times([*ON_BOTH, *operations])
    assert (times.start, times.end, times.hidden) == (1, 13, 1)


def test_an_operation_at_the_border_belongs_to_the_part_in_which_it_begins() -> None:
    border = [event("aten::sum", "cpu_op", 3, 3.999), event("aten::ones_like", "cpu_op", 4, 4.01)]
    assert spans([*ON_BOTH, *border]) == [("forward", 3, 3.999), ("backward", 4, 4.01)]


def test_other_events_are_refused() -> None:
    with pytest.raises(ValueError, match="profiled_step"):
        step_times(ON_BOTH[1:])


def test_another_part_is_refused() -> None:
    with profiled_step() as step, pytest.raises(ValueError, match="'forward' or 'backward', got 'update'"):
        with step.part("update"):
            pass


def test_a_real_step_of_ddp_has_all_three_kinds_in_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    """8 layers of 1 MiB in buckets of 2: four all-reduces and one for the first bucket, none before backward begins."""
    with World(2) as world:
        for times in world.run(profile_ddp, batch=64):
            assert {span.kind for span in times.spans} == {"forward", "backward", "communication"}
            assert times.of("forward")[-1].end <= times.of("backward")[0].start < times.of("communication")[0].start
            assert len(times.of("communication")) >= 4
            assert times.start <= times.of("forward")[0].start
            assert 0 <= times.hidden <= times.communicating
    assert capfd.readouterr().err == ""

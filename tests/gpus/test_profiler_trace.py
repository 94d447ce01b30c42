"""What a profiler's events become: of made-up events, on a CPU and on a GPU, and of a real step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from distlib import Communicator, World
from distlib.gpus import profiler_trace
from distlib.gpus.measurements import profile_ddp
from distlib.gpus.profiler_trace import profiled_step, step_times
from distlib.training import StepTimes

MAIN, GLOO, AUTOGRAD = 7, 8, 9  # threads
COMPUTE, NCCL = 20, 21  # streams


def event(
    name: str, category: str, start: float, end: float, tid: int = MAIN, correlation: int | None = None
) -> dict[str, Any]:
    args = {} if correlation is None else {"args": {"correlation": correlation}}
    return {"ph": "X", "name": name, "cat": category, "ts": start * 1e6, "dur": (end - start) * 1e6, "tid": tid, **args}


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


def test_on_a_gpu_kernels_count_by_when_they_were_launched_and_the_step_ends_with_the_last() -> None:
    operations = [
        event("aten::linear", "cpu_op", 1, 1.1),
        event("cudaLaunchKernel", "cuda_runtime", 1, 1.1, correlation=1),
        event("forward", "gpu_user_annotation", 2, 6, COMPUTE),  # and none of backward, whose kernels autograd launches
        event("gemm", "kernel", 2, 6, COMPUTE, correlation=1),
        event("cudaLaunchKernelExC", "cuda_driver", 4.5, 4.6, AUTOGRAD, correlation=2),
        event("gemm", "kernel", 6.5, 9, COMPUTE, correlation=2),
        event("cudaLaunchKernel", "cuda_runtime", 5, 5.1, AUTOGRAD, correlation=3),
        event("gemm", "kernel", 11.5, 12, COMPUTE, correlation=3),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", 8, 13, NCCL, correlation=4),
    ]
    found = [("forward", 2, 6), ("backward", 6.5, 9), ("backward", 11.5, 12), ("communication", 8, 13)]
    assert spans([*ON_BOTH, *operations]) == found
    times = step_times([*ON_BOTH, *operations])
    assert (times.start, times.end, times.hidden) == (1, 13, 1.5)


@pytest.mark.gpu(1)
def test_a_real_step_on_a_gpu_computes_twice_as_long_backward() -> None:
    layers = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(6))).cuda()
    batch = torch.ones(16384, 2048, device="cuda")
    for _ in range(2):
        with profiled_step() as step:
            with step.part("forward"):
                loss = layers(batch).square().mean()
            with step.part("backward"):
                loss.backward()
    forward, backward = (sum(span.end - span.start for span in step.times.of(part)) for part in ("forward", "backward"))
    assert 1.2 < backward / forward < 3
    assert 0.5 < step.times.computing / step.times.seconds <= 1


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


def test_a_step_of_ddp_has_no_copies_from_the_buckets_which_would_hide_its_last_all_reduce() -> None:
    with World(2) as world:
        for names in world.run(names_of_events):
            assert "gloo:all_reduce" in names
            assert not any("copy_bucket_to_grad" in name for name in names)


def names_of_events(comm: Communicator) -> set[str]:
    seen: list[Any] = []

    def noting(events: list[Any]) -> StepTimes:
        seen[:] = events
        return step_times(events)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiler_trace, "step_times", noting)
        profile_ddp(comm, batch=8)
    return {event["name"] for event in seen}

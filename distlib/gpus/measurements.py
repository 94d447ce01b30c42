"""What only a GPU can show. Each measurement returns rows for a table; it runs on a CPU as well, to be tested there.

queue            how long a call takes to return, and how long its work takes
full_queue       how many kernels wait in the queue when a call has to wait, too
first_calls      the first call against the later ones
item             a training loop that reads its loss after each step, and one that does not
copies           from pageable and from page-locked memory, blocking and not
formats          multiplications in float32, TF32 and bfloat16
kernels          for what share of a training step the card computes, as torch.profiler sees it
memory           what a training step allocates, and what the allocator keeps
all_reduces      torch's all-reduce over NCCL, as nccl-tests counts            2 GPUs
overlap          a step of DDP, as torch.profiler sees it                       2 GPUs
two_gpus         a training on one GPU and on two                               2 GPUs
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from distlib.communicator import Communicator
from distlib.gpus.bus_bandwidth import SIZES, fit_ring, sweep_all_reduce
from distlib.gpus.call_times import time_call, wait_for
from distlib.gpus.profiler_trace import profiled_step
from distlib.torch_backend.enter import torch_distributed
from distlib.training.ddp.step_times import StepTimes
from distlib.worlds.real.world import World

Row = Mapping[str, str | float]
"""Column to value. Columns name their unit."""


@dataclass(frozen=True)
class Measurement:
    """A measurement.

    Attributes:
        rows: makes them, on a device; `small`: only to see that it runs.
        gpus: how many it needs.
    """

    rows: Callable[[torch.device, bool], list[Row]]
    gpus: int = 1


def _queue(device: torch.device, small: bool) -> list[Row]:
    rows: list[Row] = []
    for size in (8, 16) if small else (64, 1024, 8192):
        matrix = torch.ones(size, size, device=device)
        times = time_call(lambda matrix=matrix: matrix @ matrix, device)  # type: ignore[misc]
        row: Row = {"matrix": size, "returned µs": _micro(times.returned), "done µs": _micro(times.done)}
        rows.append({**row, "TFLOP/s": _teraflops(size, times.done)})
    return rows


def _full_queue(device: torch.device, small: bool) -> list[Row]:
    """Behind a second of work, calls of a small kernel are timed one by one until one takes a hundredth of a second."""
    size, ahead, most = (16, 2, 10) if small else (8192, 50, 20_000)
    matrix, number = torch.ones(size, size, device=device), torch.ones(1, device=device)
    matrix @ matrix, number.add_(1)
    wait_for(device)
    for _ in range(ahead):
        matrix @ matrix
    took, calls = 0.0, 0
    while took < 0.01 and calls < most:
        start = time.perf_counter()
        number.add_(1)
        took, calls = time.perf_counter() - start, calls + 1
    wait_for(device)
    return [{"kernels that wait": ahead + calls - 1, "then a call takes ms": 1e3 * took}]


def _first_calls(device: torch.device, small: bool) -> list[Row]:
    layer = nn.Conv2d(3, 16, 3).to(device)
    images = torch.ones(2 if small else 64, 3, 64, 64, device=device)
    rows: list[Row] = []
    for call in ("first", "second", "third"):
        wait_for(device)
        start = time.perf_counter()
        layer(images)
        wait_for(device)
        rows.append({"call": call, "ms": 1e3 * (time.perf_counter() - start)})
    return [*rows, {"call": "later", "ms": 1e3 * time_call(lambda: layer(images), device).done}]


def _item(device: torch.device, small: bool) -> list[Row]:
    rows: list[Row] = []
    steps = 4 if small else 100
    for batch in (4, 8) if small else (256, 65_536):
        for prepare in (0.0, 4e-3):
            at_end, each = (_training_seconds(device, batch, steps, every, prepare) for every in (steps, 1))
            row: Row = {"samples": batch, "the processor prepares ms": 1e3 * prepare}
            rows.append({**row, "ms per step": 1e3 * at_end, "loss read in each, ms per step": 1e3 * each})
    return rows


def _training_seconds(device: torch.device, batch: int, steps: int, every: int, prepare: float) -> float:
    """Seconds per step. `prepare`: for how long the processor does something else in each step."""
    model = _model(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.ones(batch, 512, device=device)

    def step(number: int) -> None:
        busy_until = time.perf_counter() + prepare
        while time.perf_counter() < busy_until:
            pass
        loss = _step(model, optimizer, images)
        if number % every == every - 1:
            loss.item()

    for number in range(3):
        step(number)
    wait_for(device)
    start = time.perf_counter()
    for number in range(steps):
        step(number)
    wait_for(device)
    return (time.perf_counter() - start) / steps


def _copies(device: torch.device, small: bool) -> list[Row]:
    on_gpu = device.type == "cuda"
    pageable = torch.ones(2 if small else 256, 3, 224, 224)
    rows: list[Row] = []
    for memory, batch in {"pageable": pageable, "page-locked": pageable.pin_memory() if on_gpu else pageable}.items():
        for non_blocking in (False, True):
            times = time_call(
                lambda batch=batch, non_blocking=non_blocking: batch.to(  # type: ignore[misc]
                    device, non_blocking=non_blocking, copy=True
                ),
                device,
            )
            row: Row = {"memory": memory, "non_blocking": str(non_blocking), "returned ms": 1e3 * times.returned}
            rows.append({**row, "there ms": 1e3 * times.done, "GB/s": batch.nbytes / times.done / 1e9})
    return rows


def _formats(device: torch.device, small: bool) -> list[Row]:
    size = 32 if small else 8192
    rows: list[Row] = []
    for words, dtype, precision in (
        ("float32", torch.float32, "highest"),
        ("TF32", torch.float32, "high"),
        ("bfloat16", torch.bfloat16, "highest"),
    ):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            generator = torch.Generator().manual_seed(0)
            one, other = (torch.randn(size, size, generator=generator).to(device, dtype) for _ in range(2))
            seconds = time_call(lambda one=one, other=other: one @ other, device).done  # type: ignore[misc]
            exact = one[:8].double() @ other.double()
            error = ((one @ other)[:8].double() - exact).abs().max() / exact.abs().max()
        finally:
            torch.set_float32_matmul_precision(before)
        row: Row = {"numbers": words, "ms": 1e3 * seconds, "TFLOP/s": _teraflops(size, seconds)}
        rows.append({**row, "largest error": float(error)})
    return rows


def _kernels(device: torch.device, small: bool) -> list[Row]:
    rows: list[Row] = []
    model = _model(device)
    for batch in (4, 8) if small else (256, 65_536):
        images = torch.ones(batch, 512, device=device)
        _profile_pass(model, images)
        times = _profile_pass(model, images)
        row: Row = {"samples": batch, "step ms": 1e3 * times.seconds, "computing ms": 1e3 * times.computing}
        rows.append({**row, "of the step %": 100 * times.computing / times.seconds})
    return rows


def _memory(device: torch.device, small: bool) -> list[Row]:
    if device.type != "cuda":
        return []
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    rows: list[Row] = []

    def note(moment: str) -> None:
        torch.cuda.synchronize(device)
        megabytes = {
            "allocated MB": torch.cuda.memory_allocated(device) / 1e6,
            "peak MB": torch.cuda.max_memory_allocated(device) / 1e6,
            "reserved MB": torch.cuda.memory_reserved(device) / 1e6,
        }
        rows.append({"after": moment, **megabytes})

    note("all that was before")
    model = _model(device)
    note("the model")
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(torch.ones(4096, 512, device=device)).square().mean()
    note("the forward pass")
    loss.backward()
    note("the backward pass")
    optimizer.step()
    note("the optimizer")
    del loss
    optimizer.zero_grad()
    note("the gradients are dropped")
    return rows


def _all_reduces(device: torch.device, small: bool) -> list[Row]:
    with World(2) as world:
        sweep = sweep_all_reduce(world, SIZES[:2] if small else SIZES)
    rows: list[Row] = [
        {
            "bytes": each.nbytes,
            "µs": _micro(each.seconds),
            "algbw GB/s": each.algorithm_bandwidth / 1e9,
            "busbw GB/s": each.bus_bandwidth / 1e9,
        }
        for each in sweep
    ]
    if small:
        return rows
    link = fit_ring(sweep)
    return [*rows, {"bytes": "α and B", "µs": _micro(link.latency), "busbw GB/s": link.bandwidth / 1e9}]


def _overlap(device: torch.device, small: bool) -> list[Row]:
    with World(2) as world:
        by_rank = world.run(profile_ddp, batch=8 if small else 4096)
    return [
        {
            "rank": rank,
            "step ms": 1e3 * times.seconds,
            "computing ms": 1e3 * times.computing,
            "communication ms": 1e3 * times.communicating,
            "of it hidden ms": 1e3 * times.hidden,
        }
        for rank, times in enumerate(by_rank)
    ]


def profile_ddp(comm: Communicator, batch: int, bucket_megabytes: float = 2.0) -> StepTimes:
    """A step of torch's DDP on each rank, under the profiler, after two that do not count."""
    torch.manual_seed(0)
    with torch_distributed(comm, "gloo"):
        model = nn.parallel.DistributedDataParallel(
            _model(comm.device),
            bucket_cap_mb=bucket_megabytes,
            gradient_as_bucket_view=True,  # no copies from the buckets at the end, which would count as computing
        )
        images = torch.ones(batch, 512, device=comm.device)
        for _ in range(3):  # DDP orders its buckets anew in the second
            times = _profile_pass(model, images)
        del model
    return times


def _profile_pass(model: nn.Module, images: torch.Tensor) -> StepTimes:
    """Forward and backward under the profiler. The first time counts for nothing: it loads code, and starts it all."""
    wait_for(images.device)
    with profiled_step() as step:
        with step.part("forward"):
            loss = model(images).square().mean()
        with step.part("backward"):
            loss.backward()
    return step.times


def _two_gpus(device: torch.device, small: bool) -> list[Row]:
    rows: list[Row] = []
    for ranks in (1, 2):
        with World(ranks) as world:
            seconds = max(world.run(_train_ddp, batch=8 if small else 4096, steps=2 if small else 50))
        images = (8 if small else 4096) * ranks / seconds
        rows.append({"GPUs": ranks, "ms per step": 1e3 * seconds, "samples per second": images})
    return rows


def _train_ddp(comm: Communicator, batch: int, steps: int) -> float:
    device = comm.device if comm.device.type == "cuda" or not torch.cuda.is_available() else torch.device("cuda", 0)
    with torch_distributed(comm, "gloo"):
        model = _model(device) if comm.world_size == 1 else nn.parallel.DistributedDataParallel(_model(device))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        images = torch.ones(batch, 512, device=device)
        seconds = time_call(partial(_step, model, optimizer, images), device, repeats=steps).done
        del model
    return seconds


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss: torch.Tensor = model(images).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def _model(device: torch.device) -> nn.Sequential:
    torch.manual_seed(0)
    layers = (layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU()))
    return nn.Sequential(*layers).to(device)


def _teraflops(size: int, seconds: float) -> float:
    """Of a product of two square matrices: a multiplication and an addition for each of size³ pairs of elements."""
    return 2 * size**3 / seconds / 1e12


def _micro(seconds: float) -> float:
    return 1e6 * seconds


MEASUREMENTS: Mapping[str, Measurement] = {
    "queue": Measurement(_queue),
    "full_queue": Measurement(_full_queue),
    "first_calls": Measurement(_first_calls),
    "item": Measurement(_item),
    "copies": Measurement(_copies),
    "formats": Measurement(_formats),
    "kernels": Measurement(_kernels),
    "memory": Measurement(_memory),
    "all_reduces": Measurement(_all_reduces, gpus=2),
    "overlap": Measurement(_overlap, gpus=2),
    "two_gpus": Measurement(_two_gpus, gpus=2),
}
"""By name, as `recordings.show` takes them."""

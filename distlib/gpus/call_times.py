"""Timing of work that a GPU does. A call only puts the work into the GPU's queue: a clock must wait for the queue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from distlib.arguments import check_callable, check_integer


@dataclass(frozen=True)
class CallTimes:
    """Two readings of one clock, in seconds; medians.

    Attributes:
        returned: until the call had returned: the work is in the queue.
        done: until the work was done.
    """

    returned: float
    done: float


def wait_for(device: torch.device | str) -> None:
    """Wait until a device has done all that it was given. A CPU has: there it returns at once."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def time_call(call: Callable[[], object], device: torch.device | str, repeats: int = 10, warm_up: int = 3) -> CallTimes:
    """Time a call: warmed up, with an empty queue before it, and waited for after it.

    Args:
        call: without arguments; its result is dropped.
        device: whose queue it fills.
        repeats: how often it is timed.
        warm_up: how often it is called before: the first calls load code, choose kernels and reserve memory.

    Raises:
        ValueError: fewer than 1 repeat, or a negative `warm_up`.
    """
    check_callable("time_call", call, "lambda: matrix @ matrix")
    check_integer("time_call", "repeats", repeats, 1)
    check_integer("time_call", "warm_up", warm_up, 0)
    for _ in range(warm_up):
        call()
    readings = [_readings(call, device) for _ in range(repeats)]
    return CallTimes(*(statistics.median(each) for each in zip(*readings, strict=True)))


def _readings(call: Callable[[], object], device: torch.device | str) -> tuple[float, float]:
    wait_for(device)
    start = time.perf_counter()
    call()
    returned = time.perf_counter() - start
    wait_for(device)
    return returned, time.perf_counter() - start

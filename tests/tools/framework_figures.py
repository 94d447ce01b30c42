"""What the processes of a demonstration of TensorFlow or JAX cost, and how soon they are gone. Part of `make bench`."""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from distlib.frameworks import Process, run_processes
from distlib.frameworks.optional import is_there

Row = tuple[str, str, str]  # what, measured, to reach
_LIMIT = 200.0
_KERNEL = """
from distlib.frameworks import Process, run_processes
def wait():
    print("waiting", flush=True)
    while True: pass
run_processes({"a": Process(wait), "b": Process(wait)}, seconds=1000)
"""


def figures() -> Iterator[Row]:
    """Everything, row by row."""
    yield start_and_end()
    for number, what in ((signal.SIGINT, "interrupted"), (signal.SIGKILL, "killed with -9")):
        times = [seconds_until_gone(number) for _ in range(5)]
        yield (
            f"kernel {what} → no process left",
            f"{statistics.median(times):.2f} s (longest {max(times):.2f})",
            "≤ 3 s",
        )
    for framework in ("tensorflow", "jax"):
        if is_there(framework):
            yield memory_and_time(framework)


def start_and_end() -> Row:
    """Three processes that do nothing: the cost of a demonstration itself."""
    processes = {name: Process(int) for name in ("chief", "worker 0", "worker 1")}
    times = []
    for _ in range(7):
        start = time.perf_counter()
        run_processes(processes, seconds=_LIMIT)
        times.append(time.perf_counter() - start)
    return "a demonstration of 3 processes that do nothing", f"{statistics.median(times):.2f} s", "—"


def seconds_until_gone(number: int) -> float:
    """From a signal to a kernel whose processes are busy, until the last of them is gone."""
    with subprocess.Popen(
        [sys.executable, "-u", "-c", _KERNEL], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as kernel:
        assert kernel.stdout is not None
        for _ in range(2):
            kernel.stdout.readline()
        processes = psutil.Process(kernel.pid).children(recursive=True)
        start = time.perf_counter()
        kernel.send_signal(number)
        while any(_runs(process) for process in processes):
            time.sleep(0.005)
        return time.perf_counter() - start


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def memory_and_time(framework: str) -> Row:
    """A process that imports a framework and adds two numbers with it."""
    outcome = run_processes({framework: Process(_add, framework)}, seconds=_LIMIT)[framework]
    measured = f"{outcome.seconds:.1f} s, {outcome.peak_bytes / 2**20:.0f} MiB"
    return f"a process that imports {framework}", measured, "lesson ≤ 4 GB"


def _add(framework: str) -> float:
    if framework == "tensorflow":
        import tensorflow

        return float(tensorflow.constant(1.0) + 1)
    import jax

    return float(jax.numpy.ones(()) + 1)

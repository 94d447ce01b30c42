"""`make bench`: everything about the package that is measured in seconds or bytes, with the figure to reach.

Times are medians of several repetitions, and comparisons are made within one run, pair by pair, since machines are
noisy. Nothing here is a test: what must hold on every machine is in the tests.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import psutil
import torch
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from distlib import Cluster, Communicator, DeadlockError, Link, SimulatedWorld, World, all_reduce, torch_distributed
from distlib.classroom.board.class_board import make_board
from distlib.classroom.class_folder import Classroom, open_classroom
from distlib.classroom.course_report.answer_pairs import unusual_pairs
from distlib.classroom.course_report.course_page import write_course_report
from distlib.classroom.course_report.graded_course import read_course
from distlib.classroom.exports.canvas_file import canvas_file
from distlib.classroom.exports.moodle_file import moodle_file
from distlib.classroom.exports.score_table import ExportedFile, ScoreTable, read_scores
from distlib.classroom.grader.class_run import grade_class
from distlib.classroom.grader.course import open_course
from distlib.classroom.student_copies.copy_paths import FIRST_LESSON as FIRST_COPY
from distlib.cli.course_folder import FIRST_LESSON
from distlib.collectives import halving_doubling_all_reduce, ring_all_reduce
from distlib.exam.exam_sheet import choose_questions, markdown_sheet
from distlib.exam.variant import for_practice
from distlib.judge.remote.judge import Judges
from distlib.judge.sandbox import KINDS, Limits, choose_sandbox
from distlib.judge.sandbox.bubblewrap import Bubblewrap
from distlib.network import all_reduce_seconds
from distlib.partition import chunks_of
from distlib.training.ddp import DistributedDataParallel, StepClock
from distlib.training.parameter_server import (
    ASYNCHRONOUS,
    SYNCHRONOUS,
    ParameterClient,
    ServerLog,
    server_loop,
    worker_loop,
)
from distlib.training.pipeline import Pipeline
from distlib.training.schedules import (
    ActionSpan,
    Costs,
    Schedule,
    Timing,
    gpipe,
    naive,
    one_forward_one_backward,
    time_schedule,
)
from distlib.training.shards import flatten, shard_parameters
from distlib.training.strategy import choose_strategy
from distlib.training.strategy.published_runs import MEGATRON
from distlib.worlds.real import forkserver
from tests.answer_files import Answer, read_answers
from tests.answers_fast import SLOW
from tests.conftest import BROWSERS
from tests.judge import test_hostile_class as hostile_class
from tests.notebooks.test_browser import open_notebook
from tests.tools import (
    clinic_figures,
    framework_figures,
    share_figures,
    slurm_figures,
    torch_in_virtual_time,
    zero_figures,
)
from tests.tools.chromium import running_chromium
from tests.tools.game_class import make_game_class
from tests.tools.hostile_submissions import read_hostile, released_notebook, right_answers
from tests.tools.lab_process import running_lab
from tests.tools.sandboxed_ranks import Ranks

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
_ROWS: list[tuple[str, str, str]] = []


def main() -> None:
    """Measure everything, or what is asked for, and print one table."""
    measures = (
        import_time,
        start_a_lesson,
        first_run_in_a_notebook,
        later_runs,
        memory_of_a_rank,
        many_ranks,
        ring_against_bare_gloo,
        shared_memory_against_gloo,
        shared_memory_against_the_bus,
        auto_against_the_best,
        cost_of_recording,
        cost_of_recording_simulated,
        ddp_against_torch,
        torch_backend_against_gloo,
        zero_stages,
        torch_in_virtual_seconds,
        cost_of_replica_check,
        paced_all_reduces,
        paced_ddp,
        time_to_name_a_deadlock,
        interrupt_a_cell,
        kill_a_kernel,
        demonstrations_of_frameworks,
        slurm_world,
        go_on_after_a_kill,
        train_with_a_slow_worker,
        simulate_messages,
        simulate_rings,
        simulate_halving_doubling,
        simulate_a_deadlock,
        simulate_a_parameter_server,
        simulate_a_pipeline,
        choose_strategies,
        paced_pipelines,
        players_in_a_browser,
        ranks_in_a_sandbox,
        check_a_finished_exercise,
        hold_up_a_class,
        report_on_a_class,
        grade_a_class,
        grade_everybody,
        grade_through_slurm,
        grade_tensorflow_and_jax,
        board_of_a_class,
        grade_in_docker,
        grade_the_hostile_in_docker,
        start_jupyterlab_in_docker,
    )
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    names = [measure.__name__ for measure in measures]
    parser.add_argument("names", nargs="*", help=f"only those with such a word in their name: {', '.join(names)}")
    parser.add_argument("--students", type=int, default=30, help="in the class that is graded")
    options = parser.parse_args()
    chosen = [measure for measure in measures if _is_asked_for(measure.__name__, options.names)]
    if not chosen:
        parser.error(f"there is no {' or '.join(options.names)}; there are {', '.join(names)}")
    for measure in chosen:
        if measure in (grade_a_class, grade_tensorflow_and_jax, grade_in_docker):
            measure(options.students)  # type: ignore[call-arg]
        else:
            measure()
    widths = [max(len(row[column]) for row in _ROWS) for column in range(3)]
    for row in _ROWS:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _is_asked_for(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


def note(what: str, measured: str, target: str) -> None:
    """Add a row to the table, and show it at once."""
    _ROWS.append((what, measured, target))
    print(f"… {what}: {measured}", flush=True)


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def median_ms(action: Callable[[], Any], times: int) -> float:
    return 1000 * statistics.median(seconds(action) for _ in range(times))


# ── starting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def import_time() -> None:
    program = "import time, torch; t = time.perf_counter(); import distlib; print(time.perf_counter() - t)"
    values = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5)]
    note("import distlib beyond import torch", f"{statistics.median(values):.2f} s", "≤ 0.3 s")


def start_a_lesson() -> None:
    """A course that nobody has opened yet: `distlib lab`, its address in a browser, Shift+Enter twice."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        return note("distlib lab → first cell of lesson 00 has run", "no Chromium here", "≤ 15 s")
    with running_chromium(executable) as browser:
        runs = [_start_once(browser.new_page(viewport={"width": 1400, "height": 1000})) for _ in range(3)]
    whole = [sum(run.values()) - run["of it, processor time of server and kernel"] for run in runs]
    measured = f"{statistics.median(whole):.1f} s ({min(whole):.1f} to {max(whole):.1f}), no click, Shift+Enter twice"
    note("distlib lab → first cell of lesson 00 has run", measured, "≤ 15 s, 2 clicks")
    for stage in runs[0]:
        note(f"    {stage}", f"{statistics.median(run[stage] for run in runs):.1f} s", "-")


def _start_once(page: Page) -> dict[str, float]:
    """Seconds by stage."""
    seen = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as name:
        for folder in ("course", "exercises"):
            shutil.copytree(ROOT / folder, Path(name, folder))
        with running_lab(Path(name)) as (process, address):
            seen.append(time.perf_counter())
            page.set_default_timeout(240_000)
            page.goto(address)
            page.wait_for_selector(".jp-Notebook .jp-Cell >> visible=true")
            seen.append(time.perf_counter())
            page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
            seen.append(time.perf_counter())
            page.keyboard.press("Shift+Enter")  # over the text, which is selected
            page.keyboard.press("Shift+Enter")
            page.locator(".jp-InputPrompt", has_text="[1]:").wait_for()
            seen.append(time.perf_counter())
            below = psutil.Process(process.pid).children(recursive=True)
            processor = sum(sum(one.cpu_times()[:2]) for one in [psutil.Process(process.pid), *below])
            page.close()
    stages = (
        "JupyterLab listens",
        "the page shows the lesson",
        "the kernel is ready",
        "its cell, the imports, has run",
    )
    took = dict(zip(stages, (after - before for before, after in itertools.pairwise(seen)), strict=True))
    return {**took, "of it, processor time of server and kernel": processor}


@contextmanager
def notebook() -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """A real Jupyter kernel that has imported distlib."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        execute(client, "import time, distlib; from distlib import World")
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def execute(client: BlockingKernelClient, code: str) -> str:
    """Run a cell and return what it printed."""
    printed: list[str] = []

    def keep(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(code, output_hook=keep, timeout=60)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(printed)


_FIRST_RUN = """
start = time.perf_counter()
world = World(4)
assert world.run(lambda comm: comm.rank) == [0, 1, 2, 3]
print(time.perf_counter() - start)
"""


def first_run_in_a_notebook() -> None:
    values = []
    for _ in range(5):
        with notebook() as (_, client):
            values.append(float(execute(client, _FIRST_RUN)))
    measured = f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"
    note("World(4) and its first run, right after the import", measured, "< 1.2 s")


def later_runs() -> None:
    with World(4) as world:
        world.run(_nothing)
        note(
            "a later run of an empty function, 4 ranks",
            f"{median_ms(lambda: world.run(_nothing), 100):.1f} ms",
            "≤ 15 ms",
        )


def memory_of_a_rank() -> None:
    def uss(world_size: int) -> int:
        with World(world_size) as world:
            pids = world.run(_ring_once, 1000)
            return sum(psutil.Process(pid).memory_full_info().uss for pid in pids)

    more = (uss(8) - uss(4)) / 4
    note("private memory (USS) of one more rank", f"{more / 1e6:.1f} MB", "≤ 25 MB")


def many_ranks() -> None:
    with World(64) as world:
        start = seconds(lambda: world.run(_nothing))
        ring = seconds(lambda: world.run(_ring_once, 100_000))
    note("World(64): first run", f"{start:.2f} s", "≤ 6 s")
    note("World(64): a ring all-reduce of 400 kB, 8,064 messages", f"{ring:.2f} s", "runs")


# ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def ring_against_bare_gloo() -> None:
    with World(4) as world:
        for label, length, times, target in (("4 KB", 1024, 100, "≤ 2×"), ("16 MB", 4 * 2**20, 6, "≤ 1.2×")):
            ours, bare = zip(*(world.run(_race, length, times)[0] for _ in range(5)), strict=True)
            ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
            measured = f"{ratio:.2f}× ({statistics.median(ours):.2f} against {statistics.median(bare):.2f} ms)"
            note(f"our ring, recorded, against bare torch.distributed, 4 ranks, {label}", measured, target)


_RACED = (("4 KB", 1 << 12, 50), ("1 MB", 1 << 20, 10), ("64 MB", 1 << 26, 2))  # label, bytes, times


def shared_memory_against_gloo() -> None:
    for label, nbytes, times in _RACED:
        with World(4) as world, World(4, backend="gloo") as over_gloo:
            pairs = [world.run(_race_of_all_reduces, nbytes, times, ("auto", "ring"))[0] for _ in range(5)]
            old_rings = [over_gloo.run(_race_of_all_reduces, nbytes, times, ("ring",))[0]["ring"] for _ in range(5)]
        for name in ("auto", "ring"):
            ratio = statistics.median(times[name] / times["torch"] for times in pairs)
            measured = f"{ratio:.2f}× ({statistics.median(times['torch'] for times in pairs):.2f} ms)"
            target = "≤ 0.33×" if nbytes < 1 << 26 else "what the memory bus allows, see below"
            note(f"all-reduce ({name}), shared memory, against torch's on gloo, 4 ranks, {label}", measured, target)
        ratio = statistics.median(times["ring"] / old for times, old in zip(pairs, old_rings, strict=True))
        note(f"our ring, shared memory, against our ring on gloo, 4 ranks, {label}", f"{ratio:.2f}×", "-")


def shared_memory_against_the_bus() -> None:
    """Our ring of 64 MB on 4 ranks against what its bytes take at the bandwidth of a plain copy on all ranks at once.

    Per byte of the tensor, a ring of N ranks copies 2(N−1)/N bytes from another process, each read and written, and
    adds (N−1)/N, each with two reads and a write. A plain copy reads and writes each byte once.
    """
    nbytes, ranks = 1 << 26, 4
    moved = (2 * 2 + 3) * (ranks - 1) / ranks * nbytes
    with World(ranks) as world:
        pairs = [world.run(_race_with_a_copy, nbytes, 4)[0] for _ in range(5)]
    limits = [moved / (2 * nbytes) * copy for _, copy in pairs]
    ratio = statistics.median(ring / limit for (ring, _), limit in zip(pairs, limits, strict=True))
    ring = 1000 * statistics.median(ring for ring, _ in pairs)
    gigabytes = statistics.median(2 * ranks * nbytes / copy for _, copy in pairs) / 1e9
    note(
        "all-reduce (ring), shared memory, 4 ranks, 64 MB, against its bytes at the speed of a plain copy",
        f"{ratio:.2f}× ({ring:.0f} against {1000 * statistics.median(limits):.0f} ms, {gigabytes:.1f} GB/s)",
        "≤ 1.3×",
    )


def _race_with_a_copy(comm: Communicator, nbytes: int, times: int) -> tuple[float, float]:
    """Median seconds of a ring, and of a copy that all ranks make at once; the two take turns."""
    tensor, other = torch.ones(nbytes // 4), torch.zeros(nbytes // 4)
    calls = partial(ring_all_reduce, comm, tensor), partial(other.copy_, tensor)
    measured: tuple[list[float], list[float]] = [], []
    for _ in range(times + 1):
        for call, values in zip(calls, measured, strict=True):
            tensor.fill_(1)
            comm.barrier()
            values.append(seconds(lambda call=call: (call(), comm.barrier())))
    ring, copy = (statistics.median(values[1:]) for values in measured)
    return ring, copy


def auto_against_the_best() -> None:
    algorithms = ("naive", "ring", "tree", "halving_doubling")
    for world_size in (2, 4, 8):
        with World(world_size) as world:
            for label, nbytes, times in _RACED:
                races = [
                    world.run(_race_of_all_reduces, nbytes, times, ("auto", *algorithms), False)[0] for _ in range(5)
                ]
                medians = {name: statistics.median(race[name] for race in races) for name in ("auto", *algorithms)}
                best = min(algorithms, key=medians.__getitem__)
                measured = f"{medians['auto'] / medians[best]:.2f}× ({best}: {medians[best]:.2f} ms)"
                note(f'algorithm="auto" against our best, {world_size} ranks, {label}', measured, "≤ 1.2×")


def _race_of_all_reduces(
    comm: Communicator, nbytes: int, times: int, algorithms: tuple[str, ...], with_torch: bool = True
) -> dict[str, float]:
    """Median milliseconds of one all-reduce by each algorithm and by torch.distributed on gloo, which take turns."""
    tensor = torch.ones(nbytes // 4)
    calls: dict[str, Callable[[], Any]] = {
        name: partial(all_reduce, comm, tensor, algorithm=name) for name in algorithms
    }
    with torch_distributed(comm, "gloo") if with_torch else nullcontext() as dist:
        if with_torch:
            calls["torch"] = partial(dist.all_reduce, tensor)
        measured: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(times + 1):
            for name, call in calls.items():
                tensor.fill_(1)
                comm.barrier()
                measured[name].append(1000 * seconds(call))
    return {name: statistics.median(values[1:]) for name, values in measured.items()}


def cost_of_recording() -> None:
    with World(4) as recorded, World(4, record=False) as silent:
        pairs = [(world_time(recorded), world_time(silent)) for _ in range(7)]
    ratio = statistics.median(a / b for a, b in pairs)
    note("recording, 4 ranks, 200 rings of 4 KB (4,800 messages)", f"{ratio:.2f}×", "little")


def cost_of_recording_simulated() -> None:
    for world_size, repetitions in ((256, 5), (1024, 1)):
        recorded, counted = (SimulatedWorld(world_size, record=record) for record in (True, False))
        pairs = [(ring_seconds(recorded), ring_seconds(counted)) for _ in range(repetitions)]
        ratio = statistics.median(on / off for on, off in pairs)
        note(f"recording, simulated ring, {world_size:,} ranks (processor time)", f"{ratio:.2f}×", "≤ 1.3×")


def ring_seconds(world: SimulatedWorld) -> float:
    """Processor seconds of one all-reduce in a ring with four elements in each chunk."""
    begin = time.process_time()
    world.run(lambda comm: ring_all_reduce(comm, torch.ones(4 * comm.world_size)))
    return time.process_time() - begin


def ddp_against_torch() -> None:
    with World(2) as world:
        ours, theirs = world.run(_race_of_ddps, 60)[0]
    note("a step of our overlapped DDP, against torch's (2 ranks, gloo)", f"{ours / theirs:.2f} ×", "≤ 1.15 ×")


def torch_backend_against_gloo() -> None:
    """A step of torch's own, on the backend "distlib" against the same on gloo, by turns."""
    with World(4, record=False) as world:
        for width, most in ((64, "≤ 0.8 ×"), (256, "≤ 0.8 ×"), (512, "≤ 0.6 ×"), (1024, "≤ 0.6 ×")):
            for wrap in (_fully_sharded, _data_parallel):
                rounds = [[max(world.run(_steps, name, wrap, width)) for name in ("distlib", "gloo")] for _ in range(5)]
                ours, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
                name = f"torch's {wrap.__name__[1:]}, layers of {width**2 * 4 >> 10:,} KiB, against gloo"
                note(name, f"{ours / theirs:.2f} ×", most)


def _steps(comm: Communicator, backend: str, wrap: Callable[[nn.Module, int], nn.Module], width: int) -> float:
    """Median seconds of a step of six layers."""
    with torch_distributed(comm, backend):
        torch.manual_seed(0)
        model = wrap(nn.Sequential(*[nn.Linear(width, width) for _ in range(6)]), comm.world_size)
        optimizer, inputs, seconds_of_steps = torch.optim.SGD(model.parameters(), 1e-3), torch.randn(8, width), []
        for _ in range(12):
            comm.barrier()
            start = time.perf_counter()
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            comm.barrier()
            seconds_of_steps.append(time.perf_counter() - start)
        return statistics.median(seconds_of_steps[2:])


def _fully_sharded(model: nn.Module, ranks: int) -> nn.Module:
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _data_parallel(model: nn.Module, ranks: int) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def cost_of_replica_check() -> None:
    for row in clinic_figures.figures():
        note(*row)


def zero_stages() -> None:
    for row in zero_figures.figures():
        note(*row)


def torch_in_virtual_seconds() -> None:
    for row in torch_in_virtual_time.figures():
        note(*row)


def _race_of_ddps(comm: Communicator, steps: int) -> list[float]:
    """Median seconds of a step of each of two, which take turns."""
    torch.manual_seed(comm.rank)
    images, labels = torch.randn(128, 1, 8, 8), torch.randint(10, (128,))
    seconds: list[list[float]] = [[], []]
    with torch_distributed(comm, "gloo"):
        models = (DistributedDataParallel(comm, _cnn()), nn.parallel.DistributedDataParallel(_cnn()))
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
        for _ in range(steps):
            for model, optimizer, measured in zip(models, optimizers, seconds, strict=True):
                comm.barrier()
                start = time.perf_counter()
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images), labels).backward()
                optimizer.step()
                measured.append(time.perf_counter() - start)
    return [statistics.median(measured[5:]) for measured in seconds]


def _cnn() -> nn.Module:
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(4096, 128), nn.ReLU(), nn.Linear(128, 10))


def world_time(world: World) -> float:
    return seconds(lambda: world.run(_rings, 1024, 200))


def _race(comm: Communicator, length: int, times: int) -> tuple[float, float]:
    """Milliseconds of one all-reduce: ours, and the same loop written with torch.distributed alone."""
    tensor = torch.ones(length)
    with torch_distributed(comm, "gloo") as dist:
        _bare_ring(dist, comm.rank, comm.world_size, tensor)
        comm.barrier()
        bare = seconds(lambda: [_bare_ring(dist, comm.rank, comm.world_size, tensor) for _ in range(times)])
    ring_all_reduce(comm, tensor)
    comm.barrier()
    ours = seconds(lambda: [ring_all_reduce(comm, tensor) for _ in range(times)])
    return 1000 * ours / times, 1000 * bare / times


def _bare_ring(dist: Any, rank: int, size: int, tensor: torch.Tensor) -> None:
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    chunks = list(torch.tensor_split(tensor, size))
    incoming = torch.empty_like(chunks[0])
    for step in range(size - 1):
        target = chunks[(rank - 2 - step) % size]
        receiving = dist.irecv(incoming[: len(target)], previous_rank)
        dist.send(chunks[(rank - 1 - step) % size], next_rank)
        receiving.wait()
        target.add_(incoming[: len(target)])
    for step in range(size - 1):
        receiving = dist.irecv(chunks[(rank - 1 - step) % size], previous_rank)
        dist.send(chunks[(rank - step) % size], next_rank)
        receiving.wait()


def _rings(comm: Communicator, length: int, times: int) -> None:
    tensor = torch.zeros(length)
    for _ in range(times):
        ring_all_reduce(comm, tensor)


def _ring_once(comm: Communicator, length: int) -> int:
    _rings(comm, length, 1)
    return os.getpid()


def _nothing(comm: Communicator) -> None:
    pass


# ── a paced network ──────────────────────────────────────────────────────────────────────────────────────────────────


def paced_all_reduces() -> None:
    """From the moment the first rank begins to the end of the last, against the closed form.

    On the wall clock, and on the clock of the network (`comm.time`): the difference is what the machine was late.
    """
    link = Link(latency=1e-3, bandwidth=50e6)
    with World(4, network=link) as world:
        for label, length in (("4 KB", 1024), ("1 MB", 2**18), ("8 MB", 2**21)):
            for algorithm in ("ring", "tree", "naive"):
                predicted = all_reduce_seconds(algorithm, Cluster.flat(4, link), length, 4)
                by_rank = world.run(_timed_all_reduces, algorithm, length, 6)
                wall, network = (_median_span([rank[clock] for rank in by_rank]) for clock in (0, 1))
                note(
                    f"paced (1 ms, 50 MB/s), 4 ranks, all-reduce of {label}, {algorithm}, against the formula",
                    f"{wall / predicted - 1:+.1%} ({1000 * wall:.1f} against {1000 * predicted:.1f} ms); "
                    f"by comm.time {network / predicted - 1:+.1%}",
                    "within 15 %",
                )


def _timed_all_reduces(
    comm: Communicator, algorithm: str, length: int, times: int
) -> tuple[list[tuple[float, float]], ...]:
    """(start, end) of each repetition, on the wall clock and on the clock of the network."""
    tensor = torch.zeros(length)
    wall, network = [], []
    for _ in range(times):
        comm.barrier()
        start, network_start = time.perf_counter(), comm.time()
        all_reduce(comm, tensor, algorithm=algorithm)
        wall.append((start, time.perf_counter()))
        network.append((network_start, comm.time()))
    return wall, network


def _median_span(by_rank: list[list[tuple[float, float]]]) -> float:
    """From the first start to the last end of a repetition. The first one does not count."""
    spans = [max(end for _, end in row) - min(start for start, _ in row) for row in zip(*by_rank, strict=True)]
    return statistics.median(spans[1:])


def paced_ddp() -> None:
    """The model and the link of lesson 05; the layers sleep for their computing time, which takes no core.

    And the same with ranks that compute, 1,024 images each, on a link that makes communication as long as backward.
    """
    nbytes = sum(parameter.nbytes for parameter in _deep_model().parameters())
    link = Link(latency=3e-4, bandwidth=16e6)
    with World(2, network=link) as world:
        _note_gain(f"{link}, layers sleep", world.run(_ddp_steps, ("flat", "overlapped"), 16, 4e9)[0], "≥ 25 %")
    with World(2) as world:
        backward = statistics.median(world.run(_ddp_steps, ("flat",), 16, None)[0]["backward"])
    link = Link(latency=3e-4, bandwidth=nbytes / backward)
    with World(2, network=link) as world:
        _note_gain(f"{link}, ranks compute", world.run(_ddp_steps, ("flat", "overlapped"), 16, None)[0], "-")


def _note_gain(where: str, measured: dict[str, list[float]], goal: str) -> None:
    flat, overlapped = measured["flat"][1:], measured["overlapped"][1:]
    gain = statistics.median(1 - after / before for before, after in zip(flat, overlapped, strict=True))
    note(
        f"paced ({where}), 2 ranks: what overlapped DDP gains on flat, median over pairs",
        f"{gain:.0%} of the step ({1000 * statistics.median(overlapped):.0f} against "
        f"{1000 * statistics.median(flat):.0f} ms)",
        goal,
    )


def _ddp_steps(
    comm: Communicator, versions: tuple[str, ...], steps: int, speed: float | None
) -> dict[str, list[float]]:
    """Seconds of each step (forward and backward) of each version, which take turns; and of all backward passes.

    speed: multiplications and additions per second for which the layers sleep; None: they compute.
    """
    batch = 1 if speed else 1024
    images, labels = torch.randn(batch, 64), torch.zeros(batch, dtype=torch.int64)
    models: dict[str, nn.Module] = {}
    for version in versions:
        model = _deep_model()
        linear = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}
        if speed:
            StepClock(comm, model, {name: 2 * 256 * layer.weight.numel() / speed for name, layer in linear.items()})
        models[version] = DistributedDataParallel(
            comm, model, version=version, bucket_bytes=128 << 10, first_bucket_bytes=64 << 10
        )
    measured: dict[str, list[float]] = {name: [] for name in (*versions, "backward")}
    for _ in range(steps):
        for version, model in models.items():
            comm.barrier()
            start = time.perf_counter()
            loss = nn.functional.cross_entropy(model(images), labels)
            between = time.perf_counter()
            loss.backward()
            measured[version].append(time.perf_counter() - start)
            measured["backward"].append(time.perf_counter() - between)
    return measured


def _deep_model() -> nn.Module:
    torch.manual_seed(0)
    widths = [64, *[128] * 24, 10]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# ── going wrong ──────────────────────────────────────────────────────────────────────────────────────────────────────


def time_to_name_a_deadlock() -> None:
    def name(function: Callable[[Communicator], None]) -> None:
        try:
            world.run(function)
        except DeadlockError:
            return
        raise AssertionError("not recognised")

    with World(4) as world:
        world.run(_nothing)
        note("deadlock → message, closed cycle of 4", f"{median_ms(lambda: name(_cycle), 10):.0f} ms", "≤ 0.5 s")
        note("deadlock → message, a peer has returned", f"{median_ms(lambda: name(_alone), 10):.0f} ms", "≤ 2 s")


def _cycle(comm: Communicator) -> None:
    comm.recv(torch.empty(4), (comm.rank - 1) % comm.world_size)


def _alone(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.recv(torch.empty(4), 1)


_STUCK = """
import torch
def stuck(comm):
    if comm.rank == 0:
        while True: pass
    comm.recv(torch.empty(4), 0)
world = World(4)
world.run(lambda comm: None)
print("ready")
"""


def interrupt_a_cell() -> None:
    values = []
    with notebook() as (manager, client):
        execute(client, _STUCK)
        for _ in range(5):
            message = client.execute("world.run(stuck)")
            time.sleep(0.5)
            values.append(seconds(lambda m=message: (manager.interrupt_kernel(), _reply_to(client, m))))
            assert execute(client, "print(world.run(lambda comm: comm.rank))") == "[0, 1, 2, 3]\n"
    note(
        "interrupt → cell returns, world usable",
        f"{statistics.median(values):.2f} s (longest {max(values):.2f})",
        "≤ 1 s",
    )


def _reply_to(client: BlockingKernelClient, message: str) -> dict[str, Any]:
    while True:
        reply = client.get_shell_msg(timeout=10)
        if reply["parent_header"].get("msg_id") == message:
            return reply


_STUCK_IN_CPP = """
import os
from distlib import torch_distributed
def stuck_in_cpp(comm):
    with torch_distributed(comm, "gloo") as dist:
        if comm.rank > 0:
            import torch; dist.recv(torch.empty(4), 0)
        else:
            while True: pass
print(*world.run(lambda comm: os.getpid()), os.getppid())
"""


def kill_a_kernel() -> None:
    for label, cell in (
        ("while computing and receiving", "world.run(stuck)"),
        ("stuck in C++", "world.run(stuck_in_cpp)"),
    ):
        with notebook() as (manager, client):
            execute(client, _STUCK)
            ranks = [int(pid) for pid in execute(client, _STUCK_IN_CPP).split()[:4]]
            client.execute(cell)
            time.sleep(1)
            os.kill(manager.provisioner.pid, signal.SIGKILL)
            gone = seconds(lambda pids=ranks: _wait_until_gone(pids))
        note(f"kernel killed with -9 → no rank left, {label}", f"{gone:.2f} s", "≤ 3 s")


def go_on_after_a_kill() -> None:
    """An asynchronous training loses a worker: how long until its server knows, and applies the next gradient."""
    known, applied = [], []
    with World(4, deaths={}) as world:
        for _ in range(10):
            with tempfile.TemporaryDirectory() as name:
                path = Path(name, "killed")
                log = world.run(_train_until_killed, 60, path)[0]
                killed = float(path.read_text())
            (lost,) = log.lost
            assert lost[0] == 2 and len(log.updates) == 60 + 30 + 60
            known.append(lost[1] - killed)
            applied.append(min(update.time for update in log.updates if update.time > killed) - killed)
    note("a worker is killed: the server knows", _median_and_worst(known), "≤ 2 s")
    note("… and applies the next gradient", _median_and_worst(applied), "≤ 2 s")


def _median_and_worst(values: list[float]) -> str:
    return f"{1e3 * statistics.median(values):.0f} ms, at worst {1e3 * max(values):.0f} ms"


def _train_until_killed(comm: Communicator, steps: int, path: Path) -> Any:
    """Rank 0 serves, the others work; rank 2 is killed half way, and leaves the time at which that was."""
    parameters = [torch.zeros(100_000)]

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        if comm.rank == 2 and step == steps // 2:
            path.write_text(str(comm.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        comm.sleep(1e-2)
        return parameters, 1

    return _serve_or_work(comm, parameters, compute, steps, ASYNCHRONOUS)


def train_with_a_slow_worker() -> None:
    """A parameter server with 4 workers on a paced network, one of them 4 times slower: the best of five runs each."""
    rates = {}
    with World(5, network=Link(1e-3, 20e6)) as world:
        for bound in (SYNCHRONOUS, ASYNCHRONOUS):
            for slow in (1, 4):
                logs = [world.run(_sleep_and_push, bound, slow)[0] for _ in range(5)]
                rates[bound, slow] = max(_gradients_per_second(log) for log in logs)
    slower = rates[SYNCHRONOUS, 1] / rates[SYNCHRONOUS, 4]
    lost = 1 - rates[ASYNCHRONOUS, 4] / rates[ASYNCHRONOUS, 1]
    note("one of 4 workers 4 times slower, real ranks: synchronous", f"{slower:.1f} times slower", "3 to 4")
    note("… asynchronous: gradients per second lost", f"{lost:.0%}", "≤ 25 %")


def _sleep_and_push(comm: Communicator, bound: float, slow: int) -> Any:
    """Workers sleep 40 ms for a gradient. If nobody waits for rank 4, it does what it can until the others are done."""
    parameters = [torch.zeros(2410)]

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(0.04 * (slow if comm.rank == 4 else 1))
        return parameters, 1

    steps = 6 if bound == SYNCHRONOUS else 12 // slow if comm.rank == 4 else 12
    return _serve_or_work(comm, parameters, compute, steps, bound)


def _gradients_per_second(log: ServerLog) -> float:
    """From the first update until the first worker is done."""
    end = min({each.worker: update.time for update in log.updates for each in update.contributions}.values())
    first, *others = [update for update in log.updates if update.time <= end]
    return sum(len(update.contributions) for update in others) / (others[-1].time - first.time)


def _serve_or_work(
    comm: Communicator, parameters: list[torch.Tensor], compute: Callable[[int], Any], steps: int, bound: float
) -> ServerLog | None:
    """Rank 0 serves and returns its log; the others push `steps` gradients each, which `compute` returns."""
    shards = shard_parameters(parameters, 1)
    if comm.rank == 0:
        flat, optimizer = flatten(parameters, shards[0]), partial(torch.optim.SGD, lr=0.1)
        return server_loop(comm, range(1, comm.world_size), flat, optimizer, bound=bound)
    worker_loop(ParameterClient(comm, [0], parameters, shards), compute, steps)
    return None


def _wait_until_gone(pids: list[int]) -> None:
    while any(psutil.pid_exists(pid) for pid in pids):
        time.sleep(0.01)


def demonstrations_of_frameworks() -> None:
    for row in framework_figures.figures():
        note(*row)


def slurm_world() -> None:
    for row in slurm_figures.figures():
        note(*row)


# ── virtual time ─────────────────────────────────────────────────────────────────────────────────────────────────────


def simulate_messages() -> None:
    world = SimulatedWorld(1024, record=False)
    rate = max(_exchanges(world, 500) for _ in range(3))
    note("simulator alone, 1,024 ranks, 512,000 messages without contents", f"{rate / 1e6:.2f} M messages/s", "≥ 1")


def _exchanges(world: SimulatedWorld, times: int) -> float:
    took = seconds(lambda: world.run(_exchange_nothing, times))
    return len(world.trace) / took


def _exchange_nothing(comm: Communicator, times: int) -> None:
    outgoing, incoming = torch.empty(8, device="meta"), torch.empty(8, device="meta")
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    for _ in range(times):
        comm.exchange(outgoing, next_rank, incoming, previous_rank)


def simulate_rings() -> None:
    """Also as a multiple of what torch needs for the same copies, sums and views: that is fair on any machine.

    The simulator of November 25th, 2026, needed 5 times as much, where 1,024 ranks took 18 s. 13 s there are 3.6 times.
    """
    for world_size, target in ((256, "≤ 3.6×"), (1024, "≤ 3.6×")):
        world = SimulatedWorld(world_size, record=False)
        messages = 2 * (world_size - 1) * world_size
        before = _per_message(world_size)
        took = seconds(lambda world=world, length=4 * world_size: world.run(_rings, length, 1))
        alone = messages * (before + _per_message(world_size)) / 2
        note(
            f"simulated ring, {world_size:,} ranks, {messages:,} messages with contents, "
            "against its copies, sums and views alone",
            f"{took / alone:.1f}× ({took:.1f} s)",
            target,
        )


def _per_message(world_size: int, messages: int = 100_000) -> float:
    """Seconds of torch for a message of a ring: a view of a chunk, a copy, and for half of them a sum."""
    chunks, room = chunks_of(torch.ones(4 * world_size), world_size), torch.empty(4)

    def two_messages_each() -> None:
        for number in range(messages // 2):
            reduced = chunks[number % world_size]
            room.copy_(reduced)
            reduced.add_(room)
            room.copy_(chunks[(number + 1) % world_size])

    return min(seconds(two_messages_each) for _ in range(3)) / messages


def simulate_halving_doubling() -> None:
    world = SimulatedWorld(4096, record=False)
    took = min(seconds(lambda: world.run(_halving_doubling, 4096)) for _ in range(3))
    note("simulated halving-doubling, 4,096 ranks, 98,304 messages with contents", f"{took:.2f} s", "≤ 1.5 s")


def _halving_doubling(comm: Communicator, length: int) -> None:
    halving_doubling_all_reduce(comm, torch.ones(length))


def simulate_a_deadlock() -> None:
    world = SimulatedWorld(4096, record=False)

    def name() -> None:
        try:
            world.run(_cycle)
        except DeadlockError:
            return
        raise AssertionError("not recognised")

    note("deadlock over 4,096 simulated ranks → message", f"{min(seconds(name) for _ in range(3)):.2f} s", "≤ 1 s")


# ── in a browser ─────────────────────────────────────────────────────────────────────────────────────────────────────

_RUN = """
import torch
from distlib import SimulatedWorld
from distlib.collectives import ring_all_reduce
from distlib.draw import play_chunks, play_timeline, watch_chunks
world = SimulatedWorld(8)
history = watch_chunks(world, ring_all_reduce)
assert len(world.trace) == 8 * 14
"""
_PLAYERS = {"timeline": "play_timeline(world.trace)", "chunks": "play_chunks(history)"}

# Milliseconds until `count` players are there and the browser has drawn two frames since.
_PAINTED = """count => { window.painted = new Promise(resolve => {
    const start = performance.now();
    const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - start)));
    const observer = new MutationObserver(() => {
        if (document.querySelectorAll(".distlib-player svg").length < count) return;
        observer.disconnect();
        drawn();
    });
    observer.observe(document.body, { childList: true, subtree: true });
}); }"""

# Milliseconds of each of 12 steps: from the key until the frame that shows it has been drawn.
_STEPS = """async player => {
    const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
    const press = key => player.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const times = [];
    player.focus();
    press("Home");
    for (let step = 0; step < 12; step++) {
        await frame();
        const start = performance.now();
        press("ArrowRight");
        await frame();
        player.getBoundingClientRect();
        times.push(performance.now() - start);
    }
    return times;
}"""


def simulate_a_parameter_server() -> None:
    torch.set_num_threads(1)  # matrices as small as these are not worth a second thread
    world = SimulatedWorld(65, Cluster.flat(65, Link(50e-6, 1e9), jitter=0.1), record=False)
    took = seconds(lambda: world.run(_train_asynchronously, 157))
    note("64 asynchronous workers, 10,048 updates of the digits model in virtual time", f"{took:.1f} s", "≤ 30 s")


def _train_asynchronously(comm: Communicator, steps: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    parameters, images, labels = list(model.parameters()), torch.randn(16, 64), torch.arange(16) % 10

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(1e-2)
        loss = nn.functional.cross_entropy(model(images), labels)
        return list(torch.autograd.grad(loss, parameters)), len(labels)

    _serve_or_work(comm, parameters, compute, steps, ASYNCHRONOUS)


def simulate_a_pipeline() -> None:
    torch.set_num_threads(1)
    stages, microbatches = 64, 256
    schedule = one_forward_one_backward(stages, microbatches)
    took = seconds(lambda: time_schedule(schedule))
    note("1F1B of 64 stages and 256 microbatches, timed action by action", f"{took:.1f} s", "≤ 10 s")
    world = SimulatedWorld(stages, Cluster.flat(stages, Link(0, float("inf"))), record=False)
    took = seconds(lambda: world.run(_run_a_pipeline, schedule, Costs()))
    note("the same, run with tensors and gradients in virtual time", f"{took:.1f} s", "no target")


def choose_strategies() -> None:
    """For 1,024 ranks, with the batch of that row and with one that has more divisors."""
    run = next(run for run in MEGATRON if run.cluster.world_size == 1024)
    for batch in (run.batch, 2048):
        took = median_ms(lambda batch=batch: choose_strategy(run.shape, run.device, run.cluster, batch), 3)
        note(f"choose a strategy, 1,024 ranks, a batch of {batch:,}", f"{took:.0f} ms", "≤ 1,000 ms")


def paced_pipelines() -> None:
    costs = Costs(forward=0.05, backward=0.1)
    schedules = {"naive": naive, "GPipe": gpipe, "1F1B": one_forward_one_backward}
    with World(4, network=Link(1e-4, 1e9)) as world:
        for name, make in schedules.items():
            schedule = make(4, 8)
            wanted = time_schedule(schedule, costs).bubble
            bubble = Timing(world.run(_run_a_pipeline, schedule, costs, steps=2)).bubble
            what = f"bubble of {name}, 4 real ranks and 8 microbatches, by the clock"
            note(what, f"{bubble:.3f} ({bubble / wanted - 1:+.0%})", f"{wanted:.3f}, within 15%")


def _run_a_pipeline(comm: Communicator, schedule: Schedule, costs: Costs, steps: int = 1) -> list[ActionSpan]:
    microbatches = 1 + max(action.microbatch for action in schedule[0])
    stages = [nn.Linear(2, 2) for _ in range(comm.world_size)]
    pipeline = Pipeline(comm, stages, schedule, nn.functional.mse_loss, costs=costs)
    batch = torch.zeros(microbatches, 2)
    for _ in range(steps):
        pipeline.step(batch, batch)
    return pipeline.record.spans


def players_in_a_browser() -> None:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        return note("players in Chromium", "no Chromium here", "≤ 1 s")
    with tempfile.TemporaryDirectory() as name, running_chromium(executable) as browser:
        folder = Path(name)
        write_notebook(folder / FIRST_LESSON, [_RUN, *_PLAYERS.values()])
        with running_lab(folder) as (_, address):
            page = browser.new_page(viewport={"width": 1280, "height": 1400})
            open_notebook(page, address, FIRST_COPY.removeprefix("work/"))
            page.locator(".jp-CodeCell .cm-content").first.click()
            page.keyboard.press("Shift+Enter")
            page.locator(".jp-InputPrompt", has_text="[1]:").wait_for()
            for number, player in enumerate(_PLAYERS):
                time_player(page, number, player)


def time_player(page: Page, number: int, name: str) -> None:
    page.evaluate(_PAINTED, number + 1)
    page.keyboard.press("Shift+Enter")
    painted = page.evaluate("window.painted")
    page.locator(".jp-InputPrompt", has_text=f"[{number + 2}]:").wait_for()  # the image is drawn, too
    player = page.locator(".distlib-player").nth(number)
    player.scroll_into_view_if_needed()
    steps = player.evaluate(_STEPS)
    assert player.locator(".distlib-place").inner_text() == "round 12 of 14"
    what = f"{name} of 8 ranks × 14 rounds in JupyterLab"
    note(f"{what}: cell run → painted", f"{painted / 1000:.2f} s", "≤ 1 s")
    note(f"{what}: a step", f"{statistics.median(steps):.0f} ms (longest {max(steps):.0f})", "≤ 50 ms")
    player.evaluate("player => player.blur()")
    page.locator(".jp-CodeCell").nth(number + 2).locator(".cm-content").click()


def write_notebook(path: Path, cells: list[str]) -> None:
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    document.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir()
    nbformat.write(document, path)


# ── grading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def ranks_in_a_sandbox() -> None:
    """What bubblewrap adds to a Python with torch, and what a rank costs there, isolated and ended."""
    if Bubblewrap().problem() is not None:
        return note("ranks in a sandbox", "not measured: no bubblewrap", "")
    times: dict[str, list[float]] = {"bubblewrap": [], "none": []}
    for _ in range(5):
        for name, measured in times.items():
            start = time.perf_counter()
            ranks = Ranks(KINDS[name](), imports="import torch")
            measured.append(time.perf_counter() - start)
            if name == "bubblewrap":
                one_rank = median_ms(lambda: _one_rank(ranks), 20)  # noqa: B023
            ranks.close()
    extra = statistics.median(one - other for one, other in zip(*times.values(), strict=True))
    whole = statistics.median(times["bubblewrap"])
    note("sandbox with Python and torch", f"{whole:.2f} s, bubblewrap's part {extra:.2f} s", "its part ≤ 0.2 s")
    note("one isolated rank in a sandbox", f"{one_rank:.1f} ms", "≤ 30 ms")


def check_a_finished_exercise() -> None:
    with tempfile.TemporaryDirectory() as name:
        classroom = open_classroom(ROOT, Path(name), "02_all_reduce")
        classroom.hand_in("student", classroom.solutions())
        notebook = Path(name, "classroom/submitted/student/02_all_reduce/02_all_reduce.ipynb")
        command = [sys.executable, "-m", "distlib.cli", "check", "02_all_reduce", "--notebook", str(notebook)]
        values = [seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(3)]
    note("distlib check 02_all_reduce, everything right", f"{statistics.median(values):.1f} s", "≤ 5 s")


def report_on_a_class() -> None:
    """What is made of a large class after it was judged: report, answers next to each other, files for platforms."""
    size = 300
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "course"
        program = f"from tests.tools.tiny_class import grade_tiny_class; print(grade_tiny_class({str(root)!r}, {size}))"
        # In a process of its own: each submission's process imports what is the main module, and this one is large.
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
        took = float(done.stdout)
        note(f"class of {size}, a judge that costs nothing: all around judging", f"{took:.0f} s", "≤ 120 s")
        course = open_course(root)
        took = seconds(lambda: write_course_report(read_course(course), root / "classroom" / "report"))
        note(f"class of {size}: report, a page per student", f"{took:.1f} s", "≤ 10 s")
        took = seconds(lambda: [make(read_scores(course, provisional=True)) for make in (canvas_file, _moodle)])
        note(f"class of {size}: files for Canvas and Moodle", f"{took:.1f} s", "≤ 10 s")
    right = [answer for answer in read_answers("02_all_reduce") if answer.function == "ring_all_reduce"]
    answers = {f"s{number}": {"ring": right[number % len(right)].text} for number in range(size)}
    took = seconds(lambda: unusual_pairs(answers))
    note(f"class of {size}: one function's answers compared", f"{took:.1f} s", "≤ 10 s")
    took = seconds(lambda: markdown_sheet(choose_questions(for_practice(7)), for_practice(7), answers=True))
    note("all questions of the bank, with answers", f"{took:.2f} s", "≤ 1 s")


def _moodle(table: ScoreTable) -> ExportedFile:
    return moodle_file(table, by="id")


def grade_a_class(size: int) -> None:
    """A class of right submissions in many styles: against nbgrader, and with one hostile among them."""
    students = [f"student-{number:02}" for number in range(size)]
    with tempfile.TemporaryDirectory() as name:
        few = students[: max(2, size // 5)]  # nbgrader takes as long for each; theirs is scaled
        ours, theirs = _class(Path(name) / "ours", students), _class(Path(name) / "theirs", few)
        took = seconds(lambda: ours.grade("--jobs", "2"))
        nbgrader = seconds(lambda: theirs.nbgrader("autograde", ours.assignment)) * size / len(few)
        marks = {student: ours.marks(student) for student in students}
        assert {student: marks[student] for student in few} == {student: theirs.marks(student) for student in few}
        measured = f"{took:.0f} s, {took / nbgrader:.2f}×"
        note(f"class of {size} by distlib grade, 2 jobs, against nbgrader (scaled from {len(few)})", measured, "≤ 0.2×")
        loops = students[size // 2]
        ours.hand_in(loops, {function: _LOOPS.format(function) for function in ours.solutions()})
        longer = seconds(lambda: ours.grade("--jobs", "2", "--again")) - took
        marks[loops] = dict.fromkeys(marks[loops], 0.0)
        assert marks == {student: ours.marks(student) for student in students}
    target = f"≤ {Limits().submission_seconds / 2:.0f} s"
    note("the same, one of them loops for ever: more time", f"{longer:.0f} s", target)


def grade_everybody() -> None:
    """300 hand-ins of one exercise as a class has them: graded, the report of the course, files for platforms."""
    students = [f"student-{number:03}" for number in range(300)]
    with tempfile.TemporaryDirectory() as name:
        classroom = _mixed_class(Path(name), students)
        took = seconds(lambda: classroom.grade("--jobs", "2"))
        course = open_course(classroom.folder)
        around = seconds(lambda: write_course_report(read_course(course), classroom.folder / "classroom" / "report"))
        around += seconds(lambda: [make(read_scores(course, provisional=True)) for make in (canvas_file, _moodle)])
        full = sum(classroom.full_marks().values())
        sums = [sum(classroom.marks(student).values()) for student in students]
    what = f"{took / 60:.1f} min and {around:.0f} s; {sum(each == full for each in sums)} have all, on average"
    note("300 hand-ins graded with 2 jobs; report and export", f"{what} {sum(sums) / 300 / full:.0%}", "≤ 20 min")


def _mixed_class(folder: Path, students: list[str]) -> Classroom:
    """A class as it is: answers in many styles, right, wrong, and not written."""
    classroom, rng = _class(folder, students), random.Random(300)
    answers = [answer for answer in read_answers(classroom.assignment) if str(answer) not in SLOW]
    for student in students:
        chosen = {function: _typical_answer(rng, function, answers) for function in classroom.solutions()}
        classroom.hand_in(student, {function: text for function, text in chosen.items() if text is not None})
    return classroom


def _typical_answer(rng: random.Random, function: str, answers: Sequence[Answer]) -> str | None:
    """Seven of ten are right, in many styles, two are wrong, and one is not written."""
    kind = rng.random()
    if kind >= 0.9:
        return None
    some = [each.text for each in answers if each.function == function and each.is_right == (kind < 0.7)]
    return rng.choice([text for text in some if " Alone. " not in text.splitlines()[0]])


def grade_through_slurm() -> None:
    """A class in two shares, on two nodes, against one node."""
    for row in share_figures.figures(_mixed_class):
        note(*row)


def grade_tensorflow_and_jax(size: int) -> None:
    """Classes of right submissions whose ranks need a framework: seconds for each, the one import for all included."""
    students = [f"student-{number:02}" for number in range(size)]
    for exercise in ("13_tensorflow", "14_jax"):
        with tempfile.TemporaryDirectory() as name:
            classroom = _class(Path(name), students, exercise)
            took = seconds(lambda: classroom.grade("--jobs", "2"))  # noqa: B023  it is called at once
            full = classroom.marks(students[0])
            assert min(full.values()) > 0 and all(classroom.marks(student) == full for student in students)
        note(f"class of {size} on {exercise}, 2 jobs, for each student", f"{took / size:.1f} s", "≤ 6 s")


def board_of_a_class() -> None:
    """`distlib board`: 300 students with five plays each, twice."""
    with tempfile.TemporaryDirectory() as name:
        root, took, pages = Path(name), list[float](), list[bytes]()
        (root / "solutions").mkdir()
        shutil.copy(ROOT / "nbgrader_config.py", root)
        plays = make_game_class(root / "classroom" / "submitted", 300)
        for _ in range(2):
            start = time.perf_counter()
            board = make_board(open_course(root), jobs=os.cpu_count() or 1)
            took.append(time.perf_counter() - start)
            pages.append(board.page.read_bytes())
        what = f"{took[0]:.0f} s, then {took[1]:.0f} s; {board.replayed} of {plays} plays differ"
        note("the board of 300 hand-ins with 5 plays each", what, "≤ 600 s")
        same = "the same to the bit" if pages[0] == pages[1] else "THEY DIFFER"
        note("    its page, made twice", f"{len(pages[0]) / 1e6:.1f} MB, {same}", "≤ 5 MB, the same")


def grade_in_docker(size: int) -> None:
    """A class, a third of it right, a third partly, a third empty, by `distlib grade --sandbox …`, twice each."""
    if (problem := KINDS["docker"]().problem()) is not None:
        return note(f"class of {size} in the docker sandbox, against bubblewrap", problem, "≤ 2×")
    students = [f"student-{number:02}" for number in range(size)]
    with tempfile.TemporaryDirectory() as name:
        classroom = _class(Path(name), students)
        for student in students[1::3]:
            classroom.hand_in(student, {**classroom.solutions(), "naive_all_reduce": _SENDS_NOTHING})
        for student in students[2::3]:
            classroom.hand_in(student, {})
        took: dict[str, list[float]] = {"bubblewrap": [], "docker": []}
        marks = []
        for kind, times in 2 * list(took.items()):
            times.append(seconds(lambda: classroom.grade("--jobs", "2", "--again", "--sandbox", kind)))  # noqa: B023
            marks.append([classroom.marks(student) for student in students])
        assert all(each == marks[0] for each in marks)
    _note_docker(f"class of {size} in the docker sandbox, 2 jobs, against bubblewrap, same marks", took)


def grade_the_hostile_in_docker() -> None:
    """All of tests/hostile, with the limits and the short exercise of its test."""
    if (problem := KINDS["docker"]().problem()) is not None:
        return note("the hostile class in the docker sandbox, against bubblewrap", problem, "≤ 2×")
    took: dict[str, list[float]] = {"bubblewrap": [], "docker": []}
    undeserved: dict[str, list[str]] = {}
    for kind, times in took.items():
        with tempfile.TemporaryDirectory() as name, Judges(choose_sandbox(kind), hostile_class.QUICK) as open_judge:
            start = time.perf_counter()
            graded = hostile_class.grade_hostile(ROOT, Path(name), open_judge)
            times.append(time.perf_counter() - start)
            undeserved[kind] = hostile_class.undeserved(graded)
    note("… of it, with undeserved marks", f"{undeserved}", "none")
    _note_docker(f"all {len(read_hostile())} hostile submissions in the docker sandbox, against bubblewrap", took)


def start_jupyterlab_in_docker() -> None:
    """`docker compose up` with an image that is built, until JupyterLab answers; and how large the image is."""
    what = "docker compose up → JupyterLab answers, image built"
    images = [image for image in _LAB_IMAGES if _is_image(image)]
    if not images:
        return note(what, f"no image {' or '.join(_LAB_IMAGES)} here", "≤ 15 s")
    values = [_start_in_docker(images[0]) for _ in range(3)]
    note(
        f"{what} ({images[0]})", f"{statistics.median(values):.1f} s ({min(values):.1f} to {max(values):.1f})", "≤ 15 s"
    )
    command = ["docker", "run", "--rm", "--user", "0", "--entrypoint", "du", images[0], "-xs", "--block-size=1000000"]
    printed = subprocess.check_output([*command, "--exclude=/proc", "/"], text=True)
    note(f"what {images[0]} holds", f"{int(printed.split()[0]) / 1000:.2f} GB", "≤ 3.5 GB")


_LAB_IMAGES = ("distlib-lab", "distlib-test-lab")


def _is_image(name: str) -> bool:
    command = ["docker", "image", "inspect", name]
    return shutil.which("docker") is not None and subprocess.run(command, capture_output=True).returncode == 0


def _start_in_docker(image: str) -> float:
    """Seconds. The address is on this machine, on a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    compose = shutil.which("docker-compose")
    with tempfile.TemporaryDirectory() as name:
        override = Path(name, "image.json")
        override.write_text(json.dumps({"version": "3.9", "services": {"lab": {"image": image}}}))
        command = [*([compose] if compose else ["docker", "compose"]), "-p", f"distlib-test-{port}"]
        command += ["-f", str(ROOT / "docker" / "compose.yaml"), "-f", str(override)]
        run = partial(subprocess.run, env={**os.environ, "PORT": str(port)}, capture_output=True, check=True)
        try:
            return seconds(lambda: (run([*command, "up", "--detach", "--no-build"]), _wait_for_api(port)))
        finally:
            run([*command, "down", "--volumes", "--timeout", "1"])


def _wait_for_api(port: int) -> None:
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    give_up = time.monotonic() + 300
    while True:
        try:
            return directly.open(f"http://127.0.0.1:{port}/api", timeout=10).close()
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def _note_docker(what: str, took: dict[str, list[float]]) -> None:
    ours, theirs = statistics.median(took["docker"]), statistics.median(took["bubblewrap"])
    note(what, f"{ours:.0f} s against {theirs:.0f} s, {ours / theirs:.2f}×", "≤ 2×")


def hold_up_a_class() -> None:
    """Hostile submissions that fight for time, one at a time: how long beyond their limit each takes."""
    limits = Limits(check_seconds=3, submission_seconds=20, cells_seconds=6, reruns_seconds=20)
    chosen = [submission for submission in read_hostile() if submission.name in _SLOW]
    with tempfile.TemporaryDirectory() as name, Judges(choose_sandbox("bubblewrap"), limits) as open_judge:
        classroom = open_classroom(ROOT, Path(name), "02_all_reduce")
        for submission in chosen:
            folder = classroom.folder / "classroom" / "submitted" / submission.name / "02_all_reduce"
            submission.hand_in(folder, released_notebook(), right_answers())
        run = grade_class(open_course(classroom.folder), "02_all_reduce", open_judge)
    longest = max(run.records.values(), key=lambda record: record.seconds)
    over = longest.seconds - limits.submission_seconds - limits.reruns_seconds
    what = f"longest of {len(chosen)} hostile submissions ({longest.student}), beyond its limit"
    note(what, f"{over:+.0f} s", "≤ 10 s")


_SLOW = (
    "sleeps_all_day", "loops_in_a_cell_of_its_own", "ignores_signals_and_loops", "keeps_all_cores_busy",
    "sends_half_a_frame_byte_by_byte", "prints_200_megabytes", "starts_ten_thousand_threads",
    "has_300_megabytes_of_output", "has_60_000_lines_and_400_magics",
)  # fmt: skip
_SENDS_NOTHING = "def naive_all_reduce(comm, tensor):\n    pass\n"
_LOOPS = "def {}(comm, tensor):\n    while True:\n        pass\n"


def _class(folder: Path, students: list[str], exercise: str = "02_all_reduce") -> Classroom:
    classroom = open_classroom(ROOT, folder, exercise)
    right = [answer for answer in read_answers(exercise) if answer.is_right]
    styles = {name: [answer.text for answer in right if answer.function == name] for name in classroom.solutions()}
    for number, student in enumerate(students):
        classroom.hand_in(student, {name: texts[number % len(texts)] for name, texts in styles.items()})
    return classroom


def _one_rank(ranks: Ranks) -> None:
    rank = ranks.start(0)
    assert rank.run("told = 1") == ("done", 1)
    ranks.end(rank)


if __name__ == "__main__":
    forkserver.current()
    main()

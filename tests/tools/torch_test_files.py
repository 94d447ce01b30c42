"""torch's own tests of what is built on a process group, from files of torch's repository, with a backend of choice.

The files are those that torch keeps in test/distributed: of fully_shard, of DTensor, and of pipelining. Most of them
ask for GPUs although a CPU does as well, so the machine says here that it has some, which are its CPU.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from distlib.launch import script_rank
from distlib.launch.environment import Placement
from distlib.launch.head_process import be_head
from distlib.worlds import pickling
from tests.tools.cases_apart import Outcome, flat, in_child, run_case

AREAS = ("_composable/fsdp", "_tensor", "tensor", "pipelining")  # folders of test/distributed
GPUS, CPUS = 8, 4  # that the machine says it has: tests take as many processes
NOT_OURS: dict[str, str] = {}  # a test, and why it can't pass
_LIMIT = 300  # seconds for one test: on two cores some that have eight processes take 100
_WITHOUT_MESSAGES = ("fake", "threaded")  # backends that stand for one


def run_folder(folder: Path, names: list[str], backend: str) -> int:
    """Run the tests of torch's folder test/distributed with gloo, and those that pass with a backend; print what came.

    Args:
        folder: of torch's repository.
        names: of files, "pipelining/test_stage", or of a test in one, "pipelining/test_stage::test_manual"; none for
            all.
        backend: to run them with.

    Returns:
        0 if none fails that passes with gloo, but those in `NOT_OURS`.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for area in AREAS:
        for file in sorted((folder / area).rglob("test_*.py")):
            place = str(file.relative_to(folder))
            wanted = [name.partition("::") for name in names if place.startswith(name.partition("::")[0])]
            if names and not wanted:
                continue
            kinds = in_child(partial(_print_file, file, backend, [test for _, _, test in wanted if test]))
            if kinds is None:
                print(f"{place} can't be loaded", flush=True)
            counts.update((area, kind) for kind in kinds or [])
        passed, failed, without = (counts[area, kind] for kind in ("passed", "failed", "without"))
        total = passed + failed + counts[area, "named"]
        print(f"{area:18} {passed} of {total} that pass with gloo; {without} that don't, or ask for a GPU", flush=True)
    return int(any(kind == "failed" for _, kind in counts))


def _print_file(file: Path, backend: str, only: list[str]) -> list[str]:
    """Run the tests of a file. Returns what came of each: "passed", "failed", "named"; "without" if not with gloo."""
    kinds = []
    for name, outcomes in run_file(file, ["gloo", backend], only):
        last = outcomes[-1]
        if len(outcomes) == 1:
            kind = "without"
        else:
            kind = "passed" if last.kind == "passed" else "named" if name in NOT_OURS else "failed"
            if kind == "failed":
                print(last.told)
            why = NOT_OURS[name] if kind == "named" else ""
            print(f"{kind:8} {outcomes[0].seconds:6.1f} {last.seconds:6.1f} s  {file.stem} {name}  {why}", flush=True)
        kinds.append(kind)
    return kinds


def run_file(file: Path, backends: list[str], only: list[str]) -> Iterator[tuple[str, list[Outcome]]]:
    """Each test of a file with one backend after the other, as long as it passes.

    Args:
        file: of torch's.
        backends: their names.
        only: tests to run, by name; empty for all.

    Returns:
        pairs of the test's name, "Class.test", and what came of it with each backend. No pair for a test that asks for
        no process group between processes.
    """
    for case in _cases_of(file):
        if only and case._testMethodName not in only:
            continue
        outcomes: list[Outcome] = []
        for backend in backends:
            outcome = _run(case, backend)
            if outcome is None:
                break
            outcomes.append(outcome)
            if outcome.kind != "passed":
                break
        if outcomes:
            yield f"{type(case).__name__}.{case._testMethodName}", outcomes


def _cases_of(file: Path) -> list[Any]:
    _prepare()
    sys.path.insert(0, str(file.parent))
    module = importlib.import_module(file.stem)
    return list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))


def _run(case: unittest.TestCase, backend: str) -> Outcome | None:
    """What came of it; None if it passed, or was skipped, without asking for a process group."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked"
        os.environ["HOME"] = folder  # where distlib has its secret
        outcome = in_child(partial(_run_with, case, backend, asked), _LIMIT)
        if outcome is None:
            return Outcome("failed", _LIMIT, f"did not end within {_LIMIT} s")
        return outcome if asked.exists() else None


def _run_with(case: unittest.TestCase, backend: str, asked: Path) -> Outcome:
    import torch.distributed as dist

    _replace_backend(dist, backend, asked)
    _replace_backend(dist.distributed_c10d, backend, asked)
    return run_case(case)


def _replace_backend(module: Any, backend: str, asked: Path) -> None:
    """Have a module's functions that make process groups use this backend, and leave a file where they do."""
    init, new_group = module.init_process_group, module.new_group

    def with_backend(given: str | None = None, *positional: Any, **named: Any) -> Any:
        given = named.pop("backend", given)
        if given in _WITHOUT_MESSAGES:
            return init(given, *positional, **named)
        asked.touch()
        for options in ("pg_options", "device_id"):  # for another one
            named.pop(options, None)
        return init(backend, *positional, **named)

    def group_with_backend(*positional: Any, **named: Any) -> Any:
        if named.get("backend") not in (None, *_WITHOUT_MESSAGES):
            named["backend"] = backend
        return new_group(*positional, **named)

    module.init_process_group, module.new_group = with_backend, group_with_backend


def _prepare() -> None:
    """Make this process ready to load torch's test files: devices, and children by fork."""
    os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = str(_LIMIT)
    import torch
    import torch.multiprocessing
    from torch.testing._internal import common_distributed, common_fsdp

    torch.set_num_threads(1)
    torch.accelerator.device_count, torch.cpu.device_count = lambda: GPUS, lambda: CPUS
    common_fsdp.DEVICE_COUNT = CPUS
    common_distributed.skip_if_lt_x_gpu = _unless_devices
    common_distributed.requires_accelerator_dist_backend = lambda *_: lambda test: test
    context = torch.multiprocessing.get_context("fork")
    torch.multiprocessing.set_start_method("fork", force=True)
    torch.multiprocessing.get_context = lambda *_: context
    script_rank._start_head = _ForkedHead


class _ForkedHead:
    """In place of what `script_rank._start_head` starts: a head that is forked, and so has no modules to import."""

    def __init__(self, placement: Placement, patience: float) -> None:
        call = pickling.pack_call(script_rank.hand_over, (), {})
        find, parent = partial(script_rank.meeting_of, placement, patience), os.getpid()
        self._ended = False
        self._child = os.fork()
        if self._child == 0:
            try:
                be_head(placement, find, call, parent, patience=patience)
            finally:
                os._exit(0)

    def poll(self) -> int | None:
        """0 if it has ended, else None."""
        self._ended = self._ended or os.waitpid(self._child, os.WNOHANG)[0] != 0
        return 0 if self._ended else None

    def wait(self) -> None:
        """Until it has ended."""
        if self.poll() is None:
            os.waitpid(self._child, 0)
            self._ended = True


def _unless_devices(count: int, **_: Any) -> Callable[[Any], Any]:
    return unittest.skipIf(count > GPUS, f"needs {count} devices")

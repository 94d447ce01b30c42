"""torch's own tests of a backend, as they lie in its wheel, run with the backend "distlib":

    python -m tests.tools.torch_own_tests                       all
    python -m tests.tools.torch_own_tests test_all_reduce_sum   those of a name
    python -m tests.tools.torch_own_tests --backend gloo        with another backend

Each test has three processes, which are forked: all have torch already. The status is 0 if none fails that is not in
`NOT_OURS`, which says of each why. Needs the package expecttest.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distlib_backend

_LIMIT = "a barrier has no time limit here: when nobody can go on, the world says who is missing"
NOT_OURS = {  # a test, and why it can't pass
    "test_barrier_timeout_full_group": _LIMIT,
    "test_barrier_timeout_global": _LIMIT,
    "test_barrier_timeout_group": _LIMIT,
    "test_get_backend": "it expects the name gloo",
    "test_monitored_barrier_gloo_rank_0_timeout": "it calls the method of torch's C++ class, not the public function",
}


def main(arguments: list[str] | None = None) -> int:
    """Run them, and print a line for each, and a count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default=distlib_backend.NAME)
    given = parser.parse_args(arguments)
    distlib_backend.register()
    with tempfile.TemporaryDirectory() as folder:
        cases = _cases(given.backend, Path(folder))
        found = [case for case in _flat(cases) if not given.names or case._testMethodName in given.names]
        counts = {"passed": 0, "skipped": 0, "failed": 0, "named": 0}
        for case in found:
            said, seconds = _run(case)
            name = case._testMethodName
            kind = "named" if said == "failed" and name in NOT_OURS else said
            counts[kind] += 1
            if kind != "skipped":
                print(
                    f"{kind:8} {seconds:6.1f} s  {name}  {NOT_OURS.get(name, '') if kind == 'named' else ''}",
                    flush=True,
                )
    ran = counts["passed"] + counts["failed"] + counts["named"]
    share = 100 * counts["passed"] / max(1, ran)
    print(f"{given.backend}: {counts['passed']} of {ran} pass ({share:.1f} %), {counts['skipped']} are skipped")
    return int(counts["failed"] > 0)


def _cases(backend: str, folder: Path) -> unittest.TestSuite:
    """The tests that torch has for gloo, with this backend in its place."""
    for name in ("barrier", "test_dir", "init_dir"):
        (folder / name).mkdir()
    os.environ |= {"BACKEND": "gloo", "WORLD_SIZE": "3", "TEMP_DIR": str(folder), "HOME": str(folder)}
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    torch.set_num_threads(1)

    class WithFork(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        @classmethod
        def _run(cls, *given: Any, **named: Any) -> None:
            inits = dist.init_process_group
            dist.init_process_group = lambda *_, **options: inits(**{**options, "backend": backend})
            super()._run(*given, **named)

        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    WithFork.setUpClass()
    return unittest.defaultTestLoader.loadTestsFromTestCase(WithFork)


def _flat(suite: unittest.TestSuite) -> Iterator[Any]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _flat(each)
        else:
            yield each


def _run(case: unittest.TestCase) -> tuple[str, float]:
    """ "passed", "skipped" or "failed", and the seconds that it took. What it prints is shown where it fails."""
    start, result = time.monotonic(), unittest.TestResult()
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        with _output_to(printed.fileno()):
            case.run(result)
        printed.seek(0)
        told = printed.read().splitlines() + [
            line for _, text in result.failures + result.errors for line in text.splitlines()
        ]
    seconds = time.monotonic() - start
    if result.skipped:
        return "skipped", seconds
    if not result.wasSuccessful():
        print("\n".join(line for line in told if not line.startswith(("USDT", "I1"))), flush=True)
        return "failed", seconds
    return "passed", seconds


@contextlib.contextmanager
def _output_to(fd: int) -> Iterator[None]:
    """In this block, what this process and its children print goes there."""
    saved = os.dup(1), os.dup(2)
    sys.stdout.flush()
    for number in (1, 2):
        os.dup2(fd, number)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, before in zip((1, 2), saved, strict=True):
            os.dup2(before, number)
            os.close(before)


if __name__ == "__main__":
    sys.exit(main())

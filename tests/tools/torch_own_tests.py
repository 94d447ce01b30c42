"""torch's own tests, run with the backend "distlib".

Those of a backend lie in torch's wheel:

    python -m tests.tools.torch_own_tests                       all
    python -m tests.tools.torch_own_tests test_all_reduce_sum   those of a name
    python -m tests.tools.torch_own_tests --backend gloo        with another backend

Those of fully_shard, DTensor and pipelining lie in torch's repository alone, in the folder test/distributed. They are
no part of this course: fetch the repository, at the tag of the torch that is installed, and name its folder. Each test
runs with gloo first, and if it passes, with distlib; see torch_test_files:

    python -m tests.tools.torch_own_tests --from pytorch/test/distributed                         all
    python -m tests.tools.torch_own_tests --from pytorch/test/distributed pipelining/test_stage   of a file

Each test has two to four processes, which are forked: all have torch already. The status is 0 if none fails that is not
in a list `NOT_OURS`, which says of each why. Needs the package expecttest.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import distlib_backend
from tests.tools.cases_apart import flat, run_case
from tests.tools.torch_test_files import run_folder

_LIMIT = "a barrier has no time limit here: when nobody can go on, the world says who is missing"
NOT_OURS = {  # a test, and why it can't pass
    "test_barrier_timeout_full_group": _LIMIT,
    "test_barrier_timeout_global": _LIMIT,
    "test_barrier_timeout_group": _LIMIT,
    "test_get_backend": "it expects the name gloo",
}


def main(arguments: list[str] | None = None) -> int:
    """Run them, and print a line for each, and a count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default=distlib_backend.NAME)
    parser.add_argument("--from", dest="folder", type=Path, help="torch's folder test/distributed")
    given = parser.parse_args(arguments)
    distlib_backend.register()
    if given.folder is not None:
        return run_folder(given.folder, given.names, given.backend)
    with tempfile.TemporaryDirectory() as folder:
        cases = _cases(given.backend, Path(folder))
        found = [case for case in flat(cases) if not given.names or case._testMethodName in given.names]
        counts = {"passed": 0, "skipped": 0, "failed": 0, "named": 0}
        for case in found:
            outcome, name = run_case(case), case._testMethodName
            kind = "named" if outcome.kind == "failed" and name in NOT_OURS else outcome.kind
            counts[kind] += 1
            if kind == "failed":
                print("\n".join(line for line in outcome.told.splitlines() if not line.startswith(("USDT", "I1"))))
            if kind != "skipped":
                why = NOT_OURS.get(name, "") if kind == "named" else ""
                print(f"{kind:8} {outcome.seconds:6.1f} s  {name}  {why}", flush=True)
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


if __name__ == "__main__":
    sys.exit(main())

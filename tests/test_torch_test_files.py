"""torch's test files run with two backends, by turns; here one that is written like them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILE = """
import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase, skip_if_lt_x_gpu


class Sums(MultiProcessTestCase):
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def begin(self):
        dist.init_process_group("nccl", init_method=f"file://{self.file_name}", rank=self.rank, world_size=2)
        dist.barrier()  # else a rank may be gone before the other one has found it

    @skip_if_lt_x_gpu(2)
    def test_sum(self):
        self.begin()
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.full((3,), 2.0))

    def test_name(self):
        self.begin()
        self.assertEqual(dist.get_backend(), "gloo")

    def test_wrong(self):
        self.begin()
        self.assertTrue(False)

    def test_without_a_group(self):
        self.assertTrue(True)
"""


def test_a_test_that_passes_with_gloo_runs_with_distlib(tmp_path: Path) -> None:
    (tmp_path / "pipelining").mkdir()
    (tmp_path / "pipelining" / "test_sums.py").write_text(FILE)
    command = [sys.executable, "-m", "tests.tools.torch_own_tests", "--from", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    said = {line.split()[-1]: line.split()[0] for line in ended.stdout.splitlines() if " test_sums Sums." in line}
    assert said == {"Sums.test_sum": "passed", "Sums.test_name": "failed"}, ended.stdout + ended.stderr
    assert "1 of 2 that pass with gloo; 1 that don't" in ended.stdout
    assert "'distlib' != 'gloo'" in ended.stdout
    assert ended.returncode == 1

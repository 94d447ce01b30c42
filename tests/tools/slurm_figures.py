"""A `SlurmWorld` on a local Slurm: how soon a cell has its results, and a lost node its name. Part of `make bench`.

Both nodes are this machine, so two processes import torch at the same time, on its cores. So the first call is also
compared with an import of torch and distlib in the same job.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jupyter_client.manager import start_new_kernel

from tests.tools import slurm_cluster
from tests.tools.slurm_cluster import SlurmCluster

Row = tuple[str, str, str]  # what, measured, to reach
_WORLD = "SlurmWorld, 2 × 2 ranks on 2 Slurm nodes"
_LOST_NODE = Path(__file__).parents[1] / "launch" / "slurm_lost_node.py"
_KERNELS = 3
_IMPORTS = """
import time, torch
from pathlib import Path
from distlib import all_reduce
from distlib.launch.slurm_world import SlurmWorld

def total(comm):
    tensor = torch.full((1000,), float(comm.rank))
    all_reduce(comm, tensor, algorithm="ring")
    return float(tensor[-1])
"""
_FIRST = """
start = time.perf_counter()
world = SlurmWorld(2, directory=Path({directory!r}))
assert world.run(total) == [6.0] * 4
print(time.perf_counter() - start)
"""
_LATER = """
for _ in range(20):
    start = time.perf_counter()
    world.run(total)
    print(time.perf_counter() - start)
world.close()
"""


def figures() -> Iterator[Row]:
    """Everything, row by row; one row with the reason where Slurm can't be had."""
    reason = slurm_cluster.missing()
    if reason:
        yield _WORLD, f"not measured: {reason}", "≤ 10 s"
        return
    with _cluster() as cluster:
        yield from calls(cluster)
        yield from lost_node(cluster, "killed", cluster.kill_node)
    with _cluster() as cluster:
        yield from lost_node(cluster, "cut off", cluster.machines.cut_off)


def calls(cluster: SlurmCluster) -> Iterator[Row]:
    """The first call in a notebook that has just imported distlib, and later ones."""
    job = [*_job(), "-m", __name__]
    told = [json.loads(cluster.run(*job, str(cluster.folder / "meeting")).stdout) for _ in range(_KERNELS)]
    firsts, imports = [each["first"] for each in told], [each["import"] for each in told]
    ratio = statistics.median(first / alone for first, alone in zip(firsts, imports, strict=True))
    measured = f"{statistics.median(firsts):.1f} s ({min(firsts):.1f} to {max(firsts):.1f})"
    yield f"{_WORLD}: first call in a notebook", measured, "≤ 10 s"
    yield "    against one import of torch and distlib", f"{ratio:.1f} × {statistics.median(imports):.1f} s", "—"
    later = [1000 * seconds for each in told for seconds in each["later"]]
    yield f"{_WORLD}: a later call", f"{statistics.median(later):.0f} ms (longest {max(later):.0f})", "≤ 100 ms"


def lost_node(cluster: SlurmCluster, what: str, lose: Callable[[int], None]) -> Iterator[Row]:
    """In the middle of a run, one of the nodes comes to an end."""
    command = [*_job(), str(_LOST_NODE), str(cluster.folder / "meeting"), "--once"]
    with cluster.start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
        assert job.stdout is not None
        job.stdout.readline()  # now they compute
        start = time.monotonic()
        lose(2)
        told = json.loads(job.stdout.readline())
        assert told["lost"] == [2, 3] and "on node n2" in told["told"]
        yield f"one of 2 nodes {what} in a run → named in the notebook", f"{told['at'] - start:.1f} s", "≤ 5 s"
    while any(_ranks(cluster, node) for node in (1, 2)):
        time.sleep(0.05)
    yield f"one of 2 nodes {what} → notebook ended, no rank left", f"{time.monotonic() - start:.1f} s", "—"


@contextlib.contextmanager
def _cluster() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, SlurmCluster(Path(folder), 2) as cluster:
        yield cluster


def _job() -> list[str]:
    return ["salloc", "--nodes=2", "srun", "--overlap", "--nodes=1", "--ntasks=1", sys.executable]


def _ranks(cluster: SlurmCluster, node: int) -> list[str]:
    return [pid for pid in cluster.machines.processes(node) if "slurm_node" in _command(pid)]


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


# ── in the job ───────────────────────────────────────────────────────────────────────────────────────────────────────


def main(directory: str) -> None:
    """Measure in a real kernel, and print a line of JSON."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch, distlib"], check=True)
    alone = time.perf_counter() - start
    manager, client = start_new_kernel(kernel_name="python3")
    printed: list[str] = []
    try:
        for code in (_IMPORTS, _FIRST.format(directory=directory), _LATER):
            hook = lambda message: printed.append(message["content"].get("text", ""))  # noqa: E731
            reply = client.execute_interactive(code, output_hook=hook, timeout=120)
            assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    first, *later = map(float, "".join(printed).split())
    print(json.dumps({"import": alone, "first": first, "later": later}))


if __name__ == "__main__":
    main(*sys.argv[1:])

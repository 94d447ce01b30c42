"""A class graded on two nodes of a local Slurm, by the script of the guide, against one node. Part of `make bench`.

Both nodes are this machine, so each gets less than half of its two processors: then two nodes have twice what one has.
It takes a quarter of an hour, and wants a machine that does nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from distlib.classroom.class_folder import Classroom
from tests.tools import cpu_limit, slurm_cluster
from tests.tools.cpu_limit import CpuLimit
from tests.tools.slurm_cluster import SlurmCluster

Row = tuple[str, str, str]  # what, measured, to reach
ROOT = Path(__file__).parents[2]
CORES = 0.9  # of a processor, for each node
SIZE = 120  # hand-ins
_WHAT = f"class of {SIZE} on two Slurm nodes of {CORES:g} processors each, against one"
_ASSIGNMENT = "02_all_reduce"


def figures(make_class: Callable[[Path, list[str]], Classroom]) -> Iterator[Row]:
    """Everything, row by row; one row with the reason where this can't be had.

    make_class: fills a folder with a class of these students.
    """
    reason = slurm_cluster.missing() or cpu_limit.missing()
    if reason:
        yield _WHAT, f"not measured: {reason}", "—"
        return
    students = [f"student-{number:03}" for number in range(SIZE)]
    with tempfile.TemporaryDirectory() as folder, _cluster() as (cluster, limits):
        one, two = (make_class(Path(folder) / name, students) for name in ("one", "two"))
        alone = _seconds(cluster, one, _grade())
        idle = _seconds(cluster, one, _grade())
        shares = _seconds(cluster, two, ["--array=1-2", "share.sh"])
        last = _seconds(cluster, two, _grade())
        assert [one.marks(student) for student in students] == [two.marks(student) for student in students]
        full = min(limit.was_full() for limit in limits)
    yield _WHAT, f"{alone / (shares + last):.2f}× ({alone:.0f} against {shares:.0f} + {last:.0f} s)", "≥ 1.8×"
    yield "    periods in which a node used all that it may", f"≥ {full:.0%}", "—"
    yield "    one node, nothing to judge", f"{idle:.0f} s", "—"
    each = (alone - idle) / SIZE  # seconds of a hand-in
    writing = max(0.0, last - idle) / SIZE  # and of it in the last run, which one node does
    more = 300 - SIZE
    many = (alone + more * each) / (shares + more / 2 * (each - writing) + last + more * writing)
    yield "    computed from these, for 300 hand-ins", f"{many:.2f}×", "—"


@contextlib.contextmanager
def _cluster() -> Iterator[tuple[SlurmCluster, list[CpuLimit]]]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-"))
        limits = [stack.enter_context(CpuLimit(f"distlib-{os.getpid()}-n{node}", CORES)) for node in (1, 2)]
        yield stack.enter_context(SlurmCluster(Path(folder), 2, limits)), limits


def share_script() -> str:
    """The batch script of the guide for instructors."""
    guide = (ROOT / "solutions" / "README.md").read_text(encoding="utf-8")
    lines = guide.split("put a file `share.sh`", 1)[1].split("The first of these commands")[0].splitlines()
    return "".join(f"{line[4:]}\n" for line in lines if line.startswith("    "))


def prepare(folder: Path, distlib: str) -> None:
    """Put the guide's script into a course's folder, and a program that stands for `.venv/bin/distlib`."""
    (folder / "share.sh").write_text(share_script())
    program = folder / ".venv" / "bin" / "distlib"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/bash\n{distlib}\n")
    program.chmod(0o755)


def _grade() -> list[str]:
    """A grading of all on one node, as sbatch wants it."""
    return ["--nodelist=n1", "--cpus-per-task=4", "--wrap", f".venv/bin/distlib grade {_ASSIGNMENT} --jobs 4"]


def _seconds(cluster: SlurmCluster, classroom: Classroom, words: list[str]) -> float:
    """How long a job takes that has its nodes for itself, until its last word: sbatch looks only every half minute."""
    prepare(classroom.folder, f'PYTHONPATH={ROOT} exec {sys.executable} -m distlib.cli "$@"')
    command = ["sbatch", "--wait", "--exclusive", f"--chdir={classroom.folder}", *words]
    start = time.time()
    with cluster.start(command, cwd=classroom.folder, stdout=subprocess.DEVNULL) as job:
        assert job.wait(timeout=3600) == 0, said(classroom.folder)
    return max(path.stat().st_mtime for path in _printed(classroom.folder)) - start


def said(folder: Path) -> str:
    """What jobs have printed, but for the progress."""
    text = "\n".join(path.read_text() for path in _printed(folder))
    return re.sub(r"^\d+ of \d+, .*\n", "", text, flags=re.MULTILINE)


def _printed(folder: Path) -> list[Path]:
    return sorted(folder.glob("slurm-*.out"))

"""The guide's script on a real Slurm: an array of jobs judges a class on two nodes, and a last job does the rest."""

import csv
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import slurm_cluster
from tests.tools.share_figures import prepare, said
from tests.tools.slurm_cluster import SlurmCluster
from tests.tools.tiny_course import NAME, RIGHT, ROOT, TinyCourse

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
# What `.venv/bin/distlib` does here: the same, with a simple judge.
PROGRAM = """
import sys
from contextlib import nullcontext
from distlib.cli import grade, main
from tests.tools.tiny_course import simple_judges
grade.sandboxed_judges = lambda kind: nullcontext(simple_judges)
sys.exit(main(sys.argv[1:]))
"""
DISTLIB = f'PYTHONPATH={ROOT} exec {sys.executable} -c {shlex.quote(PROGRAM)} "$@"'


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    reason = slurm_cluster.missing()
    if reason:
        pytest.skip(reason)
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), 2) as made:
        yield made


def test_an_array_judges_and_a_last_job_writes_the_marks(
    cluster: SlurmCluster, tiny_course: TinyCourse, tmp_path: Path
) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    for student in "abcde":
        course.hand_in(student, RIGHT)
    prepare(course.root, DISTLIB)
    script = course.root / "share.sh"
    script.write_text(script.read_text().replace("02_all_reduce", NAME))

    array = cluster.run("sbatch", "--parsable", "--exclusive", "--array=1-2", "share.sh", cwd=course.root)
    assert array.returncode == 0, array.stderr
    rest = f".venv/bin/distlib grade {NAME}"
    after = f"--dependency=afterany:{array.stdout.strip()}"
    last = cluster.run("sbatch", "--wait", after, "--wrap", rest, cwd=course.root)
    assert last.returncode == 0, last.stderr + said(course.root)

    printed = said(course.root)
    assert "Share 1/2: 3 of 5 students: 3 judged." in printed and "Share 2/2: 2 of 5 students: 2 judged." in printed
    assert "5 submissions had been judged by shares." in printed
    rows = csv.DictReader((course.root / "classroom" / "graded" / NAME / "marks.csv").open())
    assert [(row["student"], row["score"]) for row in rows] == [(student, "6") for student in "abcde"]

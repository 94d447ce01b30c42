"""The submissions of tests/hostile, graded as one class in a sandbox, with an honest neighbor at each end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from distlib.classroom.class_folder import Classroom, open_classroom
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.course import open_course
from distlib.judge.remote.judge import Judges
from distlib.judge.sandbox import KINDS, Limits, choose_sandbox
from distlib.judge.sandbox.limits import MEBIBYTE
from tests.tools.hostile_submissions import ASSIGNMENT, HostileSubmission, read_hostile, released_notebook

HOSTILE = read_hostile()
NEIGHBORS = ("aaa-first", "zzz-last")
QUICK = Limits(check_seconds=6, submission_seconds=60, cells_seconds=12, together_bytes=512 * MEBIBYTE)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2700),
    pytest.mark.skipif(KINDS["bubblewrap"]().problem() is not None, reason="needs a working bubblewrap"),
]


@pytest.fixture(scope="module")
def before() -> set[int]:
    """The processes that this one had started before."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


@pytest.fixture(scope="module")
def graded(
    before: set[int], root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Classroom, ClassRun]]:
    """The class after its grading."""
    classroom = open_classroom(root, tmp_path_factory.mktemp("hostile"), ASSIGNMENT)
    answers = classroom.solutions()
    for neighbor in NEIGHBORS:
        classroom.hand_in(neighbor, answers)
    for submission in HOSTILE:
        folder = classroom.folder / "classroom" / "submitted" / submission.name / ASSIGNMENT
        submission.hand_in(folder, released_notebook(), answers)
    with Judges(choose_sandbox("bubblewrap"), QUICK) as open_judge:
        run = grade_class(open_course(classroom.folder), ASSIGNMENT, open_judge, jobs=2)
    yield classroom, run


@pytest.mark.parametrize("submission", HOSTILE, ids=lambda submission: submission.name)
def test_it_gets_the_marks_that_its_functions_deserve(
    graded: tuple[Classroom, ClassRun], submission: HostileSubmission
) -> None:
    record = graded[1].records[submission.name]
    if submission.deserves is None:
        assert record.problem, "it was graded"
        return
    assert not record.problem
    marks = {cell: mark.score for cell, mark in graded[1].marks[submission.name].items()}
    full = graded[0].full_marks()
    deserved = {cell: full[cell] if cell.rsplit("_", 1)[0] in submission.deserves else 0 for cell in full}
    assert marks == deserved, record.remarks


def test_the_neighbors_have_all_marks(graded: tuple[Classroom, ClassRun]) -> None:
    for neighbor in NEIGHBORS:
        assert graded[1].records[neighbor].state == "graded"
        assert {cell: mark.score for cell, mark in graded[1].marks[neighbor].items()} == graded[0].full_marks()


def test_nothing_is_left_running_or_listening(graded: tuple[Classroom, ClassRun], before: set[int]) -> None:
    left = [process.cmdline() for process in psutil.Process().children(recursive=True) if process.pid not in before]
    ours = [command for command in left if "from multiprocessing." in " ".join(command)]  # they wait for the next class
    assert [command for command in left if command not in ours] == []
    assert [port for port in psutil.Process().net_connections() if port.status == psutil.CONN_LISTEN] == []

"""The submissions of tests/hostile, graded as a class in a sandbox, with an honest neighbor at each end.

Most of them do harm in one function, or around all of them. Two functions tell as much about these as four: the one in
which the harm is done, and one that keeps its marks; and few cases as much as many. Every one is read, transplanted,
judged and settled. Those of which the same notebook is made, since they are odd only as files, are judged once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat
import psutil
import pytest

from distlib.classroom.class_folder import Classroom, open_classroom
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.course import open_course
from distlib.classroom.grader.examine import OpenJudge
from distlib.judge.remote.judge import Judges
from distlib.judge.sandbox import KINDS, Limits, choose_sandbox
from distlib.judge.sandbox.limits import MEBIBYTE
from tests.tools.hostile_submissions import ASSIGNMENT, HostileSubmission, read_hostile
from tests.tools.judged_once import judged_once
from tests.tools.judged_seed import judged_seed
from tests.tools.short_course import FEWER_CASES, short_course

HOSTILE = read_hostile()
SHORT = ("naive_all_reduce", "ring_all_reduce")
NEIGHBORS = ("aaa-first", "zzz-last")
QUICK = Limits(check_seconds=4, submission_seconds=160, cells_seconds=8, together_bytes=512 * MEBIBYTE)
JOBS = 4  # some of them only wait

Graded = tuple[Classroom, ClassRun]

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
def graded(before: set[int], root: Path, tmp_path_factory: pytest.TempPathFactory) -> Graded:
    """The class after its grading."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "judged").mkdir()
    with Judges(choose_sandbox("bubblewrap"), QUICK) as open_judge:
        return grade_hostile(root, folder, judged_once(open_judge, folder / "judged"))


def grade_hostile(root: Path, folder: Path, open_judge: OpenJudge) -> Graded:
    """Make the class in a folder, and grade it."""
    project = short_course(root, folder / "short", ASSIGNMENT, SHORT, FEWER_CASES)
    return graded_class(project, folder / "class", HOSTILE, open_judge)


def graded_class(
    project: Path, folder: Path, submissions: Sequence[HostileSubmission], open_judge: OpenJudge
) -> Graded:
    """A class of some submissions, and honest neighbors."""
    classroom = open_classroom(project, folder, ASSIGNMENT)
    answers = classroom.solutions()
    for neighbor in NEIGHBORS:
        classroom.hand_in(neighbor, answers)
    released = classroom.folder / "exercises" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    for submission in submissions:
        place = classroom.folder / "classroom" / "submitted" / submission.name / ASSIGNMENT
        submission.hand_in(place, nbformat.read(released, as_version=4), answers)
    return classroom, grade_class(open_course(classroom.folder), ASSIGNMENT, open_judge, jobs=JOBS, seed=judged_seed())


@pytest.mark.parametrize("submission", HOSTILE, ids=lambda submission: submission.name)
def test_it_gets_the_marks_that_its_functions_deserve(graded: Graded, submission: HostileSubmission) -> None:
    has_the_marks_that_it_deserves(*graded, submission)


def has_the_marks_that_it_deserves(classroom: Classroom, run: ClassRun, submission: HostileSubmission) -> None:
    record = run.records[submission.name]
    if submission.deserves is None:
        assert record.problem, "it was graded"
        return
    assert not record.problem
    marks = {cell: mark.score for cell, mark in run.marks[submission.name].items()}
    full = classroom.full_marks()
    deserved = {cell: full[cell] if cell.rsplit("_", 1)[0] in submission.deserves else 0 for cell in full}
    assert marks == deserved, record.remarks


def undeserved(graded: Graded) -> list[str]:
    """The names of the submissions, and neighbors, that did not get what they deserve."""
    wrong = []
    for submission in HOSTILE:
        try:
            has_the_marks_that_it_deserves(*graded, submission)
        except AssertionError:
            wrong.append(submission.name)
    try:
        have_all_marks(*graded)
    except AssertionError:
        wrong.append("neighbors")
    return wrong


def test_the_neighbors_have_all_marks(graded: Graded) -> None:
    have_all_marks(*graded)


def have_all_marks(classroom: Classroom, run: ClassRun) -> None:
    assert {cell.rsplit("_", 1)[0] for cell in classroom.full_marks()} == set(SHORT)
    for neighbor in NEIGHBORS:
        assert run.records[neighbor].state == "graded"
        assert {cell: mark.score for cell, mark in run.marks[neighbor].items()} == classroom.full_marks()


def test_nothing_is_left_running_or_listening(graded: Graded, before: set[int]) -> None:
    left = [process.cmdline() for process in psutil.Process().children(recursive=True) if process.pid not in before]
    ours = [command for command in left if "from multiprocessing." in " ".join(command)]  # they wait for the next class
    assert [command for command in left if command not in ours] == []
    assert [port for port in psutil.Process().net_connections() if port.status == psutil.CONN_LISTEN] == []

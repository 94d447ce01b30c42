"""Answers in tests/answers get the marks they deserve: put into the notebook and graded for real.

`test_answers_fast` judges every answer, on simulated ranks. Here is what differs in a sandbox, graded by the judge of
`distlib grade`: of every exercise the solutions, an empty notebook, the answers that only real ranks can judge, those
whose students read something else there, since they reach for what a sandbox does not have, and a few plain ones, see
`sample`. By plain nbgrader, which takes longer, the plain ones of one exercise. `make answers` grades all of them with
the judge, `make answers ARGS=--nbgrader` with nbgrader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import nbformat
import pytest

from distlib.classroom.class_folder import Classroom, open_classroom
from distlib.classroom.grader.definitions import is_stub
from distlib.cli.grade import sandboxed_judges
from tests.answer_files import ASSIGNMENTS, Answer, read_answers, sample, submissions
from tests.answer_verdicts import KINDS
from tests.answers_fast import SLOW
from tests.answers_table import Verdict, grade_with_the_judge, hand_in_all, table, told_in, verdicts
from tests.tools.judged_seed import judged_seed
from tests.tools.nbgrader_process import QuickClassroom
from tests.tools.short_course import FEWER_TRAININGS, short_course

ANSWERS = {assignment: read_answers(assignment) for assignment in ASSIGNMENTS}
# Plain nbgrader takes long. This exercise has most kinds of checks: scenarios with functions and with classes, and a
# pure function. Here a wrong answer that values give away, and how what its student is told begins and goes on.
TOLD = {
    "05_ddp": (
        "average_gradients/wrong_sum",
        "average_gradients on 2 ranks, 2 parameters: on rank 0, the gradient of parameter 0 is wrong.",
        "Usual cause: this is the sum over the ranks.",
    ),
}
SAMPLES = {assignment: sample(ANSWERS[assignment], {told[0]}) for assignment, told in TOLD.items()}


def only_in_a_sandbox(answers: Sequence[Answer]) -> set[str]:
    """The answers that are judged there as they are nowhere else."""
    return {str(answer) for answer in answers if str(answer) in SLOW or answer.told != answer.told_by_the_judge}


JUDGED = {assignment: sample(answers, only_in_a_sandbox(answers)) for assignment, answers in ANSWERS.items()}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


def stubs(root: Path, assignment: str) -> set[str]:
    """The functions that students get empty. Others are programs to mend."""
    notebook = nbformat.read(root / "exercises" / assignment / f"{assignment}.ipynb", as_version=4)
    marked = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return {cell.metadata.nbgrader.grade_id for cell in marked if is_stub(cell.source)}


def student_of(answers: Sequence[Answer], name: str) -> str:
    """The student that hands in the answer of this name."""
    return next(who for who, row in submissions(answers).items() if name in map(str, row))


@pytest.fixture(scope="module")
def judged(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], tuple[Classroom, list[Verdict]]]]:
    """The class of an assignment with its answers, graded by the judge when it is first asked for; what each got.

    All classes have their rooms in one sandbox.
    """
    with sandboxed_judges("auto") as open_judge:

        @cache
        def graded(assignment: str) -> tuple[Classroom, list[Verdict]]:
            made = open_classroom(root, tmp_path_factory.mktemp("judged"), assignment, QuickClassroom)
            hand_in_all(made, JUDGED[assignment])
            grade_with_the_judge(made, open_judge, seed=judged_seed())
            return made, verdicts(made, JUDGED[assignment], by_the_judge=True)

        yield graded


@pytest.fixture(scope="module")
def classrooms(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Classroom]:
    """The class of an assignment with a sample of answers, graded by nbgrader when it is first asked for."""

    @cache
    def graded(assignment: str) -> Classroom:
        functions = sorted({answer.function for answer in ANSWERS[assignment]})
        course = short_course(root, tmp_path_factory.mktemp("course"), assignment, functions, FEWER_TRAININGS)
        made = open_classroom(course, tmp_path_factory.mktemp("answers"), assignment, QuickClassroom)
        hand_in_all(made, SAMPLES[assignment])
        made.autograde("left-*", "right-*")
        return made

    return graded


@pytest.fixture(params=TOLD)
def assignment(request: pytest.FixtureRequest) -> str:
    """Each assignment that nbgrader grades a sample of, in turn."""
    return str(request.param)


@pytest.fixture
def classroom(assignment: str, classrooms: Callable[[str], Classroom]) -> Classroom:
    """The graded class of the assignment."""
    return classrooms(assignment)


# ── by the judge ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [answer for answers in JUDGED.values() for answer in answers], ids=str)
def test_an_answer_gets_the_marks_it_deserves_and_is_told_why(
    judged: Callable[[str], tuple[Classroom, list[Verdict]]], answer: Answer
) -> None:
    (verdict,) = [verdict for verdict in judged(answer.assignment)[1] if verdict.answer == answer]
    assert verdict.given == verdict.expected, verdict.said
    assert verdict.is_told, verdict.said


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_the_judge_gives_the_solutions_all_marks_and_an_empty_notebook_none(
    judged: Callable[[str], tuple[Classroom, list[Verdict]]], root: Path, assignment: str
) -> None:
    classroom, found = judged(assignment)
    assert classroom.marks("left-solutions") == classroom.full_marks(), told_in(classroom, "left-solutions")
    assert set(classroom.marks("right-empty").values()) == {0}
    told, empty = told_in(classroom, "right-empty"), stubs(root, assignment)
    assert empty and all("it is not written yet" in told[f"{name}_{kind}"] for name in empty for kind in KINDS)
    assert f"{len(found)} of {len(found)} answers are judged as they should be." in table(found)


# ── by nbgrader ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [answer for answers in SAMPLES.values() for answer in answers], ids=str)
def test_nbgrader_gives_the_same_marks(classrooms: Callable[[str], Classroom], answer: Answer) -> None:
    found = verdicts(classrooms(answer.assignment), SAMPLES[answer.assignment], by_the_judge=False)
    (verdict,) = [verdict for verdict in found if verdict.answer == answer]
    assert verdict.given == verdict.expected


def test_the_solutions_get_all_marks_and_run_without_an_error(classroom: Classroom) -> None:
    assert classroom.marks("left-solutions") == classroom.full_marks()
    outputs = [output for cell in classroom.graded_notebook("left-solutions").cells for output in _outputs(cell)]
    assert [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"] == []


def test_an_empty_notebook_gets_nothing_and_is_told_so(classroom: Classroom) -> None:
    assert set(classroom.marks("right-empty").values()) == {0}
    for name, text in told_in(classroom, "right-empty").items():
        assert "it is not written yet" in text, name


def test_what_a_function_prints_is_shown_and_costs_nothing(classroom: Classroom, assignment: str) -> None:
    printing = [answer for answer in SAMPLES[assignment] if answer.is_right and "print(" in answer.text]
    assert printing
    for answer in printing:
        student = student_of(SAMPLES[assignment], str(answer))
        visible = _cell(classroom, student, f"{answer.function}_visible")
        hidden = _cell(classroom, student, f"{answer.function}_hidden")
        assert {output.name for output in [*visible.outputs, *hidden.outputs]} == {"stdout"}, answer
        assert f"Printed by {answer.function}" in visible.outputs[0].text, answer


def test_a_failed_check_shows_its_remark_without_a_stack(classroom: Classroom, assignment: str) -> None:
    name, beginning, cause = TOLD[assignment]
    told = told_in(classroom, student_of(SAMPLES[assignment], name))[f"{name.split('/')[0]}_visible"]
    assert told.startswith(beginning)
    assert cause in told
    assert "Traceback" not in told and "checks.py" not in told


def test_feedback_and_export(classroom: Classroom, assignment: str) -> None:
    name, _, cause = TOLD[assignment]
    student = student_of(SAMPLES[assignment], name)
    classroom.nbgrader("generate_feedback", assignment, "--student", student)
    page = classroom.folder / "classroom" / "feedback" / student / assignment / f"{assignment}.html"
    assert cause in " ".join(page.read_text(encoding="utf-8").split())

    classroom.nbgrader("export")
    rows = (classroom.folder / "classroom" / "grades.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(submissions(SAMPLES[assignment])) + 2
    (row,) = [row for row in rows if ",left-solutions," in row]
    assert str(sum(classroom.full_marks().values())) in row.split(",")


def _cell(classroom: Classroom, student: str, grade_id: str):  # type: ignore[no-untyped-def]
    cells = classroom.graded_notebook(student).cells
    return next(cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def _outputs(cell) -> list:  # type: ignore[no-untyped-def,type-arg]
    return cell.get("outputs", [])

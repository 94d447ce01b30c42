"""Every answer in tests/answers gets the marks it deserves: put into the notebook and graded by the real nbgrader.

The parts of an exercise are graded independently of each other. So answers to different functions share a submission,
and the number of submissions is that of the function with the most answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

from distlib.grading.classroom import Classroom, open_classroom
from tests.answer_files import ASSIGNMENTS, Answer, read_answers

ANSWERS = {assignment: read_answers(assignment) for assignment in ASSIGNMENTS}
ALL_ANSWERS = [answer for answers in ANSWERS.values() for answer in answers]
# For each assignment a wrong answer that values give away, and how what its student is told begins and goes on.
TOLD = {
    "01_messages": (
        "reduce/wrong_average",
        "reduce on 2 ranks, 6 float32: on rank 0 the tensor is wrong.",
        "Usual cause: this is the average.",
    ),
    "02_all_reduce": (
        "ring_all_reduce/wrong_average",
        "ring_all_reduce on 2 ranks, 8 float32: on rank 0, chunk 0 (elements 0 to 3) is wrong.",
        "Usual cause: this is the average.",
    ),
    "03_trees_and_grids": (
        "tree_all_reduce/wrong_average",
        "tree_all_reduce on 2 ranks, 6 float32: on rank 0 the tensor is wrong.",
        "Usual cause: this is the average.",
    ),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def submissions(assignment: str) -> dict[str, list[Answer]]:
    """Answers side by side, by the name of the student that hands them in."""
    answers = ANSWERS[assignment]
    functions = sorted({answer.function for answer in answers})
    shared = [[a for a in answers if a.function == function and not a.is_alone] for function in functions]
    rows = [[answer for answer in row if answer] for row in zip_longest(*shared)]
    rows.append([answer for answer in answers if answer.is_alone])
    return {f"{'left' if number % 2 else 'right'}-{number}": row for number, row in enumerate(rows) if row}


def student_of(assignment: str, name: str) -> str:
    """The student that hands in the answer of this name."""
    found = [who for who, answers in submissions(assignment).items() if name in map(str, answers)]
    return found[0]


@pytest.fixture(scope="module")
def classrooms(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Classroom]:
    """The class of an assignment, graded when it is first asked for."""

    @cache
    def graded(assignment: str) -> Classroom:
        made = open_classroom(root, tmp_path_factory.mktemp("answers"), assignment)
        solutions = made.solutions()
        for student, answers in submissions(assignment).items():
            made.hand_in(student, solutions | {answer.function: answer.text for answer in answers}, only_graded=True)
        made.hand_in("left-solutions", solutions)
        made.hand_in("right-empty", {})
        made.autograde("left-*", "right-*")
        return made

    return graded


@pytest.fixture(params=ASSIGNMENTS)
def assignment(request: pytest.FixtureRequest) -> str:
    """Each assignment in turn."""
    return str(request.param)


@pytest.fixture
def classroom(assignment: str, classrooms: Callable[[str], Classroom]) -> Classroom:
    """The graded class of the assignment."""
    return classrooms(assignment)


@pytest.mark.parametrize("answer", ALL_ANSWERS, ids=str)
def test_an_answer_gets_the_marks_it_deserves(classrooms: Callable[[str], Classroom], answer: Answer) -> None:
    classroom = classrooms(answer.assignment)
    marks, full = classroom.marks(student_of(answer.assignment, str(answer))), classroom.full_marks()
    cells = {kind: f"{answer.function}_{kind}" for kind in ("visible", "hidden")}
    expected = {kind: 0 if kind in answer.loses else full[cell] for kind, cell in cells.items()}
    assert {kind: marks[cell] for kind, cell in cells.items()} == expected


def test_the_solutions_get_all_marks_and_run_without_an_error(classroom: Classroom) -> None:
    assert classroom.marks("left-solutions") == classroom.full_marks()
    outputs = [output for cell in classroom.graded_notebook("left-solutions").cells for output in _outputs(cell)]
    assert [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"] == []


def test_an_empty_notebook_gets_nothing_and_is_told_so(classroom: Classroom) -> None:
    assert set(classroom.marks("right-empty").values()) == {0}
    for name, text in _told(classroom, "right-empty").items():
        assert "it is not written yet" in text, name


def test_what_a_function_prints_is_shown_and_costs_nothing(classroom: Classroom, assignment: str) -> None:
    printing = [answer for answer in ANSWERS[assignment] if answer.is_right and "print(" in answer.text]
    assert printing
    for answer in printing:
        student = student_of(assignment, str(answer))
        visible = _cell(classroom, student, f"{answer.function}_visible")
        hidden = _cell(classroom, student, f"{answer.function}_hidden")
        assert {output.name for output in [*visible.outputs, *hidden.outputs]} == {"stdout"}, answer
        assert f"Printed by {answer.function} on" in visible.outputs[0].text, answer


def test_a_failed_check_shows_its_remark_without_a_stack(classroom: Classroom, assignment: str) -> None:
    name, beginning, cause = TOLD[assignment]
    told = _told(classroom, student_of(assignment, name))[f"{name.split('/')[0]}_visible"]
    assert told.startswith(beginning)
    assert cause in told
    assert "Traceback" not in told and "checks.py" not in told


def test_how_long_the_slowest_answers_take(
    classroom: Classroom, assignment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No assertion on the clock of a busy machine: the figures are printed. What bounds them is CHECK_SECONDS."""
    seconds = []
    for answer in ANSWERS[assignment]:
        cells = classroom.seconds(student_of(assignment, str(answer)))
        seconds.append((sum(cells[f"{answer.function}_{kind}"] for kind in ("visible", "hidden")), str(answer)))
    assert len(seconds) == len(ANSWERS[assignment])
    with capsys.disabled():
        slowest = ", ".join(f"{name} {taken:.1f} s" for taken, name in sorted(seconds, reverse=True)[:3])
        print(
            f"\n{len(seconds)} answers in {len(submissions(assignment))} submissions; slowest in both tests: {slowest}"
        )


def test_feedback_and_export(classroom: Classroom, assignment: str) -> None:
    name, _, cause = TOLD[assignment]
    student = student_of(assignment, name)
    classroom.nbgrader("generate_feedback", assignment, "--student", student)
    page = classroom.folder / "classroom" / "feedback" / student / assignment / f"{assignment}.html"
    assert cause in " ".join(page.read_text(encoding="utf-8").split())

    classroom.nbgrader("export")
    rows = (classroom.folder / "classroom" / "grades.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(submissions(assignment)) + 2
    (row,) = [row for row in rows if ",left-solutions," in row]
    assert str(sum(classroom.full_marks().values())) in row.split(",")


def _cell(classroom: Classroom, student: str, grade_id: str):  # type: ignore[no-untyped-def]
    cells = classroom.graded_notebook(student).cells
    return next(cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def _outputs(cell) -> list:  # type: ignore[no-untyped-def,type-arg]
    return cell.get("outputs", [])


def _told(classroom: Classroom, student: str) -> dict[str, str]:
    """The error that each failed test cell shows, on one line, by the cell's name."""
    told = {}
    for cell in classroom.graded_notebook(student).cells:
        errors = [output for output in _outputs(cell) if output.output_type == "error"]
        if errors and cell.metadata.get("nbgrader", {}).get("grade"):
            told[cell.metadata.nbgrader.grade_id] = " ".join("\n".join(errors[0].traceback).split())
    return told

"""Every answer in tests/answers gets the marks it deserves: put into the notebook and graded by the real nbgrader.

The parts of an exercise are graded independently of each other. So answers to different functions share a submission,
and the number of submissions is that of the function with the most answers.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import pytest

from distlib.grading.classroom import Classroom, open_classroom
from tests.answer_files import Answer, read_answers

ASSIGNMENT = "02_all_reduce"
ANSWERS = read_answers(ASSIGNMENT)
FUNCTIONS = sorted({answer.function for answer in ANSWERS})
PRINTING = ("right_prints_and_warns", "right_barriers_and_prints", "right_barriers_and_warns", "right_own_helper")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def submissions() -> dict[str, list[Answer]]:
    """Answers side by side, by the name of the student that hands them in."""
    shared = [[a for a in ANSWERS if a.function == function and not a.is_alone] for function in FUNCTIONS]
    rows = [[answer for answer in row if answer] for row in zip_longest(*shared)]
    rows.append([answer for answer in ANSWERS if answer.is_alone])
    return {f"{'left' if number % 2 else 'right'}-{number}": row for number, row in enumerate(rows)}


STUDENT_OF = {str(answer): student for student, answers in submissions().items() for answer in answers}


@pytest.fixture(scope="module")
def classroom(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Classroom:
    """The class, graded."""
    made = open_classroom(root, tmp_path_factory.mktemp("answers"), ASSIGNMENT)
    solutions = made.solutions()
    for student, answers in submissions().items():
        made.hand_in(student, solutions | {answer.function: answer.text for answer in answers}, only_graded=True)
    made.hand_in("left-solutions", solutions)
    made.hand_in("right-empty", {})
    made.autograde("left-*", "right-*")
    return made


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_an_answer_gets_the_marks_it_deserves(classroom: Classroom, answer: Answer) -> None:
    marks, full = classroom.marks(STUDENT_OF[str(answer)]), classroom.full_marks()
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


def test_what_a_function_prints_is_shown_and_costs_nothing(classroom: Classroom) -> None:
    for answer in ANSWERS:
        if answer.name in PRINTING:
            visible = _cell(classroom, STUDENT_OF[str(answer)], f"{answer.function}_visible")
            hidden = _cell(classroom, STUDENT_OF[str(answer)], f"{answer.function}_hidden")
            assert {output.name for output in [*visible.outputs, *hidden.outputs]} == {"stdout"}, answer
            assert f"Printed by {answer.function} on" in visible.outputs[0].text, answer


def test_a_failed_check_shows_its_remark_without_a_stack(classroom: Classroom) -> None:
    told = _told(classroom, STUDENT_OF["ring_all_reduce/wrong_average"])["ring_all_reduce_visible"]
    assert told.startswith("ring_all_reduce on 2 ranks, 8 float32: on rank 0, chunk 0 (elements 0 to 3) is wrong.")
    assert "Usual cause: this is the average." in told
    assert "Traceback" not in told and "checks.py" not in told


def test_how_long_the_slowest_answers_take(classroom: Classroom, capsys: pytest.CaptureFixture[str]) -> None:
    """No assertion on the clock of a busy machine: the figures are printed. What bounds them is CHECK_SECONDS."""
    seconds = []
    for answer in ANSWERS:
        cells = classroom.seconds(STUDENT_OF[str(answer)])
        seconds.append((sum(cells[f"{answer.function}_{kind}"] for kind in ("visible", "hidden")), str(answer)))
    assert len(seconds) == len(ANSWERS)
    with capsys.disabled():
        slowest = ", ".join(f"{name} {taken:.1f} s" for taken, name in sorted(seconds, reverse=True)[:3])
        print(f"\n{len(seconds)} answers in {len(submissions())} submissions; slowest in both tests: {slowest}")


def test_feedback_and_export(classroom: Classroom) -> None:
    student = STUDENT_OF["ring_all_reduce/wrong_average"]
    classroom.nbgrader("generate_feedback", ASSIGNMENT, "--student", student)
    page = classroom.folder / "classroom" / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"
    assert "Usual cause: this is the average." in " ".join(page.read_text(encoding="utf-8").split())

    classroom.nbgrader("export")
    rows = (classroom.folder / "classroom" / "grades.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(submissions()) + 2
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

"""Grading a class: from submitted/ to autograded/, the gradebook, feedback and the report, whatever is handed in."""

from __future__ import annotations

import csv
import errno
import html
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from argparse import ArgumentTypeError, Namespace
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook

from distlib.classroom.grader import class_run
from distlib.classroom.grader.autograded import Autograded
from distlib.classroom.grader.check_message import Told, split_message
from distlib.classroom.grader.class_page import html_page
from distlib.classroom.grader.class_report import csv_text, text_table, write_report
from distlib.classroom.grader.class_run import Change, ClassRun, grade_class
from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.grader.file_kind import kind_of
from distlib.classroom.grader.gradebook import GradebookError, Mark, MarksBook
from distlib.classroom.grader.marks import judged_again, notes
from distlib.classroom.grader.mistakes import mistakes
from distlib.classroom.grader.one_grader import one_grader
from distlib.classroom.grader.refused import Refused, note_refused
from distlib.classroom.grader.student_record import Record
from distlib.cli import main
from distlib.cli.command_arguments import _times
from distlib.cli.grade import grade_submissions
from tests.classroom.test_transplant import PNG
from tests.tools.tiny_course import (
    CELLS,
    DIES,
    HANGS,
    KILLS_THE_GRADER,
    NAME,
    RIGHT,
    ROOT,
    TRAINED,
    TRAINING,
    TinyCourse,
    simple_judges,
)

WRONG = {"double": "def double(x):\n    return 4", "negate": "def negate(x):\n    return x"}
ALL, NONE = [1, 2, 1, 2], [0, 0, 0, 0]


@pytest.fixture
def course(tiny_course: TinyCourse, tmp_path: Path) -> TinyCourse:
    """A copy of it to work with. Each test's processes are forked anew, so that they see what it has patched."""
    return tiny_course.copy_to(tmp_path / "course")


def run(course: TinyCourse, **options: Any) -> ClassRun:
    return grade_class(open_course(course.root), NAME, simple_judges, **{"jobs": 2, "patience": 60.0, **options})


def scores(graded: ClassRun, student: str) -> list[float]:
    return [graded.marks[student][cell].score for cell in CELLS]


def autos(graded: ClassRun, student: str) -> list[float | None]:
    return [graded.marks[student][cell].auto for cell in CELLS]


# What comes of a class


def test_each_student_ends_in_a_state_that_is_said(course: TinyCourse) -> None:
    course.hand_in("right", RIGHT)
    course.hand_in("partly", {**RIGHT, **{"double": WRONG["double"]}})
    course.hand_in("empty", {})
    course.hand_in("slow", {**RIGHT, "double": RIGHT["double"] + "  # slow"})
    course.folder("nothing").mkdir(parents=True)
    (course.hand_in("broken", {}) / f"{NAME}.ipynb").write_text("{")
    (course.hand_in("renamed", RIGHT) / f"{NAME}.ipynb").rename(course.folder("renamed") / "mine.ipynb")
    course.hand_in("dies", {"double": DIES})
    graded = run(course)

    assert {student: record.state for student, record in graded.records.items()} == {
        "broken": "could not be graded",
        "dies": "could not be graded",
        "empty": "graded",
        "nothing": "could not be graded",
        "partly": "graded",
        "renamed": "graded, with remarks",
        "right": "graded",
        "slow": "graded, with remarks",
    }
    with Gradebook(course.gradebook_url) as gradebook:
        assert [student.id for student in gradebook.students] == list(graded.records)
    assert scores(graded, "right") == scores(graded, "slow") == scores(graded, "renamed") == ALL
    assert scores(graded, "partly") == [1, 0, 1, 2]
    assert scores(graded, "empty") == NONE
    assert graded.records["dies"].problem == "the grader's process ended (status 3)"
    assert graded.records["broken"].problem.startswith(f"{NAME}.ipynb is not a notebook")
    assert graded.records["partly"].told == {
        "double_hidden": Told("AssertionError: double is wrong for a large number")
    }
    for student in ("dies", "broken", "nothing"):
        assert autos(graded, student) == [None] * 4
        assert not course.folder(student, "autograded").exists()


def test_inputs_are_drawn_anew_in_each_run_and_stay_with_the_notebook(course: TinyCourse) -> None:
    asks = RIGHT["double"] + "  # seed"
    for student in ("a", "b"):
        course.hand_in(student, {**RIGHT, "double": asks})
    first = run(course).records
    assert first["a"].seed and first["a"].seed == first["b"].seed  # equally hard for both
    assert first["a"].remarks == [f"seed {first['a'].seed}"]  # the judge has it

    course.hand_in("b", {**RIGHT, "double": asks + "\n# changed after the feedback"})
    course.hand_in("c", {**RIGHT, "double": asks})  # a's notebook, by another student
    second = run(course, again=True).records
    assert second["a"].remarks == first["a"].remarks  # a regrade repeats it
    assert second["b"].seed == second["c"].seed != first["a"].seed


@pytest.mark.slow
def test_a_submission_that_hangs_is_ended(course: TinyCourse) -> None:
    course.hand_in("a", {"double": HANGS})
    course.hand_in("b", RIGHT)
    graded = run(course, patience=30.0)  # more on a busy machine
    assert re.fullmatch(r"the grader did not come to an end within \d+ s", graded.records["a"].problem)
    assert scores(graded, "b") == ALL


@pytest.mark.slow
def test_the_gradebook_is_as_nbgrader_fills_it(course: TinyCourse, tmp_path: Path) -> None:
    course.hand_in("right", {**RIGHT, "why": "So."}, timestamp="2026-01-02 03:04:05.000000 UTC")
    course.hand_in("wrong", WRONG)
    course.hand_in("empty", {})
    other = course.copy_to(tmp_path / "other")
    other.nbgrader("autograde", NAME)
    run(course)
    assert dump(course) == dump(other)
    ours, theirs = course.autograded("right"), other.autograded("right")
    assert [cell.source for cell in ours.cells] == [cell.source for cell in theirs.cells]
    assert [cell.metadata.get("nbgrader") for cell in ours.cells] == [
        cell.metadata.get("nbgrader") for cell in theirs.cells
    ]
    names = [sorted(os.listdir(each.folder("right", "autograded"))) for each in (course, other)]
    assert names[0] == names[1] == [f"{NAME}.ipynb", "data.csv", "timestamp.txt"]


def dump(course: TinyCourse) -> list[Any]:
    """Everything in a gradebook about submissions, without its random ids."""
    found: list[Any] = []
    with Gradebook(course.gradebook_url) as gradebook:
        for submission in gradebook.assignment_submissions(NAME):
            found.append((submission.student.id, submission.timestamp, submission.score, submission.needs_manual_grade))
            for notebook in submission.notebooks:
                found.append((notebook.late_submission_penalty, notebook.score, notebook.failed_tests))
                for grade in notebook.grades:
                    marks = grade.auto_score, grade.manual_score, grade.extra_credit, grade.needs_manual_grade
                    found.append((submission.student.id, grade.name, *marks))
                for comment in notebook.comments:
                    found.append((submission.student.id, comment.name, comment.auto_comment, comment.manual_comment))
    return sorted(found, key=repr)


def test_marks_by_hand_and_extensions_stay_when_graded_again(course: TinyCourse) -> None:
    course.hand_in("a", {**WRONG, "why": "So."}, timestamp="2026-01-02 03:04:05 UTC")
    run(course)
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.find_grade("double_hidden", NAME, NAME, "a").manual_score = 1.5
        gradebook.find_grade("why", NAME, NAME, "a").manual_score = 2
        gradebook.find_comment("why", NAME, NAME, "a").manual_comment = "Nice."
        gradebook.find_grade("negate_hidden", NAME, NAME, "a").extra_credit = 0.5
        gradebook.db.commit()
    course.hand_in("a", {**RIGHT, "why": "So."}, timestamp="2026-01-03 03:04:05 UTC")
    graded = run(course)
    assert graded.unchanged == []
    assert graded.marks["a"]["double_hidden"] == Mark(score=1.5, full=2, auto=2, by_hand=True)
    assert graded.marks["a"]["why"].score == 2
    assert graded.marks["a"]["negate_hidden"].score == 2.5
    assert run(course, again=True).marks == graded.marks
    with Gradebook(course.gradebook_url) as gradebook:
        assert gradebook.find_grade("double_hidden", NAME, NAME, "a").needs_manual_grade
        assert gradebook.find_comment("why", NAME, NAME, "a").comment == "Nice."


def test_penalties_for_being_late(course: TinyCourse) -> None:
    config = course.root / "nbgrader_config.py"
    config.write_text(config.read_text() + '\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    course.hand_in("late", RIGHT, timestamp="2026-01-02 03:04:05 UTC")
    course.hand_in("early", RIGHT, timestamp="2025-12-02 03:04:05 UTC")
    course.hand_in("strange", RIGHT, timestamp="soon")
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.update_or_create_assignment(NAME, duedate="2026-01-01 00:00:00 UTC")
    graded = run(course)
    assert graded.penalties == {"early": 0, "late": 6, "strange": 0}
    (remark,) = graded.records["strange"].remarks
    assert remark.startswith(
        "timestamp.txt says 'soon', which can't be read as a time: no time of handing in, no penalty for being late; if"
    )
    assert remark.endswith("; if you know it, replace it by the right one, such as 2026-11-02 21:50 UTC")
    assert graded.without_time == {"strange": "soon can't be read as a time"}
    note = (
        "No time of handing in is known for strange (soon can't be read as a time): nothing was taken off for being "
        "late. If you know when they handed in, write it into "
    )
    assert note in " ".join(notes(graded)) and note in html.unescape(html_page(graded))
    assert (
        text_table(graded).splitlines()[3].split() == "strange 3 / 3 3 / 3 0 / 2 ? 6 / 8 graded, with remarks".split()
    )
    assert csv_text(graded).splitlines()[3].startswith('strange,"graded, with remarks",6,8,0,,')
    course.nbgrader("export")
    rows = {row["student_id"]: row for row in exported(course, "grades.csv")}
    assert (rows["strange"]["late_submission_penalty"], rows["late"]["late_submission_penalty"]) == ("", "6.0")
    assert "no time of handing in is known: nothing was taken off" in rows["strange"]["remark"]
    assert "no time" not in rows["early"]["remark"]
    assert not (course.folder("strange", "autograded") / "timestamp.txt").exists()
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.grant_extension(NAME, "late", days=7)
    graded = run(course)
    assert graded.unchanged == ["early", "late", "strange"]
    assert graded.penalties["late"] == 0
    assert graded.changes == [Change("late", "late_penalty", 6, 0)]
    assert "Marks that changed:\nlate: points lost for being late 6 → 0\n" in f"{text_table(graded)}\n"
    assert "points lost for being late" in html_page(graded)
    (change,) = exported(course, f"graded/{NAME}/changes.csv")
    assert [change[name] for name in ("student", "cell", "before", "after")] == ["late", "late_penalty", "6", "0"]
    assert run(course).changes == []


@pytest.mark.slow
def test_an_old_mark_does_not_stay_when_a_new_submission_cannot_be_graded(course: TinyCourse) -> None:
    course.hand_in("a", RIGHT)
    run(course)
    course.nbgrader("generate_feedback", NAME)
    assert course.folder("a", "feedback").exists()
    (course.folder("a") / f"{NAME}.ipynb").write_text("no")
    graded = run(course)
    assert autos(graded, "a") == [None] * 4
    assert all(mark.score == 0 for mark in graded.marks["a"].values())
    assert not course.folder("a", "autograded").exists() and not course.folder("a", "feedback").exists()
    with Gradebook(course.gradebook_url) as gradebook:
        assert gradebook.find_submission(NAME, "a").needs_manual_grade
    course.hand_in("a", RIGHT)
    assert scores(run(course), "a") == ALL


def test_files_are_copied_links_are_not(course: TinyCourse, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = course.hand_in("a", RIGHT)
    (folder / "torch.py").write_text("raise SystemExit")
    (folder / "data.csv").write_text("mine")
    (folder / "submission_secret.txt").write_text("of nbgrader submit")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "one.png").write_bytes(b"png")
    (folder / "link.txt").symlink_to(secret)
    (folder / "broken").symlink_to(tmp_path / "nowhere")
    (folder / "tree").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    graded = run(course)
    assert graded.records["a"].remarks == ["links are not followed: broken, link.txt, tree"]
    place = course.folder("a", "autograded")
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*")) == [
        f"{NAME}.ipynb",
        "data.csv",
        "handed_in",
        "handed_in/data.csv",
        "handed_in/pictures",
        "handed_in/pictures/one.png",
        "handed_in/torch.py",
        "submission_secret.txt",
    ]
    assert (place / "data.csv").read_text() == "1,2,3"


@pytest.mark.slow
def test_strange_names_of_students(course: TinyCourse) -> None:
    names = ["a b", "ü", "x+y", "[z]", "line\nbreak", "report.html", "marks.csv", "*"]
    for name in names:
        course.hand_in(name, RIGHT)
    os.makedirs(os.fsencode(course.root / "classroom" / "submitted") + b"/\xff/" + NAME.encode())
    graded = run(course)
    assert all(scores(graded, name) == ALL for name in names)
    assert "rename it" in graded.records["\udcff"].problem
    assert "better rename it" in graded.records["[z]"].remarks[0]
    assert "\x1b" not in text_table(graded) and "line\\nbreak" in text_table(graded)
    page = write_report(graded, open_course(course.root).records(NAME))
    assert page.name == "report.html" and "\\udcff" in page.read_text()
    assert run(course).unchanged == sorted(names)


@pytest.mark.slow
def test_a_mended_test_changes_only_what_it_must(course: TinyCourse) -> None:
    course.hand_in("a", WRONG)
    course.hand_in("b", {**RIGHT, "double": f"{RIGHT['double']}  {TRAINED}"})
    course.hand_in("c", {"double": WRONG["double"]})
    first = run(course)
    assert first.changes == []
    assert (first.records["b"].trainings, first.records["a"].trainings) == ([TRAINING], [])
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.find_grade("double_hidden", NAME, NAME, "c").manual_score = 1.5
        gradebook.find_comment("why", NAME, NAME, "c").manual_comment = "Nice."
        gradebook.add_student("zoe")
        gradebook.db.commit()
    source = course.root / "solutions" / NAME / f"{NAME}.ipynb"
    source.write_text(source.read_text().replace("assert double(secret_number) == 246912", "assert double(2) == 4"))
    course.nbgrader("generate_assignment", NAME, "--force")
    graded = run(course)
    assert graded.changes == [Change("a", "double_hidden", 0, 2)] and graded.unchanged == []
    assert graded.judged == dict.fromkeys("abc", ["double_hidden"])
    assert judged_again(graded) == [
        "3 submissions were graded again: only double_hidden was judged, all other verdicts stay."
    ]
    assert graded.records["b"].trainings == [TRAINING], "its verdict stays, and what was told with it"
    assert graded.missing == ["zoe"]
    assert (scores(graded, "a"), scores(graded, "b"), scores(graded, "c")) == ([1, 2, 0, 0], ALL, [1, 1.5, 0, 0])
    with Gradebook(course.gradebook_url) as gradebook:
        assert gradebook.find_comment("why", NAME, NAME, "c").comment == "Nice."
    (course.folder("a") / f"{NAME}.ipynb").write_text("{")
    lost = run(course).changes
    assert [(each.cell, each.before) for each in lost[:2]] == [("double_visible", 1), ("double_hidden", 2)]
    assert {(each.student, each.after) for each in lost} == {("a", None)}
    kept = (open_course(course.root).records(NAME) / "changes.csv").read_text().splitlines()
    assert [row.split(",", 1)[1] for row in kept][:3] == [
        "student,cell,before,after", "a,double_hidden,0,2", "a,double_visible,1,",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_test_that_the_instructor_has_changed_is_no_remark_about_a_student(course: TinyCourse) -> None:
    course.hand_in("a", RIGHT)
    course.hand_in("b", {**RIGHT, "negate_visible": "pass"})
    first = run(course)
    assert first.records["a"].state == "graded" and not first.outdated
    page = course.folder("a", "feedback") / f"{NAME}.html"
    page.parent.mkdir(parents=True)
    page.touch()
    slow = class_run.record_path(open_course(course.root), NAME, "a")
    slow.write_text(slow.read_text().replace('"seconds": ', '"seconds": 1000'))
    source = course.root / "solutions" / NAME / f"{NAME}.ipynb"
    text = source.read_text().replace("assert negate(2) == -2", "assert negate(3) == -3")
    source.write_text(text.replace('"points": 1', '"points": 3'))
    course.nbgrader("generate_assignment", NAME, "--force")
    graded = run(course)
    assert (graded.records["a"].state, graded.records["a"].older) == ("graded", ["double_visible", "negate_visible"])
    assert graded.records["b"].remarks == ["edited, the instructor's text was used: negate_visible"]
    assert graded.records["a"].seconds > 1000 > graded.records["a"].took, "what a whole judging takes is kept"
    assert graded.outdated == ["a"] and not page.exists()
    said = " ".join(notes(graded))
    assert (
        "Changed in your notebook since it was released: double_visible and negate_visible. 2 submissions still have"
        in said
    )
    assert "The feedback of a was about the earlier grading and was removed. To write it again: nbgrader gen" in said


@pytest.mark.slow
def test_more_time_is_granted_to_some_and_kept(course: TinyCourse) -> None:
    for student in ("ada", "bob"):
        course.hand_in(student, RIGHT)
    assert run(course).records["ada"].times == 1
    granted = run(course, times={"ada": 3.0})
    assert (granted.unchanged, granted.records["ada"].times) == (["bob"], 3)
    assert granted.records["ada"].remarks == ["3 times as much time"]
    again = run(course)
    assert (again.unchanged, again.records["ada"].times) == (["ada", "bob"], 3)
    assert run(course, again=True).records["ada"].remarks == ["3 times as much time"]
    with pytest.raises(CourseError, match="eve is to have more time, and is not among those to be graded"):
        run(course, times={"eve": 3.0})


@pytest.mark.parametrize(("text", "times"), [("ada=3", ("ada", 3.0)), ("a=b=1.5", ("a=b", 1.5))])
def test_who_has_more_time_is_a_name_and_a_number(text: str, times: tuple[str, float]) -> None:
    assert _times(text) == times
    for wrong in ("ada", "=3", "ada=", "ada=0.5", "ada=1e9", "ada=nan", "ada=x"):
        with pytest.raises(ArgumentTypeError, match="expected NAME=TIMES"):
            _times(wrong)


# Stopping and going on


def test_what_has_not_changed_is_not_graded_again(course: TinyCourse) -> None:
    for student in "abc":
        course.hand_in(student, RIGHT)
    first = run(course)
    told: list[tuple[str, int]] = []
    again = run(course, tell=lambda record, total: told.append((record.student, total)))
    assert again.unchanged == ["a", "b", "c"] and told == []
    assert again.marks == first.marks and again.records == first.records

    course.hand_in("a", WRONG)
    (course.folder("b") / "timestamp.txt").write_text("2026-01-02 03:04:05 UTC")
    changed = run(course, tell=lambda record, total: told.append((record.student, total)))
    assert changed.unchanged == ["c"] and sorted(told) == [("a", 2), ("b", 2)]
    assert scores(changed, "a") == [1, 0, 0, 0]

    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.remove_submission(NAME, "c")
    shutil.rmtree(course.folder("b", "autograded"))
    assert run(course).unchanged == ["a"]
    assert run(course, again=True, students=["a"]).unchanged == []


def test_only_some_students(course: TinyCourse) -> None:
    for student in "abc":
        course.hand_in(student, RIGHT)
    graded = run(course, students=["b", "c", "b"])
    assert sorted(graded.marks) == ["b", "c"]
    with pytest.raises(CourseError, match="nobody has not handed in 01_tiny; it should be in classroom/submitted/nobo"):
        run(course, students=["a", "nobody"])
    with Gradebook(course.gradebook_url) as gradebook:
        assert [student.id for student in gradebook.students] == ["b", "c"]


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


@pytest.mark.parametrize(
    "step", ["prepare", *(pytest.param(each, marks=pytest.mark.slow) for each in ("publish", "record", "_noted"))]
)
def test_stopped_at_any_step_it_goes_on_to_the_same_end(
    step: str, course: TinyCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student in ("a", "b", "c"):
        course.hand_in(student, {**WRONG, "why": "So."}, timestamp="2026-01-02 03:04:05 UTC")
    whole = course.copy_to(tmp_path / "whole")
    run(whole, seed="the same")
    owner: Any = {"record": MarksBook, "_noted": class_run._Grader}.get(step, Autograded)
    calls = []

    def killed(*_: Any) -> None:
        calls.append(step)
        if len(calls) == 2:
            raise Killed
        original(*_)

    original = getattr(owner, step)
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, lambda *words: killed(*words) or original(*words))
        with pytest.raises(Killed):
            run(course, jobs=1, seed="the same")
    run(course, seed="the same")
    assert dump(course) == dump(whole)
    for student in ("a", "b", "c"):
        ours, theirs = course.autograded(student), whole.autograded(student)
        assert ours == theirs
    assert list((course.root / "classroom" / "autograded").glob("*/*.new")) == []


@pytest.mark.slow
def test_killed_half_way_it_goes_on_to_the_same_gradebook(course: TinyCourse, tmp_path: Path) -> None:
    for number in range(6):
        text = f"{KILLS_THE_GRADER}{tmp_path / 'killed'}\n{RIGHT['double']}" if number == 3 else RIGHT["double"]
        course.hand_in(f"student-{number}", {"double": text, "negate": WRONG["negate"]})
    whole = course.copy_to(tmp_path / "whole")
    program = (
        "from pathlib import Path; from tests.tools.tiny_course import NAME, simple_judges;"
        "from distlib.classroom.grader.class_run import grade_class;"
        "from distlib.classroom.grader.course import open_course;"
        f"grade_class(open_course(Path({str(course.root)!r})), NAME, simple_judges)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], timeout=120)
    assert done.returncode == -9
    half = len(dump(course))
    graded = run(course)
    assert graded.unchanged == ["student-0", "student-1", "student-2"]
    run(whole)
    assert 0 < half < len(dump(course))
    assert dump(course) == dump(whole)


# When something is wrong with the course


def break_gradebook(course: TinyCourse, how: str) -> None:
    if how == "missing":
        course.gradebook.unlink()
    elif how == "no database":
        course.gradebook.write_text("no database" * 1_000)
    elif how == "another program's":
        course.gradebook.unlink()
        with closing(sqlite3.connect(course.gradebook)) as connection:
            connection.execute("CREATE TABLE music (title)")
    elif how == "another course's":
        with Gradebook(course.gradebook_url) as gradebook:
            gradebook.remove_assignment(NAME)
            gradebook.add_assignment("cooking")
    elif how == "another version":
        path = course.root / "solutions" / NAME / f"{NAME}.ipynb"
        path.write_text(path.read_text().replace("secret_number = 123456", "secret_number = 1234567"))
    elif how == "no source":
        shutil.rmtree(course.root / "solutions" / NAME)
    elif how == "no config":
        (course.root / "nbgrader_config.py").unlink()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", r"no gradebook classroom/gradebook.db; run: nbgrader generate_assignment 01_tiny --force"),
        ("no database", "classroom/gradebook.db: it is damaged, or no gradebook"),
        ("another program's", "classroom/gradebook.db is no gradebook of nbgrader's"),
        ("another course's", r"does not know 01_tiny \(assignments in it: cooking\). Is it this course's"),
        ("another version", "knows another version of 01_tiny; cells that differ: double_hidden. Is it this course's"),
        ("no source", "there is no solutions/01_tiny/01_tiny.ipynb; assignments: none"),
        ("no config", "is no course: there is no nbgrader_config.py"),
    ],
)
def test_a_course_that_cannot_be_graded_is_named(course: TinyCourse, how: str, message: str) -> None:
    course.hand_in("a", RIGHT)
    break_gradebook(course, how)
    before = course.gradebook.read_bytes() if course.gradebook.exists() else b""
    with pytest.raises(CourseError, match=message):
        run(course)
    assert (course.gradebook.read_bytes() if course.gradebook.exists() else b"") == before


def test_nobody_has_handed_in(course: TinyCourse) -> None:
    with pytest.raises(
        CourseError, match="nobody has handed in 01_tiny; it should be in classroom/submitted/STUDENT/01_tiny"
    ):
        run(course)


@pytest.mark.slow
def test_a_locked_gradebook_is_named(course: TinyCourse) -> None:
    course.hand_in("a", RIGHT)
    with closing(sqlite3.connect(course.gradebook)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(CourseError, match="gradebook.db: it is locked by another program"):
            run(course)
    assert scores(run(course), "a") == ALL


@pytest.mark.parametrize("times", [1, 9])
def test_a_gradebook_that_is_locked_meanwhile_costs_nobody_elses_marks(
    times: int, course: TinyCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student in "abc":
        course.hand_in(student, RIGHT)
    original, left = MarksBook.record, [times]

    def record(self: MarksBook, student: str, *rest: Any) -> None:
        if student == "b" and left[0]:
            left[0] -= 1
            raise GradebookError("it is locked by another program")
        original(self, student, *rest)

    monkeypatch.setattr(MarksBook, "record", record)
    graded = run(course)
    assert scores(graded, "a") == scores(graded, "c") == ALL
    if times == 1:
        assert scores(graded, "b") == ALL
    else:
        problem = "nothing was changed: the gradebook: it is locked by another program"
        assert graded.records["b"].problem == problem and "b" not in graded.marks
        assert list((course.root / "classroom" / "autograded").glob("b/*")) == []


def test_a_full_disk_costs_nobody_elses_marks(course: TinyCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    for student in "abc":
        course.hand_in(student, RIGHT)
    original = Autograded.prepare

    def prepare(self: Autograded, *words: Any) -> list[str]:
        if "/b/" in str(self._new):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, *words)

    monkeypatch.setattr(Autograded, "prepare", prepare)
    graded = run(course)
    assert scores(graded, "a") == scores(graded, "c") == ALL
    assert graded.records["b"].problem == "its files can't be written: No space left on device"
    assert autos(graded, "b") == [None] * 4


def test_on_a_full_disk_nothing_half_done_stays(course: TinyCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    course.hand_in("a", RIGHT)
    original = Autograded.prepare

    def prepare(self: Autograded, *words: Any) -> list[str]:
        original(self, *words)
        raise OSError(errno.ENOSPC, "No space left on device")

    def record_failure(self: MarksBook, *words: Any) -> None:
        raise GradebookError("no space is left on the disk")

    monkeypatch.setattr(Autograded, "prepare", prepare)
    monkeypatch.setattr(MarksBook, "record_failure", record_failure)
    graded = run(course)
    assert "no space is left on the disk" in graded.records["a"].problem
    assert list((course.root / "classroom" / "autograded").glob("a/*")) == []


def test_two_graders_at_once(course: TinyCourse) -> None:
    course.hand_in("a", RIGHT)
    opened = open_course(course.root)
    with one_grader(opened), pytest.raises(CourseError, match="another distlib grade is running"):
        run(course)


# Feedback


def test_feedback_hides_tests_and_is_harmless(course: TinyCourse) -> None:
    evil = "<script>alert('evil')</script><img src=x onerror=alert(1)>"
    course.hand_in("a", {**WRONG, "why": f"So. {evil}"})
    course.hand_in("b", {**RIGHT, "why": "Because."})
    folder = course.hand_in("[ab]", {**RIGHT, "why": "![](attachment:evil.svg) [x](javascript:evil)"})
    (folder / "evil.html").write_text(evil)
    run(course)
    source = course.autograded("a").cells
    assert any("secret_number" in cell.source for cell in source)  # formgrader shows it
    course.nbgrader("generate_feedback", NAME)
    for student in ("a", "b", "[ab]"):
        page = (course.folder(student, "feedback") / f"{NAME}.html").read_text()
        assert list(course.folder(student, "feedback").rglob("*.html")) == [
            course.folder(student, "feedback") / f"{NAME}.html"
        ]
        assert f">{student} · {NAME}</p>" in page and 'href="java' not in page
        assert "secret_number" not in page and "246912" not in page and "negate(-" not in page
        assert "What this tests: a large number." in page.replace("</span>", "")
        assert "Hidden tests ran here; their text is not shown." in page
        assert "alert(" not in page.replace("&lt;script&gt;alert(", "").replace("onerror=alert(1)&gt;", "")
        assert "<script>alert" not in page and "<img src=x" not in page
    page = (course.folder("a", "feedback") / f"{NAME}.html").read_text()
    assert "double is wrong for a large number" in page
    assert "– / 2</td>" in page and "waits for a mark by hand" in page and "points, 2 open</h1>" in page
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.find_grade("why", NAME, NAME, "a").manual_score = 0
        gradebook.db.commit()
    course.nbgrader("generate_feedback", NAME, "--force", "--student=a")
    page = (course.folder("a", "feedback") / f"{NAME}.html").read_text()
    assert "0 / 2</td>" in page and "marked by hand" in page and " open</h1>" not in page


def test_a_pasted_picture_reaches_the_feedback(course: TinyCourse) -> None:
    path = course.hand_in("a", {**RIGHT, "why": "![sketch](attachment:sketch.png)"}) / f"{NAME}.ipynb"
    notebook = json.loads(path.read_text())
    cell = next(cell for cell in notebook["cells"] if cell["id"] == "why")
    cell["attachments"] = {"sketch.png": {"image/png": PNG}, "evil.svg": {"image/svg+xml": PNG}}
    path.write_text(json.dumps(notebook))
    graded = run(course)
    assert graded.records["a"].remarks[0].endswith("not: evil.svg")
    course.nbgrader("generate_feedback", NAME)
    page = (course.folder("a", "feedback") / f"{NAME}.html").read_text()
    assert f'src="data:image/png;base64,{PNG}"' in page and "svg+xml" not in page


@pytest.mark.slow
def test_feedback_is_safe_after_nbgraders_own_grading_too(course: TinyCourse) -> None:
    course.hand_in("a", {**WRONG, "double": WRONG["double"] + "\n%%html\n<script>alert('evil')</script>"})
    notebook = json.loads((course.folder("a") / f"{NAME}.ipynb").read_text())
    html = 'from IPython.display import HTML, display\ndisplay(HTML(\'<script>alert("ev" + "il")</script>\'))'
    notebook["cells"].append(
        {"cell_type": "code", "id": "x", "metadata": {}, "outputs": [], "execution_count": None, "source": html}
    )
    (course.folder("a") / f"{NAME}.ipynb").write_text(json.dumps(notebook))
    course.nbgrader("autograde", NAME)
    course.nbgrader("generate_feedback", NAME)
    page = (course.folder("a", "feedback") / f"{NAME}.html").read_text()
    assert "<script>alert" not in page
    assert "secret_number" not in page and "246912" not in page and "negate(-" not in page


# The report and the command


def made_up_run() -> ClassRun:
    wrong = Told("shift on 2 ranks: rank 0 is wrong.", "the other way round.")
    records = {
        "ann": Record("ann", told={"shift_visible": wrong, "shift_hidden": Told("another")}, seconds=2.5),
        "bob": Record("bob", told={"shift_hidden": wrong}, remarks=["moved: <b>x</b>"]),
        "=1+1": Record("=1+1", problem="there is no notebook"),
    }
    full = {"shift_visible": Mark(0, 2, 0, False), "shift_hidden": Mark(1.5, 2, 0, True)}
    marks = {"ann": full, "bob": {**full, "shift_visible": Mark(2, 2, 2, False)}, "=1+1": full}
    return ClassRun("x", ["shift_visible", "shift_hidden"], records, marks, {"ann": 0.5}, [])


def test_the_table() -> None:
    assert text_table(made_up_run()) == (
        "          shift  late        all\n"
        " ann  1.5 / 4 *  −0.5    1 / 4 *  graded\n"
        " bob  3.5 / 4 *     –  3.5 / 4 *  graded, with remarks\n"
        "=1+1          –     –          –  could not be graded\n"
        "\n"
        "Could not be graded:\n"
        "=1+1: there is no notebook"
    )


def test_the_most_frequent_mistakes() -> None:
    found = mistakes(made_up_run().records.values())
    assert [(mistake.function, mistake.told.cause, mistake.students) for mistake in found] == [
        ("shift", "the other way round.", ["ann", "bob"])
    ]


def test_the_page_is_self_contained_and_escaped() -> None:
    page = html_page(made_up_run())
    assert "<b>x" not in page and "&lt;b&gt;x" in page
    assert "<script" not in page and "://" not in page and "src=" not in page
    assert page.count("<table>") == page.count("</table>") == 5
    assert "Mean: 2.2 of 4 points." in page  # 1 and 3.5, the penalty taken off


def test_the_marks_for_a_spreadsheet() -> None:
    lines = csv_text(made_up_run()).splitlines()
    assert lines == [
        "student,state,score,of,open,late_penalty,shift_visible,shift_hidden,seconds,problem,remarks",
        "ann,graded,1,4,0,0.5,0,1.5,2.5,,",
        'bob,"graded, with remarks",3.5,4,0,0,2,1.5,0.0,,moved: <b>x</b>',
        "'=1+1,could not be graded,,,,,,,0.0,there is no notebook,",
    ]


@pytest.mark.slow
def test_the_export_has_no_score_for_what_was_not_graded(course: TinyCourse) -> None:
    course.hand_in("a", RIGHT, timestamp="2026-01-02 03:04:05 UTC")
    course.hand_in("b", {**WRONG, "why": "So, =1+1"})
    course.hand_in("d", RIGHT)
    marks = run(course).marks
    assert [student for student in marks if marks[student]["why"].is_open] == ["b"]  # d has written none: that is 0
    (course.folder("d") / f"{NAME}.ipynb").write_text("no")  # it had been graded before
    run(course)
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.add_student("e", last_name="Euler, Leonhard", first_name="=1+1")
        gradebook.add_student("f")
        gradebook.find_grade("why", NAME, NAME, "a").manual_score = 2
        gradebook.find_grade("why", NAME, NAME, "a").needs_manual_grade = False
        gradebook.db.commit()
    course.hand_in("f", RIGHT)
    page = Refused("gus.html", "gus", "it is a web page")
    note_refused(open_course(course.root), NAME, [], [page], [])
    course.nbgrader("export")
    rows = {row["student_id"]: row for row in exported(course, "grades.csv")}
    assert {student: (row["score"], row["remark"]) for student, row in rows.items()} == {
        "a": ("8.0", ""),
        "b": ("1.0", "waits for a mark by hand"),
        "d": ("", f"could not be graded: {NAME}.ipynb is not a notebook: {kind_of(b'no notebook')}"),
        "e": ("", "has not handed in"),
        "f": ("", "not graded yet"),
        "gus": ("", "not collected: gus.html: it is a web page"),
    }  # fmt: skip
    assert (rows["a"]["timestamp"], rows["a"]["max_score"]) == ("2026-01-02 03:04:05 UTC", "8.0")
    assert (rows["e"]["last_name"], rows["e"]["first_name"]) == ("Euler, Leonhard", "'=1+1")

    course.nbgrader("export", "--to=some.csv", f"--assignment=['{NAME}', 'other']", "--student=['a']")
    assert exported(course, "../some.csv") == [rows["a"]]
    course.nbgrader("export", "--to=none.csv", "--assignment=['other']")
    assert exported(course, "../none.csv") == []


def exported(course: TinyCourse, name: str) -> list[dict[str, str]]:
    with (course.root / "classroom" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_export_counts_as_nbgraders_own(course: TinyCourse) -> None:
    config = course.root / "nbgrader_config.py"
    config.write_text(config.read_text() + '\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    course.hand_in("late", RIGHT, timestamp="2026-01-02 03:04:05 UTC")
    course.hand_in("partly", WRONG, timestamp="2025-01-02 03:04:05 UTC")
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.update_or_create_assignment(NAME, duedate="2026-01-01 00:00:00 UTC")
    run(course)
    course.nbgrader("export")
    course.nbgrader("export", "--exporter=nbgrader.plugins.export.CsvExportPlugin", "--to=theirs.csv")
    ours, theirs = exported(course, "grades.csv"), exported(course, "../theirs.csv")
    assert [{name: row[name].removesuffix(" UTC") for name in theirs[0]} for row in ours] == theirs
    assert ours[0]["duedate"] == "2026-01-01 00:00:00 UTC", "nbgrader keeps times in UTC, and does not say so"
    assert [row["score"] for row in ours] == ["0.0", "1.0"]


def test_a_test_that_everybody_fails_may_be_wrong_itself() -> None:
    def graded(*told: Told | None) -> list[str]:
        found = {str(n): Record(str(n), told={"a": each} if each else {}) for n, each in enumerate(told)}
        return notes(ClassRun("01_x", ["a", "b"], found, {}, {}, []))

    wrong, stub = Told("ring: on rank 0, chunk 0 is wrong."), Told("ring: it is not written yet: it raises")
    (note,) = graded(wrong, stub, wrong)
    assert note.startswith("Everybody who has written an answer fails a. Does your own pass?")
    assert graded(wrong, None, wrong) == graded(wrong, stub) == graded(stub, stub) == []


def test_a_message_is_split_where_it_was_wrapped() -> None:
    message = (
        "ring on 2 ranks, 8 float32: on rank 0,\nchunk 0 is wrong.\n  expected  [1.0]\n  found     [2.0]\n"
        "Usual cause: this is\nthe average.\nPassed before this: 1 case, with 1 rank."
    )
    assert split_message(message) == Told(
        "ring on 2 ranks, 8 float32: on rank 0, chunk 0 is wrong.", "this is the average."
    )


def options(course: TinyCourse, **changed: Any) -> Namespace:
    values = {"assignment": NAME, "student": [], "jobs": 2, "sandbox": "none", "course": course.root, "again": False}
    values |= {"time_for": [], "share": None}
    return Namespace(**{**values, **changed})


def test_the_command(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    course.hand_in("a", RIGHT)
    course.hand_in("b", WRONG)
    assert grade_submissions(options(course), lambda kind: nullcontext(simple_judges)) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[:3] == [
        "   double  negate    why    all",
        "a   3 / 3   3 / 3  0 / 2  6 / 8  graded",
        "b   1 / 3   0 / 3  0 / 2  1 / 8  graded",
    ]
    page = course.root / "classroom" / "graded" / NAME / "report.html"
    assert f"report, to open in a browser:  {page.as_uri()}" in printed
    assert "double is wrong for a large number" in page.read_text()

    course.folder("c").mkdir(parents=True)
    assert grade_submissions(options(course), lambda kind: nullcontext(simple_judges)) == 1
    printed = capsys.readouterr().out
    assert f"c: there is no notebook {NAME}.ipynb: the folder is empty" in printed
    assert "2 submissions had been graded before and have not changed; --again grades them, too." in printed


def test_the_command_takes_a_number(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    course.hand_in("a", RIGHT)
    assert grade_submissions(options(course, assignment="01"), lambda kind: nullcontext(simple_judges)) == 0
    assert f"classroom/graded/{NAME}/marks.csv" in capsys.readouterr().out

    (course.root / "course").mkdir()
    (course.root / "course" / "00_start_here.ipynb").write_text("{}")
    assert grade_submissions(options(course, assignment="0"), lambda kind: nullcontext(simple_judges)) == 1
    assert capsys.readouterr().err == f"lesson 00_start_here has no exercise; assignments: {NAME}\n"


@pytest.mark.slow
@pytest.mark.parametrize("somebody_fails", [False, True])
def test_nothing_is_lost_when_nobody_reads(course: TinyCourse, somebody_fails: bool) -> None:
    course.hand_in("a", RIGHT)
    if somebody_fails:
        course.folder("b").mkdir(parents=True)
    program = (
        "import sys; from argparse import Namespace; from contextlib import nullcontext; from pathlib import PosixPath;"
        "from distlib.cli.grade import grade_submissions; from tests.tools.tiny_course import simple_judges;"
        f"sys.exit(grade_submissions({options(course)!r}, lambda kind: nullcontext(simple_judges)))"
    )
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does when it has enough
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, timeout=120
    )
    os.close(writing)
    students = ["a: graded", "b: could not be graded"][: 1 + somebody_fails]
    assert done.returncode == int(somebody_fails)
    assert sorted(line.split(": ", 1)[1].split(" in ")[0] for line in done.stderr.decode().splitlines()) == students
    written = course.root / "classroom" / "graded" / NAME
    assert "\na,graded," in (written / "marks.csv").read_text() and (written / "report.html").exists()
    assert run(course).unchanged == ["a"]


def test_the_command_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["grade", NAME]) == 1
    assert "is no course: there is no nbgrader_config.py; use --course FOLDER" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["grade", NAME, "--jobs", "0"])
    assert "expected a whole number above 0, got '0'" in capsys.readouterr().err


def test_nothing_is_left_that_nbformat_does_not_accept(course: TinyCourse) -> None:
    course.hand_in("a", RIGHT)
    run(course)
    nbformat.validate(course.autograded("a"))

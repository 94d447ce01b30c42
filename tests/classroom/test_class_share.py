"""Shares of a class, judged on several machines that share a folder: what they find is what one machine finds."""

from __future__ import annotations

import json
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from argparse import Namespace
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from distlib.classroom.grader import examinees, share_results
from distlib.classroom.grader.class_report import write_report
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.class_share import ShareRun, grade_share
from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.grader.share_results import ShareResults
from distlib.classroom.grader.which_share import ClassShare, read_share
from distlib.classroom.register.class_register import change_register
from distlib.cli import main
from distlib.cli.grade import grade_submissions
from tests.tools.tiny_course import KILLS_THE_GRADER, NAME, RIGHT, ROOT, TinyCourse, simple_judges

WRONG = {"double": "def double(x):\n    return 4", "negate": "def negate(x):\n    return x"}
SEED = {**RIGHT, "double": RIGHT["double"] + "  # seed"}  # its inputs' seed is a remark
ARRAY = dict(zip(("ID", "MIN", "MAX", "COUNT"), "2144", strict=True))


@pytest.fixture
def course(tiny_course: TinyCourse, tmp_path: Path) -> TinyCourse:
    """A class of five."""
    made = tiny_course.copy_to(tmp_path / "course")
    for student, answers in {"a": SEED, "b": WRONG, "c": {}, "d": SEED, "e": {**RIGHT, "why": "So."}}.items():
        made.hand_in(student, answers, timestamp="2026-01-02 03:04:05 UTC")
    return made


def share(course: TinyCourse, text: str, **options: Any) -> ShareRun:
    return grade_share(
        open_course(course.root), NAME, simple_judges, read_share(text, {}), **{"patience": 60.0, **options}
    )


def whole(course: TinyCourse, **options: Any) -> ClassRun:
    """The run of the class, and its report, which says that nobody took any time."""
    opened = open_course(course.root)
    run = grade_class(opened, NAME, simple_judges, **{"jobs": 2, "patience": 60.0, **options})
    timeless = {student: replace(record, seconds=0.0) for student, record in run.records.items()}
    write_report(replace(run, records=timeless), opened.records(NAME))
    return run


def files(course: TinyCourse) -> dict[str, str]:
    """What is written about a class, without the seconds in records, and without the gradebook."""
    found = {}
    for path in sorted((course.root / "classroom").rglob("*")):
        name = str(path.relative_to(course.root))
        if path.is_file() and path != course.gradebook and "submitted" not in name:
            found[name] = re.sub(r'("seconds"|"took"): [0-9.e-]+', r"\1", path.read_text())
    return found


def gradebook(course: TinyCourse) -> list[Any]:
    """All marks, by student and cell."""
    query = """
        SELECT submitted_assignment.student_id, base_cell.name, auto_score, manual_score, needs_manual_grade,
            late_submission_penalty, timestamp
        FROM grade JOIN base_cell ON base_cell.id = grade.cell_id
        JOIN submitted_notebook ON submitted_notebook.id = grade.notebook_id
        JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id
        ORDER BY 1, 2"""
    with closing(sqlite3.connect(course.gradebook)) as connection:
        return connection.execute(query).fetchall()


def results(course: TinyCourse) -> ShareResults:
    return ShareResults(open_course(course.root), NAME)


# The same as one run


@pytest.mark.slow
def test_two_shares_at_once_then_the_whole_is_one_run(course: TinyCourse, tmp_path: Path) -> None:
    single = course.copy_to(tmp_path / "single")
    programs = [
        "from pathlib import Path; from tests.tools.tiny_course import NAME, simple_judges;"
        "from distlib.classroom.grader.class_share import grade_share;"
        "from distlib.classroom.grader.which_share import ClassShare;"
        "from distlib.classroom.grader.course import open_course;"
        f"grade_share(open_course(Path({str(course.root)!r})), NAME, simple_judges, ClassShare({number}, 2))"
        for number in (1, 2)
    ]
    running = [subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) for program in programs]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    seed = results(course).seed()
    graded = whole(course)
    assert graded.taken_over == list("abcde") and graded.not_taken_over == {}
    assert {graded.records[student].seed for student in "abcde"} == {seed}

    one = whole(single, seed=seed)
    assert one.taken_over == []
    for each in (course, single):
        each.nbgrader("generate_feedback", NAME, "--force")
    assert {name.split("/")[1] for name in files(course)} >= {"autograded", "feedback", "graded"}
    assert files(course) == files(single)
    assert gradebook(course) == gradebook(single) != []
    assert f"seed {seed}" in graded.records["a"].remarks  # what was compared has the seed in it


@pytest.mark.slow
def test_a_share_writes_its_own_students_files_and_no_others(course: TinyCourse) -> None:
    before, book = files(course), course.gradebook.read_bytes()
    course.gradebook.unlink()  # a share does without it
    run = share(course, "2/2")
    assert run.students == list(run.records) == ["b", "d"] and run.size == 5
    folder = f"classroom/graded/{NAME}/shares"
    assert set(files(course)) - set(before) == {f"{folder}/seed", *(f"{folder}/students/{s}/found.json" for s in "bd")}
    course.gradebook.write_bytes(book)
    assert whole(course).taken_over == ["b", "d"]
    assert not (course.root / folder).exists()


@pytest.mark.parametrize("total", [1, 2, 3, 7, 400])
def test_each_student_is_in_one_share(total: int) -> None:
    units = [[f"student-{number}"] for number in range(100)] + [["ada", "zoe"], ["bob", "cy"]]
    shares = [ClassShare(number, total).of(units) for number in range(1, total + 1)]
    assert Counter(student for each in shares for student in each) == Counter(s for unit in units for s in unit)
    assert max(map(len, shares)) - min(map(len, shares)) <= 3
    assert shares == [ClassShare(number, total).of(units[::-1]) for number in range(1, total + 1)]
    assert all(("ada" in each) == ("zoe" in each) for each in shares)


@pytest.mark.slow
def test_a_team_is_judged_once(course: TinyCourse, tmp_path: Path) -> None:
    change_register(open_course(course.root), lambda register: replace(register, teams={"blue": ["a", "zoe"]}))
    single = course.copy_to(tmp_path / "single")
    assert [student for text in ("1/2", "2/2") for student in share(course, text).records] == list("acebd")
    assert not course.folder("zoe").exists()
    seed = results(course).seed()
    assert whole(course).taken_over == [*"abcde", "zoe"]
    whole(single, seed=seed)
    assert files(course) == files(single)


# What need not be judged again, and what must


@pytest.mark.slow
def test_what_was_judged_is_left_alone(course: TinyCourse) -> None:
    share(course, "1/2")
    again = share(course, "1/2")
    assert (again.records, again.noted) == ({}, ["a", "c", "e"])
    course.hand_in("c", RIGHT)
    assert list(share(course, "1/1").records) == ["b", "c", "d"]
    whole(course)
    done = share(course, "1/1")
    assert (done.records, done.noted, done.unchanged) == ({}, [], list("abcde"))
    asked = share(course, "2/2", again=True)
    assert list(asked.records) == ["b", "d"]
    assert whole(course, again=True).taken_over == ["b", "d"]


@pytest.mark.slow
def test_inputs_are_drawn_anew_for_the_next_hand_in(course: TinyCourse) -> None:
    share(course, "1/1")
    first = whole(course).records["a"].seed
    course.hand_in("a", {**SEED, "negate": WRONG["negate"]})
    share(course, "1/1")
    second = whole(course)
    assert second.taken_over == ["a"] and second.records["a"].seed != first


def test_only_some_students_leave_the_others_results(course: TinyCourse) -> None:
    share(course, "1/1", students=["a", "b", "c"])
    assert whole(course, students=["a", "d"]).taken_over == ["a"]
    assert whole(course).taken_over == ["b", "c"]


def test_what_does_not_fit_is_named_and_judged_again(course: TinyCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other:
        other.setattr(examinees, "judging_code", lambda: {"": "of last week"})
        other.setattr(platform, "node", lambda: "n2")
        share(course, "1/2", students=["a", "b", "c"])
    share(course, "2/2", students=["a", "b", "c"])
    share(course, "1/1", students=["d", "e"], times={"e": 3.0})
    course.hand_in("d", RIGHT)
    graded = whole(course)
    assert graded.taken_over == ["b"]
    assert graded.not_taken_over == {
        "a": "n2 has a different version of the course",
        "c": "n2 has a different version of the course",
        "d": "handed in again since",
        "e": "graded since, or with different options",
    }
    assert graded.records["e"].times == 1


def test_a_torn_result_is_judged_again(course: TinyCourse) -> None:
    share(course, "1/1")
    folder = course.root / "classroom" / "graded" / NAME / "shares" / "students"
    torn = ["", "{", "[]", '{"examined": {}}', '{"examined": {"notes": 1}, "judged_from": {}, "machine": ""}']
    for student, text in zip("abcde", torn, strict=True):
        assert json.loads((folder / student / "found.json").read_text())["examined"]["problem"] == ""
        (folder / student / "found.json").write_text(text)
    graded = whole(course)
    assert (graded.taken_over, graded.not_taken_over) == ([], {})


@pytest.mark.slow
def test_a_killed_share_is_finished_by_the_last_run(course: TinyCourse, tmp_path: Path) -> None:
    text = f"{KILLS_THE_GRADER}{tmp_path / 'killed'}\n{RIGHT['double']}"
    course.hand_in("c", {**RIGHT, "double": text})
    program = (
        "from pathlib import Path; from tests.tools.tiny_course import NAME, simple_judges;"
        "from distlib.classroom.grader.class_share import grade_share;"
        "from distlib.classroom.grader.which_share import ClassShare;"
        "from distlib.classroom.grader.course import open_course;"
        f"grade_share(open_course(Path({str(course.root)!r})), NAME, simple_judges, ClassShare(1, 2))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=120).returncode == -9
    graded = whole(course)
    assert graded.taken_over == ["a"]
    assert {record.state for record in graded.records.values()} <= {"graded", "graded, with remarks"}


def test_the_same_share_twice_at_once(course: TinyCourse) -> None:
    """Both write a student's result, time and again, while a third one reads: it sees whole results only."""
    share(course, "1/1", students=["a"])
    store = results(course)
    found = store.result("a")
    assert found is not None

    def write() -> None:
        for _ in range(200):
            store.note("a", found.examined, found.judged_from)

    writers = [threading.Thread(target=write) for _ in range(2)]
    seen = [store.result("a")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        seen.append(store.result("a"))
    assert all(each == found for each in seen)
    assert not list((course.root / "classroom").rglob("*.new"))


def test_all_who_draw_a_seed_get_the_same(course: TinyCourse) -> None:
    store, drawn = results(course), list[str]()
    start = threading.Barrier(8)

    def draw() -> None:
        start.wait()
        drawn.append(store.drawn_seed())

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == [store.seed()] * 8 and re.fullmatch("[0-9a-f]{32}", drawn[0])


def test_what_could_not_be_judged_is_tried_again(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    (course.folder("b") / f"{NAME}.ipynb").write_text("{")
    assert command(course, share=ClassShare(2, 2)) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [
        "Share 2/2: 2 of 5 students: 1 judged.",
        "Could not be judged, and are left to the last run:",
    ]
    assert printed[2].startswith(f"b: {NAME}.ipynb is not a notebook") and printed[3].startswith("When all shares")
    course.hand_in("b", RIGHT)
    assert whole(course).taken_over == ["d"]


@pytest.mark.parametrize("folder", ["b", "shares"])
def test_a_full_disk(folder: str, course: TinyCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    original = share_results.write_file

    def write_file(path: Path, content: bytes) -> None:
        if path.parent.name == folder:
            raise OSError(28, "No space left on device")
        original(path, content)

    monkeypatch.setattr(share_results, "write_file", write_file)
    if folder == "shares":
        with pytest.raises(CourseError, match=f"need files in classroom/graded/{NAME}/shares: No space left on device"):
            share(course, "1/1")
        return
    problems = {student: record.problem for student, record in share(course, "1/1").records.items() if record.problem}
    assert problems == {"b": "its result can't be written: No space left on device"}


# The command


def command(course: TinyCourse, **changed: Any) -> int:
    values = {"assignment": NAME, "student": [], "jobs": 2, "sandbox": "none", "course": course.root, "again": False}
    options = Namespace(**{**values, "time_for": [], "share": None, **changed})
    return grade_submissions(options, lambda kind: nullcontext(simple_judges))


def test_the_command(course: TinyCourse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(course, share=ClassShare(1, 2)) == 0
    last = f"When all shares have ended: distlib grade {NAME}"
    assert capsys.readouterr().out.splitlines() == ["Share 1/2: 3 of 5 students: 3 judged.", last]
    with monkeypatch.context() as other:
        other.setattr(examinees, "judging_code", lambda: {"": "of last week"})
        other.setattr(platform, "node", lambda: "n2")
        assert command(course, share=ClassShare(1, 1), student=["b"]) == 0
    capsys.readouterr()
    assert command(course) == 0
    printed = capsys.readouterr().out
    assert "\n3 submissions had been judged by shares.\n" in printed
    assert "Judged again, though a share had judged it: b (n2 has a different version of the course).\n" in printed
    assert command(course, share=ClassShare(9, 9)) == 0
    assert capsys.readouterr().out.splitlines() == ["Share 9/9: 0 of 5 students: 0 judged.", last]
    assert command(course, share=ClassShare(1, 5)) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Share 1/5: 1 of 5 students: 0 judged, 1 graded before."


def test_who_is_not_there_is_named(course: TinyCourse) -> None:
    with pytest.raises(CourseError, match="nobody has not handed in"):
        share(course, "1/2", students=["nobody"])
    with pytest.raises(CourseError, match="zoe is to have more time, and is not among those"):
        share(course, "1/2", times={"zoe": 3.0})
    shutil.rmtree(course.root / "classroom" / "submitted")
    with pytest.raises(CourseError, match=f"nobody has handed in {NAME}"):
        share(course, "1/2")
    assert not (course.root / "classroom" / "graded").exists()


@pytest.mark.parametrize("text", ["0/4", "5/4", "x", "", "1/0", "-1/4", "1/2/3", "1", "1.0/2", "٢/٤", "2/4\n", " 1/2"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError, match="expected NUMBER/TOTAL, such as 1/4, 2/4, 3/4 or 4/4, or array"):
        read_share(text, {})


def slurm(**changed: str) -> dict[str, str]:
    return {f"SLURM_ARRAY_TASK_{name}": value for name, value in {**ARRAY, **changed}.items() if value}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "array is for a job array of Slurm's, and there is no SLURM_ARRAY_TASK_ID; elsewhere give NUMBER/TOTAL"),
        (slurm(COUNT=""), "there is no SLURM_ARRAY_TASK_COUNT"),
        (slurm(ID="two"), "SLURM_ARRAY_TASK_ID is 'two'"),
        (
            slurm(MIN="0", MAX="3"),
            "must have the numbers from 1, such as --array=1-4, and has 4 numbers from 0 to 3",
        ),
        (slurm(MAX="7"), "has 4 numbers from 1 to 7"),  # --array=1-7:2
        (slurm(ID="3", MIN="3", MAX="3", COUNT="1"), "to start one share again, give its NUMBER/TOTAL, such as 3/4"),
        (slurm(ID="5"), "the array must have the numbers from 1"),
    ],
)
def test_an_array_that_is_none(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_share("array", variables)


def test_a_share_of_an_array(capsys: pytest.CaptureFixture[str]) -> None:
    assert asdict(read_share("array", slurm())) == {"number": 2, "total": 4}
    with pytest.raises(SystemExit):
        main(["grade", NAME, "--share", "5/4"])
    assert "argument --share: expected NUMBER/TOTAL, such as 1/4" in capsys.readouterr().err

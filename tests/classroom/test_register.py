"""`distlib class`: due dates, extensions, teams and pseudonyms, and what they do to a graded class."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook

from distlib.classroom.grader.class_page import html_page
from distlib.classroom.grader.class_report import text_table
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.grader.marks import notes
from distlib.classroom.register.class_register import ClassRegister, change_register, read_register
from distlib.classroom.register.due_dates import dates_of_term
from distlib.classroom.register.known_students import near_names, the_student
from distlib.classroom.register.late_rule import LateRule
from distlib.classroom.register.pseudonym_list import without_names
from distlib.classroom.register.term_dates import DUE_DATES, PLACE, TermDates, due_in_words, term_dates, text_of
from distlib.cli import main
from tests.tools.tiny_course import CELLS, NAME, RIGHT, TinyCourse, simple_judges

WRONG = {"double": "def double(x):\n    return 4"}
DUE = "2026-01-02 00:00 UTC"


@pytest.fixture
def course(tiny_course: TinyCourse, tmp_path: Path) -> TinyCourse:
    """A copy of a small course in which being late costs all points."""
    made = tiny_course.copy_to(tmp_path / "course")
    config = made.root / "nbgrader_config.py"
    config.write_text(config.read_text() + '\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    return made


def run(course: TinyCourse, **options: Any) -> ClassRun:
    return grade_class(open_course(course.root), NAME, simple_judges, **{"jobs": 2, "patience": 60.0, **options})


def told(course: TinyCourse, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    """What a command of `distlib class` prints, on the stream that belongs to its status."""
    assert main(["class", *words, "--course", str(course.root)]) == status
    out, err = capsys.readouterr()
    assert not (err if status == 0 else out)
    return out or err


def scores(graded: ClassRun, student: str) -> list[float]:
    return [graded.marks[student][cell].score for cell in CELLS]


# Due dates and extensions


@pytest.mark.slow
def test_an_extension_saves_the_points(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    for student in ("ada", "bob"):
        course.hand_in(student, RIGHT, timestamp="2026-01-04 10:00 UTC")
    assert "is due 2026-01-02 00:00 UTC" in told(course, capsys, "due", "1", DUE)
    assert run(course).penalties == {"ada": 6, "bob": 6}
    said = told(course, capsys, "extend", "ada", NAME, "--days", "2", "--hours", "12")
    assert said.startswith(f"ada has 2 days 12 h more for {NAME}.") and "until 2026-01-04 12:00 UTC" in said
    graded = run(course)
    assert graded.penalties == {"ada": 0, "bob": 6} and graded.unchanged == ["ada", "bob"]
    assert "Due 2026-01-02 00:00 UTC. More time for ada (2 days 12 h)." in notes(graded)
    told(course, capsys, "extend", "ada", NAME, "--none")
    assert run(course).penalties == {"ada": 6, "bob": 6}


@pytest.mark.slow
def test_an_extension_may_come_before_the_notebook(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    (course.root / "classroom" / "students.csv").write_text("id,first_name,last_name\nzoe,Zoé,O'Hara\n")
    course.hand_in("ada", RIGHT, timestamp="2026-01-04 10:00 UTC")
    told(course, capsys, "due", NAME, DUE)
    told(course, capsys, "extend", "zoé o'hara", NAME, "--days", "7")
    first = run(course)
    assert "zoe" not in first.marks and first.due.extensions.keys() == {"zoe"}
    course.hand_in("zoe", RIGHT, timestamp="2026-01-04 10:00 UTC")
    assert run(course).penalties == {"ada": 6, "zoe": 0}
    with Gradebook(course.gradebook_url) as gradebook:
        assert gradebook.find_submission(NAME, "zoe").extension.days == 7


@pytest.mark.slow
def test_an_extension_for_nobody_is_said_with_near_names(
    course: TinyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    for student in ("ada-lovelace", "alan-turing"):
        course.hand_in(student, {})
    said = told(course, capsys, "extend", "ada-lovelac", NAME, "--days", "3", status=1)
    assert said == "there is no student 'ada-lovelac'; do you mean ada-lovelace?\n"
    said = told(course, capsys, "extend", "zzz", NAME, "--days", "3", status=1)
    assert said == "there is no student 'zzz'; there are ada-lovelace and alan-turing\n"
    assert "how much more time?" in told(course, capsys, "extend", "alan-turing", NAME, status=1)
    assert not (course.root / "classroom" / "class.json").exists()


def test_a_name_that_two_students_have_is_not_guessed() -> None:
    known = {"ada1": "Ada Lovelace", "ada2": "Ada Lovelace"}
    with pytest.raises(CourseError, match="may be ada1 and ada2"):
        the_student("ada lovelace", known)
    assert the_student("ADA1", known) == "ada1"
    assert near_names("lovelance", {"x7": "Ada Lovelace", "y": "Bob"}) == ["x7"]


def test_a_due_date_can_be_shown_and_taken_back(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(course, capsys, "due", NAME) == f"{NAME} has no due date\n"
    said = told(course, capsys, "due", NAME, "2030-11-02 23:59 Europe/Berlin")
    assert said.startswith(f"{NAME} is due 2030-11-02 22:59 UTC\n")
    assert "may be" in told(course, capsys, "due", NAME, "03.11.2030 10:00", status=1)
    assert told(course, capsys, "due", NAME, "--none") == f"{NAME} has no due date\n"


def test_without_a_penalty_it_is_said(tiny_course: TinyCourse, tmp_path: Path, capsys: Any) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    assert "Being late costs no points" in told(course, capsys, "due", NAME, DUE)


# What being late costs


def test_days_are_counted_from_the_end_of_the_grace_period() -> None:
    rule = LateRule(0.1, grace=600, slip_days=2, at_most=0.5)
    hour, day = 3_600, 86_400
    assert [rule.days(seconds) for seconds in (0, 600, 601, day + 600, day + 601)] == [0, 0, 1, 1, 2]
    assert [round(rule.share_lost(days), 9) for days in (0, 3, 5, 9)] == [0, 0.3, 0.5, 0.5]
    assert rule.days_charged([hour, 0, 3 * day, day]) == [0, 0, 2, 1]  # one slip day, then the other one
    assert rule.words == (
        "10 % of the points for each day begun, at most 50 %; the first 10 min are free; 2 slip days in the term"
    )
    assert (LateRule(1.0).words, LateRule(0.125).words) == (
        "all points", "12.5 % of the points for each day begun",
    )  # fmt: skip


@pytest.mark.parametrize("numbers", [(0,), (1.1,), (0.1, -1), (0.1, 0, -1), (0.1, 0, 0, 0), ("x",), (float("nan"),)])
def test_a_rule_with_impossible_numbers(numbers: Any) -> None:
    with pytest.raises(ValueError):
        LateRule(*numbers)


def test_a_rule_is_set_shown_and_taken_back(tiny_course: TinyCourse, tmp_path: Path, capsys: Any) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    assert told(course, capsys, "late") == "Being late costs no points.\n"
    said = told(course, capsys, "late", "--per-day", "10%", "--grace", "2h", "--slip-days", "3")
    assert "Being late costs 10 % of the points for each day begun; the first 2 h are free; 3 slip days" in said
    assert "costs 10 %" in told(course, capsys, "late")
    assert "Next: distlib grade" in told(course, capsys, "due", NAME, DUE)
    assert "what does a day cost?" in told(course, capsys, "late", "--slip-days", "3", status=1)
    assert "such as 10min, 2h or 1d" in told(course, capsys, "late", "--per-day", "5", "--grace", "soon", status=1)
    assert "costs 10 %" in told(course, capsys, "late"), "a mistake changes nothing"
    assert told(course, capsys, "late", "--none") == "Being late costs no points.\n"


def test_a_tenth_a_day_for_a_class(tiny_course: TinyCourse, tmp_path: Path, capsys: Any) -> None:
    """A slip day is used up by the exercise that is due first, also if that is graded last."""
    course = tiny_course.copy_to(tmp_path / "course")
    for student, day in (("ada", 4), ("bob", 3)):
        course.hand_in(student, RIGHT, timestamp=f"2026-01-0{day} 10:00 UTC")  # begun: 3 days and 2 days
    told(course, capsys, "due", NAME, DUE)
    told(course, capsys, "late", "--per-day", "10%", "--slip-days", "1")
    assert run(course).penalties == pytest.approx({"ada": 1.2, "bob": 0.6})
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.update_or_create_assignment("00_before", duedate="2026-01-01 00:00 UTC")
        gradebook.update_or_create_submission("00_before", "ada", timestamp="2026-01-01 05:00 UTC")
    assert run(course).penalties == pytest.approx({"ada": 1.8, "bob": 0.6})
    told(course, capsys, "late", "--none")
    assert run(course).penalties == {"ada": 0, "bob": 0}


def test_a_rule_in_python_that_is_not_there_stops_before_grading(tiny_course: TinyCourse, tmp_path: Path) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    config = course.root / "nbgrader_config.py"
    config.write_text(config.read_text() + '\nc.AssignLatePenalties.plugin_class = "late.ATenthADay"\n')
    course.hand_in("ada", RIGHT)
    with pytest.raises(CourseError, match=r"late.ATenthADay computes, and it can't be imported.*Nothing was graded"):
        run(course)
    assert not (course.root / "classroom" / "autograded").exists()


# What students know of it


def test_students_know_the_dates(
    tiny_course: TinyCourse, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    on_server, released = tmp_path / "outbound" / ".due_dates.json", tmp_path / "released"
    on_server.parent.mkdir()
    monkeypatch.setenv(PLACE, str(on_server))
    told(course, capsys, "due", NAME, "2030-11-02 23:59 Europe/Berlin")
    told(course, capsys, "late", "--per-day", "10%")
    dates = term_dates(released)
    assert dates == TermDates({NAME: datetime(2030, 11, 2, 22, 59, tzinfo=UTC)}, LateRule(0.1))
    monkeypatch.delenv(PLACE)
    assert term_dates(released) == TermDates()
    released.mkdir()
    (released / DUE_DATES).write_text(text_of(dates_of_term(open_course(course.root))))
    assert term_dates(released) == dates


@pytest.mark.parametrize("text", ["", "{", "[]", '{"due": 3}', '{"due": {"a": "soon"}, "late": null}'])
def test_dates_that_cannot_be_read_are_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / DUE_DATES).write_text(text)
    assert term_dates(tmp_path) == TermDates()


def test_what_a_receipt_says_of_the_date() -> None:
    due = datetime(2030, 11, 2, 22, 59, tzinfo=UTC)
    dates = TermDates({NAME: due}, LateRule(0.1, grace=600, slip_days=2))

    def said(**later: float) -> str:
        return due_in_words(dates, NAME, due + timedelta(**later), full=13).partition(", ")[2]

    assert said(hours=-2) == "2 h after this"
    assert said(days=-3) == "3 days after this"
    assert said(minutes=5) == "5 min before this: late, and within the time that costs nothing"
    assert said(days=2, hours=3) == (
        "2 days before this: late, which costs 30 % of your points, at most 3.9 of 13, unless you have more time. "
        "2 slip days in the term count first."
    )
    assert due_in_words(TermDates({NAME: due}), NAME, due + timedelta(hours=5)).endswith("5 h before this: late")
    assert due_in_words(dates, "another", due) == ""


# Teams


def count_judged(course: TinyCourse, path: Path) -> ClassRun:
    """Grade, with a line in a file for each submission that is judged."""

    def counted(notebook: Any) -> Any:
        with path.open("a") as file:
            file.write("judged\n")
        return simple_judges(notebook)

    return grade_class(open_course(course.root), NAME, counted, jobs=1, patience=60.0)


@pytest.mark.slow
def test_a_team_hands_in_once(course: TinyCourse, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course.hand_in("ada", {**RIGHT, **WRONG}, timestamp="2026-01-01 10:00 UTC")
    course.hand_in("eve", {})
    (course.root / "classroom" / "students.csv").write_text("id\nbob\ncy\n")
    assert told(course, capsys, "team", "blue", "ada", "bob", "cy").startswith("blue: ada, bob and cy\n")
    told(course, capsys, "due", NAME, DUE)
    graded = count_judged(course, tmp_path / "judged")
    assert (tmp_path / "judged").read_text().split() == ["judged"] * 2  # ada's for three, and eve's
    assert scores(graded, "bob") == scores(graded, "cy") == scores(graded, "ada") == [1, 0, 1, 2]
    assert {record.seed for record in graded.records.values()} == {graded.records["ada"].seed}
    assert "Team blue: what ada has handed in counts for bob and cy, too." in notes(graded)
    assert course.autograded("bob")["cells"] == course.autograded("ada")["cells"]

    course.hand_in("ada", RIGHT, timestamp="2026-01-04 10:00 UTC")  # better, and late
    told(course, capsys, "extend", "blue", NAME, "--days", "5")
    again = run(course)
    assert scores(again, "bob") == [1, 2, 1, 2] and again.penalties == dict.fromkeys(["ada", "bob", "cy", "eve"], 0)
    assert run(course).unchanged == ["ada", "bob", "cy", "eve"]


def test_a_member_of_a_team_is_not_among_those_whose_upload_was_not_collected(
    course: TinyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    course.hand_in("ada", RIGHT)
    (course.root / "classroom" / "students.csv").write_text("id,first_name,last_name\nada,Ada,Lovelace\nbob,Bob,Bo\n")
    up = course.root / "up"
    up.mkdir()
    for name in ("bob.pdf", "zed.pdf"):
        (up / name.replace(".pdf", ".ipynb")).write_bytes(b"%PDF-1.7")
    assert main(["collect", NAME, str(up), "--course", str(course.root)]) == 1
    told_of = capsys.readouterr().out
    assert "bob  not collected  bob.ipynb" in told_of
    assert [each.student for each in run(course).refused] == ["", "bob"]
    told(course, capsys, "team", "blue", "ada", "bob")
    assert [each.student for each in run(course).refused] == [""]


def test_who_is_not_in_the_class_is_named_and_who_is_by_name(
    course: TinyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    for student in ("ada", "section-3-bob-bo", "stranger"):
        course.hand_in(student, RIGHT)
    run(course)
    (course.root / "classroom" / "students.csv").write_text("id,first_name,last_name\nada,Ada,Lovelace\nbob,Bob,Bo\n")
    course.hand_in("ada", {**RIGHT, **WRONG})
    graded = run(course)
    assert graded.strangers == ["section-3-bob-bo", "stranger"]
    sentence = "Not in students.csv are section-3-bob-bo and stranger: a name that a student has in uploads? Then: "
    sentence += "distlib class same section-3-bob-bo STUDENT"
    assert sentence in notes(graded) and sentence in html_page(graded)
    assert "ada (Ada Lovelace): double_hidden 2 → 0" in text_table(graded)
    assert '<th scope="row">ada <span class="dim">Ada Lovelace</span></th>' in html_page(graded)
    said = told(course, capsys, "report")
    assert sentence in said and "has not handed in anything: bob (Bob Bo)" in said
    page = (course.root / "classroom" / "report" / "index.html").read_text()
    assert sentence in page and "bob (Bob Bo)" in page


@pytest.mark.slow
def test_grading_one_of_a_team_grades_all(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    for student in ("ada", "eve"):
        course.hand_in(student, RIGHT)
    (course.root / "classroom" / "students.csv").write_text("id\nbob\n")
    told(course, capsys, "team", "blue", "ada", "bob")
    assert set(run(course, students=["bob"]).records) == {"ada", "bob"}


@pytest.mark.slow
def test_a_team_that_comes_later_has_the_same_inputs(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    course.hand_in("ada", {**RIGHT, "double": RIGHT["double"] + "  # seed"})
    (course.root / "classroom" / "students.csv").write_text("id\nbob\n")
    seed = run(course).records["ada"].seed
    told(course, capsys, "team", "blue", "ada", "bob")
    records = run(course).records
    assert records["bob"].seed == records["ada"].seed == seed and records["bob"].remarks == [f"seed {seed}"]


@pytest.mark.slow
def test_what_a_student_of_a_team_hands_in_stays(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    course.hand_in("ada", RIGHT, timestamp="2026-01-01 10:00 UTC")
    course.hand_in("bob", {**RIGHT, **WRONG}, timestamp="2026-01-01 12:00 UTC")
    odd = course.folder("dora")
    odd.mkdir(parents=True)
    (odd / "notes.txt").write_text("mine")
    (course.root / "classroom" / "students.csv").write_text("id\ncy\n")
    told(course, capsys, "team", "blue", "ada", "bob", "cy", "dora")
    graded = run(course)
    assert scores(graded, "ada") == [1, 2, 1, 2] and scores(graded, "bob") == scores(graded, "cy") == [1, 0, 1, 2]
    assert (
        "Team blue: what bob has handed in counts for cy, too. ada handed in a different notebook, and keeps it."
        in (notes(graded))
    )
    assert (odd / "notes.txt").read_text() == "mine" and graded.records["dora"].problem


def test_nobody_is_in_two_teams(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    for student in ("ada", "bob", "cy"):
        course.hand_in(student, {})
    told(course, capsys, "team", "blue", "ada", "bob")
    said = told(course, capsys, "team", "red", "bob", "cy", status=1)
    assert said == "bob has a team, blue; end it with --none first\n"
    assert "at least two" in told(course, capsys, "team", "red", "cy", status=1)
    assert "there is no team 'green'; there are blue" in told(course, capsys, "team", "green", "--none", status=1)
    assert told(course, capsys, "team", "blue", "--none") == "0 teams. A team hands in once.\n"
    assert told(course, capsys, "team") == "0 teams. A team hands in once.\n"


# The file


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"version": 1, "teams": {"blue": ["a', "is damaged"),
        ("[]", "is damaged"),
        ('{"version": 2}', "is of version 2, this package reads 1"),
        ('{"version": 1, "theme": {}}', "entries that it should not have"),
        ('{"version": 1, "teams": {"a": ["x"], "b": ["x"]}}', "entries that it should not have"),
        ('{"version": 1, "extensions": {"a": {"x": "long"}}}', "entries that it should not have"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_as_it_is(course: TinyCourse, text: str, words: str) -> None:
    path = course.root / "classroom" / "class.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    opened = open_course(course.root)
    with pytest.raises(CourseError, match=words):
        change_register(opened, lambda register: register)
    with pytest.raises(CourseError, match=words):
        run(course)
    assert path.read_text() == text


def test_what_is_written_is_read(course: TinyCourse) -> None:
    opened = open_course(course.root)
    assert read_register(opened) == ClassRegister()
    kept = ClassRegister({"blue": ["ada", "bob"]}, {NAME: {"ada": 60.0}}, {"ada": "reed-100"})
    change_register(opened, lambda register: kept)
    assert read_register(opened) == kept and kept.team_of("bob") == "blue" and kept.team_of("cy") == ""


# Pseudonyms


def test_a_second_marker_sees_no_name(course: TinyCourse, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (course.root / "classroom" / "students.csv").write_text("id,first_name,last_name\nada-l,Ada,Lovelace\nbob,Bob,Bo\n")
    course.hand_in("ada-l", {**RIGHT, "why": "I, Ada LOVELACE, think so. Lovelaces, adagio."})
    run(course)
    told(course, capsys, "pseudonyms")
    first = read_register(open_course(course.root)).pseudonyms
    assert set(first) == {"ada-l", "bob"} and all(re.fullmatch(r"[a-z]+-\d{3}", name) for name in first.values())
    told(course, capsys, "second-marker", NAME, str(tmp_path / "second"))
    assert read_register(open_course(course.root)).pseudonyms == first  # they stay
    pseudonym = first["ada-l"]
    assert {path.name for path in (tmp_path / "second").iterdir()} == {"marks.csv", f"{pseudonym}.ipynb"}
    text = (tmp_path / "second" / f"{pseudonym}.ipynb").read_text()
    assert f"I, {pseudonym} {pseudonym}, think so. Lovelaces, adagio." in text
    rows = list(csv.DictReader((tmp_path / "second" / "marks.csv").open()))
    shown = [[row[name] for name in ("pseudonym", "double", "why", "all")] for row in rows]
    assert shown == [[pseudonym, "3 of 3", "– of 2", "6 of 6, 2 open"]]
    assert "is not empty" in told(course, capsys, "second-marker", NAME, str(tmp_path / "second"), status=1)
    who = list(csv.reader((course.root / "classroom" / "pseudonyms.csv").open()))
    assert [pseudonym, "ada-l", "Ada Lovelace"] in who


def test_names_are_replaced_as_words_and_the_notebook_stays_one() -> None:
    notebook = json.dumps({"cells": [{"source": ["# by bob\n", "bobsled = 'Bob_1'"]}], "bob": 1})
    assert json.loads(without_names(notebook, "elm-1", ["bob", "Bo"])) == {
        "cells": [{"source": ["# by elm-1\n", "bobsled = 'elm-1_1'"]}], "bob": 1,
    }  # fmt: skip

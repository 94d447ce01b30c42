"""`distlib export`: marks as Canvas and Moodle import them, whatever students are called."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from distlib.classroom.exports.canvas_file import canvas_file, read_canvas_file
from distlib.classroom.exports.moodle_file import moodle_file
from distlib.classroom.exports.score_table import ScoredStudent, ScoreTable
from distlib.classroom.grader.class_run import grade_class
from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.rounding import rescaled, rounded
from distlib.classroom.words import points
from distlib.cli import main
from tests.tools.import_formats import Refused, canvas_marks, moodle_marks
from tests.tools.tiny_course import NAME, RIGHT, TinyCourse, simple_judges

ODD = {
    "a": ("Ada, Countess", "Lovelace"),
    "b": ('Grace "Amazing"', "Hopper"),
    "c": ("Line\nBreak", "Tab\tTab"),
    "d": ("=1+1", "@SUM(A1)"),
    "e": ("-2+3", "+cmd|' /C calc'!A0"),
    "f": ("王", "小明"),
    "g": ("Ægir", "Þór’sson"),
    "h": ("محمد", "علي"),
    "i": ("", ""),
    "j": ("'quoted'", ";=1+1"),
    "k": ("Zero\x00", "\x1b[2J"),
}


def table_of(names: dict[str, tuple[str, str]], seed: int = 5) -> ScoreTable:
    """A class with drawn scores in two exercises; one of them has none of the second."""
    draw = random.Random(seed)
    students = [
        ScoredStudent(known, first, last, f"{known}@example.org", "", {"02_ring": draw.uniform(0, 26)})
        for known, (first, last) in names.items()
    ]
    for student in students[1:]:
        student.scores["03_tree"] = draw.randint(0, 20) / 2
    return ScoreTable({"02_ring": 26.0, "03_tree": 10.0}, students)


def test_odd_names_are_imported_with_their_marks() -> None:
    table = table_of(ODD)
    canvas = canvas_marks(canvas_file(table).text, {student.id: student.id for student in table.students})
    moodle = moodle_marks(moodle_file(table).text, "Email address", [student.email for student in table.students])
    for student in table.students:
        expected = {name: rounded(student.scores[name]) if name in student.scores else None for name in table.full}
        assert canvas[student.id] == moodle[student.email] == expected


def test_the_validator_refuses_what_the_platforms_refuse() -> None:
    text = canvas_file(table_of({"a": ("Ada", "L")})).text
    known = {"a": "a"}
    assert canvas_marks(text, known)
    for bad in (
        text.replace("Section", "Group"), text.replace("Student", "Name"), text.replace(",a,", ",=a,"),
        text.replace("SIS Login ID", "Login"), text.replace("26.00", "many"), text.replace('"L, Ada"', '"L\nAda"'),
        text.replace("03_tree", "02_ring"), text.replace(",a,", ",zoe,").replace("L, Ada", "Zoe"), text + "x\r\n",
    ):  # fmt: skip
        with pytest.raises(Refused):
            canvas_marks(bad, known)
    text = moodle_file(table_of({"a": ("Ada", "L"), "b": ("Bob", "B")})).text
    addresses = ["a@example.org", "b@example.org"]
    assert moodle_marks(text, "Email address", addresses)
    for bad in (text.replace("b@example.org", ""), text.replace("b@e", "x@e"), text.replace("-\r", "none\r")):
        with pytest.raises(Refused):
            moodle_marks(bad, "Email address", addresses)


def test_scores_are_rounded_once_and_halves_go_up() -> None:
    assert [str(rounded(number)) for number in (2.675, 1.005, 0.1 + 0.2, -0.001, 3)] == [
        "2.68", "1.01", "0.30", "0.00", "3.00",
    ]  # fmt: skip
    assert points(2.675) == "2.68"  # as the pages show it
    assert str(rescaled(2 / 3, 2, 100)) == "33.33" and str(rescaled(1, 0, 100)) == "1.00"


def test_another_scale() -> None:
    table = ScoreTable({"02_ring": 130.0}, [ScoredStudent("a", email="a@x.org", scores={"02_ring": 65.0})])
    with pytest.raises(CourseError, match="02_ring has 130 points, Moodle takes 100: add --out-of 100"):
        moodle_file(table)
    found = moodle_marks(moodle_file(table, out_of=100).text, "Email address", ["a@x.org"])
    assert found == {"a@x.org": {"02_ring": Decimal(50)}}
    assert "Points Possible,,,,,40.00" in canvas_file(table, out_of=40).text


def test_who_cannot_be_named_to_moodle_is_left_out_and_named() -> None:
    students = [
        ScoredStudent("a", email="a@x.org"), ScoredStudent("b"), ScoredStudent("c", email="=x@x.org"),
        ScoredStudent("d", email="same@x.org"), ScoredStudent("e", email="same@x.org"),
    ]  # fmt: skip
    made = moodle_file(ScoreTable({"02_ring": 26.0}, students))
    assert moodle_marks(made.text, "Email address", ["a@x.org"]) == {"a@x.org": {"02_ring": None}}
    assert made.left_out == {
        "b": "has no email address in the gradebook",
        "c": "a spreadsheet would take '=x@x.org' for a formula",
        "d": "shares the email address 'same@x.org' with another student",
        "e": "shares the email address 'same@x.org' with another student",
    }
    assert set(
        moodle_marks(moodle_file(ScoreTable({"r": 1.0}, students), by="id").text, "ID number", list("abcde"))
    ) == (set("abcde"))


CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Integration ID,Section,02 Ring (77),Homework (78),Current Score
    Points Possible,,,,,,26,10,(read only)
"Lovelace, Ada",1204,u1,ada@school.org,,"Monday, 10",,,
"Hopper, Grace",1205,u2,hopper,,Tuesday,,,
"Turing, Alan",1206,u3,turing,,Tuesday,,,
"Turing, Alan",1207,u4,turing2,,Tuesday,,,
"Student, Test",1208,,,,Tuesday,,,
"""


def test_students_and_titles_as_canvas_has_exported_them(tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text("\ufeff" + CANVAS, encoding="utf-8")
    students = [
        ScoredStudent("ada", email="ADA@school.org", scores={"02_ring": 20.0}),
        ScoredStudent("grace-hopper", "Grace", "Hopper", scores={"02_ring": 21.0}),
        ScoredStudent("x", "Alan", "Turing", platform_id="1207", scores={"02_ring": 22.0}),
        ScoredStudent("alan-turing", scores={"02_ring": 23.0}),
        ScoredStudent("nobody", scores={"02_ring": 24.0}),
    ]
    made = canvas_file(ScoreTable({"02_ring": 26.0}, students), read_canvas_file(path))
    known = {"1204": "ada", "1205": "grace", "1207": "alan"}
    marks = canvas_marks(made.text, known)
    assert marks == {name: {"02 Ring (77)": Decimal(20 + place)} for place, name in enumerate(["ada", "grace", "alan"])}
    assert '"Lovelace, Ada",1204,u1,ada@school.org,"Monday, 10",20.00' in made.text
    assert made.left_out == {
        "alan-turing": "Canvas's file has several such students",
        "nobody": "is not in Canvas's file",
    }


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "Student,ID\nx,1\n", "\x00"])
def test_a_file_that_is_not_canvas_s_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text(text)
    with pytest.raises(CourseError, match=r"canvas\.csv (is not a gradebook|can't be read)"):
        read_canvas_file(path)


def test_from_the_gradebook_to_a_file(
    tiny_course: TinyCourse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    course.hand_in("ada", {**RIGHT, "why": "So."})
    course.hand_in("bob", RIGHT)
    (course.hand_in("eve", {}) / f"{NAME}.ipynb").write_text("{")
    grade_class(open_course(course.root), NAME, simple_judges, jobs=1, patience=60.0)
    with Gradebook(course.gradebook_url) as gradebook:
        gradebook.update_or_create_student("zoe", first_name="Zoé", last_name="O'Hara", lms_user_id="9")
    (course.root / "classroom" / "students.csv").write_text(
        "id,first_name,last_name,email\nbob,Bob,B,b@x.org\nyan,Yan,Y,\n"
    )
    words = ["export", "1", "--course", str(course.root)]
    assert main([*words, "--format", "canvas"]) == 0
    said = capsys.readouterr().out
    assert "Not in students.csv are ada, eve and zoe:" in said and "distlib class same ada STUDENT" in said
    assert said.startswith("classroom/canvas.csv: 5 students, 1 exercise\n  01_tiny: 1 mark; 1 score not final")
    text = (course.root / "classroom" / "canvas.csv").read_text()
    known = {"ada": "ada", "bob": "bob", "eve": "eve", "9": "zoe", "yan": "yan"}
    assert canvas_marks(text, known) == {
        "ada": {NAME: None}, "bob": {NAME: Decimal(6)}, "eve": {NAME: None}, "zoe": {NAME: None}, "yan": {NAME: None},
    }  # fmt: skip
    assert main([*words, "--format", "canvas", "--provisional", "--to", str(tmp_path / "all.csv")]) == 0
    assert canvas_marks((tmp_path / "all.csv").read_text(), known)["ada"] == {NAME: Decimal(6)}
    assert '"B, Bob",,,bob,,6.00' in text
    assert main([*words, "--format", "moodle"]) == 1  # only bob has an address
    assert "left out: zoe has no email address in the gradebook" in capsys.readouterr().out
    assert main(["export", "nothing", "--format", "canvas", "--course", str(course.root)]) == 1
    assert "the gradebook does not know nothing" in capsys.readouterr().err

"""`distlib class report` and `side-by-side`: a whole course, and answers next to each other, for its instructor."""

from __future__ import annotations

import csv
import html
import io
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from distlib.classroom.course_report.answer_pairs import (
    LEAST_STUDENTS,
    marked_lines,
    side_by_side_html,
    unusual_pairs,
)
from distlib.classroom.course_report.course_page import ideas_csv, write_course_report
from distlib.classroom.course_report.graded_course import GradedCourse, read_course
from distlib.classroom.course_report.wrong_ideas import wrong_ideas
from distlib.classroom.grader.check_message import Told
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.register.due_dates import DueDates
from distlib.cli import main
from tests.classroom.test_class_page import class_of, half_marked, rows_below
from tests.tools.tiny_course import NAME, RIGHT, TinyCourse, simple_judges

UNWRITTEN = Told("it is not written yet")


def told(ranks: int, cause: str = "", seen: str = "chunk 0 is wrong. More about it.") -> Told:
    return Told(f"on {ranks} ranks: {seen}", cause)


def a_class() -> ClassRun:
    """Five students: three have one idea about shift, one has two, one has written nothing."""
    average = "this is the average of {} numbers."
    messages = {
        "a": {"shift_visible": told(2, average.format(2)), "shift_hidden": told(3, average.format(3))},
        "b": {"shift_hidden": told(5, average.format(5))},
        "c": {"shift_hidden": told(4, average.format(4)), "gather_hidden": told(4)},
        "d": {"shift_visible": told(4, "it is as it was."), "shift_hidden": told(4, average.format(4))},
        "e": {"shift_visible": UNWRITTEN, "shift_hidden": UNWRITTEN},
    }
    return class_of(dict.fromkeys("abcde", [2, 0, 2, 0]), told=messages)


def test_wrong_ideas_are_counted_once_per_student() -> None:
    ideas = wrong_ideas([a_class()])
    assert [(idea.function, idea.students, idea.of, idea.words) for idea in ideas] == [
        ("shift", ["a", "b", "c", "d"], 4, "this is the average of 2 numbers."),
        ("shift", ["d"], 4, "it is as it was."),
        ("gather", ["c"], 5, "on 4 ranks: chunk 0 is wrong."),
    ]
    assert [idea.is_cause for idea in ideas] == [True, True, False]
    rows = list(csv.DictReader(io.StringIO(ideas_csv(ideas))))
    assert [(row["students"], row["of"], row["who"]) for row in rows] == [
        ("4", "4", "a b c d"), ("1", "4", "d"), ("1", "5", "c"),
    ]  # fmt: skip
    assert rows[2]["cause"] == "" and rows[2]["seen"] == "on 4 ranks: chunk 0 is wrong."


def test_what_could_not_be_graded_has_no_idea() -> None:
    assert wrong_ideas([class_of({"a": []}, told={"a": {"shift_hidden": told(2, "the average.")}})]) == []


def course_of(*runs: ClassRun, **names: str) -> GradedCourse:
    return GradedCourse(list(runs), names, {"a": "blue"}, {"09_lost": "the gradebook knows another version"})


def test_the_pages_of_a_course(tmp_path: Path) -> None:
    due = DueDates(datetime(2026, 1, 2), {"a": timedelta(days=3)})
    first = ClassRun(**{**vars(a_class()), "assignment": "01_one", "due": due, "penalties": {"a": 1.0}})
    second = ClassRun(**{**vars(class_of({"a": [2, 2, 2, 2]}, missing=["b"])), "assignment": "02_two"})
    course = course_of(first, second, a="Ada L", b="", c="", d="", e="=1+1", zoe="<b>Zoé</b>")
    page = write_course_report(course, tmp_path).read_text()
    assert "6 students, 2 exercises, 16 points. Half of them have 4 points or more." in page
    assert rows_below(page, "Typical wrong ideas")[0] == (
        "4 of 4 shift 01_one this is the average of 2 numbers. a, b, c and d"
    )
    assert rows_below(page, "Exercises") == [
        "01_one 2026-01-02 00:00 UTC 5 5 4 / 8 zoe (<b>Zoé</b>)",
        "02_two – 1 1 8 / 8 b, c, d, e (=1+1) and zoe (<b>Zoé</b>)",
    ]  # fmt: skip
    rows = rows_below(page, "Students")
    assert rows[0] == "a Ada L team blue 3 8 11" and rows[-1] == "zoe <b>Zoé</b> – – 0 01_one and 02_two"
    assert rows_below(page, "Not in this report") == ["09_lost the gradebook knows another version"]
    assert "<b>" not in page and "default-src 'none'" in page

    links = re.findall(r'href="([^"]+)"', page)
    assert links == [f"students/{number}.html" for number in range(1, 7)]
    one = html.unescape((tmp_path / links[0]).read_text())
    assert "<h1>Ada L</h1>" in one and "a, team blue: 11 of 16 points." in one
    assert "3 of 8 points. 1 were taken off for being late. Extension: 3 days." in one
    assert one.count("Usual cause: this is the average of 2 numbers.") == 1
    marks = list(csv.DictReader((tmp_path / "marks.csv").open(encoding="utf-8")))
    assert [(m["student"], m["01_one"], m["02_two"], m["all"], m["of"]) for m in marks][:2] == [
        ("a", "3", "8", "11", "16"), ("b", "4", "", "4", "16"),
    ]  # fmt: skip
    assert marks[4]["name"] == "'=1+1" and marks[5]["not handed in"] == "01_one 02_two"

    write_course_report(course_of(first, a="Ada L"), tmp_path)
    assert [path.name for path in (tmp_path / "students").iterdir()] == ["1.html"]


def test_what_waits_for_a_mark_by_hand_is_in_no_sum(tmp_path: Path) -> None:
    course = GradedCourse([half_marked()], {"ada": "", "bob": "", "zoe": ""}, {}, {})
    page = write_course_report(course, tmp_path).read_text()
    assert rows_below(page, "Exercises") == ["x – 3 3 15 / 18 zoe"]  # the middle of those whose marks are all given
    assert rows_below(page, "Students") == ["ada 15 15", "bob 2, 10 open 2, 10 open", "zoe – 0 x"]
    assert "Open: waits for a mark by hand." in page
    one = (tmp_path / "students" / "2.html").read_text()
    assert one.count("2 of 8 points; 10 more wait for a mark by hand.") == 2 and "– / 10" in one
    rows = list(csv.DictReader((tmp_path / "marks.csv").open(encoding="utf-8")))
    assert [(r["x"], r["all"], r["of"], r["open"]) for r in rows] == [
        ("15", "15", "18", "0"), ("2", "2", "8", "10"), ("", "0", "18", "0"),
    ]  # fmt: skip


def test_a_report_of_what_was_graded(
    tiny_course: TinyCourse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    words = ["--course", str(course.root)]
    assert main(["class", "report", *words]) == 1
    assert "nothing is graded yet" in capsys.readouterr().err
    (course.root / "classroom" / "students.csv").write_text("id,first_name,last_name\nzoe,Zoé,Hara\n")
    course.hand_in("ada", {**RIGHT, "double": "def double(x):\n    return 4"})
    course.hand_in("bob", RIGHT)
    grade_class(open_course(course.root), NAME, simple_judges, jobs=1, patience=60.0)
    assert main(["class", "report", *words]) == 0
    said = capsys.readouterr().out
    assert "has not handed in anything: zoe" in said
    assert "most frequent: 1 of 2 in double: AssertionError: double is wrong for a large number" in said
    graded = read_course(open_course(course.root))
    assert [graded.total(student) for student in ("ada", "bob", "zoe")] == [PointSum(got, 8) for got in (4, 6, 0)]
    assert main(["class", "side-by-side", NAME, *words]) == 0
    assert "0 pairs to read" in capsys.readouterr().out
    assert main(["class", "side-by-side", "07", *words]) == 1
    assert f"07 is not graded yet; graded are {NAME}" in capsys.readouterr().err


def test_an_exercise_that_changed_since_is_named(tiny_course: TinyCourse, tmp_path: Path) -> None:
    course = tiny_course.copy_to(tmp_path / "course")
    course.hand_in("ada", RIGHT)
    grade_class(open_course(course.root), NAME, simple_judges, jobs=1, patience=60.0)
    source = course.root / "solutions" / NAME / f"{NAME}.ipynb"
    source.write_text(source.read_text().replace("double(2) == 4", "double(2) == 2 * 2"))
    with pytest.raises(CourseError, match="another version of 01_tiny; cells that differ: double_visible"):
        read_course(open_course(course.root))


# Answers next to each other

OPERATIONS = ("send", "recv", "barrier", "isend", "irecv", "exchange", "split", "sleep", "wait", "test")


def an_answer(number: int, name: str = "part") -> str:
    """An answer of its own: the calls come in an order that no other number has."""
    calls = [OPERATIONS[(number * place + place * place) % len(OPERATIONS)] for place in range(1, 16)]
    lines = [f"    comm.{call}({name}[{number} + {place}], {name}.copy())" for place, call in enumerate(calls)]
    return "\n".join(["def ring(comm, tensor):", *lines, f"    return {name}"])


def test_two_that_are_more_alike_than_strangers_are_shown() -> None:
    answers = {f"s{number}": {"ring": an_answer(number)} for number in range(1, 10)}
    assert unusual_pairs(answers) == []
    answers["t"] = {"ring": "# mine\n" + an_answer(4, "stück")}
    (pair,) = unusual_pairs(answers)
    assert pair.students == ("s4", "t") and pair.share == 1 and pair.usual < 1
    assert unusual_pairs(answers, known=[an_answer(4)]) == []
    assert unusual_pairs(answers, teams={"s4": "blue", "t": "blue"}) == []
    assert unusual_pairs(answers, teams={"s4": "blue", "s5": "blue"}) == [pair]


def test_in_a_class_of_few_ways_to_write_it_the_same_answers_are_shown() -> None:
    """Strangers share much of what is left here. Those who share all of it are still found."""
    answers = {f"s{each}": {"ring": an_answer(each % 2, "ab"[each % 2]) + an_answer(each)} for each in range(2, 11)}
    answers["t"] = {"ring": answers["s4"]["ring"].replace("tensor", "x")}
    assert [pair.students for pair in unusual_pairs(answers)][:1] == [("s4", "t")]


def test_where_all_are_alike_nothing_is_unusual() -> None:
    everybody = {f"s{number}": {"ring": an_answer(3, f"v{number}")} for number in range(12)}
    assert unusual_pairs(everybody) == []
    few = {name: {"ring": an_answer(3)} for name in "abcd"}
    assert len(few) < LEAST_STUDENTS and unusual_pairs(few) == []


def test_lines_that_both_have_are_marked() -> None:
    one = an_answer(4) + "\n\nprint(sum(x for x in range(100) if x))"
    assert [same for _, same in marked_lines(one, an_answer(4, "other"))] == [True] * 17 + [False] * 2
    assert all(not same for _, same in marked_lines(one, "not = Python ("))


def test_the_page_of_pairs_accuses_nobody() -> None:
    answers = {f"s{number}": {"ring": an_answer(number)} for number in range(1, 10)}
    answers["<t>"] = {"ring": an_answer(4, "b") + "\n# <script>alert(1)</script>"}
    page = side_by_side_html("02_ring", unusual_pairs(answers), answers)
    assert "<script>" not in page and "&lt;script&gt;" in page and page.count('class="same"') == 2 * 17
    assert not re.search(r"cop(y|ied)|cheat|plagiar", html.unescape(re.sub(r"comm?\.\w+|\w+\.copy", "", page)))
    assert "It says nothing about why" in page and "1 pair of 10 students." in page

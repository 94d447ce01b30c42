"""A class of 66 in two learning platforms, with the names that platforms and students give: every notebook comes to its
owner, or there is a question; the questions answered, all come to their owners, and all marks are theirs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from distlib.classroom.exports.score_table import read_scores
from distlib.classroom.grader.class_run import grade_class
from distlib.classroom.grader.course import open_course
from distlib.classroom.grader.refused import read_refused
from distlib.classroom.uploads.collect import PROBLEM, UploadOutcome
from distlib.cli import main
from tests.classroom.test_collect import put, put_zip, run, submitted, work, zipped
from tests.tools.tiny_course import NAME, TinyCourse, simple_judges

SOURCES = ("canvas", "moodle", "group", "folder")


@dataclass(frozen=True)
class Uploaded:
    """A line of the table."""

    student: str
    name: str
    number: str
    source: str
    upload: str
    becomes: str


def read_table() -> list[Uploaded]:
    lines = Path(__file__).with_name("class_of_66.txt").read_text().splitlines()
    return [Uploaded(*re.split(r" *\| *", line.strip())) for line in lines if line and not line.startswith("#")]


TABLE = read_table()


@pytest.fixture
def tiny(tiny_course: TinyCourse, tmp_path: Path) -> TinyCourse:
    """The class, as Excel on Windows saves it in half of Europe."""
    course = tiny_course.copy_to(tmp_path / "course")
    rows = [
        (each.student, *(each.name.split(" ", 1) + [""])[:2], f"{each.student}@x.org", each.number) for each in TABLE
    ]
    table = [("id", "first_name", "last_name", "email", "lms_user_id"), *rows]
    text = "\r\n".join(";".join(row) for row in table)
    (course.root / "classroom" / "students.csv").write_bytes(text.encode("cp1252"))
    return course


def content(tiny: TinyCourse, each: Uploaded) -> bytes:
    """Every third student has one function wrong."""
    text = f"\n# of {each.student}" + "\ndef negate(x):\n    return x" * is_wrong(each.student)
    data = work(tiny, text)
    return zipped({"x.ipynb": data}) if each.upload.endswith(".zip") else data


def is_wrong(student: str) -> bool:
    return int(student[1:]) % 3 == 0


def collect_all(tiny: TinyCourse) -> dict[str, UploadOutcome]:
    """Each source by a command of its own, in turn."""
    found: dict[str, UploadOutcome] = {}
    for source in SOURCES:
        members = {each.upload: content(tiny, each) for each in TABLE if each.source == source}
        if source == "folder":
            place = tiny.root / "up"
            place if place.exists() else put(place, members)
        else:
            place = put_zip(tiny, members, f"{source}.zip")
        found |= {file.removesuffix("/x.ipynb"): outcome for file, outcome in run(tiny, place).items()}
    return found


def owners_of_work(tiny: TinyCourse) -> dict[str, str]:
    """Whose the notebook in each folder is in truth."""
    found = {}
    for student in submitted(tiny):
        text = (tiny.folder(student) / f"{NAME}.ipynb").read_text()
        (found[student],) = re.findall(r"# of (s\d\d)", text)
    return found


def answer(tiny: TinyCourse, each: Uploaded, question: str) -> None:
    """Do what the question says."""
    if "ename the file" in question:
        (tiny.root / "up" / each.upload).rename(tiny.root / "up" / f"{each.student}.ipynb")
        return
    (key,) = re.findall(r"distlib class alias (\S+) STUDENT", question)
    assert main(["class", "alias", key, each.student, "--course", str(tiny.root)]) == 0


def test_every_notebook_comes_to_its_owner_or_there_is_a_question(tiny: TinyCourse) -> None:
    assert len(TABLE) == len({each.student for each in TABLE}) == 66
    found = collect_all(tiny)
    stems = {each.upload.removesuffix(".zip").removesuffix("/x.ipynb"): each for each in TABLE}
    asked = {stems[file].student: outcome.why for file, outcome in found.items() if outcome.state == PROBLEM}
    assert sorted(asked) == [each.student for each in TABLE if each.becomes == "ask"]
    assert owners_of_work(tiny) == {each.student: each.student for each in TABLE if each.becomes == "yes"}
    assert len(read_refused(open_course(tiny.root), NAME)) == len(asked)
    for each in TABLE:
        if each.student in asked:
            answer(tiny, each, asked[each.student])
    assert [file for file, outcome in collect_all(tiny).items() if outcome.state == PROBLEM] == []
    assert owners_of_work(tiny) == {each.student: each.student for each in TABLE}
    assert read_refused(open_course(tiny.root), NAME) == []


@pytest.mark.slow
def test_every_mark_is_its_owners(tiny: TinyCourse) -> None:
    test_every_notebook_comes_to_its_owner_or_there_is_a_question(tiny)
    course = open_course(tiny.root)
    grade_class(course, NAME, simple_judges, jobs=2, patience=60.0)
    scores = {each.id: each.scores[NAME] for each in read_scores(course).students}
    assert scores == {each.student: 3.0 if is_wrong(each.student) else 6.0 for each in TABLE}

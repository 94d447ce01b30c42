"""`distlib class same OLD NEW`: a wrong name is mended everywhere, whatever stops the command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook

from distlib.classroom.exports.score_table import read_scores
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.register import merge_students
from distlib.classroom.register.class_register import ClassRegister, change_register, read_register
from distlib.classroom.register.known_students import the_student
from distlib.classroom.uploads.collect import collect
from distlib.cli import main
from tests.tools.tiny_course import CELLS, NAME, RIGHT, TinyCourse, simple_judges

WRONG = {"double": "def double(x):\n    return 4"}
ROSTER = "id,first_name,last_name,email\ns1,Wei,Zhang,wei1@x.org\ns2,Wei,Zhang,wei2@x.org\ns3,Ana,Souza,ana@x.org\n"


@pytest.fixture(scope="module")
def graded(tiny_course: TinyCourse, tmp_path_factory: pytest.TempPathFactory) -> TinyCourse:
    """A class in which a student has two names, with everything that is noted of one."""
    course = tiny_course.copy_to(tmp_path_factory.mktemp("merge") / "course")
    classroom = course.root / "classroom"
    course.hand_in("section-3-ana-souza", RIGHT, timestamp="2026-01-04 10:00 UTC")
    course.hand_in("s1", WRONG)
    (classroom / "students.csv").write_text(ROSTER)
    grade(course)
    with Gradebook(course.gradebook_url) as gradebook:
        grade_of_why = gradebook.find_grade("why", NAME, NAME, "section-3-ana-souza")
        grade_of_why.manual_score = 1.5
        gradebook.find_comment("why", NAME, NAME, "section-3-ana-souza").manual_comment = "good"
        gradebook.db.commit()
    grade(course)
    (classroom / "feedback" / "section-3-ana-souza" / NAME).mkdir(parents=True)
    (classroom / "feedback" / "section-3-ana-souza" / NAME / f"{NAME}.html").write_text("section-3-ana-souza")
    (classroom / "replaced" / "section-3-ana-souza" / NAME / "then").mkdir(parents=True)
    (classroom / "submitted" / "section-3-ana-souza" / "games").mkdir()
    (classroom / "submitted" / "section-3-ana-souza" / "games" / "games.ipynb").write_text("{}")
    (classroom / "pseudonyms.json").write_text(json.dumps({"section-3-ana-souza": ["Owl"], "s3": ["Cat"]}))
    notes = {
        "shared.json": {"section-3-ana-souza": "hash"},
        "collected.json": {"section-3-ana-souza": {"platform": "Moodle", "number": "7", "is_late": False}},
        "not_collected.json": {"up": [["x.pdf", "section-3-ana-souza", "it is a PDF file"]]},
    }
    for name, noted in notes.items():
        (classroom / "graded" / NAME / name).write_text(json.dumps(noted))
    (classroom / "graded" / NAME / "changes.csv").write_text(
        "when,student,cell,before,after\n1,section-3-ana-souza,x,1,2\n"
    )
    register = ClassRegister({"blue": ["section-3-ana-souza", "s1"]}, {NAME: {"section-3-ana-souza": 60.0}}, {})
    change_register(open_course(course.root), lambda _: register)
    return course


@pytest.fixture
def course(graded: TinyCourse, tmp_path: Path) -> TinyCourse:
    return graded.copy_to(tmp_path / "course")


def grade(course: TinyCourse, **options: Any) -> ClassRun:
    return grade_class(open_course(course.root), NAME, simple_judges, **{"jobs": 1, "patience": 60.0, **options})


def same(course: TinyCourse, *words: str) -> int:
    return main(["class", "same", *words, "--course", str(course.root)])


def texts(course: TinyCourse) -> Iterator[str]:
    """All that is written down about a class, with the names of its files."""
    for path in sorted((course.root / "classroom").rglob("*")):
        yield str(path.relative_to(course.root))
        if path.is_file() and path.suffix != ".db" and path.name not in ("students.csv", "aliases.csv"):
            yield path.read_text()


def is_whole(course: TinyCourse) -> None:
    """Everything is Ana Souza's, and nothing of the other name is left."""
    classroom = course.root / "classroom"
    assert [text for text in texts(course) if "section-3-ana-souza" in text] == []
    assert (classroom / "submitted" / "s3" / NAME / "timestamp.txt").read_text() == "2026-01-04 10:00 UTC"
    assert (classroom / "submitted" / "s3" / "games" / "games.ipynb").exists()
    assert (classroom / "replaced" / "s3" / NAME / "then").is_dir()
    assert (classroom / "autograded" / "s3" / NAME / f"{NAME}.ipynb").exists()
    assert json.loads((classroom / "pseudonyms.json").read_text()) == {"s3": ["Cat", "Owl"]}
    assert "section-3-ana-souza,s3" in (classroom / "aliases.csv").read_text()
    register = read_register(open_course(course.root))
    assert (register.teams, register.extensions) == ({"blue": ["s3", "s1"]}, {NAME: {"s3": 60.0}})
    noted = [json.loads((classroom / "graded" / NAME / f"{name}.json").read_text()) for name in ("shared", "collected")]
    assert [list(each) for each in noted] == [["s3"], ["s3"]]
    with Gradebook(course.gradebook_url) as gradebook:
        assert [student.id for student in gradebook.students] == ["s1", "s3"]
        assert gradebook.find_grade("why", NAME, NAME, "s3").manual_score == 1.5
        assert gradebook.find_comment("why", NAME, NAME, "s3").manual_comment == "good"
    scores = {each.id: each.scores for each in read_scores(open_course(course.root)).students}
    assert scores == {"s1": {NAME: 1.0}, "s2": {}, "s3": {NAME: 7.5}}


def test_everything_of_one_name_becomes_the_others(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    assert same(course, "section-3-ana-souza", "ana souza") == 0
    assert capsys.readouterr().out.startswith(f"section-3-ana-souza is s3 now, in {NAME} and games.\n")
    is_whole(course)
    change_register(open_course(course.root), lambda _: ClassRegister())
    (course.root / "classroom" / "graded" / NAME / "shared.json").unlink()
    run = grade(course)
    assert run.unchanged == ["s1", "s3"] and run.changes == []
    assert [run.marks["s3"][cell].score for cell in CELLS] == [1, 2, 1, 2]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(("old", "new"), [("", "s3"), (".", "s3"), ("..", "s3"), ("s9/../s1", "s2"), ("s1", "")])
def test_what_is_no_students_name_makes_nobodys_work_another_ones(
    old: str, new: str, closed: bool, course: TinyCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `distlib class same "$OLD" s3` where OLD is not set: the folder of no name is that of the whole class."""
    if not closed:
        (course.root / "classroom" / "students.csv").unlink()
    before = list(texts(course))
    assert same(course, old, new) == 1
    assert "is no" in (told := capsys.readouterr().err) and repr(old and new and old or "") in told
    assert list(texts(course)) == before


def test_a_name_that_is_a_pattern_is_nobodys(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    assert same(course, "*", "s3") == 1
    assert "* has no folder and no marks" in capsys.readouterr().err


def test_no_name_is_no_student_whose_name_is_not_known() -> None:
    with pytest.raises(CourseError, match="The name is empty"):
        the_student("", {"ada": ""})


class Killed(BaseException):
    """As SIGKILL: nothing after it runs."""


def stop_at(patched: pytest.MonkeyPatch, number: int, after: bool) -> None:
    """End the command before, or after, that change of the disk: of a file, a folder, or the gradebook."""
    left = [number]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*words: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and not after:
                raise Killed
            done = call(*words, **options)
            if left[0] == 0:
                raise Killed
            return done

        return wrapper

    for name in ("write_file", "_move", "_remove", "write_plan", "write_aliases", "change_register", "_delete"):
        patched.setattr(merge_students, name, counted(getattr(merge_students, name)))
    patched.setattr(merge_students.Path, "unlink", counted(Path.unlink))


def is_stopped_and_completed(course: TinyCourse, number: int, after: bool) -> bool:
    """Whether it was stopped there; then it is completed, and all is as it should be."""
    with pytest.MonkeyPatch.context() as patched:
        stop_at(patched, number, after)
        try:
            assert same(course, "section-3-ana-souza", "s3") == 0
            return False
        except Killed:
            pass
    if (course.root / "classroom" / "same.json").exists() or number == 1:
        assert same(course, "section-3-ana-souza", "s3") == 0
    is_whole(course)
    return True


def test_stopped_in_the_middle_nothing_else_works_until_it_is_done(course: TinyCourse) -> None:
    with pytest.MonkeyPatch.context() as patched:
        stop_at(patched, 6, after=True)
        with pytest.raises(Killed):
            same(course, "section-3-ana-souza", "s3")
    with pytest.raises(CourseError, match="same section-3-ana-souza s3 was stopped in the middle: run it"):
        grade(course)
    with pytest.raises(CourseError, match="stopped in the middle"):
        collect(open_course(course.root), NAME, [])
    with pytest.raises(CourseError, match="stopped in the middle"):
        read_scores(open_course(course.root))
    assert same(course, "s1", "s2") == 1
    assert same(course, "section-3-ana-souza", "s3") == 0
    is_whole(course)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_stopped_anywhere_it_is_done_by_the_same_command(graded: TinyCourse, tmp_path: Path, after: bool) -> None:
    for number in range(1, 100):
        course = graded.copy_to(tmp_path / str(number))
        if not is_stopped_and_completed(course, number, after):
            break
        shutil.rmtree(course.root)
    assert 20 < number < 99


def test_where_both_have_work_it_asks(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    course.hand_in("s3", WRONG)
    grade(course, students=["s3"])
    before = list(texts(course))
    assert same(course, "section-3-ana-souza", "s3") == 1
    assert (
        "both have work in 01_tiny. Whose counts? Add --keep section-3-ana-souza or --keep s3"
        in capsys.readouterr().err
    )
    assert list(texts(course)) == before


@pytest.mark.parametrize(("keep", "points"), [("s3", 1.0), ("section-3-ana-souza", 3.0)])
def test_the_other_ones_notebook_is_kept_and_its_marks_go(course: TinyCourse, keep: str, points: float) -> None:
    course.hand_in("s3", WRONG)
    grade(course, students=["s3"])
    assert same(course, "section-3-ana-souza", "s3", "--keep", keep) == 0
    kept = sorted((course.root / "classroom" / "replaced" / "s3" / NAME).glob(f"*/{NAME}.ipynb"))
    assert len(kept) == 1 and ("x + x" in kept[0].read_text()) == (keep == "s3")
    change_register(open_course(course.root), lambda _: ClassRegister())
    (course.root / "classroom" / "graded" / NAME / "shared.json").write_text("{}")
    run = grade(course)
    assert run.unchanged == ["s1", "s3"]
    assert sum(run.marks["s3"][cell].score for cell in CELLS[:2]) == points
    with Gradebook(course.gradebook_url) as gradebook:
        assert len(gradebook.assignment_submissions(NAME)) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody", "s3"], "nobody has no folder and no marks"),
        (["s1", "s3"], "s1 is in students.csv"),
        (["s3", "s3"], "s3 and s3 are the same name"),
        (["section-3-ana-souza", "Wei Zhang"], "'Wei Zhang' may be s1 and s2"),
        (["section-3-ana-souza", "s9"], "there is no student 's9'"),
    ],
)
def test_what_it_refuses(
    course: TinyCourse, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert same(course, *words) == 1
    assert message in capsys.readouterr().err
    assert not (course.root / "classroom" / "same.json").exists()


def test_two_teams_are_not_made_one(course: TinyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    teams = {"blue": ["section-3-ana-souza", "s1"], "red": ["s3", "s2"]}
    change_register(open_course(course.root), lambda _: ClassRegister(teams))
    assert same(course, "section-3-ana-souza", "s3") == 1
    assert "section-3-ana-souza is in team blue, s3 in red: end one of them first" in capsys.readouterr().err

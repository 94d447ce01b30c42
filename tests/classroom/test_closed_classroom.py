"""On a machine with other users, what a class has handed in and the students' own copies are nobody else's to see."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from distlib.classroom.grader.course import open_course
from distlib.classroom.my_course.kept_files import write_kept
from distlib.classroom.student_copies.bring import bring
from distlib.classroom.uploads.upload_folder import UploadFolder
from distlib.cli import main
from tests.tools.second_user import as_second_user, needs_root


@pytest.fixture
def course(root: Path) -> Iterator[Path]:
    """A folder with the course's configuration, which other users can enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(root / "nbgrader_config.py", folder)
        yield folder


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_the_classroom_is_made_for_one_user(course: Path) -> None:
    open_course(course)
    assert mode_of(course / "classroom") == 0o700


def test_nbgraders_groupshared_opens_it_to_the_group(course: Path) -> None:
    with (course / "nbgrader_config.py").open("a") as file:
        file.write("\nc.CourseDirectory.groupshared = True\n")
    open_course(course)
    assert mode_of(course / "classroom") == 0o2770


def test_one_that_is_there_stays_as_it_is(course: Path) -> None:
    (course / "classroom").mkdir()
    (course / "classroom").chmod(0o755)
    open_course(course)
    assert mode_of(course / "classroom") == 0o755


@pytest.mark.parametrize("what", ["a name on the board", "a hand-in", "a prediction", "copies"])
def test_whatever_makes_the_students_folder_first_makes_it_for_one_user(what: str, course: Path, root: Path) -> None:
    exercise = course / "exercises" / "02_all_reduce" / "02_all_reduce.ipynb"
    exercise.parent.mkdir(parents=True)
    (course / "distlib").mkdir()
    (course / "distlib" / "__init__.py").touch()
    shutil.copy(root / exercise.relative_to(course), exercise)
    {
        "a name on the board": lambda: main(["board", "--as", "Night Owl", "--course", str(course)]),
        "a hand-in": lambda: UploadFolder(exercise).keep_student("Ada Lovelace"),
        "a prediction": lambda: write_kept(course, "predictions.json", {}),
        "copies": lambda: bring(course),
    }[what]()
    assert mode_of(course / "work") == 0o700


@needs_root
def test_a_second_user_sees_nothing_of_it(course: Path) -> None:
    open_course(course)
    (course / "classroom" / "gradebook.db").write_text("marks")
    assert "classroom" in as_second_user(lambda: os.listdir(course))
    assert as_second_user(lambda: os.listdir(course / "classroom")) == "PermissionError"
    assert as_second_user(lambda: (course / "classroom" / "gradebook.db").read_text()) == "PermissionError"

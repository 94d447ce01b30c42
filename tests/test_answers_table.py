"""`make answers --folder`: the answers of an instructor's own exercise, graded, as a table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.answers_table import main
from tests.tools.tiny_course import NAME, write_answers

ANSWERS = {
    "double/right_adds": """
def double(x):
    return x + x
""",
    "double/wrong_only_two": """
# Wrong: always 4. Loses the hidden marks.
# Told: wrong for a large number
def double(x):
    return 4
""",
    "double/wrong_but_not_so": """
# Wrong: no. Loses all marks.
# Told: double(2) is wrong
def double(x):
    return 2 * x
""",
    "negate/right_subtracts": """
def negate(x):
    return 0 - x
""",
    "negate/wrong_as_it_is": """
# Wrong: does nothing. Loses all marks.
# Told: something else
def negate(x):
    return x
""",
    "negate/wrong_raises": """
# Wrong: raises. Loses all marks.
# Told: not at all
# Told by the judge: ZeroDivisionError
def negate(x):
    return 1 / 0
""",
}

pytestmark = pytest.mark.slow


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with one exercise and its answers."""
    write_answers(tmp_path, ANSWERS)
    return tmp_path


def test_an_instructors_own_answers(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(own), "--sandbox", "none"]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:9] == [
        NAME,
        "",
        "answer expected given told",
        "double/right_adds 1 + 2 1 + 2 –",
        "double/wrong_but_not_so 0 + 0 1 + 2 no ✗",
        "double/wrong_only_two 1 + 0 1 + 0 yes",
        "negate/right_subtracts 1 + 2 1 + 2 –",
        "negate/wrong_as_it_is 0 + 0 0 + 0 no ✗",
        "negate/wrong_raises 0 + 0 0 + 0 yes",
    ]
    assert "negate/wrong_as_it_is" in lines[9:]
    assert "told: AssertionError: negate(2) is wrong" in lines
    assert "4 of 6 answers are judged as they should be." in lines


def test_when_all_is_as_it_should_be_the_status_is_0(own: Path) -> None:
    answers = own / "tests" / "answers" / NAME
    (answers / "double" / "wrong_but_not_so.py").unlink()
    (answers / "double" / "wrong_only_two.py").unlink()
    shutil.rmtree(answers / "negate")
    assert main([NAME, "--folder", str(own), "--sandbox", "none"]) == 0


def test_a_folder_without_answers(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path / "nothing")]) == 1
    assert "expected " in capsys.readouterr().err
    assert main(["02_other", "--folder", str(own)]) == 1
    assert "solutions/02_other/02_other.ipynb" in capsys.readouterr().err

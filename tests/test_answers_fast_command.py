"""`make answers ARGS=--fast`: mistakes in answers and in what is said of them are noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.answers_fast import Judged, Said, differences, select, unfit, without_header
from tests.tools.oracle import oracle
from tests.tools.tiny_course import NAME, write_answers

ANSWERS = {
    "double/right_adds": """
def double(x):
    import tempfile

    print("adding")
    tempfile.NamedTemporaryFile(delete=False)
    return x + x
""",
    "double/right_but_it_is_wrong": """
def double(x):
    return 4
""",
    "double/wrong_but_it_is_right": """
# Wrong: no. Loses all marks.
# Told: double(2) is wrong
def double(x):
    return 2 * x
""",
    "double/wrong_exits": """
# Wrong: ends its process. Loses all marks.
# Told: its process ended in the middle
import os


def double(x):
    os._exit(0)
""",
    "double/wrong_never_ends": """
# Wrong: goes round for ever. Loses all marks.
# Told: it did not end within
def double(x):
    while True:
        pass
""",
    "double/wrong_only_two": """
# Wrong: always 4. Loses the hidden marks.
# Told: wrong for a large number
def double(x):
    return 4
""",
    "double/wrong_spoils_all": """
# Wrong: spoils what the next answer needs. Loses all marks.
# Told: double(2) is wrong
import torch

torch.manual_seed = None
unit = 3


def double(x):
    return 3 * x
""",
    "negate/wrong_other_words": """
# Wrong: does nothing. Loses all marks.
# Told: something else
def negate(x):
    return x
""",
    "negate/wrong_syntax": """
# Wrong: a typo. Loses all marks.
# Told: 'negate' is not defined
def negate(x:
    return -x
""",
}
JUDGED = """
double/right_adds 1 + 2 1 + 2 –
double/right_but_it_is_wrong 1 + 2 1 + 0 – ✗
double/wrong_but_it_is_right 0 + 0 1 + 2 no ✗
double/wrong_exits 0 + 0 0 + 0 yes
double/wrong_never_ends 0 + 0 0 + 0 yes
double/wrong_only_two 1 + 0 1 + 0 yes
double/wrong_spoils_all 0 + 0 0 + 0 yes
negate/wrong_other_words 0 + 0 0 + 0 no ✗
negate/wrong_syntax 0 + 0 0 + 0 yes
""".strip()

pytestmark = pytest.mark.timeout(3_600)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with one exercise and its answers."""
    write_answers(tmp_path, ANSWERS)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cell 3, line 2: it raised KeyError: 1", ""),
        ("cell 3, line 2: rank 0 raised KeyError: 1", "rank 0 raised KeyError: 1"),
        (
            'File "/srv/env/lib/python3.12/site-packages/torch/x.py", line 2',
            "/srv/env/lib/python3.12/site-packages/torch/x.py",
        ),
    ],
)
def test_what_a_student_must_not_read_is_noticed(own: Path, text: str, words: str) -> None:
    (answer,) = select(["double/right_adds"], own / "tests" / "answers")
    found = Judged(answer, {"visible": Said(text), "hidden": Said("")}, 0.0, {})
    assert unfit(found, own).startswith(words) and bool(unfit(found, own)) == bool(words)


@pytest.mark.slow
def test_it_notices_wrong_marks_and_missing_words(own: Path) -> None:
    status, lines = oracle("--folder", own, "--seconds", "20")
    assert status == 1
    assert "\n".join(lines[4:13]) == JUDGED
    assert "6 of 9 answers are judged as they should be." in lines
    assert 'told: assert negate(2) == -2, "negate(2) is wrong" AssertionError: negate(2) is wrong' in lines


@pytest.mark.slow
def test_what_an_answer_leaves_in_the_temporary_folder_is_removed(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    status, _ = oracle("--folder", own, "double/right_adds", "wrong_exits", "wrong_only_two")
    assert status == 0
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
def test_what_changes_is_shown_and_nothing_else(own: Path, tmp_path: Path) -> None:
    kept, two = tmp_path / "before.json", ("--folder", own, "double/right_adds", "wrong_only_two")
    assert oracle(*two, "--save", kept)[0] == 0
    assert json.loads(kept.read_text())[f"{NAME}/double/right_adds"]["hidden"] == {"error": "", "printed": "adding\n"}

    answer = own / "tests" / "answers" / NAME / "double" / "right_adds.py"
    answer.write_text("# Its lines are counted from here.\n" + answer.read_text())
    status, lines = oracle(*two, "--compare", kept)
    assert (status, lines[-1]) == (0, "Nothing has changed.")

    answer.write_text(answer.read_text().replace("adding", "summing"))
    status, lines = oracle(*two, "--compare", kept)
    assert status == 1
    changed = [f"{NAME}/double/right_adds, visible: words changed", "- adding", "+ summing"]
    assert [line for line in lines if "changed" in line or line[:2] in ("- ", "+ ")][:3] == changed
    assert not any("changed" in line and "wrong_only_two" in line for line in lines)


def test_a_difference_in_marks_is_called_one() -> None:
    passes = {"error": "", "printed": ""}
    fails = {"error": "CheckFailed: no", "printed": ""}
    found = differences({"a": {"visible": passes, "hidden": fails}}, {"a": {"visible": fails, "hidden": fails}})
    assert found == ["a, visible: marks changed", "  - (error: nothing)", "  + CheckFailed: no", ""]


def test_a_header_moves_no_line_number() -> None:
    assert without_header("# Wrong: no.\n# Told: x\ndef f(): ...\n# end\n") == "def f(): ...\n# end\n"

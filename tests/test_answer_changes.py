"""Answers that stand as changes: what a list of them means, and the error for one that does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.answer_changes import CHANGES, ChangesError, read_changes
from tests.answer_files import ASSIGNMENTS, read_answers
from tests.answers_table import main

RIGHT = """# Right: one after the other.
def collect(comm, tensor):
    if comm.rank == 0:
        for src in others(comm):
            comm.recv(buffer, src)
            tensor += buffer
    else:
        comm.send(tensor, 0)
    return tensor
"""
HEADER = "--- right_loop\n\n# wrong_it: is wrong. Loses all marks.\n"


def read(folder: Path, text: str) -> dict[str, str]:
    (folder / "right_loop.py").write_text(RIGHT)
    (folder / CHANGES).write_text(text)
    return read_changes(folder / CHANGES)


def test_each_change_makes_a_whole_answer(tmp_path: Path) -> None:
    texts = read(
        tmp_path,
        """--- right_loop

# wrong_average: averages. Loses the hidden marks.
# Told: this is the average
             tensor += buffer
+        tensor /= comm.world_size

# right_imports: imports something,
# which takes two lines to say.
+import time
+
+
 def collect(comm, tensor):
@@
-    return tensor
""",
    )
    assert list(texts) == ["wrong_average", "right_imports"]
    assert texts["wrong_average"] == (
        "# Wrong: averages. Loses the hidden marks.\n# Told: this is the average\n"
        + RIGHT.partition("\n")[2].replace("    else:", "        tensor /= comm.world_size\n    else:")
    )
    assert texts["right_imports"] == (
        "# Right: imports something,\n# which takes two lines to say.\nimport time\n\n\n"
        + RIGHT.partition("\n")[2].removesuffix("    return tensor\n")
    )


def test_a_function_without_a_list_has_no_changes(tmp_path: Path) -> None:
    assert read_changes(tmp_path / CHANGES) == {}


@pytest.mark.parametrize(
    "text, expected",
    {
        "-    return buffer\n": r"changes.diff:3: wrong_it: expected lines that right_loop has exactly once.* 0 times",
        "-return tensor\n": "beginning at the same column; it has them 0 times:\nreturn tensor",
        "-# Right: one after the other.\n": "0 times",
        "+    return 1\n": "with [+] only: which line is above",
        "     pass\n": "found none",
        "": "found none",
        "    return tensor\n*   return 1\n": "found '[*]   return 1'",
    }.items(),
)
def test_a_change_that_does_not_fit(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ChangesError, match=expected):
        read(tmp_path, HEADER + text)


def test_lines_that_are_there_twice_need_one_more(tmp_path: Path) -> None:
    twice = RIGHT + RIGHT.partition("\n")[2]
    (tmp_path / "right_twice.py").write_text(twice)
    header = HEADER.replace("right_loop", "right_twice")
    with pytest.raises(ChangesError, match="2 times"):
        read(tmp_path, f"{header}-        comm.send(tensor, 0)\n")
    changed = read(
        tmp_path, f"{header}-        comm.send(tensor, 0)\n     return tensor\n def collect(comm, tensor):\n"
    )
    assert changed["wrong_it"].count("comm.send") == 1


@pytest.mark.parametrize(
    "text, expected",
    {
        "# wrong_it: is wrong.\n-    return tensor\n": "expected first the answer that is changed",
        "--- right_other\n\n# wrong_it: is wrong.\n-    return tensor\n": "right_other.py, which is not there",
        "--- right_loop\n\n-    return tensor\n": "expected '# wrong_name: what is wrong",
        "--- right_loop\n\n# Wrong: is wrong.\n-    return tensor\n": "not '# Wrong: is wrong.'",
        "--- right_loop\n\n# right_loop: is there.\n-    return tensor\n": "right_loop is there twice",
        f"{HEADER}-    return tensor\n\n{HEADER}-    return tensor\n": "changes.diff:8: wrong_it is there twice",
    }.items(),
)
def test_a_list_that_says_something_else(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ChangesError, match=expected):
        read(tmp_path, text)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_every_answer_is_python(assignment: str) -> None:
    for answer in read_answers(assignment):
        compile(answer.text, str(answer), "exec")


def test_a_whole_answer_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show", "shift/wrong_adds"]) == 0
    shown = capsys.readouterr().out
    (answer,) = [answer for answer in read_answers("01_messages") if str(answer) == "shift/wrong_adds"]
    assert shown == f"# 01_messages/shift/wrong_adds\n{answer.text}"
    assert main(["05_ddp", "--show", "OverlappedDDP"]) == 0
    assert capsys.readouterr().out.count("class OverlappedDDP") > 30


def test_an_answer_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show", "shift/wrong_add"]) == 1
    assert "near it: shift/wrong_adds" in capsys.readouterr().err

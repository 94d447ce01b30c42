"""Words of students where instructors read them: nothing in them reaches a terminal, a table or a page as a command."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from nbformat.v4 import new_output

from distlib.classroom.grader.examine import Examinee, examine
from distlib.classroom.grader.examinees import problem_of_name
from distlib.classroom.grader.feedback import harmless_outputs
from distlib.classroom.grader.source import Source
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.cli.saying import say
from distlib.printable import printable, printable_lines

NASTY = "a\x1b[2J\x1b]0;title\x07\x9b2J\udcff\u202egpj.exe\x00"
SHOWN = "a\\x1b[2J\\x1b]0;title\\x07\\x9b2J\\udcff\\u202egpj.exe\\x00"


def test_what_controls_a_terminal_is_shown() -> None:
    assert printable(NASTY) == printable_lines(NASTY) == SHOWN
    assert printable("two\nlines\t") == "two\\nlines\\t"
    assert printable_lines("two\nlines\t") == "two\nlines\t"


def test_honest_text_stays_as_it_is() -> None:
    for text in ("naïve – ‘ring’ … 4 × 2 → 𝄞 环\u00a0ü", "👩\u200d🔬", ""):
        assert printable_lines(text) == text


def test_colors_go_and_progress_is_on_lines_of_its_own() -> None:
    assert printable_lines("\x1b[1;31mred\x1b[0m") == "red"
    assert printable_lines("\r 1%\r 2%\r\n") == "\n 1%\n 2%\n"


def test_whatever_is_said_can_be_printed_and_controls_nothing() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    say(f"ada: {NASTY}", stream)
    stream.seek(0)
    assert stream.read() == f"ada: {SHOWN}\n"


def test_outputs_of_a_graded_notebook_control_nothing() -> None:
    outputs = [
        new_output("stream", name="stdout", text=NASTY),
        new_output("error", ename=NASTY, evalue=NASTY, traceback=[NASTY, NASTY]),
        new_output("display_data", data={"text/plain": NASTY, "text/html": "<script>"}),
    ]
    stream, error, shown = harmless_outputs(outputs)
    assert stream.text == error.ename == error.evalue == SHOWN
    assert (error.traceback, shown.data) == ([SHOWN, SHOWN], {"text/plain": SHOWN})
    json.dumps([stream, error, shown], ensure_ascii=False).encode()


def test_why_something_can_not_be_graded_is_one_line(tmp_path: Path) -> None:
    (tmp_path / f"{NASTY[:-1]}\n.txt").touch()
    examined = examine(Examinee(tmp_path, "02", Source(None, []), seed=""), lambda *_: pytest.fail("graded"))  # type: ignore[arg-type]
    assert "\\x1b[2J" in examined.problem and "\x1b" not in examined.problem and "\n" not in examined.problem


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  =1+1", "  '=1+1"),
        ('"=1+1', "\"'=1+1"),
        ("ada;=HYPERLINK(A1)", "ada;'=HYPERLINK(A1)"),
        ("ada | +1+cmd", "ada | '+1+cmd"),
        ("-3", "-3"),
        ("+2.5e3", "+2.5e3"),
        ("a-b = c; then d", "a-b = c; then d"),
    ],
)
def test_no_cell_of_a_table_is_a_formula(cell: str, written: str) -> None:
    assert list(csv.reader(io.StringIO(spreadsheet([["student", cell]])))) == [["student", written]]


@pytest.mark.parametrize("name", ["\udce9", "a\ud800"])
def test_a_name_that_would_harm_others_is_refused(name: str) -> None:
    assert problem_of_name(name).endswith("; rename it")


@pytest.mark.parametrize(
    "name", ["ada", "Ada Lovelace", "o'brien", "josé", "李", "=1+1", "-rf", "a.b@c.org", "...", "[ab]", "new\nline"]
)
def test_other_names_are_names(name: str) -> None:
    assert problem_of_name(name) == ""

"""The student's line in a message: the same in a running notebook, in a saved one, and in the feedback."""

from __future__ import annotations

import linecache
import sys
from types import SimpleNamespace

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from distlib.checks.remark import CheckFailed, Remark
from distlib.classroom.excerpts import with_excerpt
from distlib.worlds import call_site
from distlib.worlds.diagnosis import RankError, places_in

SOURCE = "def shift(comm):\nif comm.rank:\n    comm.recv(bufer)\nelse:\n    comm.send(buffer)\nreturn"
REMARK = Remark("it stopped with an error.", ("cell 7, line 3: NameError", "cell 7, line 1"), "a typo.")


def test_a_running_notebook_and_a_saved_one_show_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    before = str(CheckFailed("shift", REMARK, "2 cases"))
    assert "bufer" not in before
    saved = with_excerpt(before, new_notebook(cells=[new_code_cell(SOURCE, execution_count=7)]))

    lines = [f"{line}\n" for line in SOURCE.splitlines()]
    monkeypatch.setitem(linecache.cache, "<seven>", (len(SOURCE), None, lines, "<seven>"))
    monkeypatch.setitem(call_site.cell_numbers, "<seven>", 7)
    running = str(CheckFailed("shift", REMARK, "2 cases"))
    assert running.splitlines()[3:] == [
        "  In the cell with [7] at its left:",
        "          1 def shift(comm):",
        "          2 if comm.rank:",
        "  ---->   3     comm.recv(bufer)",
        "          4 else:",
        "          5     comm.send(buffer)",
        "Usual cause: a typo.",
        "Passed before this: 2 cases.",
    ]
    assert saved == running.replace("the cell with [7] at its left", "code cell 7 from the top")


def test_what_names_no_line_stays_as_it_is() -> None:
    notebook = new_notebook(cells=[new_code_cell(SOURCE, execution_count=7)])
    for message in ("shift: wrong.", "cell 7, line 99: wrong.", "cell 8, line 1", ""):
        assert with_excerpt(message, notebook) == message
    assert places_in("cell 7, line 3 … (cell\n  7, line 3), cell 8, line 1") == [(7, 3), (8, 1)]


def test_the_stack_is_only_advised_where_there_is_a_world(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RankError("wrong", [0], None, "a stack")
    assert "stack" not in "".join(error._render_traceback_())
    monkeypatch.setattr(sys.modules["__main__"], "three", SimpleNamespace(last_error=error), raising=False)
    assert error._render_traceback_()[-1] == "The whole stack of each rank: print(three.last_error.stack)"

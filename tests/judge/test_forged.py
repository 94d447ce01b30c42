"""What ranks tell that is not true, or not asked for: it costs a submission what it forged, and no more."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import nbformat
import pytest
import torch

from distlib.judge.remote.introspection_remarks import reaches_inside
from distlib.judge.remote.question import Question, text, whole
from distlib.judge.remote.ranks import functions_told
from distlib.judge.remote.stand_in import _signature
from distlib.judge.remote.student_cells import RankCell, StudentCells
from distlib.judge.remote.wire import Wire, WireTimeout
from tests.judge.test_remote_judge import RIGHT, run, told
from tests.tools.hostile_submissions import ROOT

WIRE = "import sys\nwire = sys.stdout._wire\n"
INSIDE = "reaches inside, where a rank could lie about itself"
DROPPED = "a rank told what nobody had asked for; it was dropped, and all else was graded"


@pytest.fixture
def asked() -> Iterator[tuple[Question, Wire, list[None]]]:
    """A question, the rank's end of its wire, and as many items as the question has dropped."""
    here, there = map(Wire, socket.socketpair())
    dropped: list[None] = []
    question = Question(here, {"job": "play"}, None, lambda: dropped.append(None))
    there.question = there.receive()["question"]
    yield question, there, dropped
    here.close()
    there.close()


@pytest.mark.parametrize(
    "forged",
    [
        {"what": "done", "value": 1},
        {"what": "done", "value": 1, "question": 0},
        {"what": "done", "value": 1, "question": True},
        {"what": "done", "value": 1, "question": torch.zeros(2)},
        {"what": ["done"]},
        {"question": None},
        [1, 2],
        "done",
        None,
    ],
    ids=repr,
)
def test_what_does_not_belong_to_a_question_is_dropped(asked: tuple[Question, Wire, list[None]], forged: Any) -> None:
    question, rank, dropped = asked
    rank.send(forged)
    rank.send({"what": "done", "value": 2, "question": rank.question})
    assert question.hear(None) == {"what": "done", "value": 2}
    assert dropped == [None]


def test_prints_belong_to_every_question(asked: tuple[Question, Wire, list[None]]) -> None:
    question, rank, dropped = asked
    rank.send({"what": "print", "text": "from a thread"})
    assert question.hear(None) == {"what": "print", "text": "from a thread"}
    assert dropped == []


def test_a_flood_of_what_is_dropped_ends_with_the_deadline(asked: tuple[Question, Wire, list[None]]) -> None:
    question, rank, _ = asked
    rank.send("nobody asked")
    with pytest.raises(WireTimeout):
        question.hear(time.monotonic())


@pytest.mark.parametrize("value", [True, 1.0, float("inf"), "1", None, [], -1, 11, torch.tensor(3)], ids=repr)
def test_a_whole_number_is_one(value: object) -> None:
    assert whole(10, 0, 10) == 10
    with pytest.raises(ValueError, match="whole number from 0 to 10"):
        whole(value, 0, 10)


def test_a_text_is_one_and_not_too_long() -> None:
    assert text("four", 3) == "fou"
    with pytest.raises(ValueError, match="a text"):
        text({"a": "dict"}, 3)


@pytest.mark.parametrize(
    "statement",
    [
        {"cell": 9, "number": 0, "line": 1},
        {"cell": 2, "number": 4_000, "line": 1},
        {"cell": 2, "number": -2, "line": 1},
        {"cell": 2, "number": 0, "line": 10**400},
        {"cell": float("inf"), "number": 0, "line": 1},
        {"cell": 1, "number": 0, "line": 1},
        {"cell": 3, "number": 0, "line": 1},
    ],
    ids=repr,
)
def test_a_statement_is_one_that_exists_is_not_left_out_and_comes_next(statement: dict[str, Any]) -> None:
    cells = StudentCells([RankCell(number, "x = 1") for number in (1, 2, 3)], 100)
    cells.leave_out((3, -1), 1, "ended its process")
    (part,) = cells.parts(0, 9)
    assert cells.next_statement({"cell": 2, "number": 0, "line": 1}, (1, 0), part) == ((2, 0), 1)
    with pytest.raises(ValueError, match="expected"):
        cells.next_statement(statement, (1, 0), part)


@pytest.mark.parametrize("parameters", [5, [5], [["x", "NO_KIND", False]], [[b"x", "VAR_KEYWORD", 0]], [["x"]] * 1_000])
def test_parameters_that_make_no_sense_are_refused(parameters: Any) -> None:
    assert functions_told({"f": None, "other": 3}, ["f"]) == {"f": None}
    with pytest.raises((LookupError, TypeError, ValueError)):
        functions_told({"f": parameters}, ["f"])


def test_parameters_that_no_function_has_are_any_parameters() -> None:
    assert str(_signature([("a b", "KEYWORD_ONLY", False)])) == "(*args)"


def others(remarks: Sequence[str]) -> list[str]:
    """The remarks besides the one about lines that reach inside, which must be there."""
    (inside,) = (remark for remark in remarks if remark.startswith(INSIDE))
    return [remark for remark in remarks if remark != inside]


# ── in a notebook ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "forged",
    [
        "{'what': 'statement', 'cell': 99, 'number': 0, 'line': 1}",
        "{'what': 'error', 'cell': 99, 'kind': 'Error', 'text': 'a cell that does not exist'}",
        "{'what': 'done', 'value': {}}",
        "{'what': 'raised', 'kind': 'OSError', 'text': 'no rank', 'site': None, 'stack': ''}",
    ],
)
def test_what_a_cell_forges_costs_nothing_else(forged: str) -> None:
    judged = run(RIGHT, own=[f"{WIRE}wire.send({forged})\nmine = 1"])
    assert (told(judged), others(judged.remarks)) == ("", [DROPPED])


@pytest.mark.parametrize(
    "forged",
    [
        "{'what': 'statement', 'cell': 99, 'number': 0, 'line': 1}",
        "{'what': 'statement', 'cell': float('inf'), 'number': 0, 'line': 1}",
        "{'what': 'error', 'kind': [], 'text': {}}",
        "{'what': 'done', 'value': {}}",
        "{'what': 'done', 'value': {'shift': 5}}",
        "{'what': 'raised', 'kind': 'OSError', 'text': 'no rank', 'site': None, 'stack': ''}",
    ],
)
def test_what_a_cell_forges_with_the_number_of_the_question_is_left_out(forged: str) -> None:
    judged = run(RIGHT, own=[f"{WIRE}wire.send({{**{forged}, 'question': wire.question}})"])
    assert told(judged) == ""
    (remark,) = others(judged.remarks)
    assert "told the judge what makes no sense" in remark


def test_a_statement_that_does_not_exist_is_left_out_once() -> None:
    forged = "wire.send({'what': 'statement', 'cell': 2, 'number': 40, 'line': 40, 'question': wire.question})"
    judged = run(RIGHT, own=[f"{WIRE}{forged}\nimport os\nos._exit(0)"])
    assert told(judged) == ""
    assert others(judged.remarks) == [
        "cell 2: line 40 told the judge what makes no sense; the rest was graded without it",
        "cell 2: line 3 told the judge what makes no sense; the rest was graded without it",
        "cell 2: line 5 ended its process; the rest was graded without it",
    ]


def test_done_said_twice_does_no_harm_to_the_next_question() -> None:
    says = "{'what': 'done', 'value': {'result': None, 'slips': []}}"
    judged = run(RIGHT + f"    comm._communicator._wire.send({says})\n", own=[f"{WIRE}wire.send({says})"])
    assert (told(judged), others(judged.remarks)) == ("", [DROPPED])


# ── what a rank says of itself ───────────────────────────────────────────────────────────────────────────────────────

NEVER_WAITS = """
def shift(comm, tensor):
    incoming = torch.empty_like(tensor)
    comm.isend(tensor.clone(), (comm.rank + 1) % comm.world_size)
    comm.recv(incoming, (comm.rank - 1) % comm.world_size)
    tensor.copy_(incoming)
"""
NO_SLIPS = "from distlib.checks import student_communicator\nstudent_communicator.Handles.slips = lambda self: []"


@pytest.mark.parametrize("own", [[], [NO_SLIPS]], ids=["honest", "forged"])
def test_the_judge_sees_by_itself_what_is_never_waited_for(own: list[str]) -> None:
    judged = run(NEVER_WAITS, own=own)
    assert "never waits for the isend that it begins at cell" in told(judged)
    assert [remark.partition(";")[0] for remark in judged.remarks] == ([INSIDE] if own else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ntorch.equal = lambda left, right: True", "line 2: torch.equal"),
        ("import gc\ngc.get_objects()", "line 1: import gc"),
        ("import sys\nsys._getframe(1).f_locals", "line 2: "),
        ("from distlib.judge.remote import wire", "line 1: import distlib.judge.remote.wire"),
        ("from distlib import judge", "line 1: import distlib.judge"),
        ("def f(comm):\n    comm._communicator.send(1)", "line 2: comm._communicator"),
        ("f.__globals__.clear()", "line 1: f.__globals__"),
        ("job.gradient.__self__.look()", "line 1: ….__self__"),
        ("vars(job)['_gate'](3)", "line 1: vars(…)"),
        ("x = 1  # " + "x" * 100_000, "line 1: more than 100,000 characters"),
        ("exec('x')", "line 1: exec(…)"),
        ("setattr(torch, 'equal', print)", "line 1: setattr(…)"),
    ],
)
def test_lines_that_reach_inside_are_named(text: str, expected: str) -> None:
    (remark,) = reaches_inside([RankCell(1, "x = 1"), RankCell(7, text)])
    assert f"read the answer: cell 7, {expected}" in remark


def test_of_many_such_lines_the_first_are_named() -> None:
    (remark,) = reaches_inside([RankCell(1, "exec('x')\n" * 40)])
    assert remark.endswith("line 1: exec(…), cell 1, line 2: exec(…), cell 1, line 3: exec(…) and 37 more")


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def __init__(self):\n        super().__init__()\n        self._x = 1\n        self.y = self._x",
        "import torch\nimport sys\nprint(torch.ones(1), sys.stdout)",
        "from distlib import World, all_reduce\nfor _ in range(3): pass",
        "this is no Python", "x = " + "(" * 5_000, "x = " + "-" * 50_000 + "1",
    ],
    ids=range(6),
)  # fmt: skip
def test_usual_lines_and_what_cannot_be_read_have_no_remark(text: str) -> None:
    assert reaches_inside([RankCell(1, text)]) == []


def test_right_answers_do_not_reach_inside() -> None:
    for folder in sorted((ROOT / "solutions").glob("[0-9]*")):
        notebook = nbformat.read(folder / f"{folder.name}.ipynb", as_version=4)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        solutions = [cell.source for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
        assert reaches_inside([RankCell(1, text) for text in solutions]) == []

"""The page about a class, from made-up marks: what an instructor sees at a glance."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import replace
from typing import Any

from distlib.classroom.grader.alike import LEAST_PIECES, Pair, alike, pieces
from distlib.classroom.grader.check_message import Told
from distlib.classroom.grader.class_page import html_page
from distlib.classroom.grader.class_report import csv_text, text_table
from distlib.classroom.grader.class_run import Change, ClassRun
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.marks import judged_again
from distlib.classroom.grader.mistakes import cause_of, left_behind, mistakes
from distlib.classroom.grader.refused import Refused
from distlib.classroom.grader.student_record import Record
from distlib.cli.progress import Progress, time_left

CELLS = ["shift_visible", "shift_hidden", "gather_visible", "gather_hidden"]


def class_of(scores: dict[str, list[float]], **more: Any) -> ClassRun:
    """A class; the scores of each student by test cell, each of 2 points. Those without scores could not be graded."""
    marks = {
        s: {cell: Mark(got, 2, got, False) for cell, got in zip(CELLS, row, strict=False)} for s, row in scores.items()
    }
    told = more.pop("told", {})
    records = {
        student: Record(student, problem="" if row else "no notebook", told=told.get(student, {}), seconds=2.0)
        for student, row in scores.items()
    }
    return ClassRun("x", CELLS, records, marks, dict.fromkeys(scores, 0.0), [], **more)


def rows_below(page: str, head: str) -> list[str]:
    """The text of each row of the first table below a heading."""
    if f"<h2>{head}</h2>" not in page:
        return []
    table = page.split(f"<h2>{head}</h2>")[1].split("<tbody>")[1].split("</tbody>")[0]
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in table.split("</tr>")[:-1]]


def test_the_distribution_by_function() -> None:
    page = html_page(class_of({"a": [2, 2, 2, 2], "b": [2, 0, 0, 0], "c": [2, 2, 0, 0], "d": []}))
    assert rows_below(page, "The class at a glance") == ["shift 2 1 3.3 / 4", "gather 1 2 1.3 / 4"]
    assert 'aria-label="2 all, 1 some, 0 none"' in page and 'aria-label="1 all, 0 some, 2 none"' in page
    columns = re.findall(r'title="(\d+) with ([^"]+) points"', page)
    assert [(number, where) for number, where in columns if number != "0"] == [
        ("1", "1.6 to 2.4"), ("1", "4 to 4.8"), ("1", "7.2 to 8"),
    ]  # fmt: skip
    told = "1 with 1.6 to 2.4 points, 1 with 4 to 4.8 points, 1 with 7.2 to 8 points"
    assert f'aria-label="Students by points, from 0 to 8: {told}"' in page
    assert rows_below(page, "Could not be graded") == ["d no notebook"]
    assert "prefers-color-scheme: dark" in page


def half_marked() -> ClassRun:
    """Three students with an answer in words, of 10 points: one has a mark for it, given by hand."""
    run = class_of({"ada": [2, 2, 2, 2], "bob": [2, 0, 0, 0], "eve": [2, 2, 2, 0]})
    for student, mark in {"ada": Mark(7, 10, None, True), "bob": Mark(0, 10, None, False)}.items():
        run.marks[student]["report"] = mark
    run.marks["eve"]["report"] = run.marks["bob"]["report"]
    return replace(run, cells=[*CELLS, "report"])


def test_what_waits_for_a_mark_by_hand_is_no_zero() -> None:
    run = half_marked()
    lines = [" ".join(line.split()) for line in text_table(run).splitlines()]
    assert lines[1:] == [
        "ada 4 / 4 4 / 4 7 / 10 * 15 / 18 * graded",
        "bob 2 / 4 0 / 4 – / 10 2 / 8, 10 open graded",
        "eve 4 / 4 2 / 4 – / 10 6 / 8, 10 open graded",
    ]
    page = html_page(run)
    assert rows_below(page, "The class at a glance")[2] == "report 1 2 open 7.0 / 10"
    assert "Mean: 12.3 of 18 points." in page  # (4 + 2 + 4) / 3 + (4 + 0 + 2) / 3 + 7
    assert "report waits for a mark by hand in 2 submissions. Until then it counts in no sum and no mean." in page
    assert "Open: waits for a mark by hand." in page
    assert left_behind(run) == {"bob": ["gather"]}
    rows = list(csv.DictReader(io.StringIO(csv_text(run))))
    assert [(r["score"], r["of"], r["open"], r["report"]) for r in rows] == [
        ("15", "18", "0", "7"), ("2", "8", "10", ""), ("6", "8", "10", ""),
    ]  # fmt: skip


def test_nobody_has_a_mark_by_hand_yet() -> None:
    run = half_marked()
    run.marks["ada"]["report"] = run.marks["bob"]["report"]
    page = html_page(run)
    assert rows_below(page, "The class at a glance")[2] == "report 3 open – / 10"
    assert "Mean: 5.3 of 8 points." in page and "Students by points, from 0 to 8:" in page
    assert "*" not in text_table(run)


def test_what_was_not_collected_is_in_the_report() -> None:
    refused = [
        Refused("x.ipynb", "", "whose?"),
        Refused("a.txt", "ada", "it is <no> notebook"),
        Refused("b", "eve", "no"),
    ]
    class_ = class_of({"ada": [2, 2, 2, 2]}, refused=refused, missing=["eve", "bob"])
    page = html_page(class_)
    assert rows_below(page, "Not collected") == [
        "not known x.ipynb whose? nothing", "ada a.txt it is <no> notebook a different upload", "eve b no nothing",
    ]  # fmt: skip
    assert rows_below(page, "Who may need help") == [
        "eve handed in what was not collected: no", "bob has not handed in",
    ]  # fmt: skip
    assert "Not collected by distlib collect:\n?: x.ipynb: whose?\nada: a.txt" in text_table(class_)


def test_what_was_judged_again_is_in_the_report() -> None:
    class_ = class_of({"a": [2, 2, 2, 2], "b": [2, 2, 2, 2]}, judged={"a": ["gather_hidden"], "b": []})
    assert "1 submission was graded again: only gather_hidden was judged, all other verdicts stay." in html_page(class_)
    assert "1 submission was graded again: nothing had to be judged, the verdicts stay." in html_page(class_)


def test_an_answer_in_words_is_no_verdict_that_stays() -> None:
    run = half_marked()
    run.records["ada"].marks.update(dict.fromkeys(CELLS, 2.0), report=None)
    assert judged_again(replace(run, judged={"ada": CELLS})) == []
    assert "only shift_visible was judged" in judged_again(replace(run, judged={"ada": CELLS[:1]}))[0]


def test_an_empty_class_has_a_page() -> None:
    page = html_page(class_of({"a": []}))
    assert "1 submission, 0 graded." in page and "The class at a glance" not in page


def test_mistakes_are_counted_by_cause() -> None:
    def told(ranks: int, chunk: int, cause: str = "") -> dict[str, Told]:
        return {"shift_hidden": Told(f"shift on {ranks} ranks, {4 * ranks} float32: chunk {chunk} is wrong.", cause)}

    messages = {
        "a": told(2, 0),
        "b": told(3, 1),
        "c": told(2, 0, "the sum of 2 ranks."),
        "d": told(4, 3, "the sum of 4 ranks."),
    }
    found = mistakes(class_of(dict.fromkeys("abcd", [0, 0, 0, 0]), told=messages).records.values())
    assert [(mistake.students, mistake.told.cause) for mistake in found] == [
        (["a", "b"], ""),
        (["c", "d"], "the sum of 2 ranks."),
    ]
    assert cause_of(Told("x on 2 ranks: sent 96, 32 and 1,200 bytes")) == cause_of(Told("x on 9 ranks: sent 8 bytes"))
    assert cause_of(Told("x on 2 ranks: a sum")) != cause_of(Told("x on 2 ranks: a mean"))


def test_who_may_need_help() -> None:
    scores: dict[str, list[float]] = {name: [2, 2, 2, 0] for name in "abcde"}
    run = class_of({**scores, "f": [0, 0, 2, 2], "g": [0, 0, 0, 0], "h": []}, missing=["zoe"])
    assert left_behind(run) == {"g": ["shift", "gather"], "f": ["shift"]}
    assert rows_below(html_page(run), "Who may need help") == [
        "g no marks at all", "f no marks in shift", "zoe has not handed in",
    ]  # fmt: skip
    hard = class_of({"a": [2, 2, 2, 2], "b": [2, 2, 0, 0], "c": [2, 2, 0, 0]})
    assert left_behind(hard) == {}  # most have nothing in gather: that is the lesson's matter


def test_names_and_messages_are_harmless_everywhere() -> None:
    evil = "\x1b[2J<script>\n=1+1"
    run = class_of(
        {evil: [0, 0, 0, 0], f"{evil}2": []},
        told={evil: {"shift_hidden": Told(evil, evil)}},
        missing=[evil],
        changes=[Change(evil, evil, 1, None)],
    )
    for text in (html_page(run, [Pair("shift", (evil, evil), 1.0, 20)]), csv_text(run), text_table(run)):
        assert "\x1b" not in text
    page = html_page(run, [Pair("shift", (evil, evil), 1.0, 20)])
    assert "<script" not in page and page.count("&lt;script&gt;") >= 8
    assert all(not line.startswith("=") for line in csv_text(run).splitlines())
    assert len(csv_text(run).splitlines()) == 3


def test_marks_that_changed() -> None:
    changes = [Change("ada", "shift_hidden", 0, 2), Change("bob", "gather_visible", 2, None)]
    run = class_of({"ada": [2, 2, 2, 2], "bob": []}, changes=changes)
    assert rows_below(html_page(run), "Marks that changed") == ["ada shift_hidden 0 2", "bob gather_visible 2 –"]
    assert "\nMarks that changed:\nada: shift_hidden 0 → 2\nbob: gather_visible 2 → –\n" in text_table(run)
    many = class_of({"ada": [2, 2, 2, 2]}, changes=changes * 20)
    assert "and 20 more, in the report and in changes.csv" in text_table(many)
    assert "Marks that changed" not in text_table(class_of({"ada": [2, 2, 2, 2]}))


# Answers that resemble each other

RING = """
def ring(comm, tensor):
    {doc}
    flat = tensor.reshape(-1)
    parts = list(torch.tensor_split(flat, comm.world_size))
    spare = [torch.empty_like(part) for part in parts]
    for turn in reversed(range(comm.world_size - 1)):
        out, into = (comm.rank + turn + 1) % comm.world_size, (comm.rank + turn) % comm.world_size
        comm.exchange(parts[out], (comm.rank + 1) % comm.world_size, spare[into], (comm.rank - 1) % comm.world_size)
        parts[into].add_(spare[into])
    assert all(part.numel() >= 0 for part in parts)
    tensor.copy_(flat.view(tensor.shape))
"""
OTHER = """
def ring(comm, tensor):
    size, me = comm.world_size, comm.rank
    work = tensor.clone().flatten()
    bounds = [round(work.numel() * k / size) for k in range(size + 1)]
    step = 0
    while step < size - 1:
        k = (me - step) % size
        buffer = work.new_empty(bounds[k] - bounds[k - 1])
        comm.exchange(work[bounds[k] : bounds[k + 1]], dst=(me + 1) % size, incoming=buffer, src=(me - 1) % size)
        work[bounds[k - 1] : bounds[k]] += buffer
        step += 1
    tensor[...] = work.reshape(tensor.shape)
"""
ORIGINAL = RING.format(doc='"""Adds up."""')


def copied(text: str) -> str:
    """The same with other names, comments and texts."""
    for old, new in {"parts": "pieces", "part": "p", "spare": "tmp", "turn": "i", "flat": "f", "into": "b"}.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text.replace("Adds up.", "My own words.").replace("    for i", "    # round and round\n    for i")


def test_a_copy_with_other_names_is_alike() -> None:
    answers = {"a": {"ring": ORIGINAL}, "b": {"ring": copied(ORIGINAL)}, "c": {"ring": OTHER}}
    (pair,) = alike(answers)
    assert (pair.function, pair.students, pair.share) == ("ring", ("a", "b"), 1.0)
    assert pair.pieces >= LEAST_PIECES
    rows = rows_below(html_page(class_of({"a": [1, 1, 1, 1]}), [pair]), "Worth a look")
    assert rows == [f"a, b ring 100 % {pair.pieces}"]


def test_what_is_common_is_left_out() -> None:
    answers = {"a": {"ring": ORIGINAL}, "b": {"ring": copied(ORIGINAL)}}
    assert alike(answers, known=["# the lesson\n" + OTHER]) != []
    assert alike(answers, known=["import torch", ORIGINAL]) == []  # it stands in the lesson
    everybody = {f"student-{number}": {"ring": ORIGINAL} for number in range(20)}
    assert alike(everybody) == []  # the usual way
    short = {name: {"shift": "def shift(comm, tensor):\n    comm.send(tensor, 1)"} for name in "ab"}
    assert alike(short) == []


def test_what_is_no_python_is_compared_as_far_as_it_is() -> None:
    broken = ORIGINAL + "\n  ('''"
    assert len(alike({"a": {"ring": broken}, "b": {"ring": ORIGINAL}})) == 1
    assert pieces("\x00 )))") == set() and pieces("") == set()


# How far it is


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_for_each_student_where_there_is_no_terminal() -> None:
    times = iter([0.0, 10.0, 20.0, 30.0])
    stream = io.StringIO()
    with Progress(stream, lambda: next(times)) as progress:
        for student in ("ada", "b\x1bb", "carl"):
            progress.tell(Record(student, took=9.6), 3)
    assert stream.getvalue().splitlines() == [
        "1 of 3, about 20 s left: ada: graded in 10 s",
        "2 of 3, about 10 s left: b\\x1bb: graded in 10 s",
        "3 of 3, done: carl: graded in 10 s",
    ]


def test_progress_is_one_line_on_a_terminal() -> None:
    times = iter([0.0, 60.0, 120.0])
    stream = Screen()
    with Progress(stream, lambda: next(times)) as progress:
        for student in ("ada", "bob"):
            progress.tell(Record(student), 30)
    before, first, second, after = stream.getvalue().split("\r\x1b[K")[1:]
    assert (
        before == "Grading …"
        and first.endswith(" 1 of 30, about 29 min left   ada: graded")
        and "\n" not in first + second
    )
    assert second.endswith(" 2 of 30, about 28 min left   bob: graded") and after == ""


def test_the_time_left() -> None:
    assert [time_left(seconds) for seconds in (0, 12, 89, 90, 3_000, 9_000)] == [
        "about 5 s left", "about 10 s left", "about 90 s left",
        "about 2 min left", "about 50 min left", "about 2 h left",
    ]  # fmt: skip

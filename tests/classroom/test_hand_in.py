"""`distlib hand-in`: which notebooks it takes, what it asks, and what a student keeps of it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from distlib.classroom import hand_in
from distlib.classroom.grader.submission import HandedCell, read_submission
from distlib.classroom.register.late_rule import LateRule
from distlib.classroom.register.term_dates import DUE_DATES, TermDates, text_of
from distlib.classroom.uploads.answers import ANSWERED, MISSING, STUB, read_answers
from distlib.classroom.uploads.hand_in import Declined, HandInError, Interrupted, hand_in_notebook
from distlib.classroom.uploads.receipt import ago
from distlib.classroom.uploads.recognize import known_notebooks, recognize
from distlib.classroom.uploads.unsaved import run_differently
from distlib.classroom.uploads.upload_names import full_name, read_upload_name, student_name, upload_name
from distlib.cli import main
from tests.tools.tiny_course import ROOT

NAME = "02_all_reduce"
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
FUNCTIONS = ["naive_all_reduce", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce"]
ANSWER = "def ring_all_gather(comm, tensor):\n    comm.barrier()"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course as a student has it, as far as handing in looks at it."""
    for file in (f"exercises/{NAME}/{NAME}.ipynb", "exercises/05_ddp/05_ddp.ipynb", f"course/{NAME}.ipynb"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "distlib").mkdir()
    (tmp_path / "distlib" / "__init__.py").touch()
    return tmp_path


def exercise(course: Path) -> Path:
    return course / "exercises" / NAME / f"{NAME}.ipynb"


def write(path: Path, answers: Mapping[str, str], **metadata: object) -> None:
    """Replace the text of some cells; metadata: what else is written into the metadata of all cells."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["metadata"].get("nbgrader", {}).get("grade_id"), cell["source"])
        cell["metadata"].update(metadata)
    path.write_text(json.dumps(notebook))


def never(question: str) -> str:
    pytest.fail(f"was asked: {question}")


def answering(*texts: str) -> Callable[[str], str]:
    left = list(texts)
    return lambda question: left.pop(0)


# ── what is handed in ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_to_upload_and_a_receipt(course: Path) -> None:
    path = exercise(course)
    half = 'def ring_all_reduce(comm, tensor):\n    """Sums."""\n    if comm.rank:\n        raise NotImplementedError()'
    write(path, {"ring_all_gather": ANSWER, "ring_all_reduce": half})
    before = datetime.now(UTC)
    receipt = hand_in_notebook("02", start=course, student="Ada Lovelace", ask=never, ran=())
    folder = course / "work" / "handed_in"
    assert receipt.file == folder / f"{NAME}--ada-lovelace.ipynb"
    assert receipt.file.read_bytes() == path.read_bytes()
    assert receipt.sha256 == sha256(path.read_bytes()).hexdigest()
    assert [(answer.function, answer.state) for answer in receipt.answers] == [
        ("naive_all_reduce", STUB),
        ("ring_reduce_scatter", STUB),
        ("ring_all_gather", ANSWERED),
        ("ring_all_reduce", "unfinished: raise NotImplementedError() is still in line 4 of its cell"),
    ]
    text = str(receipt)
    assert "only then it is handed in" in text and receipt.sha256 in text and "ring_all_gather (1 of 4)" in text
    assert (folder / f"{NAME}--ada-lovelace.receipts.txt").read_text() == f"{text}\n\n"
    assert before <= receipt.time <= datetime.now(UTC)


def test_the_receipt_says_what_the_due_date_means(course: Path) -> None:
    due = datetime.now(UTC) - timedelta(days=1, hours=1)
    (course / DUE_DATES).write_text(text_of(TermDates({NAME: due}, LateRule(0.1))))
    write(exercise(course), {"ring_all_gather": ANSWER})
    text = str(hand_in_notebook("02", start=course, student="Ada Lovelace", ask=never, ran=()))
    assert re.search(
        r"^due .* 25 h before this: late, which costs 20 % of your points, at most [\d.]+ of [\d.]+,",
        text,
        re.MULTILINE,
    )


def test_two_cells_of_one_function_are_told_with_the_one_that_counts(course: Path) -> None:
    path = exercise(course)
    write(path, {"ring_all_gather": ANSWER})
    notebook = json.loads(path.read_text())
    copy = next(cell for cell in notebook["cells"] if cell["id"] == "ring_all_gather")
    notebook["cells"].append({**copy, "id": "old", "source": "def ring_all_gather(:\n    an old try"})
    path.write_text(json.dumps(notebook))
    text = str(hand_in_notebook("02", start=course, student="ada", ask=never, ran=()))
    assert "remark    ring_all_gather is defined in two cells, code cells " in text
    assert "the last one above its test. Delete what you don't want." in text
    assert "answered  ring_all_gather (1 of 4)" in text, text


def test_the_name_is_asked_for_once_and_an_earlier_file_is_kept(course: Path) -> None:
    path = exercise(course)
    write(path, {"ring_all_gather": ANSWER})
    first = hand_in_notebook(NAME, start=course, ask=answering("s1234567"), ran=())
    before = path.read_bytes()
    write(path, {"ring_all_gather": f"{ANSWER}  # again"})
    again = hand_in_notebook(NAME, start=path.parent, ask=never, ran=())
    assert again.file == first.file and again.file and again.file.name == f"{NAME}--s1234567.ipynb"
    assert again.file.read_bytes() == path.read_bytes()
    (kept,) = (course / "work" / "handed_in" / "earlier").iterdir()
    assert kept.read_bytes() == before
    hand_in_notebook(NAME, start=path.parent, ask=never, ran=())
    assert len(list(kept.parent.iterdir())) == 1, "the same bytes need no second copy"


def test_running_all_cells_again_hands_in_nothing_again(course: Path) -> None:
    path = exercise(course)
    write(path, {"ring_all_gather": ANSWER})
    first = hand_in_notebook(NAME, start=course, student="Ada", ask=never, ran=(), asks_again=True)
    assert first.file and first.is_new
    before = first.file.read_bytes()
    path.write_text(
        path.read_text().replace("# from distlib.classroom import hand_in;", "from distlib.classroom import hand_in;")
    )
    write(path, {}, execution={"run": "again"})
    again = hand_in_notebook(NAME, start=course, ask=never, ran=(), asks_again=True)
    assert not again.is_new and again.time == first.time and again.sha256 == first.sha256
    saved = datetime.fromtimestamp(path.stat().st_mtime)
    assert str(again).startswith(f"The saved notebook ({saved:%H:%M:%S}) is what you made a file of at ")
    assert "Anything changed since is not saved. Nothing new was made." in str(again)

    write(path, {"ring_all_gather": f"{ANSWER}  # better"})
    questions: list[str] = []

    def unclear(question: str) -> str:
        questions.append(question)
        return "?"

    with pytest.raises(Declined, match="^Nothing new was made; the file of .* stays.$"):
        hand_in_notebook(NAME, start=course, ask=unclear, ran=(), asks_again=True)
    before_and_after = (
        r"You made a file to upload at [\d:]+\. The notebook has changed since\. Make a new file of what was "
    )
    assert re.fullmatch(before_and_after + r"saved \d+ seconds? ago, at [\d:]+\? \[y/N\] ", questions[0]), questions
    assert questions[1:] == [f"Please answer y for yes or n for no. {questions[0]}"], "another answer: asked once more"

    def nobody(question: str) -> str:
        raise EOFError

    with pytest.raises(HandInError, match="To hand it in again, in a terminal: distlib hand-in 02_all_reduce"):
        hand_in_notebook(NAME, start=course, ask=nobody, ran=(), asks_again=True, sure=True)
    receipts = first.file.with_suffix(".receipts.txt")
    assert first.file.read_bytes() == before and receipts.read_text().count("SHA-256") == 1
    newer = hand_in_notebook(NAME, start=course, ask=answering("y"), ran=(), asks_again=True)
    assert newer.is_new and receipts.read_text().count("SHA-256") == 2
    newer.file.unlink()  # type: ignore[union-attr]
    write(path, {"ring_all_gather": f"{ANSWER}  # lost"})
    assert hand_in_notebook(NAME, start=course, ask=never, ran=(), asks_again=True).is_new, "nothing is there any more"


def test_a_command_is_an_act_and_the_same_text_is_told(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(course)
    write(exercise(course), {"ring_all_gather": ANSWER})
    words = ["hand-in", "02", "--name", "Ada"]
    assert [main(words), main(words), main([*words, "--again"])] == [0, 0, 0]
    assert capsys.readouterr().out.count("Nothing new was made. If you have not uploaded it yet") == 1
    write(exercise(course), {"ring_all_gather": f"{ANSWER}  # better"})
    assert main(words) == main(["hand-in", "02", "--name", "Another"]) == 0
    assert "Nothing new" not in capsys.readouterr().out
    receipts = course / "work" / "handed_in" / f"{NAME}--ada.receipts.txt"
    assert receipts.read_text().count("SHA-256") == 3


def test_a_copy_of_the_exercise_below_the_course(course: Path) -> None:
    copy = course / "work" / "exercises" / NAME / f"{NAME}.ipynb"
    shutil.copytree(exercise(course).parent, copy.parent)
    write(copy, {"ring_all_gather": ANSWER})
    receipt = hand_in_notebook("2", start=course, notebook=copy, student="ada", ask=never, ran=())
    assert receipt.file == course / "work" / "handed_in" / f"{NAME}--ada.ipynb"
    assert hand_in_notebook(NAME, start=copy.parent, ask=never, ran=()).notebook == copy


def test_a_notebook_without_an_answer_is_a_question(course: Path) -> None:
    with pytest.raises(HandInError, match="no function of 02_all_reduce is answered"):
        hand_in_notebook(NAME, start=course, student="ada", ask=answering("n"), ran=())
    assert not (course / "work").exists()
    assert hand_in_notebook(NAME, start=course, student="ada", ask=answering("y"), ran=()).file
    assert hand_in_notebook(NAME, start=course, student="ada", ask=never, sure=True, ran=()).file


def test_nobody_there_to_answer(course: Path) -> None:
    def nobody(question: str) -> str:
        raise EOFError

    with pytest.raises(HandInError, match="If you mean it: --yes"):
        hand_in_notebook(NAME, start=course, ask=nobody, ran=())
    with pytest.raises(HandInError, match="--name"):
        hand_in_notebook(NAME, start=course, ask=nobody, sure=True, ran=())

    def interrupted(question: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="^you interrupted the question.$"):
        hand_in_notebook(NAME, start=course, ask=interrupted, sure=True, ran=())


def test_a_no_is_no_error(course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(course)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nn\n"))
    assert hand_in(NAME, "Ada") is None
    assert main(["hand-in", NAME, "--name", "Ada"]) == 1
    out, err = capsys.readouterr()
    assert out.count(f"[y/N] Nothing was handed in: no function of {NAME} is answered.\n") == 2 and err == ""


def test_a_notebook_that_is_saved_during_a_question_is_looked_at_again(course: Path) -> None:
    path = exercise(course)
    write(path, {"ring_all_gather": ANSWER})
    newer, questions = f"{ANSWER}  # newer", []

    def saving(question: str) -> str:
        questions.append(question)
        if len(questions) == 1:
            write(path, {"ring_all_gather": newer})
        return "Ada"

    receipt = hand_in_notebook(NAME, start=course, ask=saving, ran=())
    assert len(questions) == 1, "the name holds for the newer one, too"
    assert receipt.file and receipt.file.read_bytes() == path.read_bytes()
    assert receipt.file.name == f"{NAME}--ada.ipynb" and "# newer" in receipt.file.read_text()
    assert receipt.remarks[0] == "The notebook was saved meanwhile; this is about the newer one."

    questions.clear()
    write(path, {"ring_all_gather": f"{ANSWER}  # newest"})
    newer = f"{ANSWER}  # the very newest"

    def agreeing(question: str) -> str:
        saving(question)
        return "y"

    again = hand_in_notebook(NAME, start=course, ask=agreeing, ran=(), asks_again=True)
    assert len(questions) == 2 and questions[1].startswith("The notebook was saved meanwhile; this is about the newer")
    assert again.file and again.file.read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_where_there_is_an_exchange_it_is_submitted(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(course / "jupyter"))
    inbound, outbound = (course / "exchange" / "dt101" / name for name in ("inbound", "outbound"))
    inbound.mkdir(parents=True)
    shutil.copytree(exercise(course).parent, outbound / NAME)
    settings = f'c.CourseDirectory.course_id = "dt101"\nc.Exchange.root = "{course / "exchange"}"\n'
    (course / "nbgrader_config.py").write_text(f"c = get_config()\n{settings}")
    write(exercise(course), {"ring_all_gather": ANSWER})
    (exercise(course).parent / "secret.txt").write_text("only the notebook is handed in")
    receipt = hand_in_notebook(NAME, start=course, ask=never, ran=())
    assert receipt.file is None and "is handed in, to the exchange of the course dt101" in str(receipt)
    (folder,) = inbound.iterdir()
    assert {path.name for path in folder.iterdir()} == {f"{NAME}.ipynb", "timestamp.txt", "submission_secret.txt"}
    assert sha256((folder / f"{NAME}.ipynb").read_bytes()).hexdigest() == receipt.sha256
    again = hand_in_notebook(NAME, start=course, ask=never, ran=(), asks_again=True)
    assert "Nothing new was handed in. It is in the exchange of the course dt101." in str(again)
    assert len(list(inbound.iterdir())) == 1, "what came after the due date would be late"
    inbound.rename(inbound.with_name("gone"))
    with pytest.raises(HandInError, match="exchange did not take it: .*Inbound directory doesn't exist"):
        hand_in_notebook(NAME, start=course, ask=never, ran=(), again=True)
    shutil.rmtree(outbound / NAME)
    assert hand_in_notebook(NAME, start=course, student="ada", ask=never, ran=()).file, "not released there: a file"


# ── what is not ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_lesson_and_other_exercises_are_named(course: Path) -> None:
    for place, words in (
        (f"course/{NAME}.ipynb", "is the lesson 02_all_reduce. What you hand in is the exercise"),
        ("exercises/05_ddp/05_ddp.ipynb", "is exercise 05_ddp, not 02_all_reduce. To hand that in: distlib hand-in 05"),
    ):
        with pytest.raises(HandInError, match=words):
            hand_in_notebook(NAME, start=course, notebook=course / place, ask=never, ran=())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not a notebook: it is empty. Download"),
        ("hello", "is not a notebook: it is a text file. What is needed"),
        ('{"cells": [', "it is only the beginning of one: it ends in the middle. Download"),
        ('{"cells": [{"cell_type": "code", "source": "x = 1", "metadata": {}}]}', "has nothing of exercise"),
    ],
)
def test_what_is_not_the_exercise_is_refused(course: Path, content: str, words: str) -> None:
    exercise(course).write_text(content)
    with pytest.raises(HandInError, match=words) as error:
        hand_in_notebook(NAME, start=course, ask=never, ran=())
    assert not (course / "work").exists() and "JupyterLab and save" not in str(error.value)


def test_a_notebook_that_is_not_there(course: Path) -> None:
    with pytest.raises(HandInError, match="there is no notebook 07_x.ipynb"):
        hand_in_notebook("07_x", start=course, ask=never, ran=())
    with pytest.raises(HandInError, match="none.ipynb: No such file"):
        hand_in_notebook(NAME, start=course, notebook=course / "none.ipynb", ask=never, ran=())


# ── whether it is saved ──────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_run_and_not_saved_is_noticed(course: Path) -> None:
    write(exercise(course), {"ring_all_gather": ANSWER})
    newer = f"{ANSWER} # better"
    with pytest.raises(HandInError, match=r"not what you have run: ring_all_gather. Save the notebook"):
        hand_in_notebook(NAME, start=course, student="ada", ask=never, ran=[ANSWER, newer])
    helper = "def pass_on(): pass"
    notebook = json.loads(exercise(course).read_text())
    notebook["cells"].append({"cell_type": "code", "metadata": {}, "source": helper})
    exercise(course).write_text(json.dumps(notebook))
    write(exercise(course), {"ring_all_gather": ANSWER.replace("comm.barrier", "pass_on")})
    with pytest.raises(HandInError, match=r"not what you have run: pass_on. Save the notebook"):
        hand_in_notebook(NAME, start=course, student="ada", ask=never, ran=[helper, "def pass_on(): return"])
    write(exercise(course), {"ring_all_gather": ANSWER})
    for ran in ([newer, ANSWER], [f"\n{ANSWER}  \n"], ["def other(): pass"], ["def pass_on(): return"]):
        assert hand_in_notebook(NAME, start=course, student="ada", ask=never, ran=ran).file


FUNCTION = "def ring(comm, tensor):\n    for _ in range(4):\n        tensor += turn(STEP)\n"
SAVED = [FUNCTION, "STEP = 1\nturn = lambda step: amount(step)", "def amount(step):\n    return np.int64(step) * SIZE"]


@pytest.mark.parametrize(
    ("ran", "differing"),
    [
        (["STEP = -1"], ["STEP"]),
        (["STEP = -1", "STEP = 1"], []),
        (["%%time\nSTEP: int = -1"], ["STEP"]),
        (["STEP = -1\nfiles = !ls"], ["STEP"]),
        (["turn = lambda step: -amount(step)"], ["turn"]),
        (["def amount(step):\n    return step"], ["amount"]),
        (["SIZE = 3"], ["SIZE"]),  # in a new cell, and needed by a helper's helper
        (["import numpy as np"], ["np"]),
        ([*SAVED[::-1]], []),
        (["tensor = 3; step = 4; _ = 5; comm = None", "def unused(): pass"], []),  # local names are the function's own
        ([FUNCTION.replace("STEP", "fast(STEP)"), "fast = abs"], ["ring", "fast"]),
    ],
)
def test_constants_lambdas_and_helpers_of_helpers_are_compared(ran: list[str], differing: list[str]) -> None:
    cells = [HandedCell("code", source) for source in SAVED]
    assert run_differently(cells, ["ring"], ran) == differing


def test_a_newer_checkpoint_is_a_remark(course: Path) -> None:
    path = exercise(course)
    write(path, {"ring_all_gather": ANSWER})
    checkpoint = path.parent / ".ipynb_checkpoints" / f"{NAME}-checkpoint.ipynb"
    checkpoint.parent.mkdir()
    shutil.copy(path, checkpoint)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert hand_in_notebook(NAME, start=course, student="ada", ask=never, ran=()).remarks == []
    checkpoint.write_text("{}")
    (remark,) = hand_in_notebook(NAME, start=course, student="ada", ask=never, ran=()).remarks
    assert "Jupyter saved a different version later" in remark


def test_when_it_was_saved() -> None:
    now = datetime(2030, 11, 2, 12, 0, 0, tzinfo=UTC)
    for minute, second, words in ((59, 59, "1 second ago, at "), (56, 30, "3 minutes ago, at ")):
        assert ago(datetime(2030, 11, 2, 11, minute, second, tzinfo=UTC), now).startswith(words)
    assert ago(datetime(2030, 10, 30, 11, 0, 0, tzinfo=UTC), now).startswith("3 days ago, on 2030-10-30 at ")
    assert ago(datetime(2030, 11, 2, 13, 0, 0, tzinfo=UTC), now).startswith("0 seconds ago")


# ── its parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_exercise_as_released_and_as_solved() -> None:
    for folder, empty in (("exercises", True), ("solutions", False)):
        known = known_notebooks(ROOT)
        for path in sorted(ROOT.glob(f"{folder}/*/*.ipynb")):
            cells = read_submission(path).cells
            found = recognize(cells, known)
            assert found and found.is_exercise and found.name == path.stem
            states = {answer.state for answer in read_answers(cells, found.functions)}
            assert states == ({STUB} if empty else {ANSWERED}), path
            unmarked = [HandedCell(cell.kind, cell.source) for cell in cells]
            assert recognize(unmarked, known) == found
            in_words = {cell.grade_id for cell in cells if cell.mark.get("solution") and cell.kind != "code"}
            code = [name for name in found.functions if name not in in_words]
            states = {answer.state for answer in read_answers(unmarked, code, found.starts)}
            assert states == ({STUB} if empty else {ANSWERED}), path


def test_every_lesson_is_recognized() -> None:
    known = known_notebooks(ROOT)
    for path in sorted(ROOT.glob("course/*.ipynb")):
        found = recognize(read_submission(path).cells, known)
        assert found and not found.is_exercise and found.name == path.stem


def test_some_answers() -> None:
    def state(source: str, **mark: object) -> str:
        cell = HandedCell("code", source, metadata={"nbgrader": {"grade_id": "f", "solution": True, **mark}})
        return read_answers([cell], ["f"])[0].state

    assert state("def f():\n    '''Text.'''\n\n    raise NotImplementedError") == STUB
    assert state("") == STUB
    assert state("def f():\n    return 1") == ANSWERED
    assert state("def f(:\n    return 1") == (
        "not Python: line 1 of its cell (code cell 1), invalid syntax "
        f"(here is Python {HERE}; which one grades it is not known here)"
    )
    assert state("%%time\ndef f():\n    return 1") == ANSWERED
    assert state("def f(): return 1", checksum=3, locked="?", grade=None) == ANSWERED
    assert read_answers([], ["f"])[0].state == MISSING
    text = HandedCell("markdown", "Because.", metadata={"nbgrader": {"grade_id": "f", "solution": True}})
    assert read_answers([text], ["f"])[0].state == ANSWERED


def test_a_student_s_name_is_safe_and_two_names_stay_two() -> None:
    assert student_name("Ada Lovelace") == student_name(" ada  LOVELACE. ") == "ada-lovelace"
    assert student_name("Łukasz Żółć") == student_name("Łukasz Żo\u0301łć") == "łukasz-żółć"
    assert student_name("हिन्दी") == "हिन्दी" and student_name("ada@example.org") == "ada@example-org"
    odd = [
        "",
        "..",
        "../..",
        "report.html",
        "a\nb",
        "a\x1b[2J",
        "a*b",
        "a?b",
        "a[b",
        "\udcff",
        "\udcfe",
        "😀",
        "x" * 999,
    ]
    names = [student_name(text) for text in odd]
    assert len(set(names)) == len(odd)
    for name in names:
        assert name.isprintable() and len(name.encode()) <= 120 and not set(name) & set("./*?[]\\ ~+{}")
        assert student_name(name) == name, "a name that is safe stays"


def test_the_collector_reads_the_name_of_an_upload() -> None:
    for student in ("Ada Lovelace", "ada--b", "a.b@c.org", "../x", "李 明", "\udcff"):
        name = upload_name(NAME, student)
        stem = name.removesuffix(".ipynb")
        assert read_upload_name(stem) == read_upload_name(f"{stem} (2)") == (NAME, student_name(student))
        assert len(name.encode()) < 255
    assert read_upload_name(NAME) is None


def test_a_short_name_of_an_exercise() -> None:
    names = ["01_messages", "02_all_reduce", "03_trees_and_grids", "03b_networks"]
    assert [full_name(name, names) for name in ("2", "02", "02_all", "02_all_reduce")] == ["02_all_reduce"] * 4
    assert [full_name(name, names) for name in ("3", "03", "03_")] == ["03_trees_and_grids"] * 3
    assert [full_name(name, names) for name in ("03b", "9", "", "0")] == ["03b_networks", "9", "", "0"]
    assert full_name("16", [*names, "16b_launching"]) == "16b_launching"


def test_the_command(course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(course)
    write(exercise(course), {"ring_all_gather": ANSWER})
    assert main(["hand-in", "02", "--name", "Ada"]) == 0
    output = capsys.readouterr()
    assert f"work/handed_in/{NAME}--ada.ipynb" in output.out and output.err == ""
    assert main(["hand-in", "03"]) == 1
    assert capsys.readouterr().err.startswith("Not handed in: there is no notebook 03.ipynb")


def test_the_receipt_in_a_notebook_is_text(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(exercise(course).parent)
    write(exercise(course), {"ring_all_gather": f"{ANSWER} <b>"})
    page = hand_in_notebook(NAME, student="<b>Ada</b>", ask=never, ran=())._repr_html_()
    assert "<b>" not in page and "ring_all_gather: not Python: line 2" in page
    assert f'href="../../work/handed_in/{NAME}--b-ada-' in page and "download>" in page


def test_a_check_cell_does_not_load_it() -> None:
    program = (
        "import sys; from distlib.classroom import check_exercise, hand_in; "
        "print([name for name in sys.modules if name.startswith(('distlib.classroom.uploads', 'nbgrader'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "[]\n", done.stdout + done.stderr

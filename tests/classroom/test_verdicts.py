"""After a change of the source, only test cells whose verdict can change are judged again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.apps import NbGrader

from distlib.authoring.notebook import notebook_from_text
from distlib.classroom.grader import verdicts
from distlib.classroom.grader.examine import Examined, Examinee, examine
from distlib.classroom.grader.source import Source, make_source
from distlib.classroom.grader.verdicts import Verdicts, judging_code, needed_tests, note_verdicts, verdict_hashes
from tests.tools.tiny_course import CELLS, NAME, RIGHT, TEXT, simple_judge

CODE = {"": "the judge", "messages": "from distlib.exercises.flat.checks import f", "flat": "1", "ddp": "2"}


def source_of(text: str) -> Source:
    app = NbGrader()
    return make_source(nbformat.reads(notebook_from_text(text, "tiny.py", graded=True), as_version=4), app.config)


def notebook_of(text: str = TEXT) -> NotebookNode:
    return source_of(text).notebook


def changed(text: str, code: dict[str, str] = CODE, more: str = "") -> list[str]:
    """The test cells whose verdict comes from something else than in the tiny course."""
    before = verdict_hashes(notebook_of(), CODE, [""])
    after = verdict_hashes(notebook_of(text), code, [more])
    return [name for name in after if before[name] != after[name]]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("# # Tiny", "# # Tiny, and well explained", []),
        ("# Hidden tests of double.", "# Other words.", []),
        ("large number.\n", "number that is large.\n", []),
        ('assert double(2) == 4 * unit, "double', 'assert (\n    double(2) == 4 * unit\n), "double', []),
        ("print(double(3))", "print(double(4))", []),
        ('hidden" points=2\n### BEGIN HIDDEN TESTS\nassert', 'hidden" points=3\n### BEGIN HIDDEN TESTS\nassert', []),
        ("unit = 1", "unit = 1  # a comment", []),
        ("== 246912", "== 246913", ["double_hidden"]),
        ("unit = 1", "unit = 2", list(CELLS)),
        ("double(2) is wrong", "double(2) is not 4", ["double_visible"]),
    ],
    ids=range(10),
)
def test_a_verdict_depends_on_what_runs_for_it(old: str, new: str, expected: list[str]) -> None:
    assert old in TEXT
    assert changed(TEXT.replace(old, new)) == expected


def test_a_verdict_depends_on_seed_judge_and_the_checks_that_are_named() -> None:
    names = "secret_number = 123456\n"
    uses = TEXT.replace(names, names + "from distlib.exercises.messages.checks import check_shift\n")
    assert changed(TEXT, more="another seed") == changed(TEXT, {**CODE, "": "a mended judge"}) == list(CELLS)
    assert changed(TEXT, {**CODE, "flat": "mended"}) == []
    before = verdict_hashes(notebook_of(uses), CODE, [])
    for module, expected in (("flat", ["double_hidden"]), ("ddp", []), ("messages", ["double_hidden"])):
        after = verdict_hashes(notebook_of(uses), {**CODE, module: CODE[module] + " # mended"}, [])
        assert [name for name in after if before[name] != after[name]] == expected


def test_a_test_that_reads_a_name_of_another_one_needs_it() -> None:
    text = TEXT.replace("assert negate(-7) == 7", "assert negate(secret_number) == -secret_number")
    assert needed_tests(notebook_of(), ["negate_hidden"]) == {"negate_hidden"}
    assert needed_tests(notebook_of(text), ["negate_hidden"]) == {"negate_hidden", "double_hidden"}
    text = text.replace("secret_number = 123456", "secret_number = 234567")
    assert changed(text) == ["double_hidden", "negate_hidden"]


def test_pages_and_commands_do_not_judge_and_checks_do() -> None:
    judges = {str(path) for path in map(Path, (
        "checks/task.py", "judge/remote/judge.py", "worlds/diagnosis.py", "classroom/grader/transplant.py",
    )) if verdicts._judges(path)}  # fmt: skip
    assert len(judges) == 4
    for path in ("cli/grade.py", "draw/charts/bars.py", "classroom/grader/class_page.py", "exercises/ddp/checks.py"):
        assert not verdicts._judges(Path(path))
    assert {"", "messages", "ddp"} <= set(judging_code())


def test_sentences_judge_as_the_checks_next_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = judging_code()
    read = verdicts._texts_in
    for file, changed in (("checks/errors.txt", ""), ("exercises/messages/checks.txt", "messages")):
        path = verdicts._PACKAGE / file
        mended = lambda folder, path=path: {p: t + "!" * (p == path) for p, t in read(folder).items()}  # noqa: E731
        monkeypatch.setattr(verdicts, "_texts_in", mended)
        after = judging_code.__wrapped__()
        assert [name for name in before if after[name] != before[name]] == [changed]


# ── one submission ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def grade(tmp_path: Path) -> Callable[..., tuple[Examined, NotebookNode]]:
    """Grade one submission with a source, and keep its notebook as the next grading finds it."""
    folder, graded = tmp_path / "ada", tmp_path / "graded.ipynb"
    folder.mkdir()
    handed_in, answers = source_of(TEXT), {**RIGHT, "double": "def double(x):\n    return 4  # slow"}
    for cell, text in zip(handed_in.notebook.cells, handed_in.released, strict=True):
        cell.source = answers.get(cell.id, text)
    (folder / f"{NAME}.ipynb").write_text(json.dumps(handed_in.notebook))

    def once(text: str, seed: str = "seed", times: float = 1) -> tuple[Examined, NotebookNode]:
        before = graded if graded.exists() else None
        done = examine(Examinee(folder, NAME, source_of(text), seed, times, CODE, before), simple_judge)
        assert done.problem == ""
        graded.write_text(done.notebook)
        return done, nbformat.reads(done.notebook, as_version=4)

    return once


def failed(notebook: NotebookNode) -> list[str]:
    return [cell.metadata.nbgrader.grade_id for cell in notebook.cells if cell.get("outputs")]


def test_only_what_has_changed_is_judged_and_the_rest_stays(
    grade: Callable[..., tuple[Examined, NotebookNode]],
) -> None:
    first, notebook = grade(TEXT)
    assert (first.judged, failed(notebook), first.remarks) == (list(CELLS), ["double_hidden"], ["it was slow"])
    mended, notebook = grade(TEXT.replace("assert double(secret_number) == 246912", "assert double(2) == 4"))
    assert (mended.judged, failed(notebook), mended.remarks) == (["double_hidden"], [], ["it was slow"])
    back, notebook = grade(TEXT)
    assert (back.judged, failed(notebook)) == (["double_hidden"], ["double_hidden"])
    worded, notebook = grade(TEXT.replace("# # Tiny", "# # Small"))
    assert (worded.judged, failed(notebook)) == ([], ["double_hidden"])
    assert notebook.cells[0].source == "# Small"
    assert grade(TEXT, "another seed")[0].judged == grade(TEXT, times=2)[0].judged == list(CELLS)


def test_a_verdict_that_the_time_was_over_does_not_stay(tmp_path: Path) -> None:
    notebook, path = notebook_of(), tmp_path / "graded.ipynb"
    hashes = verdict_hashes(notebook, CODE, [])
    note_verdicts(notebook, hashes, [])
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "negate_visible":
            cell.outputs = [new_output("error", ename="Timeout", evalue="over", traceback=["over"])]
    path.write_text(nbformat.writes(notebook))
    assert Verdicts(path).that_stay(hashes) == {*CELLS} - {"negate_visible"}
    assert Verdicts(None).that_stay(hashes) == set()


def test_what_a_student_says_of_verdicts_is_not_taken_over(
    grade: Callable[..., tuple[Examined, NotebookNode]], tmp_path: Path
) -> None:
    _, notebook = grade(TEXT)
    assert set(notebook.metadata.distlib_verdicts.hashes) == set(CELLS)
    forged = json.loads((tmp_path / "ada" / f"{NAME}.ipynb").read_text())
    forged["metadata"] = {**notebook.metadata, "distlib_verdicts": {"hashes": {}, "remarks": ["all is well"]}}
    for cell in forged["cells"]:
        cell["metadata"]["distlib_verdicts"] = {"hashes": {}, "remarks": ["all is well"]}
    (tmp_path / "ada" / f"{NAME}.ipynb").write_text(json.dumps(forged))
    done, _ = grade(TEXT)
    assert "all is well" not in done.notebook

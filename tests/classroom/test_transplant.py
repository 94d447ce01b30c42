"""From what was handed in to the notebook that runs: reading a submission, and putting its answers in their places."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings, strategies as st
from nbformat import NotebookNode
from traitlets.config import Config

from distlib.classroom.grader.definitions import definitions_in
from distlib.classroom.grader.handed_in_time import utc_of
from distlib.classroom.grader.source import Source, make_source, read_source
from distlib.classroom.grader.submission import (
    CannotGrade,
    HandedCell,
    find_notebook,
    read_submission,
    read_timestamp,
    why_no_time,
)
from distlib.classroom.grader.transplant import FROM_STUDENT, Transplanted, transplant

ROOT = Path(__file__).parents[2]
NAME = "02_all_reduce"
FUNCTIONS = ("naive_all_reduce", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce")
SOURCE = read_source(ROOT / "solutions" / NAME / f"{NAME}.ipynb", Config())
ANSWERS = {name: f"def {name}(comm, tensor):\n    return '{name}'" for name in FUNCTIONS}


def released() -> dict[str, Any]:
    """The released notebook as JSON, with an answer in each solution cell."""
    notebook: dict[str, Any] = json.loads((ROOT / "exercises" / NAME / f"{NAME}.ipynb").read_text())
    for cell in notebook["cells"]:
        cell["source"] = ANSWERS.get(cell["id"], "".join(cell["source"]))
    return notebook


def cell_of(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    return next(cell for cell in notebook["cells"] if cell["id"] == name)


def own(text: str) -> dict[str, Any]:
    """A code cell that a student has made."""
    return {"cell_type": "code", "id": f"own{abs(hash(text))}", "metadata": {}, "outputs": [], "source": text}


def read(notebook: object, tmp_path: Path) -> list[HandedCell]:
    path = tmp_path / "handed.ipynb"
    path.write_text(json.dumps(notebook))
    return read_submission(path).cells


def transplanted(notebook: dict[str, Any], tmp_path: Path, source: Source = SOURCE) -> Transplanted:
    return transplant(source, read(notebook, tmp_path))


def answers_in(notebook: NotebookNode) -> dict[str, str]:
    return {cell.id: cell.source for cell in notebook.cells if cell.id in FUNCTIONS}


def own_in(notebook: NotebookNode) -> list[str]:
    """The texts of the cells that are marked as the student's, and no solution cells."""
    return [cell.source for cell in notebook.cells if cell.metadata.get("distlib") == FROM_STUDENT]


def test_an_honest_notebook_gives_no_remark_and_its_answers(tmp_path: Path) -> None:
    done = transplanted(released(), tmp_path)
    assert done.remarks == []
    assert answers_in(done.notebook) == ANSWERS
    assert own_in(done.notebook) == []
    assert [cell.id for cell in done.notebook.cells] == [cell.id for cell in SOURCE.notebook.cells]
    hidden = next(cell for cell in done.notebook.cells if cell.id == "ring_all_reduce_hidden")
    assert "BEGIN HIDDEN TESTS" in hidden.source
    nbformat.validate(done.notebook)


def test_the_solutions_are_nowhere_and_the_source_stays_as_it_is(tmp_path: Path) -> None:
    before = nbformat.writes(SOURCE.notebook)
    notebook = released()
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] not in FUNCTIONS]
    done = transplanted(notebook, tmp_path)
    assert all("raise NotImplementedError" in text for text in answers_in(done.notebook).values())
    assert done.remarks == [f"missing, graded as empty: {', '.join(FUNCTIONS)}"]
    assert nbformat.writes(SOURCE.notebook) == before


def test_own_cells_stay_between_their_neighbors(tmp_path: Path) -> None:
    notebook = released()
    place = notebook["cells"].index(cell_of(notebook, "ring_all_gather"))
    notebook["cells"][place:place] = [own("first = 1"), own("second = 2")]
    notebook["cells"].insert(0, own("import math"))
    notebook["cells"].append(own("last = 3"))
    done = transplanted(notebook, tmp_path)
    texts = [cell.source for cell in done.notebook.cells]
    ids = [cell.id for cell in done.notebook.cells]
    assert texts[0] == "import math" and texts[-1] == "last = 3"
    assert texts[ids.index("ring_all_gather") - 2 : ids.index("ring_all_gather")] == ["first = 1", "second = 2"]
    assert done.remarks == []
    nbformat.validate(done.notebook)


def test_an_edited_demonstration_is_the_students_an_edited_text_is_not(tmp_path: Path) -> None:
    notebook = released()
    cell_of(notebook, "cell-6")["source"] = "helper = 1"
    cell_of(notebook, "cell-0")["source"] = "<script>alert(1)</script>"
    done = transplanted(notebook, tmp_path)
    assert own_in(done.notebook) == ["helper = 1"]
    assert "<script>" not in nbformat.writes(done.notebook)
    assert done.remarks == []


def change_test(notebook: dict[str, Any]) -> None:
    cell_of(notebook, "ring_all_reduce_visible")["source"] = "pass"


def delete_test(notebook: dict[str, Any]) -> None:
    notebook["cells"].remove(cell_of(notebook, "ring_all_reduce_hidden"))


def change_points(notebook: dict[str, Any]) -> None:
    cell_of(notebook, "ring_all_reduce_visible")["metadata"]["nbgrader"]["points"] = 100


def skip_by_tag(notebook: dict[str, Any]) -> None:
    cell_of(notebook, "ring_all_reduce_visible")["metadata"]["tags"] = ["skip-execution"]


def foreign_schema(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"]["schema_version"] = 99


def move_up(notebook: dict[str, Any]) -> None:
    cell = cell_of(notebook, "ring_all_reduce")
    notebook["cells"].remove(cell)
    notebook["cells"].insert(1, cell)


def strip_names(notebook: dict[str, Any]) -> None:
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"], cell["id"] = {}, f"new{number}"


def strip_ids(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        del cell["id"]


def broken_metadata(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {"nbgrader": ["what"]}
    notebook["metadata"] = 7


def rename(notebook: dict[str, Any]) -> None:
    cell = cell_of(notebook, "ring_all_reduce")
    cell["metadata"]["nbgrader"]["grade_id"], cell["id"] = "mine", "mine"


def swap_names(notebook: dict[str, Any]) -> None:
    one, other = cell_of(notebook, "ring_all_gather"), cell_of(notebook, "ring_all_reduce")
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    one["id"], other["id"] = other["id"], one["id"]


def make_markdown(notebook: dict[str, Any]) -> None:
    cell_of(notebook, "ring_all_reduce")["cell_type"] = "markdown"


def add_empty_copy(notebook: dict[str, Any]) -> None:
    copy = json.loads(json.dumps(cell_of(notebook, "ring_all_reduce")))
    copy["source"] = SOURCE.released[[cell.id for cell in SOURCE.notebook.cells].index("ring_all_reduce")]
    notebook["cells"].append(copy)


def add_older_copy(notebook: dict[str, Any]) -> None:
    copy = json.loads(json.dumps(cell_of(notebook, "ring_all_reduce")))
    copy["source"] = "def ring_all_reduce(comm, tensor):\n    return 'an older one'"
    notebook["cells"].insert(0, copy)


def two(first: int, last: int, counts: int) -> str:
    return (
        f"ring_all_reduce is defined in two cells, code cells {first} and {last} from the top. "
        f"Cell {counts} counts: it is the last one above its test."
    )


NOT_THERE = "without the name that nbgrader gave it, recognized by its text: "
TAMPERED: list[tuple[Callable[[dict[str, Any]], None], list[str]]] = [
    (change_test, ["edited, the instructor's text was used: ring_all_reduce_visible"]),
    (delete_test, ["missing, put back: ring_all_reduce_hidden"]),
    (change_points, ["with other marks than released: ring_all_reduce_visible"]),
    (skip_by_tag, ["with other marks than released: ring_all_reduce_visible"]),
    (
        foreign_schema,
        [
            "with other marks than released: setup, naive_all_reduce, naive_all_reduce_visible, "
            "naive_all_reduce_hidden, ring_reduce_scatter, ring_reduce_scatter_visible and 7 more"
        ],
    ),
    (move_up, ["moved, put back in their place: ring_all_reduce"]),
    (
        strip_names,
        [
            f"{NOT_THERE}setup, naive_all_reduce, naive_all_reduce_visible, naive_all_reduce_hidden, "
            "ring_reduce_scatter, ring_reduce_scatter_visible and 7 more"
        ],
    ),
    (strip_ids, []),
    (
        broken_metadata,
        [
            f"{NOT_THERE}setup, naive_all_reduce, naive_all_reduce_visible, naive_all_reduce_hidden, "
            "ring_reduce_scatter, ring_reduce_scatter_visible and 7 more"
        ],
    ),
    (rename, [f"{NOT_THERE}ring_all_reduce"]),
    (swap_names, [f"{NOT_THERE}ring_all_gather, ring_all_reduce"]),
    (make_markdown, ["made text, though they are code; graded as code: ring_all_reduce"]),
    (add_empty_copy, [two(18, 28, 18)]),
    (add_older_copy, [two(1, 19, 19)]),
]


@pytest.mark.parametrize(("tamper", "remarks"), TAMPERED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_was_tampered_with_is_a_remark_and_the_answers_stay(
    tamper: Callable[[dict[str, Any]], None], remarks: list[str], tmp_path: Path
) -> None:
    notebook = released()
    tamper(notebook)
    done = transplanted(notebook, tmp_path)
    assert answers_in(done.notebook) == ANSWERS
    assert [remark for remark in done.remarks if not remark.startswith("moved")] == [
        remark for remark in remarks if not remark.startswith("moved")
    ]
    if tamper is move_up:
        assert done.remarks == remarks
    instructors = [cell for cell in done.notebook.cells if cell.id not in FUNCTIONS and "distlib" not in cell.metadata]
    assert instructors == [cell for cell in SOURCE.notebook.cells if cell.id not in FUNCTIONS]


def test_a_function_in_the_wrong_place_is_found(tmp_path: Path) -> None:
    notebook = released()
    notebook["cells"].remove(cell_of(notebook, "ring_all_gather"))
    both = f"{ANSWERS['ring_reduce_scatter']}\n\n{ANSWERS['ring_all_gather']}"
    cell_of(notebook, "ring_reduce_scatter")["source"] = both
    notebook["cells"].remove(cell_of(notebook, "ring_all_reduce"))
    notebook["cells"].append(own(ANSWERS["ring_all_reduce"]))
    done = transplanted(notebook, tmp_path)
    assert answers_in(done.notebook) == {
        **ANSWERS,
        "ring_reduce_scatter": both,
        "ring_all_gather": "# ring_all_gather stands in the cell of ring_reduce_scatter.",
    }
    assert "not in a cell of its own, taken from another one: ring_all_gather" in done.remarks


OLD = "def ring_all_reduce(comm, tensor):\n    return 'old'\n\nhelper = 1"
STUB = "def ring_all_reduce(comm, tensor):\n    raise NotImplementedError()"


@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
@pytest.mark.parametrize(
    ("near", "behind", "text", "counts"),
    [
        ("ring_all_reduce", False, OLD, "first"),
        ("ring_all_reduce", True, OLD, "other"),
        ("ring_all_reduce", True, STUB, "first"),
        ("ring_all_reduce_visible", True, OLD, "first"),
        ("ring_all_reduce_hidden", True, OLD, "first"),
        ("ring_all_reduce_hidden", True, STUB, "first"),
        ("cell-0", True, OLD, "first"),
    ],
)
def test_the_last_definition_above_its_test_counts(
    near: str, behind: bool, text: str, counts: str, named: bool, tmp_path: Path
) -> None:
    notebook = released()
    copy = json.loads(json.dumps(cell_of(notebook, "ring_all_reduce"))) if named else own("")
    copy["source"] = text
    place = notebook["cells"].index(cell_of(notebook, near)) + behind
    notebook["cells"].insert(place, copy)
    cells = read(notebook, tmp_path)
    done = transplant(SOURCE, cells)
    expected = {"first": ANSWERS["ring_all_reduce"], "other": text}[counts]
    assert answers_in(done.notebook)["ring_all_reduce"] == expected
    (remark,) = done.remarks
    assert remark.startswith("ring_all_reduce is defined in two cells, ")
    graded = next(cell for cell in done.notebook.cells if cell.id == "ring_all_reduce")
    assert graded.metadata["distlib"] == {"note": remark}
    found = definitions_in(cells, FUNCTIONS)["ring_all_reduce"]  # as a student is told, without the instructor's
    assert found.remark == remark and cells[found.counts].source == expected
    sources = [cell.source for cell in done.notebook.cells]
    answer = sources.index(expected)
    others = [at for at, each in enumerate(sources) if each in (text, ANSWERS["ring_all_reduce"]) and at != answer]
    hidden = [cell.id for cell in done.notebook.cells].index("ring_all_reduce_hidden")
    assert all(at < answer or at >= hidden for at in others), "nothing takes its place before its tests have run"
    assert bool(others) == (text is OLD), "an old try may define what others need, a stub does not"


def test_the_only_definition_that_is_written_counts_wherever_it_stands(tmp_path: Path) -> None:
    notebook = released()
    cell_of(notebook, "ring_all_reduce")["source"] = STUB
    notebook["cells"].append(own(OLD))
    done = transplanted(notebook, tmp_path)
    assert answers_in(done.notebook)["ring_all_reduce"] == OLD
    assert done.remarks == [
        "ring_all_reduce is defined in two cells, code cells 18 and 28 from the top. "
        "Cell 28 counts: the one above the test is not written yet."
    ]


def test_a_stub_below_the_cell_that_counts_is_said_to_be_one() -> None:
    cells = [HandedCell("code", text) for text in (OLD, STUB, "", STUB)]
    cells[2] = HandedCell("code", "", "ring_all_reduce_visible")
    remark = definitions_in(cells, ["ring_all_reduce"])["ring_all_reduce"].remark
    assert remark.endswith("code cells 1, 2 and 4 from the top. Cell 1 counts: cell 2 is not written yet.")
    several_stubs = definitions_in([cells[1], cells[1], cells[2], cells[0]], ["ring_all_reduce"])["ring_all_reduce"]
    assert several_stubs.remark.endswith("Cell 4 counts: the ones above the test are not written yet.")


def test_no_exercise_defines_a_function_twice() -> None:
    for path in sorted(ROOT.glob("[es]*s/*/*.ipynb")):
        cells = read_submission(path).cells
        names = [cell.grade_id for cell in cells if cell.mark.get("solution") and cell.kind == "code"]
        found = definitions_in(cells, names)
        assert len(found) == len(names) > 0 and not [each.remark for each in found.values() if each.others], path


def test_an_older_copy_runs_before_the_answer(tmp_path: Path) -> None:
    notebook = released()
    add_older_copy(notebook)
    done = transplanted(notebook, tmp_path)
    assert own_in(done.notebook) == ["def ring_all_reduce(comm, tensor):\n    return 'an older one'"]


def test_an_edited_copy_of_a_test_is_the_students(tmp_path: Path) -> None:
    notebook = released()
    copy = json.loads(json.dumps(cell_of(notebook, "ring_all_reduce_visible")))
    copy["source"], copy["id"] = "my_helper = 2", "copy"
    notebook["cells"].append(copy)
    done = transplanted(notebook, tmp_path)
    assert own_in(done.notebook) == ["my_helper = 2"]
    assert sum(bool(cell.metadata.get("nbgrader")) for cell in done.notebook.cells) == 13


FREE_TEXT = nbformat.v4.new_markdown_cell(
    "A model answer.",
    id="why",
    metadata={
        "nbgrader": {
            "grade": True, "solution": True, "locked": False, "task": False, "grade_id": "why", "points": 1,
            "schema_version": 3, "cell_type": "markdown",
        }
    },
)  # fmt: skip


def test_free_text_is_taken_over(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[FREE_TEXT], metadata=SOURCE.notebook.metadata)
    source = make_source(notebook, Config())
    assert source.released == ["YOUR ANSWER HERE"]
    handed = [HandedCell("markdown", "Because.", "why", dict(FREE_TEXT.metadata))]
    done = transplant(source, handed)
    assert done.notebook.cells[0].source == "Because."
    assert done.remarks == []


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def test_pictures_in_free_text_are_taken_over_and_nothing_else(tmp_path: Path) -> None:
    model = nbformat.v4.new_markdown_cell("See.", id="why", metadata=FREE_TEXT.metadata)
    model.attachments = {"model.png": {"image/png": PNG}}
    source = make_source(nbformat.v4.new_notebook(cells=[model], metadata=SOURCE.notebook.metadata), Config())
    pasted: dict[str, Any] = {
        "a.png": {"image/png": PNG, "text/html": "<script>"},
        "b.jpg": {"image/jpeg": ["aGVs\n", "bG8="]},
        "evil.svg": {"image/svg+xml": "PHN2Zy8+"},
        "evil.png": {"image/png": '"><script>alert(1)</script>'},
        "large.png": {"image/png": "A" * (8 << 20)},
        "odd.png": [],
    }
    cell = {"cell_type": "markdown", "id": "why", "metadata": dict(FREE_TEXT.metadata), "source": "Because."}
    done = transplanted({"cells": [{**cell, "attachments": pasted}]}, tmp_path, source)
    assert done.notebook.cells[0].attachments == {
        "a.png": {"image/png": PNG}, "b.jpg": {"image/jpeg": "aGVs\nbG8="}
    }  # fmt: skip
    assert done.remarks == [
        "of what is pasted into why only pictures are kept (png, jpeg, gif, webp; 8 MiB), not: "
        "evil.svg, evil.png, large.png, odd.png"
    ]
    nbformat.validate(done.notebook)
    for attachments in ({}, None, 3, [PNG]):
        done = transplanted({"cells": [{**cell, "attachments": attachments}]}, tmp_path, source)
        assert "attachments" not in done.notebook.cells[0] and done.remarks == []


def random_edit(notebook: dict[str, Any], draw: random.Random) -> None:
    """Do to a notebook what a student, a tool or a villain may do, except to the answers' text."""
    cells = notebook["cells"]
    cell = draw.choice(cells)
    action = draw.choice(["add", "drop", "copy", "move", "strip", "retag", "edit"])
    is_answer = cell["source"] in ANSWERS.values()
    if action == "add":
        cells.insert(draw.randrange(len(cells) + 1), own(f"x{draw.random()} = 1"))
    elif action == "drop" and not is_answer:
        cells.remove(cell)
    elif action == "copy":
        cells.insert(draw.randrange(len(cells) + 1), json.loads(json.dumps(cell)))
    elif action == "move":
        cells.remove(cell)
        cells.insert(draw.randrange(len(cells) + 1), cell)
    elif action == "strip":
        cell["metadata"] = {}
        cell.pop("id", None)
    elif action == "retag" and "nbgrader" in cell["metadata"]:
        cell["metadata"]["nbgrader"][draw.choice(["grade", "locked", "points"])] = draw.choice([True, False, 5, "x"])
    elif action == "edit" and not is_answer:
        cell["source"] += "\n# edited"


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), edits=st.integers(0, 40))
def test_random_edits_keep_every_answer_and_every_own_cell_in_order(
    seed: int, edits: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw, notebook = random.Random(seed), released()
    for _ in range(edits):
        random_edit(notebook, draw)
    done = transplanted(notebook, tmp_path_factory.mktemp("edits"))
    assert answers_in(done.notebook) == ANSWERS
    ids = [cell.id for cell in done.notebook.cells]
    assert len(ids) == len(set(ids))
    ours = [cell.id for cell in SOURCE.notebook.cells]
    assert [name for name in ids if name in ours] == ours
    tests = {cell.id: cell.source for cell in done.notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")}
    assert tests == {
        cell.id: cell.source for cell in SOURCE.notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")
    }
    handed = [cell["source"] for cell in notebook["cells"] if cell["source"].startswith("x0.")]
    kept = [cell.source for cell in done.notebook.cells if cell.source.startswith("x0.")]
    assert [text for text in kept if "edited" not in text] == [text for text in handed if "edited" not in text]


# Reading a submission


def in_folder(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "someone" / NAME
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(released()))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_which_notebook_is_graded(tmp_path: Path) -> None:
    expected = f"{NAME}.ipynb"
    assert find_notebook(in_folder(tmp_path / "1", expected), NAME)[1] == []
    path, remarks = find_notebook(in_folder(tmp_path / "2", expected, "other.ipynb"), NAME)
    assert path.name == expected and remarks == ["also handed in, not graded: other.ipynb"]
    path, remarks = find_notebook(in_folder(tmp_path / "3", f"deep/{NAME} (1).ipynb"), NAME)
    assert remarks == [f"the notebook is called deep/{NAME} (1).ipynb instead of {expected}"]
    with pytest.raises(CannotGrade, match=r"there are 2 notebooks \(a.ipynb, b.ipynb\), none called .*: keep one"):
        find_notebook(in_folder(tmp_path / "4", "a.ipynb", "b.ipynb"), NAME)
    with pytest.raises(CannotGrade, match="no notebook .*: the folder is empty"):
        find_notebook(in_folder(tmp_path / "5", ".ipynb_checkpoints/x.ipynb"), NAME)
    with pytest.raises(CannotGrade, match="no notebook .*, only answer.zip"):
        find_notebook(in_folder(tmp_path / "6", "answer.zip"), NAME)


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = in_folder(tmp_path / "other", f"{NAME}.ipynb")
    folder = in_folder(tmp_path)
    (folder / f"{NAME}.ipynb").symlink_to(secret / f"{NAME}.ipynb")
    (folder / "more").symlink_to(secret)
    with pytest.raises(CannotGrade, match=f"links are not followed: {NAME}.ipynb, more"):
        find_notebook(folder, NAME)
    with pytest.raises(CannotGrade, match="can't be read"):
        read_submission(folder / f"{NAME}.ipynb")
    (tmp_path / "linked").symlink_to(secret.parent)
    with pytest.raises(CannotGrade, match="the folder is a link"):
        find_notebook(tmp_path / "linked" / NAME, NAME)


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / f"{NAME}.ipynb"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a notebook: it is empty"),
        (b"not json", "is not a notebook: it is a text file"),
        (b'{"cells": [{"outputs": [', "it ends in the middle"),
        (b"[" * 200_000, "is not a notebook"),
        (b"[1, 2]", "it has no cells"),
        (b'{"cells": 3}', "it has no cells"),
        (b'{"worksheets": {"cells": []}}', "it has no cells"),
        (b'{"cells": [' + b"{}," * 1_000 + b"{}]}", "more than 1,000 cells"),
    ],
)
def test_what_is_no_notebook_is_named(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(CannotGrade, match=message):
        read_submission(written(tmp_path, data))


def test_no_ordinary_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    with pytest.raises(CannotGrade, match="no ordinary file"):
        read_submission(tmp_path / "pipe.ipynb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, b"{}")
    path.chmod(0)
    with pytest.raises(CannotGrade, match="Permission denied"):
        read_submission(path)


def test_encodings(tmp_path: Path) -> None:
    text = json.dumps({"cells": [own("x = 'ü'")]}, ensure_ascii=False)
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        submission = read_submission(written(tmp_path, text.encode(encoding)))
        assert submission.cells[0].source == "x = 'ü'" and submission.remarks == []
    submission = read_submission(written(tmp_path, text.encode("latin-1")))
    assert submission.cells[0].source == "x = 'ü'"
    assert submission.remarks == ["the notebook is not in UTF-8; it was read as Latin-1"]
    lonely = read_submission(
        written(tmp_path, b'{"cells": [{"cell_type": "code", "source": "x = \'\\ud800\'\\r\\n"}]}')
    )
    assert lonely.cells[0].source == "x = '?'\n"


def test_older_formats_and_other_kernels(tmp_path: Path) -> None:
    old = {
        "worksheets": [{"cells": [{"cell_type": "code", "input": ["a = 1\n", "b = 2"]}, {"cell_type": "heading"}]}],
        "metadata": {"kernelspec": {"language": "julia"}},
    }
    submission = read_submission(written(tmp_path, json.dumps(old).encode()))
    assert [(cell.kind, cell.source) for cell in submission.cells] == [("code", "a = 1\nb = 2"), ("markdown", "")]
    assert submission.remarks == ["the notebook is made for another kernel (julia); it ran in Python"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["text", "data", "outputs"]), inner),
    max_leaves=20,
)


@settings(max_examples=150)
@given(source=st.text(), outputs=st.lists(json_values), after=st.text())
def test_outputs_are_skipped_whatever_is_in_them(
    source: str, outputs: list[Any], after: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cells = [{"cell_type": "code", "outputs": outputs, "source": source}, {"cell_type": "raw", "source": after}]
    path = written(tmp_path_factory.mktemp("outputs"), json.dumps({"cells": cells}).encode())
    assert [cell.source for cell in read_submission(path).cells] == [
        text.replace("\r\n", "\n").replace("\r", "\n") for text in (source, after)
    ]


def test_much_output_does_no_harm(tmp_path: Path) -> None:
    cell = own("x = 1")
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ['a "line" \\ \n' * 10] * 100_000}]
    assert read_submission(written(tmp_path, json.dumps({"cells": [cell]}).encode())).cells[0].source == "x = 1"


def test_too_much_text_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"cells": [own("#" * (33 << 20))]}).encode())
    with pytest.raises(CannotGrade, match="more than 32 MiB without its outputs"):
        read_submission(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("03.11.2026 10:00", "may be 11 March 2026 or 3 November 2026"),
        ("03/11/2026 10:00", "may be 11 March 2026 or 3 November 2026"),
        ("03.11. 10:00", "can't be read as a time"),
        ("03.11.26 10:00", "has no year with four digits"),
        ("2025-11-03", "has no time of day"),
        ("2025-11-03 10:00 MEZ", "names a time zone that is not known, MEZ"),
        ("1979-12-31 23:00:00 UTC", "is what zip files say of a file whose time is not known"),
        ("2019-11-03 10:00", "is before this course existed (2024)"),
        ("2999-11-03 10:00", "is in the future"),
    ],
)
def test_a_time_that_can_t_be_or_has_two_readings_is_not_believed(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "timestamp.txt").write_text(text)
    when, (remark,) = read_timestamp(tmp_path)
    assert when is None and remark.startswith(
        f"timestamp.txt says {text!r}, which {words}: no time of handing in, no pen"
    )


def test_times_with_one_reading() -> None:
    for text in (
        *("2025-11-03 09:00 UTC", "2025-11-03T10:00+01:00", "2025-11-03 10:00 Europe/Berlin", "2025/11/03 09:00"),
        *("3 Nov 2025 09:00 GMT", "Nov 3, 2025 09:00", "2025-11-03 09:00:00.000000 UTC", "2025-11-03T09:00:00Z"),
    ):
        assert utc_of(text) == datetime(2025, 11, 3, 9), text
    assert utc_of("25.11.2025 10:00") == utc_of("11/25/2025 10:00") == datetime(2025, 11, 25, 10)


def test_a_time_without_a_zone_is_taken_as_utc_and_that_is_said(tmp_path: Path) -> None:
    assert why_no_time(tmp_path) == "no timestamp.txt"
    (tmp_path / "timestamp.txt").write_text("2025-11-03 21:50")
    remark = "timestamp.txt names no time zone and was taken as UTC: 2025-11-03 21:50:00 UTC"
    assert read_timestamp(tmp_path) == (datetime(2025, 11, 3, 21, 50), [remark]) and not why_no_time(tmp_path)
    for text in ("2025-11-03 21:50 UTC", "2025-11-03T21:50Z", "2025-11-03 22:50 +0100"):
        (tmp_path / "timestamp.txt").write_text(text)
        assert read_timestamp(tmp_path) == (datetime(2025, 11, 3, 21, 50), []), text
    (tmp_path / "timestamp.txt").write_text("03.11.2026 10:00")
    assert why_no_time(tmp_path) == "03.11.2026 10:00 may be 11 March 2026 or 3 November 2026"


def test_time_stamps(tmp_path: Path) -> None:
    assert read_timestamp(tmp_path) == (None, [])
    (tmp_path / "timestamp.txt").write_text("2026-01-02 03:04:05.000000 UTC\n")
    when, remarks = read_timestamp(tmp_path)
    assert when is not None and (when.isoformat(), remarks) == ("2026-01-02T03:04:05", [])
    for content in (b"yesterday evening", b"\xff\xfe\x00", b"", b"1" * 2_000):
        (tmp_path / "timestamp.txt").write_bytes(content)
        when, remarks = read_timestamp(tmp_path)
        assert when is None and len(remarks) == 1

"""The short form in which an author marks a cell, and the nbgrader metadata that it stands for.

    # %% solution="ring_all_reduce"                         the student writes it; its tests give the marks
    # %% test="ring_all_reduce_visible" points=2            locked; gives its points when it runs without an error
    # %% readonly="setup"                                   locked; no marks; nbgrader restores its text before grading
    # %% [markdown] answer="why_a_ring" points=2            free text, marked by hand
    # %% tags=["raises-exception"]                          tags stay as they are, on any cell
    # %% [markdown] text="hand_in"                          a text that stands in every exercise: see `texts`
    # %% tags=["folded"]                                    code of which the first line is shown, a comment

The value is the cell's grade_id, and becomes the cell's id as well.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from typing import Any

from distlib.authoring.texts import TEXTS
from distlib.classroom.grader.starting_text import SOLUTION_MARKERS, START_MARKER, starting_text

SCHEMA_VERSION = 3  # of nbgrader's cell metadata
KINDS = ("solution", "test", "readonly", "answer")
KNOWN_KEYS = (*KINDS, "points", "tags", "text")
IGNORED_KEYS = ("lines_to_next_cell", "lines_to_end_of_cell_marker")  # jupytext's note about blank lines

FOLDED = "folded"  # a tag: one way to do what the text asks for, code that nobody need read, or a check of the text
CHECK = "# Check"  # the beginning of a folded cell whose assertions only guard the text

HIDDEN_MARKERS = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")

Cell = Any  # a notebook cell of nbformat, or anything with cell_type, source and metadata


class AuthoringError(ValueError):
    """A text source that can't become a notebook. The message begins with file and line, and says what to write."""


def nbgrader_metadata(cell: Cell) -> dict[str, Any] | None:
    """Returns nbgrader's metadata for a cell that is marked in the short form, None for an ordinary cell.

    Raises AuthoringError when the mark is incomplete, misspelled or on the wrong type of cell.
    """
    kind = _kind_of(cell)
    if kind is None:
        if "points" in cell.metadata:
            raise AuthoringError("points belong to a cell marked test=… or answer=…")
        return None
    graded = kind in ("test", "answer")
    metadata = {
        "cell_type": cell.cell_type,
        "grade": graded,
        "grade_id": _checked_grade_id(cell.metadata[kind]),
        "locked": kind in ("test", "readonly"),
        "schema_version": SCHEMA_VERSION,
        "solution": kind in ("solution", "answer"),
        "task": False,
    }
    if graded:
        metadata["points"] = _checked_points(cell.metadata.get("points"), kind)
    elif "points" in cell.metadata:
        raise AuthoringError(f"a {kind} cell has no points: give them to its tests")
    return metadata


def text_of(cell: Cell, exercise: str) -> str:
    """The text of a cell: its own, or the one of `texts` that its mark names.

    exercise: its name, such as "02_all_reduce". Raises AuthoringError when there is no such text, or the cell has one.
    """
    if "text" not in cell.metadata:
        return str(cell.source)
    name = cell.metadata["text"]
    if name not in TEXTS or cell.cell_type != "markdown" or cell.source.strip():
        raise AuthoringError(f"text={name!r} belongs to an empty markdown cell; texts are {', '.join(TEXTS)}")
    return TEXTS[name].replace("{exercise}", exercise)


def check_cell(cell: Cell, metadata: dict[str, Any] | None) -> None:
    """Raises AuthoringError when what stands in a cell does not fit its mark.

    cell: the notebook cell; metadata: what `nbgrader_metadata` returned for it.
    """
    solution_regions = _count_regions(cell.source, SOLUTION_MARKERS)
    hidden_regions = _count_regions(cell.source, HIDDEN_MARKERS)
    if FOLDED in cell.metadata.get("tags", ()) and not (cell.cell_type == "code" and cell.source.startswith("# ")):
        raise AuthoringError(
            "a folded cell is a code cell whose first line is a comment: folded, it shows only that line"
        )
    is_solution = metadata is not None and metadata["solution"]
    is_test = metadata is not None and metadata["grade"] and not is_solution
    if solution_regions and not is_solution:
        raise AuthoringError("'### BEGIN SOLUTION' stands outside a solution cell: mark the cell solution=\"name\"")
    if hidden_regions and not is_test:
        raise AuthoringError("'### BEGIN HIDDEN TESTS' stands outside a test cell: mark the cell test=\"name_hidden\"")
    if is_solution and cell.cell_type == "code":
        _check_solution(cell.source, metadata["grade_id"], solution_regions)  # type: ignore[index]
    if is_test and metadata["grade_id"].endswith("_hidden") and not hidden_regions:  # type: ignore[index]
        raise AuthoringError("a hidden test has no '### BEGIN HIDDEN TESTS' … '### END HIDDEN TESTS' around it")


def check_assignment(metadata: Sequence[dict[str, Any]]) -> None:
    """Raises AuthoringError when the graded cells of one notebook do not fit together.

    metadata: nbgrader's metadata of its marked cells, in order. Every solution needs `<name>_visible` and
    `<name>_hidden`, and the hidden test gives at least half of the two's points.
    """
    points = {entry["grade_id"]: entry.get("points") for entry in metadata}
    _check_unique(entry["grade_id"] for entry in metadata)
    for entry in metadata:
        if not entry["solution"] or entry["grade"]:
            continue
        name = entry["grade_id"]
        visible, hidden = points.get(f"{name}_visible"), points.get(f"{name}_hidden")
        if visible is None or hidden is None:
            raise AuthoringError(f'solution="{name}" needs two tests: test="{name}_visible" and test="{name}_hidden"')
        if hidden < visible:
            raise AuthoringError(
                f"{name}: the hidden test gives {hidden} of {visible + hidden} points; it must give at least half"
            )


def _kind_of(cell: Cell) -> str | None:
    unknown = [key for key in cell.metadata if key not in KNOWN_KEYS + IGNORED_KEYS]
    if unknown:
        raise AuthoringError(f"unknown cell key '{unknown[0]}'; an author may write: {', '.join(KNOWN_KEYS)}")
    kinds = [kind for kind in KINDS if kind in cell.metadata]
    if len(kinds) > 1:
        raise AuthoringError(f"a cell is marked both {kinds[0]} and {kinds[1]}: split it into two cells")
    if not kinds:
        return None
    wanted = {"solution": "code", "test": "code", "answer": "markdown"}.get(kinds[0], cell.cell_type)
    if cell.cell_type != wanted:
        raise AuthoringError(f"a cell marked {kinds[0]} must be a {wanted} cell; this is a {cell.cell_type} cell")
    return kinds[0]


def _checked_grade_id(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value):
        raise AuthoringError(f"a cell's name is 1 to 64 letters, digits, '_' or '-' in double quotes; got {value!r}")
    return value


def _checked_points(value: object, kind: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise AuthoringError(f"a {kind} cell needs points=NUMBER (0 or more); got {value!r}")
    return value


def _check_unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise AuthoringError(f"two cells are named {name!r}: names are unique in a notebook")
        seen.add(name)


def _check_solution(source: str, name: str, regions: int) -> None:
    if regions == 0:
        raise AuthoringError(f"the solution cell {name!r} has no '### BEGIN SOLUTION' … '### END SOLUTION'")
    _check_start(source, name, regions)
    defined = {
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    if name not in defined:
        raise AuthoringError(
            f"the solution cell {name!r} must define {name}; it defines {sorted(defined) or 'nothing'}"
        )


def _check_start(source: str, name: str, regions: int) -> None:
    """What students start with stands as comments at the end of each solution of the cell, or of none."""
    lines = [line.strip() for line in source.splitlines()]
    marks = [line for line in lines if line in (*SOLUTION_MARKERS, START_MARKER)]
    if START_MARKER not in marks:
        return
    if marks != [SOLUTION_MARKERS[0], START_MARKER, SOLUTION_MARKERS[1]] * regions:
        raise AuthoringError(f"the solution cell {name!r} needs '{START_MARKER}' once in each solution, or in none")
    for start in "\n".join(lines).split(START_MARKER)[1:]:
        if any(line and not line.startswith("#") for line in start.split(SOLUTION_MARKERS[1])[0].splitlines()):
            raise AuthoringError(f"the solution cell {name!r}: below '{START_MARKER}' stand comments, and nothing else")
    ast.parse(starting_text(source))


def _count_regions(source: str, markers: tuple[str, str]) -> int:
    """The number of BEGIN … END regions in a cell; raises AuthoringError when the markers do not alternate."""
    begin, end = markers
    found = [line.strip() for line in source.splitlines() if begin in line or end in line]
    if found != [begin, end] * (len(found) // 2):
        raise AuthoringError(f"'{begin}' and '{end}' must alternate, each on a line of its own; found {found}")
    return len(found) // 2

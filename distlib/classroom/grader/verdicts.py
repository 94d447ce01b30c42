"""Verdicts that stay: what the verdict of a test cell comes from, as a hash. If that is the same, nothing runs again.

    goes in                                                        does not
    ───────────────────────────────────────────────────────────    ──────────────────────────────────────────────
    code of the test cell; of test cells above that make a name    other test cells
        which it reads
    code of the locked cells                                       comments and line breaks in all of these; texts
    the student's code, letter for letter, and its place           demonstrations: they do not run
    the parts of this package that judge                           other exercises' checks, pages, commands
    the seed of the inputs, the time that is granted, Python       points: they change the mark, not the verdict

The hash stands in the metadata of each test cell in autograded/, next to the verdict. That the time for the whole
notebook was over comes from the other cells, too, so it never stays.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from distlib.classroom.grader.transplant import FROM_STUDENT

_PACKAGE = Path(__file__).parents[2]
_NO_JUDGES = ("authoring", "cli", "draw", "classroom")
_READERS = ("definitions", "examine", "source", "submission", "transplant", "verdicts")  # of classroom/grader
_EXERCISES = "exercises"
_EXERCISE = re.compile(r"\bexercises(?:\.| import )(\w+)")
_OUT_OF_TIME = "Timeout"  # the judge's name for the end of a submission's time
_KEY = "distlib_verdicts"


def verdict_hashes(notebook: NotebookNode, code: Mapping[str, str], more: Sequence[str]) -> dict[str, str]:
    """By test cell, what its verdict comes from.

    Args:
        notebook: the one that runs, see `transplant`.
        code: as `judging_code` returns it.
        more: what else goes in, such as the seed.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shared = [*more, *(f"{number} {cell.source}" for number, cell in enumerate(cells, 1) if _is_students(cell))]
    locked = [cell.source for cell in cells if _is_locked(cell)]
    hashes = {}
    for number, cell in enumerate(cells, 1):
        if is_test(cell):
            needed = needed_tests(notebook, [_name(cell)])
            run = [*locked, *(each.source for each in cells if is_test(each) and _name(each) in needed)]
            judges = _judges_of("\n".join(run), code)
            hashes[_name(cell)] = hash_of([str(number), *map(_code_of, run), "", *shared, "", *judges])
    return hashes


def needed_tests(notebook: NotebookNode, names: Collection[str]) -> set[str]:
    """These test cells, and those above them that make a name which one of them reads."""
    needed, wanted = set(names), set[str]()
    for cell in reversed(notebook.cells):
        if cell.cell_type == "code" and is_test(cell):
            made, read = _names_of(cell.source)
            if _name(cell) in needed or made & wanted:
                needed.add(_name(cell))
                wanted = (wanted - made) | (read - made)
    return needed


class Verdicts:
    """The verdicts of an earlier grading, from a student's notebook in autograded/.

    Args:
        path: of the notebook; None if nothing of it may stay.

    Attributes:
        remarks: of the judge.
    """

    def __init__(self, path: Path | None) -> None:
        self._notebook = nbformat.read(path, as_version=4) if path else nbformat.v4.new_notebook()
        found = self._notebook.metadata.get(_KEY, {})
        self._hashes: dict[str, str] = found.get("hashes", {})
        self.remarks: list[str] = found.get("remarks", [])

    def that_stay(self, hashes: Mapping[str, str]) -> set[str]:
        """The test cells whose verdict comes from the same as before."""
        there = {_name(cell): cell for cell in self._notebook.cells if cell.cell_type == "code" and is_test(cell)}
        same = {name for name, value in hashes.items() if name in there and self._hashes.get(name) == value}
        return {name for name in same if not any(o.get("ename") == _OUT_OF_TIME for o in there[name].outputs)}

    def put_back(self, notebook: NotebookNode, names: Collection[str]) -> None:
        """Give a notebook the verdicts of these test cells, and what the student's cells had shown."""
        before = {_name(cell): cell for cell in self._notebook.cells if cell.cell_type == "code" and is_test(cell)}
        for cell in notebook.cells:
            if cell.cell_type == "code" and is_test(cell) and _name(cell) in names:
                cell.outputs, cell.execution_count = before[_name(cell)].outputs, before[_name(cell)].execution_count
        if names:  # then these cells are the same
            for cell, shown in zip(_students(notebook), _students(self._notebook), strict=True):
                cell.outputs, cell.execution_count = shown.outputs, shown.execution_count


def note_verdicts(notebook: NotebookNode, hashes: Mapping[str, str], remarks: Sequence[str]) -> None:
    """Keep in a judged notebook what its verdicts come from, and the judge's remarks."""
    notebook.metadata[_KEY] = {"hashes": dict(hashes), "remarks": list(remarks)}


def is_test(cell: NotebookNode) -> bool:
    """Whether a code cell is a test."""
    return bool(_mark(cell).get("grade")) and not _mark(cell).get("solution")


def _texts_in(folder: Path) -> dict[Path, str]:
    """Code, and the sentences next to it, by the files below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".txt"))
    return {path: path.read_text(encoding="utf-8") for path in paths}


@cache
def judging_code() -> dict[str, str]:
    """The parts of this package that judge: the text of each exercise's folder, and a hash of all else, under ""."""
    folders = sorted(path.parent for path in (_PACKAGE / _EXERCISES).glob("*/__init__.py"))
    exercises = {folder.name: "\n".join(_texts_in(folder).values()) for folder in folders}
    judging = [text for path, text in _texts_in(_PACKAGE).items() if _judges(path.relative_to(_PACKAGE))]
    return {**exercises, "": hash_of(judging)}


def hash_of(parts: Sequence[str]) -> str:
    """One hash of some texts, in their order."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def _judges(path: Path) -> bool:
    if path.is_relative_to("classroom/grader"):
        return path.stem in _READERS
    return path.parts[0] not in _NO_JUDGES and not path.is_relative_to(_EXERCISES)


def _judges_of(text: str, code: Mapping[str, str]) -> Iterator[str]:
    """What judges cells with this text: the checks that it names, those that they name, and what judges everybody."""
    found: set[str] = set()
    waiting = set(_EXERCISE.findall(text))
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(_EXERCISE.findall(code.get(name, ""))) - found
    return (f"{name}: {code.get(name, '')}" for name in sorted({*found, ""}))


@cache
def _code_of(source: str) -> str:
    """A cell without what makes no difference to how it runs; as it stands, if it is no plain Python."""
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError):
        return source


@cache
def _names_of(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell makes, and those that it reads."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return set(), set(re.findall(r"[^\W\d]\w*", source))
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    made |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    made |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return made, {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _students(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code" and _is_students(cell)]


def _is_students(cell: NotebookNode) -> bool:
    """Whether a code cell holds what runs on the ranks and is not the instructor's."""
    return bool(_mark(cell).get("solution")) or cell.metadata.get("distlib", {}) == FROM_STUDENT


def _is_locked(cell: NotebookNode) -> bool:
    return bool(_mark(cell).get("locked")) and not _mark(cell).get("grade") and not _mark(cell).get("solution")


def _name(cell: NotebookNode) -> str:
    return str(_mark(cell)["grade_id"])


def _mark(cell: NotebookNode) -> Any:
    return cell.metadata.get("nbgrader", {})

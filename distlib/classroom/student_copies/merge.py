"""A new version of a notebook, with what a student has written in the old one. Nothing that they wrote is left out.

    original   what the student's copy was made from
    mine       the student's copy
    new        the course's new version

Cells are never compared line by line. Each cell of the copy is one of these:

    an answer             found by its grade_id: the student's text goes into the new version's cell
    a test, a locked cell the new version's
    as in the original    the new version's
    changed               takes the place of the new version's cell if the course has not changed that cell;
                          else it stands below it
    the student's own     stands below the same cell as before
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest

from distlib.classroom.student_copies.notebook_json import (
    Cell,
    Notebook,
    content_of,
    is_answer,
    name_of,
    text_of,
    without_outputs,
)

STUBS = ("raise NotImplementedError", "YOUR ANSWER HERE")  # an answer with one of these in it may be no answer


def merge(original: Notebook | None, mine: Notebook, new: Notebook) -> Notebook:
    """The new version with the student's work in it, without outputs.

    Args:
        original: None if nobody knows what the copy was made from. Then a cell that is not in the new version counts
            as the student's own.
        mine, new: see above. None of the three is changed.
    """
    begin = original["cells"] if original else new["cells"]
    partner = _partners(begin, mine["cells"], by_id=original is not None)
    counterparts = _counterparts(begin, new["cells"])
    answers = _answers([*begin, *new["cells"]], mine["cells"])

    result = [_answered(without_outputs(cell), answers) for cell in new["cells"]]
    taken = {id(answers[name_of(cell)]) for cell in new["cells"] if is_answer(cell) and name_of(cell) in answers}
    above: list[list[Cell]] = [[] for _ in range(len(result) + 1)]  # [i]: what comes before the new version's cell i
    at = 0
    for number, cell in enumerate(mine["cells"]):
        where, same = counterparts.get(partner.get(number, -1), (at - 1, False))
        at = where + 1
        if id(cell) in taken or not _is_students(cell, begin[partner[number]] if number in partner else None, answers):
            continue
        if same:
            result[where] = _with_text(result[where], cell)
        else:
            above[at].append(_own(cell))
    metadata = {**new["metadata"], **{key: mine["metadata"][key] for key in _KERNEL if key in mine["metadata"]}}
    return {**new, "cells": _with_unique_ids(_interleaved(above, result)), "metadata": metadata}


_KERNEL = ("kernelspec", "language_info")  # a student may have chosen another one


def is_untouched(original: Notebook, mine: Notebook) -> bool:
    """Whether the copy says what its original says. Outputs don't count."""
    return [*map(content_of, original["cells"])] == [*map(content_of, mine["cells"])]


# ── which cell is which ──────────────────────────────────────────────────────────────────────────────────────────────


def _partners(begin: list[Cell], mine: list[Cell], *, by_id: bool) -> dict[int, int]:
    """For cells of the copy, by number: the cell of the original that each was. By name, by id, by what it says."""
    found: dict[int, int] = {}
    kinds = [name_of, content_of]
    if by_id:
        kinds.insert(1, lambda cell: "" if name_of(cell) else cell.get("id", ""))
    for key in kinds:
        free: dict[object, list[int]] = {}
        for number, cell in enumerate(begin):
            if key(cell) and number not in found.values():
                free.setdefault(key(cell), []).append(number)
        for number, cell in enumerate(mine):
            if number not in found and free.get(key(cell)):
                found[number] = free[key(cell)].pop(0)
    return found


def _counterparts(begin: list[Cell], new: list[Cell]) -> dict[int, tuple[int, bool]]:
    """For cells of the original, by number: where they are in the new version, and whether they are the same there.

    A cell with a name is never the same: it is not by its place that a student's answer gets into the new version.
    """
    names = {name_of(cell): number for number, cell in enumerate(new) if name_of(cell)}
    found: dict[int, tuple[int, bool]] = {}
    before, after = ([(name_of(cell), content_of(cell)) for cell in cells] for cells in (begin, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, from_, to, new_from, new_to in matcher.get_opcodes():
        for number in range(from_, to):
            same = kind == "equal" and not name_of(begin[number])
            found[number] = (min(new_from + number - from_, new_to - 1), same)
    for number, cell in enumerate(begin):
        if name_of(cell) in names:
            found[number] = (names[name_of(cell)], False)
    return found


def _answers(course: list[Cell], mine: list[Cell]) -> dict[str, Cell]:
    """The student's answers, by name: the first cell of each name that is more than a stub of the course."""
    stubs = {(name_of(cell), content_of(cell)) for cell in course if any(stub in text_of(cell) for stub in STUBS)}
    found: dict[str, Cell] = {}
    for cell in mine:
        is_stub = not text_of(cell).strip() or (name_of(cell), content_of(cell)) in stubs
        if is_answer(cell) and not is_stub and not _is_as_released(cell):
            found.setdefault(name_of(cell), cell)
    return found


def _is_as_released(cell: Cell) -> bool:
    """Whether a cell is a program to mend that nobody has touched, by nbgrader's checksum."""
    from distlib.classroom.grader.submission import HandedCell  # takes a moment, and most notebooks are up to date

    return HandedCell(str(cell.get("cell_type")), text_of(cell), metadata=cell.get("metadata", {})).is_as_released


def _is_students(cell: Cell, before: Cell | None, answers: dict[str, Cell]) -> bool:
    """Whether a cell holds something of the student's. before: the cell of the original that it was, if any."""
    if not text_of(cell).strip():
        return False
    if before is None or is_answer(cell):
        return before is None or answers.get(name_of(cell)) is cell
    return not name_of(before) and content_of(cell) != content_of(before)


# ── the cells of the result ──────────────────────────────────────────────────────────────────────────────────────────


def _answered(cell: Cell, answers: dict[str, Cell]) -> Cell:
    return _with_text(cell, answers[name_of(cell)]) if is_answer(cell) and name_of(cell) in answers else cell


def _with_text(cell: Cell, source: Cell) -> Cell:
    """A cell with the text, and the pasted pictures, of another one."""
    pictures = {key: source[key] for key in ("attachments",) if key in source}
    return {**cell, "source": source.get("source", ""), **pictures}


def _own(cell: Cell) -> Cell:
    """A cell of the student's, which nbgrader does not know."""
    metadata = {key: value for key, value in cell.get("metadata", {}).items() if key not in ("nbgrader", *_LOCKS)}
    return {**without_outputs(cell), "metadata": metadata}


_LOCKS = ("deletable", "editable")


def _interleaved(above: list[list[Cell]], result: list[Cell]) -> Iterator[Cell]:
    for own, cell in zip_longest(above, result):
        yield from own
        if cell is not None:
            yield cell


def _with_unique_ids(cells: Iterable[Cell]) -> list[Cell]:
    """The cells; of two with the same id, the later one (the student's) gets a new one."""
    seen: set[str] = set()
    result = []
    for cell in cells:
        name = str(cell.get("id", "own"))
        while name in seen:
            name += "-own"
        seen.add(name)
        result.append({**cell, "id": name})
    return result

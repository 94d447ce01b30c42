"""The notebook that runs: the instructor's, with the student's answers in it.

    instructor's cell          what stands there
    ─────────────────────────  ─────────────────────────────────────────────────────────────────────────────────
    solution cell              the text of the student's solution cell, and pictures pasted into it
    test cell, locked cell     the instructor's
    demonstration, text        the instructor's; if the student has edited a demonstration, the student's
    (between them)             the student's own code cells, in their order, between the same neighbors

A cell is recognized by nbgrader's name of it, else by its id, else by its text; a solution cell by the function that
it defines, and of several the one that counts (see `definitions`). So missing, edited, moved, copied, re-tagged,
renamed or stripped cells make no difference to what runs. What was changed that is not the student's to change becomes
a remark; what the instructor has changed since the release does not.

A code cell of the student's own has the metadata {"distlib": {"from": "student"}}, a solution cell about which the
student should know something {"distlib": {"note": "…"}}.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode, from_dict

from distlib.classroom.grader.definitions import Definitions, find_definitions, is_written, tests_of
from distlib.classroom.grader.pictures import KINDS, MOST_BYTES, set_pictures
from distlib.classroom.grader.submission import HandedCell
from distlib.printable import printable

if TYPE_CHECKING:
    from distlib.classroom.grader.source import Source

FROM_STUDENT = {"from": "student"}
NOTE = "note"
_MARKS = ("grade", "solution", "locked", "points", "task", "schema_version")
_IN_CHECKSUM = ("grade", "solution", "locked", "points")


@dataclass(frozen=True)
class Transplanted:
    """The notebook that runs.

    Attributes:
        notebook: as it runs.
        remarks: what was tampered with, and what was found in an unusual place.
        older: the names of locked cells and tests whose text the instructor has changed since this student got them.
    """

    notebook: NotebookNode
    remarks: list[str]
    older: list[str]


def transplant(source: Source, handed: Sequence[HandedCell]) -> Transplanted:
    """Put the answers of a submission into the instructor's notebook.

    Args:
        source: the instructor's notebook; it is left as it is.
        handed: the cells of the submission.
    """
    match = _Match(source, handed)
    notebook = copy.deepcopy(source.notebook)
    remarks = match.remarks()
    for position, cell in enumerate(notebook.cells):
        if (text := match.text_of(position)) is not None:
            cell.source = text
            if not _mark(cell):
                cell.metadata["distlib"] = dict(FROM_STUDENT)
            if cell.cell_type == "markdown":
                remarks += _paste(cell, match.attachments_of(position))
        if note := match.note_of(position):
            cell.metadata["distlib"] = {NOTE: note}
    notebook.cells = list(_interleaved(notebook.cells, match.own_cells()))
    return Transplanted(notebook, remarks, match.older())


def _paste(cell: NotebookNode, attachments: Any) -> list[str]:
    """Give a text cell the student's pictures. Returns remarks."""
    left_out = set_pictures(cell, attachments)
    if not left_out:
        return []
    kinds = ", ".join(kind.removeprefix("image/") for kind in KINDS)
    names = ", ".join(printable(name[:40]) for name in left_out[:4])
    return [
        f"of what is pasted into {_name(cell)} only pictures are kept ({kinds}; {MOST_BYTES >> 20} MiB), not: {names}"
    ]


def _interleaved(cells: Sequence[NotebookNode], own: Mapping[int, Sequence[HandedCell]]) -> list[NotebookNode]:
    """The instructor's cells, each followed by the student's own; those at -1 come first."""
    mixed, number = [], 0
    for position in range(-1, len(cells)):
        mixed += [cells[position]] if position >= 0 else []
        for cell in own.get(position, ()):
            number += 1
            mixed.append(_own_cell(cell.source, number))
    return mixed


def _own_cell(source: str, number: int) -> NotebookNode:
    """nbformat's `new_code_cell` validates each, which takes seconds for hundreds."""
    own: dict[str, Any] = {"cell_type": "code", "execution_count": None, "outputs": [], "source": source}
    own |= {"id": f"from-student-{number}", "metadata": {"distlib": dict(FROM_STUDENT)}}
    cell: NotebookNode = from_dict(own)
    return cell


class _Match:
    """Which cell of the submission is which of the instructor's.

    Args:
        source, handed: as in `transplant`.
    """

    def __init__(self, source: Source, handed: Sequence[HandedCell]) -> None:
        self._cells, self._released, self._handed = source.notebook.cells, source.released, handed
        self._names = [_name(cell) for cell in self._cells]
        self._claims = self._find_claims()
        self._chosen: dict[int, int] = {}  # from a position in the instructor's notebook to the cell of the submission
        self._elsewhere: dict[int, str] = {}  # solutions that stand in the cell of another one
        self._definitions: dict[int, Definitions] = {}  # of the functions, by the position of their solution cells
        self._choose()

    def text_of(self, position: int) -> str | None:
        """The student's text for a cell of the instructor's, None where the instructor's stays."""
        if position in self._elsewhere:
            return f"# {self._names[position]} stands in the cell of {self._elsewhere[position]}."
        if position not in self._chosen or not self._is_students(position):
            return None
        text = self._handed[self._chosen[position]].source
        return None if _same(text, self._released[position]) else text

    def attachments_of(self, position: int) -> Any:
        """What the student has pasted into a cell, as found."""
        return self._handed[self._chosen[position]].attachments if position in self._chosen else None

    def note_of(self, position: int) -> str:
        """What a student should know about the choice of a cell; "" without a choice."""
        return self._definitions[position].remark if position in self._definitions else ""

    def own_cells(self) -> dict[int, list[HandedCell]]:
        """The student's own code cells, by the position that they come after; -1 is the beginning.

        Other definitions of a function come before the one that counts, or after the function's tests.
        """
        taken = {index: position for position, index in self._chosen.items()}
        anchors = self._in_order()
        own: dict[int, list[HandedCell]] = defaultdict(list)
        after = -1
        for index, cell in enumerate(self._handed):
            if index in anchors:
                after = taken[index]
            elif index not in taken and self._is_own(index):
                where = after
                for position in self._losing_for(index):
                    where = max(where, self._last_test(position)) if where >= position else where
                own[where].append(cell)
        return own

    def older(self) -> list[str]:
        """The locked cells and tests that the instructor has changed since the student got them."""
        locked = [position for position in self._chosen if self._names[position] and not self._is_solution(position)]
        return [self._names[position] for position in sorted(locked) if self._is_older(position)]

    def remarks(self) -> list[str]:
        """What was changed that is not the student's to change; what was found in an unusual place."""
        named = [position for position, name in enumerate(self._names) if name]
        locked = [position for position in named if not self._is_solution(position)]
        solutions = [position for position in named if self._is_solution(position)]
        in_order = self._in_order()
        found = {
            "missing, put back": [p for p in locked if p not in self._chosen],
            "edited, the instructor's text was used": [
                p for p in locked if p in self._chosen and self._is_edited(p) and not self._is_older(p)
            ],
            "made text, though they are code; graded as code": [
                p for p in named if p in self._chosen and self._is_made_text(p)
            ],
            "missing, graded as empty": [p for p in solutions if p not in self._chosen and p not in self._elsewhere],
            "not in a cell of its own, taken from another one": list(self._elsewhere),
            "there more than once, the last one that is not empty was taken": [
                p for p in solutions if not self._is_code(p) and len(self._claiming(p)) > 1
            ],
            "without the name that nbgrader gave it, recognized by its text": [
                p
                for p in named
                if p in self._chosen
                and self._handed[self._chosen[p]].grade_id != self._names[p]
                and not self.note_of(p)
            ],
            "with other marks than released": [p for p in named if p in self._chosen and self._is_retagged(p)],
            "moved, put back in their place": [
                p for p in named if self._chosen.get(p, -1) not in {*in_order, -1} and not self.note_of(p)
            ],
        }
        notes = [self.note_of(position) for position in solutions if self.note_of(position)]
        return notes + [f"{what}: {self._listed(positions)}" for what, positions in found.items() if positions]

    # ── recognizing ──────────────────────────────────────────────────────────────────────────────────────────────

    def _find_claims(self) -> list[int | None]:
        """For each cell of the submission the position in the instructor's notebook that it seems to stand for."""
        by_name = {name: position for position, name in enumerate(self._names) if name}
        by_id = {
            (cell.cell_type, cell.get("id")): position for position, cell in enumerate(self._cells) if cell.get("id")
        }
        claims = [by_name.get(cell.grade_id) for cell in self._handed]
        claims = [
            by_id.get((cell.kind, cell.cell_id)) if claim is None else claim
            for cell, claim in zip(self._handed, claims, strict=True)
        ]
        unclaimed = [position for position in range(len(self._cells)) if position not in claims]
        by_text = {
            (self._cells[position].cell_type, _normal(self._released[position])): position
            for position in unclaimed[::-1]
        }
        return [
            by_text.pop((cell.kind, _normal(cell.source)), None) if claim is None else claim
            for cell, claim in zip(self._handed, claims, strict=True)
        ]

    def _choose(self) -> None:
        """One cell of the submission for each position, where there is one."""
        solutions = [position for position in range(len(self._cells)) if self._is_solution(position)]
        for position in solutions:
            if self._is_code(position):
                self._take_definition(position)
            else:
                self._take_best(position, self._claiming(position))
        losing = {index for each in self._definitions.values() for index in each.others}
        for position in range(len(self._cells)):
            if position not in solutions:
                self._take_best(position, [index for index in self._claiming(position) if index not in losing])
        for position in solutions:
            if position not in self._chosen and position not in self._elsewhere:
                self._take_best(position, self._claiming(position))

    def _take_definition(self, position: int) -> None:
        """Take the cell with the definition that counts. It may be that of another function, too."""
        name, every = self._names[position], range(len(self._handed))
        usual = [index for index in every if self._may_define(index)]
        found = find_definitions(self._handed, name, self._first_test(position), usual)
        found = found or find_definitions(self._handed, name, None, [i for i in every if not self._is_released(i)])
        if found is None:
            return
        self._definitions[position] = found
        other = next((at for at, index in self._chosen.items() if index == found.counts), None)
        if other is None:
            self._chosen[position] = found.counts
        else:
            self._elsewhere[position] = self._names[other]

    def _first_test(self, position: int) -> int | None:
        """The index of the first cell of the submission that stands for a test of a function."""
        tests = tests_of(self._names[position])
        names = (None if claim is None else self._names[claim] for claim in self._claims)
        return next((index for index, name in enumerate(names) if name in tests), None)

    def _last_test(self, position: int) -> int:
        """The position of a function's last test."""
        tests = tests_of(self._names[position])
        return max((at for at, name in enumerate(self._names) if name in tests), default=position)

    def _losing_for(self, index: int) -> list[int]:
        """The positions of the functions that a cell defines without being the one that counts."""
        return [position for position, each in self._definitions.items() if index in each.others]

    def _claiming(self, position: int) -> list[int]:
        """The cells of the submission that seem to stand for a position."""
        return [index for index, claim in enumerate(self._claims) if claim == position]

    def _take_best(self, position: int, candidates: Sequence[int]) -> None:
        """Take the last cell that is not as released, else the last one; of a locked cell the first unchanged one."""
        candidates = [index for index in candidates if index not in self._chosen.values()]
        if not candidates or position in self._chosen:
            return
        changed = [index for index in candidates if not _same(self._handed[index].source, self._released[position])]
        unchanged = [index for index in candidates if index not in changed]
        wanted = changed if self._is_students(position) else unchanged[:1]
        self._chosen[position] = (wanted or candidates)[-1]

    # ── what is what ─────────────────────────────────────────────────────────────────────────────────────────────

    def _is_solution(self, position: int) -> bool:
        return bool(_mark(self._cells[position]).get("solution"))

    def _is_code(self, position: int) -> bool:
        return bool(self._cells[position].cell_type == "code")

    def _is_students(self, position: int) -> bool:
        """Whether the text of this cell is the student's: solutions, and code that is not locked."""
        return self._is_solution(position) or (not self._names[position] and self._is_code(position))

    def _is_released(self, index: int) -> bool:
        """Whether a cell is as one was released: in its place, or a copy of it."""
        claim = self._claims[index]
        return claim is not None and _same(self._handed[index].source, self._released[claim])

    def _may_define(self, index: int) -> bool:
        """Whether an answer may stand in a cell: one of the student's, or a solution cell, written or not."""
        claim = self._claims[index]
        return claim is None or self._is_solution(claim) or (self._is_students(claim) and not self._is_released(index))

    def _is_own(self, index: int) -> bool:
        """Whether a cell that stands for none of the instructor's is code to run."""
        cell = self._handed[index]
        is_code = cell.kind == "code" and bool(cell.source.strip()) and not self._is_released(index)
        return is_code and (is_written(cell) or not self._losing_for(index))

    def _is_edited(self, position: int) -> bool:
        return not _same(self._handed[self._chosen[position]].source, self._released[position])

    def _is_older(self, position: int) -> bool:
        """Whether a cell is as this student got it, and the instructor's differs: it has changed since."""
        cell = self._handed[self._chosen[position]]
        differs = self._is_edited(position) or cell.mark.get("points") != _mark(self._cells[position]).get("points")
        return differs and cell.is_as_released

    def _is_retagged(self, position: int) -> bool:
        """Whether nbgrader's marks or the tags were changed, or the type of the cell; lost marks are another remark.

        The checksum that nbgrader wrote into a cell holds what it was released with, points included. Of a cell with
        another text it tells nothing: who has changed the points, student or instructor?
        """
        ours, theirs = self._cells[position], self._handed[self._chosen[position]]
        if not theirs.mark:
            return False
        released = _IN_CHECKSUM if theirs.is_as_released else ("points",) if self._is_edited(position) else ()
        keys = [key for key in _MARKS if key not in released]
        marks = any((_mark(ours).get(key) or None) != (theirs.mark.get(key) or None) for key in keys)
        is_other_kind = ours.cell_type != theirs.kind and not self._is_made_text(position)
        return marks or ours.metadata.get("tags", []) != theirs.metadata.get("tags", []) or is_other_kind

    def _is_made_text(self, position: int) -> bool:
        """Whether a code cell of the instructor's is Markdown or raw text in the submission."""
        return self._is_code(position) and self._handed[self._chosen[position]].kind != "code"

    def _in_order(self) -> set[int]:
        """The chosen cells of the submission that stand in the instructor's order: as many as possible."""
        taken = sorted((index, position) for position, index in self._chosen.items())
        longest = _longest_increasing([position for _, position in taken])
        return {taken[each][0] for each in longest}

    def _listed(self, positions: Sequence[int]) -> str:
        names = [self._names[position] for position in positions]
        return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _longest_increasing(values: Sequence[int]) -> list[int]:
    """The positions of a longest increasing subsequence."""
    ends: list[int] = []  # position of the smallest last value, by length
    before = [-1] * len(values)
    for position, value in enumerate(values):
        length = bisect_left(ends, value, key=values.__getitem__)
        before[position] = ends[length - 1] if length else -1
        ends[length : length + 1] = [position]
    chain, position = [], ends[-1] if ends else -1
    while position >= 0:
        chain.append(position)
        position = before[position]
    return chain[::-1]


def _mark(cell: NotebookNode) -> Any:
    return cell.metadata.get("nbgrader", {})


def _name(cell: NotebookNode) -> str:
    return str(_mark(cell).get("grade_id", ""))


def _normal(text: str) -> str:
    """A cell's text without what editors change: white space at the ends of lines and of the cell."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _same(text: str, other: str) -> bool:
    return _normal(text) == _normal(other)

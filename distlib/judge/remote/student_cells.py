"""The student's cells as the judge sees them: what runs on the ranks, what is left out, what came of it.

    rank 0, alone and first    ── statement after statement ──►  too slow? ended its process?  ──►  left out from now on
    all other ranks together   ── the same without those ─────►  …

Cells belong to the student: prints, plots, experiments that are slow, fail, or end the process. None of it may cost a
mark. So only one statement is left out, never its cell, and the time that cells take is no time of the checks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.judge.remote.question import text, whole
from distlib.judge.sandbox.limits import CUT

Statement = tuple[int, int]  # a cell's number, and that of a statement in it, from 0; -1 is the cell as a whole
Part = list[tuple[int, str, list[int]]]  # cells as they are sent: number, source, statements that are left out
START: Statement = (0, 0)
_MOST_BYTES = 1 << 21  # of cells in one frame, as JSON
_MOST_BYTES_OF_A_CELL = 1 << 19  # likewise; Python may take a gigabyte to read four times as much
_LONGEST_ERROR = 2_000
_MOST_LINES = 10_000_000  # more than there are anywhere


@dataclass(frozen=True)
class RankCell:
    """A code cell that runs on the ranks.

    Attributes:
        number: counting all code cells of the notebook from 1, as a student sees them.
        source: plain Python, without magics.
    """

    number: int
    source: str


class Printed:
    """What was printed, as far as it is kept.

    Args:
        most: how many characters.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[str] = []
        self._room = most

    def note(self, piece: object) -> None:
        """Keep a piece, if there is room for it. What is no text is dropped."""
        if self._room < 0 or not isinstance(piece, str):
            return
        self._pieces += [piece[: self._room]] if piece and self._room else []
        self._room -= len(piece)
        if self._room < 0:
            self._pieces.append(CUT)

    def take(self) -> str:
        """All that was kept since this was last asked."""
        text = "".join(self._pieces)
        self._pieces, self._room = [], self._most
        return text


class StudentCells:
    """What runs on every rank.

    Args:
        cells: in their order.
        most_printed: characters that are kept of what a cell prints.

    Attributes:
        errors: by cell number, what the cell raised and what of it was left out: pairs of a kind and a text.
        printed: by cell number, what it printed.
        remarks: what an instructor should know.
    """

    def __init__(self, cells: Sequence[RankCell], most_printed: int) -> None:
        self.errors: dict[int, list[tuple[str, str]]] = defaultdict(list)
        self.printed: dict[int, Printed] = defaultdict(lambda: Printed(most_printed))
        self.remarks: list[str] = []
        self._cells = list(cells)
        self._left_out: dict[int, list[int]] = defaultdict(list)

    def parts(self, start: int, end: int) -> list[Part]:
        """The cells from number `start` to before number `end`, in pieces that fit into frames."""
        parts: list[Part] = []
        room = 0
        for cell in self._cells:
            if start <= cell.number < end:
                source = self._source_of(cell)
                room -= _size(source)
                if not parts or room < 0:
                    parts.append([])
                    room = _MOST_BYTES - _size(source)
                parts[-1].append((cell.number, source, self._left_out[cell.number]))
        return parts or [[]]

    def next_statement(self, told: dict[str, Any], before: Statement | None, part: Part) -> tuple[Statement, int]:
        """The statement that a rank says to have reached, and its line; one of `part`, and after the one before.

        Raises:
            ValueError: it makes no sense.
        """
        sources = {number: source for number, source, left_out in part if -1 not in left_out}
        source = sources.get(whole(told["cell"], 0, _MOST_LINES), "")
        statement = told["cell"], whole(told["number"], -1, len(source))
        is_later = (before is None or statement > before) and statement[1] not in self._left_out[statement[0]]
        if statement[0] not in sources or not is_later:
            raise ValueError(f"expected a statement after {before}, got {statement}")
        return statement, whole(told["line"], 1, _MOST_LINES)

    def note_error(self, number: int, kind: object, words: object) -> None:
        """Keep the first error of a cell. Raises ValueError for what is no text."""
        if not self.errors[number]:
            self.errors[number].append((text(kind, 100), text(words, _LONGEST_ERROR)))

    def leave_out(self, statement: Statement, line: int, how: str) -> None:
        """From now on, leave out a statement. `how`: what it did, as in "ended its process"."""
        cell, number = statement
        self._left_out[cell].append(number)
        what = f"line {line}" if number >= 0 else "its text"
        self.errors[cell].append(("LeftOut", f"{what} {how}. It was left out; all else was run and graded."))
        self.remarks.append(f"cell {cell}: {what} {how}; the rest was graded without it")

    def outputs(self) -> Iterator[tuple[int, str, list[tuple[str, str]]]]:
        """For each cell that has something to show: its number, what it printed, and its errors."""
        for number in sorted({*self.errors, *self.printed}):
            yield number, self.printed[number].take(), self.errors[number]

    def _source_of(self, cell: RankCell) -> str:
        if _size(cell.source) <= _MOST_BYTES_OF_A_CELL:
            return cell.source
        if -1 not in self._left_out[cell.number]:
            self.leave_out((cell.number, -1), 1, f"has more than {_MOST_BYTES_OF_A_CELL >> 10} KiB")
        return ""


def _size(source: str) -> int:
    return len(json.dumps(source))

"""What a check returns when every case has passed: the cases, and the messages of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from distlib.grading.case import Case, count, dtype_name
from distlib.trace import Trace


@dataclass(frozen=True)
class Passed:
    """A case that has passed, and the messages that counted in it."""

    case: Case
    trace: Trace


class Report:
    """The cases that a function has passed. Print it for a table.

    A test cell asserts on its figures, so that a mark depends on messages that were seen, not only on the check having
    come to its end.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        self._passed: list[Passed] = []

    def add(self, case: Case, trace: Trace) -> None:
        """Note that `case` has passed with the messages of `trace`."""
        self._passed.append(Passed(case, trace))

    def __len__(self) -> int:
        return len(self._passed)

    def __iter__(self) -> Iterator[Passed]:
        return iter(self._passed)

    def trace(
        self, world_size: int, length: int, dtype: torch.dtype | None = None, columns: int | None = None
    ) -> Trace:
        """The messages of the first case with this many ranks and elements (and of this dtype, on a grid of this many
        columns, if that is given).

        Raises:
            KeyError: no such case was run.
        """
        for passed in self._passed:
            case = passed.case
            fits = dtype in (None, case.dtype) and columns in (None, case.columns)
            if (case.world_size, case.length) == (world_size, length) and fits:
                return passed.trace
        raise KeyError(f"no case with {world_size} ranks and {length} elements; there are {self._sizes()}")

    def summary(self) -> str:
        """ "4 cases, with 1 and 2 ranks"; empty if no case has passed."""
        sizes = [str(size) for size in sorted({passed.case.world_size for passed in self._passed})]
        if not sizes:
            return ""
        ranks = (
            "1 rank" if sizes == ["1"] else f"{' and '.join(filter(None, (', '.join(sizes[:-1]), sizes[-1])))} ranks"
        )
        return f"{count(len(self), 'case')}, with {ranks}"

    def __str__(self) -> str:
        heads = ("ranks", "elements", "dtype", "messages sent by each rank", "bytes sent by each rank", "rounds")
        rows = [heads, *map(_row, self._passed)]
        for name in ("columns", "root"):
            values = [getattr(passed.case, name) for passed in self._passed]
            if any(value is not None for value in values):
                rows = [(row[0], text, *row[1:]) for row, text in zip(rows, [name, *map(str, values)], strict=True)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([f"{self.function}: right in all {len(self)} cases.", *lines])

    def _sizes(self) -> list[tuple[int, int]]:
        return sorted({(passed.case.world_size, passed.case.length) for passed in self._passed})


def _row(passed: Passed) -> tuple[str, ...]:
    case, trace = passed.case, passed.trace
    sent = _together(trace.messages_sent), _together(trace.bytes_sent)
    return str(case.world_size), str(case.length), dtype_name(case.dtype), *sent, str(trace.rounds)


def _together(values: list[int]) -> str:
    """ "6" if all are the same, else "6, 6, 4"."""
    return f"{values[0]:,}" if len(set(values)) == 1 else ", ".join(f"{value:,}" for value in values)

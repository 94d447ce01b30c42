"""What a check returns when every case has passed: the cases, and what was seen of each.

A test cell asserts on it, so that a mark depends on messages and values that were seen, not only on the check having
come to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from distlib.checks.formatting import count
from distlib.checks.seen import Seen
from distlib.trace import Trace

Row = Mapping[str, str]  # a case as a row of a table: heading and text


class Report:
    """The cases that a function has passed. Print it for a list; index it for what was seen of one case.

    Args:
        function: the function's name.
        row: makes a case a row of a table. None: a case is a line with its title and what was sent.
    """

    def __init__(self, function: str, row: Callable[[Seen], Row] | None = None) -> None:
        self.function = function
        self._row = row
        self._passed: list[Seen] = []

    def add(self, seen: Seen) -> None:
        """Note that a case has passed."""
        self._passed.append(seen)

    def __len__(self) -> int:
        return len(self._passed)

    def __getitem__(self, number: int) -> Seen:
        return self._passed[number]

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._passed)

    @property
    def answers(self) -> list[Any]:
        """What rank 0 showed in each case: for a function that only computes, what it returned."""
        return [seen[0] for seen in self._passed]

    def trace(self, **facts: Any) -> Trace:
        """The messages of the first case with these facts: `report.trace(world_size=4, length=8)`.

        Raises:
            KeyError: no such case was run.
        """
        for seen in self._passed:
            if all(getattr(seen.facts, name) == value for name, value in facts.items()):
                return seen.trace
        wanted = ", ".join(f"{name}={value}" for name, value in facts.items())
        titles = "; ".join(seen.case.title for seen in self._passed)
        raise KeyError(f"no case with {wanted}; there are: {titles}")

    def summary(self) -> str:
        """ "4 cases, with 1 and 2 ranks"; empty if no case has passed."""
        if not self._passed:
            return ""
        sizes = [str(size) for size in sorted({seen.size for seen in self._passed})]
        ranks = f", with {' and '.join(filter(None, (', '.join(sizes[:-1]), sizes[-1])))} ranks"
        return count(len(self), "case") + (ranks if sizes != ["1"] else "")

    def __str__(self) -> str:
        head = f"{self.function}: right in all {count(len(self), 'case')}."
        if self._row is None:
            return "\n".join([head, *map(_line, self._passed)])
        return "\n".join([head, *table([self._row(seen) for seen in self._passed])])


def table(rows: Sequence[Row]) -> list[str]:
    """Rows as aligned lines, under their headings."""
    texts = [list(rows[0]), *([row[name] for name in rows[0]] for row in rows)] if rows else []
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))] if rows else []
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in texts]


def sent(trace: Trace) -> dict[str, str]:
    """The columns of a table about messages."""
    return {
        "messages sent by each rank": _together(trace.messages_sent),
        "bytes sent by each rank": _together(trace.bytes_sent),
        "rounds": str(trace.rounds),
    }


def _together(values: Sequence[int]) -> str:
    """ "6" if all are the same, else "6, 6, 4"."""
    return f"{values[0]:,}" if len(set(values)) == 1 else ", ".join(f"{value:,}" for value in values)


def _line(seen: Seen) -> str:
    total = sum(seen.trace.bytes_sent)
    messages = f": {count(len(seen.trace), 'message')}, {count(total, 'byte')} in all" if total else ""
    return f"  {seen.case.title.removeprefix('on ')}{messages}"

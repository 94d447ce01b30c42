"""A timed schedule as text: a row for each rank, a column for each unit of time.

rank 0  F0 F1 F2 F3 .. .. B0 B1 B2 B3       of a rank with several stages, each action says which: 0F0 2F0
rank 1  .. F0 F1 F2 F3 B0 B1 B2 B3 ..       .. waits
"""

from __future__ import annotations

from collections.abc import Sequence

from distlib.training.schedules.timing import ActionSpan, Timing


def schedule_grid(timing: Timing, unit: float = 1.0) -> str:
    """Draw when each rank does what. An action that takes several units is followed by dashes.

    Args:
        timing: of a schedule, as `time_schedule` returns it.
        unit: the seconds of a column. What is shorter is drawn in the column in which it begins.
    """
    several = any(len({span.action.stage for span in spans}) > 1 for spans in timing.spans)
    columns = round(timing.seconds / unit)
    width = max((len(_name(span, several)) for spans in timing.spans for span in spans), default=1)
    rows = [_row(spans, columns, width, unit, several) for spans in timing.spans]
    label = len(str(len(rows) - 1))
    return "\n".join(f"rank {rank:{label}}  {row}" for rank, row in enumerate(rows))


def _row(spans: Sequence[ActionSpan], columns: int, width: int, unit: float, several: bool) -> str:
    cells = ["." * width] * columns
    for span in spans:
        first, last = int(span.start / unit + 1e-9), round(span.end / unit)
        cells[first:last] = ["-" * width] * (last - first)
        cells[first] = _name(span, several).ljust(width)
    return " ".join(cells)


def _name(span: ActionSpan, several: bool) -> str:
    return str(span.action) if several else f"{span.action.kind}{span.action.microbatch}"

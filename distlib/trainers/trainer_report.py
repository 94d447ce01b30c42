"""What became of a program: its result, what it sent and kept, and how it looks next to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distlib.trainers.report_origin import ReportOrigin


@dataclass(frozen=True)
class CallRow:
    """How often one collective is called, for a tensor of one size.

    Attributes:
        collective: its name, "all_reduce".
        times: how often each rank calls it.
        bytes: of the whole tensor that is summed up, copied or gathered, in one call.
    """

    collective: str
    times: int
    bytes: int

    def sent(self, world_size: int) -> int:
        """What each rank sends in these calls, on average, if they go around a ring."""
        ways = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "broadcast": 1}.get(self.collective, 0)
        return self.times * ways * self.bytes * (world_size - 1) // world_size

    def __str__(self) -> str:
        return f"{self.times} × {self.collective} of {self.bytes:,} B"


def call_rows(calls: Iterable[Sequence[Any]]) -> list[CallRow]:
    """Calls, counted; those that come first, first."""
    counts = Counter((str(name), int(size)) for name, size in calls)
    return [CallRow(name, times, size) for (name, size), times in counts.items()]


@dataclass(frozen=True)
class TrainerReport(ReportOrigin):
    """What became of a program on two processes. Printed, it is a table.

    Attributes:
        loss: on the test images, after the last step.
        difference: the largest of |parameter - plain DDP's|.
        step_calls: the collectives of one step, the 31st, as they were asked for.
        steps_alike: how many of the steps have just these.
        first_step_calls: those of the first step.
        run_calls: those of the whole run.
        gloo_calls: those of one step, as gloo has carried them out.
        state_bytes: what each rank keeps when the optimizer's step begins: "parameters", "gradients", "optimizer
            states", and "copies", which are parameters that the optimizer keeps for itself.
        seconds_to_first_step: from the command to the end of the first step.
        load: how many processes wanted each core of the machine meanwhile: seconds are longer above 1.
        megabytes: on disk, that the package and what it needs has added.
        processes: how many were alive in the midst of the training, the command's own included.
        process_names: their commands.
        lines: what was printed.
        note: why this is the recording, or how it differs from the one that comes with the package; "" if neither.
    """

    loss: float
    difference: float
    step_calls: Sequence[CallRow]
    first_step_calls: Sequence[CallRow]
    run_calls: Sequence[CallRow]
    gloo_calls: Sequence[CallRow]
    state_bytes: Mapping[str, int]
    seconds_to_first_step: float
    megabytes: float
    processes: int
    steps_alike: int = 0
    load: float = 0.0
    process_names: Sequence[str] = field(default_factory=list)
    lines: Sequence[str] = field(default_factory=list)
    note: str = ""

    def __str__(self) -> str:
        rows = [
            ("", self.origin),
            ("command", self.command),
            ("loss", f"{self.loss:.6f}"),
            ("largest difference to plain DDP", f"{self.difference:.1e}"),
            *(("in a step", str(row)) for row in self.step_calls),
            *((f"{kind} kept", f"{size:,} B") for kind, size in self.state_bytes.items() if size),
            ("seconds to the first step", f"{self.seconds_to_first_step:.1f}, at a load of {self.load:.1f} a core"),
            ("megabytes on disk", f"{self.megabytes:.0f}"),
            ("processes", str(self.processes)),
        ]
        text = "\n".join(f"{what:<33}{value}" for what, value in rows)
        printed = "\n".join(f"    │ {line}" for line in self.lines)
        return "\n".join(part for part in (f"{self.name}:{text[len(self.name) + 1 :]}", printed, self.note) if part)


_COLUMNS = ("program", "difference", "calls in a step", "sent in a step", "kept", "first step", "disk", "processes", "")


def table_of(reports: Iterable[TrainerReport]) -> str:
    """Reports side by side, as text."""
    rows = [_COLUMNS, *map(_row, reports)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index in (0, 2) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row[:-1], widths, strict=False))
        )
        + f"  {row[-1]}".rstrip()
        for row in rows
    )


def _row(report: TrainerReport) -> tuple[str, ...]:
    calls = Counter[str]()
    for row in report.step_calls:
        calls[row.collective] += row.times
    return (
        report.name,
        f"{report.difference:.1e}",
        ", ".join(f"{times} {name}" for name, times in calls.items()),
        f"{sum(row.sent(2) for row in report.step_calls) / 1e6:.2f} MB",
        f"{sum(report.state_bytes.values()) / 1e6:.2f} MB",
        f"{report.seconds_to_first_step:.0f} s",
        f"{report.megabytes:.0f} MB",
        str(report.processes),
        f"recorded {report.day}" if report.recorded else "run now",
    )

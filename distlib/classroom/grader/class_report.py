"""What an instructor reads after grading: a table in the terminal, a page (report.html), marks for a spreadsheet.

The marks are those of the gradebook: what an instructor has given by hand counts there, and is marked with *.
The page is made by `class_page`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from distlib.classroom.grader.alike import Pair
from distlib.classroom.grader.class_page import html_page
from distlib.classroom.grader.class_run import LATE_PENALTY, ClassRun
from distlib.classroom.grader.marks import fraction, functions, late, lost, of, sums
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.words import points, with_name
from distlib.printable import printable

_MOST_CHANGES = 20


def text_table(run: ClassRun) -> str:
    """A line per student: marks by function, all together, the state. Below it, what changed, and what failed."""
    lines = [["", *functions(run), *late(run), "all", ""]]
    for student, record in run.records.items():
        marks = {} if record.problem else run.marks.get(student, {})
        penalty = run.penalties.get(student, 0.0)
        cells = [fraction(of(marks, function)) for function in functions(run)]
        cells += [lost(run, student, marks) for _ in late(run)]
        lines.append([printable(student), *cells, fraction(marks.values(), penalty), record.state])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    table = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(line, widths, strict=True))][:-1] + [line[-1]]).rstrip()
        for line in lines
    ]
    failed = [
        printable(f"{with_name(record.student, run.names)}: {record.problem}")
        for record in run.records.values()
        if record.problem
    ]
    refused = [printable(f"{each.student or '?'}: {each.file}: {each.why}") for each in run.refused]
    blocks = [
        ("Marks that changed:", _changes(run)),
        ("Could not be graded:", failed),
        ("Not collected by distlib collect:", refused),
    ]
    return "\n".join([*table, *(line for head, lines in blocks if lines for line in ["", head, *lines])])


def _changes(run: ClassRun) -> list[str]:
    """A line for each of the first changes."""
    lines = [
        printable(f"{with_name(each.student, run.names)}: {each.what} {_points(each.before)} → {_points(each.after)}")
        for each in run.changes
    ]
    more = len(lines) - _MOST_CHANGES
    return lines if more <= 0 else [*lines[:_MOST_CHANGES], f"and {more} more, in the report and in changes.csv"]


def _points(score: float | None) -> str:
    return "–" if score is None else points(score)


def write_report(run: ClassRun, folder: Path, pairs: Sequence[Pair] = ()) -> Path:
    """Write report.html and marks.csv into a folder, and return the page's path.

    Args:
        run: the class.
        folder: made if it is not there.
        pairs: answers that resemble each other.

    Raises:
        OSError: they can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "marks.csv").write_text(csv_text(run), encoding="utf-8", newline="")
    page = folder / "report.html"
    page.write_text(html_page(run, pairs), encoding="utf-8")
    return page.resolve()


def csv_text(run: ClassRun) -> str:
    """One row per student. The score is what is left after the penalty for being late; open is what waits for a mark.

    The penalty is empty where it is not known when somebody handed in, and being late costs points.
    """
    rows = [["student", "state", "score", "of", "open", LATE_PENALTY, *run.cells, "seconds", "problem", "remarks"]]
    for student, record in run.records.items():
        marks = {} if record.problem else run.marks.get(student, {})
        scores = [points(marks[cell].score) if cell in marks and not marks[cell].is_open else "" for cell in run.cells]
        penalty = run.penalties.get(student, 0.0)
        left = sums(marks.values()).less(penalty)
        sum_of_points = [points(left.got), points(left.full), points(left.waiting)] if marks else ["", "", ""]
        taken = points(penalty) if marks and student not in run.without_time else ""
        words = [record.problem, " | ".join(record.remarks)]
        rows.append([student, record.state, *sum_of_points, taken, *scores, f"{record.seconds:.1f}", *words])
    return spreadsheet(rows)

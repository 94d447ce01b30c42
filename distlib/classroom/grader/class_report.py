"""What an instructor reads after grading: a table in the terminal, a page (report.html), marks for a spreadsheet.

The marks are those of the gradebook: what an instructor has given by hand counts there, and is marked with *.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distlib.checks.words import count
from distlib.classroom.grader.class_run import ClassRun, Record, Told
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.printable import printable

_STYLE = """
:root { color-scheme: light dark; --line: #c8ccd0; --soft: #f3f5f7; --warn: #9a3b00; --text: #1b1f24; --page: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444c56; --soft: #22272e; --warn: #ffb27a; --text: #e6edf3; --page: #14181d; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
       max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: min(100%, 48rem); }
caption { text-align: left; padding-bottom: .5rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem; text-align: left; vertical-align: top; }
thead th { background: var(--soft); }
tbody th { white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
td.lost { font-weight: 600; color: var(--warn); }
td.state { white-space: nowrap; }
td p { margin: 0; } td p + p { margin-top: .3rem; }
ul { margin: 0; padding-left: 1.1rem; }
"""


@dataclass(frozen=True)
class Mistake:
    """A message that students were given.

    Attributes:
        function: the function that it is about.
        told: the message.
        students: who got it.
    """

    function: str
    told: Told
    students: list[str]


def mistakes(records: Iterable[Record]) -> list[Mistake]:
    """What went wrong, the most frequent first. A student's message counts once for each function."""
    who: dict[tuple[str, Told], list[str]] = defaultdict(list)
    for record in records:
        first = {function_of(cell): told for cell, told in reversed(record.told.items())}
        for function, told in first.items():
            who[function, told].append(record.student)
    found = [Mistake(function, told, students) for (function, told), students in who.items()]
    return sorted(found, key=lambda mistake: (-len(mistake.students), mistake.function, mistake.told.seen))


def function_of(cell: str) -> str:
    """The function that a test cell tests: "shift" for "shift_hidden"."""
    return cell.removesuffix("_visible").removesuffix("_hidden")


def text_table(run: ClassRun) -> str:
    """A line a student: marks by function, all together, the state. Below it, why some could not be graded."""
    lines = [["", *_functions(run), *_late(run), "all", ""]]
    for student, record in run.records.items():
        marks = {} if record.problem else run.marks.get(student, {})
        penalty = run.penalties.get(student, 0.0)
        cells = [_fraction(_of(marks, function)) for function in _functions(run)]
        cells += [_lost(marks, penalty) for _ in _late(run)]
        lines.append([printable(student), *cells, _fraction(marks.values(), penalty), record.state])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    table = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(line, widths, strict=True))][:-1] + [line[-1]]).rstrip()
        for line in lines
    ]
    failed = [f"{printable(record.student)}: {record.problem}" for record in run.records.values() if record.problem]
    return "\n".join([*table, *(["", "Could not be graded:", *failed] if failed else [])])


def write_report(run: ClassRun, folder: Path) -> Path:
    """Write report.html and marks.csv into a folder, and return the page's path.

    Raises:
        OSError: they can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "marks.csv").write_text(csv_text(run), encoding="utf-8", newline="")
    page = folder / "report.html"
    page.write_text(html_page(run), encoding="utf-8")
    return page.resolve()


def csv_text(run: ClassRun) -> str:
    """One row per student. The score is what is left after the penalty for being late."""
    rows = [["student", "state", "score", "of", "late_penalty", *run.cells, "seconds", "problem", "remarks"]]
    for student, record in run.records.items():
        marks = {} if record.problem else run.marks.get(student, {})
        scores = [f"{marks[cell].score:g}" if cell in marks else "" for cell in run.cells]
        penalty, (points, most) = run.penalties.get(student, 0.0), _sums(marks.values())
        got, full = (f"{points - penalty:g}", f"{most:g}") if marks else ("", "")
        late = f"{penalty:g}" if marks else ""
        words = [record.problem, " | ".join(record.remarks)]
        rows.append([student, record.state, got, full, late, *scores, f"{record.seconds:.1f}", *words])
    return spreadsheet(rows)


def html_page(run: ClassRun) -> str:
    """The page: marks, what went wrong, remarks. Nothing in it is loaded from elsewhere, nothing runs."""
    title = f"{run.assignment}: the class"
    failed = [record for record in run.records.values() if record.problem]
    remarked = [record for record in run.records.values() if record.remarks and not record.problem]
    found = mistakes(run.records.values())
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p>{_text(_summary(run))}</p>",
        _section("Could not be graded", _table(("student", "why"), [(r.student, r.problem) for r in failed], ""))
        if failed
        else "",
        _section("Marks", _marks_table(run)),
        _section("What went wrong", _mistakes_table(found)) if found else "",
        _section("Remarks", _remarks_table(remarked)) if remarked else "",
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{_text(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )


# ── parts of the page ────────────────────────────────────────────────────────────────────────────────────────────────


def _summary(run: ClassRun) -> str:
    graded = [record for record in run.records.values() if not record.problem]
    marked = [student for student in (record.student for record in graded) if student in run.marks]
    totals = [_sums(run.marks[student].values()) for student in marked]
    points = sum(got for got, _ in totals) - sum(run.penalties.get(student, 0.0) for student in marked)
    mean = f" Mean: {points / len(totals):.1f} of {totals[0][1]:g} points." if totals else ""
    seconds = sum(record.seconds for record in run.records.values())
    return (
        f"{count(len(run.records), 'submission')}, {len(graded)} graded.{mean} "
        f"The submissions took {seconds:.0f} s together."
    )


def _marks_table(run: ClassRun) -> str:
    functions = _functions(run)
    heads = ["student", *functions, *_late(run), "all", "seconds", "state"]
    rows = []
    for student, record in run.records.items():
        marks = {} if record.problem else run.marks.get(student, {})
        cells = [_mark_cell(_of(marks, function)) for function in functions]
        penalty = run.penalties.get(student, 0.0)
        cells += [f'<td class="number">{_lost(marks, penalty)}</td>' for _ in _late(run)]
        cells += [_mark_cell(marks.values(), penalty), f'<td class="number">{record.seconds:.1f}</td>']
        cells.append(f'<td class="state">{_text(record.state)}</td>')
        rows.append(f'<tr><th scope="row">{_text(student)}</th>{"".join(cells)}</tr>')
    by_hand = any(mark.by_hand for marks in run.marks.values() for mark in marks.values())
    note = "Points, of those that can be had." + (" * includes a mark given by hand." if by_hand else "")
    numbers = ["", *["number"] * (len(heads) - 2), ""]
    return _html_table(heads, numbers, rows, note)


def _mark_cell(marks: Iterable[Mark], penalty: float = 0.0) -> str:
    marks = list(marks)
    got, full = _sums(marks)
    lost = " lost" if marks and got < full else ""
    return f'<td class="number{lost}">{_text(_fraction(marks, penalty))}</td>'


def _mistakes_table(found: Sequence[Mistake]) -> str:
    rows = []
    for mistake in found:
        cause = f"<p>Usual cause: {_text(mistake.told.cause)}</p>" if mistake.told.cause else ""
        rows.append(
            f'<tr><td class="number">{len(mistake.students)}</td><th scope="row">{_text(mistake.function)}</th>'
            f"<td><p>{_text(mistake.told.seen)}</p>{cause}</td><td>{_text(', '.join(mistake.students))}</td></tr>"
        )
    note = "The first message that a student got about a function. The most frequent come first."
    return _html_table(("students", "function", "message", "who"), ("number", "", "", ""), rows, note)


def _remarks_table(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        remarks = "".join(f"<li>{_text(remark)}</li>" for remark in record.remarks)
        rows.append(f'<tr><th scope="row">{_text(record.student)}</th><td><ul>{remarks}</ul></td></tr>')
    return _html_table(
        ("student", "remarks"),
        ("", ""),
        rows,
        "What was edited, missing or moved was put right before the notebook ran: it has cost no mark.",
    )


def _table(heads: Sequence[str], rows: Sequence[tuple[str, str]], note: str) -> str:
    lines = [f'<tr><th scope="row">{_text(first)}</th><td>{_text(second)}</td></tr>' for first, second in rows]
    return _html_table(heads, [""] * len(heads), lines, note)


def _html_table(heads: Sequence[str], classes: Sequence[str], rows: Sequence[str], note: str) -> str:
    cells = zip(heads, classes, strict=True)
    words = ((_text(name).replace("_", "_<wbr>"), f' class="{kind}"' if kind else "") for name, kind in cells)
    head = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in words)
    caption = f"<caption>{_text(note)}</caption>" if note else ""
    body = "\n".join(rows)
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{_text(title)}</h2>\n{content}\n</section>\n"


def _text(text: str) -> str:
    return html.escape(printable(text))


# ── marks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _functions(run: ClassRun) -> list[str]:
    return list(dict.fromkeys(function_of(cell) for cell in run.cells))


def _of(marks: Mapping[str, Mark], function: str) -> list[Mark]:
    return [mark for cell, mark in marks.items() if function_of(cell) == function]


def _late(run: ClassRun) -> list[str]:
    """The head of a column for penalties, if anybody has one."""
    return ["late"] if any(run.penalties.values()) else []


def _lost(marks: Mapping[str, Mark], penalty: float) -> str:
    """ "−2", or "–" where nothing is lost."""
    return f"−{penalty:g}" if marks and penalty else "–"


def _sums(marks: Iterable[Mark]) -> tuple[float, float]:
    marks = list(marks)
    return sum(mark.score for mark in marks), sum(mark.full for mark in marks)


def _fraction(marks: Iterable[Mark], penalty: float = 0.0) -> str:
    """ "3 / 4", or "–" without marks."""
    marks = list(marks)
    got, full = _sums(marks)
    star = " *" if any(mark.by_hand for mark in marks) else ""
    return f"{got - penalty:g} / {full:g}{star}" if marks else "–"

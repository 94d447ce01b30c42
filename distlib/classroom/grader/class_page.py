"""The page about a class: what an instructor reads after grading.

the marks as bars, by function          who got all, some and none of the points
the marks in a table                    by student
what went wrong                         mistakes by cause, the most frequent first
who needs help                          no marks where most have some; nothing handed in
worth a look                            answers that resemble each other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from distlib.classroom.grader.alike import Pair
from distlib.classroom.grader.class_run import Change, ClassRun, Record
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.marks import fraction, functions, late, lost, notes, of, sums
from distlib.classroom.grader.mistakes import Mistake, graded, left_behind, mistakes
from distlib.classroom.grader.page import page_of, plain
from distlib.classroom.words import count, joined, points

_STYLE = """
body { max-width: 80rem; }
table { min-width: min(100%, 48rem); }
tbody th { white-space: nowrap; }
td.lost { font-weight: 600; color: var(--bad); }
td.state { white-space: nowrap; }
td p { margin: 0; } td p + p { margin-top: .3rem; }
ul { margin: 0; padding-left: 1.1rem; }
.bar { display: flex; min-width: 16rem; height: 1.3rem; border-radius: 3px; overflow: hidden; }
.bar span { color: var(--page); font-size: .8rem; line-height: 1.3rem; text-align: center; min-width: 1.2rem; }
.bar .all { background: var(--good); } .bar .some { background: var(--part); } .bar .none { background: var(--bad); }
.columns { display: flex; align-items: flex-end; gap: 3px; height: 8rem; max-width: 40rem; margin: 1rem 0; }
.columns div { flex: 1; text-align: center; font-size: .75rem; color: var(--dim); }
.columns .column { background: var(--link); border-radius: 2px 2px 0 0; }
"""
_BINS = 10


def html_page(run: ClassRun, pairs: Sequence[Pair] = ()) -> str:
    """The page. Nothing in it is loaded from elsewhere, nothing runs.

    Args:
        run: the class.
        pairs: answers that resemble each other.
    """
    failed = [record for record in run.records.values() if record.problem]
    remarked = [record for record in run.records.values() if record.remarks and not record.problem]
    found, title = mistakes(run.records.values()), f"{run.assignment}: the class"
    sections = [
        ("Marks that changed", _changes_table(run.changes)),
        ("Could not be graded", _table(("student", "why"), [(r.student, r.problem) for r in failed], "")),
        ("Not collected", _refused_table(run)),
        ("The class at a glance", _distribution(run)),
        ("Marks", _marks_table(run)),
        ("What went wrong", _mistakes_table(found)),
        ("Who may need help", _help_table(run)),
        ("Worth a look", _pairs_table(pairs)),
        ("Remarks", _remarks_table(remarked)),
    ]
    body = "".join(_section(head, content) for head, content in sections if content)
    about = "".join(f"<p>{plain(note)}</p>\n" for note in notes(run))
    return page_of(title, f"<h1>{plain(title)}</h1>\n<p>{plain(_summary(run))}</p>\n{about}{body}", _STYLE)


def _summary(run: ClassRun) -> str:
    done = [record for record in run.records.values() if not record.problem]
    marked = [student for student in (record.student for record in done) if student in run.marks]
    totals = [sums(run.marks[student].values()) for student in marked]
    left = sum(got for got, _ in totals) - sum(run.penalties.get(student, 0.0) for student in marked)
    mean = f" Mean: {left / len(totals):.1f} of {points(totals[0][1])} points." if totals else ""
    seconds = sum(record.seconds for record in run.records.values())
    submissions = count(len(run.records), "submission")
    took = f" Judging them took {seconds:.0f} s, one after another." if seconds >= 1 else ""
    return f"{submissions}, {len(done)} graded.{mean}{took}"


def _distribution(run: ClassRun) -> str:
    students = graded(run)
    if not students:
        return ""
    rows = []
    for function in functions(run):
        both = [sums(of(run.marks[student], function)) for student in students]
        kinds = Counter("all" if got >= full else "some" if got > 0 else "none" for got, full in both)
        mean = sum(got for got, _ in both) / len(both)
        rows.append(
            f'<tr><th scope="row"><code>{plain(function)}</code></th><td>{_bar(kinds)}</td>'
            f'<td class="number">{mean:.1f} / {points(both[0][1])}</td></tr>'
        )
    note = f"How many of {count(len(students), 'student')} have all points, some, and none."
    return _html_table(("function", "all · some · none", "mean"), ("", "", "number"), rows, note) + _columns(
        run, students
    )


def _bar(kinds: Counter[str]) -> str:
    words = ", ".join(f"{kinds[kind]} {kind}" for kind in ("all", "some", "none"))
    spans = (
        f'<span class="{kind}" style="flex: {kinds[kind]}">{kinds[kind]}</span>'
        for kind in ("all", "some", "none")
        if kinds[kind]
    )
    return f'<div class="bar" role="img" aria-label="{words}">{"".join(spans)}</div>'


def _columns(run: ClassRun, students: Sequence[str]) -> str:
    """How many students have how many points: a column for each tenth of them."""
    left = [(sums(run.marks[s].values())[0] - run.penalties.get(s, 0.0)) for s in students]
    full = sums(run.marks[students[0]].values())[1] or 1.0
    heights = Counter(max(0, min(_BINS - 1, int(_BINS * got / full))) for got in left)
    most, columns, labels = max(heights.values()), [], []
    for number in range(_BINS):
        first, last = points(full * number / _BINS), points(full * (number + 1) / _BINS)
        height = f"height: {5.5 * heights[number] / most:.2f}rem"
        label = f"{heights[number]} with {first} to {last} points"
        column = f'<div class="column" style="{height}"></div>'
        columns.append(f'<div title="{label}">{heights[number] or ""}{column}{first}</div>')
        labels += [label] if heights[number] else []
    words = f"Students by points, from 0 to {points(full)}"
    told = f"{words}: {', '.join(labels)}"
    return f'<p>{words}:</p>\n<div class="columns" role="img" aria-label="{told}">{"".join(columns)}</div>\n'


def _marks_table(run: ClassRun) -> str:
    heads = ["student", *functions(run), *late(run), "all", "seconds", "state"]
    rows = []
    for student, record in run.records.items():
        marks = {} if record.problem else run.marks.get(student, {})
        cells = [_mark_cell(of(marks, function)) for function in functions(run)]
        penalty = run.penalties.get(student, 0.0)
        cells += [f'<td class="number">{lost(run, student, marks)}</td>' for _ in late(run)]
        cells += [_mark_cell(marks.values(), penalty), f'<td class="number">{record.seconds:.1f}</td>']
        cells.append(f'<td class="state">{plain(record.state)}</td>')
        rows.append(f'<tr><th scope="row">{plain(student)}</th>{"".join(cells)}</tr>')
    by_hand = any(mark.by_hand for marks in run.marks.values() for mark in marks.values())
    note = "Points, of those that can be had." + (" * includes a mark given by hand." if by_hand else "")
    note += " ?: no time of handing in is known." if run.without_time else ""
    numbers = ["", *["number"] * (len(heads) - 2), ""]
    return _html_table(heads, numbers, rows, note)


def _mark_cell(marks: Iterable[Mark], penalty: float = 0.0) -> str:
    marks = list(marks)
    got, full = sums(marks)
    kind = " lost" if marks and got < full else ""
    return f'<td class="number{kind}">{plain(fraction(marks, penalty))}</td>'


def _changes_table(changes: Sequence[Change]) -> str:
    both = ["–" if score is None else points(score) for change in changes for score in (change.before, change.after)]
    rows = [
        f'<tr><th scope="row">{plain(change.student)}</th><td>{plain(change.what)}</td>'
        f'<td class="number">{before}</td><td class="number">{after}</td></tr>'
        for change, before, after in zip(changes, both[::2], both[1::2], strict=True)
    ]
    note = "What is not as it was before this run. Where a mark by hand counts, it stays."
    return _html_table(("student", "what", "before", "now"), ("", "", "number", "number"), rows, note)


def _mistakes_table(found: Sequence[Mistake]) -> str:
    rows = []
    for mistake in found:
        cause = f"<p>Usual cause: {plain(mistake.told.cause)}</p>" if mistake.told.cause else ""
        rows.append(
            f'<tr><td class="number">{len(mistake.students)}</td><th scope="row">{plain(mistake.function)}</th>'
            f"<td><p>{plain(mistake.told.seen)}</p>{cause}</td><td>{plain(', '.join(mistake.students))}</td></tr>"
        )
    note = (
        "The first message that a student got about a function, as one of them read it. Those with the same cause "
        "count together, whatever numbers are in them. The most frequent come first; what is not written yet, last."
    )
    return _html_table(("students", "function", "message", "who"), ("number", "", "", ""), rows, note)


def _help_table(run: ClassRun) -> str:
    number = len(functions(run))
    rows = [
        (student, f"no marks in {joined(names)}" if len(names) < number else "no marks at all")
        for student, names in left_behind(run).items()
    ]
    refused = {each.student: f"handed in what was not collected: {each.why}" for each in run.refused}
    rows += [(student, refused.get(student, "has not handed in")) for student in run.missing]
    return _table(
        ("student", "why"),
        rows,
        "No marks in a function in which more than half of the class have some, or none at all.",
    )


def _refused_table(run: ClassRun) -> str:
    rows = []
    for each in run.refused:
        graded_too = "a different upload" if each.student in run.records else "nothing"
        cells = f"<td>{plain(each.file)}</td><td>{plain(each.why)}</td><td>{graded_too}</td>"
        rows.append(f'<tr><th scope="row">{plain(each.student or "not known")}</th>{cells}</tr>')
    note = (
        "Uploads that distlib collect left where they are. They are listed until the same folder or zip file is "
        "collected again without them, or something else of the student is collected."
    )
    return _html_table(("student", "file", "why", "graded instead"), ("", "", "", ""), rows, note)


def _pairs_table(pairs: Sequence[Pair]) -> str:
    rows = [
        f'<tr><th scope="row">{plain(", ".join(pair.students))}</th><td>{plain(pair.function)}</td>'
        f'<td class="number">{100 * pair.share:.0f} %</td><td class="number">{pair.pieces}</td></tr>'
        for pair in pairs
    ]
    note = (
        "Answers that resemble each other: how much of the shorter one stands in the other one as well, and how many "
        "pieces of 8 words that is. Names of variables and comments make no difference. The text of the exercise and "
        "of the lesson, what many students write, and short functions are left out. It proves nothing: the same idea "
        "may lead to the same lines."
    )
    return _html_table(("students", "function", "alike", "pieces"), ("", "", "number", "number"), rows, note)


def _remarks_table(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        remarks = "".join(f"<li>{plain(remark)}</li>" for remark in record.remarks)
        rows.append(f'<tr><th scope="row">{plain(record.student)}</th><td><ul>{remarks}</ul></td></tr>')
    return _html_table(
        ("student", "remarks"),
        ("", ""),
        rows,
        "What was edited, missing or moved was put right before the notebook ran: it has cost no mark.",
    )


def _table(heads: Sequence[str], rows: Sequence[tuple[str, str]], note: str) -> str:
    lines = [f'<tr><th scope="row">{plain(first)}</th><td>{plain(second)}</td></tr>' for first, second in rows]
    return _html_table(heads, [""] * len(heads), lines, note)


def _html_table(heads: Sequence[str], classes: Sequence[str], rows: Sequence[str], note: str) -> str:
    """A table; nothing without rows."""
    if not rows:
        return ""
    cells = zip(heads, classes, strict=True)
    words = ((plain(name).replace("_", "_<wbr>"), f' class="{kind}"' if kind else "") for name, kind in cells)
    head = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in words)
    above = f'<p class="dim">{plain(note)}</p>\n' if note else ""
    body = "\n".join(rows)
    table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return f'{above}<div class="wide">{table}</div>'


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{plain(title)}</h2>\n{content}\n</section>\n"

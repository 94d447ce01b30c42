"""The page that a student gets: marks at a glance, what was wrong and what to do next, and the whole notebook.

    # Trees and grids: 7 of 20 points
    ┌────────────────────┬───────┬───────────────────────────────────────────────┐
    │ ✓ tree_all_reduce  │ 5 / 5 │ all tests pass                                │
    │ ✗ grid_all_reduce  │ 2 / 5 │ on 4 ranks: rank 0 holds a wrong sum.         │
    └────────────────────┴───────┴───────────────────────────────────────────────┘
    ## ✗ grid_all_reduce     what was seen, expected and found, the line, what to do next
    ▸ The whole notebook

nbgrader_config.py names `FeedbackPage` as the exporter of `nbgrader generate_feedback`.
"""

from __future__ import annotations

import logging
import re
import shutil
from dataclasses import dataclass, field
from functools import partial
from glob import escape, glob
from pathlib import Path
from typing import Any

from nbconvert.exporters import Exporter
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

from distlib.classroom.excerpts import excerpts
from distlib.classroom.grader.messages import Message, function_of, parts_of
from distlib.classroom.grader.notebook_page import STYLE as NOTEBOOK_STYLE
from distlib.classroom.grader.notebook_page import code_html, notebook_html, text_html
from distlib.classroom.grader.page import lines_of, page_of, plain
from distlib.classroom.grader.transplant import NOTE
from distlib.classroom.words import all_of, count, have, points, points_lost
from distlib.printable import printable

_NOT_WRITTEN = "it is not written yet"
_COMMENT_OF_NBGRADER = "No response."  # about a cell that is as released; nobody has written it
_STYLE = """
body { max-width: 52rem; }
.marks { width: 100%; margin: 1rem 0; } .marks th[scope=row] { font-weight: 600; }
.marks tr.good { background: var(--good-soft); } .marks tr.part { background: var(--part-soft); }
.marks tr.bad { background: var(--bad-soft); }
.marks td, .marks th { color: var(--text); } .sign { display: inline-block; width: 1.4em; font-weight: 700; }
tr.good .sign { color: var(--good); } tr.part .sign { color: var(--part); } tr.bad .sign { color: var(--bad); }
section { margin-top: 2rem; padding-left: 1rem; border-left: 4px solid var(--good); }
section.part { border-color: var(--part); } section.bad { border-color: var(--bad); } section h2 { margin-top: 0; }
h2 .good { color: var(--good); } h2 .part { color: var(--part); } h2 .bad { color: var(--bad); }
.details { white-space: pre-wrap; background: var(--soft); padding: .5rem .7rem; border-radius: 4px; }
.excerpt { overflow-x: auto; background: var(--soft); border: 1px solid var(--line); border-radius: 4px;
  padding: .5rem .7rem; }
.excerpt mark { background: var(--bad-soft); color: inherit; font-weight: 700; }
.next { background: var(--soft); border-radius: 4px; padding: .1rem 1rem; margin: 1rem 0; }
summary { cursor: pointer; padding: .3rem 0; } #notebook > summary { font-weight: 600; margin-top: 2.5rem; }
@media (max-width: 40rem) { .marks thead { display: none; } .marks tr { display: grid;
  grid-template-columns: minmax(0, 1fr) auto; border-bottom: 1px solid var(--line); padding: .3rem 0; }
  .marks th, .marks td { border: none; padding: .1rem .6rem; } .marks td.what { grid-column: 1 / -1; } }
"""


@dataclass(frozen=True)
class Test:
    """A test cell.

    Attributes:
        kind: "visible", "hidden", or "" for an answer in words.
        got, full: points.
        message: what it says; "" if it passes.
        about: what a hidden test tests, in the instructor's words.
    """

    kind: str
    got: float
    full: float
    message: str = ""
    about: str = ""


@dataclass
class Part:
    """A graded function, or an answer in words.

    Attributes:
        name: of the function.
        tests: its test cells.
        comment: the instructor's.
        cell: the number of its cell, and its text.
        stops: what the cell itself raised.
        note: which of several cells of this function was graded.
    """

    name: str
    tests: list[Test] = field(default_factory=list)
    comment: str = ""
    cell: tuple[int, str] | None = None
    stops: str = ""
    note: str = ""

    @property
    def got(self) -> float:
        """The points that the student got."""
        return sum(test.got for test in self.tests)

    @property
    def full(self) -> float:
        """Points that can be had."""
        return sum(test.full for test in self.tests)

    @property
    def failed(self) -> list[Test]:
        """The tests that do not pass."""
        return [test for test in self.tests if test.message]

    @property
    def is_written(self) -> bool:
        """Whether there is an answer to judge."""
        return not any(_NOT_WRITTEN in " ".join(test.message.split()) for test in self.tests)

    @property
    def kind(self) -> str:
        """ "good", "part" or "bad"."""
        if self.got >= self.full:
            return "good"
        return "part" if self.got > 0 else "bad"

    @property
    def sign(self) -> str:
        """For those who don't see colors."""
        return {"good": "✓", "part": "◐", "bad": "✗" if self.is_written else "○"}[self.kind]

    @property
    def first_sentence(self) -> str:
        """What was wrong, as a table shows it."""
        if not self.is_written:
            return "not written yet"
        if self.failed:
            sentence = parts_of(self.failed[0].message).first_sentence
            return sentence.removeprefix(f"{self.name} ").removeprefix(f"{self.name}: ")
        if not any(test.kind for test in self.tests):
            return "marked by hand" if self.got else "marked by hand; 0 also means: not yet"
        return "all tests pass"


class FeedbackPage(Exporter):
    """nbgrader's way from a graded notebook to `feedback/STUDENT/ASSIGNMENT/ASSIGNMENT.html`."""

    file_extension = ".html"
    output_mimetype = "text/html"

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config=config, **options)
        if self.parent is not None and hasattr(self.parent, "assignments"):
            mend(self.parent)

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **options: Any) -> tuple[Any, Any]:
        """The page of one notebook, after nbgrader's and our preprocessors."""
        notebook, resources = super().from_notebook_node(nb, resources, **options)
        return feedback_page(notebook, resources["nbgrader"]), resources


class _OnOneLine(logging.Filter):
    """Makes what is logged printable: a folder's name may hold what controls a terminal."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = "\n".join(map(printable, record.getMessage().split("\n"))), ()
        return True


_ON_ONE_LINE = _OnOneLine()


def mend(converter: Any) -> None:
    """Mend nbgrader's `GenerateFeedback`, in place.

    It takes the names of students for patterns: those of "[z]" would be the notebooks of "z". A line break in a name
    stops it for everybody. And it copies whatever was handed in, such as HTML, next to the page.
    """
    converter.log.addFilter(_ON_ONE_LINE)
    for folder in list(converter.assignments):
        if "\n" in folder:
            converter.log.error("No feedback: rename the folder %s", printable(Path(folder).parent.name))
            del converter.assignments[folder]
        else:
            pattern = f"{converter.coursedir.notebook_id}.ipynb"
            converter.assignments[folder] = sorted(glob(str(Path(escape(folder), pattern))))
    converter.init_assignment = partial(_copy_what_nbgrader_needs, converter)


def _copy_what_nbgrader_needs(converter: Any, assignment: str, student: str) -> None:
    """In the place of nbgrader's `init_assignment`.

    By the time stamp it sees whether the feedback is up to date, by the secret `release_feedback` knows whose it is.
    """
    source, folder = (Path(make(assignment, student)) for make in (converter._format_source, converter._format_dest))
    for name in ("timestamp.txt", "submission_secret.txt"):
        if (source / name).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, folder / name)


def feedback_page(notebook: NotebookNode, about: dict[str, Any]) -> str:
    """The whole page.

    Args:
        notebook: graded, harmless, without the text of hidden tests.
        about: student, assignment, score, max_score and late_penalty, as nbgrader has them.
    """
    parts = parts_of_notebook(notebook)
    title = _title(notebook, str(about["assignment"]))
    late = f" {points_lost(about['late_penalty'])} for being late." if about.get("late_penalty") else ""
    full = sum(part.kind == "good" for part in parts)
    noun = "function" if all(test.kind for part in parts for test in part.tests) else "part"
    body = [
        f"<h1>{plain(title)}: {points(about['score'])} of {points(about['max_score'])} points</h1>\n",
        f'<p class="dim">{plain(str(about["student"]))} · {plain(str(about["assignment"]))}</p>\n',
        f"<p>{_full_marks(full, len(parts), noun)}{late} {_begin(parts)}</p>",
        _table(parts),
        *(_section(part, notebook) for part in parts if _has_section(part)),
        _not_written([part for part in parts if not part.is_written]),
        _closing(parts, str(about["assignment"])),
        '<details id="notebook"><summary>The whole notebook, as it was graded</summary>\n',
        f'<p class="dim">Cells are numbered from the top, in brackets.</p>\n{notebook_html(notebook)}</details>\n',
    ]
    return page_of(f"{title}: feedback", "".join(body), NOTEBOOK_STYLE + _STYLE)


def parts_of_notebook(notebook: NotebookNode) -> list[Part]:
    """What gives points, in the notebook's order."""
    parts: dict[str, Part] = {}
    for cell in notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        name = function_of(str(mark.get("grade_id", "")))
        if not (mark.get("grade") or mark.get("solution")):
            continue
        part = parts.setdefault(name, Part(name))
        if mark.get("solution"):
            comment = str(mark.get("comment") or "")
            part.comment = "" if comment == _COMMENT_OF_NBGRADER else comment
            part.note = str(cell.metadata.get("distlib", {}).get(NOTE, ""))
            if cell.cell_type == "code":
                part.cell, part.stops = (cell.execution_count or 0, cell.source), _error(cell)
        if mark.get("grade"):
            part.tests.append(_test(cell, mark, name))
    return [part for part in parts.values() if part.tests]


def _test(cell: NotebookNode, mark: Any, name: str) -> Test:
    kind = str(mark.grade_id).removeprefix(name).strip("_")
    about = re.findall(r"^# (What this tests: .*)$", cell.source, re.MULTILINE)
    message = _error(cell) if cell.cell_type == "code" else ""
    return Test(kind, float(mark.get("score", 0)), float(mark.get("points", 0)), message, about[0] if about else "")


def _error(cell: NotebookNode) -> str:
    errors = ["\n".join(output.traceback) for output in cell.outputs if output.output_type == "error"]
    return strip_ansi(errors[0]) if errors else ""


# ── parts of the page ────────────────────────────────────────────────────────────────────────────────────────────────


def _title(notebook: NotebookNode, otherwise: str) -> str:
    """The heading of the exercise."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    heads = (re.search(r"^# (.+)$", text, re.MULTILINE) for text in texts)
    head = next((found[1] for found in heads if found), otherwise)
    return head.replace("`", "").replace("*", "")


def _full_marks(full: int, number: int, noun: str) -> str:
    """ "All 5 functions have full marks.", "1 of 5 functions has full marks.", "None of 5 functions has …"."""
    if full == number:
        words = f"{all_of(number, noun)} {have(number)} full marks."
        return words[:1].upper() + words[1:]
    if not full and number == 1:
        return f"The {noun} does not have full marks."
    return f"{full or 'None'} of {count(number, noun)} {have(full or 1)} full marks."


def _begin(parts: list[Part]) -> str:
    first = next((part for part in parts if part.kind != "good" and part.failed and part.is_written), None)
    if first is None:
        return ""
    return f'Begin with <a href="#{_id(first)}"><code>{plain(first.name)}</code></a>.'


def _table(parts: list[Part]) -> str:
    rows = "\n".join(map(_row, parts))
    heads = '<th scope="col">function</th><th scope="col" class="number">points</th><th scope="col">what was wrong</th>'
    return f'<table class="marks"><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>\n'


def _row(part: Part) -> str:
    name = f"<code>{plain(part.name).replace('_', '_<wbr>')}</code>"
    if _has_section(part):
        name = f'<a href="#{_id(part)}">{name}</a>'
    words = {"✓": "full marks", "◐": "partly", "✗": "no marks", "○": "not written"}[part.sign]
    return (
        f'<tr class="{part.kind}"><th scope="row"><span class="sign" role="img" aria-label="{words}">{part.sign}</span>'
        f'{name}</th><td class="number">{points(part.got)} / {points(part.full)}</td>'
        f'<td class="what">{plain(part.first_sentence[:300])}</td></tr>'
    )


def _section(part: Part, notebook: NotebookNode) -> str:
    head = f"{part.sign} {plain(part.name)}: {points(part.got)} of {points(part.full)} points"
    content = []
    if part.failed and part.is_written:
        content += [_states(part), *_what_was_wrong(part, part.failed[0], notebook)]
        content += [*(_also(test) for test in part.failed[1:]), _next(part)]
    if part.note:
        content.append(f"<p>In the notebook that you handed in, {plain(part.note)}</p>\n")
    if part.comment:
        content.append(f"<h3>Comment</h3>\n{text_html(part.comment)}")
    start = f'<section class="{part.kind}" id="{_id(part)}">\n<h2><span class="{part.kind}">{head}</span></h2>\n'
    return f"{start}{''.join(content)}</section>\n"


def _has_section(part: Part) -> bool:
    return bool(part.comment) or (part.is_written and part.kind != "good")


def _not_written(parts: list[Part]) -> str:
    """One section for all functions that are still as released."""
    if not parts:
        return ""
    names = ", ".join(f"<code>{plain(part.name)}</code>" for part in parts)
    step = f"Write {names}: put your code in the place of <code>raise NotImplementedError()</code>."
    return f'<section class="bad">\n<h2>○ Not written yet</h2>\n<p>{step}</p></section>\n'


def _states(part: Part) -> str:
    words = [
        f"{test.kind} test {'fails' if test.message else 'passes'}, {points(test.got)} of {points(test.full)} points"
        for test in part.tests
    ]
    text = "; ".join(words)
    return f'<p class="dim">{plain(text[:1].upper() + text[1:])}.</p>\n'


def _what_was_wrong(part: Part, test: Test, notebook: NotebookNode) -> list[str]:
    message = parts_of(test.message)
    stops = f"<p>The cell of {plain(part.name)} stops: {plain(part.stops)}</p>\n" if part.stops else ""
    places = excerpts(f"{test.message}\n{part.stops}", notebook)
    shown = [
        f'<h3><a href="#cell-{each.cell}">Your {plain(each.place)}</a></h3>'
        f'<pre class="excerpt">{_marked(each.lines)}</pre>\n'
        for each in places
    ]
    if not shown and part.cell:
        number, source = part.cell
        name = f"{plain(part.name)} (cell {number})"
        shown = [f"<details><summary>Your {name}</summary>{code_html(source, f'of-{number}')}</details>\n"]
    return [stops, _text_of(message), *shown]


def _text_of(message: Message) -> str:
    below = "\n\n".join(filter(None, [message.details, message.rest]))
    details = f'<pre class="details">{lines_of(below)}</pre>\n' if below else ""
    passed = f'<p class="dim">Passed before this: {plain(message.passed)}</p>\n' if message.passed else ""
    cause = f"<p><strong>Usual cause:</strong> {plain(message.cause)}</p>\n" if message.cause else ""
    return f"<p>{plain(message.seen)}</p>\n{details}{cause}{passed}"


def _also(test: Test) -> str:
    return (
        f"<details><summary>The {plain(test.kind or 'other')} test fails, too: what it says</summary>\n"
        f"{_text_of(parts_of(test.message))}</details>\n"
    )


def _marked(lines: list[str]) -> str:
    return "\n".join(f"<mark>{plain(line)}</mark>" if line.startswith("-") else plain(line) for line in lines)


def _next(part: Part) -> str:
    test = part.failed[0]
    if test.kind == "visible":
        step = (
            "Open the notebook, change your function and run its cell, then the cell of the visible test below it. "
            "It shows this message until it passes."
        )
    else:
        about = f"{plain(test.about)} " if test.about else ""
        step = f"{about}The visible test passes, for it tries less. Try the case named above in a cell of your own."
    return f'<div class="next"><p><strong>What to do next.</strong> {step}</p></div>\n'


def _closing(parts: list[Part], assignment: str) -> str:
    if all(part.kind == "good" for part in parts):
        return ""
    command = f"distlib check {assignment}"
    return f"<p>To see what passes after a change: <code>{plain(command)}</code> in a terminal.</p>\n"


def _id(part: Part) -> str:
    return f"part-{plain(part.name)}"

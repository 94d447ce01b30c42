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

from markupsafe import Markup
from nbconvert.exporters import Exporter
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

from distlib.classroom.excerpts import excerpts
from distlib.classroom.grader.check_message import UNWRITTEN, CheckMessage, function_of, parts_of
from distlib.classroom.grader.notebook_page import COLORS, code_html, notebook_html, plain_html, text_html
from distlib.classroom.grader.point_sum import WAITS, PointSum
from distlib.classroom.grader.private_nbgrader import folders_of
from distlib.classroom.grader.transplant import NOTE
from distlib.classroom.pages import render
from distlib.classroom.words import all_of, count, have, points
from distlib.printable import printable
from distlib.reading_process import EndedEarly, read_apart
from distlib.worlds.diagnosis import places_in

_SECONDS = 20.0  # of the processor, to format a notebook; a usual one takes 0.3
_MEMORY = 2 << 30  # bytes
_SHOWN = ("student", "assignment", "score", "max_score", "late_penalty")
_COMMENT_OF_NBGRADER = "No response."  # about a cell that is as released; nobody has written it


@dataclass(frozen=True)
class Test:
    """A test cell.

    Attributes:
        kind: "visible", "hidden", or "" for an answer in words.
        got, full: points.
        message: what it says; "" if it passes.
        about: what a hidden test tests, in the instructor's words.
        is_open: whether it waits for a mark by hand.
        is_unanswered: whether it is an answer in words that is still as it was given out.
    """

    kind: str
    got: float
    full: float
    message: str = ""
    about: str = ""
    is_open: bool = False
    is_unanswered: bool = False

    @property
    def parts(self) -> CheckMessage:
        """The parts of its message."""
        return parts_of(self.message)


@dataclass
class GradedPart:
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
    def sum(self) -> PointSum:
        """The points that the student got, of those that can be had, and those that wait for a mark by hand."""
        return sum((PointSum.of_mark(test.got, test.full, test.is_open) for test in self.tests), PointSum())

    @property
    def failed(self) -> list[Test]:
        """The tests that do not pass."""
        return [test for test in self.tests if test.message]

    @property
    def stops_besides(self) -> str:
        """What its cell raised, unless the message that is shown names the same line already."""
        places = set(places_in(self.stops))
        told = bool(places) and bool(self.failed) and places <= set(places_in(self.failed[0].message))
        return "" if told else self.stops

    @property
    def is_written(self) -> bool:
        """Whether there is an answer to judge."""
        return not any(t.is_unanswered or UNWRITTEN in " ".join(t.message.split()) for t in self.tests)

    @property
    def kind(self) -> str:
        """ "good", "part", "bad", or "open" while all of it waits for a mark."""
        if self.sum.is_open:
            return "open"
        if self.sum.got >= self.sum.full:
            return "good"
        return "part" if self.sum.got > 0 else "bad"

    @property
    def sign(self) -> str:
        """For those who don't see colors."""
        return {"good": "✓", "part": "◐", "open": "○", "bad": "✗" if self.is_written else "○"}[self.kind]

    @property
    def sign_in_words(self) -> str:
        """For those who hear the page."""
        if self.kind == "open":
            return WAITS
        return {"✓": "full marks", "◐": "partly", "✗": "no marks", "○": "not written"}[self.sign]

    @property
    def states(self) -> str:
        """Which of its tests pass: "Visible test passes, 3 of 3 points; hidden test fails, 0 of 3 points"."""
        text = "; ".join(
            f"{test.kind} test {'fails' if test.message else 'passes'}, "
            f"{points(test.got)} of {points(test.full)} points"
            for test in self.tests
        )
        return text[:1].upper() + text[1:]

    @property
    def has_section(self) -> bool:
        """Whether there is more to say than a row of the table does."""
        return bool(self.comment) or (self.is_written and self.kind not in ("good", "open"))

    @property
    def first_sentence(self) -> str:
        """What was wrong, as a table shows it."""
        if not self.is_written:
            return "not written yet"
        if self.failed:
            sentence = self.failed[0].parts.first_sentence
            return sentence.removeprefix(f"{self.name} ").removeprefix(f"{self.name}: ")
        if not any(test.kind for test in self.tests):
            return WAITS if self.sum.is_open else "marked by hand"
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
        """The page of one notebook, after nbgrader's and our preprocessors.

        It is made in a process of its own, and without formatting where that takes too long.
        """
        notebook, resources = super().from_notebook_node(nb, resources, **options)
        about = {name: resources["nbgrader"].get(name) for name in _SHOWN}
        try:
            page = read_apart(feedback_page, notebook, about, seconds=_SECONDS, memory=_MEMORY)
        except EndedEarly as ended:
            why = f"takes more than {_SECONDS:g} s of the processor" if ended.is_out_of_time else f"fails ({ended})"
            who = f"{printable(str(about['student']))}, {about['assignment']}"
            self.log.warning("%s: formatting the notebook %s, so the page shows it as plain text", who, why)
            page = read_apart(feedback_page, notebook, about, True, seconds=_SECONDS, memory=_MEMORY)
        return page, resources


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
    source, folder = folders_of(converter, assignment, student)
    for name in ("timestamp.txt", "submission_secret.txt"):
        if (source / name).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, folder / name)


def feedback_page(notebook: NotebookNode, about: dict[str, Any], is_plain: bool = False) -> str:
    """The whole page.

    Args:
        notebook: graded, harmless, without the text of hidden tests.
        about: student, assignment, score, max_score and late_penalty, as nbgrader has them.
        is_plain: show cells as plain text, and of a long one the beginning: any notebook becomes a page in seconds.
    """
    parts = parts_of_notebook(notebook)
    marked = [part for part in parts if part.kind != "open"]
    full = sum(part.kind == "good" for part in marked)
    noun = "function" if all(test.kind for part in marked for test in part.tests) else "part"
    waiting = sum((part.sum for part in parts), PointSum()).waiting
    return render(
        "feedback.html",
        title=_title(notebook, str(about["assignment"])),
        about=about,
        total=PointSum(about["score"], about["max_score"] - waiting, waiting),
        full_marks=_full_marks(full, len(marked), noun),
        waiting=[part for part in parts if part.kind == "open"],
        all_right=full == len(marked),
        parts=parts,
        first=next((part for part in parts if part.kind != "good" and part.failed and part.is_written), None),
        not_written=[part for part in parts if not part.is_written and part.cell],
        notebook=notebook,
        is_plain=is_plain,
        colors=COLORS,
        excerpts_of=lambda part: excerpts(f"{part.failed[0].message}\n{part.stops}", notebook),
        marked=_marked,
        code_html=plain_html if is_plain else code_html,
        text_html=plain_html if is_plain else text_html,
        notebook_html=partial(notebook_html, is_plain=is_plain),
    )


def parts_of_notebook(notebook: NotebookNode) -> list[GradedPart]:
    """What gives points, in the notebook's order."""
    parts: dict[str, GradedPart] = {}
    for cell in notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        name = function_of(str(mark.get("grade_id", "")))
        if not (mark.get("grade") or mark.get("solution")):
            continue
        part = parts.setdefault(name, GradedPart(name))
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
    return Test(
        kind,
        float(mark.get("score", 0)),
        float(mark.get("points", 0)),
        message,
        about[0] if about else "",
        bool(mark.get("open")),
        _is_unanswered(mark),
    )


def _is_unanswered(mark: Any) -> bool:
    """Whether nobody but nbgrader has given 0 for an answer in words: it does for one that is as it was given out."""
    return bool(mark.get("solution")) and not (mark.get("score") or mark.get("open") or mark.get("by_hand", True))


def _error(cell: NotebookNode) -> str:
    errors = ["\n".join(output.traceback) for output in cell.outputs if output.output_type == "error"]
    return strip_ansi(errors[0]) if errors else ""


def _title(notebook: NotebookNode, otherwise: str) -> str:
    """The heading of the exercise."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    heads = (re.search(r"^# (.+)$", text, re.MULTILINE) for text in texts)
    head = next((found[1] for found in heads if found), otherwise)
    return head.replace("`", "").replace("*", "")


def _full_marks(full: int, number: int, noun: str) -> str:
    """ "All 5 functions have full marks.", "1 of 5 functions has full marks.", "None of 5 functions has …"."""
    if not number:
        return ""
    if full == number:
        words = f"{all_of(number, noun)} {have(number)} full marks."
        return words[:1].upper() + words[1:]
    if not full and number == 1:
        return f"The {noun} does not have full marks."
    return f"{full or 'None'} of {count(number, noun)} {have(full or 1)} full marks."


def _marked(lines: list[str]) -> Markup:
    """Lines for a <pre>; the one that an arrow points to is marked."""
    arrow = Markup("<mark>{}</mark>")
    shown = map(printable, lines)
    return Markup("\n").join(arrow.format(line) if line.startswith("-") else line for line in shown)

"""What others may see of a notebook that has run: no hidden tests, and nothing of a student's that a browser would run.

The page itself is made by `feedback_page`. `GetMarks` and `SafeFeedback` are the steps before it, from autograded/ to
feedback/ (nbgrader_config.py names all of them). What students are told instead of a hidden test is the
instructor's choice, a line between its markers:

    ### BEGIN HIDDEN TESTS
    ### What this tests: other dtypes, and tensors whose memory is not contiguous.
    …
    ### END HIDDEN TESTS
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearHiddenTests, GetGrades
from nbgrader.utils import is_grade, is_task

from distlib.classroom.grader.gradebook import mark_of
from distlib.classroom.grader.pictures import set_pictures
from distlib.printable import printable_lines

_HARMLESS = ("text/plain", "image/png", "image/jpeg")
_SENTENCE = re.compile(r"^\s*### (What this tests: .*)$", re.MULTILINE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_MOST_OF_NAME = 200  # characters of a picture's name
_DESTINATION = re.compile(  # of a link: [text](…), [name]: …; a longer one is cut, else all after each bracket is read
    rf"\]([(:])(?=\s*(?:<|&lt;)?\s*([^\s)>]{{0,{_MOST_OF_NAME + 20}}}))"
)
_LINKS = ("http://", "https://", "mailto:", "#")
_UNLINKED = "\u2060"  # nothing to be seen; but what stands on both sides of it is no link
_NO_SENTENCE = "Hidden tests ran here; their text is not shown."


class GetMarks(GetGrades):
    """Puts scores and comments into a notebook as nbgrader does, and which marks are open or given by hand."""

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        """Change one cell in place."""
        super().preprocess_cell(cell, resources, cell_index)
        if is_grade(cell) or is_task(cell):
            about = cell.metadata.nbgrader
            grade = self.gradebook.find_grade(about["grade_id"], self.notebook_id, self.assignment_id, self.student_id)
            mark = mark_of(grade)
            about["open"], about["by_hand"] = mark.is_open, mark.by_hand
        return cell, resources


class SafeFeedback(Preprocessor):
    """Hides the text of hidden tests, and makes outputs and texts harmless, in a notebook that becomes feedback."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"enabled": True, **options})
        hidden = ClearHiddenTests(parent=self)
        begin, end = (re.escape(text) for text in (hidden.begin_test_delimeter, hidden.end_test_delimeter))
        self._hidden = re.compile(rf"^[^\n]*{begin}.*?(?:{end}[^\n]*|\Z)", re.MULTILINE | re.DOTALL)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Change the notebook in place."""
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = harmless_outputs(cell.outputs)
                self._hide(cell)
            else:
                set_pictures(cell, cell.get("attachments"))
                if cell.metadata.get("nbgrader", {}).get("solution"):
                    cell.source = harmless_text(cell.source, cell.get("attachments", ()))
        return nb, resources

    def _hide(self, cell: NotebookNode) -> None:
        regions = self._hidden.findall(cell.source)
        if not regions:
            return
        sentences = [f"# {_sentence(region)}" for region in regions]
        shown = self._hidden.sub("", cell.source).strip()
        has_code = any(line and not line.startswith("#") for line in shown.splitlines())
        cell.source = "\n".join([shown, *sentences] if has_code else sentences)
        for output in cell.outputs:
            if output.output_type == "error":
                output.traceback = _message(output)


def harmless_outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs without HTML, JavaScript and whatever else a browser would run or a terminal obey: text and pictures."""
    kept = []
    for output in outputs:
        if "data" in output:
            output.data = {kind: _lines(data) for kind, data in output.data.items() if kind in _HARMLESS}
        for name in ("text", "ename", "evalue", "traceback"):
            if name in output:
                output[name] = _lines(output[name])
        if output.output_type in ("stream", "error") or output.get("data"):
            kept.append(output)
    return kept


def _lines(text: Any) -> Any:
    return [printable_lines(line) for line in text] if isinstance(text, list) else printable_lines(text)


def harmless_text(markdown: str, pictures: Collection[str] = ()) -> str:
    """Markdown whose HTML shows as text, and whose links lead to web pages, or to pictures in the cell.

    Args:
        markdown: anybody's.
        pictures: names of those that are pasted into the cell. nbgrader stops at a link to one that is missing.
    """

    def link(found: re.Match[str]) -> str:
        target = found[2].removeprefix("attachment:")
        is_picture = target != found[2] and target in pictures
        return found[0] if is_picture or found[2].startswith(_LINKS) else f"]{_UNLINKED}{found[1]}"

    return _DESTINATION.sub(link, _TAG.sub("&lt;", markdown))


def _sentence(region: str) -> str:
    found = _SENTENCE.search(region)
    return found[1].strip() if found else _NO_SENTENCE


def _message(output: NotebookNode) -> list[str]:
    """What an error says, without the lines of code that led to it."""
    if output.ename == "CheckFailed":
        return list(output.evalue.splitlines())
    return f"{output.ename}: {output.evalue}".splitlines()

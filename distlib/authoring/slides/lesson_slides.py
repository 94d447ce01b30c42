"""Which cell of a lesson gets which place in its slides, by a rule; nobody marks cells by hand.

a heading                     a slide: the heading, its first paragraph, and what that announces by a colon; what
                              follows are notes for the speaker
a list of aims, "In short"    slides with some of its sentences each
a cell that shows a picture   a slide below that one: the heading, and the picture without its code
all else                      other text: notes; other code, answers, and checks of the text: left out
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from distlib.authoring.cells import CHECK
from distlib.folded_answers import is_answer

_HEADING = re.compile(r"#{1,3} ")
_ITEM = re.compile(r"(?m)^(?=- |\d+\. )")
_ITEMS_A_SLIDE = 6
_LETTERS_A_SLIDE = 480
PICTURE = "picture"  # the tag of a cell whose input is not shown
_NO_ITEMS = re.compile(r"(?m)^\*\*Time:\*\*[\s\S]*\Z")


def slides_of(lesson: NotebookNode) -> NotebookNode:
    """The slides of a lesson that has run: a notebook in which each cell says where it stands."""
    return new_notebook(cells=list(_slides(lesson)), metadata=lesson.metadata)


def _slides(lesson: NotebookNode) -> Iterator[NotebookNode]:
    title = ""
    for cell in lesson.cells:
        if cell.cell_type == "markdown" and _HEADING.match(cell.source):
            title = cell.source.splitlines()[0].lstrip("# ")
            yield from _of_heading(cell.source)
        elif cell.cell_type == "markdown" and title:
            yield _placed(cell.source, "notes")
        elif cell.cell_type == "code" and (pictures := _pictures(cell)):
            yield _placed(f"### {title}", "subslide")
            yield _only_pictures(cell, pictures)


def _of_heading(text: str) -> Iterator[NotebookNode]:
    """The slides of a text that begins with a heading, and its notes."""
    heading, _, rest = text.partition("\n")
    if heading.startswith("# ") or heading.lower().endswith("in short"):
        first, *items = (item.strip() for item in _ITEM.split(_NO_ITEMS.sub("", rest)))
        for number, group in enumerate(_grouped(items) or [[]]):
            lines = [heading, "" if number else first, *group]
            yield _placed("\n\n".join(filter(None, lines)), "subslide" if number else "slide")
        return
    paragraphs = re.split(r"\n\s*\n", rest.strip())
    shown = 2 if paragraphs[0].endswith(":") or _HEADING.match(paragraphs[0]) else 1
    yield _placed("\n\n".join(filter(None, [heading, *paragraphs[:shown]])), "slide")
    if paragraphs[shown:]:
        yield _placed("\n\n".join(paragraphs[shown:]), "notes")


def _grouped(items: list[str]) -> list[list[str]]:
    """Sentences in as few slides as have room for them, about equally many in each."""
    slides = max(math.ceil(len(items) / _ITEMS_A_SLIDE), math.ceil(sum(map(len, items)) / _LETTERS_A_SLIDE))
    cuts = [len(items) * number // slides for number in range(slides + 1)] if slides else []
    return [items[start:end] for start, end in pairwise(cuts)]


def _placed(text: str, kind: str) -> NotebookNode:
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})


def _pictures(cell: NotebookNode) -> list[NotebookNode]:
    """The outputs of a cell that are pictures. An answer and a check of the text have none."""
    if is_answer(cell.source) or cell.source.startswith(CHECK):
        return []
    return [output for output in cell.outputs if _is_picture(output.get("data", {}))]


def _is_picture(data: Any) -> bool:
    return any(kind.startswith("image/") for kind in data) or "<img" in data.get("text/html", "")


def _only_pictures(cell: NotebookNode, pictures: list[NotebookNode]) -> NotebookNode:
    """The cell below its heading, with its pictures and no other output, and its code tagged to be left out."""
    shown = nbformat.from_dict({**cell, "outputs": pictures})
    shown.metadata = nbformat.from_dict({"slideshow": {"slide_type": "-"}, "tags": [PICTURE]})
    return shown

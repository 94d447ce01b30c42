"""Slides of a lesson, from its pictures: `make slides ARGS=02`.

They are made of a stored run of the lesson. Each cell gets its place by a rule; nobody marks cells by hand.

    a heading                     a slide: the heading and its first paragraph; what follows are notes for the speaker
    "In short"                    slides with four of its sentences each
    a cell that shows a picture   a slide below that one: the heading, and the picture without its code
    all else                      other text: notes; other code, and what is folded: left out

nbconvert's exporter for slides makes a page of it, for reveal.js. The page loads that from the network when it is
shown, or from a folder that you name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from traitlets.config import Config

from distlib.authoring.cells import FOLDED

_HEADING = re.compile(r"#{1,3} ")
_ITEM = re.compile(r"(?m)^(?=- |\d+\. )")
_ITEMS_A_SLIDE = 4
_PICTURE = "picture"  # the tag of a cell whose input is not shown
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
        items = [item.strip() for item in _ITEM.split(_NO_ITEMS.sub("", rest))]
        first, items = items[0], items[1:]
        for start in range(0, len(items), _ITEMS_A_SLIDE):
            lines = [heading, "" if start else first, *items[start : start + _ITEMS_A_SLIDE]]
            yield _placed("\n\n".join(filter(None, lines)), "subslide" if start else "slide")
        if not items:
            yield _placed(f"{heading}\n\n{first}", "slide")
        return
    paragraphs = re.split(r"\n\s*\n", rest.strip())
    yield _placed("\n\n".join(filter(None, [heading, paragraphs[0]])), "slide")
    if paragraphs[1:]:
        yield _placed("\n\n".join(paragraphs[1:]), "notes")


def _placed(text: str, place: str) -> NotebookNode:
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": place}})


def _pictures(cell: NotebookNode) -> list[NotebookNode]:
    """The outputs of a cell that are pictures. What is folded in the lesson has none."""
    if FOLDED in cell.metadata.get("tags", []):
        return []
    return [output for output in cell.outputs if _is_picture(output.get("data", {}))]


def _is_picture(data: Any) -> bool:
    return any(kind.startswith("image/") for kind in data) or "<img" in data.get("text/html", "")


def _only_pictures(cell: NotebookNode, pictures: list[NotebookNode]) -> NotebookNode:
    """The cell below its heading, with its pictures and no other output, and its code tagged to be left out."""
    shown = nbformat.from_dict({**cell, "outputs": pictures})
    shown.metadata = nbformat.from_dict({"slideshow": {"slide_type": "-"}, "tags": [_PICTURE]})
    return shown


def write_slides(lesson: NotebookNode, target: Path, reveal: str = "") -> int:
    """Write the slides of a lesson that has run, one HTML file. Returns how many slides have a picture.

    Args:
        lesson: a notebook with its outputs.
        target: the file; its folder is made.
        reveal: where reveal.js is, an address or a folder next to the file; its public one without it.
    """
    slides = slides_of(lesson)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(slides_html(slides, reveal), encoding="utf-8")
    return sum(_PICTURE in cell.metadata.get("tags", []) for cell in slides.cells)


def slides_html(slides: NotebookNode, reveal: str = "") -> str:
    """The page of nbconvert's exporter for slides."""
    config = Config()
    config.TagRemovePreprocessor.enabled = True
    config.TagRemovePreprocessor.remove_input_tags = {_PICTURE}
    config.SlidesExporter.exclude_input_prompt = config.SlidesExporter.exclude_output_prompt = True
    config.SlidesExporter.reveal_scroll = True
    if reveal:
        config.SlidesExporter.reveal_url_prefix = reveal
    page, _ = SlidesExporter(config=config).from_notebook_node(slides)
    return str(page)

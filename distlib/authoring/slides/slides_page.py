"""The page of a lesson's slides, for reveal.js, which it loads from the network or from a folder that you name.

All else is in the page: pictures are images, and formulas are MathML, which browsers draw.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbconvert import SlidesExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from traitlets.config import Config

from distlib.authoring.mathml import to_mathml
from distlib.authoring.slides.lesson_slides import PICTURE, slides_of

_PAGE = Path(__file__).with_name("page.html.j2")


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
    return sum(PICTURE in cell.metadata.get("tags", []) for cell in slides.cells)


def slides_html(slides: NotebookNode, reveal: str = "") -> str:
    """The page. slides: see `slides_of`; reveal: see `write_slides`."""
    config = Config()
    config.TagRemovePreprocessor.enabled = True
    config.TagRemovePreprocessor.remove_input_tags = {PICTURE}
    config.SlidesExporter.exclude_input_prompt = config.SlidesExporter.exclude_output_prompt = True
    config.SlidesExporter.exclude_anchor_links = True
    config.SlidesExporter.reveal_theme = "white"  # others load their fonts from elsewhere
    if reveal:
        config.SlidesExporter.reveal_url_prefix = reveal
    page, _ = _SlidesPage(config=config, raw_template=_PAGE.read_text(encoding="utf-8")).from_notebook_node(slides)
    return str(page)


class _SlidesPage(SlidesExporter):
    """nbconvert's exporter, whose formulas need no script."""

    def default_filters(self) -> Any:
        """With Markdown as `_WithMathML` writes it."""
        yield from super().default_filters()
        yield "markdown2html", lambda text: MarkdownWithMath(renderer=_WithMathML(escape=False)).render(text)


class _WithMathML(IPythonRenderer):
    """Markdown to HTML, with formulas as MathML."""

    def inline_math(self, body: str) -> str:
        """A formula within a line."""
        return to_mathml(body)

    def block_math(self, body: str) -> str:
        """A formula with lines of its own."""
        return to_mathml(body, as_block=True)

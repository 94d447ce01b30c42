"""A notebook that has run, as HTML that runs nothing: cells with their numbers, numbered lines, outputs.

Text cells may have formatting, links to web pages, and pictures that are pasted into them. Everything else that HTML
can do is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bleach
from markupsafe import Markup
from nbconvert.filters import strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from distlib.classroom.grader.pictures import KINDS, set_pictures
from distlib.classroom.pages import lines_of, render

_MOST_CHARACTERS = 200_000  # of a cell that is formatted; a longer one is shown as it is
_MOST_PLAIN = 20_000  # of a cell that is shown as it stands there because the notebook takes too long
_MOST_OF_WORDS = 5_000  # characters, of what a picture shows
_TAGS = (
    "a abbr b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre s span strong "
    "sub summary sup table tbody td th thead tr ul"
).split()
# CSS for the colors of code, as `notebook.css` includes it.
COLORS = {
    paper: Markup(HtmlFormatter(style=style).get_style_defs(".code"))
    for paper, style in (("light", "default"), ("dark", "github-dark"))
}
_LINKS = ("http://", "https://", "mailto:", "#")


@dataclass(frozen=True)
class _ShownOutput:
    """An output of a cell: a picture, as an address that holds its bytes, or text.

    Attributes:
        text: what the cell has printed; of a picture, what it shows.
        kind: its class in CSS.
        picture: "" for text.
    """

    text: str
    kind: str = "output"
    picture: str = ""


@dataclass(frozen=True)
class _ShownCell:
    """A cell as `notebook.html` shows it."""

    content: Markup
    is_code: bool = False
    number: int | str = ""
    outputs: Sequence[_ShownOutput] = ()


def notebook_html(notebook: NotebookNode, is_plain: bool = False) -> Markup:
    """All cells, in their order. A code cell has the id "cell-7", its lines have ids such as "cell-7-line-12".

    is_plain: without formatting, colors and ids of lines.
    """
    shown = _shown_plainly if is_plain else _shown_cell
    return Markup(render("notebook.html", cells=map(shown, notebook.cells)))


def plain_html(text: str, number: object = "") -> Markup:
    """The text of a cell, as it stands there; of a long one the beginning. number: not shown."""
    shown = text if len(text) <= _MOST_PLAIN else f"{text[:_MOST_PLAIN]}\n… {len(text) - _MOST_PLAIN:,} more characters"
    return _uncolored(shown)


def text_html(markdown: str, attachments: Any = None) -> Markup:
    """Markdown as harmless HTML.

    Args:
        markdown: anybody's.
        attachments: pictures pasted into the cell, as in a notebook.
    """
    pictures = _Pictures(attachments)
    if len(markdown) > _MOST_CHARACTERS:
        return Markup("<pre>{}</pre>").format(lines_of(markdown))
    try:
        return _cleaned(MarkdownWithMath(renderer=pictures).render(markdown))
    except Exception:  # thousands of nested quotes, and what else somebody may think of
        return Markup("<pre>{}</pre>").format(lines_of(markdown))


def code_html(source: str, number: object = "") -> Markup:
    """A code cell's text. number: the cell's, for the ids of its lines."""
    source = "".join(sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in source)
    if len(source) > _MOST_CHARACTERS:
        return _uncolored(source)
    formatter = HtmlFormatter(cssclass="code", linespans=f"cell-{number}-line")
    return Markup(highlight(source, PythonLexer(stripnl=False), formatter).replace("<pre><span></span>", "<pre>"))


def _uncolored(source: str) -> Markup:
    return Markup('<div class="code"><pre>{}</pre></div>').format(lines_of(source))


def _shown_cell(cell: NotebookNode) -> _ShownCell:
    if cell.cell_type != "code":
        return _ShownCell(text_html(cell.source, cell.get("attachments")))
    number = cell.execution_count or ""
    return _ShownCell(code_html(cell.source, number), True, number, _shown_outputs(cell))


def _shown_plainly(cell: NotebookNode) -> _ShownCell:
    if cell.cell_type != "code":
        return _ShownCell(plain_html(cell.source))
    return _ShownCell(plain_html(cell.source), True, cell.execution_count or "", _shown_outputs(cell))


def _shown_outputs(cell: NotebookNode) -> list[_ShownOutput]:
    return list(filter(None, map(_shown_output, cell.outputs)))


def _shown_output(output: NotebookNode) -> _ShownOutput | None:
    if output.output_type == "stream":
        return _ShownOutput(strip_ansi(output.text))
    if output.output_type == "error":
        return _ShownOutput(strip_ansi("\n".join(output.traceback)), "output error")
    data = output.get("data", {})
    for kind in KINDS:
        picture = NotebookNode()
        set_pictures(picture, {"it": {kind: data.get(kind)}})
        if picture:
            return _ShownOutput(_shows(data), picture=_source(picture.attachments["it"]))
    return _ShownOutput(strip_ansi(str(data["text/plain"]))) if "text/plain" in data else None


def _shows(data: Mapping[str, Any]) -> str:
    """What a picture shows. One of `distlib.draw` says it as plain text; others say "<Figure size 640x480 …>"."""
    words = " ".join(str(data.get("text/plain", "")).split())
    return "a picture" if not words or words.startswith("<") else words[:_MOST_OF_WORDS]


class _Pictures(IPythonRenderer):
    """Shows pictures that are pasted into a cell, and no others: of one that is missing, its name."""

    def __init__(self, attachments: Any) -> None:
        super().__init__(escape=False, exclude_anchor_links=True)
        cell = NotebookNode()
        set_pictures(cell, attachments)
        self.kept = {name: _source(data) for name, data in cell.get("attachments", {}).items()}

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """The picture, or what stands for it."""
        source = self.kept.get(url.removeprefix("attachment:"))
        return f'<img alt="{bleach.clean(text)}" src="{source}">' if source else f"[{bleach.clean(text or 'picture')}]"

    def block_code(self, code: str, info: str | None = None) -> str:
        """Without colors; its own box."""
        return str(_uncolored(code))


def _source(picture: Mapping[str, str]) -> str:
    (kind, data), *_ = picture.items()
    return f"data:{kind};base64,{''.join(data.split())}"


def _cleaned(html: str) -> Markup:
    protocols = {"http", "https", "mailto", "data"}
    return Markup(bleach.clean(html, tags=set(_TAGS), attributes=_is_harmless, protocols=protocols))


def _is_harmless(tag: str, name: str, value: str) -> bool:
    if tag == "a" and name == "href":
        return value.startswith(_LINKS)
    if tag == "img" and name == "src":
        return bool(re.fullmatch(rf"data:(?:{'|'.join(KINDS)});base64,[A-Za-z0-9+/=]+", value))
    if tag == "div" and name == "class":
        return value == "code"
    return (tag, name) in {("img", "alt"), ("th", "style"), ("td", "style")} and name != "style"

"""A notebook that has run, as HTML that runs nothing: cells with their numbers, numbered lines, outputs.

Text cells may have formatting, links to web pages, and pictures that are pasted into them. Everything else that HTML
can do is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import bleach
from nbconvert.filters import strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from distlib.classroom.grader.page import lines_of, plain
from distlib.classroom.grader.pictures import KINDS, set_pictures

_MOST_CHARACTERS = 200_000  # of a cell that is formatted; a longer one is shown as it is
_MOST_OF_WORDS = 5_000  # characters, of what a picture shows
_TAGS = (
    "a abbr b blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre s span strong "
    "sub summary sup table tbody td th thead tr ul"
).split()
_LINKS = ("http://", "https://", "mailto:", "#")
_COLORS = HtmlFormatter(style="default"), HtmlFormatter(style="github-dark")

STYLE = f"""
.cell {{ display: grid; grid-template-columns: 3.5rem minmax(0, 1fr); margin: 1rem 0; }}
.cell > .count {{ color: var(--dim); font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .8em; }}
.cell img {{ max-width: 100%; }} .cell h1, .cell h2 {{ font-size: 1.15rem; }} .cell h3 {{ font-size: 1rem; }}
.cell table {{ display: block; overflow-x: auto; }}
.code {{ background: var(--page); border: 1px solid var(--line); border-radius: 4px; padding: .4rem .6rem;
  overflow-x: auto; }}
.code pre {{ margin: 0; counter-reset: line; }}
.code pre > span {{ counter-increment: line; }}
.code pre > span::before {{ content: counter(line); display: inline-block; width: 2.2em; margin-right: .9em;
  text-align: right; color: var(--dim); user-select: none; }}
.code span:target {{ background: var(--bad-soft); }}
.output {{ white-space: pre-wrap; margin: .4rem 0 0; padding-left: .6rem; border-left: 3px solid var(--line); }}
.output.error {{ border-color: var(--bad); }}
@media (max-width: 40rem) {{ .cell {{ grid-template-columns: minmax(0, 1fr); }} }}
{_COLORS[0].get_style_defs(".code")}
@media (prefers-color-scheme: dark) {{ {_COLORS[1].get_style_defs(".code")} }}
.code {{ background: var(--page); }} .code .err {{ border: none; color: inherit; background: none; }}
"""


def notebook_html(notebook: NotebookNode) -> str:
    """All cells, in their order. A code cell has the id "cell-7", its lines have ids such as "cell-7-line-12"."""
    return "\n".join(map(_cell, notebook.cells))


def text_html(markdown: str, attachments: Any = None) -> str:
    """Markdown as harmless HTML.

    Args:
        markdown: anybody's.
        attachments: pictures pasted into the cell, as in a notebook.
    """
    pictures = _Pictures(attachments)
    if len(markdown) > _MOST_CHARACTERS:
        return f"<pre>{lines_of(markdown)}</pre>"
    try:
        return _cleaned(MarkdownWithMath(renderer=pictures).render(markdown))
    except Exception:  # thousands of nested quotes, and what else somebody may think of
        return f"<pre>{lines_of(markdown)}</pre>"


def code_html(source: str, number: object = "") -> str:
    """A code cell's text. number: the cell's, for the ids of its lines."""
    source = "".join(sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in source)
    if len(source) > _MOST_CHARACTERS:
        return f'<div class="code"><pre>{lines_of(source)}</pre></div>'
    formatter = HtmlFormatter(cssclass="code", linespans=f"cell-{number}-line")
    return str(highlight(source, PythonLexer(stripnl=False), formatter)).replace("<pre><span></span>", "<pre>")


def _cell(cell: NotebookNode) -> str:
    if cell.cell_type != "code":
        content = text_html(cell.source, cell.get("attachments"))
        return f'<div class="cell"><div class="count"></div><div>{content}</div></div>'
    number = cell.execution_count or ""
    outputs = "".join(map(_output, cell.outputs))
    source = code_html(cell.source, number)
    return (
        f'<div class="cell" id="cell-{number}"><div class="count">[{number}]</div>'
        f'<div tabindex="-1">{source}{outputs}</div></div>'
    )


def _output(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return _printed(output.text, "output")
    if output.output_type == "error":
        return _printed("\n".join(output.traceback), "output error")
    data = output.get("data", {})
    for kind in KINDS:
        picture = NotebookNode()
        set_pictures(picture, {"it": {kind: data.get(kind)}})
        if picture:
            return f'<img alt="{_shows(data)}" src="{_source(picture.attachments["it"])}">'
    return _printed(str(data["text/plain"]), "output") if "text/plain" in data else ""


def _shows(data: Mapping[str, Any]) -> str:
    """What a picture shows. One of `distlib.draw` says it as plain text; others say "<Figure size 640x480 …>"."""
    words = " ".join(str(data.get("text/plain", "")).split())
    return "a picture" if not words or words.startswith("<") else plain(words[:_MOST_OF_WORDS])


def _printed(text: str, kind: str) -> str:
    return f'<pre class="{kind}">{lines_of(strip_ansi(text))}</pre>'


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
        return f'<div class="code"><pre>{lines_of(code)}</pre></div>'


def _source(picture: Mapping[str, str]) -> str:
    (kind, data), *_ = picture.items()
    return f"data:{kind};base64,{''.join(data.split())}"


def _cleaned(html: str) -> str:
    protocols = {"http", "https", "mailto", "data"}
    return str(bleach.clean(html, tags=set(_TAGS), attributes=_is_harmless, protocols=protocols))


def _is_harmless(tag: str, name: str, value: str) -> bool:
    if tag == "a" and name == "href":
        return value.startswith(_LINKS)
    if tag == "img" and name == "src":
        return bool(re.fullmatch(rf"data:(?:{'|'.join(KINDS)});base64,[A-Za-z0-9+/=]+", value))
    if tag == "div" and name == "class":
        return value == "code"
    return (tag, name) in {("img", "alt"), ("th", "style"), ("td", "style")} and name != "style"

"""A widget, and what stands for it where there is none: two outputs of a cell, one of which is seen.

JupyterLab shows the richest part of an output that it knows, and never another part of it: a notebook opened again
without its kernel says "model not found" in place of a widget. So what stands for the widget is an output of its own,
and a style sheet that comes with it hides whichever is not needed: it depends on whether the widget has drawn itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

BROWSER = Path(__file__).parent / "browser"
"""The folder of what is sent to the browser."""


def show_live(widget: Any, words: str, instead: str, text: str = "") -> Any:
    """Show a widget with the class "distlib-live" at or below its root; returns the handle of what stands for it.

    Args:
        widget: an ipywidget.
        words: the widget as plain text.
        instead: what is seen where there is no widget, as HTML.
        text: the same as plain text.
    """
    from IPython.display import display

    view = widget._repr_mimebundle_()
    data, metadata = view if isinstance(view, tuple) else (view or {}, {})
    # A notebook that is not trusted shows the HTML instead of the widget: nothing, since what stands for it follows.
    display({**data, "text/plain": words, "text/html": "<span></span>"}, metadata=metadata, raw=True)
    return display({"text/plain": text, "text/html": instead_html(instead)}, raw=True, display_id=True)


def instead_html(content: str) -> str:
    """`content` with the style sheet that hides it next to a widget that has drawn itself."""
    style = (BROWSER / "still.css").read_text()
    return f'<style>{style}</style><div class="distlib-still">{content}</div>'

"""What a screen reader would find nothing to say about: pictures and widgets without words, in a notebook's outputs."""

from __future__ import annotations

import html.parser
import re
from collections.abc import Iterator, Mapping
from typing import Any

FEWEST = 25  # characters: "figure", "plot of the times" and the like describe nothing
_WORDS = {"PlayerWidget": "scene", "PredictionForm": "question", "Slider": "label"}
"""Our widgets, and what names each; `browser/*.js` gives it to what they are made of."""
_FRAMES = {"VBoxModel", "HBoxModel", "LayoutModel"}
_OTHERS = ("svg", "canvas", "video", "audio", "iframe", "object", "input", "select", "button")


class _Page(html.parser.HTMLParser):
    """The pictures of a piece of HTML, as their alternative texts, and what nobody can describe in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.pictures: list[str] = []
        self.others: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.pictures.append(dict(attrs).get("alt") or "")
        self.others += [tag] * (tag in _OTHERS)


def descriptions(data: Mapping[str, Any]) -> list[str]:
    """The alternative text of each picture that an output shows; "" for one without."""
    page = _Page(str(data.get("text/html", "")))
    bare = any(kind.startswith("image/") for kind in data) and not page.pictures
    return [*page.pictures, *[""] * bare]


def undescribed(data: Mapping[str, Any]) -> Iterator[str]:
    """What is without words in one output. `data`: by MIME type."""
    for words in descriptions(data):
        if len(words) < FEWEST or not re.search(r"\d", words):
            yield f"a picture that says {words!r}: return a Picture with an alt that is computed from what it shows"
    for tag in _Page(str(data.get("text/html", ""))).others:
        yield f"<{tag}>, which nothing describes: show a Picture, or a widget of distlib.draw"
    if "application/vnd.jupyter.widget-view+json" in data and len(str(data.get("text/plain", ""))) < FEWEST:
        yield "a widget without words in its place: show it with show_live"


def unnamed(state: Mapping[str, Any]) -> Iterator[str]:
    """What is without a name in a widget. `state`: as `widget.get_state()` gives it, and a saved notebook has it."""
    kind = str(state.get("_anywidget_id") or state["_model_name"]).rpartition(".")[2]
    if kind in _FRAMES:
        return
    if kind not in _WORDS:
        yield f"{kind}: a screen reader reads no name of it; take Slider, PredictionForm or PlayerWidget"
        return
    name = state[_WORDS[kind]]
    texts = [name] if isinstance(name, str) else [name["title"], *(step.get("words", "") for step in name["steps"])]
    yield from (f"{kind} without words" for text in texts if not text.strip())


def undescribed_in(notebook: Mapping[str, Any]) -> list[str]:
    """What is without words in a notebook that has run."""
    found = []
    for number, cell in enumerate(notebook["cells"]):
        outputs = (output.get("data", {}) for output in cell.get("outputs", []))
        found += [f"cell {number}: {what}" for data in outputs for what in undescribed(data)]
    widgets = notebook["metadata"].get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {})
    states = [model["state"] | {"_model_name": model["model_name"]} for model in widgets.get("state", {}).values()]
    return found + [what for state in states for what in unnamed(state)]

"""Pictures of a student's own runs, out of the outputs that a notebook holds. Nothing in them can run or load anything.

Pixels are taken as they are. A drawing (SVG) could hold a program, so it is taken only if each of its elements and
attributes is one that only draws; and the page shows it as an image, in which a browser runs nothing either.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

from distlib.classroom.student_copies.notebook_json import Cell, Notebook, content_of

_MOST_CHARACTERS = 2 << 20  # of one image, in base64
_SOURCE = re.compile(r"data:(image/(?:png|jpeg|svg\+xml));base64,([A-Za-z0-9+/]+={0,2})")
_BEGIN = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_DRAWS = set(
    "svg g defs pattern path rect line circle ellipse polygon polyline text tspan title desc marker clipPath".split()
)
_PLAYED = re.compile(r"^(?:Level|Hole) \d")  # a game's
_FAILED = re.compile(r": 0 points\b|can't be played|More than is allowed")  # what a picture of a game says that is lost
_MOST_WORDS = 400  # characters of what a picture shows


@dataclass(frozen=True)
class RunPicture:
    """A picture.

    Attributes:
        light, dark: the image for each paper, as an address that holds its bytes; dark may be "".
        alt: what it shows, in words.
        is_own: whether it came from a cell that the student has written or changed.
    """

    light: str
    dark: str
    alt: str
    is_own: bool


def best_picture(original: Notebook, mine: Notebook) -> RunPicture | None:
    """The picture of a notebook that shows most; None if it holds none.

    One of a game is left out if it was lost, or if a cell has played it as the course has given it out.

    That is one from a cell of the student's before one from a cell of the course, then the one with most in it.

    Args:
        original: the notebook of the course.
        mine: the student's, with its outputs.
    """
    course = {content_of(cell) for cell in original["cells"]}
    found = [picture for cell in mine["cells"] for picture in _pictures(cell, content_of(cell) not in course)]
    return max(found, key=lambda picture: (picture.is_own, len(picture.light)), default=None)


def _pictures(cell: Cell, is_own: bool) -> Iterator[RunPicture]:
    outputs = cell.get("outputs")
    entries = [each for each in outputs if isinstance(each, dict)] if isinstance(outputs, list) else []
    if any(each.get("output_type") == "error" for each in entries):
        return
    for entry in entries:
        data = entry.get("data")
        picture = _picture(data, is_own) if isinstance(data, dict) else None
        if picture and not _FAILED.search(picture.alt) and (is_own or not _PLAYED.search(picture.alt)):
            yield picture


def _picture(data: dict[str, Any], is_own: bool) -> RunPicture | None:
    """The picture in an output: on both papers where `distlib.draw` has made it, else its pixels."""
    images = _Images()
    html = _text(data.get("text/html"))
    if len(html) <= 2 * _MOST_CHARACTERS and "<pre" not in html:  # below a picture it is a warning
        images.feed(html)
    if light := images.sources.get("distlib-light"):
        return RunPicture(light, images.sources.get("distlib-dark", ""), images.alt[:_MOST_WORDS], is_own)
    pixels = harmless(f"data:image/png;base64,{''.join(_text(data.get('image/png')).split())}")
    is_ours = "distlib-" in html
    return RunPicture(pixels, "", "A picture of a run", is_own) if pixels and not is_ours else None


def _text(data: Any) -> str:
    return "".join(map(str, data)) if isinstance(data, list) else data if isinstance(data, str) else ""


class _Images(HTMLParser):
    """The images of `distlib.draw` in HTML, by their class, and what they show."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[str, str] = {}
        self.alt = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes an image whose bytes are harmless."""
        said = {name: value or "" for name, value in attrs}
        if tag == "img" and (source := harmless(said.get("src", ""))):
            self.sources.setdefault(said.get("class", ""), source)
            self.alt = said.get("alt", "")


def harmless(source: str) -> str:
    """The address of an image, if it holds bytes that only draw; else "".

    Args:
        source: such as "data:image/png;base64,iVBORw0…".
    """
    found = _SOURCE.fullmatch(source) if len(source) <= _MOST_CHARACTERS else None
    if found is None:
        return ""
    try:
        content = base64.b64decode(found[2], validate=True)
    except binascii.Error:
        return ""
    only_draws = _only_draws(content) if found[1] == "image/svg+xml" else content.startswith(_BEGIN[found[1]])
    return source if only_draws else ""


def _only_draws(svg: bytes) -> bool:
    try:
        text = svg.decode("utf-8")
        if "<!" in text or "<?" in text:  # a document type could define what elements are made of
            return False
        root = ElementTree.fromstring(text)
    except (UnicodeDecodeError, ElementTree.ParseError):
        return False
    return root.tag.endswith("svg") and all(_draws(element) for element in root.iter())


def _draws(element: ElementTree.Element) -> bool:
    names = [name.rpartition("}")[2].lower() for name in element.attrib]
    refers = any("url(" in value.lower().replace("url(#", "") or ":" in value for value in element.attrib.values())
    return element.tag.rpartition("}")[2] in _DRAWS and not refers and not any(_is_active(name) for name in names)


def _is_active(name: str) -> bool:
    return name.startswith("on") or name in ("href", "style", "src")

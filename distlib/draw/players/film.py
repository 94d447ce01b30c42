"""Pictures that move by themselves: SVG with SMIL, which plays also inside an <img>, where no script runs."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from distlib.draw.style import INK, LIGHT_PAPER


class Film:
    """The moments of a film, as fractions of its length. It begins again when it is over.

    Attributes:
        seconds: its length.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def show(self, element: Element, first: float, end: float) -> None:
        """Let an element be seen from one moment to another only."""
        if (first, end) == (0.0, 1.0):
            return
        moments = [(0.0, "0"), (first, "1"), (end, "0")] if first else [(0.0, "1"), (end, "0")]
        moments = [moment for moment in moments if moment[0] < 1.0]
        self.animate(element, "animate", moments, {"attributeName": "opacity", "calcMode": "discrete"})

    def animate(self, element: Element, kind: str, moments: Sequence[tuple[float, str]], more: dict[str, str]) -> None:
        """Give an attribute of an element its value at each moment."""
        times, values = (";".join(words) for words in zip(*((f"{t:.4f}", value) for t, value in moments), strict=True))
        timing = {"values": values, "keyTimes": times, "dur": f"{self.seconds:g}s", "repeatCount": "indefinite"}
        SubElement(element, kind, more | timing)


def new_paper(width: int, height: int, title: str) -> Element:
    """An SVG document on paper of its own, so that it can be read on light and on dark pages."""
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}"})
    svg.attrib |= {"width": str(width), "font-family": "DejaVu Sans, Verdana, sans-serif", "fill": INK}
    SubElement(svg, "title").text = title
    paper = {"x": "1", "y": "1", "width": str(width - 2), "height": str(height - 2), "rx": "10"}
    SubElement(svg, "rect", paper | {"fill": LIGHT_PAPER, "stroke": "#BBBBBB"})
    return svg


def write(parent: Element, x: float, y: float, words: str, size: float, bold: bool = False) -> Element:
    """Words in the middle of a place."""
    look = {"x": f"{x:g}", "y": f"{y:g}", "font-size": f"{size:g}", "text-anchor": "middle"}
    text = SubElement(parent, "text", look | ({"font-weight": "bold"} if bold else {}))
    text.text = words
    return text


def document(svg: Element) -> str:
    """The text of an SVG document, a line for each element."""
    indent(svg, " ")
    return tostring(svg, encoding="unicode") + "\n"

"""What a player shows: shapes, each of which is there during some of the steps, and each step in words.

    step      0    1    2    3
    shape A   ■    ■    ■    ■      first=0            the background
    shape B        ■    ■    ■      first=1            a message that was sent in step 1
    shape C             ■           first=2, end=3     what a cell held after step 2 only

It is computed once, in Python, and sent to the browser as plain data; `browser/player.js` only shows and hides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

INK = "currentColor"
"""The color of the text around the player, light or dark: for text, axes and outlines."""

Look = Mapping[str, str | float]
"""Attributes of an SVG element. A color "hatch:#E69F00" is a hatching in that color."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Shape:
    """One SVG element.

    Attributes:
        tag: its name in SVG: "rect", "path", "circle", "text".
        attributes: how it looks, and where it is.
        first: the first step in which it is there.
        end: the first step in which it is there no longer; None: it stays.
        text: the words of a "text".
        tip: what is shown while a pointer is on it; lines are kept.
        fades: whether it is pale after its first step.
        sticks: whether it stays in sight, at the left edge, where the picture is scrolled: the name of a lane.
    """

    tag: str
    attributes: Look
    first: int = 0
    end: int | None = None
    text: str = ""
    tip: str = ""
    fades: bool = False
    sticks: bool = False


@dataclass(frozen=True)
class SceneStep:
    """One step in words.

    Attributes:
        name: short: "round 3 of 14".
        words: one or two sentences: what is to be seen. They are read aloud, and are the picture's alternative text.
        details: more sentences, shown as a list: the messages of this step, and all that can be pointed at.
        warning: what is odd from this step on; "" if nothing is.
    """

    name: str
    words: str
    details: Sequence[str] = ()
    warning: str = ""


@dataclass(frozen=True)
class Scene:
    """All that a player needs.

    Attributes:
        title: the headline.
        width, height: in CSS pixels.
        shapes: what is drawn.
        steps: at least one.
        alt: the whole in words: who sends what to whom, and when. A screen reader reads it of the player, and of the
            image that stands for it.
        hint: what there is to point at: "an arrow".
    """

    title: str
    width: float
    height: float
    shapes: Sequence[Shape]
    steps: Sequence[SceneStep]
    alt: str
    hint: str

    @property
    def opens_at(self) -> int:
        """The step that a player opens with: in the midst of the run, when something has moved and more is to come."""
        return len(self.steps) // 2

    def to_data(self) -> dict[str, Any]:
        """The scene as the browser gets it, as JSON has it. What says nothing is left out."""
        return {
            "title": self.title,
            "alt": self.alt,
            "hint": self.hint,
            "width": round(self.width),
            "height": math.ceil(self.height),
            "shapes": [_filled(shape) for shape in self.shapes],
            "steps": [_filled(step) for step in self.steps],
        }


def _filled(thing: Shape | SceneStep) -> dict[str, Any]:
    values = {name: getattr(thing, name) for name in thing.__dataclass_fields__}
    return {name: value for name, value in values.items() if value or name in ("first", "end") and value is not None}


def write(x: float, y: float, words: str, size: float, bold: bool = False, anchor: str = "start", **when: Any) -> Shape:
    """Words whose baseline begins (or is centered, or ends: `anchor`) at a point. `when`: as in `Shape`."""
    look: dict[str, str | float] = {"x": _r(x), "y": _r(y), "font-size": size, "fill": when.pop("fill", INK)}
    look |= {"font-weight": "bold"} if bold else {}
    look |= {"text-anchor": anchor} if anchor != "start" else {}
    return Shape("text", look, text=words, **when)


def box(x: float, y: float, width: float, height: float, look: Look, **when: Any) -> Shape:
    """A rectangle with its top left corner at (x, y)."""
    return Shape("rect", {"x": _r(x), "y": _r(y), "width": _r(width), "height": _r(height), **look}, **when)


def arrow(points: Sequence[tuple[float, float]], color: str, width: float, **when: Any) -> Shape:
    """A line through points with a head at the last."""
    (x, y), (before_x, before_y) = points[-1], points[-2]
    angle = math.atan2(y - before_y, x - before_x)
    left, right = (
        (x - 7 * math.cos(angle + turn), y - 7 * math.sin(angle + turn)) for turn in (math.pi / 7, -math.pi / 7)
    )
    look: dict[str, str | float] = {
        "d": f"{_line(points)} {_line([left, (x, y), right])}",
        "fill": "none",
        "stroke": color,
        "stroke-width": width,
        "stroke-linejoin": "round",
    }
    return Shape("path", look, **when)


def runs(values: Sequence[Value]) -> Iterator[tuple[Value, int, int | None]]:
    """Stretches of equal neighbors: the value, its first index, and the index behind its last, None at the end."""
    first = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[first]:
            yield values[first], first, index if index < len(values) else None
            first = index


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{_r(x)} {_r(y)}" for x, y in points)


def _r(value: float) -> float:
    return round(value, 1)

"""The scene of a memory account: what is alive in the course of a step, kinds stacked, under the limit.

GB │        ▄▄▄▄ activations          From left to right changes follow one another. Where there are more than
   │▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ states           columns, a column shows the fullest of its moments.
   │░░░░░░░░░░░░░░░░ parameters
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distlib.draw.players.scene import INK, Scene, SceneStep, Shape, box, write
from distlib.draw.style import BODY, COLORS, SMALL, TITLE, WIDTH, format_bytes, text_on

_LEFT, _RIGHT, _TOP, _HIGH = 74.0, 150.0, 66.0, 200.0  # CSS pixels: the scale, the key, the titles, the curve
_COLUMNS = 200


def memory_scene(samples: Sequence[Mapping[str, int]], limit: float, title: str, subtitle: str) -> Scene:
    """The scene of a step.

    Args:
        samples: what was alive after each change: kind → bytes, all with the same kinds.
        limit: bytes that there are.
        title, subtitle: the headline and the line below it.
    """
    peak = max(sum(sample.values()) for sample in samples)
    kinds = [kind for kind in samples[0] if any(sample[kind] for sample in samples)]
    columns, pixels = _columns(samples), _HIGH / max(peak, limit)
    shapes = [
        write(6, 20, title, TITLE, bold=True),
        write(6, 42, subtitle, BODY),
        *_areas(columns, kinds, pixels),
        *_key(kinds),
        *_limit(limit, pixels),
        write(_LEFT, _TOP + _HIGH + 18, "from the first change of the step to the last", SMALL),
    ]
    words = f"{title}. {subtitle}. At most {format_bytes(peak)} are alive, of {format_bytes(int(limit))}."
    return Scene(title, WIDTH, _TOP + _HIGH + 30, shapes, [SceneStep("", words)], words, "an area")


def _columns(samples: Sequence[Mapping[str, int]]) -> list[Mapping[str, int]]:
    number = min(_COLUMNS, len(samples))
    bounds = [len(samples) * column // number for column in range(number + 1)]
    parts = (samples[bounds[column] : bounds[column + 1]] for column in range(number))
    return [max(part, key=lambda sample: sum(sample.values())) for part in parts]


def _areas(columns: Sequence[Mapping[str, int]], kinds: Sequence[str], pixels: float) -> Iterator[Shape]:
    width = (WIDTH - _LEFT - _RIGHT) / len(columns)
    floor = [0.0] * len(columns)
    for number, kind in enumerate(kinds):
        roof = [low + column[kind] for low, column in zip(floor, columns, strict=True)]
        path = "M" + " L".join([*_steps(roof, width, pixels), *reversed(list(_steps(floor, width, pixels)))]) + "Z"
        yield Shape("path", {"d": path, "fill": COLORS[number]}, tip=kind)
        floor = roof


def _steps(heights: Sequence[float], width: float, pixels: float) -> Iterator[str]:
    """The corners of a curve of steps, from left to right."""
    for column, height in enumerate(heights):
        y = round(_TOP + _HIGH - height * pixels, 1)
        yield f"{round(_LEFT + column * width, 1)} {y}"
        yield f"{round(_LEFT + (column + 1) * width, 1)} {y}"


def _key(kinds: Sequence[str]) -> Iterator[Shape]:
    """What each color is, in the order in which they are stacked."""
    for row, (number, kind) in enumerate(reversed(list(enumerate(kinds)))):
        y = _TOP + 30 + 22 * row
        yield box(WIDTH - _RIGHT + 14, y - 13, 126, 19, {"fill": COLORS[number]})
        yield write(WIDTH - _RIGHT + 20, y, kind, SMALL, fill=text_on(COLORS[number]))


def _limit(limit: float, pixels: float) -> Iterator[Shape]:
    y = round(_TOP + _HIGH - limit * pixels, 1)
    line = {"d": f"M{_LEFT} {y} H{WIDTH - _RIGHT}", "fill": "none", "stroke": INK, "stroke-dasharray": "6 4"}
    yield Shape("path", line)
    yield write(_LEFT - 6, y + 4, format_bytes(int(limit)), SMALL, anchor="end")
    yield write(WIDTH - _RIGHT + 14, y + 4, "limit", SMALL)
    base = _TOP + _HIGH
    yield Shape("path", {"d": f"M{_LEFT} {_TOP} V{base} H{WIDTH - _RIGHT}", "fill": "none", "stroke": INK})
    yield write(_LEFT - 6, base + 4, "0", SMALL, anchor="end")

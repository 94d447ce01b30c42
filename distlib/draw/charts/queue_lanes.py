"""What the CPU does and what the GPU does, one lane each: kernels wait in a queue between the two.

not read    CPU   │▒ 1 ▒│▓ 1 ▓│▒ 2 ▒│▓ 2 ▓│                    ▒ prepares   ▓ calls kernels   / waits for the GPU
            GPU          │███ 1 ███│███ 2 ███│                  █ the GPU computes
read        CPU   │▒ 1 ▒│▓ 1 ▓│/////│▒ 2 ▒│▓ 2 ▓│/////│
            GPU          │███ 1 ███│       │███ 2 ███│

A mark is a moment that a reader should look at: a dashed line through both lanes, with its name above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import (
    Picture,
    add_axes,
    add_canvas,
    add_titles,
    fitting_size,
    key_of_areas,
    label_end,
    new_figure,
    text_width,
)
from distlib.draw.style import (
    BLUE,
    BODY,
    INK,
    ORANGE,
    SKY,
    SMALL,
    WIDTH,
    drawing_style,
    format_seconds,
    points,
    text_on,
    time_unit,
)
from distlib.training.ddp.step_times import Span, StepTimes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _LEFT, _RIGHT, _ROW, _FOOT = 58.0, 180.0, 84.0, 28.0, 40.0  # CSS pixels
_GAP, _MARK = 18.0, 16.0  # between panels; above a panel that has a mark
_LOOKS: dict[str, dict[str, Any]] = {
    "prepares": {"facecolor": SKY, "edgecolor": INK},
    "calls": {"facecolor": ORANGE, "edgecolor": INK},
    "waits": {"facecolor": "none", "edgecolor": INK, "hatch": "//////"},
    "computes": {"facecolor": BLUE, "edgecolor": INK},
}
_LANES = (("prepares", "calls", "waits"), ("computes",))  # of the CPU, of the GPU
_MOST = 4  # panels
_SINGLE = 6  # CSS pixels: the border of a shorter kernel is not drawn


def queue_lanes(steps: Mapping[str, StepTimes], *, title: str, subtitle: str = "") -> Picture:
    """Draw when the CPU prepares, calls kernels and waits, and when the GPU computes.

    Args:
        steps: by name, spans of the kinds "prepares", "calls" and "waits" (of the CPU) and "computes" (of the GPU), and
            "mark" for a moment; others are left out. Spans of one kind and name that touch are one box, which bears
            the name. All share one scale. At most 4.
        title, subtitle: the headline and the line below it.

    Raises:
        ValueError: nothing to draw, more than 4 panels, or one that takes no time.
    """
    if not 1 <= len(steps) <= _MOST or not all(step.seconds > 0 for step in steps.values()):
        raise ValueError(f"expected 1 to {_MOST} steps that take time, got {dict(steps)}")
    with drawing_style():
        return _draw(steps, title, subtitle)


def _draw(steps: Mapping[str, StepTimes], title: str, subtitle: str) -> Picture:
    above = _MARK if any(step.of("mark") for step in steps.values()) else 0.0
    panel = above + 2 * _ROW + _GAP
    figure = new_figure(WIDTH, _TOP + panel * len(steps) + _FOOT)
    add_titles(figure, title, subtitle, title_room=400)
    canvas = add_canvas(figure)
    key_of_areas(canvas, _LOOKS)
    longest = max(step.seconds for step in steps.values())
    unit, factor = time_unit(longest)
    axes = add_axes(figure, _LEFT, _TOP, WIDTH - _LEFT - _RIGHT, panel * len(steps))
    axes.set(xlim=(0, longest / factor), ylim=(panel * len(steps), 0), xlabel=f"time ({unit})", yticks=[])
    axes.spines["left"].set_visible(False)
    for number, (name, step) in enumerate(steps.items()):
        top = number * panel + above
        for row, kinds in enumerate(_LANES):
            for spans in _touching(step.of(*kinds), 1e-6 * longest):
                _draw_box(axes, spans, step.start, factor, top + row * _ROW)
            y = _TOP + top + _ROW * (row + 0.5)
            words = ("CPU", "GPU")[row]
            canvas.text(_LEFT - 8, y, words, size=points(SMALL), color=INK, ha="right", va="center_baseline")
        for mark in step.of("mark"):
            _draw_mark(axes, mark, step.start, factor, top)
        size = fitting_size(name, BODY, _LEFT - 60)
        canvas.text(10, _TOP + top + _ROW, name, size=points(size), weight="bold", color=INK, va="center_baseline")
        end = step.seconds / factor
        axes.plot([end, end], [top - 1, top + 2 * _ROW + 1], color=INK, linewidth=points(2), clip_on=False)
        look = {"size": points(BODY), "va": "center", "annotation_clip": False}
        label_end(axes, format_seconds(step.seconds), end, top + _ROW, gap=6, **look)
    return Picture(figure, " ".join([f"{title}.", *(_in_words(name, step) for name, step in steps.items())]))


def _touching(spans: Sequence[Span], gap: float) -> Iterator[list[Span]]:
    """Runs of spans of one kind and name with no more than `gap` between two."""
    for _, same in groupby(spans, key=lambda span: (span.kind, span.name)):
        run: list[Span] = []
        for span in same:
            if run and span.start - run[-1].end > gap:
                yield run
                run = []
            run.append(span)
        yield run


def _draw_box(axes: Axes, spans: Sequence[Span], zero: float, factor: float, top: float) -> None:
    from matplotlib.patches import Rectangle

    scale = (WIDTH - _LEFT - _RIGHT) / axes.get_xlim()[1]  # CSS pixels per unit of the axis
    left, right = (spans[0].start - zero) / factor, (spans[-1].end - zero) / factor
    look, pixels = _LOOKS[spans[0].kind], (right - left) * scale
    edge = 0.0 if spans[0].kind == "waits" else points(min(1.0, pixels / 12))  # else narrow ones would be all edge
    axes.add_patch(Rectangle((left, top + 2), right - left, _ROW - 4, linewidth=edge, **look))
    for span in spans[1:]:
        if span.seconds / factor * scale >= _SINGLE:
            x = (span.start - zero) / factor
            axes.plot([x, x], [top + 2, top + _ROW - 2], color=INK, linewidth=points(0.5), zorder=2)
    words = spans[0].name
    if spans[0].kind != "waits" and text_width(words, SMALL) + 3 <= pixels:
        color, y = text_on(look["facecolor"]), top + _ROW / 2
        axes.text((left + right) / 2, y, words, size=points(SMALL), color=color, ha="center", va="center_baseline")


def _draw_mark(axes: Axes, mark: Span, zero: float, factor: float, top: float) -> None:
    x = (mark.start - zero) / factor
    axes.plot([x, x], [top - 2, top + 2 * _ROW], color=INK, linewidth=points(1.6), linestyle=(0, (4, 2)), clip_on=False)
    words = f"{mark.name}, {format_seconds(mark.start - zero)}"
    is_late = x > axes.get_xlim()[1] / 2
    axes.annotate(
        words,
        (x, top),
        xytext=(points(-4 if is_late else 4), points(4)),
        textcoords="offset points",
        size=points(SMALL),
        color=INK,
        ha="right" if is_late else "left",
        annotation_clip=False,
    )


def _in_words(name: str, step: StepTimes) -> str:
    """ "read: 7.5 ms in all. The CPU prepares for 1.5 ms, calls for 1.5 ms, waits for 4.53 ms; the GPU computes …" """
    spent = {kind: sum(span.seconds for span in step.of(kind)) for kind in _LOOKS}
    cpu = ", ".join(f"{kind} for {format_seconds(spent[kind])}" for kind in _LANES[0] if spent[kind])
    marks = "".join(f" {mark.name}: at {format_seconds(mark.start - step.start)}." for mark in step.of("mark"))
    return (
        f"{name}: {format_seconds(step.seconds)} in all. The CPU {cpu or 'does nothing'}; "
        f"the GPU computes for {format_seconds(spent['computes'])}.{marks}"
    )

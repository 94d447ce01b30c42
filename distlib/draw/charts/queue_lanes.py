"""What the CPU does and what the GPU does, one lane each: kernels wait in a queue between the two.

not read    CPU   │▒ 1 ▒│▓ 1 ▓│▒ 2 ▒│▓ 2 ▓│                    ▒ prepares   ▓ calls kernels   / waits for the GPU
            GPU          │███ 1 ███│███ 2 ███│                  █ the GPU computes
read        CPU   │▒ 1 ▒│▓ 1 ▓│/////│▒ 2 ▒│▓ 2 ▓│/////│
            GPU          │███ 1 ███│       │███ 2 ███│

A mark is a moment that a reader should look at: a dashed line through both lanes, with its name above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from distlib.draw.charts.step_lanes import ROW, WAITS, StepLanes, check_steps, new_step_lanes
from distlib.draw.picture import Picture
from distlib.draw.style import BLUE, INK, ORANGE, SKY, SMALL, drawing_style, format_seconds, points
from distlib.training.ddp.step_times import Span, StepTimes

_MARK = 16.0  # CSS pixels: above a step that has a mark
_LOOKS: dict[str, dict[str, Any]] = {
    "prepares": {"facecolor": SKY, "edgecolor": INK},
    "calls": {"facecolor": ORANGE, "edgecolor": INK},
    "waits": WAITS,
    "computes": {"facecolor": BLUE, "edgecolor": INK},
}
_LANES = (("prepares", "calls", "waits"), ("computes",))  # of the CPU, of the GPU
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
    check_steps(steps)
    with drawing_style():
        return _draw(steps, title, subtitle)


def _draw(steps: Mapping[str, StepTimes], title: str, subtitle: str) -> Picture:
    above = _MARK if any(step.of("mark") for step in steps.values()) else 0.0
    names, room = ("CPU", "GPU"), 120
    lanes = new_step_lanes(steps, _LOOKS, names, title=title, subtitle=subtitle, name_room=room, above=above)
    longest = max(step.seconds for step in steps.values())
    for top, step in zip(lanes.tops, steps.values(), strict=True):
        for row, kinds in enumerate(_LANES):
            for spans in _touching(step.of(*kinds), 1e-6 * longest):
                _draw_box(lanes, spans, step, top + row * ROW)
        for mark in step.of("mark"):
            _draw_mark(lanes, mark, step, top)
    return Picture(lanes.figure, " ".join([f"{title}.", *(_in_words(name, step) for name, step in steps.items())]))


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


def _draw_box(lanes: StepLanes, spans: Sequence[Span], step: StepTimes, top: float) -> None:
    lanes.add_box(replace(spans[0], end=spans[-1].end), step, top, spans[0].name)
    for span in spans[1:]:
        if lanes.pixels(span.seconds) >= _SINGLE:
            x = lanes.at(span.start, step)
            lanes.axes.plot([x, x], [top + 2, top + ROW - 2], color=INK, linewidth=points(0.5), zorder=2)


def _draw_mark(lanes: StepLanes, mark: Span, step: StepTimes, top: float) -> None:
    x, axes = lanes.at(mark.start, step), lanes.axes
    axes.plot([x, x], [top - 2, top + 2 * ROW], color=INK, linewidth=points(1.6), linestyle=(0, (4, 2)), clip_on=False)
    words = f"{mark.name}, {format_seconds(mark.start - step.start)}"
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

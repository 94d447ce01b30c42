"""Where the time of a training step goes: computing above, communication below, one panel for each way to do it.

after the backward pass   │▒ forward ▒│▒▒ backward ▒▒│//////// waits ////////////│
                                                     │░░░░░░ communication ░░░░░░│
overlapped                │▒ forward ▒│▒▒ backward ▒▒│/ waits //│
                                         │░░░ communication ░░░░│                    the step ends sooner

A rank waits where it computes nothing. What takes less than a hundredth of the longest step is left white.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distlib.draw.charts.step_lanes import WAITS, waits
from distlib.draw.picture import (
    Picture,
    add_axes,
    add_canvas,
    add_titles,
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
    count,
    drawing_style,
    format_number,
    format_seconds,
    points,
    text_on,
    time_unit,
)
from distlib.training.ddp.step_times import Span, StepTimes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _LEFT, _RIGHT, _ROW, _GAP, _FOOT = 58, 120, 92, 24, 16, 40  # CSS pixels
_LOOKS: dict[str, dict[str, Any]] = {
    "forward": {"facecolor": SKY, "edgecolor": INK},
    "backward": {"facecolor": BLUE, "edgecolor": INK},
    "communication": {"facecolor": ORANGE, "edgecolor": INK},
    "waits": WAITS,
}
_COMPUTING = ("forward", "backward")
_SHORTEST = 0.01  # of the longest step


def step_timeline(
    steps: Mapping[str, StepTimes], title: str | None = None, *, communication: str = "all-reduce"
) -> Picture:
    """Draw when one rank computes, communicates and waits, for one or several ways to do a step.

    Args:
        steps: by name, what `StepClock` has noted. All share one scale; each begins at 0.
        title: the headline; by default "Where the time of a step goes".
        communication: what each span of communication is, for the text of the picture.

    Raises:
        ValueError: nothing to draw.
        TypeError: something given is no StepTimes.
    """
    if not steps:
        raise ValueError("expected at least one step, {name: clock.steps[-1]}, got none")
    for name, step in steps.items():
        if not isinstance(step, StepTimes):
            raise TypeError(f"expected StepTimes for {name!r}, as clock.steps has them, got {type(step).__name__}")
    with drawing_style():
        return _draw(steps, title or "Where the time of a step goes", communication)


def _draw(steps: Mapping[str, StepTimes], title: str, communication: str) -> Picture:
    panel = 2 * _ROW + _GAP
    figure = new_figure(WIDTH, _TOP + panel * len(steps) + _FOOT)
    add_titles(figure, title, "above: computing, or waiting for others; below: communication", title_room=400)
    canvas = add_canvas(figure)
    key_of_areas(canvas, _LOOKS)
    longest = max(step.seconds for step in steps.values())
    unit, factor = time_unit(longest)
    axes = add_axes(figure, _LEFT, _TOP, WIDTH - _LEFT - _RIGHT, panel * len(steps))
    axes.set(xlim=(0, longest / factor), ylim=(panel * len(steps), 0), xlabel=f"time ({unit})")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for number, (name, step) in enumerate(steps.items()):
        top = number * panel
        for span in [*step.of(*_COMPUTING, "communication"), *waits(step, _COMPUTING, _SHORTEST * longest)]:
            _draw_span(axes, span, step.start, factor, top + _ROW * (span.kind == "communication"))
        for span in _uncovered(step.of("communication")):
            _name_bucket(axes, span, step.start, factor, top + _ROW)
        end = step.seconds / factor
        axes.plot([end, end], [top - 2, top + 2 * _ROW + 2], color=INK, linewidth=points(2))
        canvas.text(
            _LEFT - 10, _TOP + top + _ROW, name, size=points(_name_size(name)), color=INK, ha="right", va="center"
        )
        look = {"size": points(BODY), "va": "center", "annotation_clip": False}
        label_end(axes, format_seconds(step.seconds), end, top + _ROW, gap=6, **look)
    described = (_describe(name, step, communication) for name, step in steps.items())
    return Picture(figure, " ".join([f"{title}.", *described]))


def _uncovered(spans: Sequence[Span]) -> Iterator[Span]:
    """What is seen of each bar: several buckets may be under way at once, and the one that begins later is in front."""
    starts = [span.start for span in spans]
    for number, span in enumerate(spans):
        yield replace(span, end=min([span.end, *starts[number + 1 :]]))


def _draw_span(axes: Axes, span: Span, zero: float, factor: float, top: float) -> None:
    from matplotlib.patches import Rectangle

    left, width, pixels = _extent(axes, span, zero, factor)
    edge = 0.0 if span.kind == "waits" else points(min(1.0, pixels / 12))  # else narrow ones would be all edge
    axes.add_patch(Rectangle((left, top + 2), width, _ROW - 4, linewidth=edge, **_LOOKS[span.kind]))


def _name_bucket(axes: Axes, span: Span, zero: float, factor: float, top: float) -> None:
    """A bucket bears its name where there is room: a lone number could be anything."""
    left, width, pixels = _extent(axes, span, zero, factor)
    if pixels < text_width(span.name, SMALL) + 6:
        return
    axes.text(
        left + width / 2,
        top + _ROW / 2,
        span.name,
        size=points(SMALL),
        color=text_on(_LOOKS[span.kind]["facecolor"]),
        ha="center",
        va="center_baseline",
        clip_on=True,
    )


def _extent(axes: Axes, span: Span, zero: float, factor: float) -> tuple[float, float, float]:
    """Where it begins and how long it is, in units of the axis; and how long in CSS pixels."""
    left, width = (span.start - zero) / factor, span.seconds / factor
    limits = axes.get_xlim()
    return left, width, width / (limits[1] - limits[0]) * (WIDTH - _LEFT - _RIGHT)


def _name_size(name: str) -> float:
    room = _LEFT - 16
    return min(BODY, BODY * room / max(1.0, text_width(name, BODY)))


def _describe(name: str, step: StepTimes, communication: str) -> str:
    share = f", {format_number(round(100 * step.hidden / step.communicating))} % hidden" if step.communicating else ""
    return (
        f"{name}: the step takes {format_seconds(step.seconds)}, computing {format_seconds(step.computing)}, "
        f"{count(len(step.of('communication')), communication)} {format_seconds(step.communicating)}{share}."
    )

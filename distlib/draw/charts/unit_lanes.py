"""When a rank computes which unit of its model, and what the network carries meanwhile: two lanes for each step.

stage 1   computing   │ 0 │ 1 │   1   │   0   │/////////│//////////│
          network                     │ R1 │ R0 │ G0 │ G1 │
stage 3   computing   │////│ 0 │////│ 1 │/////…
          network     │ G0 │ G1 │   │ G1 │ …

A rank waits where it computes nothing: then the communication is exposed. Each box bears the number of its unit; G is
an all-gather, R a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    YELLOW,
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

_TOP, _LEFT, _RIGHT, _ROW, _GAP, _FOOT = 58.0, 180.0, 84.0, 28.0, 18.0, 40.0  # CSS pixels
_LOOKS: dict[str, dict[str, Any]] = {
    "forward": {"facecolor": SKY, "edgecolor": INK},
    "backward": {"facecolor": BLUE, "edgecolor": INK},
    "all-gather": {"facecolor": ORANGE, "edgecolor": INK},
    "reduce-scatter": {"facecolor": YELLOW, "edgecolor": INK},
    "waits": {"facecolor": "none", "edgecolor": INK, "hatch": "//////"},
}
_LETTERS = {"all-gather": "G", "reduce-scatter": "R"}
_COMPUTING, _SENDING = ("forward", "backward"), ("all-gather", "reduce-scatter")
_MOST = 4  # steps
_SHORTEST = 0.004  # of the longest step: a shorter wait is left white


def unit_lanes(steps: Mapping[str, StepTimes], *, title: str) -> Picture:
    """Draw what one rank computes, and what its network carries meanwhile, for one or several ways to do a step.

    Args:
        steps: by name, spans of the kinds "forward", "backward", "all-gather" and "reduce-scatter", whose names are the
            numbers of units, as `zero.play_step` notes them; others are left out. All share one scale. At most 4.
        title: the headline.

    Raises:
        ValueError: nothing to draw, more than 4 steps, or a step that takes no time.
    """
    if not 1 <= len(steps) <= _MOST or not all(step.seconds > 0 for step in steps.values()):
        raise ValueError(f"expected 1 to {_MOST} steps that take time, got {dict(steps)}")
    with drawing_style():
        return _draw(steps, title)


def _draw(steps: Mapping[str, StepTimes], title: str) -> Picture:
    panel = 2 * _ROW + _GAP
    figure = new_figure(WIDTH, _TOP + panel * len(steps) + _FOOT)
    words = "the number in a box is the unit's; G gathers the unit, R reduces and scatters its gradients"
    add_titles(figure, title, words, title_room=400)
    canvas = add_canvas(figure)
    key_of_areas(canvas, _LOOKS)
    longest = max(step.seconds for step in steps.values())
    unit, factor = time_unit(longest)
    axes = add_axes(figure, _LEFT, _TOP, WIDTH - _LEFT - _RIGHT, panel * len(steps))
    axes.set(xlim=(0, longest / factor), ylim=(panel * len(steps), 0), xlabel=f"time ({unit})", yticks=[])
    axes.spines["left"].set_visible(False)
    for number, (name, step) in enumerate(steps.items()):
        top = number * panel
        for row, kinds in enumerate((_COMPUTING, _SENDING)):
            for span in step.of(*kinds):
                _draw_span(axes, span, step, factor, top + row * _ROW)
            words = ("computing", "network")[row]
            y = _TOP + top + _ROW * (row + 0.5)
            canvas.text(_LEFT - 8, y, words, size=points(SMALL), color=INK, ha="right", va="center_baseline")
        for span in _waits(step, _SHORTEST * longest):
            _draw_span(axes, span, step, factor, top)
        size = fitting_size(name, BODY, _LEFT - 90)
        canvas.text(10, _TOP + top + _ROW, name, size=points(size), weight="bold", color=INK, va="center_baseline")
        end = step.seconds / factor
        axes.plot([end, end], [top - 1, top + 2 * _ROW + 1], color=INK, linewidth=points(2), clip_on=False)
        look = {"size": points(BODY), "va": "center", "annotation_clip": False}
        label_end(axes, format_seconds(step.seconds), end, top + _ROW, gap=6, **look)
    return Picture(figure, " ".join([f"{title}.", *(_in_words(name, step) for name, step in steps.items())]))


def _waits(step: StepTimes, shortest: float) -> Iterator[Span]:
    """The stretches of at least `shortest` seconds in which the rank computes nothing."""
    done = step.start
    for span in [*step.of(*_COMPUTING), Span("", "", step.end, step.end)]:
        if span.start - done >= shortest:
            yield Span("waits", "", done, span.start)
        done = max(done, span.end)


def _draw_span(axes: Axes, span: Span, step: StepTimes, factor: float, top: float) -> None:
    from matplotlib.patches import Rectangle

    left, width = (span.start - step.start) / factor, span.seconds / factor
    pixels = width / axes.get_xlim()[1] * (WIDTH - _LEFT - _RIGHT)
    edge = 0.0 if span.kind == "waits" else points(min(1.0, pixels / 12))  # else narrow ones would be all edge
    axes.add_patch(Rectangle((left, top + 2), width, _ROW - 4, linewidth=edge, **_LOOKS[span.kind]))
    words = _LETTERS.get(span.kind, "") + span.name
    if span.kind == "waits" or pixels < text_width(words, SMALL) + 3:
        return
    color = text_on(_LOOKS[span.kind]["facecolor"])
    x, y = left + width / 2, top + _ROW / 2
    axes.text(x, y, words, size=points(SMALL), color=color, ha="center", va="center_baseline")


def _in_words(name: str, step: StepTimes) -> str:
    """ "stage 1: the step takes 60 ms, of which computing 24.6 ms; network: reduce-scatter 3, 2, all-gather 2, 3." """
    order: list[str] = []
    last = ""
    for span in step.of(*_SENDING):
        order.append(span.name if span.kind == last else f"{span.kind} {span.name}")
        last = span.kind
    busy = sum(span.seconds for span in step.of(*_SENDING))
    exposed = sum(span.seconds for span in _waits(step, 0.0))
    share = format_number(round(100 * exposed / step.seconds))
    return (
        f"{name}: the step takes {format_seconds(step.seconds)}; computing takes {format_seconds(step.computing)}, the "
        f"network carries messages for {format_seconds(busy)}, and the rank waits {share} % of the step. "
        f"Messages: {', '.join(order) or 'none'}."
    )

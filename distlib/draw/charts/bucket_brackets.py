"""Buckets over the layers of a model, and below them in time: the backward pass, and the all-reduce of each bucket.

              bucket 1     bucket 0
            ┌─────┴─────┐┌─────┴─────┐
layers       0     1      2     3                      ◄── the backward pass
backward    │  3  │  2  │  1  │  0  │/ waits //│
all-reduce              │ bucket 0 ││ bucket 1 │        time ──►

A layer has the color of its bucket, and so has the all-reduce; each also bears its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from distlib.draw.charts.step_lanes import WAITS
from distlib.draw.picture import (
    Picture,
    add_axes,
    add_canvas,
    add_titles,
    fitting_size,
    key_of_areas,
    label_end,
    new_figure,
)
from distlib.draw.style import (
    BODY,
    INK,
    SMALL,
    WIDTH,
    color_of,
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

Buckets = Sequence[Sequence[str]]
"""For each bucket, in the order in which they leave, the names of its layers."""

_LEFT, _RIGHT = 96.0, 84.0  # CSS pixels
_BRACKET, _MODEL, _TIME = 78.0, 90.0, 164.0  # CSS pixels from the top: brackets, layers, and the first lane
_BLOCK, _LANE, _FOOT = 26.0, 32.0, 40.0  # CSS pixels
_MOST_LAYERS = 16


def buckets_over_layers(buckets: Buckets, step: StepTimes, *, title: str) -> Picture:
    """Draw which layers share a bucket, and when the bucket travels in a step that overlaps.

    Args:
        buckets: the names of the layers in each, as `StepClock` notes them, in the order in which buckets leave. The
            layers of the model, first to last, are these in reverse order. At most 16.
        step: what `StepClock` has noted of such a step. Drawn is what follows from the beginning of the backward pass.
        title: the headline.

    Raises:
        ValueError: no layers, too many, a layer in two buckets, or a step with other layers or other buckets.
    """
    layers = list(chain(*buckets))
    computed = {span.name for span in step.of("backward")}
    if not 1 <= len(layers) <= _MOST_LAYERS or len(set(layers)) < len(layers):
        raise ValueError(f"expected 1 to {_MOST_LAYERS} layers, each in one bucket, got {list(map(list, buckets))}")
    if missing := [layer for layer in layers if layer not in computed]:
        raise ValueError(f"expected a step with the backward pass of {', '.join(layers)}; {missing[0]} is not in it")
    if len(step.of("communication")) != len(buckets):
        raise ValueError(f"expected {len(buckets)} all-reduces in the step, got {len(step.of('communication'))}")
    with drawing_style():
        return _draw(buckets, step, title)


def _draw(buckets: Buckets, step: StepTimes, title: str) -> Picture:
    figure = new_figure(WIDTH, _TIME + 2 * _LANE + _FOOT)
    add_titles(figure, title, "above: the model, first layer to last; below: what happens in time, last layer first")
    canvas = add_canvas(figure)
    key_of_areas(canvas, {"waits": WAITS})
    color = {layer: color_of(number) for number, bucket in enumerate(buckets) for layer in bucket}
    _draw_model(canvas, buckets, color)
    backward = [span for span in step.of("backward") if span.name in color]
    zero = backward[0].start
    unit, factor = time_unit(step.end - zero)
    axes = add_axes(figure, _LEFT, _TIME, WIDTH - _LEFT - _RIGHT, 2 * _LANE)
    axes.set(xlim=(0, (step.end - zero) / factor), ylim=(2 * _LANE, 0), xlabel=f"time ({unit})")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for name, row in (("backward", 0), ("all-reduce", 1)):
        _name_row(canvas, name, _TIME + _LANE * (row + 0.5))
    for span in backward:
        _draw_span(axes, span, zero, factor, 0, span.name, color[span.name])
    for number, span in enumerate(step.of("communication")):
        _draw_span(axes, span, zero, factor, 1, f"bucket {number}", color_of(number))
    if step.end > (done := backward[-1].end):
        _draw_span(axes, Span("", "", done, step.end), zero, factor, 0, "", "")
    look = {"size": points(BODY), "va": "center", "annotation_clip": False}
    label_end(axes, format_seconds(step.end - zero), (step.end - zero) / factor, _LANE, gap=6, **look)
    return Picture(figure, " ".join([f"{title}.", *_in_words(buckets, step, zero, done)]))


def _draw_model(canvas: Axes, buckets: Buckets, color: dict[str, str]) -> None:
    """The layers as blocks, a bracket over those of each bucket, and which way the backward pass goes."""
    layers = list(reversed(list(chain(*buckets))))
    width = (WIDTH - _LEFT - _RIGHT) / len(layers)
    lefts = {layer: _LEFT + place * width for place, layer in enumerate(layers)}
    _name_row(canvas, "layers", _MODEL + _BLOCK / 2)
    for layer, left in lefts.items():
        _draw_box(canvas, left, _MODEL, width, _BLOCK, layer, color[layer], width)
    for number, bucket in enumerate(buckets):
        left, right = min(lefts[layer] for layer in bucket) + 3, max(lefts[layer] for layer in bucket) + width - 3
        xs, ys = [left, left, right, right], [_MODEL - 3, _BRACKET, _BRACKET, _MODEL - 3]
        canvas.plot(xs, ys, color=INK, linewidth=points(1.5))
        words = f"bucket {number}"
        size = points(fitting_size(words, SMALL, right - left))
        canvas.text((left + right) / 2, _BRACKET - 5, words, size=size, color=INK, ha="center", va="baseline")
    y, right = _MODEL + _BLOCK + 17, WIDTH - _RIGHT
    look = {"arrowstyle": "->", "color": INK, "linewidth": points(1.5)}
    canvas.annotate("", (right - 150, y), (right, y), arrowprops=look)
    words = "the backward pass goes this way"
    canvas.text(right - 158, y, words, size=points(SMALL), color=INK, ha="right", va="center_baseline")


def _name_row(canvas: Axes, name: str, y: float) -> None:
    canvas.text(_LEFT - 10, y, name, size=points(BODY), color=INK, ha="right", va="center_baseline")


def _draw_span(axes: Axes, span: Span, zero: float, factor: float, row: int, words: str, color: str) -> None:
    left, width = (span.start - zero) / factor, span.seconds / factor
    pixels = width / axes.get_xlim()[1] * (WIDTH - _LEFT - _RIGHT)
    _draw_box(axes, left, row * _LANE + 3, width, _LANE - 6, words, color, pixels)


def _draw_box(
    axes: Axes, left: float, top: float, width: float, height: float, words: str, color: str, pixels: float
) -> None:
    """A box with its words, as large as `pixels` allow; without a color it is one in which the rank waits."""
    from matplotlib.patches import Rectangle

    look = {"facecolor": color, "edgecolor": INK} if color else WAITS
    axes.add_patch(Rectangle((left, top), width, height, linewidth=points(1), **look))
    if color and pixels > 8:
        size = points(fitting_size(words, SMALL, pixels - 2))
        x, y = left + width / 2, top + height / 2
        axes.text(x, y, words, size=size, color=text_on(color), ha="center", va="center_baseline")


def _in_words(buckets: Buckets, step: StepTimes, zero: float, done: float) -> list[str]:
    unit, factor = time_unit(step.end - zero)
    told = []
    for number, (bucket, span) in enumerate(zip(buckets, step.of("communication"), strict=True)):
        start, end = (format_number(float(f"{(at - zero) / factor:.3g}")) for at in (span.start, span.end))
        told.append(f"Bucket {number}, layers {', '.join(bucket)}: its all-reduce takes from {start} to {end} {unit}.")
    backward, whole = format_seconds(done - zero), format_seconds(step.end - zero)
    return [*told, f"The backward pass ends after {backward}, the last all-reduce after {whole}."]

"""A pipeline in time: a lane for each rank, a box for each action, and how many microbatches each rank keeps at most.

    GPipe                                                     kept at most
    rank 0  │F0│F1│F2│F3│        ·····  │B0│B1│B2│B3│         ████ 4
    rank 1  ···│F0│F1│F2│F3│  ··· │B0│B1│B2│B3│ ····          ████ 4

Gray: the rank waits. All panels have one scale of time, so the one that ends first is the fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from distlib.draw.charts.action_looks import (
    check_timing,
    key_of,
    look_of,
    most_kept,
    rows_of,
    stages_of_rank,
    words_in_boxes,
)
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
    BODY,
    INK,
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
from distlib.training.schedules import ActionSpan, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

_TOP, _LEFT, _MEMORY, _HEADING, _FOOT = 56, 66, 150, 30, 44  # CSS pixels: titles, rank names, bars, a name, the axis
_WAITING: dict[str, Any] = {"facecolor": INK, "alpha": 0.1, "linewidth": 0}
_KEPT: dict[str, Any] = {"facecolor": INK, "alpha": 0.8, "linewidth": 0}
_KEPT_FOR_W: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "hatch": "//////", "linewidth": 0}


def pipeline_timeline(runs: Timing | Mapping[str, Timing], title: str | None = None) -> Picture:
    """Draw when each rank does which action, and how many microbatches it keeps at most.

    Args:
        runs: as `time_schedule` returns it, or as a pipeline that ran noted it; several by name, one above the other.
        title: the headline; by default "A pipeline of 4 ranks".

    Raises:
        TypeError: something else than a Timing.
        ValueError: nothing to draw.
    """
    named = dict(runs) if isinstance(runs, Mapping) else {"": runs}
    for timing in named.values():
        check_timing(timing)
    if not named:
        raise ValueError("expected at least one timing to draw, got none")
    ranks = max(len(timing.spans) for timing in named.values())
    with drawing_style():
        return _draw(named, title or f"A pipeline of {count(ranks, 'rank')}")


def _draw(runs: Mapping[str, Timing], title: str) -> Picture:
    lanes = sum(len(timing.spans) for timing in runs.values())
    lane = max(9.0, min(30.0, 560 / lanes))
    figure = new_figure(WIDTH, _TOP + _HEADING * len(runs) + lane * lanes + _FOOT)
    add_titles(figure, title, _legend(list(runs.values())), title_room=430)
    canvas = add_canvas(figure)
    colors = key_of([*runs.values()])
    key_of_areas(canvas, {name: {"facecolor": color, "edgecolor": INK} for name, color in colors.items()})
    seconds = max(timing.seconds for timing in runs.values())
    longest = max(max(kept) for timing in runs.values() for kept in most_kept(timing))
    top = float(_TOP)
    for number, (name, timing) in enumerate(runs.items()):
        height = lane * len(timing.spans)
        words = f"{name}: {_summary(timing)}" if name else _summary(timing)
        canvas.text(_LEFT, top + _HEADING - 9, words, size=points(BODY), weight="bold", color=INK)
        canvas.text(WIDTH - _MEMORY + 14, top + _HEADING - 9, "kept at most", size=points(SMALL), color=INK)
        axes = add_axes(figure, _LEFT, top + _HEADING, WIDTH - _LEFT - _MEMORY, height)
        _draw_lanes(axes, timing, seconds, lane)
        _label_axis(axes, seconds, last=number == len(runs) - 1)
        bars = add_axes(figure, WIDTH - _MEMORY + 14, top + _HEADING, _MEMORY - 24, height)
        _draw_kept(bars, timing, longest, lane)
        top += _HEADING + height
    return Picture(figure, _alt(runs, title))


def _legend(timings: Sequence[Timing]) -> str:
    """What gray, dark and hatched areas mean, as far as there are any."""
    rows = [spans for timing in timings for spans in timing.spans]
    words = ["gray: the rank waits"]
    words += ["dark: its second stage"] * any(len(stages_of_rank(spans)) > 1 for spans in rows)
    for_w = any(both > whole for timing in timings for whole, both in most_kept(timing))
    return "; ".join([*words, *["hatched: kept for W alone"] * for_w])


def _draw_lanes(axes: Axes, timing: Timing, seconds: float, lane: float) -> None:
    from matplotlib.patches import Rectangle

    ranks = len(timing.spans)
    first = min(span.start for spans in timing.spans for span in spans)
    axes.set(xlim=(0, seconds), ylim=(ranks, 0))
    every = next(step for step in (1, 2, 4, 8, 16, 32, 64, ranks) if step * lane >= 15)
    shown = range(0, ranks, every)
    axes.set_yticks([rank + 0.5 for rank in shown], [f"rank {rank}" for rank in shown])
    axes.tick_params(axis="y", length=0, labelsize=points(12))
    axes.spines["left"].set_visible(False)
    pixels = (WIDTH - _LEFT - _MEMORY) / seconds
    high = 0.66 * lane >= SMALL - 1  # the lowest boxes have room for a line of text
    words = words_in_boxes(timing, lambda text, long: high and text_width(text, SMALL) + 3 <= long * pixels)
    for rank, spans in enumerate(timing.spans):
        axes.add_patch(Rectangle((0, rank + 0.06), timing.seconds, 0.88, **_WAITING))
        stages = stages_of_rank(spans)
        for span in spans:
            box = _draw_box(axes, span, span.start - first, rank, stages, pixels)
            _write(axes, box, words.get(span.action, ""))


def _draw_box(axes: Axes, span: ActionSpan, start: float, rank: int, stages: Sequence[int], pixels: float) -> Rectangle:
    from matplotlib.patches import Rectangle

    look = look_of(span.action, stages)
    top, height = rank + 0.06 + 0.88 * look.top, 0.88 * (look.bottom - look.top)
    edge = points(min(0.8, span.seconds * pixels / 12))  # else narrow ones would be all edge
    box = Rectangle((start, top), span.seconds, height, facecolor=look.color, edgecolor=INK, linewidth=edge)
    axes.add_patch(box)
    return box


def _write(axes: Axes, box: Rectangle, words: str) -> None:
    from matplotlib.colors import to_hex

    (x, y), color = box.get_center(), text_on(to_hex(box.get_facecolor()))
    if words:
        axes.text(x, y, words, size=points(SMALL), color=color, ha="center", va="center_baseline")


def _label_axis(axes: Axes, seconds: float, last: bool) -> None:
    unit, factor = time_unit(seconds)
    axes.xaxis.set_major_formatter(lambda value, _: format_number(float(f"{value / factor:.6g}")) if last else "")
    axes.tick_params(axis="x", length=4 if last else 0)
    axes.spines["bottom"].set_visible(last)
    if last:
        axes.set_xlabel(f"time since the first action ({unit})", size=points(12))


def _draw_kept(axes: Axes, timing: Timing, longest: Fraction, lane: float) -> None:
    """A bar for each rank; what is kept for W alone is hatched."""
    kept = most_kept(timing)
    axes.set(xlim=(0, 1.6 * float(longest)), ylim=(len(kept), 0), xticks=[], yticks=[])
    axes.spines["bottom"].set_visible(False)
    for rank, (whole, both) in enumerate(kept):
        axes.barh(rank + 0.5, float(whole), 0.5, **_KEPT)
        axes.barh(rank + 0.5, float(both - whole), 0.5, float(whole), **_KEPT_FOR_W)
        if lane >= 13:
            label_end(axes, _kept_in_words(whole, both), float(both), rank + 0.5)


def _kept_in_words(whole: Fraction, both: Fraction) -> str:
    """ "4", "5.5", or "3 + 1": until B or I, and those that are kept for W alone."""
    words = format_number(float(whole))
    return words if both == whole else f"{words} + {format_number(float(both - whole))}"


def _summary(timing: Timing) -> str:
    return f"{format_seconds(timing.seconds)}, bubble {100 * timing.bubble:.1f} %"


def _alt(runs: Mapping[str, Timing], title: str) -> str:
    return " ".join([f"{title}.", *(describe_pipeline(timing, name or "Time") for name, timing in runs.items())])


def describe_pipeline(timing: Timing, name: str) -> str:
    """One run in words; the order of the actions where it is short enough to be listened to."""
    kept = ", ".join(_kept_in_words(*each) for each in most_kept(timing))
    said = f"{name}: {_summary(timing)}. Microbatches kept at most, by rank: {kept}."
    if sum(map(len, timing.spans)) <= 64:
        rows = (f"rank {rank} {' '.join(map(str, row))}" for rank, row in enumerate(rows_of(timing)))
        said += f" In order: {'; '.join(rows)}."
    return said

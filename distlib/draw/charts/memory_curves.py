"""Which bytes are alive while a training step goes on: a panel for each rank or way, kinds stacked, on one scale.

stage 0                                    stage 3
│████████████████ activations              │
│▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ optimizer states         │   ▄▄      ▄▄▄
│░░░░░░░░░░░░░░░░ parameters               │▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
└ forward │ backward │ step                └ forward │ backward │ step

From left to right changes follow one another, each as wide as any other: most take no time worth showing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from distlib.draw.picture import (
    Picture,
    add_axes,
    add_canvas,
    add_titles,
    fitting_size,
    key_of_areas,
    new_figure,
    text_width,
)
from distlib.draw.style import (
    BLUE,
    BODY,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    WIDTH,
    drawing_style,
    format_decimal_bytes,
    points,
)
from distlib.training.zero import Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (BLUE, SKY, GREEN, ORANGE, PURPLE)
_TOP, _HEADING, _LEFT, _GAP, _HEIGHT, _FOOT = 54, 56, 74, 26, 250, 30  # CSS pixels: titles, key and names, …


def memory_over_time(
    accounts: Mapping[str, Sequence[Sample]], title: str, subtitle: str = "", *, limit: float | None = None
) -> Picture:
    """Draw the bytes that are alive during a step, by kind.

    Args:
        accounts: name → the samples of a `MemoryAccount`. 1 to 4 of them, all on one scale.
        title, subtitle: the headline and the line below it.
        limit: bytes that a rank may have; a dashed line. None: no line.

    Raises:
        ValueError: other than 1 to 4 accounts, one with fewer than 2 samples, or a limit that is not above 0.
    """
    if not 1 <= len(accounts) <= 4:
        raise ValueError(f"expected 1 to 4 accounts, got {len(accounts)}")
    for name, samples in accounts.items():
        if len(samples) < 2:
            raise ValueError(f"{name}: expected at least 2 samples, as account.samples has them, got {len(samples)}")
    if limit is not None and not limit > 0:
        raise ValueError(f"expected a limit above 0 bytes, got {limit}")
    with drawing_style():
        return _draw(accounts, title, subtitle, limit)


def _draw(accounts: Mapping[str, Sequence[Sample]], title: str, subtitle: str, limit: float | None) -> Picture:
    top = _TOP if subtitle else _TOP - 20
    figure = new_figure(WIDTH, top + _HEADING + _HEIGHT + _FOOT)
    add_titles(figure, title, subtitle)
    canvas, width = add_canvas(figure), (WIDTH - _LEFT - 16 - _GAP * (len(accounts) - 1)) / len(accounts)
    kinds = list(next(iter(accounts.values()))[0].bytes)
    looks = {kind: {"facecolor": color, "edgecolor": INK} for kind, color in zip(kinds, _COLORS, strict=False)}
    key_of_areas(canvas, looks, top)
    largest = max(_peak(samples) for samples in accounts.values())
    ceiling = 1.06 * max(largest, limit or 0)
    for number, (name, samples) in enumerate(accounts.items()):
        left = _LEFT + number * (width + _GAP)
        said = f"{name}: at most {format_decimal_bytes(_peak(samples))}"
        size = points(fitting_size(said, BODY, width))
        canvas.text(left, top + _HEADING - 12, said, size=size, weight="bold", color=INK)
        axes = add_axes(figure, left, top + _HEADING, width, _HEIGHT)
        axes.set(xlim=(0, len(samples)), ylim=(0, ceiling), xticks=[])
        _label_bytes(axes, largest, with_labels=number == 0)
        _draw_kinds(axes, samples, kinds)
        _draw_phases(axes, samples, width)
        if limit is not None:
            axes.axhline(limit, color=VERMILLION, linestyle=(0, (5, 3)), linewidth=points(2), zorder=4)
    return Picture(figure, _alt(accounts, title, limit))


def _peak(samples: Sequence[Sample]) -> int:
    return max(sample.total for sample in samples)


def _label_bytes(axes: Axes, largest: float, with_labels: bool) -> None:
    """Round numbers of bytes, about four of them."""
    steps = (factor * 10.0**power for power in range(16) for factor in (1, 2, 5))
    step = next(step for step in steps if largest / step <= 5)
    ticks = [number * step for number in range(int(largest / step) + 1)]
    axes.set_yticks(ticks, [format_decimal_bytes(tick) if with_labels else "" for tick in ticks])
    axes.tick_params(axis="y", labelsize=points(SMALL))


def _draw_kinds(axes: Axes, samples: Sequence[Sample], kinds: Sequence[str]) -> None:
    """A sample holds until the next one: steps, not slopes."""
    xs = [x for number in range(len(samples)) for x in (number, number + 1)]
    below = [0.0] * len(xs)
    for kind, color in zip(kinds, _COLORS, strict=False):
        above = [low + samples[at // 2].bytes[kind] for at, low in enumerate(below)]
        axes.fill_between(xs, below, above, facecolor=color, edgecolor=color, linewidth=0)
        below = above
    axes.plot(xs, below, color=INK, linewidth=points(0.8))


def _draw_phases(axes: Axes, samples: Sequence[Sample], width: float) -> None:
    """The phases' names below the axis, where there is room, and a line between two of them."""
    start = 0
    for phase, group in groupby(samples, key=lambda sample: sample.phase):
        end = start + len(list(group))
        if start:
            axes.axvline(start, color=INK, linewidth=points(0.8), linestyle=(0, (1, 2)))
        if text_width(phase, SMALL) + 6 < (end - start) / len(samples) * width:
            axes.annotate(
                phase,
                ((start + end) / 2, 0),
                (0, -points(15)),
                textcoords="offset points",
                size=points(SMALL),
                color=INK,
                ha="center",
                annotation_clip=False,
            )
        start = end


def _alt(accounts: Mapping[str, Sequence[Sample]], title: str, limit: float | None) -> str:
    told = []
    for name, samples in accounts.items():
        peak = max(samples, key=lambda sample: sample.total)
        parts = ", ".join(f"{kind} {format_decimal_bytes(nbytes)}" for kind, nbytes in peak.bytes.items())
        told.append(f"{name}: at most {format_decimal_bytes(peak.total)}, in the phase {peak.phase}: {parts}.")
    allowed = f" Allowed are {format_decimal_bytes(limit)}." if limit is not None else ""
    most = max(sample.total for samples in accounts.values() for sample in samples)
    over = " More than is allowed." if limit is not None and most > limit else ""
    return " ".join([f"{title}. Bytes alive during a step.", *told]) + allowed + over

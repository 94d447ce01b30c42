"""What each rank sent and received, as bars: where the bottleneck of an algorithm is seen at a glance.

    rank 0  ████████████████  12 KiB      filled: sent
            ▨▨▨▨▨▨▨▨▨▨▨▨▨▨▨▨  12 KiB      hatched: received
    rank 1  █████             4 KiB

Several runs stand side by side on the same scale. The time a run takes at the least is given by its longest bar: bytes
that pass through one rank's link do not pass at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
)
from distlib.draw.style import BLUE, BODY, INK, ORANGE, WIDTH, count, drawing_style, format_bytes, points
from distlib.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _HEADING, _LEFT, _GAP = 52, 30, 70, 28  # CSS pixels: titles, a panel's name, rank names, between panels
_SENT: dict[str, Any] = {"facecolor": BLUE, "edgecolor": BLUE}
_RECEIVED: dict[str, Any] = {"facecolor": "none", "edgecolor": ORANGE, "hatch": "/////"}


def bytes_per_rank(
    trace: Trace | None = None, compare: Mapping[str, Trace] | None = None, title: str | None = None
) -> Picture:
    """Draw how many bytes each rank sent and received.

    Args:
        trace: of a run, as `world.trace`.
        compare: other runs by name, each drawn in a panel of its own on the same scale:
            `bytes_per_rank(compare={"through rank 0": one, "ring": other})`. With a `trace` as well, that one comes
            first and is called "this run".
        title: the headline; by default "Bytes through each rank".

    Raises:
        ValueError: neither a trace nor anything to compare was given.
        TypeError: something given is no Trace.
    """
    runs = {**({"this run": trace} if trace is not None else {}), **(compare or {})}
    if not runs:
        raise ValueError("expected a trace, or compare={name: trace, …}, got neither")
    for name, run in runs.items():
        if not isinstance(run, Trace):
            raise TypeError(f"expected a Trace for {name!r}, as world.trace is after a run, got {type(run).__name__}")
    with drawing_style():
        return _draw(runs, title or "Bytes through each rank")


def _draw(runs: Mapping[str, Trace], title: str) -> Picture:
    ranks = max(run.world_size for run in runs.values())
    row = max(9.0, min(44.0, 640 / ranks))
    named = _HEADING if len(runs) > 1 else 8
    figure = new_figure(WIDTH, _TOP + named + row * ranks + 12)
    add_titles(
        figure, title, "; ".join(_summary(name, run, len(runs) > 1) for name, run in runs.items()), title_room=680
    )
    canvas = add_canvas(figure)
    key_of_areas(canvas, {"sent": _SENT, "received": _RECEIVED})
    width = (WIDTH - _LEFT - 20 - _GAP * (len(runs) - 1)) / len(runs)
    largest = max(_largest(run) for run in runs.values())
    for number, (name, run) in enumerate(runs.items()):
        left = _LEFT + number * (width + _GAP)
        axes = add_axes(figure, left, _TOP + named, width, row * ranks)
        axes.set(xlim=(0, max(largest, 1) * (1 + 76 / width)), ylim=(ranks - 0.5, -0.5))
        _draw_bars(axes, run, row, with_names=number == 0)
        if len(runs) > 1:
            size = points(fitting_size(name, BODY, width))
            canvas.text(left, _TOP + named - 8, name, size=size, weight="bold", color=INK)
    return Picture(figure, _alt(runs, title))


def _draw_bars(axes: Axes, run: Trace, row: float, with_names: bool) -> None:
    thick = 0.34 if row >= 20 else 0.42
    for values, offset, look in ((run.bytes_sent, -thick / 2, _SENT), (run.bytes_received, thick / 2, _RECEIVED)):
        axes.barh([rank + offset for rank in range(run.world_size)], values, thick * 0.9, linewidth=points(1), **look)
        if row >= 26:
            _label_bars(axes, values, offset)
    every = next(step for step in (1, 2, 4, 8, 16, 32, 64) if step * row >= 15)
    shown = range(0, run.world_size, every)
    axes.set_yticks(shown, [f"rank {rank}" for rank in shown] if with_names else [])
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0, labelsize=points(12))
    axes.spines["bottom"].set_visible(False)


def _label_bars(axes: Axes, values: Sequence[int], offset: float) -> None:
    for rank, value in enumerate(values):
        label_end(axes, format_bytes(value), value, rank + offset)


def _largest(run: Trace) -> int:
    return max([*run.bytes_sent, *run.bytes_received], default=0)


def _summary(name: str, run: Trace, named: bool) -> str:
    text = f"longest bar {format_bytes(_largest(run))}" if len(run) else "no messages"
    return f"{name}: {text}" if named else text


def _alt(runs: Mapping[str, Trace], title: str) -> str:
    return " ".join([f"{title}.", *(_describe(name, run) for name, run in runs.items())])


def _describe(name: str, run: Trace) -> str:
    """One run in words; ranks that sent and received the same appear together."""
    alike: dict[tuple[int, int], list[int]] = {}
    for rank, amounts in enumerate(zip(run.bytes_sent, run.bytes_received, strict=True)):
        alike.setdefault(amounts, []).append(rank)
    told = [
        f"{_ranks(ranks)} sent {format_bytes(sent)} and received {format_bytes(received)}"
        for (sent, received), ranks in alike.items()
    ]
    if len(told) > 12:
        told = [f"{count(run.world_size, 'rank')}, longest bar {format_bytes(_largest(run))}"]
    return f"{name[0].upper()}{name[1:]}: {'; '.join(told)}." if name else f"{'; '.join(told)}."


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if list(ranks) == list(range(ranks[0], ranks[-1] + 1)) and len(ranks) > 2:
        return f"ranks {ranks[0]} to {ranks[-1]} each"
    return f"ranks {', '.join(map(str, ranks))} each"

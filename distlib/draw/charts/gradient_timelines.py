"""Which version of the parameters a gradient was computed with, and which version it was applied to.

    server     │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6        a box: how long a version lasted, each update makes the next one
    worker 1   │ 0 │ 2 │ 2 │ 2 │ 2 │              a box: a gradient is computed; how many updates old it became
    worker 2   └reads 1 ── 4 ──┘applied to 5      the gradient that is followed

Gray: the worker waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from distlib.draw.picture import Picture, add_axes, add_titles, new_figure, text_width
from distlib.draw.style import (
    BLUE,
    BODY,
    INK,
    SMALL,
    VERMILLION,
    WIDTH,
    count,
    drawing_style,
    format_number,
    points,
    text_on,
    time_unit,
)
from distlib.training.parameter_server.log import ServerLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Spans = Sequence[tuple[float, float]]
"""When each gradient of a worker was computed, in order: start and end, in seconds."""

_TOP, _LEFT, _RIGHT, _HEADING, _LANE, _FOOT = 52.0, 78.0, 20.0, 30.0, 26.0, 44.0  # CSS pixels
_WAITING: dict[str, Any] = {"facecolor": INK, "alpha": 0.1, "linewidth": 0}
_PALE = "#B8D4E8"


class _Followed(NamedTuple):
    start: float
    end: float
    lane: int
    read: int
    applied: int
    time: float


def gradient_timeline(
    runs: Mapping[str, tuple[ServerLog, Mapping[int, Spans]]],
    *,
    title: str,
    until: float,
    follow: tuple[int, int] | None = None,
) -> Picture:
    """Draw when each worker computes and waits, and how the versions of the server's parameters follow each other.

    Args:
        runs: words → the server's log, and by worker when it computed each gradient that it has pushed, in order. No
            backup workers: there a gradient's number in the log is not its number in this order.
        title: the headline.
        until: seconds; what comes later is not drawn.
        follow: (worker, number of its gradient from 1 on) of the last run: which version it reads, and which it meets.
            Then each gradient has its staleness in its box, too.

    Raises:
        ValueError: no run, or a gradient to follow that was not applied in time.
    """
    if not runs:
        raise ValueError("expected at least one run to draw, got none")
    log, computing = list(runs.values())[-1]
    followed = _find(log, computing, follow, until) if follow else None
    with drawing_style():
        heights = [_LANE * (1 + len(spans)) for _, spans in runs.values()]
        figure = new_figure(WIDTH, _TOP + sum(heights) + _HEADING * len(runs) + _FOOT)
        in_box = "; in a worker's box: how many updates old its gradient became" if followed else ""
        add_titles(figure, title, f"server: the versions of the parameters; gray: the worker waits{in_box}")
        top = _TOP
        for number, (name, (log, computing)) in enumerate(runs.items()):
            last = number == len(runs) - 1
            top += _HEADING
            axes = add_axes(figure, _LEFT, top, WIDTH - _LEFT - _RIGHT, heights[number])
            _draw_run(axes, name, log, computing, until, ages=followed is not None)
            _label_axis(axes, until, last)
            if last and followed:
                _draw_followed(axes, followed)
            top += heights[number]
        told = " ".join(_tell(name, log, computing, until) for name, (log, computing) in runs.items())
        return Picture(figure, f"{title}. {told}{_tell_followed(followed, follow)}")


def _find(log: ServerLog, computing: Mapping[int, Spans], follow: tuple[int, int], until: float) -> _Followed:
    for version, update in enumerate(log.updates):
        for each in update.contributions:
            if (each.worker, each.clock) == follow and update.time <= until:
                start, end = computing[each.worker][each.clock - 1]
                lane = 1 + sorted(computing).index(each.worker)
                return _Followed(start, end, lane, version - each.staleness, version, update.time)
    raise ValueError(f"gradient {follow[1]} of worker {follow[0]} was not applied in the first {until:g} s")


def _draw_run(axes: Axes, name: str, log: ServerLog, computing: Mapping[int, Spans], until: float, ages: bool) -> None:
    workers = sorted(computing)
    axes.set(xlim=(0, until), ylim=(len(workers) + 1, 0))
    axes.set_yticks([lane + 0.5 for lane in range(len(workers) + 1)], ["server", *(f"worker {w}" for w in workers)])
    axes.tick_params(axis="y", length=0, labelsize=points(SMALL + 1))
    axes.spines["left"].set_visible(False)
    axes.text(0, -0.35, name, size=points(BODY), weight="bold", color=INK)
    stale = {(each.worker, each.clock): each.staleness for each in log.contributions}
    changes = [0.0, *(update.time for update in log.updates if update.time < until), until]
    for version, (start, end) in enumerate(pairwise(changes)):
        _draw_box(axes, 0, start, end, until, str(version), _PALE if version % 2 else "#FFFFFF", 0.16)
    for lane, worker in enumerate(workers, 1):
        _patch(axes, (0, lane + 0.08), until, 0.84, _WAITING)
        for number, (start, end) in enumerate(computing[worker], 1):
            if start < until:
                words = str(stale.get((worker, number), "")) if ages and end < until else ""
                _draw_box(axes, lane, start, min(end, until), until, words, BLUE, 0.08)


def _draw_box(
    axes: Axes, lane: float, start: float, end: float, until: float, words: str, color: str, inset: float
) -> None:
    look = {"facecolor": color, "edgecolor": INK, "linewidth": points(0.6)}
    _patch(axes, (start, lane + inset), end - start, 1 - 2 * inset, look)
    pixels = (WIDTH - _LEFT - _RIGHT) * (end - start) / until
    if words and text_width(words, SMALL) + 3 <= pixels:
        middle = (start + end) / 2, lane + 0.5
        axes.text(*middle, words, size=points(SMALL), color=text_on(color), ha="center", va="center_baseline")


def _patch(axes: Axes, corner: tuple[float, float], width: float, height: float, look: Mapping[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, width, height, **look))


def _draw_followed(axes: Axes, followed: _Followed) -> None:
    """The box of the gradient in another color, with its staleness; a line from the server, and an arrow back."""
    lane, words = followed.lane, f"{followed.applied - followed.read}"
    box = {"facecolor": VERMILLION, "edgecolor": INK, "linewidth": points(1.2), "zorder": 4}
    _patch(axes, (followed.start, lane + 0.08), followed.end - followed.start, 0.84, box)
    look: dict[str, Any] = {"size": points(BODY), "weight": "bold", "ha": "center", "va": "center_baseline"}
    axes.text((followed.start + followed.end) / 2, lane + 0.5, words, color=text_on(VERMILLION), zorder=5, **look)
    arrow = {"arrowstyle": "-|>", "color": VERMILLION, "linewidth": points(2.5), "shrinkA": 0, "shrinkB": 0}
    for start, end in (
        ((followed.start, 0.84), (followed.start, lane + 0.08)),
        ((followed.end, lane + 0.08), (followed.end, 0.84)),
    ):
        axes.annotate("", xy=end, xytext=start, arrowprops=arrow, zorder=6)
    for x, words in (
        (followed.start, f"reads version {followed.read}"),
        (followed.end, f"applied to version {followed.applied}"),
    ):
        axes.text(x, -0.35, words, size=points(BODY), weight="bold", color=INK, ha="center")
        axes.plot([x, x], [-0.2, 0.84], color=VERMILLION, linewidth=points(2.5), clip_on=False, zorder=6)


def _label_axis(axes: Axes, until: float, last: bool) -> None:
    unit, factor = time_unit(until)
    axes.xaxis.set_major_formatter(lambda value, _: format_number(float(f"{value / factor:.6g}")) if last else "")
    axes.tick_params(axis="x", length=4 if last else 0)
    axes.spines["bottom"].set_visible(last)
    if last:
        axes.set_xlabel(f"time ({unit})", size=points(12))


def _tell(name: str, log: ServerLog, computing: Mapping[int, Spans], until: float) -> str:
    updates = sum(update.time <= until for update in log.updates)
    busy = []
    for worker in sorted(computing):
        share = sum(min(end, until) - start for start, end in computing[worker] if start < until) / until
        busy.append(f"worker {worker} {share:.0%}")
    made = count(updates, "update")
    return f"{name}: {made} until {until:g} s; of this time compute: {', '.join(busy)}."


def _tell_followed(followed: _Followed | None, follow: tuple[int, int] | None) -> str:
    if not followed or not follow:
        return ""
    return (
        f" Gradient {follow[1]} of worker {follow[0]} reads version {followed.read} and is applied to version "
        f"{followed.applied}: it is {count(followed.applied - followed.read, 'update')} old."
    )

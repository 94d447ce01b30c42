"""Which rank sends to which, and how much: where a bottleneck is seen as a large disc with many arrows.

    1 ──► ┌───┐ ◄── 2            0 ──► 1         a disc is as large as what the rank sends
          │ 0 │                  ▲     ▼         an arrow is as thick as what goes along it
    4 ──► └───┘ ◄── 3            3 ◄── 2

Runs side by side have the same scale.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from distlib.draw.charts.rank_discs import Spot, draw_rank, in_a_circle
from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure
from distlib.draw.style import BLUE, BODY, INK, SMALL, WIDTH, drawing_style, format_bytes, points
from distlib.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Routes = Mapping[tuple[int, int], int]
"""Sender and receiver → the bytes that went from one to the other."""

_TOP, _HEAD = 56.0, 34.0  # CSS pixels: the titles, and the name of a panel
_CIRCLE = 118.0  # CSS pixels: from the middle of a panel to a rank
_LARGEST, _SMALLEST = 27.0, 9.5  # CSS pixels: the radius of a disc
_THICKEST, _THINNEST = 9.0, 1.2  # CSS pixels: an arrow
_MOST_RUNS, _MOST_RANKS = 3, 12


def who_sends(runs: Mapping[str, Trace], *, title: str) -> Picture:
    """Draw the ranks of each run in a circle, and an arrow from each rank to each one that it sends to.

    Args:
        runs: words → the trace of a run, as `world.trace`. At most 3, of 2 to 12 ranks.
        title: the headline.

    Raises:
        ValueError: nothing to draw, more than 3 runs, other than 2 to 12 ranks, or a run without messages.
        TypeError: something given is no Trace.
    """
    if not 1 <= len(runs) <= _MOST_RUNS:
        raise ValueError(f"expected 1 to {_MOST_RUNS} runs, got {len(runs)}")
    for name, run in runs.items():
        if not isinstance(run, Trace):
            raise TypeError(f"expected a Trace for {name!r}, as world.trace is after a run, got {type(run).__name__}")
        if not 2 <= run.world_size <= _MOST_RANKS or not run.messages:
            raise ValueError(
                f"expected a run of 2 to {_MOST_RANKS} ranks that send messages, "
                f"got {run.world_size} ranks and {len(run.messages)} messages for {name!r}"
            )
    with drawing_style():
        return _draw(runs, title)


def _routes(run: Trace) -> Routes:
    found: Counter[tuple[int, int]] = Counter()
    for message in run.messages:
        found[message.src, message.dst] += message.nbytes
    return found


def _draw(runs: Mapping[str, Trace], title: str) -> Picture:
    figure = new_figure(WIDTH, _TOP + _HEAD + 2 * (_CIRCLE + _LARGEST) + 12)
    add_titles(
        figure, title, "the thicker an arrow, the more bytes go along it; the larger a disc, the more its rank sends"
    )
    canvas, told = add_canvas(figure), []
    most = max(1, *(sent for run in runs.values() for sent in run.bytes_sent))
    room = (WIDTH - 20) / len(runs)
    for number, (name, run) in enumerate(runs.items()):
        middle, routes = 10 + (number + 0.5) * room, _routes(run)
        busiest = f"busiest rank sends {format_bytes(max(run.bytes_sent))}"
        canvas.text(middle, _TOP + 4, name, size=points(fitting_size(name, BODY + 1, room)), **_look(weight="bold"))
        canvas.text(middle, _TOP + 22, busiest, size=points(fitting_size(busiest, SMALL + 1, room)), **_look())
        _draw_run(canvas, (middle, _TOP + _HEAD + _CIRCLE + _LARGEST), run, routes, most)
        told.append(f"{name[:1].upper()}{name[1:]}: {_in_words(routes)}.")
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_run(canvas: Axes, middle: Spot, run: Trace, routes: Routes, most: int) -> None:
    spots = in_a_circle(run.world_size, middle, _CIRCLE, _CIRCLE)
    radii = [max(_SMALLEST, _LARGEST * math.sqrt(sent / most)) for sent in run.bytes_sent]
    for (src, dst), nbytes in routes.items():
        both_ways = (dst, src) in routes
        thick = max(_THINNEST, _THICKEST * nbytes / most)
        _draw_arrow(canvas, spots[src], spots[dst], radii[src], radii[dst], thick, both_ways)
    for rank, (spot, radius) in enumerate(zip(spots, radii, strict=True)):
        draw_rank(canvas, rank, spot, radius, min(BODY + 2, 1.25 * radius) if radius > _SMALLEST else SMALL)


def _draw_arrow(
    canvas: Axes, start: Spot, end: Spot, gap: float, end_gap: float, thick: float, is_one_of_two: bool
) -> None:
    from matplotlib.patches import FancyArrowPatch

    tail, head, length = (points(pixels) for pixels in (thick, 2 * thick + 7, thick + 8))
    shape = f"simple,tail_width={tail},head_width={head},head_length={length}"
    bend = f"arc3,rad={-0.1 if is_one_of_two else 0}"
    gaps: dict[str, Any] = {"shrinkA": points(gap), "shrinkB": points(end_gap + 2)}
    arrow = FancyArrowPatch(start, end, connectionstyle=bend, arrowstyle=shape, mutation_scale=1, zorder=2, **gaps)
    arrow.set(color=BLUE, linewidth=0)
    canvas.add_patch(arrow)


def _look(**given: Any) -> dict[str, Any]:
    return {"color": INK, "ha": "center", "va": "center_baseline", "zorder": 4, **given}


def _in_words(routes: Routes) -> str:
    """ "rank 0 sends 24 MiB to ranks 1, 2; rank 1 sends 8 MiB to rank 0"."""
    receivers: dict[tuple[int, int], list[int]] = {}
    for (src, dst), nbytes in sorted(routes.items()):
        receivers.setdefault((src, nbytes), []).append(dst)
    return "; ".join(
        f"rank {src} sends {format_bytes(nbytes)} to {'rank' if len(ranks) == 1 else 'each of ranks'} "
        f"{', '.join(map(str, ranks))}"
        for (src, nbytes), ranks in receivers.items()
    )

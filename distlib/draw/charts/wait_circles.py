"""Who waits for whom in a deadlock, as its message says.

       ╭─ waits to send 4 float32 ─╮
    (rank 0)                    (rank 1)
       ╰─ waits to send 4 float32 ─╯

An arrow goes from the rank that waits to the rank that it waits for. In a circle of arrows no rank can ever go on.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distlib.draw.charts.rank_discs import LEFT, Spot, draw_rank, in_a_circle
from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure
from distlib.draw.style import BODY, INK, SMALL, VERMILLION, WIDTH, drawing_style, points
from distlib.worlds.diagnosis import DeadlockError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP = 56.0  # CSS pixels: the titles
_RADIUS = 25.0  # CSS pixels: of a rank
_STEP = re.compile(r"rank (\d+) (waits .*?) \(\S.*, line \d+")
_END = re.compile(r"^ +← rank (\d+)(?: has (already returned))?", re.MULTILINE)


@dataclass(frozen=True)
class WaitForRank:
    """A rank, what it waits to do, and the rank that it waits for."""

    rank: int
    words: str
    peer: int


def waits_of(error: DeadlockError) -> list[WaitForRank]:
    """The chain of waits in the message of an error, from its first rank on.

    Raises:
        ValueError: the message has no such chain.
    """
    steps = [(int(rank), words) for rank, words in _STEP.findall(str(error))]
    peers = [int(rank) for rank, _ in _END.findall(str(error))]
    if not steps or len(peers) != len(steps):
        raise ValueError(f"expected the error of a deadlock whose ranks wait for each other, got {error!r}")
    shorter = [re.sub(r" (?:to|from|for) ranks? \d+$", "", words) for _, words in steps]
    return [WaitForRank(rank, words, peer) for (rank, _), words, peer in zip(steps, shorter, peers, strict=True)]


def who_waits(error: DeadlockError, *, title: str = "Who waits for whom") -> Picture:
    """Draw the ranks of a deadlock, and an arrow from each one to the rank that it waits for.

    Args:
        error: what `World.run` raised.
        title: the headline.

    Raises:
        ValueError: the error is not that of a deadlock.
    """
    if not isinstance(error, DeadlockError):
        raise ValueError(f"expected a DeadlockError, which a run raises whose ranks wait forever, got {error!r}")
    waits = waits_of(error)
    ranks = list(dict.fromkeys(rank for wait in waits for rank in (wait.rank, wait.peer)))
    returned = set(ranks) - {wait.rank for wait in waits}
    with drawing_style():
        return _draw(waits, ranks, returned, title)


def _draw(waits: list[WaitForRank], ranks: list[int], returned: set[int], title: str) -> Picture:
    size = 60.0 + 26 * len(ranks)  # from the middle to a rank
    flat = 0.45 if len(ranks) == 2 else 0.75
    figure = new_figure(WIDTH, _TOP + 2 * flat * size + 110)
    add_titles(figure, title, "an arrow goes from a rank to the rank that it waits for")
    canvas = add_canvas(figure)
    middle = (WIDTH / 2, _TOP + flat * size + 55)
    spots = dict(zip(ranks, in_a_circle(len(ranks), middle, 1.9 * size, flat * size, first=LEFT), strict=True))
    for wait in waits:
        _draw_wait(canvas, spots[wait.rank], spots[wait.peer], wait.words)
    for rank, spot in spots.items():
        draw_rank(canvas, rank, spot, _RADIUS, BODY + 3)
        if rank in returned:
            look: dict[str, Any] = {"color": INK, "ha": "center", "va": "center_baseline", "zorder": 4}
            canvas.text(spot[0], spot[1] + _RADIUS + 14, "has returned", size=points(SMALL), **look)
    told = [f"Rank {wait.rank} {wait.words}, and needs rank {wait.peer}." for wait in waits]
    told += [f"Rank {rank} has already returned." for rank in sorted(returned)]
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_wait(canvas: Axes, start: Spot, end: Spot, words: str) -> None:
    """A bent arrow, with its words on the outside of the bend."""
    from matplotlib.patches import FancyArrowPatch

    gap = points(_RADIUS + 4)
    bend = "arc3,rad=-0.32"
    arrow = FancyArrowPatch(start, end, connectionstyle=bend, arrowstyle="-|>", shrinkA=gap, shrinkB=gap, zorder=2)
    arrow.set(mutation_scale=points(22), color=VERMILLION, linewidth=points(2.5))
    canvas.add_patch(arrow)
    across, down = end[0] - start[0], end[1] - start[1]
    length = math.hypot(across, down)
    out = (down / length, -across / length)  # from the middle of the two ranks to the bend and beyond
    x, y = ((one + other) / 2 + (0.16 * length + 14) * way for one, other, way in zip(start, end, out, strict=True))
    side = "center" if abs(out[0]) < 0.2 else ("left" if out[0] > 0 else "right")
    size = points(fitting_size(words, BODY, 300))
    canvas.text(x, y, words, size=size, color=INK, ha=side, va="center_baseline", zorder=4)

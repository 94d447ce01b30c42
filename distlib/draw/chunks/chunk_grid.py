"""`chunk_steps`: a run as a row of small pictures, one per round: which contributions to which chunk a rank holds.

after round 1
         chunk 0    chunk 1
        ┌──┬──┐    ┌──┬──┐
rank 0  │0 │  │    │0 │1 │◄┐    a cell has a square for each rank's contribution, always the same one;
        └──┴──┘    └──┴──┘ │    a thick outline: all are inside once, the full sum
rank 1  │0 │1 │    │  │1 │─┘    the arrow: rank 1 sent this chunk to rank 0 in this round
        └──┴──┘    └──┴──┘
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from distlib.communicator import Communicator
from distlib.draw.chunks.chunk_history import ChunkHistory, ChunkMessage, name_chunks, watch_chunks
from distlib.draw.chunks.chunk_layout import HEAD, LABELS, MARGIN, Layout, is_whole, lay_out
from distlib.draw.chunks.markers import Cell, format_count, is_part, is_repeated
from distlib.draw.chunks.promises import End
from distlib.draw.picture import Picture, add_canvas, add_titles, new_figure, text_width
from distlib.draw.style import BODY, INK, SMALL, VERMILLION, WIDTH, color_of, count, drawing_style, points, text_on
from distlib.worlds.real.world import World
from distlib.worlds.simulated.simulator import SimulatedWorld

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES, _KEY = 50.0, 36.0  # CSS pixels: the titles, the key
_TOLD = 32  # with more messages than this, the alternative text does not say who sends what
_FULL: dict[str, Any] = {"linewidth": points(2.2), "edgecolor": INK}
_ODD: dict[str, Any] = {"linewidth": points(1.6), "edgecolor": VERMILLION, "linestyle": "--"}
_HATCH: dict[str, Any] = {"linewidth": 0, "edgecolor": VERMILLION, "hatch": "xx", "alpha": 0.5}


def chunk_steps(
    world: World | SimulatedWorld,
    function: Callable[[Communicator, torch.Tensor], Any],
    chunks: int | None = None,
    *,
    start: Literal["own", "scattered"] = "own",
    end: End | None = None,
    steps: Iterable[int] | None = None,
    title: str | None = None,
    timeout: float | None = None,
) -> Picture:
    """Run `function(comm, tensor)` on `world` and draw which contributions each rank holds, round by round.

    It may be any function, a wrong one too. If something goes wrong on a rank the picture shows the rounds up to then
    and the error's text below; `picture.error` is the error.

    Args:
        world, function, chunks, start, end, timeout: see `watch_chunks`.
        steps, title: see `draw_chunks`.
    """
    history = watch_chunks(world, function, chunks, start=start, end=end, timeout=timeout)
    name = getattr(function, "__name__", "")
    if title is None and name.isidentifier():
        title = f"{name}, round by round"
    return draw_chunks(history, steps=steps, title=title)


def draw_chunks(history: ChunkHistory, *, steps: Iterable[int] | None = None, title: str | None = None) -> Picture:
    """Draw a history that `watch_chunks` has recorded.

    Args:
        history: of a run.
        steps: which panels: 0 is the start, k is "after round k". Steps that the run did not reach are left out. By
            default all; of more than 16 (8, with more than 8 ranks) those before the last two are left out.
        title: the headline.

    Raises:
        ValueError: none of `steps` was reached.
    """
    shown = _choose_steps(history, steps)
    with drawing_style():
        return _draw(history, shown, title or "Whose contributions are in which chunk")


def _choose_steps(history: ChunkHistory, steps: Iterable[int] | None) -> list[int]:
    if steps is None:
        everything = list(range(history.rounds + 1))
        most = 16 if history.world_size <= 8 else 8
        return everything if len(everything) <= most else [*everything[: most - 2], *everything[-2:]]
    wanted = list(steps)
    shown = [step for step in wanted if 0 <= step <= history.rounds]
    if not shown:
        raise ValueError(f"expected steps from 0 to {history.rounds}, the rounds that the run had, got {wanted}")
    return shown


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draw(history: ChunkHistory, shown: Sequence[int], title: str) -> Picture:
    layout = lay_out(history, shown)
    width = max(min(WIDTH, 2 * MARGIN + LABELS + layout.size[0]), 640.0)
    notes = [line for finding in history.findings for line in textwrap.wrap(finding, int(width / 7.4))]
    top = _TITLES + _KEY
    figure = new_figure(width, top + layout.size[1] + 18 * len(notes) + 4)
    add_titles(figure, title, _subtitle(history, shown))
    brush = _Brush(add_canvas(figure), layout)
    _draw_key(brush, history, shown)
    for number, step in enumerate(shown):
        left, above = layout.panel_at(number)
        _draw_panel(brush, history, step, MARGIN + LABELS + left, top + above, named=number % layout.per_row == 0)
    for number, line in enumerate(notes):
        brush.text(MARGIN, top + layout.size[1] + 10 + 18 * number, line, BODY)
    brush.finish()
    return Picture(figure, describe_chunks(history, shown, title), history.error)


def _draw_panel(brush: _Brush, history: ChunkHistory, step: int, left: float, top: float, named: bool) -> None:
    layout = brush.layout
    brush.text(left, top + 14, f"after round {step}" if step else "start", BODY, weight="bold")
    for chunk in range(history.chunks):
        x, y = layout.cell_at(0, chunk)
        label = f"chunk {chunk}" if layout.cell[0] >= 46 else str(chunk)
        brush.text(left + x + layout.cell[0] / 2, top + y - 6, label, SMALL, ha="center")
    if named and layout.cell[0] < 46:
        brush.text(left - 8, top + HEAD - 6, "chunk", SMALL, ha="right")
    for rank, cells in enumerate(history.states[step]):
        y = top + layout.cell_at(rank, 0)[1]
        if named:
            brush.text(left - 8, y + layout.cell[1] / 2, f"rank {rank}", SMALL + 1, ha="right", va="center_baseline")
        for chunk, cell in enumerate(cells):
            astray = history.is_astray(step, rank, chunk)
            brush.cell(cell, left + layout.cell_at(rank, chunk)[0], y, astray=astray)
    _draw_messages(brush, history.messages_in(step), history.chunks, left, top)


def _draw_messages(brush: _Brush, messages: Sequence[ChunkMessage], chunks: int, left: float, top: float) -> None:
    lanes: Counter[int] = Counter()
    for message in messages:
        whole = is_whole(message, chunks)
        for chunk in (-1,) if whole else message.chunks:
            lanes[chunk] += 1
            brush.arrow(message, max(chunk, 0), lanes[chunk], left, top, leftward=whole)


class _Brush:
    """Draws cells and arrows on a canvas in CSS pixels. Places are collected and drawn at once: there are thousands."""

    def __init__(self, canvas: Axes, layout: Layout) -> None:
        self.canvas = canvas
        self.layout = layout
        self._boxes: dict[tuple[str, float], list[list[tuple[float, float]]]] = {}

    def text(self, x: float, y: float, words: str, size: float, **options: Any) -> None:
        self.canvas.text(x, y, words, size=points(size), **{"color": INK, **options})

    def cell(self, cell: Cell, left: float, top: float, outlined: bool = True, astray: bool = False) -> None:
        """The squares of one cell, with its top left corner at (left, top), and its outline if it has one."""
        square = self.layout.square
        for rank, times in enumerate(cell.counts):
            down, across = divmod(rank, self.layout.across)
            self.square(rank, times, left + across * square, top + down * square)
        width, height = self.layout.cell
        if not outlined:
            return
        if cell.is_full:
            self.outline(left, top, width, height, **_FULL)
        if astray or not cell.is_clean:
            self.outline(left, top, width, height, **_ODD)
            self.outline(left, top, width, height, **_HATCH)

    def square(self, rank: int, times: float, left: float, top: float) -> None:
        """One rank's square in a cell: empty, filled, or filled in part; hatched if counted several times."""
        inner = self.layout.square - self.layout.gap
        self.box(left, top, inner, inner, INK, 0.16)
        if times == 0:
            return
        filled = inner * times if 0 < times < 1 else inner
        self.box(left, top + inner - filled, inner, filled, color_of(rank), 1.0)
        if is_repeated(times):
            look = {"linewidth": 0, "edgecolor": text_on(color_of(rank)), "hatch": "////", "alpha": 0.55}
            self.outline(left, top, inner, inner, pad=0, **look)
        if self.layout.numbered:
            self._write_in_square(rank, times, left + inner / 2, top + inner / 2)

    def _write_in_square(self, rank: int, times: float, x: float, y: float) -> None:
        look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": text_on(color_of(rank))}
        size = min(12.0, max(SMALL, 0.58 * self.layout.square))
        if is_part(times):
            self.text(x, y, format_count(times), size, **look | {"color": INK})
        elif is_repeated(times):
            behind = {"facecolor": color_of(rank), "edgecolor": "none", "boxstyle": "square,pad=0.05"}
            self.text(x, y, f"×{format_count(times)}", size, weight="bold", bbox=behind, **look)
        else:
            self.text(x, y, str(rank), size, **look)

    def box(self, left: float, top: float, width: float, height: float, color: str, alpha: float) -> None:
        right, bottom = left + width, top + height
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self._boxes.setdefault((color, alpha), []).append(corners)

    def outline(self, left: float, top: float, width: float, height: float, pad: float = 2, **look: Any) -> None:
        from matplotlib.patches import Rectangle

        gap = self.layout.gap if pad else 0
        corner, size = (left - pad, top - pad), (width - gap + 2 * pad, height - gap + 2 * pad)
        self.canvas.add_patch(Rectangle(corner, *size, **{"facecolor": "none", "zorder": 3, **look}))

    def arrow(self, message: ChunkMessage, chunk: int, lane: int, left: float, top: float, leftward: bool) -> None:
        """From the sender's cell out into the gap next to it, along it, and into the receiver's cell."""
        x, above = self.layout.cell_at(message.src, chunk)
        below = self.layout.cell_at(message.dst, chunk)[1]
        edge = left + x + (-3 if leftward else self.layout.cell[0] + 1)
        half = self.layout.cell[1] / 2
        self.bracket(edge, top + above + half, top + below + half, (-1 if leftward else 1) * self.layout.lane * lane)

    def bracket(self, edge: float, start: float, end: float, out: float) -> None:
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        path = Path([(edge, start), (edge + out, start), (edge + out, end), (edge, end)])
        look: dict[str, Any] = {
            "arrowstyle": "-|>,head_length=3.2,head_width=1.8",
            "color": INK,
            "linewidth": points(1.3),
        }
        self.canvas.add_patch(FancyArrowPatch(path=path, mutation_scale=points(1.45), joinstyle="round", **look))

    def finish(self) -> None:
        """Draw the boxes that were collected."""
        from matplotlib.collections import PolyCollection

        for (color, alpha), boxes in self._boxes.items():
            self.canvas.add_collection(PolyCollection(boxes, facecolors=color, alpha=alpha, linewidths=0, zorder=1))


def _draw_key(brush: _Brush, history: ChunkHistory, shown: Sequence[int]) -> None:
    """What the signs mean, in one line below the titles; rare signs only where they occur."""
    x, y = MARGIN + 2, _TITLES + 2
    layout = replace(brush.layout, square=14.0 if brush.layout.down <= 2 else 7.0)
    small = _Brush(brush.canvas, layout)
    width, height = layout.cell
    small.cell(Cell((1.0,) * history.world_size), x, y, outlined=False)
    x = _key_word(brush, x + width + 8, "whose contribution is inside")
    middle = y + height / 2
    brush.outline(x + 2, middle - 9, 20, 18, **_FULL)
    x = _key_word(brush, x + 32, "full sum")
    brush.bracket(x, middle + 8, middle - 8, 7)
    x = _key_word(brush, x + 16, "sent in this round")
    cells = [cell for step in shown for row in history.states[step] for cell in row]
    if any(is_repeated(count) for cell in cells for count in cell.counts):
        one = _Brush(brush.canvas, replace(layout, square=18.0))
        one.square(0, 2.0, x, middle - 9)
        one.finish()
        x = _key_word(brush, x + 26, "counted twice")
    if not all(cell.is_clean for cell in cells) or _any_astray(history, shown):
        brush.outline(x + 2, middle - 9, 20, 18, **_ODD)
        brush.outline(x + 2, middle - 9, 20, 18, **_HATCH)
        _key_word(brush, x + 32, "does not belong here")
    small.finish()


def _any_astray(history: ChunkHistory, shown: Sequence[int]) -> bool:
    ranks, chunks = range(history.world_size), range(history.chunks)
    return any(history.is_astray(step, rank, chunk) for step in shown for rank in ranks for chunk in chunks)


def _key_word(brush: _Brush, x: float, words: str) -> float:
    """Write a word of the key at `x`, next to its sign; returns where the next sign may stand."""
    y = _TITLES + 2 + (14.0 if brush.layout.down <= 2 else 7.0) * brush.layout.down / 2
    brush.text(x, y, words, SMALL + 1, va="center_baseline")
    return x + text_width(words, SMALL + 1) + 22


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _subtitle(history: ChunkHistory, shown: Sequence[int]) -> str:
    """How it ended; if only some rounds in a row are shown, how far they got."""
    if len(shown) == history.rounds + 1:
        return history.summary()
    if shown[-1] == history.rounds and shown[0] == 0:
        return f"{history.summary()} Shown: {len(shown)} of {history.rounds + 1} steps."
    first, last = ("the start" if step == 0 else f"round {step}" for step in (shown[0], shown[-1]))
    span = f"From {first} to {last}" if len(shown) > 1 else f"After {last}" if shown[0] else "The start"
    return f"{span}, of {count(history.rounds, 'round')}. {history.tell_full_sums(shown[-1])}"


def describe_chunks(history: ChunkHistory, shown: Sequence[int], title: str) -> str:
    """The panels of some steps in words, as alternative text."""
    full = ", ".join(f"{f'round {step}' if step else 'start'}: {history.full_sums[step]}" for step in shown)
    text = (
        f"{title}. Grids of {count(history.world_size, 'rank')} by {count(history.chunks, 'chunk')}, one for each "
        f"round. {_subtitle(history, shown)} Step by step: {full}."
    )
    return " ".join([text, *_tell_messages(history, shown), *history.findings])


def _tell_messages(history: ChunkHistory, shown: Sequence[int]) -> Iterator[str]:
    """Who sends which chunks to whom in these rounds; nothing where there are too many messages to listen to."""
    by_round = {round: history.messages_in(round) for round in shown if round}
    if sum(map(len, by_round.values())) > _TOLD:
        return
    for round, messages in by_round.items():
        told = (f"{m.src} sends {name_chunks(m.chunks)} to {m.dst}" for m in messages if m.chunks)
        if words := ", ".join(told):
            yield f"Round {round}: {words}."

"""Where everything in a picture of `chunk_grid` goes: sizes and positions in CSS pixels, nothing is drawn here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from distlib.draw.chunks.chunk_history import ChunkHistory, ChunkMessage
from distlib.draw.style import SMALL, WIDTH

MARGIN, LABELS = 10.0, 52.0  # CSS pixels: around everything, for "rank 0"
HEAD = 44.0  # CSS pixels: for a panel's name and its chunk numbers
_GAP, _BELOW = 26.0, 14.0  # CSS pixels: between panels, side by side and one below the other
_NARROWEST = 96.0  # CSS pixels: a panel must have room for its name


@dataclass(frozen=True)
class Layout:
    """Sizes in CSS pixels.

    A cell is a small grid of squares, `across` × `down`, one for each rank. Right of it is a gutter for the arrows,
    with a lane for each; left of the first one, `whole` pixels for messages that carry the whole tensor.
    """

    ranks: int
    chunks: int
    square: float
    across: int
    down: int
    lane: float
    gutter: float
    whole: float
    per_row: int
    rows: int

    @property
    def cell(self) -> tuple[float, float]:
        return self.across * self.square, self.down * self.square

    @property
    def gap(self) -> float:
        """Between two squares of a cell."""
        return max(1.0, 0.08 * self.square)

    @property
    def numbered(self) -> bool:
        """Whether a square has room for the number of its rank, in text of SMALL CSS pixels: less can't be read."""
        return self.square - self.gap >= max(SMALL + 1, 0.64 * SMALL * len(str(self.ranks - 1)))

    @property
    def row_gap(self) -> float:
        return max(8.0, 0.4 * self.square)

    @property
    def panel(self) -> tuple[float, float]:
        width = self.whole + self.chunks * (self.cell[0] + self.gutter)
        return max(width, _NARROWEST), HEAD + self.ranks * (self.cell[1] + self.row_gap)

    def cell_at(self, rank: int, chunk: int) -> tuple[float, float]:
        """The top left corner of a cell, counted from that of its panel."""
        x = self.whole + chunk * (self.cell[0] + self.gutter)
        return x, HEAD + rank * (self.cell[1] + self.row_gap)

    def panel_at(self, number: int) -> tuple[float, float]:
        """The top left corner of a panel, counted from that of the first."""
        row, column = divmod(number, self.per_row)
        return column * (self.panel[0] + _GAP), row * (self.panel[1] + _BELOW)

    @property
    def size(self) -> tuple[float, float]:
        width, height = self.panel
        return self.per_row * (width + _GAP) - _GAP, self.rows * (height + _BELOW)


def lay_out(history: ChunkHistory, shown: Sequence[int]) -> Layout:
    """As many panels side by side as there can be with squares that are large enough to tell apart."""
    across, down = _arrange_squares(history.world_size)
    lane = 7.0 if history.world_size <= 6 else 5.0
    gutter = lane * (1 + max(_busiest(history, shown, whole=False), 1))
    whole_arrows = _busiest(history, shown, whole=True)
    whole = lane * (1 + whole_arrows) if whole_arrows else 0.0
    for per_row, smallest in ((5, 16.0), (4, 16.0), (3, 5.0), (2, 3.5), (1, 0.0)):
        width = (WIDTH - 2 * MARGIN - LABELS + _GAP) / per_row - _GAP - whole - history.chunks * gutter
        square = min(22.0, width / (history.chunks * across))
        if square >= smallest:
            break
    rows = -(-len(shown) // per_row)
    per_row = -(-len(shown) // rows)
    return Layout(
        history.world_size, history.chunks, max(square, 3.0), across, down, lane, gutter, whole, per_row, rows
    )


def lay_out_one(history: ChunkHistory) -> Layout:
    """One panel, as large as there is room, with gutters for the arrows of the busiest step."""
    steps = range(history.rounds + 1)
    layout = lay_out(history, steps)
    lane = layout.lane + 3
    gutter = lane * (1 + max(_busiest(history, steps, whole=False), 1))
    whole_arrows = _busiest(history, steps, whole=True)
    whole = lane * (1 + whole_arrows) if whole_arrows else 0.0
    width = WIDTH - 2 * MARGIN - LABELS - whole - history.chunks * gutter
    square = max(min(30.0, width / (history.chunks * layout.across), 520 / (history.world_size * layout.down)), 4.0)
    return replace(layout, square=square, lane=lane, gutter=gutter, whole=whole, per_row=1, rows=1)


def _arrange_squares(ranks: int) -> tuple[int, int]:
    """How many squares across and down a cell has: 4 ranks 2 × 2, 8 ranks 4 × 2."""
    down = 1 if ranks <= 3 else 2 if ranks <= 8 else 4
    return -(-ranks // down), down


def is_whole(message: ChunkMessage, chunks: int) -> bool:
    """Whether it is drawn left of the row: it carries the whole tensor, or nothing that is known."""
    return not message.chunks or (chunks > 1 and len(message.chunks) == chunks)


def _busiest(history: ChunkHistory, shown: Sequence[int], whole: bool) -> int:
    """The largest number of arrows that run side by side in one gap of one panel."""
    most = 0
    for step in shown:
        messages = [m for m in history.messages_in(step) if is_whole(m, history.chunks) is whole]
        gaps = Counter([-1] * len(messages) if whole else [chunk for m in messages for chunk in m.chunks])
        most = max([most, *gaps.values()])
    return most

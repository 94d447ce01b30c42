"""Where everything in the scene of a chunk history goes: sizes and positions in CSS pixels, nothing is drawn here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from distlib.draw.chunks.chunk_history import ChunkHistory, ChunkMessage
from distlib.draw.style import SMALL, WIDTH

MARGIN, LABELS = 10.0, 52.0  # CSS pixels: around everything, for "rank 0"
HEAD = 44.0  # CSS pixels: above the cells, for the chunk numbers


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
    def size(self) -> tuple[float, float]:
        return self.cell_at(self.ranks, self.chunks)

    def cell_at(self, rank: int, chunk: int) -> tuple[float, float]:
        """The top left corner of a cell."""
        x = self.whole + chunk * (self.cell[0] + self.gutter)
        return x, HEAD + rank * (self.cell[1] + self.row_gap)


def lay_out(history: ChunkHistory) -> Layout:
    """Cells as large as there is room for, with gutters for the arrows of the busiest round."""
    ranks, chunks = history.world_size, history.chunks
    down = 1 if ranks <= 3 else 2 if ranks <= 8 else 4
    across = -(-ranks // down)
    lane = 10.0 if ranks <= 6 else 8.0
    gutter = lane * (1 + max(_busiest(history, whole=False), 1))
    whole_arrows = _busiest(history, whole=True)
    whole = lane * (1 + whole_arrows) if whole_arrows else 0.0
    width = WIDTH - 2 * MARGIN - LABELS - whole - chunks * gutter
    square = max(min(30.0, width / (chunks * across), 520 / (ranks * down)), 4.0)
    return Layout(ranks, chunks, square, across, down, lane, gutter, whole)


def is_whole(message: ChunkMessage, chunks: int) -> bool:
    """Whether it is drawn left of the row: it carries the whole tensor, or nothing that is known."""
    return not message.chunks or (chunks > 1 and len(message.chunks) == chunks)


def _busiest(history: ChunkHistory, whole: bool) -> int:
    """The largest number of arrows that run side by side in one gap in one round."""
    most = 0
    for round in range(1, history.rounds + 1):
        messages = [m for m in history.messages_in(round) if is_whole(m, history.chunks) is whole]
        gaps = Counter([-1] * len(messages) if whole else [chunk for m in messages for chunk in m.chunks])
        most = max([most, *gaps.values()])
    return most

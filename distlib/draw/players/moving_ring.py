"""The moving picture at the top of the README: a ring all-reduce on 4 ranks, drawn from a run.

    python -m distlib.draw.players.moving_ring course/images/ring.svg

         rank 0  ──chunk──►  rank 1         each rank holds 4 chunks; a chunk has a square for each rank's contribution
           ▲                   │            in each round every rank sends one chunk to the next rank
           └──  rank 3  ◄── rank 2  ◄┘      a thick outline: all four contributions are inside, the full sum

The same run gives the same file, byte for byte.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from distlib.collectives import ring_all_reduce
from distlib.draw.chunks.chunk_history import ChunkHistory, ChunkMessage, watch_chunks
from distlib.draw.chunks.markers import Cell
from distlib.draw.players.film import Film, document, new_paper, write
from distlib.draw.players.scene import runs
from distlib.draw.style import INK, LIGHT_PAPER, color_of, text_on
from distlib.worlds.simulated.simulator import SimulatedWorld

RANKS = 4
_WIDTH, _HEIGHT = 720, 312
_CELL, _SQUARE = 50, 20  # the distance of two chunks, the side of a contribution's square
_ROUND, _REST = 1.8, 2.4  # seconds that a round takes, and the end
_MOVES = (0.2, 0.8)  # the part of a round in which chunks are on their way
_CORNERS = ((50, 76), (480, 76), (480, 222), (50, 222))  # the top left of each rank's chunks, around the ring


def moving_ring() -> str:
    """The picture as an SVG document."""
    history = watch_chunks(SimulatedWorld(RANKS), ring_all_reduce)
    film = _RingFilm(history.rounds)
    title = f"A ring all-reduce on {RANKS} ranks, drawn from a run: {history.rounds} rounds"
    svg = new_paper(_WIDTH, _HEIGHT, title)
    write(svg, _WIDTH / 2, 34, f"A ring all-reduce on {RANKS} ranks, drawn from a run", 17, bold=True)
    _write_rounds(svg, history, film)
    for rank in range(RANKS):
        _draw_rank(svg, history, film, rank)
    for message in history.messages:
        _draw_flight(svg, history, film, message)
    return document(svg)


class _RingFilm(Film):
    """From rounds to the moments of the film, as fractions of its length, and back to its beginning."""

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds * _ROUND + _REST)
        self.rounds = rounds

    def at(self, round: int, part: float) -> float:
        """The moment at which `part` of a round (from 1 on) is over."""
        return (round - 1 + part) * _ROUND / self.seconds

    def changes(self, state: int) -> float:
        """The moment from which the state after this many rounds is seen."""
        return 0.0 if state == 0 else self.at(state, _MOVES[1])

    def move(self, element: Element, round: int, dx: float, dy: float) -> None:
        """Let an element move while the chunks of a round are on their way."""
        leaves, arrives = (self.at(round, part) for part in _MOVES)
        ways = [(0.0, "0 0"), (leaves, "0 0"), (arrives, f"{dx} {dy}"), (1.0, f"{dx} {dy}")]
        self.animate(element, "animateTransform", ways, {"attributeName": "transform", "type": "translate"})


def _corner(rank: int, chunk: int) -> tuple[int, int]:
    x, y = _CORNERS[rank]
    return x + chunk * _CELL, y


def _write_rounds(svg: Element, history: ChunkHistory, film: _RingFilm) -> None:
    """In the middle of the ring: which round it is, and what it is for."""
    for round in range(1, history.rounds + 1):
        phase = "add up: reduce-scatter" if round < RANKS else "hand on: all-gather"
        lines = ((f"round {round} of {history.rounds}", 20), (phase, 14))
        _write_lines(svg, film, lines, film.at(round, 0), film.at(round, 1))
    assert history.full_sums[-1] == RANKS * RANKS
    lines = ((f"{history.rounds} rounds", 20), ("every rank has every sum", 14))
    _write_lines(svg, film, lines, film.at(history.rounds, 1), 1.0)


def _write_lines(svg: Element, film: _RingFilm, lines: Sequence[tuple[str, int]], first: float, end: float) -> None:
    group = SubElement(svg, "g")
    for number, (words, size) in enumerate(lines):
        write(group, _WIDTH / 2, 170 + 24 * number, words, size, bold=number == 0)
    film.show(group, first, end)


def _draw_rank(svg: Element, history: ChunkHistory, film: _RingFilm, rank: int) -> None:
    x, y = _CORNERS[rank]
    write(svg, x + 2 * _CELL - 5, y - 12 if y < 150 else y + 62, f"rank {rank}", 14, bold=True)
    for chunk in range(RANKS):
        corner = _corner(rank, chunk)
        _draw_squares(svg, corner)
        for cell, first, end in runs([state[rank][chunk] for state in history.states]):
            group = SubElement(svg, "g")
            _draw_cell(group, corner, cell)
            film.show(group, film.changes(first), 1.0 if end is None else film.changes(end))


def _draw_squares(parent: Element, corner: tuple[int, int]) -> None:
    for x, y in _squares(corner):
        look = {"x": str(x), "y": str(y), "width": str(_SQUARE - 1), "height": str(_SQUARE - 1)}
        SubElement(parent, "rect", look | {"fill": "#E6E6E6"})


def _squares(corner: tuple[int, int]) -> Iterator[tuple[int, int]]:
    for rank in range(RANKS):
        down, across = divmod(rank, 2)
        yield corner[0] + across * _SQUARE, corner[1] + down * _SQUARE


def _draw_cell(parent: Element, corner: tuple[int, int], cell: Cell) -> None:
    """Whose contributions are inside; a thick outline if all are."""
    for rank, (x, y) in enumerate(_squares(corner)):
        if cell.counts[rank]:
            look = {"x": str(x), "y": str(y), "width": str(_SQUARE - 1), "height": str(_SQUARE - 1)}
            SubElement(parent, "rect", look | {"fill": color_of(rank)})
            write(parent, x + _SQUARE / 2 - 0.5, y + 14, str(rank), 12).set("fill", text_on(color_of(rank)))
    if cell.is_full:
        look = {"x": str(corner[0] - 2), "y": str(corner[1] - 2), "width": "43", "height": "43"}
        SubElement(parent, "rect", look | {"fill": "none", "stroke": INK, "stroke-width": "2.5"})


def _draw_flight(svg: Element, history: ChunkHistory, film: _RingFilm, message: ChunkMessage) -> None:
    """The chunk of a message, as its sender held it, on its way to the same chunk of the receiver."""
    (chunk,) = message.chunks
    (x, y), (to_x, to_y) = _corner(message.src, chunk), _corner(message.dst, chunk)
    group = SubElement(svg, "g")
    film.show(group, *(film.at(message.round, part) for part in _MOVES))
    flight = SubElement(group, "g")
    frame = {"x": str(x - 4), "y": str(y - 4), "width": "47", "height": "47", "rx": "5"}
    SubElement(flight, "rect", frame | {"fill": LIGHT_PAPER, "stroke": INK, "stroke-width": "1.5"})
    _draw_cell(flight, (x, y), history.states[message.round - 1][message.src][chunk])
    film.move(flight, message.round, to_x - x, to_y - y)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(moving_ring(), encoding="utf-8")

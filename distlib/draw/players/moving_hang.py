"""The moving picture of a hang that explains itself: two ranks that want to swap a number, and the report of their run.

    python -m distlib.draw.players.moving_hang course/images/hang.svg

    10  comm.recv(…)  ◄── both ranks wait here         ╭──► rank 0 ──╮
    11  comm.send(…)                              waits for      waits for
    deadlock. rank 0 waits to receive …                ╰── rank 1 ◄──╯

The report comes line by line, each with the arrow that it speaks of. The cell is the first one of lesson 00. The same
run gives the same file, byte for byte.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from distlib.draw.charts.wait_circles import waits_of
from distlib.draw.players.film import Film, document, new_paper, write
from distlib.draw.style import VERMILLION, color_of, text_on
from distlib.worlds.diagnosis import DeadlockError
from distlib.worlds.simulated.simulator import SimulatedWorld

CELL = """\
import torch

from distlib import Communicator, World


def swap(comm: Communicator) -> float:
    mine = torch.tensor([float(comm.rank)])
    theirs = torch.zeros(1)
    other = 1 - comm.rank
    comm.recv(theirs, src=other)  # first wait ...
    comm.send(mine, dst=other)  # ... then send
    return theirs.item()
"""
_NAME = "cell 1"
_WIDTH, _HEIGHT = 720, 336
_SECONDS = 11.0
_WAIT, _REPORT, _LINE = 1.0, 2.2, 1.6  # seconds until both ranks wait, until the report, for each of its lines
_MIDDLE, _DISCS, _RADIUS = 580, (88, 194), 22  # the circle: its middle, the height of each rank, the size of a disc
_SPACES = {"{http://www.w3.org/XML/1998/namespace}space": "preserve"}
_CODE = {"font-family": "DejaVu Sans Mono, Menlo, Consolas, monospace", **_SPACES}


def moving_hang() -> str:
    """The picture as an SVG document."""
    error = _hang()
    lines = str(error).splitlines()
    film = _HangFilm(_SECONDS)
    svg = new_paper(_WIDTH, _HEIGHT, f"Two ranks that hang, and the report of the run: {lines[0]}")
    write(svg, _WIDTH / 2, 32, "A hang that explains itself", 17, bold=True)
    assert error.site is not None
    _draw_cell(svg, film, error.site.line)
    waits = waits_of(error)
    for number, wait in enumerate(waits):
        _draw_wait(svg, film, wait.rank, wait.peer, film.line(number))
    for rank in range(2):
        _draw_rank(svg, film, rank)
    closes = write(svg, _MIDDLE, (_DISCS[0] + _DISCS[1]) / 2 + 5, "deadlock", 14, bold=True)
    closes.set("fill", VERMILLION)
    film.show(closes, film.line(len(waits)), 1.0)
    before = write(svg, _WIDTH / 2, 282, "Two ranks run this function at the same time, in order to swap a number.", 13)
    before.set("opacity", "0")  # where nothing moves, the report stands in this place
    film.show(before, 0.0, film.line(0))
    for number, line in enumerate(lines):
        film.show(_write_code(svg, 24, 256 + 20 * number, line, 11), film.line(number), 1.0)
    return document(svg)


class _HangFilm(Film):
    """From what is seen to the moments of the film."""

    @property
    def waits(self) -> float:
        """The moment from which both ranks wait."""
        return _WAIT / self.seconds

    def line(self, number: int) -> float:
        """The moment from which a line of the report is seen, from 0 on."""
        return (_REPORT + number * _LINE) / self.seconds


def _hang() -> DeadlockError:
    """The report of a run of the cell."""
    names: dict[str, object] = {}
    exec(compile(CELL, _NAME, "exec"), names)
    try:
        SimulatedWorld(2).run(names["swap"])  # type: ignore[arg-type]
    except DeadlockError as error:
        return error
    raise AssertionError("the two ranks of the picture do not hang")


def _draw_cell(svg: Element, film: _HangFilm, waiting: int) -> None:
    """The function of the cell with the numbers of its lines; that in which both ranks wait, marked."""
    lines = CELL.splitlines()
    first = next(number for number, line in enumerate(lines, 1) if line.startswith("def "))
    box = {"x": "16", "y": "50", "width": "424", "height": "172", "rx": "6", "fill": "#F5F5F5", "stroke": "#CCCCCC"}
    SubElement(svg, "rect", box)
    for number, line in enumerate(lines[first - 1 :], first):
        y = 78 + 22 * (number - first)
        if number == waiting:
            mark = {"x": "17", "y": str(y - 15), "width": "422", "height": "21", "fill": "#FBDCCB"}
            film.show(SubElement(svg, "rect", mark), film.waits, 1.0)
        _write_code(svg, 24, y, f"{number:2}", 12).set("fill", "#767676")
        _write_code(svg, 50, y, line, 12)


def _write_code(parent: Element, x: float, y: float, words: str, size: float) -> Element:
    text = SubElement(parent, "text", {"x": f"{x:g}", "y": f"{y:g}", "font-size": f"{size:g}", **_CODE})
    text.text = words
    return text


def _draw_rank(svg: Element, film: _HangFilm, rank: int) -> None:
    y, color = _DISCS[rank], color_of(rank)
    SubElement(svg, "circle", {"cx": str(_MIDDLE), "cy": str(y), "r": str(_RADIUS), "fill": color})
    write(svg, _MIDDLE, y + 5, str(rank), 15, bold=True).set("fill", text_on(color))
    write(svg, _MIDDLE + (-64 if rank == 0 else 64), y + 5, f"rank {rank}", 13, bold=True)


def _draw_wait(svg: Element, film: _HangFilm, rank: int, other: int, first: float) -> None:
    """A curved arrow from a rank to the one that it waits for: downwards at the right, upwards at the left."""
    side = 1 if rank < other else -1
    (start, end), x = (_DISCS[rank], _DISCS[other]), _MIDDLE + side * (_RADIUS - 4)
    bend, start, end = x + side * 56, start + side * 14, end - side * 14
    group = SubElement(svg, "g")
    curve = f"M{x} {start} C{bend} {start + side * 16} {bend} {end - side * 16} {x + side * 6} {end}"
    SubElement(group, "path", {"d": curve, "fill": "none", "stroke": VERMILLION, "stroke-width": "2.5"})
    tip = f"M{x} {end} l{side * 12} {-side * 9} l{side * 2} {side * 12} Z"
    SubElement(group, "path", {"d": tip, "fill": VERMILLION})
    write(group, _MIDDLE + side * 92, (start + end) / 2 + 4, "waits for", 12)
    film.show(group, first, 1.0)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(moving_hang(), encoding="utf-8")

"""A linear layer y = x Wᵀ cut over ranks, number by number: who holds what, and what must be sent.

by columns:    x        Wᵀ                    y
rank                    0  0  1  1            0  0  1  1
             [ ][ ]  × [0][0][1][1]   =      [0][0][1][1]     nothing is sent
                       [0][0][1][1]

by rows:      0  1      Wᵀ                    terms                             y
             [0][1]  × 0 [0][0][0][0]  =   0 [0][0][0][0]
                       1 [1][1][1][1]      +                ── all-reduce ──► [ ][ ][ ][ ]
                                           1 [1][1][1][1]

A number has the color of the one rank that holds it, and none where every rank does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure, text_width
from distlib.draw.style import BODY, INK, SMALL, WIDTH, color_of, drawing_style, format_number, points, text_on

if TYPE_CHECKING:
    import numpy
    from matplotlib.axes import Axes

    Numbers = numpy.ndarray[Any, numpy.dtype[numpy.float64]]

Matrix = Any
"""A tensor, an array or a list of rows."""

_TOP, _NAME, _HEADS, _GAP = 54.0, 26.0, 46.0, 12.0  # CSS pixels: titles, a way, names of matrices, below a way
_LEFT, _RANKS = 38.0, 16.0  # CSS pixels: left of all, and left of a matrix whose rows are cut
_LARGEST, _HEIGHT, _PLUS = 28.0, 22.0, 15.0  # CSS pixels: a number's width and height, and between two terms
_SIGN, _ARROW = 22.0, 78.0  # CSS pixels: × or =, and an arrow with its words
_MOST_RANKS = 4
_COLORS_MEAN = "bold: the rank that alone holds the numbers of a color; not colored: every rank holds them"


@dataclass(frozen=True)
class _CutMatrix:
    """A matrix of the picture.

    Attributes:
        name: what it is called.
        parts: what is drawn of it, one below the other; several are the terms of a sum.
        edges: where it is cut: the first row or column of each rank, and the end. Empty if it is not cut.
        by_rows: whether rows are cut, not columns.
    """

    name: str
    parts: Sequence[Numbers]
    edges: Sequence[int] = ()
    by_rows: bool = False

    @property
    def columns(self) -> int:
        return self.parts[0].shape[1]

    @property
    def has_numbers_at_left(self) -> bool:
        return len(self.parts) > 1 or self.by_rows

    @property
    def height(self) -> float:
        """How high it is, in CSS pixels."""
        return sum(map(len, self.parts)) * _HEIGHT + (len(self.parts) - 1) * _PLUS

    @property
    def shape(self) -> str:
        rows, columns = self.parts[0].shape
        return f"{len(self.parts)} of {rows} × {columns}" if len(self.parts) > 1 else f"{rows} × {columns}"

    def holder(self, part: int, row: int, column: int) -> int | None:
        """The rank that alone holds a number."""
        if len(self.parts) > 1:
            return part
        place = row if self.by_rows else column
        return next((rank for rank, end in enumerate(self.edges[1:]) if place < end), None)


@dataclass(frozen=True)
class _Sign:
    """What is between two matrices: × or =, or an arrow with words above it and below."""

    above: str
    below: str = ""
    is_arrow: bool = False

    @property
    def width(self) -> float:
        return _ARROW if self.is_arrow else _SIGN


@dataclass
class _Line:
    """A way: its name, its matrices and signs from left to right, what is said behind them, all of it in words."""

    name: str
    pieces: list[_CutMatrix | _Sign]
    behind: str = ""
    told: list[str] = field(default_factory=list)

    @property
    def blocks(self) -> list[_CutMatrix]:
        return [piece for piece in self.pieces if isinstance(piece, _CutMatrix)]

    @property
    def numbers(self) -> list[float]:
        return [number for block in self.blocks for part in block.parts for number in part.flat]

    @property
    def height(self) -> float:
        return max(block.height for block in self.blocks)

    @property
    def room(self) -> float:
        """CSS pixels that all takes but the numbers."""
        signs = sum(piece.width for piece in self.pieces if isinstance(piece, _Sign))
        labels = sum(_RANKS for block in self.blocks if block.has_numbers_at_left)
        return _LEFT + 10 + signs + labels


def matrix_cuts(ways: Mapping[str, Sequence[tuple[Matrix, Matrix, Matrix]]], *, title: str) -> Picture:
    """Draw a linear layer y = x Wᵀ in each way of cutting it, with all its numbers.

    Args:
        ways: the name of a way → by rank, what it has: x, [rows, inputs], the weight W, [outputs, inputs] as torch
            keeps it, and what the two give, [rows, outputs]. Where all ranks have the same x, the outputs are cut:
            by columns. Where each has its own, the inputs are: by rows. 2 to 4 ranks.
        title: the headline.

    Raises:
        ValueError: nothing to draw, too few or too many ranks, numbers that are not x Wᵀ, or no room for them.
    """
    lines = [_cut_line(name, [tuple(map(_numbers, each)) for each in by_rank]) for name, by_rank in ways.items()]
    with drawing_style():
        return _draw(lines, title)


def cut_pair(
    by_rank: Sequence[tuple[Matrix, Matrix, Matrix, Matrix, Matrix]],
    *,
    title: str,
    names: Sequence[str] = ("up", "down"),
    between: str = "GELU",
) -> Picture:
    """Draw two linear layers with a function between them, the first cut by columns, the second by rows.

    Args:
        by_rank: what each rank has: x, [rows, features], its rows of the first weight, its hidden features, its
            columns of the second weight, and its term of the output. 2 to 4 ranks.
        title: the headline.
        names: what the two layers are called.
        between: what the function is called.

    Raises:
        ValueError: too few or too many ranks, terms that are not what hidden features and weights give, or no room.
    """
    found = [tuple(map(_numbers, each)) for each in by_rank]
    first = _cut_line("", [(x, up, x @ up.T) for x, up, *_ in found], by_columns=True)
    second = _cut_line("", [(hidden, down, term) for _, _, hidden, down, term in found], by_columns=False)
    x, times, up, *_ = first.pieces
    hidden, _, down, equals, terms, arrow, y = second.pieces
    hidden = _named(hidden, "hidden")
    pieces = [x, times, _named(up, f"Wᵀ, {names[0]}"), _Sign(between, is_arrow=True), hidden, times]
    pieces += [_named(down, f"Wᵀ, {names[1]}"), equals, _named(terms, "terms"), arrow, y]
    middle = f"The hidden features, {hidden.shape}, stay where they are, and nothing is sent."
    line = _Line("", pieces, told=[*first.told[:2], middle, *second.told[1:]])
    with drawing_style():
        return _draw([line], title)


def _named(piece: _CutMatrix | _Sign, name: str) -> _CutMatrix:
    assert isinstance(piece, _CutMatrix)
    return _CutMatrix(name, piece.parts, piece.edges, piece.by_rows)


def _numbers(matrix: Matrix) -> Numbers:
    import numpy

    rows = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    return numpy.atleast_2d(numpy.array(rows, dtype=numpy.float64))


def _cut_line(name: str, by_rank: Sequence[Sequence[Numbers]], by_columns: bool | None = None) -> _Line:
    """One layer. If it is not said how it is cut: by columns if all ranks have the same x, by rows if not."""
    import numpy

    if not 2 <= len(by_rank) <= _MOST_RANKS:
        raise ValueError(f"{name}: expected 2 to {_MOST_RANKS} ranks, got {len(by_rank)}")
    xs, weights, ys = (list(each) for each in zip(*by_rank, strict=True))
    for rank, (x, weight, y) in enumerate(by_rank):
        if x.shape[1] != weight.shape[1] or y.shape != (len(x), len(weight)) or not numpy.allclose(x @ weight.T, y):
            raise ValueError(f"{name}: expected y = x Wᵀ on rank {rank}, got x {x}, W {weight} and y {y}")
    if by_columns is None:
        by_columns = all(numpy.array_equal(x, xs[0]) for x in xs)
    if by_columns:
        edges = _edges([len(weight) for weight in weights])
        whole, y = numpy.concatenate(weights).T, numpy.concatenate(ys, axis=1)
        blocks = _CutMatrix("x", [xs[0]]), _CutMatrix("Wᵀ", [whole], edges), _CutMatrix("y", [y], edges)
        pieces: list[_CutMatrix | _Sign] = [blocks[0], _Sign("×"), blocks[1], _Sign("="), blocks[2]]
        told = [
            f"Every rank holds x, {blocks[0].shape}.",
            f"Wᵀ, {blocks[1].shape}, is cut by columns: {_who('columns', edges)}.",
            f"So is y, {blocks[2].shape}, which is {_rows(y)}. Nothing is sent.",
        ]
        return _Line(name, pieces, "nothing is sent", told)
    edges = _edges([x.shape[1] for x in xs])
    x, whole = numpy.concatenate(xs, axis=1), numpy.concatenate(weights, axis=1).T
    y = numpy.sum(ys, axis=0)
    blocks = _CutMatrix("x", [x], edges), _CutMatrix("Wᵀ", [whole], edges, by_rows=True), _CutMatrix("y", [y])
    terms, size = _CutMatrix("terms of y", ys), blocks[2].shape
    arrow = _Sign("all-reduce", f"of {size}", is_arrow=True)
    told = [
        f"x, {blocks[0].shape}, is cut by columns: {_who('columns', edges)}.",
        f"Wᵀ, {blocks[1].shape}, is cut by rows: {_who('rows', edges)}.",
        "Each rank has a term of y: " + "; ".join(f"rank {rank} {_rows(term)}" for rank, term in enumerate(ys)) + ".",
        f"An all-reduce of {size} numbers gives every rank their sum, y, which is {_rows(y)}.",
    ]
    return _Line(name, [blocks[0], _Sign("×"), blocks[1], _Sign("="), terms, arrow, blocks[2]], told=told)


def _edges(lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[:rank]) for rank in range(len(lengths) + 1)]


def _draw(lines: Sequence[_Line], title: str) -> Picture:
    if not lines:
        raise ValueError("expected at least 1 way, got none")
    width = min((WIDTH - line.room) / sum(block.columns for block in line.blocks) for line in lines)
    width = min(width, _LARGEST)
    longest = max((_written(number) for line in lines for number in line.numbers), key=lambda each: text_width(each, 1))
    size = min(SMALL + 1, (width - 3) / text_width(longest, 1))
    if size < SMALL:
        raise ValueError(f"expected fewer columns, or shorter numbers: there is no room for {longest}")
    heights = [(_NAME if line.name else 0) + _HEADS + line.height + _GAP for line in lines]
    figure = new_figure(WIDTH, _TOP + sum(heights))
    is_rounded = any(abs(number - round(number, 1)) > 1e-6 for line in lines for number in line.numbers)
    add_titles(figure, title, _COLORS_MEAN + ("; rounded to one decimal" if is_rounded else ""))
    canvas, top = add_canvas(figure), _TOP
    for line, height in zip(lines, heights, strict=True):
        if line.name:
            canvas.text(10, top + 18, line.name, size=points(BODY + 1), weight="bold", color=INK)
        _draw_line(canvas, line, top + height - _GAP - line.height / 2, width, size)
        top += height
    told = [f"{line.name + ': ' if line.name else ''}{' '.join(line.told)}" for line in lines]
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_line(canvas: Axes, line: _Line, middle: float, width: float, size: float) -> None:
    x = _LEFT
    for piece in line.pieces:
        if isinstance(piece, _Sign):
            _draw_sign(canvas, piece, x, middle)
            x += piece.width
        else:
            x += _RANKS if piece.has_numbers_at_left else 0
            _draw_block(canvas, piece, x, middle, width, size)
            x += piece.columns * width
    canvas.text(x + 24, middle, line.behind, size=points(BODY), color=INK, va="center_baseline")


def _draw_sign(canvas: Axes, sign: _Sign, left: float, middle: float) -> None:
    center = left + sign.width / 2
    look: dict[str, Any] = {"color": INK, "ha": "center"}
    if not sign.is_arrow:
        canvas.text(center, middle, sign.above, size=points(BODY + 2), va="center_baseline", **look)
        return
    arrow = {"arrowstyle": "->", "color": INK, "linewidth": points(1.5)}
    canvas.annotate("", (left + sign.width - 8, middle), (left + 8, middle), arrowprops=arrow)
    canvas.text(center, middle - 7, sign.above, size=points(SMALL + 1), weight="bold", va="baseline", **look)
    canvas.text(center, middle + 17, sign.below, size=points(SMALL), va="baseline", **look)


def _draw_block(canvas: Axes, block: _CutMatrix, left: float, middle: float, width: float, size: float) -> None:
    top = middle - block.height / 2
    center = left + block.columns * width / 2
    head = top - (20 if block.edges and not block.by_rows else 6)
    canvas.text(center, head - 14, block.name, size=points(BODY), weight="bold", color=INK, ha="center")
    canvas.text(center, head, block.shape, size=points(SMALL), color=INK, ha="center")
    _name_ranks(canvas, block, left, top, width)
    for number, part in enumerate(block.parts):
        for row, numbers in enumerate(part):
            for column, each in enumerate(numbers):
                rank = block.holder(number, row, column)
                _draw_number(canvas, each, rank, left + column * width, top + row * _HEIGHT, width, size)
        top += len(part) * _HEIGHT + _PLUS
        if number + 1 < len(block.parts):
            look: dict[str, Any] = {"size": points(BODY), "color": INK, "ha": "center", "va": "center_baseline"}
            canvas.text(center, top - _PLUS / 2, "+", **look)


def _name_ranks(canvas: Axes, block: _CutMatrix, left: float, top: float, width: float) -> None:
    """The numbers of the ranks, above the columns or left of the rows that they hold."""
    look: dict[str, Any] = {"size": points(SMALL), "weight": "bold", "color": INK}
    if block.has_numbers_at_left:
        step = len(block.parts[0]) * _HEIGHT + _PLUS
        ys = [top + rank * step + (step - _PLUS) / 2 for rank in range(len(block.parts))]
        if block.by_rows:
            ys = [top + (start + end) / 2 * _HEIGHT for start, end in pairwise(block.edges)]
        for rank, y in enumerate(ys):
            canvas.text(left - 5, y, str(rank), ha="right", va="center_baseline", **look)
        return
    for rank, (start, end) in enumerate(pairwise(block.edges)):
        words = f"rank {rank}"
        has_room = fitting_size(words, SMALL, (end - start) * width - 4) == SMALL
        canvas.text(left + (start + end) / 2 * width, top - 5, words if has_room else str(rank), ha="center", **look)


def _draw_number(
    canvas: Axes, number: float, rank: int | None, left: float, top: float, width: float, size: float
) -> None:
    from matplotlib.patches import Rectangle

    color = "none" if rank is None else color_of(rank)
    box = Rectangle((left, top), width, _HEIGHT, facecolor=color, edgecolor=INK, linewidth=points(0.8))
    canvas.add_patch(box)
    look: dict[str, Any] = {"size": points(size), "color": INK if rank is None else text_on(color)}
    x, y = left + width / 2, top + _HEIGHT / 2
    canvas.text(x, y, _written(number), ha="center", va="center_baseline", **look)


def _written(number: float) -> str:
    return format_number(round(float(number), 1))


def _who(things: str, edges: Sequence[int]) -> str:
    """ "rank 0 holds columns 0 to 1, rank 1 columns 2 to 3"."""
    spans = [
        f"{things[:-1]} {start}" if end == start + 1 else f"{things} {start} to {end - 1}"
        for start, end in pairwise(edges)
    ]
    return ", ".join(f"rank {rank} holds {span}" for rank, span in enumerate(spans))


def _rows(matrix: Numbers) -> str:
    """ "(1, 2), (3, 4)"."""
    return ", ".join(f"({', '.join(map(_written, row))})" for row in matrix)

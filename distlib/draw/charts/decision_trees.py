"""Questions, and what to do for each answer: a tree, read from left to right.

                    ┌─ stands still ─► Where? ─┬─ in init ───────► a short timeout
What does it do? ───┤                          └─ other lines ───► DETAIL
                    └─ dies ───────────────────────────────────── ► the first error
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure, wrap_words
from distlib.draw.style import BLUE, INK, SMALL, WIDTH, drawing_style, points, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Tree = Mapping[str, Mapping[str, "Tree | str"]]
"""One question, and for each answer another tree, or what to do."""

_TOP, _ROW, _GAP = 60.0, 40.0, 9.0  # CSS pixels: titles, a box at the right end, between two of them
_QUESTION, _ANSWER, _MARGIN = 118.0, 148.0, 10.0  # widths
_LINE = 15.0


def decision_tree(tree: Tree, *, title: str, subtitle: str = "") -> Picture:
    """Draw a tree of questions.

    Args:
        tree: one question → its answers → for each another such tree, or what to do, in words. At most 2 questions one
            after the other.
        title, subtitle: the headlines.

    Raises:
        ValueError: there is more than one question at a place, a question has no answers, or the tree is deeper.
    """
    depth = _depth(tree)
    if depth > 2:
        raise ValueError(f"expected at most 2 questions one after the other, got {depth}")
    with drawing_style():
        figure = new_figure(WIDTH, _TOP + _leaves(tree) * (_ROW + _GAP) + _MARGIN)
        add_titles(figure, title, subtitle)
        _draw(add_canvas(figure), tree, 0, _TOP)
    return Picture(figure, f"{title}. {_tell(tree)}.")


def _split(tree: Tree) -> tuple[str, Mapping[str, Any]]:
    if len(tree) != 1 or not next(iter(tree.values())):
        raise ValueError(f"expected one question with answers, got {dict(tree)}")
    return next(iter(tree.items()))


def _depth(tree: Tree | str) -> int:
    return 0 if isinstance(tree, str) else 1 + max(map(_depth, _split(tree)[1].values()))


def _leaves(tree: Tree | str) -> int:
    return 1 if isinstance(tree, str) else sum(map(_leaves, _split(tree)[1].values()))


def _draw(canvas: Axes, tree: Tree, level: int, top: float) -> float:
    """Draw a question, and to the right of it all that follows. Returns the height of its middle."""
    question, answers = _split(tree)
    left = _MARGIN + level * (_QUESTION + _ANSWER)
    ends = []
    row = top
    for answer, then in answers.items():
        is_end = isinstance(then, str)
        height = row + _ROW / 2 if isinstance(then, str) else _draw(canvas, then, level + 1, row)
        start = _MARGIN + 2 * (_QUESTION + _ANSWER) if is_end else left + _QUESTION + _ANSWER
        if isinstance(then, str):
            _box(canvas, start, height, WIDTH - _MARGIN - start, then, "none")
        ends.append((answer, height, start))
        row += _leaves(then) * (_ROW + _GAP)
    middle = (ends[0][1] + ends[-1][1]) / 2
    _box(canvas, left, middle, _QUESTION, question, BLUE)
    for answer, height, start in ends:
        _branch(canvas, left + _QUESTION, middle, start, height, answer)
    return middle


def _box(canvas: Axes, left: float, middle: float, width: float, words: str, color: str) -> None:
    from matplotlib.patches import Rectangle

    lines = wrap_words(words, SMALL, width - 12)
    height = max(_ROW, _LINE * len(lines) + 10)
    look: Any = {"facecolor": color, "edgecolor": INK, "linewidth": points(1)}
    canvas.add_patch(Rectangle((left, middle - height / 2), width, height, **look))
    ink = INK if color == "none" else text_on(color)
    _write(canvas, lines, left + 6, middle, width - 12, ink)


def _write(canvas: Axes, lines: list[str], left: float, middle: float, room: float, ink: str) -> None:
    for number, line in enumerate(lines):
        y = middle + (number - (len(lines) - 1) / 2) * _LINE
        size = points(fitting_size(line, SMALL, room))
        canvas.text(left, y, line, size=size, color=ink, va="center_baseline")


def _branch(canvas: Axes, left: float, middle: float, right: float, height: float, answer: str) -> None:
    """A line from a question to what follows, with the answer on it."""
    bend = left + 12
    canvas.plot([left, bend, bend, right], [middle, middle, height, height], color=INK, linewidth=points(1))
    size = points(fitting_size(answer, SMALL, _ANSWER - 20))
    canvas.text(bend + 6, height - 5, answer, size=size, color=INK, va="baseline")


def _tell(tree: Tree) -> str:
    """The tree in words, as alternative text."""
    question, answers = _split(tree)
    told = [f"{answer}: {then if isinstance(then, str) else _tell(then)}" for answer, then in answers.items()]
    return f"{question} {'; '.join(told)}"

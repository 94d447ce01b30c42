"""Where processes try to meet, as their environment says: several attempts; and the ranks of one launch on their nodes.

another port    (0) of 2 ──► [127.0.0.1:4711]     waits      a full box: rank 0 listens there
                (1) of 2 ──► ┆127.0.0.1:4712┆     waits      a dashed box: nobody does
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure, wrap_words
from distlib.draw.style import BODY, INK, SKY, SMALL, WIDTH, color_of, count, drawing_style, points, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Variables = Mapping[str, str]
Process = tuple[Variables, str]
"""The variables of a process, and what was seen of it."""

_KEY = "RANK of WORLD_SIZE → MASTER_ADDR:MASTER_PORT   full box: rank 0 listens there   dashed box: nobody listens"
_TOP = 60.0  # CSS pixels: the titles
_ROW, _GAP = 32.0, 16.0  # CSS pixels: a process; between two attempts
_NAME, _CIRCLE, _BOX, _SEEN = 10.0, 226.0, 368.0, 570.0  # CSS pixels: where the columns begin
_BOX_WIDTH, _RADIUS = 180.0, 13.0  # CSS pixels
_MOST_PROCESSES, _MOST_NODES, _MOST_RANKS = 16, 4, 8  # in all; and on the nodes of a picture


def meeting_places(attempts: Mapping[str, Sequence[Process]], *, title: str, here: str = "127.0.0.1") -> Picture:
    """Draw which rank each process says it is, where it wants to meet the others, and what was seen of it.

    Args:
        attempts: name → for each process, its variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and some words.
        title: the headline.
        here: the address of the machine on which the processes run, where SLURMD_NODENAME does not say another. Rank 0
            can open a port only on its own machine.

    Raises:
        ValueError: nothing to draw, more than 16 processes, or one of the four variables is missing.
    """
    processes = [process for attempt in attempts.values() for process in attempt]
    if not 1 <= len(processes) <= _MOST_PROCESSES or not all(attempts.values()):
        raise ValueError(f"expected attempts with 1 to {_MOST_PROCESSES} processes in all, got {len(processes)}")
    _need([variables for variables, _ in processes], ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    with drawing_style():
        return _draw_attempts(attempts, title, here)


def ranks_on_nodes(launched: Sequence[Variables], *, title: str, nodes: Sequence[str] = ()) -> Picture:
    """Draw the ranks of one launch on their nodes: RANK in a circle, LOCAL_RANK below it, an arrow to where they meet.

    Args:
        launched: the variables of each process: RANK, LOCAL_RANK, GROUP_RANK (of its node), WORLD_SIZE, MASTER_ADDR
            and MASTER_PORT. At most 4 nodes, and at most 8 processes.
        title: the headline.
        nodes: their names, by GROUP_RANK; "node 0" and so on if there are none.

    Raises:
        ValueError: nothing to draw, too much, or a variable is missing.
    """
    _need(launched, ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    numbers = sorted({int(variables["GROUP_RANK"]) for variables in launched})
    if not 1 <= len(numbers) <= _MOST_NODES or len(launched) > _MOST_RANKS:
        raise ValueError(
            f"expected 1 to {_MOST_RANKS} processes on at most {_MOST_NODES} nodes, "
            f"got {len(launched)} on {len(numbers)}"
        )
    names = {number: nodes[number] if number < len(nodes) else f"node {number}" for number in numbers}
    with drawing_style():
        return _draw_nodes(sorted(launched, key=lambda variables: int(variables["RANK"])), names, title)


def _need(processes: Sequence[Variables], names: Sequence[str]) -> None:
    for variables in processes:
        missing = [name for name in names if name not in variables]
        if missing:
            raise ValueError(f"expected the variables {', '.join(names)} of each process, got none for {missing[0]}")


def _place(variables: Variables) -> str:
    return f"{variables['MASTER_ADDR']}:{variables['MASTER_PORT']}"


def _opened(attempt: Sequence[Process], here: str) -> set[str]:
    """The places at which a rank 0 listens."""
    return {
        _place(variables)
        for variables, _ in attempt
        if variables["RANK"] == "0" and variables["MASTER_ADDR"] == variables.get("SLURMD_NODENAME", here)
    }


# ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_attempts(attempts: Mapping[str, Sequence[Process]], title: str, here: str) -> Picture:
    heights = [_ROW * len(attempt) + _GAP for attempt in attempts.values()]
    figure = new_figure(WIDTH, _TOP + sum(heights) + 4)
    add_titles(figure, title, _KEY)
    canvas = add_canvas(figure)
    top, told = _TOP, []
    for (name, attempt), height in zip(attempts.items(), heights, strict=True):
        if top > _TOP:
            canvas.plot([_NAME, WIDTH - _NAME], [top, top], color=INK, linewidth=points(0.6), alpha=0.4)
        _draw_attempt(canvas, top + _GAP / 2, name, attempt, _opened(attempt, here))
        told += [f"{name}:", *(_in_words(process, _opened(attempt, here)) for process in attempt)]
        top += height
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_attempt(canvas: Axes, top: float, name: str, attempt: Sequence[Process], opened: set[str]) -> None:
    middle = top + _ROW * len(attempt) / 2
    lines = wrap_words(name, BODY, _CIRCLE - _NAME - 24)
    for number, line in enumerate(lines):
        y = middle + 17 * (number - (len(lines) - 1) / 2)
        size = points(fitting_size(line, BODY, _CIRCLE - _NAME - 24))
        canvas.text(_NAME, y, line, size=size, weight="bold", color=INK, va="center_baseline")
    rows: dict[str, list[float]] = {_place(variables): [] for variables, _ in attempt}
    for number, (variables, seen) in enumerate(attempt):
        y = top + _ROW * (number + 0.5)
        rows[_place(variables)].append(y)
        _draw_circle(canvas, _CIRCLE, y, variables["RANK"])
        canvas.text(
            _CIRCLE + 20, y, f"of {variables['WORLD_SIZE']}", size=points(SMALL), color=INK, va="center_baseline"
        )
        size = points(fitting_size(seen, BODY, WIDTH - _SEEN - _NAME))
        canvas.text(_SEEN, y, seen, size=size, color=INK, va="center_baseline")
    for place, ys in rows.items():
        goal = sum(ys) / len(ys)
        _draw_place(canvas, _BOX, goal, place, place in opened)
        for y in ys:
            _draw_arrow(canvas, (_CIRCLE + 56, y), (_BOX - 3, goal))


def _draw_circle(canvas: Axes, x: float, y: float, rank: str) -> None:
    color = color_of(int(rank)) if rank.isdecimal() else SKY
    canvas.plot([x], [y], "o", markersize=points(2 * _RADIUS), markeredgecolor=INK, markerfacecolor=color, zorder=3)
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "zorder": 4}
    canvas.text(x, y, rank, size=points(BODY), weight="bold", color=text_on(color), **look)


def _draw_place(canvas: Axes, left: float, y: float, place: str, is_open: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch((left, y - 12), _BOX_WIDTH, 24, boxstyle="round,pad=0,rounding_size=5")
    shape.set(facecolor=SKY if is_open else "none", edgecolor=INK, linewidth=points(1.2))
    shape.set_linestyle("-" if is_open else (0, (4, 3)))
    canvas.add_patch(shape)
    size = points(fitting_size(place, BODY, _BOX_WIDTH - 10))
    color = text_on(SKY) if is_open else INK
    canvas.text(left + _BOX_WIDTH / 2, y, place, size=size, color=color, ha="center", va="center_baseline")


def _draw_arrow(canvas: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    from matplotlib.patches import FancyArrowPatch

    arrow = FancyArrowPatch(start, end, arrowstyle="-|>", shrinkA=0, shrinkB=0, zorder=2)
    arrow.set(mutation_scale=points(14), color=INK, linewidth=points(1.4))
    canvas.add_patch(arrow)


def _in_words(process: Process, opened: set[str]) -> str:
    variables, seen = process
    place = _place(variables)
    where = f"to {place}" if place in opened else f"to {place}, where nobody listens"
    return f"rank {variables['RANK']} of {variables['WORLD_SIZE']} goes {where}; {seen}."


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_nodes(launched: Sequence[Variables], names: Mapping[int, str], title: str) -> Picture:
    height, gap = 112.0, 24.0
    width = min(428.0, (WIDTH - 20 - gap * (len(names) - 1)) / len(names))
    figure = new_figure(WIDTH, _TOP + height + 76)
    add_titles(figure, title, "a frame is a machine, the number in a circle is RANK, and all arrows go to the store")
    canvas = add_canvas(figure)
    total = width * len(names) + gap * (len(names) - 1)
    middle, y, told = (10 + total / 2, _TOP + 52), _TOP + height + 50, []
    for column, (number, name) in enumerate(names.items()):
        left = 10 + column * (width + gap)
        _draw_frame(canvas, left, _TOP, width, height, name)
        ranks = [variables for variables in launched if int(variables["GROUP_RANK"]) == number]
        for place, variables in enumerate(ranks):
            x = left + width * (place + 0.5) / len(ranks)
            _draw_circle(canvas, x, middle[1], variables["RANK"])
            words = f"LOCAL_RANK {variables['LOCAL_RANK']}"
            size = points(fitting_size(words, SMALL + 1, width / len(ranks) - 6))
            canvas.text(x, middle[1] + 30, words, size=size, color=INK, ha="center", va="center_baseline")
            goal = middle[0] + (x - middle[0]) * _BOX_WIDTH / total
            _draw_arrow(canvas, (x, middle[1] + 42), (goal, y - 14))
        told.append(f"On {name}: {', '.join(map(_who, ranks))}.")
    where = sorted({_place(variables) for variables in launched})
    _draw_place(canvas, middle[0] - _BOX_WIDTH / 2, y, " and ".join(where), True)
    sizes = {int(variables["WORLD_SIZE"]) for variables in launched}
    told.append(f"All {count(max(sizes), 'rank')} meet at {' and '.join(where)}.")
    return Picture(figure, " ".join([f"{title}.", *told]))


def _who(variables: Variables) -> str:
    return f"rank {variables['RANK']} with LOCAL_RANK {variables['LOCAL_RANK']}"


def _draw_frame(canvas: Axes, left: float, top: float, width: float, height: float, name: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    frame = FancyBboxPatch((left, top), width, height, boxstyle="round,pad=0,rounding_size=6", facecolor="none")
    frame.set(edgecolor=INK, linewidth=points(1))
    canvas.add_patch(frame)
    size = points(fitting_size(name, BODY, width - 20))
    canvas.text(left + 10, top + 16, name, size=size, weight="bold", color=INK, va="center_baseline")

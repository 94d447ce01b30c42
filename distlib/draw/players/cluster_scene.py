"""The scene of a layout on its cluster: which rank is where, what travels between nodes, memory and time against par.

node 0                    node 1                     a box for each rank, in the color of its stage: its place in
┌──────┬──────┐  0.5 GB   ┌──────┬──────┐            dp, pp and tp
│ 0    │ 1    │ ════════► │ 2    │ 3    │            the more bytes, the thicker the line
└──────┴──────┘           └──────┴──────┘
memory ▓▓▓▓▒▒▒▒░░░░│limit
time   ▓▓▓▓▓▓▓▓│par
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping

from distlib.draw.players.scene import INK, Look, Scene, SceneStep, Shape, arrow, box, write
from distlib.draw.style import BODY, COLORS, GRAY, NARROW, SMALL, TITLE, WIDTH, color_of, format_gigabytes, text_on
from distlib.training.strategy.cluster_game import ClusterLevel, LaidOut
from distlib.training.strategy.parallel_layout import AXES

_NODES, _RANK, _GAP = 74.0, 66.0, 10.0  # CSS pixels: where nodes begin, the height of a rank, between things
_LINKS = 34.0  # CSS pixels: the height of a line between two nodes, with its words
_BAR, _LEFT, _RIGHT = 24.0, 80.0, 120.0  # CSS pixels: of the bars of memory and of time
_LETTER, _LINE = 6.4, 14.0  # CSS pixels: of small text, the width of a letter and the height of a line


def cluster_scene(laid: LaidOut, width: int = WIDTH) -> Scene:
    """The scene of a layout that was played. A narrow one, of NARROW pixels, stands next to sliders."""
    cluster, title = laid.level.cluster, f"Level {laid.level.number}, {laid.level.name}: {laid.points} points"
    is_wide, links = width > NARROW, _links_between(laid)
    nodes = _NODES if is_wide else _NODES - 10
    bottom = nodes + _RANK + 34
    between, bars = _links(laid, links, bottom, width)
    shapes = [
        write(6, 20, title, TITLE, bold=True),
        *([write(6, 42, str(laid.layout), BODY)] if is_wide else []),
        *_nodes(laid, nodes, width),
        *between,
        *_memory(laid, bars, width),
        *_time(laid, bars + 2 * _BAR + 20, width),
    ]
    words = f"{title}. {cluster.world_size} ranks: {laid.layout}. {_in_words(laid)}"
    step = SceneStep("", words, [_rank_in_words(laid, rank) for rank in range(cluster.world_size)])
    return Scene(title, width, bars + 3 * _BAR + 50, shapes, [step], words, "a rank or a line")


def refused_scene(level: ClusterLevel, why: str, width: int = WIDTH) -> Scene:
    """The scene of a layout that can't be played, with the reason as a warning."""
    title = f"Level {level.number}, {level.name}: this can't be played"
    shapes, step = [write(6, 20, title, TITLE, bold=True)], SceneStep("", f"{title}.", warning=why)
    return Scene(title, width, 40, shapes, [step], f"{title}: {why}", "a slider")


# ── ranks and nodes ──────────────────────────────────────────────────────────────────────────────────────────────────


def _node_box(laid: LaidOut, node: int, room: float) -> tuple[float, float]:
    """Where a node begins, and how wide it is."""
    nodes = laid.level.cluster.nodes
    gap = 3 * _GAP if room > NARROW else _GAP
    width = (room - 12 - (nodes - 1) * gap) / nodes
    return 6 + node * (width + gap), width


def _nodes(laid: LaidOut, top: float, room: float) -> Iterator[Shape]:
    cluster, inside = laid.level.cluster, _inside(laid)
    for node in range(cluster.nodes):
        left, width = _node_box(laid, node, room)
        words = [f"node {node}:", f"{format_gigabytes(inside[node])} inside"]
        if width > 160:
            words = [" ".join(words)]
        for row, line in enumerate(reversed(words)):
            yield write(left, top - 8 - _LINE * row, line, SMALL)
        for local_rank in range(cluster.ranks_per_node):
            each = width / cluster.ranks_per_node
            yield from _rank(laid, node * cluster.ranks_per_node + local_rank, left + local_rank * each, top, each)


def _rank(laid: LaidOut, rank: int, left: float, top: float, width: float) -> Iterator[Shape]:
    layout = laid.layout
    color = color_of(layout.coordinate("pp", rank))
    yield box(left, top, width, _RANK, _filled_with(color), tip=_rank_in_words(laid, rank))
    slow = laid.level.cluster.stragglers.get(rank, 1.0)
    lines = [f"rank {rank}", *(f"{axis} {layout.coordinate(axis, rank)}" for axis in AXES)]
    lines[0] += f", {slow:g}× slower" if slow != 1 and width > 110 else ""
    for number, words in enumerate(lines):
        middle = left + width / 2, top + 16 + 15 * number
        yield write(*middle, words, SMALL, bold=number == 0, anchor="middle", fill=text_on(color))


def _rank_in_words(laid: LaidOut, rank: int) -> str:
    layout, played = laid.layout, laid.played
    where = ", ".join(f"{axis} {layout.coordinate(axis, rank)}" for axis in AXES)
    sent = ", ".join(f"{axis} {format_gigabytes(played.sent[axis][rank])}" for axis in AXES)
    busy = played.computing[rank] / played.seconds
    factor = laid.level.cluster.stragglers.get(rank, 1.0)
    slow = f", {factor:g}× slower" if factor != 1 else ""
    return f"rank {rank}{slow}: {where}; computes for {busy:.0%} of the step; sends {sent}"


# ── what travels ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _inside(laid: LaidOut) -> Counter[int]:
    """By node, the bytes that do not leave it."""
    total: Counter[int] = Counter()
    for carried in laid.played.carried.values():
        for (src, dst), nbytes in carried.items():
            total[src] += nbytes * (src == dst)
    return total


def _links_between(laid: LaidOut) -> dict[tuple[int, int], list[dict[str, int]]]:
    """(node, node) → axis → bytes, there and back; the pairs in order, those without bytes left out."""
    found: dict[tuple[int, int], list[dict[str, int]]] = {}
    for axis, carried in laid.played.carried.items():
        for (src, dst), nbytes in carried.items():
            if src != dst and nbytes:
                there_and_back = found.setdefault((min(src, dst), max(src, dst)), [{}, {}])
                there_and_back[src > dst][axis] = nbytes
    return dict(sorted(found.items()))


def _links(
    laid: LaidOut, links: Mapping[tuple[int, int], list[dict[str, int]]], top: float, room: float
) -> tuple[list[Shape], float]:
    """The lines between nodes, and where the next thing may begin."""
    found, y = list[Shape](), top
    for pair, ways in links.items():
        ends = [left + width / 2 for left, width in (_node_box(laid, node, room) for node in pair)]
        words = _way_in_words(*pair, ways)
        nbytes = max(sum(way.values()) for way in ways)
        thick = max(1.0, min(8.0, 2 + 2 * math.log10(nbytes / 1e8)))
        for way, (start, end) in zip(ways, (ends, ends[::-1]), strict=True):
            if way:
                found.append(arrow([(start, y), (end, y)], INK, thick, tip=words))
        lines = textwrap.wrap(words, int(room / _LETTER))
        for number, line in enumerate(lines):
            half = _LETTER * len(line) / 2
            middle = min(max(sum(ends) / 2, half), room - half)
            found.append(write(middle, y + 17 + _LINE * number, line, SMALL, anchor="middle"))
        y += _LINKS + _LINE * (len(lines) - 1)
    return found, y + 20


def _way_in_words(node: int, other: int, ways: list[dict[str, int]]) -> str:
    there, back = (", ".join(f"{axis} {format_gigabytes(each)}" for axis, each in way.items()) for way in ways)
    if there == back:
        return f"between nodes {node} and {other}, each way: {there}"
    said = [f"{src} to {dst}: {words}" for src, dst, words in ((node, other, there), (other, node, back)) if words]
    return f"from node {'; from node '.join(said)}"


# ── memory and time ──────────────────────────────────────────────────────────────────────────────────────────────────


def _memory(laid: LaidOut, top: float, room: float) -> Iterator[Shape]:
    limit, total = laid.level.device.memory, sum(laid.memory.values())
    pixels = (room - _LEFT - _right(room)) / max(total, limit)
    yield from _names_of_bar("memory", format_gigabytes(total), top, room)
    left = _LEFT
    for number, (kind, nbytes) in enumerate(laid.memory.items()):
        width, color = nbytes * pixels, COLORS[number]
        if nbytes:
            yield box(left, top, width, _BAR, _filled_with(color), tip=f"{kind}: {format_gigabytes(nbytes)}")
        if 6.5 * len(kind) < width:
            yield write(left + width / 2, top + 16, kind, SMALL, anchor="middle", fill=text_on(color))
        left += width
    yield from _mark(_LEFT + limit * pixels, top, f"limit {format_gigabytes(limit)}")


def _time(laid: LaidOut, top: float, room: float) -> Iterator[Shape]:
    seconds, par = laid.played.seconds, laid.level.par_seconds
    pixels = (room - _LEFT - _right(room)) / max(seconds, par)
    computing = seconds * (1 - laid.played.bubble)
    yield from _names_of_bar("time", f"{seconds * 1e3:.0f} ms", top, room)
    yield box(_LEFT, top, computing * pixels, _BAR, _filled_with(COLORS[0]), tip="computing")
    left, waiting = _LEFT + computing * pixels, seconds - computing
    yield box(left, top, waiting * pixels, _BAR, _filled_with(f"hatch:{GRAY}"), tip="waiting and sending")
    yield from _mark(_LEFT + par * pixels, top, f"par {par * 1e3:.0f} ms")


def _right(room: float) -> float:
    """CSS pixels right of a bar: for its total, and for half of the words below its end."""
    return _RIGHT if room > NARROW else 76.0


def _names_of_bar(name: str, total: str, top: float, room: float) -> Iterator[Shape]:
    yield write(6, top + 16, name, BODY, bold=True)
    yield write(room - _right(room) + 8, top + 16, total, BODY, bold=True)


def _mark(x: float, top: float, words: str) -> Iterator[Shape]:
    yield box(x - 1, top - 4, 2, _BAR + 8, {"fill": INK})
    yield write(x, top + _BAR + 17, words, SMALL, anchor="middle")


def _filled_with(color: str) -> Look:
    return {"fill": color, "stroke": INK, "stroke-width": 1}


def _in_words(laid: LaidOut) -> str:
    """Memory, time and what travels between nodes, in sentences."""
    total, limit = sum(laid.memory.values()), laid.level.device.memory
    fits = f"{format_gigabytes(laid.missing)} too many" if laid.missing > 0 else "it fits"
    between = [f"{axis} {format_gigabytes(nbytes)}" for axis, nbytes in laid.played.crossing.items() if nbytes]
    return (
        f"The fullest rank needs {format_gigabytes(total)} of {format_gigabytes(limit)}: {fits}. A step takes "
        f"{laid.played.seconds * 1e3:.0f} ms, par {laid.level.par_seconds * 1e3:.0f}; ranks compute for "
        f"{1 - laid.played.bubble:.0%} of it. Between nodes: {', '.join(between) or 'nothing'}."
    )

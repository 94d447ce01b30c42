"""Runs that never ran: traces with exactly known numbers, for the tests of the pictures."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from distlib.draw import Picture
from distlib.draw.style import PIXELS_PER_INCH
from distlib.trace import CallSite, Message, Trace
from distlib.training.parameter_server import Contribution, ServerLog, Update

SITE = CallSite("cell 7, line 12", "ring", "cell.py", 12)


def message(src: int, dst: int, nbytes: int, start: float, taken: float, end: float, round: int) -> Message:
    return Message(src, dst, 0, nbytes, "float32", (nbytes // 4,), start, taken, end, round, SITE, SITE)


def ring_trace(ranks: int, nbytes: int = 256, rounds: int | None = None) -> Trace:
    """Every rank sends to the next in each round; a round takes 1 ms, half of it waiting."""
    rounds = 2 * (ranks - 1) if rounds is None else rounds
    times = [(round, round * 1e-3) for round in range(1, rounds + 1)]
    messages = [
        message(src, (src + 1) % ranks, nbytes, start, start + 4e-4, start + 8e-4, round)
        for round, start in times
        for src in range(ranks)
    ]
    return Trace(ranks, messages, (rounds + 1) * 1e-3)


def master_trace(ranks: int, nbytes: int = 1024) -> Trace:
    """Everybody sends to rank 0, one after the other; rank 0 sends to everybody."""
    others = range(1, ranks)
    inward = [message(src, 0, nbytes, 0.0, src * 1e-3, (src + 1) * 1e-3, 1) for src in others]
    outward = [message(0, dst, nbytes, (ranks + dst) * 1e-3, (ranks + dst) * 1e-3, 1.0, 2) for dst in others]
    return Trace(ranks, inward + outward, 1.0)


class Shard(NamedTuple):
    """A piece of an array, with what JAX calls it."""

    index: tuple[slice, ...]
    device: Any
    data: Any


def cut_array(shape: tuple[int, ...], pieces: int, axis: int = 0, copies: int = 1) -> Any:
    """An array of float32, cut along an axis, each piece on `copies` devices, as `addressable_shards` lists it."""
    length = shape[axis] // pieces
    shards = []
    for device in range(pieces * copies):
        index = [slice(None)] * len(shape)
        index[axis] = slice(device // copies * length, (device // copies + 1) * length)
        data = SimpleNamespace(nbytes=4 * math.prod(shape) // pieces)
        shards.append(Shard(tuple(index), SimpleNamespace(id=device), data))
    return SimpleNamespace(shape=shape, addressable_shards=shards)


def texts(picture: Picture) -> list[str]:
    """All words in a picture."""
    return [text.get_text() for text in _visible_texts(picture)]


def text_sizes(picture: Picture) -> dict[str, float]:
    """The words in a picture, and the size of the smallest text in which they are written, in CSS pixels."""
    found: dict[str, float] = {}
    for text in _visible_texts(picture):
        size = text.get_size() * PIXELS_PER_INCH / 72
        found[text.get_text()] = min(size, found.get(text.get_text(), size))
    return found


def text_boxes(picture: Picture) -> dict[str, Bbox]:
    """Where each text of a picture stands, as fractions of the picture: (0, 0) to (1, 1)."""
    canvas = FigureCanvasAgg(picture.figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    whole = picture.figure.transFigure.inverted()
    boxes = [(text, text.get_window_extent(renderer)) for text in _visible_texts(picture)]
    return {f"{number}: {text.get_text()}": box.transformed(whole) for number, (text, box) in enumerate(boxes)}


def _visible_texts(picture: Picture) -> list[Text]:
    hidden = {id(text) for axes in picture.figure.axes for text in _hidden_texts(axes)}
    drawn = [text for text in picture.figure.findobj(Text) if text.get_visible() and text.get_text()]
    return [text for text in drawn if id(text) not in hidden]


def _hidden_texts(axes: Axes) -> list[Text]:
    """What matplotlib keeps at hand but does not draw: labels of a switched-off axis, and of ticks out of view."""
    hidden: list[Text] = []
    for axis in (axes.xaxis, axes.yaxis):
        first, last = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if not (axes.axison and first <= tick.get_loc() <= last)]
        hidden += [text for tick in ticks for text in tick.findobj(Text)]
        hidden += [] if axes.axison else axis.findobj(Text)
    return hidden


def served() -> tuple[ServerLog, dict[int, list[tuple[float, float]]]]:
    """An asynchronous server of two workers, of which worker 2 is slow: its gradient is three updates old."""
    applied = [(0.01, 1, 1, 0), (0.02, 1, 2, 0), (0.03, 1, 3, 0), (0.035, 2, 1, 3)]
    updates = [Update(time, (Contribution(worker, clock, old, 16),)) for time, worker, clock, old in applied]
    computing = {1: [(0.0, 0.01), (0.01, 0.02), (0.02, 0.03), (0.03, 0.04)], 2: [(0.0, 0.035), (0.035, 0.07)]}
    return ServerLog(updates), computing

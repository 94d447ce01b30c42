"""A run as a picture: a lane for each rank, from left to right the time, an arrow for each message.

    rank 0  ──▨▨▨██──────      above the lane: sending.  ▨ waits for the receiver   █ transfers
                 ╲             below the lane: receiving
    rank 1  ──▬▬──▄▄─────      the arrow leaves when the message is taken, and ends when the data has arrived
                               on the lane: ▬ computes, where that was noted

An arrow does not begin where the sender begins to wait: no data is on its way yet.

By rounds instead of seconds (`by="round"`) a message is drawn in the column of its round (see `distlib.trace`): this is
the algorithm as it is on any machine, while the seconds of small messages on a busy machine are mostly chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from distlib.draw.charts.coloring import ColorBy, Coloring, coloring
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, key_text, new_figure
from distlib.draw.style import (
    BLUE,
    INK,
    PIXELS_PER_INCH,
    SKY,
    SMALL,
    WIDTH,
    count,
    drawing_style,
    format_bytes,
    format_number,
    format_seconds,
    points,
    text_on,
    time_unit,
)
from distlib.trace import Message, Trace
from distlib.training.ddp.step_times import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Computing = Sequence[Iterable[Span | tuple[float, float]]]
_Stretches = Sequence[Sequence[tuple[float, float]]]
_TOP = 52  # CSS pixels for the titles
_LABELED = 48  # with more messages than this, arrows have no numbers
_TOLD = 16  # with more than this, the alternative text does not say when each was sent


def timeline(
    trace: Trace,
    title: str | None = None,
    *,
    by: Literal["time", "round"] = "time",
    color_by: ColorBy | None = None,
    computing: Computing | None = None,
) -> Picture:
    """Draw ranks × time, with an arrow for each message from its sender to its receiver.

    Args:
        trace: of a run, as `world.trace`.
        title: the headline; by default "Messages of 4 ranks".
        by: "time" for seconds since the run began, "round" for rounds. By time it is shown, too, how long a sender
            waited for its receiver (hatched) and how long the transfer took (filled).
        color_by: color the arrows by "round" or by "sender", by default the one that the x axis does not say; by "tag";
            by "tree" for one double-tree all-reduce; or by a label of your own: a function (or a dict) from a message
            to one of at most 8 labels.
        computing: for each rank, when it computed: pairs of seconds by `comm.time()`, or the spans of a `StepClock`. A
            trace knows of messages only; without this, computing is left white.

    Raises:
        TypeError: `trace` is no Trace.
        ValueError: `by` or `color_by` is another word, there are too many labels, or `computing` is given by round or
            for another number of ranks.
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"expected a Trace, as world.trace is after a run, got {type(trace).__name__}")
    if by not in ("time", "round"):
        raise ValueError(f"expected by='time' or by='round', got by={by!r}")
    spans = _checked(computing, trace.world_size, by)
    look = coloring(trace, color_by, by)
    with drawing_style():
        return _draw(trace, title or f"Messages of {count(trace.world_size, 'rank')}", by, look, spans)


def _checked(computing: Computing | None, world_size: int, by: str) -> list[list[tuple[float, float]]]:
    """Start and end of each stretch, for each rank."""
    if computing is None:
        return []
    if by != "time" or len(computing) != world_size:
        raise ValueError(
            f"expected computing=[…] over time, with a list for each of {world_size} ranks, "
            f"got {len(computing)} and by={by!r}"
        )
    return [[(s.start, s.end) if isinstance(s, Span) else (s[0], s[1]) for s in spans] for spans in computing]


def _draw(trace: Trace, title: str, by: str, look: Coloring, computing: _Stretches) -> Picture:
    lane = max(12.0, min(56.0, 440 / trace.world_size))  # 16 ranks fit a screen of 768 pixels
    height = lane * trace.world_size
    figure = new_figure(WIDTH, _TOP + height + 52)
    axes = add_axes(figure, 70, _TOP, WIDTH - 70 - 20, height)
    canvas = add_canvas(figure)
    room = _draw_labels(canvas, look.labels)
    add_titles(figure, title, _subtitle(trace), title_room=room)
    _draw_lanes(axes, trace.world_size, lane)
    if by == "time":
        _label_time(axes, trace, computing)
    else:
        _label_rounds(axes, trace)
    occupied = by == "time" and lane >= 24 and len(trace) > 0
    if occupied:
        _draw_occupation(axes, trace.messages)
    for rank, stretches in enumerate(computing):
        axes.barh([rank] * len(stretches), [e - s for s, e in stretches], 0.2, [s for s, _ in stretches], **_COMPUTING)
    _draw_arrows(axes, trace, by, look, lane)
    words = look.key(numbered=len(trace) <= _LABELED) if len(trace) else ""
    _draw_key(canvas, words, occupied, any(computing))
    return Picture(figure, describe_timeline(trace, title, by, look) + _tell_computing(computing))


def _draw_lanes(axes: Axes, world_size: int, lane: float) -> None:
    axes.set_ylim(world_size - 0.5, -0.5)
    axes.hlines(range(world_size), 0, 1, transform=axes.get_yaxis_transform(), color=INK, alpha=0.6, lw=points(1))
    every = next(step for step in (1, 2, 4, 8, 16, 32, world_size) if step * lane >= 16)
    ranks = range(0, world_size, every)
    axes.set_yticks(ranks, [f"rank {rank}" for rank in ranks])
    axes.tick_params(axis="y", length=0, labelsize=points(12))
    axes.spines["left"].set_visible(False)


def _label_time(axes: Axes, trace: Trace, computing: _Stretches) -> None:
    noted = [stretch for stretches in computing for stretch in stretches]
    first = min([*(message.start for message in trace), *(start for start, _ in noted)], default=0.0)
    last = max([*(message.end for message in trace), *(end for _, end in noted)], default=max(trace.elapsed, 1e-9))
    unit, factor = time_unit(last)
    margin = 0.02 * max(last - first, 1e-9)
    axes.set_xlim(first - margin, last + margin)
    axes.xaxis.set_major_formatter(lambda seconds, _: format_number(float(f"{seconds / factor:.6g}")))
    axes.set_xlabel(f"time since the run began ({unit})", size=points(12))


_WAITING: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "hatch": "//////", "alpha": 0.8, "linewidth": 0}
_SENDING: dict[str, Any] = {"facecolor": INK, "alpha": 0.8, "linewidth": 0}
_RECEIVING: dict[str, Any] = {"facecolor": INK, "alpha": 0.45, "linewidth": 0}
_COMPUTING: dict[str, Any] = {"facecolor": SKY, "linewidth": 0, "zorder": 2}


def _draw_occupation(axes: Axes, messages: Sequence[Message]) -> None:
    """Bars along the lanes: above a sender's wait and transfer, below a receiver's transfer."""
    senders, receivers = [m.src - 0.18 for m in messages], [m.dst + 0.18 for m in messages]
    starts, takens = [m.start for m in messages], [m.taken for m in messages]
    waits, transfers = [m.taken - m.start for m in messages], [m.end - m.taken for m in messages]
    axes.barh(senders, waits, 0.16, starts, zorder=1, **_WAITING)
    axes.barh(senders, transfers, 0.16, takens, zorder=1, **_SENDING)
    axes.barh(receivers, transfers, 0.16, takens, zorder=1, **_RECEIVING)


def _draw_labels(canvas: Axes, labels: Mapping[str, str]) -> float:
    """What the colors of labels mean, at the top right; returns how many CSS pixels are left for the title."""
    from matplotlib.patches import Circle

    x = WIDTH - 20.0
    for label, color in reversed(list(labels.items())):
        x -= key_text(canvas, x, 20, label)
        canvas.add_patch(Circle((x - 14, 16), 7, facecolor=color, edgecolor="none"))
        x -= 40
    return x - 20


def _draw_key(canvas: Axes, words: str, occupied: bool, computing: bool) -> None:
    """What bars, numbers and colors mean, below the titles, from right to left."""
    from matplotlib.patches import Circle, Rectangle

    x, y = WIDTH - 20.0, 40.0
    if words:
        x -= key_text(canvas, x, y, words)
        canvas.add_patch(Circle((x - 16, y - 4), 7, facecolor=BLUE if "color" in words else INK, edgecolor="none"))
        x -= 44
    bars = [("receives", _RECEIVING), ("sends", _SENDING), ("waits to send", _WAITING)] if occupied else []
    for name, look in [("computes", _COMPUTING)] * computing + bars:
        x -= key_text(canvas, x, y, name)
        canvas.add_patch(Rectangle((x - 30, y - 9), 24, 10, **look))
        x -= 46


def _label_rounds(axes: Axes, trace: Trace) -> None:
    rounds = max(trace.rounds, 1)
    axes.set_xlim(0, rounds)
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, rounds) if rounds / step <= 32)
    shown = range(1, rounds + 1, every)
    axes.set_xticks([number - 0.5 for number in shown], [str(number) for number in shown])
    axes.vlines(range(1, rounds), 0, 1, transform=axes.get_xaxis_transform(), color=INK, alpha=0.3, lw=points(1))
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("round", size=points(12))


def _draw_arrows(axes: Axes, trace: Trace, by: str, look: Coloring, lane: float) -> None:
    messages = trace.messages
    if not messages:
        axes.text(0.5, 0.5, "no messages", transform=axes.transAxes, ha="center", va="bottom", color=INK)
        return
    if by == "time":
        starts, ends = [m.taken for m in messages], [m.end for m in messages]
    else:
        starts, ends = [m.round - 0.9 for m in messages], [m.round - 0.1 for m in messages]
    colors = [look.color(m) for m in messages]
    axes.quiver(
        starts,
        [m.src for m in messages],
        [end - start for start, end in zip(starts, ends, strict=True)],
        [m.dst - m.src for m in messages],
        color=colors,
        angles="xy",
        scale_units="xy",
        scale=1,
        units="inches",
        width=max(1.0, min(1.8, lane / 30)) / PIXELS_PER_INCH,
        headwidth=5,
        headlength=6,
        headaxislength=5.5,
        zorder=3,
    )
    if len(messages) <= _LABELED:
        for message, start, fill in zip(messages, starts, colors, strict=True):
            _label_arrow(axes, start, message.src, look.number(message), fill)


def _label_arrow(axes: Axes, x: float, y: float, number: int, fill: str) -> None:
    """The arrow's round or sender in a dot at its tail, so that nobody needs the color to read it."""
    axes.plot(x, y, "o", markersize=points(15), markerfacecolor=fill, markeredgewidth=0, zorder=4, clip_on=False)
    axes.text(x, y, str(number), size=points(SMALL), color=text_on(fill), ha="center", va="center_baseline", zorder=5)


def _subtitle(trace: Trace) -> str:
    if not len(trace):
        return "no messages"
    sizes = {message.nbytes for message in trace}
    smallest, largest = format_bytes(min(sizes)), format_bytes(max(sizes))
    each = f"of {smallest}" if len(sizes) == 1 else f"of {smallest} to {largest}"
    return f"{count(len(trace), 'message')} {each} in {count(trace.rounds, 'round')}"


def describe_timeline(trace: Trace, title: str, by: str, look: Coloring) -> str:
    """A timeline in words, as alternative text."""
    axis = "seconds" if by == "time" else "rounds"
    text = f"{title}. Timeline of {count(trace.world_size, 'rank')} over {axis}: {_subtitle(trace)}."
    if by == "time" and len(trace):
        first, last = min(m.start for m in trace), max(m.end for m in trace)
        text += f" From the first send to the last arrival: {format_seconds(last - first)}."
    if look.label_of is not None:
        amounts = Counter(map(look.label_of, trace))
        text += f" By color: {', '.join(f'{label} {amounts[label]}' for label in look.labels)}."
    return text + (_tell_messages(trace, by) if 0 < len(trace) <= _TOLD else _tell_pairs(trace))


def _tell_messages(trace: Trace, by: str) -> str:
    """Each message, in their order."""
    if by == "time":
        order = sorted(trace, key=lambda m: (m.taken, m.src))
        spans = (f"{format_seconds(m.taken)} to {format_seconds(m.end)} from {m.src} to {m.dst}" for m in order)
        return f" Messages: {'; '.join(spans)}."
    rounds: dict[int, list[str]] = {}
    for message in sorted(trace, key=lambda m: (m.round, m.src)):
        rounds.setdefault(message.round, []).append(f"{message.src} to {message.dst}")
    return "".join(f" Round {number}: {', '.join(pairs)}." for number, pairs in rounds.items())


def _tell_pairs(trace: Trace) -> str:
    pairs = sorted({(m.src, m.dst) for m in trace})
    if not 0 < len(pairs) <= 16:
        return ""
    return " Messages go from " + ", ".join(f"{src} to {dst}" for src, dst in pairs) + "."


def _tell_computing(computing: _Stretches) -> str:
    told = [
        f"rank {rank} {format_seconds(sum(end - start for start, end in stretches))}"
        for rank, stretches in enumerate(computing)
        if stretches
    ]
    return f" Time spent computing: {', '.join(told)}." if told else ""

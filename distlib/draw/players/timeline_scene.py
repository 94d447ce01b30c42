"""The scene of a trace: a lane for each rank, messages that come one step after the other, bars of bytes that grow.

By round a step is a round of `distlib.trace`. By time a step is the moment at which a message arrives; those that were
taken before it and arrive after it are drawn thin, and a hatching above a lane is a sender that waits to be taken.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.draw.charts.coloring import ColorBy, Coloring, coloring
from distlib.draw.charts.timelines import describe_timeline
from distlib.draw.players.scene import INK, Look, Scene, SceneStep, Shape, arrow, box, runs, write
from distlib.draw.style import (
    BLUE,
    ORANGE,
    SMALL,
    TITLE,
    WIDTH,
    count,
    format_bytes,
    format_number,
    format_seconds,
    text_on,
    time_unit,
)
from distlib.trace import CallSite, Message, Trace

_LEFT, _TOP, _BARS, _BELOW = 66.0, 62.0, 190.0, 44.0  # CSS pixels: rank names, titles, bars of bytes, the axis
_WAITS = f"hatch:{INK}"
_DOT = 7.5  # CSS pixels: the radius of the dot at an arrow's tail


def timeline_scene(trace: Trace, title: str, by: str, color_by: ColorBy | None = None) -> Scene:
    """The scene of a trace whose messages were kept. `by`: "round" or "time"; `color_by`: see `coloring`."""
    plan = _plan(trace, by, coloring(trace, color_by, by))
    shapes = [*_background(plan, title), *_messages(plan), *_bars(plan)]
    height = _TOP + plan.lane * trace.world_size + _BELOW
    return Scene(title, WIDTH, height, shapes, _steps(plan), describe_timeline(trace, title, by, plan.look), "an arrow")


@dataclass(frozen=True)
class _MessageSteps:
    """Where a message stands, and when: `sent` and `arrived` are steps, from 1 on."""

    trace: Trace
    by: str
    look: Coloring
    lane: float
    moments: Sequence[float]  # by time: when each step ends
    x: Callable[[float], float]  # from seconds or rounds to CSS pixels

    def y(self, rank: int) -> float:
        return _TOP + self.lane * (rank + 0.5)

    @property
    def numbered(self) -> bool:
        """Whether there is room for a number at each arrow."""
        few = len(self.trace.messages) <= 48 if self.by == "time" else self.x(1) - self.x(0) >= 30
        return self.lane >= 20 and few

    @property
    def shows_waiting(self) -> bool:
        """Whether senders that wait are shown: over time, where there is room."""
        return self.by == "time" and self.numbered

    def sent(self, message: Message) -> int:
        """The step in which a message is on its way for the first time."""
        return message.round if self.by == "round" else 1 + bisect_left(self.moments, message.taken)

    def arrived(self, message: Message) -> int:
        return message.round if self.by == "round" else 1 + bisect_left(self.moments, message.end)

    def span(self, message: Message) -> tuple[float, float]:
        if self.by == "round":
            return self.x(message.round - 0.88), self.x(message.round - 0.1)
        return self.x(message.taken), self.x(message.end)


def _plan(trace: Trace, by: str, look: Coloring) -> _MessageSteps:
    ends = sorted({message.end for message in trace})
    first = min((message.start for message in trace), default=0.0) if by == "time" else 0.0
    last = max([*ends, first + 1e-9]) if by == "time" else float(max(trace.rounds, 1))
    width = WIDTH - _LEFT - _BARS - 14
    lane = max(14.0, min(52.0, 340 / trace.world_size))  # 16 ranks and the controls fit a screen of 768 pixels
    return _MessageSteps(trace, by, look, lane, ends, lambda at: _LEFT + width * (at - first) / (last - first))


def _background(plan: _MessageSteps, title: str) -> Iterator[Shape]:
    ranks, right = plan.trace.world_size, WIDTH - _BARS - 14
    bottom = _TOP + plan.lane * ranks
    yield write(6, 20, title, TITLE, bold=True)
    yield from _key(plan)
    every = next(step for step in (1, 2, 4, 8, 16, 32, 64, ranks) if step * plan.lane >= 14)
    for rank in range(ranks):
        y = plan.y(rank)
        yield box(_LEFT, y - 0.5, right - _LEFT, 1, {"fill": INK, "opacity": 0.5})
        if rank % every == 0:
            yield write(_LEFT - 10, y + 4, f"rank {rank}", 12, anchor="end", sticks=True)
    if len(plan.trace):
        yield from _round_axis(plan, bottom) if plan.by == "round" else _time_axis(plan, bottom)


def _key(plan: _MessageSteps) -> Iterator[Shape]:
    """What numbers, colors and the hatching mean. A letter is at most 8 CSS pixels wide."""
    x, words = 6.0, plan.look.key(plan.numbered)
    if words:
        yield write(x, 40, words, SMALL + 1)
        x += 8.0 * len(words) + 8
    for label, color in plan.look.labels.items():
        yield Shape("circle", {"cx": x + 6, "cy": 36, "r": 6, "fill": color})
        yield write(x + 17, 40, label, SMALL + 1)
        x += 8.0 * len(label) + 33
    if plan.shows_waiting:
        yield box(x, 31, 24, 10, {"fill": _WAITS})
        yield write(x + 29, 40, "waits to send", SMALL + 1)


def _round_axis(plan: _MessageSteps, bottom: float) -> Iterator[Shape]:
    rounds = plan.trace.rounds
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, rounds) if rounds / step <= 28)
    for number in range(1, rounds + 1):
        left, right = plan.x(number - 1), plan.x(number)
        now: Look = {"fill": INK, "opacity": 0.1}
        yield box(left, _TOP, right - left, bottom - _TOP, now, first=number, end=number + 1)
        if (number - 1) % every == 0:
            yield write((left + right) / 2, bottom + 18, str(number), SMALL, anchor="middle")
    yield write(plan.x(rounds / 2), bottom + 36, "round", 12, anchor="middle")


def _time_axis(plan: _MessageSteps, bottom: float) -> Iterator[Shape]:
    """A line that moves with the time of each step, and the time next to it."""
    unit, factor = time_unit(plan.moments[-1])
    for number, moment in enumerate(plan.moments, start=1):
        x = plan.x(moment)
        yield box(x - 0.75, _TOP, 1.5, bottom - _TOP + 6, {"fill": INK}, first=number, end=number + 1)
        words = f"{format_number(float(f'{moment / factor:.4g}'))} {unit}"
        yield write(x, bottom + 20, words, SMALL, anchor="middle", first=number, end=number + 1)
    yield write(plan.x(plan.moments[-1]), bottom + 36, "time since the run began", 12, anchor="end")


def _messages(plan: _MessageSteps) -> Iterator[Shape]:
    dots = set[tuple[float, int, str]]()  # several pale ones upon each other would not be pale
    for message in plan.trace:
        (left, right), sent, arrived = plan.span(message), plan.sent(message), plan.arrived(message)
        number, color = plan.look.number(message), plan.look.color(message)
        if plan.shows_waiting and message.taken > message.start:
            yield from _waiting(plan, message)
        line, tip = [(left, plan.y(message.src)), (right, plan.y(message.dst))], describe(message)
        if sent < arrived:
            yield arrow(line, color, 1, first=sent, end=arrived, tip=f"{tip}\nstill on its way")
        yield arrow(line, color, 2, first=arrived, fades=True, tip=tip)
        dot = (round(left, 1), message.src, color)
        if plan.numbered and dot not in dots:
            dots.add(dot)
            yield from _dot(left, plan.y(message.src), number, color, sent)


def _waiting(plan: _MessageSteps, message: Message) -> Iterator[Shape]:
    """A hatched bar above the sender's lane, which grows until the message is taken."""
    left, y, taken = plan.x(message.start), plan.y(message.src) - 0.3 * plan.lane, plan.sent(message)
    tip = f"rank {message.src} waits for {format_seconds(message.taken - message.start)} to send to rank {message.dst}"
    for step in range(1 + bisect_left(plan.moments, message.start), taken + 1):
        until = message.taken if step == taken else plan.moments[step - 1]
        when = {"first": step, "end": None if step == taken else step + 1, "tip": tip}
        yield box(left, y, plan.x(until) - left, 0.2 * plan.lane, {"fill": _WAITS}, **when)


def _dot(x: float, y: float, number: int, color: str, first: int) -> Iterator[Shape]:
    yield Shape("circle", {"cx": round(x, 1), "cy": round(y, 1), "r": _DOT, "fill": color}, first, fades=True)
    look: dict[str, Any] = {"anchor": "middle", "fill": text_on(color), "first": first, "fades": True}
    yield write(x, y + 4, str(number), SMALL, **look)


def _bars(plan: _MessageSteps) -> Iterator[Shape]:
    """For each rank two bars that grow: above the bytes it has sent (filled), below those received (hatched)."""
    left, room = WIDTH - _BARS + 8, _BARS - 84
    totals = [*plan.trace.bytes_sent, *plan.trace.bytes_received]
    longest = max([*totals, 1])
    yield box(left, 30, 14, 9, {"fill": BLUE})
    yield write(left + 19, 39, "sent", SMALL)
    yield box(left + 56, 30, 14, 9, {"fill": f"hatch:{ORANGE}", "stroke": ORANGE})
    yield write(left + 75, 39, "received", SMALL)
    thick = min(11.0, 0.43 * plan.lane)
    for rank in range(plan.trace.world_size):
        for offset, look, amounts in (
            (-thick - 0.5, {"fill": BLUE}, _by_step(plan, lambda m: m.src, rank)),
            (0.5, {"fill": f"hatch:{ORANGE}", "stroke": ORANGE}, _by_step(plan, lambda m: m.dst, rank)),
        ):
            for amount, first, end in runs(amounts):
                y, width = plan.y(rank) + offset, room * amount / longest
                yield box(left, y, max(width, 0.5), thick, look, first=first, end=end)
                if thick >= 9:
                    yield write(left + width + 5, y + thick - 1, format_bytes(amount), SMALL, first=first, end=end)


def _by_step(plan: _MessageSteps, rank_of: Callable[[Message], int], rank: int) -> list[int]:
    """How many bytes a rank has sent or received after each step; they count when they have arrived."""
    amounts = [0] * (_last_step(plan) + 1)
    for message in plan.trace:
        if rank_of(message) == rank:
            amounts[plan.arrived(message)] += message.nbytes
    for step in range(1, len(amounts)):
        amounts[step] += amounts[step - 1]
    return amounts


def _last_step(plan: _MessageSteps) -> int:
    return plan.trace.rounds if plan.by == "round" else len(plan.moments)


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe(message: Message) -> str:
    """A message in a line: from whom to whom, how much, and which line sent it."""
    elements = count(math.prod(message.shape), "element")
    return (
        f"rank {message.src} → rank {message.dst}: {format_bytes(message.nbytes)} ({elements} of {message.dtype}), "
        f"round {message.round}, sent by {tell_site(message.site)}"
    )


def tell_site(site: CallSite) -> str:
    """A line of code in words, and through which library function it sent; of torch's, the collective's name."""
    if not site.via:
        return site.place
    name = site.via.rpartition(".")[2]
    return f"{(site.collective or name) if site.via.startswith('torch.') else name} in {site.place}"


def _steps(plan: _MessageSteps) -> list[SceneStep]:
    by_step: list[list[Message]] = [[] for _ in range(_last_step(plan) + 1)]
    for message in plan.trace:
        by_step[plan.arrived(message)].append(message)
    return [_step(plan, number, messages) for number, messages in enumerate(by_step)]


def _step(plan: _MessageSteps, number: int, messages: Sequence[Message]) -> SceneStep:
    last = _last_step(plan)
    if not len(plan.trace):
        return SceneStep("start", "The run had no messages.")
    if number == 0:
        return SceneStep("start", f"Nobody has sent anything yet. To come: {count(len(plan.trace), 'message')}.")
    total = sum(message.nbytes for message in messages)
    pairs = ", ".join(f"{message.src} to {message.dst}" for message in messages[:16]) + ", …" * (len(messages) > 16)
    name = f"round {number} of {last}" if plan.by == "round" else f"arrival {number} of {last}"
    when = f"Round {number} of {last}" if plan.by == "round" else f"After {format_seconds(plan.moments[number - 1])}"
    words = f"{when}: {count(len(messages), 'message')}, {format_bytes(total)}. From rank {pairs}."
    return SceneStep(name, words, [describe(message) + _tell_wait(plan, message) for message in messages])


def _tell_wait(plan: _MessageSteps, message: Message) -> str:
    """How long the sender waited, where the picture shows it."""
    waited = message.taken - message.start
    return f", after a wait of {format_seconds(waited)}" if plan.shows_waiting and waited > 0 else ""

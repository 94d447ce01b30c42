"""The scene of a race: the same as `racing` draws, as shapes for a browser, and a line at one amount."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from distlib.draw.charts.log_axes import LEFT, RIGHT, spread, ticks_of_ranks, ticks_of_seconds, ticks_of_sizes
from distlib.draw.charts.race_table import Race
from distlib.draw.charts.racing import amount_in_words, describe_race, edge, tell_leads
from distlib.draw.players.scene import INK, Look, Scene, SceneStep, Shape, box, write
from distlib.draw.style import BODY, SMALL, TITLE, WIDTH, color_of, format_bytes, format_seconds, line_color_of, text_on
from distlib.network import ALL_REDUCES

_TOP, _HEIGHT, _BAND, _BELOW = 44.0, 310.0, 28.0, 44.0  # CSS pixels: the title, the lines, who leads, the axis
_RIGHT = WIDTH - RIGHT
_DASHES = ("", "9 4", "2 4", "9 4 2 4", "5 3", "14 3 2 3 2 3", "3 3")


def race_scene(table: Race, marked: int) -> Scene:
    """The scene of a race.

    Args:
        table: a race that was run.
        marked: the amount at which all times are written; one of `table.amounts`.
    """
    plan = _plan(table)
    title = f"All-reduces {table.where}: which is the fastest?"
    shapes = [
        write(6, 20, title, TITLE, bold=True),
        *_axes(plan),
        *_band(plan),
        *_lines(plan),
        *_names(plan),
        box(plan.x(marked) - 1, _TOP, 2, _HEIGHT, {"fill": INK}),
    ]
    height, steps = _TOP + _HEIGHT + _BAND + _BELOW, [SceneStep("", _tell(table, marked))]
    return Scene(title, WIDTH, height, shapes, steps, describe_race(table, title), "a line")


@dataclass(frozen=True)
class _RacePixels:
    """From amounts and seconds to CSS pixels."""

    table: Race
    low: float
    high: float

    def x(self, amount: float) -> float:
        first, last = self.table.amounts[0], self.table.amounts[-1]
        return LEFT + (_RIGHT - LEFT) * math.log(amount / first) / math.log(last / first)

    def y(self, seconds: float) -> float:
        return _TOP + _HEIGHT * math.log(self.high / seconds) / math.log(self.high / self.low)


def _plan(table: Race) -> _RacePixels:
    """The y axis goes from one power of ten to another: the lines are seen to move, rather than the axis."""
    times = [seconds for line in table.seconds.values() for seconds in line]
    return _RacePixels(
        table, 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times) * 1.0001))
    )


def _axes(plan: _RacePixels) -> Iterator[Shape]:
    faint: Look = {"fill": INK, "opacity": 0.2}
    for seconds in ticks_of_seconds(plan.low, plan.high):
        yield box(LEFT, plan.y(seconds) - 0.5, _RIGHT - LEFT, 1, faint)
        yield write(LEFT - 8, plan.y(seconds) + 4, format_seconds(seconds), SMALL, anchor="end")
    over_bytes = plan.table.along == "bytes"
    ticks = ticks_of_sizes(plan.table.amounts) if over_bytes else ticks_of_ranks(plan.table.amounts)
    name: Callable[[float], str] = format_bytes if over_bytes else lambda ranks: f"{int(ranks):,}"
    bottom = _TOP + _HEIGHT + _BAND
    for tick in ticks:
        yield box(plan.x(tick) - 0.5, bottom, 1, 5, {"fill": INK})
        yield write(plan.x(tick), bottom + 18, name(tick), SMALL, anchor="middle")
    axis = f"{'size of the tensor' if over_bytes else 'ranks'} (logarithmic)"
    yield write((LEFT + _RIGHT) / 2, bottom + 36, axis, 12, anchor="middle")
    yield write(6, _TOP - 10, "logarithmic", SMALL)


def _band(plan: _RacePixels) -> Iterator[Shape]:
    table, top = plan.table, _TOP + _HEIGHT + 4
    edges = [*(plan.x(edge(table, lead)) for lead in table.leads), _RIGHT]
    for lead, left, right in zip(table.leads, edges[:-1], edges[1:], strict=True):
        fill = color_of(ALL_REDUCES.index(lead.algorithm))
        tip = f"{lead.algorithm} is the fastest from {amount_in_words(table, lead.first)} on"
        yield box(left, top, right - left, _BAND - 4, {"fill": fill, "stroke": INK, "stroke-width": 0.5}, tip=tip)
        if right - left > 7.5 * len(lead.algorithm):
            middle = (left + right) / 2
            yield write(middle, top + 16, lead.algorithm, SMALL + 1, anchor="middle", fill=text_on(fill))


def _lines(plan: _RacePixels) -> Iterator[Shape]:
    for name, times in plan.table.seconds.items():
        number = ALL_REDUCES.index(name)
        corners = [(plan.x(amount), plan.y(time)) for amount, time in zip(plan.table.amounts, times, strict=True)]
        look: Look = {
            "d": "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in corners),
            "fill": "none",
            "stroke": line_color_of(number),
            "stroke-width": 2.2,
            "stroke-dasharray": _DASHES[number],
        }
        first, last = (
            amount_in_words(plan.table, amount) for amount in (plan.table.amounts[0], plan.table.amounts[-1])
        )
        tip = f"{name}: {format_seconds(times[0])} at {first}, {format_seconds(times[-1])} at {last}"
        yield Shape("path", look, tip=tip)


def _names(plan: _RacePixels) -> Iterator[Shape]:
    """The names right of the lines' ends, moved apart, each with a piece of its line from its own end."""
    ends = [plan.y(times[-1]) for times in plan.table.seconds.values()]
    middles = spread(ends, [18] * len(ends), _TOP - 3, _TOP + _HEIGHT + 3)
    for name, end, y in zip(plan.table.seconds, ends, middles, strict=True):
        number = ALL_REDUCES.index(name)
        path = f"M{_RIGHT + 3} {end:.1f} L{_RIGHT + 12} {y:.1f} L{_RIGHT + 40} {y:.1f}"
        look: Look = {"d": path, "fill": "none", "stroke-width": 2.2, "stroke-dasharray": _DASHES[number]}
        yield Shape("path", {**look, "stroke": line_color_of(number)})
        yield write(_RIGHT + 45, y + 4, name, BODY - 0.5)


def _tell(table: Race, marked: int) -> str:
    index = table.amounts.index(marked)
    times = {name: times[index] for name, times in table.seconds.items()}
    ordered: Sequence[str] = sorted(times, key=lambda name: times[name])
    told = ", ".join(f"{name} {format_seconds(times[name])}" for name in ordered)
    return f"At {amount_in_words(table, marked)}: {told}. The fastest from left to right: {tell_leads(table)}."

"""Two lanes for each of several steps, above one axis of time: what `queue_lanes` and `unit_lanes` have in common.

one step   upper lane  │▒▒▒▒│////│▒▒▒▒│////////│
           lower lane       │███████│███████│  │ 8 ms

`waits` finds the stretches in which nothing is computed; `step_panels` hatches them, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import (
    add_axes,
    add_canvas,
    add_titles,
    fitting_size,
    key_of_areas,
    label_end,
    new_figure,
    text_width,
)
from distlib.draw.style import BODY, INK, SMALL, WIDTH, format_seconds, points, text_on, time_unit
from distlib.training.ddp.step_times import Span, StepTimes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 28.0  # CSS pixels: the height of a lane
_TOP, _LEFT, _RIGHT, _GAP, _FOOT = 58.0, 180.0, 84.0, 18.0, 40.0  # CSS pixels
_MOST = 4  # steps
WAITS: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "hatch": "//////"}


def check_steps(steps: Mapping[str, StepTimes]) -> None:
    """Raises ValueError: no step, more than 4, or one that takes no time."""
    if not 1 <= len(steps) <= _MOST or not all(step.seconds > 0 for step in steps.values()):
        raise ValueError(f"expected 1 to {_MOST} steps that take time, got {dict(steps)}")


@dataclass(frozen=True)
class StepLanes:
    """A figure with titles, a key, an axis of time, and for each step its name, two empty lanes and its end.

    Attributes:
        figure, axes: of matplotlib; the axes count time downward from 0 in CSS pixels, and to the right in units.
        factor: seconds of a unit.
        tops: where the upper lane of each step begins.
        looks: by kind of a box, how it is drawn.
    """

    figure: Figure
    axes: Axes
    factor: float
    tops: list[float]
    looks: Mapping[str, Mapping[str, Any]]

    def at(self, seconds: float, step: StepTimes) -> float:
        """Where a moment is on the axis."""
        return (seconds - step.start) / self.factor

    def pixels(self, seconds: float) -> float:
        """How long a time is, in CSS pixels."""
        return float(seconds / self.factor / self.axes.get_xlim()[1] * (WIDTH - _LEFT - _RIGHT))

    def add_box(self, span: Span, step: StepTimes, top: float, words: str = "") -> None:
        """A box for a span, in the lane that begins at `top`; with its words where there is room for them."""
        from matplotlib.patches import Rectangle

        left, right, look = self.at(span.start, step), self.at(span.end, step), self.looks[span.kind]
        pixels = self.pixels(span.seconds)
        edge = 0.0 if look is WAITS else points(min(1.0, pixels / 12))  # else narrow ones would be all edge
        self.axes.add_patch(Rectangle((left, top + 2), right - left, ROW - 4, linewidth=edge, **look))
        if words and look is not WAITS and text_width(words, SMALL) + 3 <= pixels:
            color, x, y = text_on(look["facecolor"]), (left + right) / 2, top + ROW / 2
            self.axes.text(x, y, words, size=points(SMALL), color=color, ha="center", va="center_baseline")


def new_step_lanes(
    steps: Mapping[str, StepTimes],
    looks: Mapping[str, Mapping[str, Any]],
    lanes: tuple[str, str],
    *,
    title: str,
    subtitle: str,
    name_room: float,
    above: float = 0.0,
) -> StepLanes:
    """Draw the frame of the lanes.

    Args:
        steps: by name, in the order from above. All share one scale.
        looks: by kind of a box, which has its entry in the key.
        lanes: what the upper and the lower one are called.
        title, subtitle: the headline and the line below it.
        name_room: CSS pixels that the names of steps may take.
        above: CSS pixels that are left free above each step.
    """
    panel = above + 2 * ROW + _GAP
    figure = new_figure(WIDTH, _TOP + panel * len(steps) + _FOOT)
    add_titles(figure, title, subtitle, title_room=400)
    canvas = add_canvas(figure)
    key_of_areas(canvas, looks)
    longest = max(step.seconds for step in steps.values())
    unit, factor = time_unit(longest)
    axes = add_axes(figure, _LEFT, _TOP, WIDTH - _LEFT - _RIGHT, panel * len(steps))
    axes.set(xlim=(0, longest / factor), ylim=(panel * len(steps), 0), xlabel=f"time ({unit})", yticks=[])
    axes.spines["left"].set_visible(False)
    tops = [number * panel + above for number in range(len(steps))]
    for top, (name, step) in zip(tops, steps.items(), strict=True):
        for row, lane in enumerate(lanes):
            y = _TOP + top + ROW * (row + 0.5)
            canvas.text(_LEFT - 8, y, lane, size=points(SMALL), color=INK, ha="right", va="center_baseline")
        size = points(fitting_size(name, BODY, name_room))
        canvas.text(10, _TOP + top + ROW, name, size=size, weight="bold", color=INK, va="center_baseline")
        end = step.seconds / factor
        axes.plot([end, end], [top - 1, top + 2 * ROW + 1], color=INK, linewidth=points(2), clip_on=False)
        look = {"size": points(BODY), "va": "center", "annotation_clip": False}
        label_end(axes, format_seconds(step.seconds), end, top + ROW, gap=6, **look)
    return StepLanes(figure, axes, factor, tops, looks)


def waits(step: StepTimes, computing: tuple[str, ...], shortest: float) -> Iterator[Span]:
    """The stretches of at least `shortest` seconds in which a rank does nothing of the kinds `computing`."""
    done = step.start
    for span in [*step.of(*computing), Span("", "", step.end, step.end)]:
        if span.start - done >= shortest:
            yield Span("waits", "", done, span.start)
        done = max(done, span.end)

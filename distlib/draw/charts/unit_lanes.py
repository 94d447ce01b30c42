"""When a rank computes which unit of its model, and what the network carries meanwhile: two lanes for each step.

stage 1   computing   │ 0 │ 1 │   1   │   0   │/////////│//////////│
          network                     │ R1 │ R0 │ G0 │ G1 │
stage 3   computing   │////│ 0 │////│ 1 │/////…
          network     │ G0 │ G1 │   │ G1 │ …

A rank waits where it computes nothing: then the communication is exposed. Each box bears the number of its unit; G is
an all-gather, R a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distlib.draw.charts.step_lanes import ROW, WAITS, check_steps, new_step_lanes, waits
from distlib.draw.picture import Picture
from distlib.draw.style import BLUE, INK, ORANGE, SKY, YELLOW, drawing_style, format_number, format_seconds
from distlib.training.ddp.step_times import StepTimes

_LOOKS: dict[str, dict[str, Any]] = {
    "forward": {"facecolor": SKY, "edgecolor": INK},
    "backward": {"facecolor": BLUE, "edgecolor": INK},
    "all-gather": {"facecolor": ORANGE, "edgecolor": INK},
    "reduce-scatter": {"facecolor": YELLOW, "edgecolor": INK},
    "waits": WAITS,
}
_LETTERS = {"all-gather": "G", "reduce-scatter": "R"}
_COMPUTING, _SENDING = ("forward", "backward"), ("all-gather", "reduce-scatter")
_SHORTEST = 0.004  # of the longest step: a shorter wait is left white


def unit_lanes(steps: Mapping[str, StepTimes], *, title: str) -> Picture:
    """Draw what one rank computes, and what its network carries meanwhile, for one or several ways to do a step.

    Args:
        steps: by name, spans of the kinds "forward", "backward", "all-gather" and "reduce-scatter", whose names are the
            numbers of units, as `zero.play_step` notes them; others are left out. All share one scale. At most 4.
        title: the headline.

    Raises:
        ValueError: nothing to draw, more than 4 steps, or a step that takes no time.
    """
    check_steps(steps)
    with drawing_style():
        return _draw(steps, title)


def _draw(steps: Mapping[str, StepTimes], title: str) -> Picture:
    subtitle = "the number in a box is the unit's; G gathers the unit, R reduces and scatters its gradients"
    lanes = new_step_lanes(steps, _LOOKS, ("computing", "network"), title=title, subtitle=subtitle, name_room=90)
    longest = max(step.seconds for step in steps.values())
    for top, step in zip(lanes.tops, steps.values(), strict=True):
        for span in [*step.of(*_COMPUTING), *waits(step, _COMPUTING, _SHORTEST * longest)]:
            lanes.add_box(span, step, top, span.name)
        for span in step.of(*_SENDING):
            lanes.add_box(span, step, top + ROW, _LETTERS[span.kind] + span.name)
    return Picture(lanes.figure, " ".join([f"{title}.", *(_in_words(name, step) for name, step in steps.items())]))


def _in_words(name: str, step: StepTimes) -> str:
    """ "stage 1: the step takes 60 ms, of which computing 24.6 ms; network: reduce-scatter 3, 2, all-gather 2, 3." """
    order: list[str] = []
    last = ""
    for span in step.of(*_SENDING):
        order.append(span.name if span.kind == last else f"{span.kind} {span.name}")
        last = span.kind
    busy = sum(span.seconds for span in step.of(*_SENDING))
    exposed = sum(span.seconds for span in waits(step, _COMPUTING, 0.0))
    share = format_number(round(100 * exposed / step.seconds))
    return (
        f"{name}: the step takes {format_seconds(step.seconds)}; computing takes {format_seconds(step.computing)}, the "
        f"network carries messages for {format_seconds(busy)}, and the rank waits {share} % of the step. "
        f"Messages: {', '.join(order) or 'none'}."
    )

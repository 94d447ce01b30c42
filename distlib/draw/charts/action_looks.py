"""How the actions of a pipeline schedule look, in still pictures and in players.

    forward    ▄▄   low: three quarters of the lane, at its bottom        the first stage of a rank is light, the
    backward   ██   high: the whole lane; I, the first half of it, too    second one dark, the third light again
    weights    ▀▀   low, at the top: W, the second half

A height says the kind, and not the color alone; so does the letter, where there is room for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from distlib.draw.style import BLUE, DARK_YELLOW, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from distlib.training.schedules import Action, ActionSpan, Timing, most_live

FORWARD, BACKWARD, INPUT, WEIGHT = "FBIW"
NAMES = {FORWARD: "forward", BACKWARD: "backward", INPUT: "backward, input", WEIGHT: "backward, weights"}
_COLORS = {
    FORWARD: (SKY, BLUE),
    BACKWARD: (ORANGE, VERMILLION),
    INPUT: (YELLOW, DARK_YELLOW),
    WEIGHT: (GREEN, PURPLE),
}
_HEIGHTS = {FORWARD: (0.25, 1.0), BACKWARD: (0.0, 1.0), INPUT: (0.0, 1.0), WEIGHT: (0.0, 0.75)}


@dataclass(frozen=True)
class ActionLook:
    """How an action is drawn.

    Attributes:
        color: of its area.
        top, bottom: in the lane, from 0 to 1.
    """

    color: str
    top: float
    bottom: float


def look_of(action: Action, stages: Sequence[int]) -> ActionLook:
    """The look of an action on a rank that has these stages, in order."""
    return ActionLook(_COLORS[action.kind][stages.index(action.stage) % 2], *_HEIGHTS[action.kind])


def words_in_boxes(timing: Timing, fits: Callable[[str, float], bool]) -> dict[Action, str]:
    """What stands in the box of each action: "2F0", "F0" or "0", alike for all of a kind, and "" where nothing fits.

    Args:
        timing: whose actions are drawn.
        fits: whether words fit into the box of an action that takes this many seconds.
    """
    spans = [span for row in timing.spans for span in row]
    several = any(len(stages_of_rank(row)) > 1 for row in timing.spans)
    chosen: dict[Action, str] = {}
    for kind in {span.action.kind for span in spans}:
        alike = [span for span in spans if span.action.kind == kind]
        for form in ("{0}", "{0.kind}{0.microbatch}", "{0.microbatch}")[0 if several else 1 :]:
            words = {span.action: form.format(span.action) for span in alike}
            if all(fits(words[span.action], span.seconds) for span in alike):
                chosen |= words
                break
    return chosen


def key_of(timings: Sequence[Timing]) -> dict[str, str]:
    """Name → color of the kinds of actions that there are."""
    found = {span.action.kind for timing in timings for spans in timing.spans for span in spans}
    return {NAMES[kind]: _COLORS[kind][0] for kind in (FORWARD, BACKWARD, INPUT, WEIGHT) if kind in found}


def stages_of_rank(spans: Sequence[ActionSpan]) -> list[int]:
    """The stages of a rank, in order."""
    return sorted({span.action.stage for span in spans})


def rows_of(timing: Timing) -> list[list[Action]]:
    """The schedule that was timed."""
    return [[span.action for span in spans] for spans in timing.spans]


def most_kept(timing: Timing) -> list[tuple[Fraction, Fraction]]:
    """By rank, the most microbatches kept whole (from F to B or I), and the most together with those kept for W.

    A microbatch of one of the rank's two stages counts one half: it takes half of the rank's layers.
    """
    schedule = rows_of(timing)
    pairs = zip(most_live(schedule), most_live(schedule, up_to_weight=True), strict=True)
    sizes = [max(1, len(stages_of_rank(spans))) for spans in timing.spans]
    return [(Fraction(whole, size), Fraction(both, size)) for (whole, both), size in zip(pairs, sizes, strict=True)]


def check_timing(timing: object) -> None:
    """Check what is to be drawn.

    Raises:
        TypeError: it is not a Timing.
        ValueError: no action ran.
    """
    if not isinstance(timing, Timing):
        raise TypeError(f"expected a Timing, as time_schedule returns it, got {type(timing).__name__}")
    if not any(timing.spans):
        raise ValueError("expected a schedule with at least one action, got an empty one")

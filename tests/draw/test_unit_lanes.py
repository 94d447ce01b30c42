"""What is computed over what is sent, unit by unit: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from distlib.draw import Picture, unit_lanes
from distlib.draw.style import BLUE, ORANGE, SKY, YELLOW
from distlib.training.ddp import Span, StepTimes
from tests.tools.draw_samples import texts

STEP = StepTimes(
    2.0,
    9.0,
    [
        Span("all-gather", "0", 2.0, 3.0),
        Span("forward", "0", 3.0, 4.0),
        Span("backward", "0", 4.0, 6.0),
        Span("reduce-scatter", "0", 6.0, 9.0),
        Span("update", "0", 9.0, 9.0),
    ],
)


def boxes(picture: Picture) -> list[tuple[str, float, float]]:
    """Color, left end and width of each box that is not hatched, from left to right; without the key."""
    drawn = [box for box in picture.figure.axes[1].patches if isinstance(box, Rectangle) and not box.get_hatch()]
    return sorted(
        ((to_hex(box.get_facecolor()).upper(), box.get_x(), box.get_width()) for box in drawn), key=lambda box: box[1]
    )


def test_a_box_for_each_span_from_the_beginning_of_the_step() -> None:
    picture = unit_lanes({"stage 3": STEP}, title="One unit")
    assert boxes(picture) == [(ORANGE, 0, 1), (SKY, 1, 1), (BLUE, 2, 2), (YELLOW, 4, 3)]
    assert {"G0", "0", "R0", "computing", "network", "stage 3", "7 s"} < set(texts(picture))


def test_where_nothing_computes_the_rank_waits() -> None:
    axes = unit_lanes({"stage 3": STEP}, title="One unit").figure.axes[1]
    waits = [(box.get_x(), box.get_width()) for box in axes.patches if isinstance(box, Rectangle) and box.get_hatch()]
    assert waits == [(0, 1), (4, 3)]


def test_it_is_said_in_words() -> None:
    alt = unit_lanes({"stage 3": STEP}, title="One unit").alt
    assert "stage 3: the step takes 7 s; computing takes 3 s, the network carries messages for 4 s" in alt
    assert "the rank waits 57 % of the step. Messages: all-gather 0, reduce-scatter 0." in alt


@pytest.mark.parametrize("steps", [{}, {"none": StepTimes(1.0, 1.0, [])}, {str(n): STEP for n in range(5)}])
def test_what_can_not_be_drawn_is_refused(steps: dict[str, StepTimes]) -> None:
    with pytest.raises(ValueError, match="expected 1 to 4 steps that take time"):
        unit_lanes(steps, title="None")

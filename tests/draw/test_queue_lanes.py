"""What the CPU calls and what the GPU computes: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from distlib.draw import Picture, queue_lanes
from distlib.draw.style import BLUE, ORANGE, SKY
from distlib.training.ddp import Span, StepTimes
from tests.tools.draw_samples import texts

STEP = StepTimes(
    1.0,
    9.0,
    [
        Span("prepares", "1", 1.0, 2.0),
        Span("calls", "1", 2.0, 2.5),
        Span("calls", "1", 2.5, 3.0),
        Span("mark", "the calls have returned", 3.0, 3.0),
        Span("computes", "1", 2.5, 5.5),
        Span("computes", "1", 5.5, 8.5),
        Span("waits", "1", 3.0, 8.5),
        Span("update", "1", 8.5, 9.0),
    ],
)


def boxes(picture: Picture, hatched: bool = False) -> list[tuple[str, float, float]]:
    """Color, left end and width of each box, from left to right; without the key."""
    drawn = [box for box in picture.figure.axes[1].patches if isinstance(box, Rectangle)]
    found = [box for box in drawn if bool(box.get_hatch()) == hatched]
    colors = [to_hex(box.get_facecolor()).upper() for box in found]
    return sorted((color, box.get_x(), box.get_width()) for color, box in zip(colors, found, strict=True))


def test_calls_and_kernels_that_touch_are_one_box_each() -> None:
    picture = queue_lanes({"read": STEP}, title="One step")
    assert boxes(picture) == sorted([(SKY, 0, 1), (ORANGE, 1, 1), (BLUE, 1.5, 6)])
    assert [(left, width) for _, left, width in boxes(picture, hatched=True)] == [(2, 5.5)]
    assert {"CPU", "GPU", "read", "1", "8 s", "the calls have returned, 2 s"} < set(texts(picture))


def test_kernels_of_two_steps_and_kernels_with_a_pause_are_boxes_of_their_own() -> None:
    spans = [Span("computes", name, start, start + 1) for name, start in (("1", 0.0), ("2", 1.0), ("2", 3.0))]
    picture = queue_lanes({"two steps": StepTimes(0.0, 4.0, spans)}, title="Two steps")
    assert boxes(picture) == [(BLUE, 0, 1), (BLUE, 1, 1), (BLUE, 3, 1)]


def test_it_is_said_in_words() -> None:
    alt = queue_lanes({"read": STEP}, title="One step").alt
    assert "read: 8 s in all. The CPU prepares for 1 s, calls for 1 s, waits for 5.5 s; the GPU computes for 6 s" in alt
    assert alt.endswith("the calls have returned: at 2 s.")


@pytest.mark.parametrize("steps", [{}, {"none": StepTimes(1.0, 1.0, [])}, {str(n): STEP for n in range(5)}])
def test_what_can_not_be_drawn_is_refused(steps: dict[str, StepTimes]) -> None:
    with pytest.raises(ValueError, match="expected 1 to 4 steps that take time"):
        queue_lanes(steps, title="None")

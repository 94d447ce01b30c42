"""Buckets over the layers of a model: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from distlib.draw import Picture, buckets_over_layers
from distlib.draw.style import color_of
from distlib.training.ddp import Span, StepTimes
from tests.tools.draw_samples import texts

BUCKETS = [["2"], ["1", "0"]]
STEP = StepTimes(
    0.0,
    10.0,
    [
        Span("forward", "0", 0.0, 3.0),
        Span("backward", "2", 3.0, 5.0),
        Span("communication", "bucket 0", 5.0, 8.0),
        Span("backward", "1", 5.0, 6.0),
        Span("backward", "loss", 6.0, 6.0),
        Span("backward", "0", 6.0, 7.5),
        Span("communication", "bucket 1", 8.0, 10.0),
    ],
)


def boxes(picture: Picture, axes: int) -> list[tuple[str, float, float]]:
    """Color, left end and width of each box, from left to right: of the model (0), and of what happens in time (1)."""
    drawn = [box for box in picture.figure.axes[axes].patches if isinstance(box, Rectangle) and not box.get_hatch()]
    found = [(to_hex(box.get_facecolor()).upper(), box.get_x(), box.get_width()) for box in drawn]
    return sorted(found, key=lambda box: box[1])


def test_a_layer_has_the_color_of_its_bucket_and_time_begins_with_the_backward_pass() -> None:
    picture = buckets_over_layers(BUCKETS, STEP, title="Three layers")
    first, second = color_of(0), color_of(1)
    assert [color for color, *_ in boxes(picture, 0)] == [second, second, first]
    in_time = [(second, 2, 1), (first, 2, 3), (second, 3, 1.5), (second, 5, 2)]
    assert sorted(boxes(picture, 1)) == sorted([(first, 0, 2), *in_time])


def test_waiting_is_hatched_from_the_end_of_the_backward_pass_on() -> None:
    axes = buckets_over_layers(BUCKETS, STEP, title="Three layers").figure.axes[1]
    waits = [(box.get_x(), box.get_width()) for box in axes.patches if isinstance(box, Rectangle) and box.get_hatch()]
    assert waits == [(4.5, 2.5)]
    no_rest = StepTimes(0.0, 7.5, [span for span in STEP.spans if span.name != "bucket 1"])
    axes = buckets_over_layers([["2", "1", "0"]], no_rest, title="One bucket").figure.axes[1]
    assert [box for box in axes.patches if box.get_hatch()] == []


def test_it_is_said_in_words() -> None:
    picture = buckets_over_layers(BUCKETS, STEP, title="Three layers")
    assert {"bucket 0", "bucket 1", "7 s"} < set(texts(picture))
    assert "Bucket 1, layers 1, 0: its all-reduce takes from 5 to 7 s." in picture.alt
    assert "The backward pass ends after 4.5 s, the last all-reduce after 7 s." in picture.alt


def test_what_can_not_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="each in one bucket"):
        buckets_over_layers([["2", "1"], ["1", "0"]], STEP, title="Twice")
    with pytest.raises(ValueError, match="1 to 16 layers"):
        buckets_over_layers([], STEP, title="None")
    with pytest.raises(ValueError, match="backward pass of 2, 1, 0, 7; 7 is not in it"):
        buckets_over_layers([["2"], ["1", "0", "7"]], STEP, title="Unknown")
    with pytest.raises(ValueError, match="expected 1 all-reduces in the step, got 2"):
        buckets_over_layers([["2", "1", "0"]], STEP, title="Too few")

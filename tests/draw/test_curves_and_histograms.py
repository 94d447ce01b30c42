"""Curves over time, and histograms: what is drawn is what was given, and words say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distlib.draw import curves, histogram
from distlib.draw.picture import Picture, wrap_words
from distlib.draw.style import BODY, drawing_style, points
from tests.tools.draw_samples import text_boxes, texts

LONG = (
    "one rank, undisturbed",
    "one device, rate 1.6",
    "a",
    "3 ranks from step 30",
    "every rank with a bound of 4 updates",
)
LINES = {"synchronous": [(0.0, 2.0), (1.0, 1.0), (2.0, 0.5)], "asynchronous": [(0.0, 2.0), (1.5, 0.1)]}
STALENESS = {"equal": [0, 3, 3, 3], "one is slower": [2, 2, 12, 2]}


def test_a_curve_goes_through_its_points() -> None:
    picture = curves(LINES, along="virtual seconds", values="loss", title="Loss")
    axes = picture.figure.axes[0]
    drawn = [list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True)) for line in axes.lines]
    assert drawn == list(LINES.values())
    assert axes.get_xlim() == (0, 2) and axes.get_yscale() == "log"
    assert (
        picture.alt
        == "Loss. Over virtual seconds. synchronous: from 2 to 0.5 at 2; asynchronous: from 2 to 0.1 at 1.5."
    )


def test_names_of_any_length_have_one_size() -> None:
    picture = curves({name: LINES["synchronous"] for name in LONG}, along="s", values="loss", title="Loss")
    names = [text for text in picture.figure.axes[1].texts if text.get_text() in " ".join(LONG)]
    assert " ".join(text.get_text() for text in names) == " ".join(LONG)
    assert {text.get_size() for text in names} == {points(BODY)}
    assert all(box.x1 <= 1 for box in text_boxes(picture).values())


def test_names_of_a_histogram_have_one_size() -> None:
    picture = histogram({name: [0, 1, 1] for name in LONG}, along="staleness", title="Found")
    assert {text.get_size() for axes in picture.figure.axes for text in axes.texts} == {points(BODY)}


def test_words_are_wrapped_into_few_lines_of_like_length() -> None:
    with drawing_style():
        assert wrap_words("one device, rate 1.6", BODY, 114) == ["one device,", "rate 1.6"]
        assert wrap_words("one device, rate 1.6", BODY, 900) == ["one device, rate 1.6"]
        assert wrap_words("Unbreakable-as-a-word is", BODY, 80) == ["Unbreakable-as-a-word", "is"]


def test_steps_are_whole_and_a_narrow_range_has_ticks() -> None:
    steps = {"a": [(step, 2.3 - 0.03 * step) for step in range(20)]}
    axes = curves(steps, along="steps", values="loss", title="Loss").figure.axes[0]
    places = [float(place) for place in axes.get_xticks()]
    assert len(places) >= 4 and all(place.is_integer() for place in places)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1.2", "1.5", "2", "2.5", "3"]


@pytest.mark.parametrize(
    "wrong", [{}, {"a": [(0, 1.0)]}, {"a": [(1, 1.0), (0, 1.0)]}, {"a": [(0, 0.0), (1, 1.0)]}, {"a": [(-1, 1), (1, 1)]}]
)
def test_curves_that_cannot_be_drawn(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        curves(wrong, along="s", values="loss", title="Loss")


def test_a_bar_is_a_share() -> None:
    picture = histogram(STALENESS, along="staleness", title="Found")
    panels = [axes for axes in picture.figure.axes if axes.patches]
    bars = [{bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in axes.patches} for axes in panels]
    assert bars == [{0.0: 0.25, 3.0: 0.75}, {2.0: 0.75, 12.0: 0.25}]
    assert "mean 2.25" in texts(picture) and "mean 4.50" in texts(picture)
    assert "one is slower: from 2 to 12, on average 4.50, most often 2 (75%)" in picture.alt


@pytest.mark.parametrize("wrong", [{}, {"a": []}, {"a": [-1]}, {str(number): [1] for number in range(7)}])
def test_histograms_that_cannot_be_drawn(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected 1 to 6 ways"):
        histogram(wrong, along="staleness", title="Found")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: curves(LINES, along="s", values="loss", title="Loss"),
        lambda: curves({name: LINES["synchronous"] for name in LONG}, along="s", values="loss", title="Loss"),
        lambda: histogram(STALENESS, along="staleness", title="Found"),
        lambda: histogram({name: [0, 1] for name in LONG}, along="staleness", title="Found"),
    ],
)
def test_no_text_lies_on_another(draw: Callable[[], Picture]) -> None:
    boxes = list(text_boxes(draw()).values())
    for index, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[index + 1 :])

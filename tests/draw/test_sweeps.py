"""Experiments over a varied number: medians where they belong, a dot for each run, every value in words."""

from typing import Any

import pytest

from distlib.draw import sweep
from distlib.draw.style import format_seconds
from tests.tools.draw_samples import text_boxes, texts

SHARES = {"fixed": {1: [0.9, 1.0, 0.97], 4: [0.5, 0.7, 0.7], 16: [0.2, 0.2]}, "scaled": {4: [0.9, 0.8]}}


def test_the_line_joins_the_medians_and_each_run_has_a_dot() -> None:
    axes = sweep(SHARES, along="workers", title="Right", percent=True).figure.axes[0]
    dots, first, _, second = axes.lines
    assert list(first.get_xdata()) == [1, 4, 16] and list(first.get_ydata()) == pytest.approx([0.97, 0.7, 0.2])
    assert list(second.get_xdata()) == [4]
    assert sorted(zip(dots.get_xdata(), dots.get_ydata(), strict=True)) == [
        (1, 0.9), (1, 0.97), (1, 1.0), (4, 0.5), (4, 0.7), (4, 0.7), (16, 0.2), (16, 0.2),
    ]  # fmt: skip
    assert axes.get_ylim() == (0, 1)


def test_each_way_is_named_at_the_height_where_it_ends() -> None:
    picture = sweep({"low": {1: 1.0, 2: 1.0}, "high": {1: 9.0, 2: 100.0}}, along="workers", title="Two")
    boxes = {name.partition(": ")[2]: box for name, box in text_boxes(picture).items()}
    for name, tick in (("low", "1"), ("high", "100")):
        middle = (boxes[name].y0 + boxes[name].y1) / 2
        assert any(
            abs(middle - (box.y0 + box.y1) / 2) < 0.02
            for text, box in text_boxes(picture).items()
            if text.endswith(f": {tick}")
        )


def test_the_words_say_every_number() -> None:
    picture = sweep(SHARES, along="workers", title="Right", percent=True)
    assert picture.alt == (
        "Right. Over workers. fixed: 1 97% (90% to 100%); 4 70% (50% to 70%); 16 20% (20% to 20%). "
        "scaled: 4 85% (80% to 90%)."
    )
    assert "line: median of 3 runs, dots: the runs" in texts(picture)


def test_single_values_on_a_logarithmic_axis() -> None:
    picture = sweep(
        {"ring": {1: 1e-3, 8: 2e-3}}, along="ranks", title="Time", subtitle="of a step", show=format_seconds
    )
    assert picture.alt == "Time. Over ranks. ring: 1 1 ms; 8 2 ms."
    assert {"1 ms", "2 ms", "of a step"} <= set(texts(picture))


def test_seven_ways_are_drawn_with_all_words_inside_and_apart() -> None:
    numbers = [1, 2, 4, 8, 16, 32, 48, 96]
    boxes = list(
        text_boxes(
            sweep(
                {f"a way with a long name {way}": dict.fromkeys(numbers, [0.5, 0.6]) for way in range(7)},
                along="number of workers", title="Seven ways at the same place", percent=True,
            )
        ).values()
    )  # fmt: skip
    for box in boxes:
        assert -0.001 <= box.x0 and box.x1 <= 1.001 and -0.001 <= box.y0 and box.y1 <= 1.001
    assert [(one, other) for i, one in enumerate(boxes) for other in boxes[:i] if one.overlaps(other)] == []


@pytest.mark.parametrize(
    ("given", "percent", "said"),
    [
        ({}, True, "1 to 7 ways and at least 2 different numbers, got 0 and 0"),
        ({str(way): {1: 0.5, 2: 0.5} for way in range(8)}, True, "got 8 and 2"),
        ({"one": {4: 0.5}}, True, "got 1 and 1: a line needs two points"),
        ({"one": {}}, True, "expected results for 'one', got none"),
        ({"one": {1: 0.5, 2: [1.5]}}, True, r"from 0 to 1 for 'one' at 2, got \[1.5\]"),
        ({"one": {1: 0.5, 2: 0.0}}, False, r"above 0 for 'one' at 2, got \[0.0\]"),
        ({"one": {1: 0.5, 2: []}}, False, r"above 0 for 'one' at 2, got \[\]"),
        ({"one": {0: 0.5, 1: 0.25}}, False, "expected numbers above 0, .* got 0: leave it out"),
    ],
)
def test_what_can_not_be_drawn_is_one_clear_error(given: Any, percent: bool, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sweep(given, along="workers", title="Nothing", percent=percent)

"""Experiments over two varied numbers: every value in its cell and in words, lines where they belong."""

from typing import Any

import pytest
from matplotlib.patches import Rectangle

from distlib.draw import heat_map
from distlib.draw.style import LIGHT_PAPER, contrast
from tests.tools.draw_samples import text_boxes, texts

VALUES = {1: {0.1: 0.96, 0.4: 0.97, 1.6: 0.30}, 16: {0.1: 0.79, 0.4: 0.94, 1.6: 0.96}}
WORDS: dict[str, Any] = {"across": "rate", "down": "workers", "title": "Right", "show": "{:.0%}".format}


def test_each_value_stands_in_its_cell_and_larger_ones_are_darker() -> None:
    axes = heat_map(VALUES, **WORDS).figure.axes[0]
    cells = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    written = {(text.get_position()): text.get_text() for text in axes.texts}
    assert written[0, 0] == "96%" and written[2, 0] == "30%" and written[1, 1] == "94%"
    darkness = {
        written[round(cell.get_x() + 0.48), round(cell.get_y() + 0.46)]: contrast(_hex(cell), LIGHT_PAPER)
        for cell in cells
    }
    order = sorted(darkness, key=lambda words: darkness[words])
    assert order == ["30%", "79%", "94%", "96%", "97%"]


def _hex(cell: Rectangle) -> str:
    red, green, blue, _ = (round(255 * part) for part in cell.get_facecolor())
    return f"#{red:02X}{green:02X}{blue:02X}"


def test_the_text_of_every_cell_can_be_read() -> None:
    shades = {row: {column: row + column for column in range(1, 30)} for row in (1, 40, 80)}
    axes = heat_map(shades, **WORDS | {"show": str}).figure.axes[0]
    for cell, text in zip(axes.patches, axes.texts, strict=True):
        assert isinstance(cell, Rectangle) and contrast(_hex(cell), str(text.get_color())) > 4


def test_lines_stand_between_columns_by_their_logarithm_and_end_at_the_last() -> None:
    picture = heat_map(VALUES, **WORDS, lines={"a rule": {1: 0.1, 16: 0.8}, "another": {1: 1.6, 16: 3.2}})
    assert picture.alt.endswith(" a rule: 0.1 at 1, 0.8 at 16. another: 1.6 at 1, 3.2 at 16.")
    lines = picture.figure.axes[0].lines
    assert {tuple(round(float(x), 6) for x in line.get_xdata()) for line in lines} == {(0.0, 1.5), (2.0,)}
    assert {"a rule", "another"} <= set(texts(picture))


def test_the_words_say_every_number() -> None:
    assert heat_map(VALUES, **WORDS).alt == (
        "Right. workers down, rate across (0.1, 0.4, 1.6). 1: 96%, 97%, 30%; 16: 79%, 94%, 96%."
    )


def test_all_words_are_inside_and_apart() -> None:
    rates = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8]
    many = {workers: {rate: 0.9 for rate in rates} for workers in [1, 2, 4, 8, 16, 32, 48, 96]}
    picture = heat_map(
        many, **WORDS, subtitle="medians of 5 seeds", lines={"linear rule": {1: 0.1, 96: 9.6}, "noise": {1: 0.2}}
    )
    boxes = list(text_boxes(picture).values())
    for box in boxes:
        assert -0.001 <= box.x0 and box.x1 <= 1.001 and -0.001 <= box.y0 and box.y1 <= 1.001
    assert [(one, other) for i, one in enumerate(boxes) for other in boxes[:i] if one.overlaps(other)] == []


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, {}),
        ({1: {2: 1.0}}, {}),
        ({1: {1: 1.0, 2: 1.0}, 2: {1: 1.0}}, {}),
        (VALUES, dict.fromkeys("abcd", {1: 0.1})),
    ],
)
def test_what_can_not_be_drawn_is_one_clear_error(given: Any, lines: Any) -> None:
    with pytest.raises(ValueError, match="expected rows with the same columns, at least 2, and at most 3 lines"):
        heat_map(given, **WORDS, lines=lines)

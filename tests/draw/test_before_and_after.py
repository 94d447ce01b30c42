"""The picture of what ranks have before and after a collective: its tiles, its words, what is refused."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from distlib.draw import before_and_after
from distlib.draw.style import color_of
from tests.tools.draw_samples import texts

ROWS = ([[1.0], [2.0], [3.0]], [[6.0], [], []])


def test_a_number_has_a_tile_wherever_it_is_and_the_same_color() -> None:
    picture = before_and_after({"scatter": ([[4, 5], []], [[4], [5]])}, title="Two")
    tiles = picture.figure.axes[0].patches
    colors = [to_hex(tile.get_facecolor()) for tile in tiles if tile.get_width() > 20]
    assert len(colors) == 4 and colors == [colors[0], colors[1]] * 2
    assert picture.alt == "Two. scatter: from rank 0 with 4, 5; rank 1 with nothing to rank 0 with 4; rank 1 with 5."


def test_a_sum_has_a_color_of_its_own() -> None:
    picture = before_and_after({"reduce": ROWS}, title="A sum")
    assert "6" in texts(picture)
    tiles = [tile for tile in picture.figure.axes[0].patches if tile.get_width() > 20]
    assert len({to_hex(tile.get_facecolor()) for tile in tiles}) == 4


def test_colors_may_be_chosen() -> None:
    picture = before_and_after({"reduce": ROWS}, title="A sum", colors={1.0: 3, 2.0: 3, 3.0: 3, 6.0: 0})
    tiles = [tile for tile in picture.figure.axes[0].patches if tile.get_width() > 20]
    assert [to_hex(tile.get_facecolor()).upper() for tile in tiles] == [color_of(3), color_of(0), *[color_of(3)] * 2]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 4 collectives, got 0"):
        before_and_after({}, title="Nothing")
    with pytest.raises(ValueError, match="reduce: expected as many ranks after as before"):
        before_and_after({"reduce": ([[1.0]], [[1.0], []])}, title="Other ranks")
    with pytest.raises(ValueError, match="at most 5 numbers"):
        before_and_after({"gather": ([[1.0] * 6], [[1.0]])}, title="Too many")

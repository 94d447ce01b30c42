"""Pictures of a mesh: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from distlib.draw import Picture, mesh_cube, mesh_on_nodes
from distlib.draw.style import BLUE, VERMILLION
from tests.tools.draw_samples import texts

CUBE = {"dp": 2, "pp": 2, "tp": 2}
ORDERS = {"tp inside": {"dp": 3, "tp": 4}, "tp across": {"tp": 4, "dp": 3}}


def lines(picture: Picture) -> list[tuple[str, float, float, float]]:
    """Color, width, and how far it goes to the right and down, of each line between two ranks."""
    found = []
    for line in picture.figure.axes[0].lines:
        spots = [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]
        if len(spots) == 2 and line.get_linestyle() != "None":
            (left, top), (right, bottom) = spots
            found.append((to_hex(line.get_color()).upper(), line.get_linewidth(), right - left, bottom - top))
    return found


def test_a_cube_has_a_line_for_each_pair_and_each_rank_once() -> None:
    picture = mesh_cube(CUBE, title="Eight ranks")
    assert [word for word in texts(picture) if word in "01234567"] == list("01234567")
    drawn = [color for color, *_ in lines(picture)]
    assert len(drawn) == 12 + 3  # and one for each axis in the key
    assert "Along tp: 0 and 1, 2 and 3, 4 and 5, 6 and 7." in picture.alt
    assert "Along dp: 0 and 4, 1 and 5, 2 and 6, 3 and 7." in picture.alt


def test_in_a_cube_the_last_axis_goes_to_the_right_whatever_its_name() -> None:
    for sizes in (CUBE, {"tp": 2, "pp": 2, "dp": 2}):
        level = [color for color, _, _, down in lines(mesh_cube(sizes, title="Eight")) if down == 0]
        assert level.count(VERMILLION if next(reversed(sizes)) == "tp" else BLUE) == 4 + 1


def test_the_groups_of_the_last_axis_are_inside_the_nodes() -> None:
    picture = mesh_on_nodes(ORDERS, 4, title="Two orders", thick="tp")
    assert "tp inside: groups of dp across nodes, groups of tp inside a node." in picture.alt
    # tp crosses where it comes first; groups of 3 do not fit evenly into nodes of 4, so one of dp crosses, too
    assert "tp across: groups of tp across nodes, groups of dp across nodes." in picture.alt
    thick = max(width for _, width, *_ in lines(picture))
    assert {color for color, width, *_ in lines(picture) if width == thick} == {VERMILLION}


def test_an_axis_has_its_color_whichever_others_there_are() -> None:
    for sizes in (CUBE, {"pp": 2, "tp": 2}, {"tp": 2}, {"cp": 2, "tp": 2}):
        drawn = {color for color, *_ in lines(mesh_cube(sizes, title="Mesh"))}
        assert VERMILLION in drawn and len(drawn) == len(sizes)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 3 axes with at most 4 ranks"):
        mesh_cube({"dp": 5}, title="Five")
    with pytest.raises(ValueError, match="the same two axes"):
        mesh_on_nodes({"one": {"dp": 2, "tp": 2}, "other": {"dp": 2, "tp": 4}}, 2, title="Unequal")
    with pytest.raises(ValueError, match="full nodes of at most 8 ranks.*nodes of 3"):
        mesh_on_nodes({"one": {"dp": 2, "tp": 2}}, 3, title="Left over")
    with pytest.raises(ValueError, match="got nothing"):
        mesh_on_nodes({}, 2, title="Nothing")

"""Which device holds which piece: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest

from distlib.draw import HeldPieces, placements
from distlib.draw.charts.placements import pieces
from tests.tools.draw_samples import cut_array, texts


def test_pieces_are_where_the_shards_say() -> None:
    assert pieces(cut_array((4, 6), 2)) == {((0, 2), (0, 6)): [0], ((2, 4), (0, 6)): [1]}
    assert pieces(cut_array((4, 6), 2, axis=1)) == {((0, 4), (0, 3)): [0], ((0, 4), (3, 6)): [1]}
    assert pieces(cut_array((6,), 1, copies=3)) == {((0, 1), (0, 6)): [0, 1, 2]}
    assert pieces(cut_array((6,), 2, copies=2)) == {((0, 1), (0, 3)): [0, 1], ((0, 1), (3, 6)): [2, 3]}


def test_the_picture_names_devices_and_bytes() -> None:
    ways = {"cut": {"W": cut_array((8, 4), 4)}, "copied": {"W": cut_array((8, 4), 1, copies=4)}}
    picture = placements(ways, title="Two ways")
    found = texts(picture)
    assert {"Two ways", "W", "8 × 4", "cut", "copied", "device 0: 32 B", "device 0: 128 B", "0–3"} <= set(found)
    assert [word for word in found if word in "0123"] == ["0", "1", "2", "3"]
    assert "cut (device 0: 32 B): W in 4 pieces of 2 × 4, on device 0, then device 1" in picture.alt
    assert "copied (device 0: 128 B): W whole on devices 0–3." in picture.alt


def test_pieces_that_ranks_hold() -> None:
    whole = slice(None)
    cut = HeldPieces((4, 6), [(whole, slice(0, 3)), (whole, slice(3, 6))])
    assert pieces(cut) == {((0, 4), (0, 3)): [0], ((0, 4), (3, 6)): [1]}
    picture = placements({"by columns": {"W": cut}}, title="W", holder="rank")
    assert "by columns (rank 0: 96 B): W in 2 pieces of 4 × 3, on rank 0, then rank 1." in picture.alt
    assert not any("device" in text for text in texts(picture))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 6 arrays of 1 or 2 dimensions"):
        placements({}, title="Nothing")
    with pytest.raises(ValueError, match="1 to 6 arrays of 1 or 2 dimensions"):
        placements({"cut": {"W": cut_array((2, 2, 2), 2)}}, title="A cube")
    with pytest.raises(ValueError, match="the same arrays in all ways, .* for 'other'"):
        placements({"one": {"W": cut_array((4,), 2)}, "other": {"W": cut_array((6,), 2)}}, title="Two shapes")

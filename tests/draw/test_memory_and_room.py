"""What is kept above the memory that there is: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest

from distlib.draw import memory_and_room
from tests.tools.draw_samples import texts

PIECES = {"weights": 28e9, "gradients": 28e9, "averages": 56e9}


def test_both_bars_have_their_names_and_sums_in_units_of_a_thousand() -> None:
    picture = memory_and_room(PIECES, {"one GPU": 80e9}, title="Too much", subtitle="for one")
    found = texts(picture)
    assert {"Too much", "for one", "needed", "one GPU", "weights", "112 GB", "80 GB", "56 GB"} <= set(found)
    assert found.count("28 GB") == 2
    assert picture.alt == (
        "Too much. Needed: 112 GB, of it weights 28 GB, gradients 28 GB, averages 56 GB. one GPU: 80 GB."
    )


@pytest.mark.parametrize("room", [10e9, 80e9, 500e9])
def test_both_bars_are_on_one_scale(room: float) -> None:
    (axes,) = memory_and_room(PIECES, {"one GPU": room}, title="Memory").figure.axes
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert ends == [28e9, 56e9, 112e9, room]
    assert axes.get_xlim() == (0, max(112e9, room))


@pytest.mark.parametrize(
    ("pieces", "room", "words"),
    [
        ({}, {"a": 1.0}, "expected 1 to 6 pieces and one room, got 0 and 1"),
        (PIECES, {}, "got 3 and 0"),
        ({"weights": 0.0}, {"a": 1.0}, "weights: expected bytes above 0, got 0.0"),
        (PIECES, {"a": -1.0}, "a: expected bytes above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(pieces: dict[str, float], room: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        memory_and_room(pieces, room, title="Memory")

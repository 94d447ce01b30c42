"""The picture of who sends to whom: its arrows, its discs, its words, what is refused."""

from __future__ import annotations

import pytest
from matplotlib.patches import Circle, FancyArrowPatch

from distlib.draw import Picture, who_sends
from distlib.trace import Trace
from tests.tools.draw_samples import master_trace, ring_trace, texts

MASTER, RING = master_trace(5), ring_trace(5)


def discs(picture: Picture) -> list[float]:
    return [patch.radius for patch in picture.figure.axes[0].patches if isinstance(patch, Circle)]


def arrows(picture: Picture) -> list[FancyArrowPatch]:
    return [patch for patch in picture.figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]


def test_there_is_an_arrow_for_each_pair_and_a_disc_for_each_rank() -> None:
    picture = who_sends({"master": MASTER, "ring": RING}, title="Two ways")
    assert len(arrows(picture)) == 8 + 5 and len(discs(picture)) == 10
    assert "busiest rank sends 4 KiB" in texts(picture) and "busiest rank sends 2 KiB" in texts(picture)


def test_a_disc_has_an_area_of_what_the_rank_sends() -> None:
    master, *others = discs(who_sends({"master": MASTER}, title="Star"))
    assert [round(master**2 / radius**2) for radius in others] == [4] * 4
    assert len(set(discs(who_sends({"ring": RING}, title="Circle")))) == 1


def test_several_messages_of_a_pair_are_one_arrow_and_are_told_in_words() -> None:
    picture = who_sends({"a ring": RING}, title="Circle")
    assert len(arrows(picture)) == 5 < len(RING.messages)
    assert picture.alt.startswith("Circle. A ring: rank 0 sends 2 KiB to rank 1; rank 1 sends 2 KiB to rank 2; ")
    words = who_sends({"master": MASTER}, title="Star").alt
    assert "Master: rank 0 sends 1 KiB to each of ranks 1, 2, 3, 4; rank 1 sends 1 KiB to rank 0; " in words


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 3 runs, got 0"):
        who_sends({}, title="Nothing")
    with pytest.raises(ValueError, match="2 to 12 ranks that send messages, got 13 ranks"):
        who_sends({"ring": ring_trace(13)}, title="Too many")
    with pytest.raises(ValueError, match="got 4 ranks and 0 messages for 'quiet'"):
        who_sends({"quiet": Trace(4, [], 1.0)}, title="Nobody sends")
    with pytest.raises(TypeError, match="expected a Trace for 'ring'"):
        who_sends({"ring": [1, 2]}, title="No run")  # type: ignore[dict-item]

"""The pictures of a launch: where processes try to meet, who listens there, which rank is on which machine."""

from __future__ import annotations

import pytest

from distlib.draw import meeting_places, ranks_on_nodes
from tests.tools.draw_samples import texts


def variables(rank: int, port: int, world_size: int = 2, address: str = "127.0.0.1", **more: str) -> dict[str, str]:
    numbers = {"RANK": str(rank), "WORLD_SIZE": str(world_size), "MASTER_PORT": str(port)}
    return {**numbers, "MASTER_ADDR": address, **more}


def boxes(picture: object) -> dict[str, bool]:
    """Whether the box of a place is full, by the words in it: boxes and arrows are drawn in this order."""
    canvas = picture.figure.axes[0]  # type: ignore[attr-defined]
    full = [patch.get_linestyle() == "-" for patch in canvas.patches if not hasattr(patch, "get_arrowstyle")]
    places = [text.get_text() for text in canvas.texts if ":" in text.get_text()[1:]]
    return dict(zip([place for place in places if place.rpartition(":")[2].isdecimal()], full, strict=True))


def test_a_place_is_full_where_a_rank_0_listens_on_its_own_machine() -> None:
    right = [(variables(0, 1), "fine"), (variables(1, 1), "fine")]
    apart = [(variables(0, 2), "waits"), (variables(1, 3), "waits")]
    gone = [(variables(rank, 4, address="192.0.2.11"), "waits") for rank in (0, 1)]
    picture = meeting_places({"right": right, "apart": apart, "gone": gone}, title="Three")
    assert boxes(picture) == {"127.0.0.1:1": True, "127.0.0.1:2": True, "127.0.0.1:3": False, "192.0.2.11:4": False}
    assert "rank 1 of 2 goes to 127.0.0.1:3, where nobody listens; waits." in picture.alt
    assert "right: rank 0 of 2 goes to 127.0.0.1:1; fine." in picture.alt


def test_slurm_says_on_which_machine_a_rank_is() -> None:
    jobs = {
        day: [(variables(r, 1, address="node07", SLURMD_NODENAME=node), node) for r, node in enumerate(nodes)]
        for day, nodes in {"Monday": ("node07", "node12"), "Tuesday": ("node12", "node13")}.items()
    }
    assert boxes(meeting_places({"a day": jobs["Monday"]}, title="Jobs")) == {"node07:1": True}
    assert boxes(meeting_places({"a day": jobs["Tuesday"]}, title="Jobs")) == {"node07:1": False}


def test_each_process_has_an_arrow() -> None:
    picture = meeting_places({"three": [(variables(rank, 1, 3), "fine") for rank in range(3)]}, title="Three")
    arrows = [patch for patch in picture.figure.axes[0].patches if hasattr(patch, "get_arrowstyle")]
    assert len(arrows) == 3 and texts(picture).count("of 3") == 3


def test_ranks_are_on_the_machine_that_their_variables_name() -> None:
    launched = [variables(r, 9, 4, LOCAL_RANK=str(r % 2), GROUP_RANK=str(r // 2)) for r in (3, 1, 2, 0)]
    picture = ranks_on_nodes(launched, title="Four", nodes=["node07"])
    assert "On node07: rank 0 with LOCAL_RANK 0, rank 1 with LOCAL_RANK 1." in picture.alt
    assert "On node 1: rank 2 with LOCAL_RANK 0, rank 3 with LOCAL_RANK 1." in picture.alt
    assert picture.alt.endswith("All 4 ranks meet at 127.0.0.1:9.")
    assert texts(picture).count("127.0.0.1:9") == 1


def test_what_can_not_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 16 processes"):
        meeting_places({}, title="Nothing")
    with pytest.raises(ValueError, match="got none for MASTER_PORT"):
        meeting_places({"x": [({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a"}, "")]}, title="No port")
    with pytest.raises(ValueError, match="got 0 on 0"):
        ranks_on_nodes([], title="Nothing")

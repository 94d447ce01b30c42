"""Which shard each rank keeps: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from distlib.draw import Picture, kept_shards
from distlib.draw.style import BLUE, SKY
from distlib.training.zero import memory_by_stage
from tests.tools.draw_samples import texts

WHOLE = {"weights": 100.0, "states": 300.0}
SHARDED = {"weights": 100.0, "states": 150.0}


def filled(picture: Picture, color: str) -> list[tuple[float, float]]:
    """Upper end and height of each area of this color that is no key, from left to right."""
    drawn = [box for box in picture.figure.axes[0].patches if isinstance(box, Rectangle) and box.get_y() > 50]
    found = [box for box in drawn if to_hex(box.get_facecolor(), keep_alpha=True).upper() == f"{color}FF"]
    return [(round(box.get_y(), 3), round(box.get_height(), 3)) for box in sorted(found, key=lambda box: box.get_x())]


def test_what_is_whole_is_whole_on_each_rank_and_shards_follow_each_other() -> None:
    picture = kept_shards({"DDP": WHOLE, "stage 1": SHARDED}, 2, title="Two ranks")
    weights, states = filled(picture, BLUE), filled(picture, SKY)
    assert len(set(weights)) == 1 and len(weights) == 4
    top, high = states[0]
    assert states == [(top, high), (top, high), (top, high / 2), (top + high / 2, high / 2)]
    assert high == 3 * weights[0][1]


def test_it_is_said_in_words() -> None:
    picture = kept_shards({"DDP": WHOLE, "stage 1": SHARDED}, 2, title="Two ranks")
    assert "DDP: 400 B on each rank, all weights, states." in picture.alt
    assert "stage 1: 250 B on each rank, all weights, and its own shard of the states." in picture.alt
    assert "250 B on each rank" in texts(picture)


def test_the_stages_of_zero_can_be_drawn() -> None:
    by_stage = {f"stage {stage}": kinds for stage, kinds in enumerate(memory_by_stage(1000, 3))}
    assert "stage 3: " in kept_shards(by_stage, 3, title="Three ranks").alt


@pytest.mark.parametrize(
    ("panels", "ranks"),
    [
        ({}, 2),
        ({"DDP": WHOLE}, 1),
        ({"DDP": WHOLE, "half": {"weights": 100.0}}, 2),
        ({"DDP": WHOLE, "odd": {"weights": 100.0, "states": 200.0}}, 2),
        ({str(number): WHOLE for number in range(5)}, 2),
    ],
)
def test_what_can_not_be_drawn_is_refused(panels: dict[str, dict[str, float]], ranks: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        kept_shards(panels, ranks, title="Nothing")

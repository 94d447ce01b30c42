"""The pictures of experts: which rank's tokens go where, and who waits for the busiest rank."""

from __future__ import annotations

import pytest

from distlib.draw import ExpertLayer, expert_lanes, token_routes
from tests.tools.draw_samples import texts

UNEVEN = [[3, 1], [2, 0]]


def test_a_band_for_each_pair_that_exchanges_tokens() -> None:
    picture = token_routes({"uneven": UNEVEN, "even": [[1, 1], [1, 1]]}, title="Routes")
    bands = [patch for patch in picture.figure.axes[0].patches if patch.get_alpha()]
    assert len(bands) == 3 + 4
    assert "rank 0: 5" in texts(picture) and "rank 1: 1" in texts(picture)
    assert "uneven: rank 0 sends 3, 1 rows to ranks 0 to 1; rank 1 sends 2, 0" in picture.alt
    assert "the experts of ranks 0 to 1 get 5, 1" in picture.alt


@pytest.mark.parametrize(
    "panels", [{}, {"one": [[1]]}, {"short": [[1, 1], [1]]}, {"none": [[0, 0], [0, 0]]}, {"below": [[1, -1], [1, 1]]}]
)
def test_rows_that_cannot_be_drawn_are_refused(panels: dict[str, list[list[int]]]) -> None:
    with pytest.raises(ValueError, match="expected"):
        token_routes(panels, title="Routes")


def test_a_rank_waits_for_the_busiest() -> None:
    picture = expert_lanes({"uneven": ExpertLayer([(0.001, 0.005), (0.001, 0.002)], 0.006)}, title="A layer")
    assert "rank 0 computes 4 ms and waits 0 ns; rank 1 computes 1 ms and waits 3 ms" in picture.alt
    assert "all is done after 6 ms" in picture.alt
    assert [text for text in texts(picture) if text.startswith("rank")] == ["rank 0", "rank 1"]


@pytest.mark.parametrize("layers", [{}, {"empty": ExpertLayer([], 1.0)}])
def test_layers_that_cannot_be_drawn_are_refused(layers: dict[str, ExpertLayer]) -> None:
    with pytest.raises(ValueError, match="1 to 4 layers"):
        expert_lanes(layers, title="A layer")

"""The picture of stages on their ranks: its boxes, its arrows, its words, what is refused."""

from __future__ import annotations

import pytest
from matplotlib.text import Annotation

from distlib.draw import Picture, stages_on_ranks
from tests.tools.draw_samples import texts


def arrows(picture: Picture) -> int:
    """How many heads there are, those of the key left out."""
    return sum(isinstance(text, Annotation) for text in picture.figure.axes[0].texts) - 2


def test_each_stage_is_on_its_rank_with_its_layers() -> None:
    picture = stages_on_ranks([[0], [1], [2]], {0: "layers 0 to 3", 2: "layers 6 and 7"}, title="Three")
    assert {"rank 0", "rank 2", "stage 1", "layers 0 to 3", "layers 6 and 7"} <= set(texts(picture))
    assert picture.alt.startswith("Three. Rank 0 has stage 0 (layers 0 to 3). Rank 1 has stage 1.")
    assert "2 boundaries are between two ranks" in picture.alt


def test_between_two_stages_an_arrow_goes_there_and_one_back() -> None:
    for stages in ([[0], [1], [2], [3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]]):
        assert arrows(stages_on_ranks(stages, title="Four stages")) == 2 * 3


def test_a_boundary_inside_a_rank_is_none() -> None:
    assert "3 boundaries are" in stages_on_ranks([[0, 2], [1, 3]], title="Around").alt
    assert "2 boundaries are" in stages_on_ranks([[0, 3], [1, 2]], title="A V").alt


def test_what_is_no_pipeline_is_refused() -> None:
    with pytest.raises(ValueError, match="2 to 8 ranks with 1 to 3 stages"):
        stages_on_ranks([[0]], title="Alone")
    with pytest.raises(ValueError, match="2 to 8 ranks with 1 to 3 stages"):
        stages_on_ranks([[0], []], title="Idle")
    with pytest.raises(ValueError, match="each stage from 0 on once"):
        stages_on_ranks([[0], [2]], title="A gap")

"""A linear layer cut in two ways, and two layers in a row: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from distlib.draw import Picture, cut_pair, matrix_cuts
from distlib.draw.style import color_of
from tests.tools.draw_samples import text_boxes, texts

Layer = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
X = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
W = torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 3.0]])  # y = (7, 14)


def columns(ranks: int = 2) -> list[Layer]:
    return [(X, weight, X @ weight.T) for weight in W.chunk(ranks)]


def rows(ranks: int = 2) -> list[Layer]:
    pairs = zip(X.chunk(ranks, dim=1), W.chunk(ranks, dim=1), strict=True)
    return [(x, weight, x @ weight.T) for x, weight in pairs]


def held(picture: Picture) -> list[str]:
    """Of each number, from left to right and from top to bottom: the rank that alone holds it, or "all"."""
    boxes = [box for box in picture.figure.axes[0].patches if isinstance(box, Rectangle)]
    names = {color_of(rank): str(rank) for rank in range(4)}
    colors = [to_hex(box.get_facecolor()).upper() if box.get_facecolor()[3] else "all" for box in boxes]
    return [names.get(color, color) for color in colors]


def test_by_columns_every_rank_has_x_and_a_column_of_the_outputs() -> None:
    picture = matrix_cuts({"by columns": columns()}, title="Cut")
    assert held(picture) == ["all"] * 4 + ["0", "1"] * 4 + ["0", "1"]
    assert {"x", "Wᵀ", "y", "1 × 4", "4 × 2", "1 × 2", "nothing is sent", "7", "14"} <= set(texts(picture))
    assert "all-reduce" not in texts(picture) and not any("rounded" in words for words in texts(picture))
    assert "Wᵀ, 4 × 2, is cut by columns: rank 0 holds column 0, rank 1 holds column 1." in picture.alt
    assert "So is y, 1 × 2, which is (7, 14). Nothing is sent." in picture.alt


def test_by_rows_every_rank_has_a_term_and_they_are_added_up() -> None:
    picture = matrix_cuts({"by rows": rows()}, title="Cut")
    assert held(picture) == ["0", "0", "1", "1"] + ["0"] * 4 + ["1"] * 4 + ["0", "0", "1", "1"] + ["all"] * 2
    assert {"terms of y", "2 of 1 × 2", "+", "all-reduce", "of 1 × 2"} <= set(texts(picture))
    assert "Wᵀ, 4 × 2, is cut by rows: rank 0 holds rows 0 to 1, rank 1 holds rows 2 to 3." in picture.alt
    assert "rank 0 (1, 2); rank 1 (6, 12)" in picture.alt
    assert "gives every rank their sum, y, which is (7, 14)." in picture.alt


def test_a_pair_keeps_what_is_between_and_sends_once() -> None:
    down = torch.tensor([[1.0, 1.0], [2.0, 0.5]])
    pairs = zip(columns(), down.chunk(2, dim=1), strict=True)
    by_rank = [(x, up, y.relu(), part, y.relu() @ part.T) for (x, up, y), part in pairs]
    picture = cut_pair(by_rank, title="A pair", between="ReLU")
    whole = [texts(picture).count(word) for word in ("all-reduce", "ReLU", "Wᵀ, up", "Wᵀ, down", "hidden", "terms")]
    assert whole == [1] * 6
    assert held(picture)[4:] == ["0", "1"] * 5 + ["0", "0", "1", "1"] * 2 + ["all"] * 2
    assert "The hidden features, 1 × 2, stay where they are, and nothing is sent." in picture.alt
    assert "their sum, y, which is (21, 21)." in picture.alt


def test_numbers_of_ranks_are_next_to_what_they_hold() -> None:
    found = text_boxes(matrix_cuts({"by rows": rows()}, title="Cut"))
    boxes = list(found.values())
    overlapping = [(a, b) for a in range(len(boxes)) for b in range(a) if boxes[a].overlaps(boxes[b])]
    assert overlapping == []


def test_what_can_not_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 way"):
        matrix_cuts({}, title="Nothing")
    with pytest.raises(ValueError, match="by rows: expected 2 to 4 ranks, got 1"):
        matrix_cuts({"by rows": rows(1)}, title="Alone")
    wrong = [(x, weight, y + 1) for x, weight, y in rows()]
    with pytest.raises(ValueError, match="expected y = x Wᵀ on rank 0"):
        matrix_cuts({"by rows": wrong}, title="With a bias")
    tenths = [(0.33 * x, weight, 0.33 * y) for x, weight, y in columns()]
    assert any("rounded to one decimal" in words for words in texts(matrix_cuts({"thirds": tenths}, title="Cut")))
    long = [(1000 * x, weight, 1000 * y) for x, weight, y in rows()]
    wide = [(x, weight.repeat(12, 1), y.repeat(1, 12)) for x, weight, y in long]
    with pytest.raises(ValueError, match="no room for"):
        matrix_cuts({"by rows": wide}, title="Long numbers")

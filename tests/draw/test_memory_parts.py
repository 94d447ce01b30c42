"""What a rank's memory is made of: what is drawn, what is said in words, what is refused."""

from __future__ import annotations

import pytest

from distlib.draw import memory_parts
from tests.tools.draw_samples import texts

WAYS = {
    "alone": [{"weights": 4096.0, "activations": 8192.0}],
    "on two ranks": [{"weights": 2048.0, "activations": 8192.0}] * 2,
}


def test_every_rank_has_a_bar_with_its_total() -> None:
    picture = memory_parts(WAYS, "Memory", "of one step")
    found = texts(picture)
    assert {"Memory", "of one step", "alone", "on two ranks", "weights", "activations"} <= set(found)
    assert found.count("rank 0") == 2 and found.count("rank 1") == 1
    assert found.count("12 KiB") == 1 and found.count("10 KiB") == 2 and found.count("8 KiB") == 3
    assert "on two ranks: rank 0 10 KiB, of it weights 2 KiB, activations 8 KiB; rank 1 10 KiB" in picture.alt


def test_a_piece_too_narrow_for_its_number_has_none() -> None:
    found = texts(memory_parts({"alone": [{"norms": 8.0, "weights": 8192.0}]}, "Memory"))
    assert "8 B" not in found and "8 KiB" in found


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        ({}, "at least 1 way with at least 1 rank"),
        ({"alone": []}, "at least 1 way with at least 1 rank"),
        ({"alone": [{}]}, "expected 1 to 6 kinds, got"),
        ({"alone": [{"weights": 1.0}, {"gradients": 1.0}]}, "for weights, in this order, got {'gradients'"),
        ({"alone": [{"weights": -1.0}]}, "bytes of at least 0 for weights"),
    ],
)
def test_what_cannot_be_drawn_is_refused(ways: dict[str, list[dict[str, float]]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        memory_parts(ways, "Memory")

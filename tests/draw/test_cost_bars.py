"""What ways cost: each bar is as long as its number, on the scale of its panel, and words say it."""

from __future__ import annotations

from typing import Any

import pytest

from distlib.draw import compare_costs
from tests.tools.draw_samples import texts

WAYS = {"alone": {"operations": 8e6, "bytes sent": 0}, "four": {"operations": 2e6, "bytes sent": 57_666}}


def test_a_bar_is_a_number() -> None:
    picture = compare_costs(WAYS, title="Costs", subtitle="of a step")
    panels = [axes for axes in picture.figure.axes if axes.patches]
    assert [[bar.get_width() for bar in axes.patches] for axes in panels] == [[8e6, 2e6], [0, 57_666]]
    assert {"alone", "four", "operations", "bytes sent", "8,000,000", "57,666", "0"} <= set(texts(picture))
    assert picture.alt == (
        "Costs. alone: 8,000,000 operations, 0 bytes sent. four: 2,000,000 operations, 57,666 bytes sent."
    )


def test_nothing_sent_at_all() -> None:
    picture = compare_costs({"alone": {"bytes sent": 0}}, title="Costs", show=lambda value: f"{value:.0f} B")
    assert picture.alt == "Costs. alone: 0 B bytes sent."


@pytest.mark.parametrize(
    "wrong",
    [{}, {"a": {}}, {"a": {"x": 1}, "b": {"y": 1}}, {"a": {"x": -1}}, {str(n): {"x": 1} for n in range(10)}],
)
def test_costs_that_cannot_be_drawn(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        compare_costs(wrong, title="Costs")

from typing import Any

import pytest

from distlib.clinic.first_aid import FIRST_AID
from distlib.draw import decision_tree
from tests.tools.draw_samples import text_boxes

SMALL = {"Does it rain?": {"yes": {"Much?": {"yes": "stay", "no": "take a coat"}}, "no": "go"}}


def test_the_words_say_every_branch() -> None:
    assert (
        decision_tree(SMALL, title="Today").alt == "Today. Does it rain? yes: Much? yes: stay; no: take a coat; no: go."
    )


def test_all_words_are_inside_and_apart() -> None:
    boxes = list(text_boxes(decision_tree(FIRST_AID, title="First aid", subtitle="what to do")).values())
    for box in boxes:
        assert -0.001 <= box.x0 and box.x1 <= 1.001 and -0.001 <= box.y0 and box.y1 <= 1.001
    assert [(one, other) for i, one in enumerate(boxes) for other in boxes[:i] if one.overlaps(other)] == []


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({}, "one question with answers"),
        ({"a": {"x": "y"}, "b": {"x": "y"}}, "one question with answers"),
        ({"a": {}}, "one question with answers"),
        ({"a": {"x": {"b": {"x": {"c": {"x": "y"}}}}}}, "at most 2 questions"),
    ],
)
def test_what_can_not_be_drawn_is_one_clear_error(tree: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decision_tree(tree, title="Today")

"""Speed-ups: every number in the picture is the quotient of two durations."""

import pytest

from distlib.draw import speed_up
from tests.tools.draw_samples import text_boxes, texts

SECONDS = {"ring": {1: 0.4, 2: 0.2, 4: 0.125, 16: 0.05}, "DataParallel": {1: 0.4, 2: 0.25, 4: 0.2, 16: 0.8}}


def test_lines_are_quotients_beside_the_ideal() -> None:
    picture = speed_up(SECONDS)
    lines = [(list(map(float, line.get_xdata())), list(line.get_ydata())) for line in picture.figure.axes[0].lines]
    assert ([1, 2, 4, 16], [1, 2, 4, 16]) in lines
    assert ([1, 2, 4, 16], pytest.approx([1, 2, 3.2, 8])) in lines
    assert ([1, 2, 4, 16], pytest.approx([1, 1.6, 2, 0.5])) in lines


def test_words_say_what_the_lines_show() -> None:
    picture = speed_up(SECONDS, title="Where it stops paying")
    assert "ring at best 8 times, with 16 ranks; DataParallel at best 2 times, with 4 ranks" in texts(picture)
    assert picture.alt.startswith("Where it stops paying") and "0.5 times with 16" in picture.alt


def test_no_text_lies_on_another() -> None:
    boxes = list(
        text_boxes(
            speed_up({name: {n: 1 / (n + i / 9) for n in range(1, 17)} for i, name in enumerate("abcde")})
        ).values()
    )
    for index, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[index + 1 :])


@pytest.mark.parametrize(
    "wrong", [{}, {"ring": {}}, {"ring": {2: 0.1, 4: 0.1}}, {"ring": {1: 0.1}}, {"ring": {1: 0.1, 2: 0}}]
)
def test_what_cannot_be_drawn_is_refused(wrong: dict[str, dict[int, float]]) -> None:
    with pytest.raises(ValueError, match="expected"):
        speed_up(wrong)

"""Predicted beside measured: every point where it belongs, every error in words."""

from typing import Any

import pytest

from distlib.draw import predicted_and_measured
from distlib.worlds.calibration import Comparison
from tests.tools.draw_samples import text_boxes, texts

RING = [Comparison(4096 << power, 1e-4 * 2**power, 1.25e-4 * 2**power) for power in (0, 2, 4)]
TREE = [Comparison(4096, 2e-3, 1e-3), Comparison(65536, 3e-3, 3e-3)]


def test_the_line_is_predicted_and_the_dots_are_measured() -> None:
    line, dots = predicted_and_measured(list(reversed(RING))).figure.axes[0].lines
    assert list(line.get_xdata()) == list(dots.get_xdata()) == [4096, 16384, 65536]
    assert list(line.get_ydata()) == [c.predicted for c in RING] and line.get_marker() == "None"
    assert list(dots.get_ydata()) == [c.measured for c in RING] and dots.get_linestyle() == "None"


def test_each_error_is_written_below_its_size() -> None:
    boxes = text_boxes(predicted_and_measured({"ring": RING, "tree": TREE}))
    of_tree = {name.partition(": ")[2]: box for name, box in boxes.items() if name.endswith(("100%", " 0%", "KiB"))}
    for error, size in (("100%", "4 KiB"), ("0%", "64 KiB")):
        assert (of_tree[error].x0 + of_tree[error].x1) / 2 == pytest.approx(
            (of_tree[size].x0 + of_tree[size].x1) / 2, abs=1e-3
        )
    assert sum(name.endswith(": 20%") for name in boxes) == len(RING)


def test_the_words_say_every_number() -> None:
    picture = predicted_and_measured({"ring": RING, "tree": TREE}, title="Ring and tree")
    assert picture.alt == (
        "Ring and tree. Over the size of the tensor, both axes logarithmic. "
        "ring: 4 KiB 100 µs predicted, 125 µs measured, error 20%; "
        "16 KiB 400 µs predicted, 500 µs measured, error 20%; 64 KiB 1.6 ms predicted, 2 ms measured, error 20%. "
        "tree: 4 KiB 2 ms predicted, 1 ms measured, error 100%; 64 KiB 3 ms predicted, 3 ms measured, error 0%. "
        "Error: ring 20% in the median, at most 20%; tree 50% in the median, at most 100%."
    )
    assert "error: 20% in the median, at most 20%" in texts(predicted_and_measured(RING))


def test_seven_algorithms_at_many_sizes_are_drawn_with_all_words_inside_and_apart() -> None:
    many = [Comparison(1024 << power, 1e-5 * 2**power, 3e-5 * 2**power) for power in range(24)]
    picture = predicted_and_measured({f"halving_doubling_{number}": many for number in range(7)})
    boxes = list(text_boxes(picture).values())
    for box in boxes:
        assert -0.001 <= box.x0 and box.x1 <= 1.001 and -0.001 <= box.y0 and box.y1 <= 1.001
    assert [(one, other) for i, one in enumerate(boxes) for other in boxes[:i] if one.overlaps(other)] == []


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, ValueError, "comparisons of 1 to 7 algorithms, got 0"),
        ({str(number): RING for number in range(8)}, ValueError, "1 to 7 algorithms, got 8"),
        (RING[:1], ValueError, "at least 2 different sizes for 'all-reduce', got 1"),
        ({"tree": [TREE[0], TREE[0]]}, ValueError, "at least 2 different sizes for 'tree', got 1"),
        ([1, 2], TypeError, "expected Comparisons for 'all-reduce', as calibration.compare returns them, got 1"),
    ],
)
def test_what_can_not_be_drawn_is_one_clear_error(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        predicted_and_measured(given)

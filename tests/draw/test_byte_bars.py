"""Bars of bytes: as long as the trace says, labeled with it."""

from itertools import combinations

import pytest

from distlib.draw import bytes_per_rank
from distlib.trace import Trace
from tests.tools.draw_samples import master_trace, message, ring_trace, text_boxes, texts

COMPARED = {"through rank 0": master_trace(4), "ring": ring_trace(4)}


def test_bars_are_as_long_as_the_bytes_are_many() -> None:
    trace = Trace(3, [message(0, 1, 100, 0, 0, 1, 1), message(0, 2, 60, 0, 0, 1, 1), message(2, 0, 8, 1, 1, 2, 2)])
    picture = bytes_per_rank(trace)
    axes = picture.figure.axes[1]
    sent, received = ([bar.get_width() for bar in container] for container in axes.containers)
    assert sent == trace.bytes_sent == [160, 0, 8]
    assert received == trace.bytes_received == [8, 100, 60]
    assert {"160 B", "100 B", "60 B", "0 B"} <= set(texts(picture))


def test_compared_runs_share_one_scale() -> None:
    picture = bytes_per_rank(compare=COMPARED)
    panels = [axes for axes in picture.figure.axes if axes.containers]
    assert len(panels) == 2
    assert panels[0].get_xlim() == panels[1].get_xlim()
    assert {"through rank 0", "ring", "3 KiB", "1 KiB", "1.5 KiB"} <= set(texts(picture))


def test_a_trace_comes_before_what_it_is_compared_with() -> None:
    words = texts(bytes_per_rank(ring_trace(4), {"through rank 0": master_trace(4)}))
    assert words.index("this run") < words.index("through rank 0")


def test_alt_text_says_the_numbers() -> None:
    assert bytes_per_rank(compare=COMPARED).alt == (
        "Bytes through each rank. "
        "Through rank 0: rank 0 sent 3 KiB and received 3 KiB; ranks 1 to 3 each sent 1 KiB and received 1 KiB. "
        "Ring: ranks 0 to 3 each sent 1.5 KiB and received 1.5 KiB."
    )


def test_alt_text_of_many_different_ranks_stays_short() -> None:
    trace = Trace(40, [message(src, 0, 8 * src, 0, 0, 1, 1) for src in range(1, 40)])
    assert bytes_per_rank(trace).alt == "Bytes through each rank. This run: 40 ranks, longest bar 6.094 KiB."


@pytest.mark.parametrize(
    "trace",
    [
        Trace(1, []),
        Trace(4, []),
        ring_trace(2),
        *(pytest.param(trace, marks=pytest.mark.slow) for trace in (ring_trace(16), master_trace(64))),
        ring_trace(3, 2**40),
    ],
)
def test_any_trace_is_drawn_with_all_words_inside_and_apart(trace: Trace) -> None:
    picture = bytes_per_rank(trace, {"a ring": ring_trace(5), "nothing": Trace(2, [])})
    assert picture._repr_png_()
    boxes = text_boxes(picture)
    for text, box in boxes.items():
        assert 0 <= box.x0 and box.x1 <= 1 and 0 <= box.y0 and box.y1 <= 1, text
    for (one, first), (other, second) in combinations(boxes.items(), 2):
        assert not first.overlaps(second), f"{one!r} and {other!r}"


def test_nothing_given_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="got neither"):
        bytes_per_rank()


def test_what_is_no_trace_is_one_clear_error() -> None:
    with pytest.raises(TypeError, match="expected a Trace for 'ring'"):
        bytes_per_rank(compare={"ring": [1, 2]})  # type: ignore[dict-item]


def test_long_names_are_made_to_fit() -> None:
    long = "an all-reduce with a name that tells a whole story about how it came to be, and then some more of it"
    picture = bytes_per_rank(compare={long: ring_trace(4), f"{long}!": ring_trace(4)}, title=f"Title: {long}, {long}")
    boxes = text_boxes(picture)
    for text, box in boxes.items():
        assert box.x0 >= 0 and box.x1 <= 1, text
    for (one, first), (other, second) in combinations(boxes.items(), 2):
        assert not first.overlaps(second), f"{one!r} and {other!r}"

"""Timelines: right arrows, right words, for any trace."""

from itertools import combinations
from typing import Any

import pytest
from matplotlib.quiver import Quiver

from distlib.draw import Picture, timeline
from distlib.trace import Trace
from tests.draw_samples import master_trace, message, ring_trace, text_boxes, texts

EDGE_CASES = {
    "nothing": Trace(3, [], 0.002),
    "nothing at all": Trace(1, []),
    "one message": Trace(2, [message(0, 1, 4, 0.0, 0.0, 0.0, 1)]),
    "empty message": Trace(2, [message(0, 1, 0, 0.1, 0.2, 0.3, 1)]),
    "two ranks": ring_trace(2),
    "sixteen ranks": ring_trace(16),
    "64 ranks": ring_trace(64, rounds=3),
    "many rounds": ring_trace(3, rounds=200),
    "thousands": ring_trace(50, rounds=60),
    "long names": master_trace(13, 3 * 2**20 + 1),
}


def _arrows(picture: Picture) -> list[tuple[float, float, float, float]]:
    """(start, src, end, dst) of each arrow."""
    (quiver,) = picture.figure.axes[0].findobj(Quiver)
    return [(x, y, x + u, y + v) for (x, y), u, v in zip(quiver.XY, quiver.U, quiver.V, strict=True)]


def test_each_message_is_an_arrow_from_sender_to_receiver() -> None:
    trace = master_trace(3)
    arrows = _arrows(timeline(trace))
    assert [tuple(map(pytest.approx, arrow)) for arrow in arrows] == [(m.start, m.src, m.end, m.dst) for m in trace]


def test_by_round_a_message_stays_in_the_column_of_its_round() -> None:
    trace = ring_trace(4)
    arrows = _arrows(timeline(trace, by="round"))
    assert len(arrows) == 24
    for (start, src, end, dst), sent in zip(arrows, trace, strict=True):
        assert sent.round - 1 < start < end < sent.round
        assert (src, dst) == (sent.src, sent.dst)


def test_bars_show_waiting_and_transfer() -> None:
    trace = Trace(2, [message(0, 1, 8, 1.0, 3.0, 7.0, 1)], 8.0)
    bars = [bar.get_bbox() for container in timeline(trace).figure.axes[0].containers for bar in container]
    spans = [(bar.x0, bar.x1, round((bar.y0 + bar.y1) / 2)) for bar in bars]
    assert spans == [(1.0, 3.0, 0), (3.0, 7.0, 0), (3.0, 7.0, 1)], "waits, sends; receives on the other rank's lane"


def test_few_arrows_are_numbered_so_that_no_color_is_needed() -> None:
    by_sender = texts(timeline(ring_trace(4), by="round"))
    assert [by_sender.count(str(rank)) for rank in (0, 1, 2, 3)] == [6, 7, 7, 7], "an arrow each round; round numbers"
    assert "number and color: its sender" in by_sender
    by_round = texts(timeline(ring_trace(4), color="round"))
    assert by_round.count("6") == 4
    assert "number and color: its round" in by_round
    assert "color: its round" in texts(timeline(ring_trace(16)))


def test_alt_text_says_the_numbers() -> None:
    picture = timeline(ring_trace(4), title="A ring")
    assert picture.alt == (
        "A ring. Timeline of 4 ranks over seconds: 24 messages of 256 B in 6 rounds. "
        "From the first send to the last arrival: 5.8 ms. Messages go from 0 to 1, 1 to 2, 2 to 3, 3 to 0."
    )
    assert "no messages" in timeline(Trace(2, [])).alt
    assert (
        "5 messages of 4 B to 1 KiB in 2 rounds"
        in timeline(Trace(4, [*master_trace(3).messages, message(3, 0, 4, 0, 0, 0, 1)])).alt
    )


@pytest.mark.parametrize("by", ["time", "round"])
@pytest.mark.parametrize("name", EDGE_CASES)
def test_any_trace_is_drawn_with_all_words_inside_the_picture(name: str, by: Any) -> None:
    picture = timeline(EDGE_CASES[name], by=by)
    assert picture._repr_png_()
    for text, box in text_boxes(picture).items():
        assert -0.002 <= box.x0 and box.x1 <= 1.002 and -0.002 <= box.y0 and box.y1 <= 1.002, text


@pytest.mark.parametrize("by", ["time", "round"])
@pytest.mark.parametrize("name", [name for name in EDGE_CASES if name not in ("two ranks", "long names")])
def test_words_do_not_overlap(name: str, by: Any) -> None:
    boxes = text_boxes(timeline(EDGE_CASES[name], by=by))
    for (one, first), (other, second) in combinations(boxes.items(), 2):
        assert not first.overlaps(second), f"{one!r} and {other!r}"


def test_what_is_no_trace_is_one_clear_error() -> None:
    with pytest.raises(TypeError, match=r"expected a Trace, as world\.trace is after a run, got list"):
        timeline([])  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"by": "seconds"}, {"color": "rank"}])
def test_another_word_is_one_clear_error(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected by='time' or 'round'"):
        timeline(ring_trace(2), **options)

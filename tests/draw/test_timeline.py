"""Timelines: right arrows, right words, for any trace."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.quiver import Quiver

from distlib import SimulatedWorld
from distlib.collectives import double_tree_all_reduce
from distlib.draw import Picture, play_timeline, timeline
from distlib.draw.charts.coloring import coloring
from distlib.draw.style import PIXELS_PER_INCH, SKY, line_color_of
from distlib.trace import Trace
from distlib.training.ddp import Span
from tests.tools.draw_samples import master_trace, message, ring_trace, text_boxes, texts

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

LARGE = ("sixteen ranks", "64 ranks", "many rounds", "thousands")
cases = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in EDGE_CASES]


def _arrows(picture: Picture) -> list[tuple[float, float, float, float]]:
    """(start, src, end, dst) of each arrow."""
    (quiver,) = picture.figure.axes[0].findobj(Quiver)
    return [(x, y, x + u, y + v) for (x, y), u, v in zip(quiver.XY, quiver.U, quiver.V, strict=True)]


def test_each_message_is_an_arrow_from_sender_to_receiver() -> None:
    trace = master_trace(3)
    arrows = _arrows(timeline(trace))
    assert [tuple(map(pytest.approx, arrow)) for arrow in arrows] == [(m.taken, m.src, m.end, m.dst) for m in trace]
    assert any(m.start < m.taken for m in trace), "an arrow does not begin where the sender begins to wait"


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
    by_round = texts(timeline(ring_trace(4), color_by="round"))
    assert by_round.count("6") == 4
    assert "number and color: its round" in by_round
    assert "color: its round" in texts(timeline(ring_trace(16)))


def test_alt_text_says_the_numbers() -> None:
    picture = timeline(ring_trace(4), title="A ring")
    assert picture.alt == (
        "A ring. Timeline of 4 ranks over seconds: 24 messages of 256 B in 6 rounds. "
        "From the first send to the last arrival: 5.8 ms. Messages go from 0 to 1, 1 to 2, 2 to 3, 3 to 0."
    )
    few = ring_trace(2)
    assert timeline(few).alt.endswith(
        " Messages: 1.4 ms to 1.8 ms from 0 to 1; 1.4 ms to 1.8 ms from 1 to 0; "
        "2.4 ms to 2.8 ms from 0 to 1; 2.4 ms to 2.8 ms from 1 to 0."
    )
    assert timeline(few, by="round").alt.endswith(" Round 1: 0 to 1, 1 to 0. Round 2: 0 to 1, 1 to 0.")
    busy = timeline(few, computing=[[(0.0, 1e-3), (2e-3, 4e-3)], []])
    assert busy.alt.endswith(" Time spent computing: rank 0 3 ms.")
    assert "no messages" in timeline(Trace(2, [])).alt
    assert (
        "5 messages of 4 B to 1 KiB in 2 rounds"
        in timeline(Trace(4, [*master_trace(3).messages, message(3, 0, 4, 0, 0, 0, 1)])).alt
    )


@pytest.mark.parametrize("by", ["time", "round"])
@pytest.mark.parametrize("name", cases)
def test_any_trace_is_drawn_with_all_words_inside_the_picture(name: str, by: Any) -> None:
    picture = timeline(EDGE_CASES[name], by=by)
    assert picture._repr_png_()
    for text, box in text_boxes(picture).items():
        assert -0.002 <= box.x0 and box.x1 <= 1.002 and -0.002 <= box.y0 and box.y1 <= 1.002, text


@pytest.mark.parametrize("by", ["time", "round"])
@pytest.mark.parametrize("name", [case for case in cases if case.values[0] not in ("two ranks", "long names")])
def test_words_do_not_overlap(name: str, by: Any) -> None:
    boxes = text_boxes(timeline(EDGE_CASES[name], by=by))
    for (one, first), (other, second) in combinations(boxes.items(), 2):
        assert not first.overlaps(second), f"{one!r} and {other!r}"


def test_what_is_no_trace_is_one_clear_error() -> None:
    with pytest.raises(TypeError, match=r"expected a Trace, as world\.trace is after a run, got list"):
        timeline([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "seconds"}, "expected by='time' or by='round', got by='seconds'"),
        ({"color_by": "rank"}, "expected color_by='round', 'sender', 'tag', 'tree' or a function, got 'rank'"),
        ({"color_by": lambda m: m.src}, "expected color_by with at most 8 labels, got 9: 0, 1, 2"),
        ({"color_by": "tree"}, "the messages of one double-tree all-reduce on 9 ranks, got 144 messages"),
        ({"computing": [[]]}, "expected computing=.*, with a list for each of 9 ranks, got 1 and by='time'"),
        ({"computing": [[]] * 9, "by": "round"}, "over time, .* got 9 and by='round'"),
    ],
)
def test_what_can_not_be_drawn_is_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        timeline(ring_trace(9), **options)


def test_arrows_are_colored_by_labels_of_ones_own() -> None:
    trace = ring_trace(4)
    labels = {m: "inside" if m.dst > m.src else "around" for m in trace}
    for color_by in (labels, labels.get):
        picture = timeline(trace, color_by=color_by)
        (quiver,) = picture.figure.axes[0].findobj(Quiver)
        colors = [to_hex(color).upper() for color in quiver.get_facecolor()]
        assert colors == [line_color_of(0 if labels[m] == "around" else 1) for m in trace]
        assert {"around", "inside", "number: its round"} <= set(texts(picture))
        assert "By color: around 6, inside 18." in picture.alt


def test_arrows_are_colored_by_tag() -> None:
    trace = Trace(2, [replace(message(0, 1, 4, tag, tag, tag + 1, 1), tag=tag) for tag in (3, 5)])
    assert {"tag 3", "tag 5"} <= set(texts(timeline(trace, color_by="tag")))


@pytest.mark.parametrize("ranks", [2, 5, 7, 8])
@pytest.mark.parametrize("blocks", [1, 3])
def test_the_two_trees_of_a_double_tree_are_told_apart(ranks: int, blocks: int) -> None:
    """The second half of the tensor is an element shorter, so that some sizes say in which tree a message goes."""
    world, length = SimulatedWorld(ranks), 6 * blocks - 1
    world.run(lambda comm: double_tree_all_reduce(comm, torch.ones(length), blocks=blocks))
    look = coloring(world.trace, "tree", "time")
    short = [m for m in world.trace if m.nbytes == 8]
    assert len(short) == 2 * (ranks - 1), "one block up and down each edge of the second tree"
    assert {look.label_of(m) for m in short} == {"tree 1"}  # type: ignore[misc]
    assert Counter(map(look.label_of, world.trace)) == dict.fromkeys(  # type: ignore[arg-type]
        ("tree 0", "tree 1"), 2 * blocks * (ranks - 1)
    )


def test_computing_is_drawn_where_it_was_noted() -> None:
    trace = Trace(2, [message(0, 1, 8, 1.0, 3.0, 7.0, 1)], 8.0)
    picture = timeline(trace, computing=[[], [(0.5, 2.0), Span("forward", "0", 2.0, 3.0)]])
    bars = [bar for container in picture.figure.axes[0].containers for bar in container]
    spans = [bar.get_bbox() for bar in bars if to_hex(bar.get_facecolor()).upper() == SKY]
    assert [(span.x0, span.x1, (span.y0 + span.y1) / 2) for span in spans] == [(0.5, 2.0, 1), (2.0, 3.0, 1)]
    assert "computes" in texts(picture) and "computes" not in texts(timeline(trace))
    assert picture.figure.axes[0].get_xlim()[0] < 0.5


@pytest.mark.parametrize("ranks", [4, *(pytest.param(many, marks=pytest.mark.slow) for many in (8, 16))])
def test_up_to_16_ranks_fit_a_small_screen(ranks: int) -> None:
    """Of 768 pixels, about 600 are left for a notebook."""
    assert timeline(ring_trace(ranks)).figure.get_figheight() * PIXELS_PER_INCH <= 560
    assert play_timeline(ring_trace(ranks)).scene.height <= 460, "and below it are the controls"

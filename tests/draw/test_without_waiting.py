"""The pictures of lesson 07: stale gradients, graphs of gossip, and images with answers."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle

from distlib.draw import Picture, gossip_graphs, gradient_timeline, image_answers
from distlib.draw.style import BLUE, VERMILLION
from distlib.training.mixing import metropolis_weights, ring, static_exponential
from tests.tools.draw_samples import served, texts

IMAGES = [[[0.0, 1.0], [1.0, 0.0]]] * 3


def boxes(picture: Picture, color: str) -> list[tuple[float, float]]:
    """Start and end of the boxes of a color."""
    patches = [patch for axes in picture.figure.axes for patch in axes.patches if isinstance(patch, Rectangle)]
    found = [patch for patch in patches if to_hex(patch.get_facecolor()).upper() == color]
    return [(patch.get_x(), round(patch.get_x() + patch.get_width(), 6)) for patch in found]


# ── gradient_timeline


def test_each_gradient_is_a_box_and_none_reaches_beyond_the_end() -> None:
    picture = gradient_timeline({"asynchronous": served()}, title="Two workers", until=0.05)
    assert boxes(picture, BLUE) == [(0.0, 0.01), (0.01, 0.02), (0.02, 0.03), (0.03, 0.04), (0.0, 0.035), (0.035, 0.05)]
    assert {"0", "1", "2", "4"} <= {*texts(picture)}  # versions of the parameters; the box of 3 is too narrow
    assert "4 updates until 0.05 s; of this time compute: worker 1 80%, worker 2 100%" in picture.alt


def test_the_gradient_that_is_followed_says_what_it_reads_and_what_it_meets() -> None:
    runs = {"first": served(), "last": served()}
    picture = gradient_timeline(runs, title="Stale", until=0.05, follow=(2, 1))
    assert {"reads version 0", "applied to version 3"} <= {*texts(picture)}
    assert boxes(picture, VERMILLION) == [(0.0, 0.035)]
    assert "Gradient 1 of worker 2 reads version 0 and is applied to version 3: it is 3 updates old." in picture.alt


def test_what_cannot_be_followed_is_refused() -> None:
    for worker, clock, until in ((2, 2, 0.05), (2, 1, 0.03), (3, 1, 0.05)):
        with pytest.raises(ValueError, match=f"gradient {clock} of worker {worker} was not applied"):
            gradient_timeline({"one": served()}, title="Stale", until=until, follow=(worker, clock))
    with pytest.raises(ValueError, match="at least one run"):
        gradient_timeline({}, title="Nothing", until=1.0)


# ── gossip_graphs


def test_a_graph_has_a_line_for_each_pair_that_talks_and_a_number_where_news_has_come() -> None:
    graphs = {"ring": metropolis_weights(ring(8)).tolist(), "exponential": static_exponential(8).tolist()}
    held = {"ring": [2.7, 2.6, 0, 0, 0, 0, 0, 2.7], "exponential": [2.0, 2.0, 2.0, 0, 2.0, 0, 0, 0]}
    picture = gossip_graphs(graphs, held, title="One round", subtitle="filled", notes={"ring": "2 messages each"})
    assert [word for word in texts(picture) if "." in word] == ["2.7", "2.6", "2.7", *4 * ["2.0"]]
    assert "2 messages each" in texts(picture)
    assert "ring: 8 lines between 8 ranks, 3 of them have heard of it" in picture.alt
    assert "exponential: 20 lines between 8 ranks, 4 of them" in picture.alt


def test_graphs_that_cannot_be_drawn_are_refused() -> None:
    two = {"two": [[0.5, 0.5], [0.5, 0.5]]}
    with pytest.raises(ValueError, match="1 to 4 graphs of at most 24 ranks"):
        gossip_graphs({}, {}, title="Nothing", subtitle="")
    with pytest.raises(ValueError, match="at most 24 ranks"):
        gossip_graphs({"large": metropolis_weights(ring(25)).tolist()}, {"large": [1.0] * 25}, title="", subtitle="")
    with pytest.raises(ValueError, match="a number for each rank"):
        gossip_graphs(two, {"two": [1.0]}, title="Short", subtitle="")


# ── image_answers


def test_only_wrong_answers_are_framed() -> None:
    picture = image_answers(IMAGES, [8, 9, 8], {"one": [8, 9, 8], "other": [3, 9, 1]}, title="Answers")
    frames = [patch for axes in picture.figure.axes for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    assert len(frames) == 2
    assert [word for word in texts(picture) if word.isdigit()] == ["8", "9", "8", "3", "9", "1"]
    assert "Images of 8, 9, 8. one: 8, 9, 8. other: 3, 9, 1." in picture.alt


def test_answers_for_other_images_are_refused() -> None:
    for truths, answers in (([8, 9], {"one": [8, 9, 8]}), ([8, 9, 8], {"one": [8]}), ([8, 9, 8], {})):
        with pytest.raises(ValueError, match="an answer of each model for each of them"):
            image_answers(IMAGES, truths, answers, title="Answers")

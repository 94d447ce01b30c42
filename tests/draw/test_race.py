"""The race of algorithms: every number in it is the model's, and the band names the fastest."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.patches import Rectangle

from distlib import Cluster, Link
from distlib.draw import Picture, race
from distlib.draw.charts.log_axes import spread
from distlib.draw.charts.race_table import run_race
from distlib.network import ALL_REDUCES, all_reduce_seconds, choose_all_reduce, crossover_bytes
from tests.tools.draw_samples import text_boxes, texts

NODES = Cluster(nodes=16, ranks_per_node=8, intra=Link(2e-6, 200e9), inter=Link(5e-6, 12.5e9))
FLAT = Cluster.flat(64)
SIZES = [4 << power for power in range(0, 28, 2)]
GROWING = [Cluster(nodes, 4, Link(1e-6, 1e11), Link(5e-6, 1e10)) for nodes in (1, 2, 3, 4, 8, 16, 64)]


def _lines(picture: Picture) -> list[tuple[list[float], list[float]]]:
    return [(list(map(float, line.get_xdata())), list(line.get_ydata())) for line in picture.figure.axes[0].lines]


def test_each_line_is_the_model_over_sizes() -> None:
    lines = _lines(race(NODES, SIZES))
    for name, (sizes, seconds) in zip(ALL_REDUCES, lines, strict=False):
        assert sizes == SIZES
        assert seconds == [all_reduce_seconds(name, NODES, size // 4, 4) for size in SIZES]


def test_each_line_is_the_model_over_ranks() -> None:
    lines = _lines(race(list(reversed(GROWING)), 1 << 20, ["ring", "tree"]))
    for name, (ranks, seconds) in zip(("ring", "tree"), lines, strict=False):
        assert ranks == [cluster.world_size for cluster in GROWING]
        assert seconds == [all_reduce_seconds(name, cluster, 1 << 18, 4) for cluster in GROWING]


@pytest.mark.parametrize("cluster", [NODES, FLAT], ids=str)
def test_the_leader_is_the_one_that_would_be_chosen(cluster: Cluster) -> None:
    table = run_race(cluster, SIZES)
    for lead in table.leads:
        for size in table.amounts[lead.starts : lead.ends]:
            best = min(choose_all_reduce(cluster, size // 4, 4).seconds.values())
            assert table.seconds[lead.algorithm][table.amounts.index(size)] == pytest.approx(best)


def test_a_lead_begins_at_the_very_byte() -> None:
    table = run_race(FLAT, [1 << 10, 1 << 30], ["tree", "ring"])
    assert [lead.algorithm for lead in table.leads] == ["tree", "ring"]
    assert table.leads[1].first == crossover_bytes(FLAT, "tree", "ring")


def test_over_ranks_a_lead_begins_at_a_number_of_ranks_that_was_given() -> None:
    table = run_race(GROWING, 1 << 20, ["ring", "tree"])
    assert [(lead.algorithm, lead.first) for lead in table.leads] == [("ring", 4), ("tree", 256)]


def test_the_band_is_as_wide_as_the_leads() -> None:
    picture = race(FLAT, SIZES, ["tree", "ring"])
    crossover = crossover_bytes(FLAT, "tree", "ring")
    areas = [patch for patch in picture.figure.axes[1].patches if isinstance(patch, Rectangle)]
    edges = [(area.get_x(), area.get_x() + area.get_width()) for area in areas]
    assert edges == [(SIZES[0], crossover), (crossover, SIZES[-1])]


def test_the_words_say_who_wins_where() -> None:
    picture = race(FLAT, [1 << 10, 1 << 20], ["tree", "ring"])
    crossover = crossover_bytes(FLAT, "tree", "ring")
    assert crossover is not None
    said = f"tree, from {crossover / 1024:.1f} KiB ring"
    assert picture.alt.startswith("All-reduces on 64 ranks: which is the fastest? Predicted seconds, ")
    assert "from 1 KiB to 1 MiB: tree from 61 µs to 1.07 ms; ring from 630 µs to 795 µs." in picture.alt
    assert picture.alt.endswith(f"The fastest: {said}.")
    assert {"tree", "ring", f"predicted; the band below says which is the fastest: {said}"} <= set(texts(picture))


CASES: dict[str, tuple[Any, Any]] = {
    "sizes": (NODES, SIZES),
    "two sizes": (FLAT, [1000, 1001001]),
    "a narrow range": (FLAT, range(4096, 8192, 512)),
    "ranks": (GROWING, 1 << 20),
    "every number of ranks": ([Cluster.flat(ranks) for ranks in range(2, 65)], 1 << 20),
    "two ranks": (Cluster.flat(2), SIZES),
    "no latency": (Cluster.flat(8, Link(0.0, 1e9)), SIZES),
    "no bytes": (Cluster.flat(8, Link(1e-6, float("inf"))), SIZES),
}


@pytest.mark.parametrize("name", CASES)
def test_any_race_is_drawn_with_all_words_inside_and_apart(name: str) -> None:
    picture = race(*CASES[name], title="A race")
    boxes = list(text_boxes(picture).values())
    for box in boxes:
        assert -0.001 <= box.x0 and box.x1 <= 1.001 and -0.001 <= box.y0 and box.y1 <= 1.001
    overlaps = [(one, other) for i, one in enumerate(boxes) for other in boxes[:i] if one.overlaps(other)]
    assert overlaps == []


@pytest.mark.parametrize(
    ("cluster", "nbytes", "algorithms", "said"),
    [
        (FLAT, 1024, None, "one cluster and several sizes, or several clusters and one size, got one cluster and one"),
        ([FLAT, NODES], SIZES, None, "got several clusters and several sizes"),
        (FLAT, [1024], None, "at least 2 different sizes, got 1"),
        ([FLAT, FLAT], 1024, None, "at least 2 different numbers of ranks, got 1"),
        ([Cluster.flat(1), FLAT], 1024, None, "clusters of at least 2 ranks, got one of 1"),
        ([4, 8], 1024, None, r"expected clusters, such as Cluster\(nodes=2, ranks_per_node=8\), got 4"),
        (FLAT, [0, 1024], None, "sizes of at least 4 bytes, one float32, got 0"),
        (FLAT, SIZES, ["fast"], "one of the algorithms naive, .*, got 'fast'"),
        (FLAT, SIZES, [], "at least one of the algorithms"),
        (Cluster.flat(4, Link(0.0, float("inf"))), SIZES, None, "links that take no time"),
    ],
)
def test_what_is_no_race_is_one_clear_error(cluster: Any, nbytes: Any, algorithms: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^expected .*{said}|^{said}"):
        race(cluster, nbytes, algorithms)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(1, 11)), min_size=1, max_size=9))
@settings(max_examples=50)
def test_labels_are_moved_apart_and_stay_in_order(labels: list[tuple[float, float]]) -> None:
    wanted, sizes = [middle for middle, _ in labels], [size for _, size in labels]
    middles = spread(wanted, sizes, 0, 100)
    edges = sorted((middle - size / 2, middle + size / 2) for middle, size in zip(middles, sizes, strict=True))
    assert all(-0.001 <= begin and end <= 100.001 for begin, end in edges)
    assert all(begin >= end - 0.001 for (_, end), (begin, _) in zip(edges, edges[1:], strict=False))
    assert sorted(range(len(wanted)), key=lambda i: wanted[i]) == sorted(range(len(wanted)), key=lambda i: middles[i])

"""The race with sliders: every move predicts anew, and every number is the model's."""

from itertools import product

import pytest

from distlib import Cluster, Link
from distlib.draw import explore_race
from distlib.draw.charts.race_table import run_race
from distlib.draw.players.explorer import NODES, SIZES, Explorer
from distlib.draw.players.race_scene import race_scene
from distlib.draw.style import format_seconds
from distlib.network import all_reduce_seconds

USUAL = Cluster(nodes=16, ranks_per_node=8, intra=Link(2e-6, 200e9), inter=Link(5e-6, 12.5e9))


def words(explorer: Explorer) -> str:
    return str(explorer.widget.scene["steps"][0]["words"])


def test_the_sliders_start_where_the_cluster_is() -> None:
    assert {name: slider.value for name, slider in explore_race().sliders.items()} == {
        "axis": "bytes", "nbytes": 1 << 20, "nodes": 16, "ranks_per_node": 8, "latency": 5e-6, "bandwidth": 12.5e9,
    }  # fmt: skip
    flat = explore_race(Cluster.flat(64, Link(1e-5, 2.5e9))).sliders
    assert [flat[name].value for name in ("nodes", "ranks_per_node", "latency", "bandwidth")] == [64, 1, 1e-5, 2.5e9]
    odd = explore_race(Cluster.flat(60, Link(3e-6, 10e9)), nbytes=5000, along="ranks").sliders
    assert [odd[name].value for name in ("nodes", "nbytes", "axis")] == [64, 4096, "ranks"]
    assert [odd[name].value for name in ("latency", "bandwidth")] == [3e-6, 10e9]


@pytest.mark.parametrize("axis", ["bytes", "ranks"])
def test_every_slider_moves_the_curves(axis: str) -> None:
    explorer = explore_race()
    explorer.sliders["axis"].value = axis
    moves = {"ranks_per_node": 2, "latency": 1e-4, "bandwidth": 2.5e9, "nodes": 4, "nbytes": 4096}
    for name, value in moves.items():
        before = explorer.widget.scene
        explorer.sliders[name].value = value
        assert explorer.widget.scene != before
    cluster = Cluster(4, 2, USUAL.intra, Link(1e-4, 2.5e9))
    expected = run_race(cluster, SIZES) if axis == "bytes" else run_race(
        [Cluster(nodes, 2, USUAL.intra, Link(1e-4, 2.5e9)) for nodes in NODES], 4096
    )  # fmt: skip
    assert explorer.table() == expected
    place = "4 KiB" if axis == "bytes" else "8 ranks"
    assert words(explorer).startswith(f"At {place}: ")
    for name in ("ring", "tree", "hierarchical"):
        assert f"{name} {format_seconds(all_reduce_seconds(name, cluster, 1024, 4))}" in words(explorer)


def test_any_place_of_the_sliders_can_be_drawn() -> None:
    explorer = explore_race(algorithms=["ring", "tree"])
    extremes = [(slider.options[0][1], slider.options[-1][1]) for slider in explorer.sliders.values()]
    for values in product(*extremes):
        for slider, value in zip(explorer.sliders.values(), values, strict=True):
            slider.value = value
        shapes = explorer.widget.scene["shapes"]
        assert sum(shape["tag"] == "path" and "tip" in shape for shape in shapes) == 2


def test_the_scene_has_a_line_for_each_algorithm_inside_the_axes() -> None:
    table = run_race(USUAL, SIZES)
    scene = race_scene(table, 1 << 20)
    lines = [shape for shape in scene.shapes if shape.tag == "path" and shape.tip]
    assert [line.tip.split(":")[0] for line in lines] == list(table.seconds)
    for line in lines:
        corners = [tuple(map(float, corner.split())) for corner in str(line.attributes["d"])[1:].split(" L")]
        assert len(corners) == len(SIZES)
        assert all(0 < x < scene.width and 0 < y < scene.height for x, y in corners)
        assert all(before[1] >= after[1] for before, after in zip(corners, corners[1:], strict=False)), "never faster"


def test_the_image_shows_what_the_sliders_say() -> None:
    explorer = explore_race()
    assert explorer.scene().alt.startswith("All-reduces on 128 ranks: ")
    explorer.sliders["axis"].value = "ranks"
    assert explorer.scene().alt.startswith("All-reduces of 1 MiB: ")


def test_another_word_for_the_axis_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="expected along='bytes' or 'ranks', got 'size'"):
        explore_race(along="size")  # type: ignore[arg-type]


def test_an_unknown_algorithm_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="one of the algorithms naive, .*, got 'fast'"):
        explore_race(algorithms=["fast"])

"""Pipelines: every box stands where its action ran, every slot holds what is kept then, and all of it in words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from matplotlib.patches import Rectangle

from distlib.draw import Picture, memory_per_rank, pipeline_timeline, play_pipeline
from distlib.draw.players.pipeline_scene import kept_by_actions
from distlib.draw.players.scene import Scene, Shape
from distlib.training.schedules import (
    Costs,
    Timing,
    gpipe,
    interleaved_1f1b,
    most_live,
    naive,
    one_forward_one_backward,
    time_schedule,
    zero_bubble,
)
from tests.tools.draw_samples import text_boxes, texts

TIMED = {
    "naive": time_schedule(naive(3, 2)),
    "GPipe": time_schedule(gpipe(4, 8)),
    "1F1B": time_schedule(one_forward_one_backward(4, 8)),
    "interleaved": time_schedule(interleaved_1f1b(4, 8), Costs(0.5, 1.0)),
    "ZB-H1": time_schedule(zero_bubble(4, 8)),
    "one rank": time_schedule(gpipe(1, 1)),
    "many": time_schedule(one_forward_one_backward(8, 32), Costs(1e-6, 2e-6, transfer=3e-7)),
}
each_timing = pytest.mark.parametrize("name", TIMED)


def boxes(picture: Picture, panel: int = 0) -> list[tuple[float, float]]:
    """Start and seconds of the boxes of a panel, as they stand in it, without the gray ones."""
    axes = [axes for axes in picture.figure.axes if axes.axison][2 * panel]
    drawn = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_alpha() is None]
    return [(patch.get_x(), patch.get_width()) for patch in drawn]


@each_timing
def test_every_action_is_a_box_where_it_ran(name: str) -> None:
    spans = [span for row in TIMED[name].spans for span in row]
    found = boxes(pipeline_timeline(TIMED[name]))
    assert [start for start, _ in found] == [span.start for span in spans]
    assert [seconds for _, seconds in found] == pytest.approx([span.seconds for span in spans])


def test_a_run_that_did_not_begin_at_0_is_drawn_from_0_on() -> None:
    timing = TIMED["1F1B"]
    later = Timing([[type(s)(s.action, s.start + 5, s.end + 5) for s in spans] for spans in timing.spans])
    assert boxes(pipeline_timeline(later)) == boxes(pipeline_timeline(timing))


def test_panels_share_a_scale_and_say_time_bubble_and_memory() -> None:
    picture = pipeline_timeline({"GPipe": TIMED["GPipe"], "ZB-H1": TIMED["ZB-H1"]}, title="Two schedules")
    found = texts(picture)
    assert {"Two schedules", "GPipe: 33 s, bubble 27.3 %", "ZB-H1: 27 s, bubble 11.1 %", "8", "3 + 1"} <= set(found)
    assert "ZB-H1: 27 s, bubble 11.1 %. Microbatches kept at most, by rank: 4, 3 + 1, 2 + 2, 1 + 3." in picture.alt
    limits = {axes.get_xlim()[1] for axes in picture.figure.axes[1::2]}
    assert 33.0 in limits


def test_a_microbatch_of_one_stage_of_two_counts_one_half() -> None:
    assert "kept at most, by rank: 5.5, 4.5, 3.5, 2.5." in pipeline_timeline(TIMED["interleaved"]).alt


@each_timing
def test_words_stay_inside(name: str) -> None:
    for box in text_boxes(pipeline_timeline(TIMED[name])).values():
        assert -0.001 <= box.x0 and box.x1 <= 1.001 and -0.001 <= box.y0 and box.y1 <= 1.001


def seen(scene: Scene, step: int) -> list[Shape]:
    return [shape for shape in scene.shapes if shape.first <= step and (shape.end is None or step < shape.end)]


def kept_in(scene: Scene, step: int, rank: int) -> int:
    return sum(shape.tip.startswith(f"rank {rank} keeps") for shape in seen(scene, step))


@pytest.mark.slow
@each_timing
def test_the_most_slots_of_a_rank_are_the_most_it_keeps(name: str) -> None:
    timing = TIMED[name]
    scene, schedule = play_pipeline(timing).scene, [[span.action for span in row] for row in timing.spans]
    steps = range(len(scene.steps))
    most = [max(kept_in(scene, step, rank) for step in steps) for rank in range(len(schedule))]
    assert most == most_live(schedule, up_to_weight=True)
    assert [kept_in(scene, steps[-1], rank) for rank in range(len(schedule))] == [0] * len(schedule)
    assert {shape.text for shape in scene.shapes if shape.text.endswith(" kept")} >= {"0 kept", "1 kept"}


@each_timing
def test_a_step_is_a_moment_at_which_an_action_ends(name: str) -> None:
    timing = TIMED[name]
    scene = play_pipeline(timing).scene
    assert len(scene.steps) == 1 + len({round(span.end * 1e8) for row in timing.spans for span in row})
    assert sum(len(step.details) for step in scene.steps) == sum(map(len, timing.spans))
    assert json.loads(json.dumps(scene.to_data(), allow_nan=False)) == scene.to_data()
    for shape in scene.shapes:
        assert 0 <= shape.first < len(scene.steps) and (shape.end is None or shape.end > shape.first)
        assert 0 <= float(shape.attributes["x"]) <= scene.width and 0 <= float(shape.attributes["y"]) <= scene.height


def test_a_step_says_what_is_done_and_what_is_kept() -> None:
    step = play_pipeline(TIMED["1F1B"]).scene.steps[4]
    assert step.name == "moment 4 of 31"
    assert step.words == "After 4 s: done 0F3 on rank 0, 1F2 on rank 1, 2F1 on rank 2, 3F0 on rank 3. " + (
        "Kept, by rank: 4, 3, 2, 1."
    )
    assert step.details[1] == "rank 1: 1F2, the forward pass of microbatch 2 through stage 1, from 3 s to 4 s"


def test_what_was_measured_is_shown_in_bytes() -> None:
    timing = TIMED["ZB-H1"]
    measured = [[{key: 1024 * part for key, part in now.items()} for now in row] for row in kept_by_actions(timing)]
    scene = play_pipeline(timing, kept=measured).scene
    assert {"1 KiB", "4 KiB", "2.5 KiB"} <= {shape.text for shape in scene.shapes}
    tips = {shape.tip for shape in scene.shapes}
    assert {
        "rank 3 keeps microbatch 0 of stage 3: 1 KiB",
        "rank 3 keeps microbatch 0 of stage 3: 512 B",
    } <= tips
    heights = {shape.attributes["height"] for shape in scene.shapes if shape.tip.startswith("rank 3 keeps")}
    assert len(heights) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (({},), ValueError, "at least one timing"),
        (([],), TypeError, "expected a Timing, as time_schedule returns it, got list"),
        ((Timing([[], []]),), ValueError, "at least one action"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        pipeline_timeline(*arguments)


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 512 actions to play, got 528"):
        play_pipeline(time_schedule(gpipe(8, 33)))
    with pytest.raises(ValueError, match=r"after each of \[2\] actions by rank, got \[1\]"):
        play_pipeline(TIMED["one rank"], kept=[[{}]])
    with pytest.raises(TypeError, match="expected a Timing"):
        play_pipeline([])  # type: ignore[arg-type]


def test_memory_is_drawn_as_bars_on_one_scale() -> None:
    picture = memory_per_rank({"GPipe": [4096, 4096], "1F1B": [4096, 2048]}, "Kept")
    bars = [[bar for bar in axes.patches if isinstance(bar, Rectangle)] for axes in picture.figure.axes if axes.patches]
    widths = [[bar.get_width() for bar in panel] for panel in bars]
    assert widths == [[4096, 4096], [4096, 2048]]
    assert len({axes.get_xlim() for axes in picture.figure.axes if axes.patches}) == 1
    assert picture.alt == "Kept. Bytes kept at most, by rank. GPipe: 4 KiB, 4 KiB. 1F1B: 4 KiB, 2 KiB."
    refused: list[tuple[Any, str]] = [
        ({}, "1 to 4 ways, got 0"),
        ({"none": []}, "none: expected bytes"),
        ({"x": [-1]}, "at least 0"),
    ]
    for ways, said in refused:
        with pytest.raises(ValueError, match=said):
            memory_per_rank(ways, "Kept")

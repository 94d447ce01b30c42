"""What is true of every kind of picture at first sight: something moves in it, and all of its text can be read.

How they look in a browser, in both themes and with little room: tests/draw/test_first_sight_browser.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets
import pytest

from distlib import SimulatedWorld
from distlib.collectives import ring_all_reduce
from distlib.draw import (
    pipeline_timeline,
    placements,
    play_chunks,
    play_pipeline,
    play_timeline,
    watch_chunks,
)
from distlib.draw.picture import Picture
from distlib.draw.players.player import Player
from distlib.draw.players.scene import Scene, Shape
from distlib.draw.style import SMALL, WIDTH
from distlib.training.schedules import one_forward_one_backward, time_schedule, zero_bubble
from tests.draw.test_descriptions import SHOWN
from tests.tools.draw_samples import cut_array, ring_trace, text_sizes

PLAYED: dict[str, Callable[[], Player]] = {
    "by round": lambda: play_timeline(ring_trace(4)),
    "by time": lambda: play_timeline(ring_trace(4), by="time"),
    "one message": lambda: play_timeline(ring_trace(2, rounds=1)),
    "16 ranks": lambda: play_timeline(ring_trace(16)),
    "chunks": lambda: play_chunks(watch_chunks(SimulatedWorld(4), ring_all_reduce)),
    "chunks of 12 ranks": lambda: play_chunks(watch_chunks(SimulatedWorld(12), ring_all_reduce)),
    "pipeline": lambda: play_pipeline(time_schedule(one_forward_one_backward(4, 8))),
    "pipeline of 16 ranks": lambda: play_pipeline(time_schedule(zero_bubble(16, 8))),
}
DRAWN: dict[str, Callable[[], Any]] = SHOWN | {
    "pipeline of 16 ranks": lambda: pipeline_timeline(time_schedule(zero_bubble(16, 16))),
    "pieces on two devices each": lambda: placements(
        {"two axes": {"W": cut_array((8, 32), 4, axis=1, copies=2), "b": cut_array((2,), 2, copies=4)}}, title="Pieces"
    ),
}
each_played = pytest.mark.parametrize("name", PLAYED)


def seen(scene: Scene, step: int) -> list[Shape]:
    return [shape for shape in scene.shapes if shape.first <= step and (shape.end is None or step < shape.end)]


@each_played
def test_a_player_opens_when_something_has_moved(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    player = PLAYED[name]()
    player._ipython_display_()
    view = shown[0]["application/vnd.jupyter.widget-view+json"]
    state = ipywidgets.widgets.widget._instances[view["model_id"]].get_state()
    assert 0 < state["step"] < len(state["scene"]["steps"])
    moved = [shape for shape in seen(player.scene, state["step"]) if shape.tip and shape.first > 0]
    assert moved, "what can be pointed at was there before anything was sent"


def test_a_run_without_messages_opens_at_its_only_step() -> None:
    assert play_timeline(ring_trace(2, rounds=0)).scene.opens_at == 0


@each_played
def test_a_screen_reader_gets_the_whole_run(name: str) -> None:
    scene = PLAYED[name]().scene
    assert scene.to_data()["alt"] == scene.alt
    assert scene.alt.startswith(scene.title) and len(scene.alt) > len(scene.title) + 40


@each_played
def test_all_text_of_a_player_can_be_read_where_there_is_little_room(name: str) -> None:
    scene = PLAYED[name]().scene
    assert scene.width <= WIDTH
    assert [shape.text for shape in scene.shapes if shape.tag == "text" and shape.attributes["font-size"] < SMALL] == []


@each_played
def test_the_names_of_lanes_stay_in_sight(name: str) -> None:
    scene = PLAYED[name]().scene
    assert {shape.text for shape in scene.shapes if shape.sticks} >= {"rank 0"}
    assert all(shape.first == 0 and shape.end is None for shape in scene.shapes if shape.sticks)


@pytest.mark.parametrize("name", DRAWN)
def test_all_text_of_a_picture_can_be_read_where_there_is_little_room(name: str) -> None:
    picture = DRAWN[name]()
    if isinstance(picture, Picture):
        assert {words: size for words, size in text_sizes(picture).items() if size < SMALL - 0.01} == {}

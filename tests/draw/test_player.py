"""Scenes: what a player shows in each step, in shapes and in words."""

from __future__ import annotations

import fnmatch
import html
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
import torch
from hypothesis import given, strategies as st
from nbclient import NotebookClient

from distlib import Communicator, DeadlockError, SimulatedWorld, World
from distlib.authoring.lesson_run import kernel_without_ports
from distlib.collectives import naive_all_reduce, ring_all_reduce
from distlib.draw import ChunkHistory, explore_race, play_chunks, play_timeline, timeline, watch_chunks
from distlib.draw.chunks.chunk_history import ChunkMessage
from distlib.draw.players.chunk_scene import chunk_scene
from distlib.draw.players.scene import Scene, Shape, runs
from distlib.draw.players.still import still_html, still_svg
from distlib.draw.style import INK
from distlib.trace import Trace
from tests.draw.test_chunks import (
    adds_to_another_chunk,
    counts_everything_again,
    deadlocks_in_round_2,
    one_chunk_off,
)
from tests.tools.draw_samples import master_trace, message, ring_trace

Worlds = Callable[[int], World]
SVG = "{http://www.w3.org/2000/svg}"


def seen(scene: Scene, step: int) -> list[Shape]:
    """The shapes that are there in a step."""
    return [shape for shape in scene.shapes if shape.first <= step and (shape.end is None or step < shape.end)]


def words(shapes: Iterable[Shape]) -> list[str]:
    return [shape.text for shape in shapes if shape.tag == "text"]


def arrows(shapes: Iterable[Shape]) -> list[Shape]:
    return [shape for shape in shapes if "→" in shape.tip]


# ── timelines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_by_round_a_step_is_a_round() -> None:
    scene = play_timeline(ring_trace(4)).scene
    assert [step.name for step in scene.steps] == ["start", *(f"round {number} of 6" for number in range(1, 7))]
    assert [len(arrows(seen(scene, step))) for step in range(7)] == [0, 4, 8, 12, 16, 20, 24]
    assert scene.steps[2].words == "Round 2 of 6: 4 messages, 1 KiB. From rank 0 to 1, 1 to 2, 2 to 3, 3 to 0."
    assert scene.steps[0].words == "Nobody has sent anything yet. To come: 24 messages."


def test_a_rank_that_sends_several_messages_at_once_has_one_dot() -> None:
    """Pale dots that lie on each other would not be pale, and their number could not be read."""
    scene = play_timeline(Trace(3, [message(0, dst, 8, 0.0, 0.0, 1.0, 1) for dst in (1, 2, 1)], 1.0)).scene
    assert len([shape for shape in scene.shapes if shape.tag == "circle"]) == 1
    assert len(arrows(scene.shapes)) == 3


def test_an_arrow_says_what_goes_from_whom_to_whom_and_which_line_sent_it() -> None:
    scene = play_timeline(ring_trace(4)).scene
    said = "rank 1 → rank 2: 256 B (64 elements of float32), round 3, sent by cell 7, line 12"
    assert [shape.tip for shape in arrows(seen(scene, 3)) if shape.first == 3][1] == said
    assert scene.steps[3].details[1] == said


def test_by_time_a_step_is_an_arrival_and_a_message_is_under_way_before_it() -> None:
    trace = Trace(3, [message(0, 1, 8, 0.0, 0.0, 1.0, 1), message(0, 2, 16, 0.5, 0.6, 2.0, 1)], 2.0)
    scene = play_timeline(trace, by="time").scene
    assert [step.words for step in scene.steps[1:]] == [
        "After 1 s: 1 message, 8 B. From rank 0 to 1.",
        "After 2 s: 1 message, 16 B. From rank 0 to 2.",
    ]
    first, second = arrows(seen(scene, 1))
    assert first.tip.endswith("line 12") and second.tip.endswith("line 12\nstill on its way")
    assert [arrow.tip.endswith("line 12") for arrow in arrows(seen(scene, 2))] == [True, True]


@pytest.mark.parametrize("by", ["round", "time"])
def test_the_bars_end_at_the_bytes_of_the_trace(by: Any) -> None:
    trace = master_trace(4, 1000)
    scene = play_timeline(trace, by=by).scene
    shown = [text for text in words(seen(scene, len(scene.steps) - 1)) if text.endswith("B")]
    expected = [f"{amount:,} B" for pair in zip(trace.bytes_sent, trace.bytes_received, strict=True) for amount in pair]
    assert shown == [text.replace("3,000 B", "2.93 KiB") for text in expected]
    assert {text for text in words(seen(scene, 0)) if text.endswith("B")} == {"0 B"}


TRACES = {
    "nothing": Trace(3, [], 0.002),
    "nothing at all": Trace(1, []),
    "one message": Trace(2, [message(0, 1, 4, 0.0, 0.0, 0.0, 1)]),
    "empty message": Trace(2, [message(0, 1, 0, 0.1, 0.2, 0.3, 1)]),
    "64 ranks": ring_trace(64, rounds=3),
    "many rounds": ring_trace(3, rounds=200),
}


@pytest.mark.parametrize("by", ["round", "time"])
@pytest.mark.parametrize("name", TRACES)
def test_any_trace_can_be_played(name: str, by: Any) -> None:
    trace = TRACES[name]
    scene = play_timeline(trace, by=by).scene
    assert len(scene.steps) == 1 + (trace.rounds if by == "round" else len({message.end for message in trace}))
    assert len(arrows(seen(scene, len(scene.steps) - 1))) == len(trace)
    assert json.loads(json.dumps(scene.to_data(), allow_nan=False)) == scene.to_data()
    for shape in scene.shapes:
        assert 0 <= shape.first < len(scene.steps) and (shape.end is None or shape.end > shape.first)
        assert -20 <= float(shape.attributes.get("x", 0)) <= scene.width
        assert -20 <= float(shape.attributes.get("y", 0)) <= scene.height


def test_traces_of_both_worlds_can_be_played(worlds: Worlds) -> None:
    for world in (worlds(3), SimulatedWorld(3)):
        world.run(lambda comm: naive_all_reduce(comm, torch.ones(4)))
        assert [step.name for step in play_timeline(world.trace).scene.steps] == [
            "start",
            "round 1 of 2",
            "round 2 of 2",
        ]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: play_timeline([]), TypeError, "expected a Trace, .* got list"),
        (lambda: play_timeline(ring_trace(2), by="size"), ValueError, "expected by='round' or 'time', got 'size'"),
        (lambda: play_timeline(ring_trace(50, rounds=41)), ValueError, "at most 2,000 messages to play, got 2,050: "),
        (lambda: play_chunks(ring_trace(2)), TypeError, "expected a ChunkHistory, .* got Trace"),
    ],
)
def test_what_can_not_be_played_is_one_clear_error(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()


def test_a_trace_that_kept_only_counts_says_so() -> None:
    world = SimulatedWorld(2, record=False)
    world.run(lambda comm: naive_all_reduce(comm, torch.ones(4)))
    with pytest.raises(ValueError, match="expected a trace of messages, got only counts: .*record=True"):
        play_timeline(world.trace)


# ── chunks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", params=["real", "simulated"])
def ring_history(request: pytest.FixtureRequest, worlds: Worlds) -> ChunkHistory:
    return watch_chunks(worlds(4) if request.param == "real" else SimulatedWorld(4), ring_all_reduce)


def test_each_step_shows_what_every_cell_holds(ring_history: ChunkHistory) -> None:
    scene = play_chunks(ring_history).scene
    for step, state in enumerate(ring_history.states):
        tips = [shape.tip for shape in seen(scene, step) if shape.tip.startswith("rank") and "→" not in shape.tip]
        cells = [cell for row in state for cell in row]
        assert len(tips) == len(cells) == 16
        assert [tip.endswith("holds the full sum.") for tip in tips] == [cell.is_full for cell in cells]
        digits = [text for text in words(seen(scene, step)) if text.isdigit()]
        assert len(digits) == sum(count == 1 for cell in cells for count in cell.counts)


def test_each_step_shows_its_own_messages_and_their_lines(ring_history: ChunkHistory) -> None:
    scene = play_chunks(ring_history).scene
    assert [len(arrows(seen(scene, step))) for step in range(7)] == [0, 4, 4, 4, 4, 4, 4]
    said = arrows(seen(scene, 1))[0].tip
    assert re.fullmatch(r"rank 0 → rank 1: chunk 3, round 1, 72 B, sent by ring_all_reduce in ring\.py, line \d+", said)
    assert said in scene.steps[1].details


def test_what_can_be_pointed_at_can_be_read_as_well(ring_history: ChunkHistory) -> None:
    steps = play_chunks(ring_history).scene.steps
    held = [[line for line in step.details if "holds" in line] for step in steps]
    assert [len(lines) for lines in held] == [4] * 7
    assert held[0][1] == "rank 1 holds contributions to " + "; ".join(f"chunk {chunk}: 1" for chunk in range(4))
    assert held[1][1] == "rank 1 holds contributions to chunk 0: 1; chunk 1: 1; chunk 2: 1; chunk 3: 0+1"
    assert held[-1][1] == "rank 1 holds contributions to " + "; ".join(f"chunk {chunk}: all" for chunk in range(4))
    waiting = play_timeline(master_trace(4), by="time").scene
    waits = {shape.tip for shape in waiting.shapes if "waits for" in shape.tip}
    told = [line for step in waiting.steps for line in step.details if "after a wait of" in line]
    assert len(told) == len(waits) == 3 and "after a wait of 1 ms" in told[0]


def test_a_students_own_line_is_named_and_what_it_called() -> None:
    history = watch_chunks(SimulatedWorld(4), calls_the_library)
    line = calls_the_library.__code__.co_firstlineno + 1
    said = f", sent by ring_all_reduce in test_player.py, line {line}"
    assert arrows(seen(play_chunks(history).scene, 1))[0].tip.endswith(said)


def calls_the_library(comm: Communicator, tensor: torch.Tensor) -> None:
    ring_all_reduce(comm, tensor)


def test_the_words_count_full_sums(ring_history: ChunkHistory) -> None:
    steps = play_chunks(ring_history).scene.steps
    assert steps[0].words == "The start: nothing has been sent. Cells with the full sum: 0 of 16."
    assert steps[3].words == "After round 3 of 6: 4 messages. Cells with the full sum: 4 of 16."
    assert not any(step.warning for step in steps)


def test_a_wrong_ring_is_seen_to_go_wrong() -> None:
    scene = play_chunks(watch_chunks(SimulatedWorld(4), counts_everything_again)).scene
    assert [bool(step.warning) for step in scene.steps] == [False] * 4 + [True] * 3
    assert scene.steps[4].warning.startswith("After round 4, chunk 0 on rank 0 holds rank 0's contribution twice.")
    assert "×2" not in words(seen(scene, 3)) and "×2" in words(seen(scene, 4))
    assert any("rank 0's contribution twice" in shape.tip for shape in seen(scene, 4))


def test_a_sum_on_the_wrong_rank_is_marked_and_told() -> None:
    scene = play_chunks(watch_chunks(SimulatedWorld(4), one_chunk_off, end="scattered")).scene
    assert [bool(step.warning) for step in scene.steps] == [False] * 3 + [True]
    assert "rank 0 holds the full sum of chunk 1, which belongs to rank 1" in scene.steps[3].warning
    assert scene.steps[3].words.endswith("Cells with the full sum: 4 of 16. Where it belongs: 0 of 4.")
    assert any("chunk 1: all (belongs to rank 1)" in line for line in scene.steps[3].details)
    hatched = [
        len([shape for shape in seen(scene, step) if shape.attributes.get("stroke-dasharray")]) for step in (2, 3)
    ]
    assert hatched == [1, 1 + 4], "one is the key"
    assert "rank 0, chunk 1: holds the full sum. It belongs to rank 1." in {shape.tip for shape in seen(scene, 3)}


def test_what_does_not_belong_somewhere_is_hatched() -> None:
    scene = play_chunks(watch_chunks(SimulatedWorld(4), adds_to_another_chunk)).scene
    hatched = [[shape for shape in seen(scene, step) if shape.attributes.get("stroke-dasharray")] for step in (0, 1)]
    assert len(hatched[0]) == 1, "the key"
    assert len(hatched[1]) == 1 + 4


def test_a_deadlock_is_played_up_to_the_deadlock() -> None:
    history = watch_chunks(SimulatedWorld(4), deadlocks_in_round_2)
    assert isinstance(history.error, DeadlockError)
    scene = play_chunks(history).scene
    assert [step.name for step in scene.steps] == ["start", "round 1 of 1"]
    assert str(history.error) in scene.steps[1].warning and "Deadlock" not in scene.steps[0].warning
    assert len(arrows(seen(scene, 1))) == 4


def test_a_message_of_the_whole_tensor_is_one_arrow_and_another_one_has_an_arrow_a_chunk() -> None:
    history = watch_chunks(SimulatedWorld(4), ring_all_reduce)
    carried: list[tuple[int, ...]] = [(0, 1, 2, 3), (0, 2), ()]
    for chunks, expected in zip(carried, (1, 2, 1), strict=True):
        history.messages = [ChunkMessage(1, 1, 0, chunks)]
        assert len(arrows(seen(play_chunks(history).scene, 1))) == expected, chunks


def test_the_alternative_text_of_chunks_says_the_numbers_and_who_sends_what() -> None:
    assert play_chunks(watch_chunks(SimulatedWorld(3), ring_all_reduce)).scene.alt == (
        "Whose contributions are in which chunk. Grids of 3 ranks by 3 chunks, one for each round. "
        "Ended after 4 rounds. Cells with the full sum: 9 of 9. "
        "Step by step: start: 0, round 1: 0, round 2: 3, round 3: 6, round 4: 9. "
        "Round 1: 0 sends chunk 2 to 1, 1 sends chunk 0 to 2, 2 sends chunk 1 to 0. "
        "Round 2: 0 sends chunk 1 to 1, 1 sends chunk 2 to 2, 2 sends chunk 0 to 0. "
        "Round 3: 0 sends chunk 0 to 1, 1 sends chunk 1 to 2, 2 sends chunk 2 to 0. "
        "Round 4: 0 sends chunk 2 to 1, 1 sends chunk 0 to 2, 2 sends chunk 1 to 0."
    )


def test_the_alternative_text_of_chunks_says_what_is_odd_but_not_more_messages_than_one_listens_to() -> None:
    twice = watch_chunks(SimulatedWorld(3), counts_everything_again)
    assert "rank 0's contribution twice" in play_chunks(twice).scene.alt
    astray = watch_chunks(SimulatedWorld(4), one_chunk_off, end="scattered")
    assert "which belongs to rank 1" in play_chunks(astray).scene.alt
    assert " sends " not in play_chunks(watch_chunks(SimulatedWorld(5), ring_all_reduce)).scene.alt


def test_16_ranks_fit_into_the_width() -> None:
    scene = chunk_scene(watch_chunks(SimulatedWorld(16), naive_all_reduce, chunks=16), "Sixteen")
    assert scene.width <= 900
    rects = [shape.attributes for shape in scene.shapes if shape.tag == "rect"]
    assert all(float(look["x"]) + float(look["width"]) <= scene.width + 1 for look in rects)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_runs_put_a_list_together_again(values: list[int]) -> None:
    stretches = list(runs(values))
    assert [value for value, first, end in stretches for _ in range(first, end or len(values))] == values
    assert all(one[0] != other[0] for one, other in zip(stretches, stretches[1:], strict=False))


# ── the widget ───────────────────────────────────────────────────────────────────────────────────────────────────────

CELL = """
from distlib.draw import play_timeline
from tests.tools.draw_samples import ring_trace
play_timeline(ring_trace(4), title="A <ring>")
"""


@pytest.mark.slow
def test_a_notebook_gets_a_widget_and_an_image() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    with kernel_without_ports() as settings:
        NotebookClient(notebook, timeout=200, kernel_name="python3", **settings).execute()
    widget, still = notebook.cells[0].outputs
    assert "application/vnd.jupyter.widget-view+json" in widget.data
    assert widget.data["text/plain"] == "<Player: A <ring>. 7 steps>"
    assert '<img alt="A &lt;ring&gt;. Timeline of 4 ranks over rounds: 24 messages' in still.data["text/html"]
    models = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    (state,) = [model["state"] for model in models if "scene" in model["state"]]
    assert state["scene"] == play_timeline(ring_trace(4), title="A <ring>").scene.to_data()
    assert "class Player" in state["_esm"] and ".distlib-player" in state["_css"]


def test_what_the_browser_gets_is_in_the_package_and_loads_nothing(root: Path) -> None:
    packed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["distlib"]
    files = sorted((root / "distlib" / "draw" / "browser").iterdir())
    assert [file.name for file in files] == [
        "form.css",
        "form.js",
        "papers.css",
        "player.css",
        "player.js",
        "slider.css",
        "slider.js",
        "still.css",
    ]
    for file in files:
        name = str(file.relative_to(root / "distlib"))
        assert any(fnmatch.fnmatch(name, pattern) for pattern in packed)
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not any(
            way in text for way in ("http:", "https:", "import(", "import ", "fetch(", "@import", "url(http")
        )


@pytest.fixture(params=["timeline", "chunks", "race"])
def scene(request: pytest.FixtureRequest) -> Scene:
    if request.param == "timeline":
        return play_timeline(ring_trace(4), title="A <ring> & more").scene
    if request.param == "chunks":
        return play_chunks(watch_chunks(SimulatedWorld(4), counts_everything_again)).scene
    return explore_race().scene()


def test_the_image_is_the_last_step(scene: Scene) -> None:
    svg = ElementTree.fromstring(still_svg(scene))
    last = seen(scene, len(scene.steps) - 1)
    assert [text.text for text in svg.iter(f"{SVG}text")] == words(last)
    visible = [shape for shape in last if shape.attributes.get("fill") != "transparent"]
    assert [child.tag for child in svg[1:]] == [SVG + shape.tag for shape in visible]
    assert svg.attrib["color"] == INK


def test_every_hatching_of_the_image_is_defined_once(scene: Scene) -> None:
    svg = ElementTree.fromstring(still_svg(scene))
    used = {look for child in svg.iter() if (look := child.get("fill", "")).startswith(("url", "hatch"))}
    defined = [f"url(#{pattern.get('id')})" for pattern in svg.iter(f"{SVG}pattern")]
    assert set(defined) == used and len(defined) == len(used)


def test_the_image_says_what_is_odd() -> None:
    scene = play_chunks(watch_chunks(SimulatedWorld(4), deadlocks_in_round_2)).scene
    assert html.escape(scene.steps[-1].warning) in still_html(scene)
    assert f'alt="{html.escape(scene.alt)}"' in still_html(scene)
    assert "<pre" not in still_html(play_timeline(ring_trace(4)).scene)


def test_an_error_that_ended_the_run_is_said_from_the_start() -> None:
    steps = play_chunks(watch_chunks(SimulatedWorld(4), deadlocks_in_round_2)).scene.steps
    assert len(steps) == 2
    for step in steps:
        assert step.warning.startswith("This run ended in an error, in round 2:\n") and "deadlock" in step.warning


def test_a_sender_that_waits_is_drawn_waiting_and_its_arrow_begins_when_the_message_is_taken() -> None:
    trace = Trace(3, [message(0, 1, 8, 0.0, 0.1, 1.0, 1), message(2, 1, 8, 0.0, 1.0, 2.0, 1)], 2.0)
    scene = play_timeline(trace, by="time").scene
    waits = [shape for shape in scene.shapes if "waits for 1 s to send to rank 1" in shape.tip]
    assert len(waits) == 1
    late = next(shape for shape in arrows(scene.shapes) if shape.tip.startswith("rank 2"))
    at_the_end_of_the_wait = float(waits[-1].attributes["x"]) + float(waits[-1].attributes["width"])
    assert float(str(late.attributes["d"]).split()[0][1:]) == pytest.approx(at_the_end_of_the_wait, abs=0.2)


def test_its_alternative_text_is_that_of_the_picture() -> None:
    assert play_timeline(ring_trace(4)).scene.alt == timeline(ring_trace(4), by="round").alt


@pytest.mark.slow
def test_a_player_needs_no_matplotlib() -> None:
    code = (
        "import sys; from distlib.draw import play_timeline; from distlib.draw.players.still import still_html\n"
        "from distlib.trace import Trace\n"
        "still_html(play_timeline(Trace(2, [])).scene); sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=100).returncode == 0


def _nothing(comm: Communicator, tensor: torch.Tensor) -> None:
    pass


def test_a_function_that_sends_nothing_can_be_played() -> None:
    scene = play_chunks(watch_chunks(SimulatedWorld(2), _nothing)).scene
    assert [step.name for step in scene.steps] == ["start"]

"""Memory golf with sliders: each move is played, in one unit; what can't be played says why; a narrow picture fits."""

from __future__ import annotations

from typing import Any

import pytest

from distlib.draw import play_golf
from distlib.draw.players.golf_board import GolfBoard
from distlib.draw.players.golf_scene import golf_scene
from distlib.draw.players.still import still_svg
from distlib.draw.style import NARROW, SMALL, WIDTH
from distlib.games.golf_game import GAME
from distlib.training.zero.memory_golf import HOLES, hole_of, score_card, swing


def words(board: GolfBoard) -> str:
    return str(board.widget.scene["steps"][0]["words"])


def set_to(board: GolfBoard, **values: Any) -> None:
    for name, value in values.items():
        board.sliders[name].value = value


def test_a_move_is_played_and_drawn() -> None:
    board = play_golf(1)
    assert "16.5 GB too many, so this gives no points" in words(board)
    set_to(board, stage=3, checkpointed=9, microbatches=2)
    played = swing(1, stage=3, checkpointed=9, microbatches=2)
    assert board.swings[-1] == played
    assert (
        board.widget.scene["title"] == board.widget.narrow["title"] == "Hole 1, short steps: 11 points, better than par"
    )
    assert f"A step takes {played.seconds * 1e3:.0f} ms, par 190 ms" in words(board)
    assert "11 points; par is 50" in score_card(board.swings)


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.name)
def test_par_and_the_record_can_be_set_on_every_board(hole: Any) -> None:
    board = play_golf(hole.number)
    set_to(board, **vars(hole.par))
    assert board.widget.scene["title"].endswith(": 10 points, par")
    set_to(board, **GAME.record(hole.number))
    assert board.widget.scene["title"].endswith("better than par")


def test_what_cannot_be_played_says_why() -> None:
    board = play_golf(1)
    before = len(board.swings)
    set_to(board, microbatches=64)
    assert board.widget.scene["steps"][0]["warning"] == "microbatches × units: at most 1,024 are played, got 1,536."
    assert len(board.swings) == before


@pytest.mark.parametrize("width", [WIDTH, NARROW])
@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.name)
def test_everything_is_inside_the_picture_and_in_gigabytes(hole: Any, width: int) -> None:
    for choice in ({}, vars(hole.par), {"stage": 1, "checkpointed": 3}):
        scene = golf_scene(swing(hole.number, **choice), width)
        assert scene.width == width
        for shape in scene.shapes:
            if shape.tag not in ("rect", "text"):
                continue
            x, size = float(shape.attributes["x"]), float(shape.attributes.get("font-size", SMALL))
            long = float(shape.attributes.get("width", 0.62 * size * len(shape.text)))
            starts = {"middle": x - long / 2, "end": x - long}.get(str(shape.attributes.get("text-anchor")), x)
            assert 0 <= starts and starts + long <= width + 1, shape
            assert 0 <= float(shape.attributes["y"]) <= scene.height
        svg = still_svg(scene)
        assert f"{hole.limit / 1e9:g} GB" in svg and "iB" not in svg + scene.alt


def test_there_is_no_hole_0() -> None:
    with pytest.raises(ValueError, match="a hole from 1 to 5, got 0"):
        play_golf(0)


def test_a_kind_has_its_color_in_every_picture() -> None:
    def fill_of(kind: str, **choice: Any) -> Any:
        shapes = golf_scene(swing(1, **choice)).shapes
        return next(shape.attributes["fill"] for shape in shapes if shape.tip.startswith(kind))

    assert fill_of("activations") == fill_of("activations", stage=3)
    assert hole_of(1).name == "short steps"

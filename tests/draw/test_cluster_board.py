"""The game with sliders: every move is played, what can't be played says why, and the picture says what happened."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from distlib.draw import play_cluster
from distlib.draw.players.cluster_board import ClusterBoard
from distlib.draw.players.cluster_scene import cluster_scene
from distlib.draw.players.scene import Scene
from distlib.draw.players.still import still_svg
from distlib.draw.style import NARROW, WIDTH
from distlib.training.strategy.cluster_game import LEVELS, lay_out, play_layout, score_card


def words(board: ClusterBoard) -> str:
    return str(board.widget.scene["steps"][0]["words"])


def set_to(board: ClusterBoard, **values: Any) -> None:
    for name, value in values.items():
        board.sliders[name].value = value


def test_a_move_is_played_and_drawn() -> None:
    board = play_cluster(2)
    set_to(board, tp=4, stage=1)
    played = lay_out(2, dp=2, tp=4, stage=1)
    assert board.layout() == played.layout
    assert board.attempts[-1] == played
    assert f"A step takes {played.played.seconds * 1e3:.0f} ms" in words(board)
    assert f"dp {played.played.crossing['dp'] / 1e9:.3g} GB" in words(board)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_par_can_be_set_on_every_board(level: Any) -> None:
    board, par = play_cluster(level.number), level.par
    names = ("tp", "pp", "stage", "microbatches", "recompute", "axes")
    set_to(board, **{name: getattr(par, name) for name in names})
    assert board.layout() == par
    assert f"{level.name}: 10 points" in words(board)


def test_moved_layers_beat_par_where_machines_are_not_alike() -> None:
    board = play_cluster(5)
    set_to(board, tp=2, pp=2, microbatches=16, moved=1)
    assert board.layout().layers == (6, 3)
    assert board.attempts[-1].points > 10
    assert f"{board.attempts[-1].points} points; par is 50" in score_card(board.attempts)


def test_what_cannot_be_played_says_why() -> None:
    board = play_cluster(2)
    set_to(board, tp=8)
    before = len(board.attempts)
    set_to(board, pp=2)
    step = board.widget.scene["steps"][0]
    assert step["warning"] == "pp 2 × tp 8 does not divide the 8 ranks"
    assert len(board.attempts) == before
    set_to(board, pp=1, tp=1, microbatches=8)
    assert "a batch of 8 sequences" in board.widget.scene["steps"][0]["warning"]


def test_a_stage_without_layers_is_refused() -> None:
    board = play_cluster(3)
    set_to(board, pp=4, moved=3)
    assert "at least 1 as layers of a stage" in board.widget.scene["steps"][0]["warning"]


class Doorbell:
    """A lock that says when somebody has to wait for it."""

    def __init__(self) -> None:
        self.lock, self.rung = threading.RLock(), threading.Event()

    def __enter__(self) -> None:
        if not self.lock.acquire(blocking=False):
            self.rung.set()
            self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_of_two_moves_at_once_the_last_picture_shows_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes, on another thread, when the first picture is complete but not yet shown."""
    board, lock = play_cluster(2), Doorbell()
    monkeypatch.setattr(board, "_drawing", lock)
    draw = board.scenes
    other_move = threading.Thread(target=set_to, args=(board,), kwargs={"pp": 2})

    def scenes_of_the_first() -> tuple[Scene, Scene]:
        monkeypatch.setattr(board, "scenes", draw)
        scenes = draw()
        other_move.start()
        assert lock.rung.wait(100)
        return scenes

    monkeypatch.setattr(board, "scenes", scenes_of_the_first)
    set_to(board, tp=8)
    other_move.join()
    assert board.widget.scene["steps"][0]["warning"] == "pp 2 × tp 8 does not divide the 8 ranks"


def test_ranks_links_limit_and_par_are_in_the_picture() -> None:
    played = play_layout(LEVELS[3], LEVELS[3].par)
    scene = cluster_scene(played)
    texts = [shape.text for shape in scene.shapes if shape.tag == "text"]
    assert {f"rank {rank}" for rank in range(8)} <= set(texts)
    assert f"par {played.level.par_seconds * 1e3:.0f} ms" in texts
    assert "limit 10 GB" in texts
    carried = played.played.carried["dp"]
    assert f"between nodes 0 and 1, each way: dp {carried[0, 1] / 1e9:.3g} GB" in texts
    assert len(scene.steps[0].details) == 8


@pytest.mark.parametrize("width", [WIDTH, NARROW])
@pytest.mark.parametrize("layout", [{"dp": 4}, {"pp": 4, "microbatches": 16}, {"tp": 4}])
def test_everything_is_inside_the_picture(layout: dict[str, int], width: int) -> None:
    scene = cluster_scene(lay_out(3, **layout), width)  # type: ignore[arg-type]
    assert scene.width == width
    for shape in scene.shapes:
        if shape.tag in ("rect", "text"):
            assert 0 <= float(shape.attributes["x"]) <= scene.width
            assert 0 <= float(shape.attributes["y"]) <= scene.height
    assert "rank 3" in still_svg(scene)


def test_there_is_no_level_0() -> None:
    with pytest.raises(ValueError, match="a level from 1 to 5, got 0"):
        play_cluster(0)

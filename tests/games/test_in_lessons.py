"""The games as lessons call them: what a student plays is kept where the student works, and nowhere else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from distlib.games.game_list import all_games
from distlib.games.in_lessons import NotPlayed, fill, lay_out, play_cluster, play_golf, swing
from distlib.games.my_games import FILE, best_plays, games_folder
from distlib.training.schedules import puzzle

ROWS = [["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder in a course; the current folder is that of the lessons in it."""
    (tmp_path / "exercises").mkdir()
    (tmp_path / "distlib").mkdir()
    (tmp_path / "distlib" / "__init__.py").touch()
    (tmp_path / "work" / "lessons").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work" / "lessons")
    return tmp_path / "work"


def test_a_play_gives_the_same_and_is_kept(work: Path) -> None:
    assert fill(1, ROWS).points == puzzle.fill(1, ROWS).points == 23
    (kept,) = best_plays(work)
    assert (kept.game, kept.level, kept.score, kept.unit, kept.par) == ("grid", 1, 23, "points", 20)
    again = all_games()["grid"].play(1, kept.choices)
    assert again.schedule == puzzle.fill(1, ROWS).schedule


def test_the_best_of_each_game_and_level_is_kept(work: Path) -> None:
    swing(1, stage=3, checkpointed=20)
    swing(1, stage=3, checkpointed=16)
    lay_out(5, dp=2, tp=2)
    lay_out(5, pp=2, tp=2, microbatches=16, layers=(6, 3))
    found = {(each.game, each.level): each.choices for each in best_plays(work)}
    assert found["golf", 1]["checkpointed"] == 16
    assert found["layout", 5]["layers"] == [6, 3]


def test_what_does_not_count_is_not_kept(work: Path) -> None:
    swing(1, stage=0)
    lay_out(2, tp=8)
    assert not (work / FILE).exists()


def test_moves_of_sliders_are_kept(work: Path) -> None:
    board = play_cluster(1)
    board.sliders["stage"].index = 3
    assert {each.game for each in best_plays(work)} == {"layout"}


def test_nothing_is_kept_in_the_course_itself(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work.parent)
    fill(1, ROWS)
    assert not list(work.parent.rglob(FILE))
    assert games_folder(work.parent / "exercises") == work


def test_without_a_course_it_is_kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fill(1, ROWS)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_file_that_cannot_be_written_stops_no_lesson(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("distlib.games.keep_here.keep_best", _full)
    assert fill(1, ROWS).points == 23
    assert "This play is not kept: " in capsys.readouterr().out


def _full(*_: object) -> str:
    raise OSError(28, "No space left on device")


def test_a_torn_file_is_named_in_the_lesson(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / FILE).write_text('{"format": 1, "pl')
    fill(1, ROWS)
    assert "my_games.json is torn" in capsys.readouterr().out
    assert best_plays(work)[0].score == 23


def test_swings_of_sliders_are_kept(work: Path) -> None:
    board = play_golf(1)
    assert not (work / FILE).exists(), "nobody has moved anything"
    board.sliders["stage"].value = 3
    board.sliders["checkpointed"].value = 24
    (kept,) = best_plays(work)
    assert (kept.game, kept.level, kept.by) == ("golf", 1, "widget")


@pytest.mark.parametrize(
    ("play", "sentence"),
    [
        (lambda: swing(6), "This can't be played: expected a hole from 1 to 5, got 6"),
        (lambda: swing(1, stage=5), "This can't be played: expected a stage from 0 to 3, got 5"),
        (lambda: play_golf(0), "This can't be played: expected a hole from 1 to 5, got 0"),
        (lambda: play_cluster(9), "This can't be played: expected a level from 1 to 5, got 9"),
    ],
)
def test_what_cannot_be_played_is_one_sentence_in_a_notebook(play: Callable[[], object], sentence: str) -> None:
    with pytest.raises(NotPlayed) as caught:
        play()
    assert caught.value._render_traceback_() == [sentence]
    assert isinstance(caught.value, ValueError) and caught.value.__suppress_context__

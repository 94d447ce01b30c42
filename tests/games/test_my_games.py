"""A student's best plays outlive the kernel: in a readable file, of which nothing is lost."""

import json
import os
import stat
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from distlib.classroom.board.own_board import own_board
from distlib.games import BestPlay, PlaysUnreadable, best_plays
from distlib.games.my_games import FILE, keep_best, keep_pseudonym, read_games

AT = "2026-11-27T13:20:00+00:00"
GRID = BestPlay("grid", "Fill the grid", "09_pipeline", 1, "GPipe", 18, "points", False, 20, AT, {"rows": ["F0", "B0"]})
GOLF = BestPlay("golf", "Memory golf", "11_zero", 2, "long documents", 900.5, "ms", True, 841.0, AT, {"stage": 3})


def test_the_best_play_of_each_level_is_kept(tmp_path: Path) -> None:
    for points in (18, 22, 20):
        keep_best(tmp_path, [replace(GRID, score=points)])
    for milliseconds in (900.5, 850.0, 870.0):
        keep_best(tmp_path, [replace(GOLF, score=milliseconds)])
    keep_best(tmp_path, [replace(GRID, level=2)])
    found = {(play.game, play.level): play.score for play in best_plays(tmp_path)}
    assert list(found.items()) == [(("grid", 1), 22), (("grid", 2), 18), (("golf", 2), 850.0)]


def test_what_was_the_best_before_is_remembered(tmp_path: Path) -> None:
    for day, points in enumerate((18, 22, 20, 23), start=1):
        keep_best(tmp_path, [replace(GRID, score=points, at=f"2026-12-0{day}T00:00:00+00:00")])
    (found,) = best_plays(tmp_path)
    assert found.earlier == (("2026-12-01T00:00:00+00:00", 18), ("2026-12-02T00:00:00+00:00", 22))


def test_the_first_of_equals_stays(tmp_path: Path) -> None:
    keep_best(tmp_path, [GRID])
    keep_best(tmp_path, [replace(GRID, at="2027-01-01T00:00:00+00:00")])
    assert best_plays(tmp_path) == (GRID,)


def test_no_file_is_no_plays(tmp_path: Path) -> None:
    assert best_plays(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_person_can_read_it(tmp_path: Path) -> None:
    keep_best(tmp_path, [GRID])
    text = (tmp_path / FILE).read_text()
    assert "Nothing sends this file" in text and '"title": "Fill the grid"' in text and text.endswith("}\n")


def newer(text: str) -> str:
    return text.replace('"format": 1', '"format": 2')


def torn(text: str) -> str:
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (torn, "is torn"),
        (newer, "is of a newer version of the course (format 2, here 1)"),
        (lambda text: "", "is torn"),
        (lambda text: "[" * 100_000, "is torn"),
        (lambda text: text.replace('"score": 18', '"score": NaN'), "is torn"),
        (lambda text: text.replace('"score": 18', '"score": "18"'), "is torn"),
        (lambda text: text.replace(AT, "yesterday"), "is torn"),
        (lambda text: text.replace("}", "", 1), "is torn"),
        (lambda text: " " * (2 << 20), "is not a file of plays"),
    ],
)
def test_what_cannot_be_read_is_set_aside_and_nothing_is_lost(tmp_path: Path, spoil, why: str) -> None:
    keep_best(tmp_path, [GRID])
    spoiled = spoil((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(spoiled)
    with pytest.raises(PlaysUnreadable, match=FILE) as error:
        best_plays(tmp_path)
    assert why in str(error.value)
    assert (tmp_path / FILE).read_text() == spoiled, "reading changes nothing"
    said = keep_best(tmp_path, [GOLF])
    assert why in said and "my_games (set aside 1).json" in said
    assert (tmp_path / "my_games (set aside 1).json").read_text() == spoiled
    assert best_plays(tmp_path) == (GOLF,)


def test_several_are_set_aside_under_names_of_their_own(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / FILE).write_text(f"torn {number}")
        assert f"(set aside {number})" in keep_pseudonym(tmp_path, "Owl")
    assert (tmp_path / "my_games (set aside 1).json").read_text() == "torn 1"


def test_a_folder_in_its_place_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    assert "is not a file of plays" in keep_best(tmp_path, [GRID])
    assert best_plays(tmp_path) == (GRID,)


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(PlaysUnreadable, match="is not a file of plays"):
        best_plays(tmp_path)


def test_a_pseudonym_comes_and_goes_and_plays_stay(tmp_path: Path) -> None:
    keep_best(tmp_path, [GRID])
    keep_pseudonym(tmp_path, "Night Owl")
    keep_best(tmp_path, [GOLF])
    assert read_games(tmp_path).pseudonym == "Night Owl"
    keep_pseudonym(tmp_path, "")
    assert read_games(tmp_path).pseudonym == "" and best_plays(tmp_path) == (GRID, GOLF)


def test_plays_of_several_lessons_at_once_are_all_kept(tmp_path: Path) -> None:
    plays = [replace(GRID, level=level) for level in range(1, 25)]
    threads = [threading.Thread(target=keep_best, args=(tmp_path, [play])) for play in plays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert best_plays(tmp_path) == tuple(plays)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_nothing_is_written_when_nothing_is_better(tmp_path: Path) -> None:
    keep_best(tmp_path, [GRID])
    before = (tmp_path / FILE).stat()
    keep_best(tmp_path, [replace(GRID, score=3)])
    after = (tmp_path / FILE).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert stat.S_ISREG(after.st_mode) and json.loads((tmp_path / FILE).read_text())["plays"][0]["score"] == 18


def test_plays_of_a_replaced_level_are_kept_and_compared_with_no_other(tmp_path: Path) -> None:
    """Hole 2 was easier once: its seconds are not those of today's hole 2."""
    old = replace(GOLF, level_name="long texts", score=500.0)
    text = json.dumps({"format": 1, "about": "", "pseudonym": None, "plays": [asdict(old)]})
    (tmp_path / FILE).write_text(text)
    keep_best(tmp_path, [GOLF])
    found = {(play.game, play.level_name): play.score for play in best_plays(tmp_path)}
    assert found == {("golf", "long documents"): 900.5, ("earlier golf", "long texts"): 500.0}
    assert [play.level_name for play in read_games(tmp_path).to_play_again] == ["long documents"]
    assert read_games(tmp_path) == read_games(tmp_path), "read again, it is the same"
    assert "Memory golf, earlier levels" in own_board(read_games(tmp_path))

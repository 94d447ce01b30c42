"""What is handed in is read as a stranger's: whatever stands there, it is a play or is named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from distlib.games.choice_values import check_names
from distlib.games.course_game import ChoiceError
from distlib.games.game_list import all_games
from distlib.games.handed_plays import MOST_BYTES, MOST_PLAYS, HandedPlay, NotPlays, plays_to_hand_in, read_handed
from distlib.games.my_games import BestPlay, MyGames
from distlib.games.replays import GameReplay, replay_here, replay_plays, why_unknown
from tests.tools.game_class import handed_in

ROWS = {"rows": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}
PLAY = {"game": "grid", "level": 1, "choices": ROWS}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def put(folder: Path, data: Any, name: str = "my_games.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def games(plays: Any, **more: Any) -> dict[str, Any]:
    return {"distlib_games": 1, "pseudonym": None, "plays": plays, **more}


def test_what_is_made_is_read(tmp_path: Path) -> None:
    for text, name in ((handed_in([("grid", 1, ROWS)], "Owl"), "games.ipynb"), (handed_json("Owl"), "my_games.json")):
        found = read_handed(put(tmp_path, text, name))
        assert found.plays == (HandedPlay("grid", 1, json.dumps(ROWS)),)
        assert found.pseudonym == "Owl" and found.made and not found.problems


def handed_json(pseudonym: str) -> str:
    return plays_to_hand_in(MyGames((BestPlay("grid", "", "", 1, "", 99, "", False, 0, "", ROWS),), pseudonym))


def test_scores_are_not_handed_in() -> None:
    assert "99" not in handed_json("") and "score" not in handed_json("")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "torn"),
        ('{"distlib_games": 1, "pl', "torn"),
        ("null", "torn"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 50_000, "nested too deeply"),
        (games([PLAY] * (MOST_PLAYS + 1)), "at most 200 plays, got a list with 201 entries"),
        (games({"grid": 23}), "got a table with 1 entries"),
        (games([PLAY], distlib_games=2), "it has format 2"),
        (games([PLAY], distlib_games=True), "it has format True"),
        (" " * (MOST_BYTES + 1), "more than 256 KiB"),
        ('{"distlib_games": 1' + "0" * 5_000 + "}", "torn"),
    ],
)
def test_a_file_without_plays_says_why(tmp_path: Path, content: Any, why: str) -> None:
    with pytest.raises(NotPlays, match=why):
        read_handed(put(tmp_path, content))


def test_links_pipes_and_folders_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path, games([PLAY]))
    (tmp_path / "link.json").symlink_to(tmp_path / "my_games.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name, why in (("link", "a link"), ("pipe", "not a file"), ("folder", "not a file"), ("none", "No such file")):
        with pytest.raises(NotPlays, match=why):
            read_handed(tmp_path / f"{name}.json")


def test_a_forged_score_is_named_and_not_read(tmp_path: Path) -> None:
    found = read_handed(put(tmp_path, games([{**PLAY, "score": 1e9}])))
    assert found.problems == ("play 1: brings a value of its own for score, which nobody reads",)
    assert replay_here(found.plays[0]).score == 23


@pytest.mark.parametrize(
    "entry", [None, 3, [], {}, {"game": "grid"}, {**PLAY, "choices": []}, {**PLAY, "choices": None}]
)
def test_an_entry_that_is_no_play_leaves_the_others(tmp_path: Path, entry: Any) -> None:
    found = read_handed(put(tmp_path, games([entry, PLAY])))
    assert len(found.plays) == 1 and found.problems[0].startswith("play 1: ")


@given(data=JSON)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_read_or_refused(tmp_path: Path, data: Any) -> None:
    for content in (data, games(data), games([data]), games([{**PLAY, "choices": data}], pseudonym=data)):
        try:
            found = read_handed(put(tmp_path, content))
        except NotPlays:
            continue
        for play in found.plays:
            assert why_unknown(play) or replay_here(play) is not None


@pytest.mark.parametrize("name", list(all_games()))
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_odd_choices_are_refused_in_a_sentence(name: str, data: st.DataObject) -> None:
    """One choice of a good play is replaced by anything."""
    choices = all_games()[name].record(1)
    key = data.draw(st.sampled_from(sorted(choices)))
    odd = data.draw(JSON.filter(lambda value: type(value) not in (int, float, bool, list)))
    replay = replay_here(HandedPlay(name, 1, json.dumps({**choices, key: odd})))
    assert (replay.score is None) == bool(replay.problem)
    assert len(replay.problem) <= 300 and "\n" not in replay.problem


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 0, 10**400, True, "3", [], {}, None, 2.5])
def test_a_number_is_a_number_in_its_range(value: Any) -> None:
    for name, key in (("golf", "microbatches"), ("layout", "dp"), ("server", "servers")):
        text = json.dumps({**all_games()[name].record(1), key: value})
        assert replay_here(HandedPlay(name, 1, text)).problem.startswith(f"{key}: expected a whole number from 1 to")


def test_names_must_be_those_of_the_game() -> None:
    with pytest.raises(ChoiceError, match="missing or unknown: 'x'"):
        check_names({"rows": [], "x": 1}, ("rows",))


@pytest.mark.slow
def test_equal_choices_are_played_once_and_a_large_replay_ends() -> None:
    """Two processes: one play needs more time, one more memory than it may have. The others have their scores."""
    good = HandedPlay("grid", 1, json.dumps(ROWS))
    long = {"microbatches": 256, "blocks_per_unit": 12}  # three seconds of a fast processor, where one is allowed
    endless = HandedPlay("golf", 5, json.dumps({**all_games()["golf"].record(5), **long}))
    told = list[tuple[int, int]]()
    plays = [good, good, endless, good, HandedPlay("grid", 2, json.dumps(all_games()["grid"].record(2)))]
    found = replay_plays(plays, jobs=2, cpu_seconds=0, tell=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert found[good].score == 23 and found[plays[-1]].score == 20
    assert found[endless] == GameReplay(None, "its replay takes more than 0 s of processor time")


def test_too_much_work_is_refused_before_it_begins() -> None:
    choices = {**all_games()["golf"].record(3), "microbatches": 131_072}
    assert replay_here(HandedPlay("golf", 3, json.dumps(choices))).problem == (
        "microbatches × units: at most 1,024 are replayed, got 1,572,864"
    )

"""`distlib board`: scores are those of replays, names those that students chose, and nobody can disturb anybody."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from distlib.checks.training_scores import TrainingScore
from distlib.classroom.board.class_board import ClassBoard, has_class, make_board
from distlib.classroom.board.class_plays import StudentPlays
from distlib.classroom.board.pseudonym_owners import award
from distlib.classroom.board.standings import BoardRun, standings
from distlib.classroom.grader.course import Course, CourseError, open_course
from distlib.classroom.grader.student_record import Record, record_path
from distlib.classroom.uploads.collect import COLLECTED, LEFT_OUT, collect
from distlib.classroom.uploads.hand_in import HandInError
from distlib.classroom.uploads.hand_in_games import hand_in_games
from distlib.classroom.uploads.plays_besides import put_plays_besides
from distlib.cli import main
from distlib.games.game_list import all_games
from distlib.games.handed_plays import HandedPlay, read_handed
from distlib.games.my_games import BestPlay, keep_best, keep_pseudonym
from distlib.judge.remote.introspection_remarks import REACHES_INSIDE
from tests.tools.game_class import AT, handed_in, put_games

ROOT = Path(__file__).parents[2]
BEST = {"rows": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}  # 23 points
PAR = {"rows": ["F0 F1 B0 B1", "F0 F1 B0 B1"]}  # 20 points


def new_course(folder: Path) -> Course:
    (folder / "solutions").mkdir(parents=True)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    return open_course(folder)


def grid(choices: Any, pseudonym: str = "", level: int = 1) -> str:
    return handed_in([("grid", level, choices)], pseudonym)


HOSTILE = {
    "forger": grid(PAR, "Forger").replace('\\"choices\\"', '\\"score\\": 1e9, \\"choices\\"'),
    "nan": handed_in([("golf", 1, {**all_games()["golf"].record(1), "microbatches": float("nan")})], "Nan Nan"),
    "endless": handed_in([("golf", 3, {**all_games()["golf"].record(3), "microbatches": 131_072})], "Endless"),
    "html": grid(PAR, "<b>alert(1)</b>"),
    "turned": grid(PAR, "owl\u202egpj"),
    "long": grid(PAR, "a" * 5_000),
    "nested": '{"cells": ' + "[" * 100_000,
    "torn": grid(PAR)[:300],
    "nowhere": handed_in([("chess", 1, {"opening": "e4"}), ("grid", 99, BEST), ("grid", 1, {"rows": "F0"})], "Nowhere"),
    "thief": grid(PAR, "night-owl"),
    "named": grid(PAR, "Ada Lovelace"),
}


def training(setting: str, seconds: float) -> dict[str, Any]:
    return TrainingScore(setting, seconds, 2.0, 0.27, ((0.0, 2.3), (seconds, 0.26))).as_data()


def put_record(course: Course, student: str, trainings: list[dict[str, Any]], *remarks: str, problem: str = "") -> None:
    """What grading leaves of a student."""
    path = record_path(course, "19b_budget", student)
    path.parent.mkdir(parents=True)
    notebook = course.folder("submitted", student, "19b_budget") / "19b_budget.ipynb"
    notebook.parent.mkdir(parents=True)
    notebook.write_text("{}")
    path.write_text(json.dumps(asdict(Record(student, problem, list(remarks), trainings=trainings))))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, ClassBoard, str]:
    """A class of a few who play, and of those who try what must not work; Ada had her pseudonym on an earlier board."""
    course = new_course(tmp_path_factory.mktemp("board") / "course")
    classroom = course.root / "classroom"
    submitted = classroom / "submitted"
    put_games(submitted, "ada", grid(BEST, "Night Owl"))
    put_games(submitted, "ben", grid(BEST, "Tide"))
    put_games(submitted, "cleo", grid(PAR, "Quiet"))
    put_games(submitted, "dan", grid(PAR))
    for student, notebook in HOSTILE.items():
        put_games(submitted, student, notebook)
    (submitted / "link" / "games").mkdir(parents=True)
    (submitted / "link" / "games" / "games.ipynb").symlink_to(submitted / "ada" / "games" / "games.ipynb")
    (submitted / "pipe" / "games").mkdir(parents=True)
    os.mkfifo(submitted / "pipe" / "games" / "games.ipynb")
    put_record(course, "ada", [training("four alike", 1.234), training("a slow network", 9.0)])
    put_record(course, "ben", [training("four alike", 2.5), training("a slow network", 8.0)])
    put_record(course, "dan", [training("four alike", 1.0), training("a slow network", 7.0)])
    put_record(course, "cleo", [])
    put_record(
        course,
        "forger",
        [training("four alike", 0.001), training("a slow network", 0.002)],
        f"{REACHES_INSIDE}, where a rank could lie",
    )
    put_record(course, "torn", [{"setting": "four alike"}])
    put_record(course, "long", [training("four alike", 1.0)])
    (classroom / "pseudonyms.json").write_text('{"ada": ["Night Owl"]}')
    (classroom / "students.csv").write_text("id,first_name,last_name\nal,Ada,Lovelace\n")
    board = make_board(course, jobs=2)
    return course, board, board.page.read_text()


@pytest.mark.slow
def test_scores_are_those_of_replays_and_ties_share_a_place(made: tuple[Course, ClassBoard, str]) -> None:
    page = made[2]
    level = page[page.index("Level 1, GPipe") : page.index("Level 2, GPipe")]
    first = level[level.index("<table>") :]
    assert first.index("<bdi>Night Owl</bdi>, <bdi>Tide</bdi>") < first.index("23 points")
    assert first.index("<bdi>Forger</bdi>, <bdi>Quiet</bdi>") > first.index("23 points")
    assert '<td class="position">1</td>' in first and '<td class="position">3</td>' in first
    assert "1,000,000,000" not in page and "1e9" not in page


@pytest.mark.slow
def test_a_score_shows_the_picture_of_its_run(made: tuple[Course, ClassBoard, str]) -> None:
    page = made[2]
    plays = page.split("The project")[0]
    assert plays.count("<svg ") == 2 and plays.count("<details") == 2
    assert "one of" not in page, "both reach 23 points by the same choices"


@pytest.mark.slow
def test_who_has_no_pseudonym_is_counted_only(made: tuple[Course, ClassBoard, str]) -> None:
    page = made[2]
    for student in ("dan", "cleo", "ben", *HOSTILE):
        assert f">{student}<" not in page
    assert re.search(r"\d students play, or have a\s+training, without a name on it", page)


@pytest.mark.slow
def test_nothing_on_the_page_is_loaded_or_runs(made: tuple[Course, ClassBoard, str]) -> None:
    page = made[2]
    assert "<script" not in page and "alert(" not in page and "\u202e" not in page
    assert "default-src 'none'" in page
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "") and "https:" not in page


@pytest.mark.parametrize(
    ("student", "problem"),
    [
        ("forger", "brings a value of its own for score, which nobody reads"),
        ("nan", "Memory golf, level 1: microbatches: expected a whole number"),
        ("endless", "Memory golf, level 3: microbatches × units: at most 1,024 are replayed"),
        ("html", "a pseudonym has letters, digits, blanks"),
        ("turned", "a pseudonym has letters, digits, blanks"),
        ("long", "a pseudonym has at most 24 signs, got 5,000"),
        ("nested", "games/games.ipynb: it is nested too deeply"),
        ("torn", "games/games.ipynb: it is torn, or holds no plays"),
        ("nowhere", "there is no game 'chess'"),
        ("nowhere", "Fill the grid has no level 99"),
        ("nowhere", "rows: expected a list of 2 texts, got 'F0'"),
        ("thief", "the pseudonym night-owl is that of ada, who had it first"),
        ("named", "the pseudonym Ada Lovelace is the name of al"),
        ("link", "games/games.ipynb: it is a link"),
        ("pipe", "games/games.ipynb: it is not a file"),
    ],
)
@pytest.mark.slow
def test_each_attempt_is_named_to_the_instructor(
    made: tuple[Course, ClassBoard, str], student: str, problem: str
) -> None:
    assert problem in "\n".join(made[1].problems[student])


@pytest.mark.slow
def test_the_others_are_not_disturbed(made: tuple[Course, ClassBoard, str]) -> None:
    board = made[1]
    assert {"ada", "ben", "cleo", "dan"} & set(board.problems) == set()
    assert board.names == 4  # ada, ben, cleo and forger; three with a name have nothing that counts


@pytest.mark.slow
def test_the_page_is_the_same_to_the_bit(
    made: tuple[Course, ClassBoard, str], capsys: pytest.CaptureFixture[str]
) -> None:
    course, board, page = made
    assert main(["board", "--course", str(course.root), "--jobs", "1"]) == 1
    assert board.page.read_text() == page
    assert "nested: games/games.ipynb: it is nested too deeply" in capsys.readouterr().out


@pytest.mark.slow
def test_pseudonyms_are_kept_for_the_next_board(made: tuple[Course, ClassBoard, str]) -> None:
    held = json.loads((made[0].root / "classroom" / "pseudonyms.json").read_text())
    assert held["ada"] == ["Night Owl"] and held["ben"] == ["Tide"] and "thief" not in held


@pytest.mark.slow
def test_a_board_without_hand_ins_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = new_course(tmp_path / "course")
    (course.root / "classroom" / "students.csv").write_text("id\nada\n")
    assert main(["board", "--course", str(course.root)]) == 0
    assert "Nobody has handed in plays yet" in capsys.readouterr().out
    assert "No score has a name yet" in (course.root / "classroom" / "board" / "board.html").read_text()


def test_a_broken_list_of_pseudonyms_is_named(tmp_path: Path) -> None:
    course = new_course(tmp_path / "course")
    (course.root / "classroom" / "pseudonyms.json").write_text("[1")
    with pytest.raises(CourseError, match="pseudonyms.json can't be used: expected JSON such as"):
        make_board(course)


# ── whose a pseudonym is ─────────────────────────────────────────────────────────────────────────────────────────────


def asks(student: str, pseudonym: str, time: datetime | None = None) -> StudentPlays:
    return StudentPlays(student, (), pseudonym, time, ())


def test_two_who_ask_at_once_get_it_by_time_or_not_at_all() -> None:
    early, late = datetime(2026, 12, 1), datetime(2026, 12, 2)
    awarded, problems = award([asks("ada", "Owl", late), asks("ben", "OWL", early)], {}, {})
    assert awarded == {"ben": "OWL"} and "also asked for by ben, who was first" in problems["ada"]
    for first, second in ((early, None), (None, None), (early, early)):
        awarded, problems = award([asks("ada", "Owl", first), asks("ben", "owl", second)], {}, {})
        assert awarded == {} and set(problems) == {"ada", "ben"}


def test_who_leaves_is_gone_and_nobody_gets_the_name() -> None:
    held = {"ada": ["Owl"]}
    awarded, problems = award([asks("ada", ""), asks("ben", "Owl")], held, {})
    assert awarded == {} and "is that of ada" in problems["ben"]
    assert award([asks("ada", "owl")], held, {})[0] == {"ada": "owl"}


# ── places ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_places_and_the_best_of_several_plays() -> None:
    game = all_games()["golf"]
    runs = [
        BoardRun(student, "golf", 1, score, made_of, "", "")
        for student, score, made_of in (
            *(("a", 200.0, "0"), ("a", 154.8, "1"), ("b", 154.8, "2"), ("c", 200.0, "0"), ("e", 200.0, "0")),
        )
    ]
    table = standings([game], runs, {"a": "A", "b": "B", "c": "C", "d": "D"})[0]
    assert [(each.position, each.names, each.run.score, each.ways) for each in table.standings] == [
        (1, ("A", "B"), 154.8, 2),
        (3, ("C",), 200.0, 1),
    ]
    assert table.others == 1


# ── from a student to the instructor ─────────────────────────────────────────────────────────────────────────────────

TRAINED = ("a slow network", 12.5, "s", True, 14.667)
PLAY = BestPlay("grid", "Fill the grid", "09_pipeline", 1, "GPipe", 23, "points", False, 20, AT, BEST, by="cell")


@pytest.fixture
def student(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's course, with a play; the current folder is that of the lessons."""
    root = tmp_path / "mine"
    for folder in ("exercises", "distlib", "work/lessons"):
        (root / folder).mkdir(parents=True)
    (root / "distlib" / "__init__.py").touch()
    keep_best(root / "work", [PLAY])
    monkeypatch.chdir(root / "work" / "lessons")
    return root


def test_a_student_hands_in_and_the_instructor_collects(
    student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["board", "--as", "Night Owl"]) == 0
    assert main(["hand-in", "games", "--name", "Ada Lovelace"]) == 0
    assert "On the board of the class you appear as Night Owl." in capsys.readouterr().out
    uploads = student / "work" / "handed_in"
    course = new_course(tmp_path / "course")
    uploaded = uploads / "games--ada-lovelace.ipynb"
    assert [outcome.state for outcome in collect(course, "games", [uploaded]).outcomes] == [COLLECTED]
    found = read_handed(course.root / "classroom" / "submitted" / "ada-lovelace" / "games" / "games.ipynb")
    assert found.plays == (HandedPlay("grid", 1, json.dumps(BEST)),) and found.pseudonym == "Night Owl"
    others = collect(course, "02_all_reduce", [uploaded]).outcomes
    assert [(outcome.state, outcome.why) for outcome in others] == [(LEFT_OUT, "it is a hand-in of games")]


def test_nothing_to_hand_in_is_said(student: Path) -> None:
    (student / "work" / "my_games.json").unlink()
    with pytest.raises(HandInError, match="my_games.json yet. The lessons"):
        hand_in_games("Ada")


def test_with_an_exercise_plays_go_to_an_exchange_only_if_asked_for(student: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "02.ipynb"
    copy.parent.mkdir()
    original = student / "work" / "lessons" / "02.ipynb"
    put_plays_besides(copy, original)
    assert list(copy.parent.iterdir()) == []
    keep_pseudonym(student / "work", "Owl")
    put_plays_besides(copy, original)
    assert read_handed(copy.parent / "my_games.json").pseudonym == "Owl"
    (student / "work" / "my_games.json").write_text("torn")
    put_plays_besides(copy, original)  # the exercise is handed in all the same


def test_a_student_sees_own_plays_pars_and_records(student: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board"]) == 0
    shown = capsys.readouterr().out
    assert "You have played 1 level. You are not on the board of the class" in shown
    line = next(line for line in shown.splitlines() if "1 GPipe" in line)
    assert line.split() == ["1", "GPipe", "23", "points", "20", "points", "23", "points", "2026-12-01"]
    assert shown.count("points") > 14 and "Lay out the cluster, lesson 12_hybrid" in shown


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".", "work", "work/lessons"])
def test_with_the_solutions_there_who_studies_alone_sees_own_plays(
    student: Path, folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new_course(student)
    monkeypatch.chdir(student / folder)
    assert main(["board"]) == 0
    shown = capsys.readouterr().out
    assert "You have played 1 level." in shown and "board.html" not in shown and "Nobody" not in shown
    assert not (student / "classroom" / "board").exists()


@pytest.mark.parametrize("sign", ["gradebook.db", "students.csv", "submitted"])
def test_a_class_is_where_students_are_known_or_plays_are(student: Path, sign: str) -> None:
    course = new_course(student)
    assert not has_class(course)
    if sign == "submitted":
        put_games(student / "classroom" / "submitted", "ada", grid(PAR))
    else:
        (student / "classroom" / sign).touch()
    assert has_class(course)


def test_an_instructor_who_plays_sees_both(
    student: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new_course(student)
    (student / "classroom" / "students.csv").write_text("id\nada\n")
    page = student / "board.html"
    monkeypatch.setattr("distlib.cli.board.make_board", lambda *given: ClassBoard(page, 0, 0, 0, 0, 0, {}))
    assert main(["board"]) == 0
    shown = capsys.readouterr().out
    assert "You have played 1 level." in shown and "Nobody has handed in plays yet" in shown
    (student / "work" / "my_games.json").write_text("torn")
    assert main(["board"]) == 1
    said = capsys.readouterr()
    assert "is torn" in said.err and "Nobody has handed in plays yet" in said.out


def test_leaving_and_odd_names(student: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "--as", "<b>"]) == 1
    assert "a pseudonym has letters" in capsys.readouterr().err
    assert main(["board", "--as", "Owl"]) == 0 and main(["board", "--leave"]) == 0
    assert "you are there no longer" in capsys.readouterr().out
    assert main(["hand-in", "games", "--name", "Ada"]) == 0
    assert "You are not on the board of the class" in capsys.readouterr().out
    (student / "work" / "my_games.json").write_text("torn")
    assert main(["board"]) == 1
    assert "is torn" in capsys.readouterr().err


# ── trainings that were graded ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_trainings_have_the_seconds_that_the_judge_has_measured(made: tuple[Course, ClassBoard, str]) -> None:
    board, page = made[1:]
    alike, slow = page.split("Level 1, four alike")[1].split("Level 2, a slow network")
    assert alike.index("<bdi>Night Owl</bdi>") < alike.index("1.234 s") < alike.index("<bdi>Tide</bdi>")
    assert slow.index("<bdi>Tide</bdi>") < slow.index("<bdi>Night Owl</bdi>")
    assert alike.count("better than par") == 1 and alike.count("<svg ") == 2 and "1 other has a score here" in alike
    assert "0.001" not in page and board.trainings == 6
    assert "19b_budget: its answer reaches inside, so its seconds are not on the board" in board.problems["forger"]
    assert "19b_budget: the seconds in its record can't be read; grade it again" in board.problems["torn"]
    assert "19b_budget: graded with another version of the test; grade it again" in board.problems["long"]


def test_who_has_no_play_asks_for_a_name_all_the_same(student: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (student / "work" / "my_games.json").unlink()
    assert main(["board", "--as", "Owl"]) == 0 and main(["hand-in", "games", "--name", "Ada"]) == 0
    told = capsys.readouterr().out
    assert "with no play of yours" in told and "you appear as Owl" in told
    assert main(["board", "--leave"]) == 0 and main(["hand-in", "games", "--name", "Ada"]) == 0


def test_the_best_rehearsal_is_kept_for_oneself(student: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep_best(student / "work", [BestPlay("19b_budget", "The project", "19b_budget", 2, *TRAINED, AT, {})])
    assert main(["board"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The project, lesson 19b_budget mine par record 2 a slow network 12.500 s 14.667 s –" in shown
    assert main(["hand-in", "games", "--name", "Ada"]) == 0
    (packed,) = (student / "work" / "handed_in").glob("*.ipynb")
    assert [play.game for play in read_handed(packed).plays] == ["grid"]

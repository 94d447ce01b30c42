"""A record that vouches for nothing it did not see: what runs without a student's choice claims nothing."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from distlib.classroom.board.own_board import own_board
from distlib.classroom.my_course.course_reading import note_work, read_course
from distlib.classroom.my_course.last_check import keep_check
from distlib.classroom.my_course.own_course import OwnLesson
from distlib.classroom.my_course.portfolio import portfolio
from distlib.classroom.my_course.progress_table import progress_text
from distlib.classroom.my_course.run_pictures import best_picture
from distlib.classroom.student_copies.bring import bring
from distlib.classroom.student_copies.notebook_json import read_notebook, write_notebook
from distlib.classroom.uploads.hand_in import hand_in_notebook
from distlib.draw.predictions.form import _instead, show_form
from distlib.draw.predictions.prediction import COMMITTED, Prediction
from distlib.games import who_chose
from distlib.games.my_games import FILE, read_games
from tests.classroom.test_my_course import NAME as RINGS
from tests.classroom.test_my_course import all_pass, write
from tests.classroom.test_portfolio import drawn
from tests.tools.tiny_course import ROOT

LESSONS = ("02_all_reduce", "11_zero", "12_hybrid", "07b_parameter_server", "09_pipeline")
TODAY = date(2030, 11, 2)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Some lessons, of which one is a side road, and an exercise, as a student has them."""
    for name in LESSONS:
        (tmp_path / "course").mkdir(exist_ok=True)
        shutil.copy(ROOT / "course" / f"{name}.ipynb", tmp_path / "course")
    (tmp_path / "exercises" / RINGS).mkdir(parents=True)
    shutil.copy(ROOT / "exercises" / RINGS / f"{RINGS}.ipynb", tmp_path / "exercises" / RINGS)
    (tmp_path / "distlib").mkdir()
    (tmp_path / "distlib" / "__init__.py").touch()
    bring(tmp_path)
    return tmp_path


@pytest.fixture
def run_cell(course: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Runs a cell of a student's notebook, as its kernel does: which cell it is, the kernel knows."""
    monkeypatch.chdir(course / "work" / "lessons")
    who_chose._given_out.cache_clear()
    shell, running = InteractiveShell(), {"content": {}}
    monkeypatch.setattr(shell, "get_parent", lambda: running, raising=False)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)

    def run(source: str) -> None:
        running["content"] = {"code": source}
        shell.run_cell(source, store_history=True).raise_error()

    return run


def copy_of(course: Path, lesson: str) -> Path:
    return course / "work" / "lessons" / f"lesson_{lesson}.ipynb"


def run_all(course: Path, lesson: str) -> None:
    """As a Run All leaves a notebook behind: every cell has a number, and its forms wait."""
    notebook = read_notebook(copy_of(course, lesson))
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            cell["execution_count"] = number + 1
            if "predict(" in "".join(cell["source"]):
                cell["outputs"] = [form_output(None)]
    write_notebook(copy_of(course, lesson), notebook)


def commit(course: Path, lesson: str, most: int | None = None) -> None:
    """As if a student had committed to predictions."""
    notebook = read_notebook(copy_of(course, lesson))
    cells = [cell for cell in notebook["cells"] if re.match(r"\w+ = predict\(", "".join(cell["source"]))]
    for cell in cells[:most]:
        cell["outputs"] = [form_output("24")]
    write_notebook(copy_of(course, lesson), notebook)


def form_output(committed: str | None) -> dict[str, object]:
    """What a notebook keeps of a form."""
    prediction = Prediction("How many?", "bytes")
    if committed:
        prediction.commit(committed)
    data = {"text/html": _instead(prediction), "text/plain": ""}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def lesson_of(course: Path, name: str) -> OwnLesson:
    return next(lesson for lesson in read_course(course).lessons if lesson.name == name)


def words_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)).split())


# ── Run All claims nothing ───────────────────────────────────────────────────────────────────────────────────────────


def test_three_run_alls_claim_no_skill_no_hours_and_no_lesson_done(course: Path) -> None:
    for lesson in LESSONS[:3]:
        run_all(course, lesson)
    own = read_course(course)
    assert [lesson.has_run for lesson in own.lessons].count(True) == 3
    assert not any(lesson.is_done for lesson in own.lessons) and own.minutes_done == 0
    words = words_of(portfolio(course, own, "Ada", TODAY))
    assert "3 of 4 lessons run" in words and "What I can do" not in words
    for claim in ("done", "hours of work", "predictions", "Games", "Shard optimizer states"):
        assert claim not in words, claim
    text = progress_text(own)
    assert (
        "Run: 3 of 4 lessons. To come: " in text
        and "\nDone: 0 of 4 lessons, 0 of " in text
        and "; about 0 hours.\n" in text
    )


@pytest.mark.parametrize(
    "lesson",
    [pytest.param(each, marks=pytest.mark.slow) for each in ("12_hybrid", "11_zero", LESSONS[3], LESSONS[4])],
)
def test_run_all_plays_no_game(lesson: str, course: Path, run_cell: Callable[[str], None]) -> None:
    """The given cells of a lesson that play, with what they need."""
    played = cells_that_play(lesson)
    for source in played:
        run_cell(source)
    assert len(played) >= 2 and not (course / "work" / FILE).exists()
    assert own_board(read_games(course / "work")).startswith("You have not played yet.")


def cells_that_play(lesson: str) -> list[str]:
    """The cells of a lesson's game: its imports, and what plays; of the grid, its helper and the first level."""
    notebook = json.loads((ROOT / "course" / f"{lesson}.ipynb").read_text())
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    chosen = {
        "12_hybrid": ("from distlib.games.in_lessons import", "attempts = ["),
        "11_zero": ("from distlib.games.in_lessons import", "swings.append(swing("),
        "07b_parameter_server": ("from distlib.games.in_lessons import", "print(race("),
        "09_pipeline": ("tried: list", "attempt(\n    1,"),
    }[lesson]
    needs = {
        "11_zero": ["swings = []"],
        "09_pipeline": [
            "from distlib.draw import pipeline_timeline\nfrom distlib.games.in_lessons import fill\n"
            "from distlib.training.schedules import ScheduleError\n"
            "from distlib.training.schedules.puzzle import Attempt, Grid, level_of\nPicture = object"
        ],
    }
    found = [source for source in code if any(start in source for start in chosen)]
    return [*needs.get(lesson, []), *found]


def test_a_changed_cell_and_one_of_ones_own_play(course: Path, run_cell: Callable[[str], None]) -> None:
    imports, attempts = cells_that_play("12_hybrid")
    run_cell(imports)
    run_cell(f"# mine\n{attempts}\n\n")
    assert read_games(course / "work").plays == (), "a comment is no choice"
    run_cell(attempts.replace("lay_out(1, tp=4)", "lay_out(1, tp=2, dp=2)"))
    (play,) = read_games(course / "work").plays
    assert (play.level, play.by) == (1, who_chose.BY_CELL), "the four others are the course's"
    run_cell("mine = lay_out(5, pp=2, tp=2, microbatches=16)")
    assert [each.level for each in read_games(course / "work").chosen] == [1, 5]
    assert own_board(read_games(course / "work")).startswith("You have played 2 levels.")


def test_a_slider_that_is_moved_plays(course: Path, run_cell: Callable[[str], None]) -> None:
    run_cell("from distlib.games.in_lessons import play_cluster\nboard = play_cluster(1)\nboard.scene()")
    assert read_games(course / "work").plays == ()
    run_cell("board.sliders['tp'].index = 1")
    (play,) = read_games(course / "work").plays
    assert play.by == who_chose.BY_WIDGET


# ── what is evidence ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_predictions_that_were_committed_are_evidence(course: Path) -> None:
    run_all(course, "11_zero")
    commit(course, "11_zero", 2)
    lesson = lesson_of(course, "11_zero")
    asked = len(lesson.predictions.asked)
    assert lesson.predictions.number == 2 and not lesson.is_done and asked > 4
    assert lesson.minutes_done == pytest.approx(lesson.promise.minutes * 2 / asked)
    commit(course, "11_zero")
    own = read_course(course)
    words = words_of(portfolio(course, own, "Ada", TODAY))
    assert "1 of 4 lessons done" in words and "What I can do" in words
    assert f"{asked} of {asked} predictions committed before the run" in words


def test_functions_that_pass_are_evidence(course: Path) -> None:
    run_all(course, RINGS)
    write(course / "work" / "exercises" / RINGS / f"{RINGS}.ipynb", *(row.function for row in all_pass().rows))
    keep_check(course, all_pass())
    lesson = lesson_of(course, RINGS)
    assert lesson.is_done and lesson.evidence == ["4 of 4 functions pass the tests"]


def test_what_was_committed_is_kept_when_a_new_kernel_forgets_it(course: Path) -> None:
    run_all(course, "11_zero")
    commit(course, "11_zero", 3)
    assert note_work(course) == ""
    run_all(course, "11_zero")
    assert lesson_of(course, "11_zero").predictions.number == 3
    kept = course / "work" / "progress" / "predictions.json"
    assert json.loads(kept.read_text())["format"] == 1


def test_a_torn_or_newer_file_of_predictions_is_said_and_set_aside(course: Path) -> None:
    run_all(course, "11_zero")
    commit(course, "11_zero", 3)
    kept = course / "work" / "progress" / "predictions.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text('{"format": 99}')
    assert any("newer version" in remark for remark in read_course(course).remarks)
    assert "It is kept as work/progress/set_aside/predictions_1.json" in note_work(course)
    assert (kept.parent / "set_aside" / "predictions_1.json").read_text() == '{"format": 99}'
    assert lesson_of(course, "11_zero").predictions.number == 3


def test_an_empty_hand_in_took_no_hours(course: Path) -> None:
    hand_in_notebook(RINGS, student="ada", start=course / "work", sure=True, ran=())
    assert read_course(course).minutes_done == 0


def test_a_form_that_was_committed_says_so_in_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/html"]))
    monkeypatch.setattr("distlib.draw.predictions.form.show_live", lambda *given: shown.extend(given) or handle)
    show_form(Prediction("How many?", "bytes"))
    form, _, before = shown
    assert COMMITTED not in before
    form._handle_custom_msg({"commit": "24"}, [])
    assert f"{COMMITTED}24" in shown[-1]


# ── files of an earlier version, and pictures ────────────────────────────────────────────────────────────────────────


def test_plays_of_an_earlier_version_stay_and_are_no_evidence(course: Path, run_cell: Callable[[str], None]) -> None:
    run_cell("from distlib.games.in_lessons import lay_out\nlay_out(1, tp=2, dp=2)\nlay_out(2, dp=4, tp=2, stage=2)")
    file = course / "work" / FILE
    content = json.loads(file.read_text())
    for play in content["plays"]:
        del play["by"]
    file.write_text(json.dumps(content))
    games = read_games(course / "work")
    number = len(games.plays)
    assert number and games.chosen == () and len(games.to_play_again) == number
    assert "kept by an earlier version: who chose it was not noted" in own_board(games)
    assert not read_course(course).games
    run_cell("lay_out(1, tp=2, dp=2, stage=1)")
    games = read_games(course / "work")
    assert len(games.plays) == number + 1 and len(games.chosen) == 1 and len(games.to_play_again) == number


@pytest.mark.parametrize(
    "alt",
    [
        "Level 2, two boxes: 0 points. 8 ranks: tp 8.",
        "Level 2, two boxes: this can't be played: pp 3 does not divide the 8 ranks",
        "Hole 1. Bytes alive during a step. Allowed are 14 GB. More than is allowed.",
    ],
)
def test_the_picture_of_a_game_that_was_lost_is_left_out(alt: str) -> None:
    def pictures(alt: str) -> object:
        cell = {"cell_type": "code", "source": "x", "outputs": [drawn(b"\x89PNG\r\n\x1a\nx", alt=alt)]}
        return best_picture({"cells": []}, {"cells": [cell]})

    assert pictures(alt) is None
    assert pictures("Level 2, two boxes: 10 points. 8 ranks") is not None

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
from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.my_course import note_on_save
from distlib.classroom.my_course.course_reading import note_work, read_course
from distlib.classroom.my_course.evidence import (
    FAILED_BEFORE,
    NOT_CHECKED,
    PASSED_BEFORE,
    CommittedPrediction,
    Evidence,
    LastCheck,
    WrittenText,
    chosen_by_hand,
    hash_of,
)
from distlib.classroom.my_course.last_check import keep_check
from distlib.classroom.my_course.own_course import OwnLesson
from distlib.classroom.my_course.portfolio import portfolio
from distlib.classroom.my_course.progress_table import progress_text
from distlib.classroom.my_course.run_pictures import best_picture
from distlib.classroom.self_check.results import FAILS, PASSES
from distlib.classroom.student_copies.bring import bring
from distlib.classroom.student_copies.notebook_json import read_notebook, write_notebook
from distlib.classroom.uploads.hand_in import hand_in_notebook
from distlib.draw.predictions.form import _instead, build_form, show_form
from distlib.draw.predictions.prediction import COMMITTED, COMMITTED_LATE, Prediction
from distlib.games import who_chose
from distlib.games.my_games import FILE, read_games
from tests.classroom.test_my_course import NAME as RINGS, all_pass, write
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
    shell = InteractiveShell()
    running: dict[str, dict[str, str]] = {"content": {}}
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


def form_output(committed: str | None, *, late: bool = False) -> dict[str, object]:
    """What a notebook keeps of a form. late: whether a run had told the answer before."""
    prediction = Prediction("How many?", "bytes")
    if late:
        prediction.compare(18)
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
        "12_hybrid": ("from distlib.games import", "attempts = ["),
        "11_zero": ("from distlib.games import", "swings.append(swing("),
        "07b_parameter_server": ("from distlib.games import", "print(race("),
        "09_pipeline": ("tried: list", "attempt(\n    1,"),
    }[lesson]
    needs = {
        "11_zero": ["swings = []"],
        "09_pipeline": [
            "from distlib.draw import pipeline_timeline\nfrom distlib.games import fill, puzzle\n"
            "from distlib.training import ScheduleError\nPicture = object"
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
    assert [each.level for each in chosen_by_hand(read_games(course / "work").plays)] == [1, 5]
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
    assert lesson.is_done and lesson.evidence.in_words() == ["4 of 4 functions pass the tests"]


def test_what_was_committed_is_kept_when_a_new_kernel_forgets_it(course: Path) -> None:
    run_all(course, "11_zero")
    commit(course, "11_zero", 3)
    assert note_work(course) == ""
    run_all(course, "11_zero")
    assert lesson_of(course, "11_zero").predictions.number == 3
    kept = course / "work" / "progress" / "predictions.json"
    assert json.loads(kept.read_text())["format"] == 2


def test_what_was_committed_is_kept_when_jupyterlab_saves(course: Path) -> None:
    said: list[Any] = []
    server = SimpleNamespace(
        contents_manager=SimpleNamespace(register_post_save_hook=said.append), log=SimpleNamespace(warning=said.append)
    )
    note_on_save._load_jupyter_server_extension(server)  # type: ignore[arg-type]
    (after_saving,) = said
    run_all(course, "11_zero")
    commit(course, "11_zero", 3)
    for path in (copy_of(course, "11_zero"), course / "work" / "mine.ipynb", course / "course" / "11_zero.ipynb"):
        after_saving(os_path=str(path), model={}, contents_manager=None)
    run_all(course, "11_zero")
    assert lesson_of(course, "11_zero").predictions.number == 3 and said == [after_saving]
    settings = ROOT / "distlib" / "cli" / "jupyter" / "everybody" / "jupyter_server_config.json"
    assert json.loads(settings.read_text())["ServerApp"]["jpserver_extensions"][note_on_save.__name__] is True


def test_saving_never_fails_for_what_is_kept(course: Path) -> None:
    said: list[Any] = []
    server = SimpleNamespace(
        contents_manager=SimpleNamespace(register_post_save_hook=said.append),
        log=SimpleNamespace(warning=lambda *words: said.append(words)),
    )
    note_on_save._load_jupyter_server_extension(server)  # type: ignore[arg-type]
    copy_of(course, "11_zero").write_text("{")
    said[0](os_path=str(copy_of(course, "11_zero")), model={})
    assert "are not kept" in said[1][0]


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


def test_a_prediction_after_the_run_is_none(course: Path) -> None:
    """In one kernel: Run All, read the answer, commit to it."""
    run_all(course, "11_zero")
    notebook = read_notebook(copy_of(course, "11_zero"))
    for cell in notebook["cells"]:
        if re.match(r"\w+ = predict\(", "".join(cell["source"])):
            cell["outputs"] = [form_output("18", late=True)]
    write_notebook(copy_of(course, "11_zero"), notebook)
    assert lesson_of(course, "11_zero").predictions.number == 0


def test_what_stands_below_a_form_has_told_the_answer(course: Path) -> None:
    """In a new kernel, with the outputs of the one before: until the comparison runs again, it is too late."""
    run_all(course, "11_zero")
    commit(course, "11_zero", 2)

    def compare(text: str) -> None:
        notebook = read_notebook(copy_of(course, "11_zero"))
        for cell in notebook["cells"]:
            if ".compare(" in "".join(cell["source"]):
                cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [text]}]
        write_notebook(copy_of(course, "11_zero"), notebook)

    compare(str(Prediction("How many?", "bytes").compare(18)) + "\n")
    assert lesson_of(course, "11_zero").predictions.number == 0
    compare("You said 24 bytes, the run says 18 bytes.\n")
    assert lesson_of(course, "11_zero").predictions.number == 2


def test_a_form_tells_what_comes_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distlib.draw.predictions.form.show_live", lambda *given: SimpleNamespace(update=print))
    prediction = Prediction("How many?", "bytes")
    prediction.commit("24")
    prediction.compare(18)
    assert not prediction.is_late
    prediction.take_back()
    prediction.commit("18")
    assert vars(prediction)["is_late"] and build_form(prediction).said == "18 bytes, after the run"
    assert COMMITTED not in _instead(prediction) and COMMITTED_LATE in _instead(prediction)


def test_a_function_passes_with_the_code_that_was_checked(course: Path) -> None:
    path = course / "work" / "exercises" / RINGS / f"{RINGS}.ipynb"
    run_all(course, RINGS)
    write(path, *(row.function for row in all_pass().rows))
    keep_check(course, all_pass())
    assert lesson_of(course, RINGS).is_done
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if cell.get("id") == "ring_all_gather":
            cell["source"] = "def ring_all_gather(comm, tensor):\n    return None"
    write_notebook(path, notebook)
    lesson = lesson_of(course, RINGS)
    assert not lesson.is_done and lesson.evidence.in_words() == ["3 of 4 functions pass the tests"]
    assert lesson.exercise and lesson.exercise.names(PASSED_BEFORE) == ["ring_all_gather"]
    assert lesson.exercise.next == "Check exercise 02 (distlib check 02)"
    page = portfolio(course, read_course(course), "Ada", TODAY)
    assert "(changed since it passed)" in words_of(page) and page.count("This code passed the tests at ") == 3


def test_what_a_check_says_of_code_that_is_there() -> None:
    one, other = "def f():\n    return 1", "def f():\n    return 2"
    last = LastCheck(None, {"f": PASSES, "g": FAILS, "h": PASSES, "i": FAILS}, {"f": hash_of(one), "g": hash_of(one)})
    assert [last.verdict("f", each) for each in (one, f"{one}  \n", other)] == [PASSES, PASSES, PASSED_BEFORE]
    assert [last.verdict("g", each) for each in (one, other)] == [FAILS, FAILED_BEFORE]
    assert last.verdict("h", one) == NOT_CHECKED, "of an earlier version: nobody knows which code it was"
    assert last.verdict("i", one) == FAILS and last.verdict("j", one) == NOT_CHECKED


def test_hours_are_those_that_evidence_bears() -> None:
    predictions = [CommittedPrediction("How many?", "24")]
    assert (Evidence().share_predicted, Evidence().share_solved, Evidence().bears_done) == (0, 0, False)
    assert Evidence(4, predictions).share_predicted == 0.25 and not Evidence(4, predictions).bears_done
    assert Evidence(1, predictions).bears_done
    assert Evidence(functions=3, passing=["f"], texts=[WrittenText("report", "It is.")]).share_solved == 0.5
    assert Evidence(functions=4, passing=["f"], marks=PointSum(5, 10)).share_solved == 0.5
    assert Evidence(functions=4, marks=PointSum(5, 5, waiting=15)).share_solved == 0.25
    assert Evidence(functions=4, marks=PointSum(0, 0, waiting=15)).share_solved == 0
    words = Evidence(2, predictions, 2, ["f"], [WrittenText("report", "It is.")], PointSum(5, 10)).in_words()
    assert words == [
        "1 of 2 predictions committed before the run",
        "1 of 2 functions passes the tests",
        "1 of 1 text written",
        "5 of 10 points came back",
    ]


def test_a_report_that_is_written_is_evidence(course: Path) -> None:
    name = "19b_budget"
    (course / "exercises" / name).mkdir()
    shutil.copy(ROOT / "exercises" / name / f"{name}.ipynb", course / "exercises" / name)
    bring(course)
    assert lesson_of(course, name).evidence.in_words() == [] and not lesson_of(course, name).is_begun
    path = course / "work" / "exercises" / name / f"{name}.ipynb"
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if cell.get("id") == "report" or cell["metadata"].get("nbgrader", {}).get("grade_id") == "report":
            cell["source"] = "Two ranks were **enough**."
    write_notebook(path, notebook)
    lesson = lesson_of(course, name)
    assert lesson.evidence.in_words() == ["1 of 1 text written"] and 0 < lesson.minutes_done < lesson.minutes
    words = words_of(portfolio(course, read_course(course), "Ada", TODAY))
    assert "1 answer in words" in words and "Two ranks were enough" in words


def test_a_claim_of_the_report_has_its_evidence_one_click_below(course: Path, run_cell: Callable[[str], None]) -> None:
    run_all(course, "11_zero")
    commit(course, "11_zero")
    run_cell("from distlib.games.in_lessons import lay_out\nlay_out(1, tp=2, dp=2)")
    page = portfolio(course, read_course(course), "Ada", TODAY)
    folded = [words_of(each) for each in re.findall(r"<details>.*?</details>", page, flags=re.DOTALL)]
    said = [each for each in folded if "predictions committed before the run How many? – 24 bytes" in each]
    assert said, folded
    assert any('"tp": 2' in each and "chosen in a cell" in each for each in folded)
    assert any(each.startswith("What the hours are made of") and "11 " in each for each in folded)


def test_a_play_in_a_cell_of_an_earlier_version_is_the_courses(course: Path, run_cell: Callable[[str], None]) -> None:
    _, attempts = cells_that_play("12_hybrid")
    original = course / "course" / "12_hybrid.ipynb"
    original.write_text(original.read_text().replace("lay_out(1, tp=4)", "lay_out(1, tp=2, dp=2)"))
    who_chose._given_out.cache_clear()
    run_cell("from distlib.games.in_lessons import lay_out, play_cluster")
    run_cell(attempts)
    assert not (course / "work" / FILE).exists(), "the copy in work/ has not been updated yet"


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
    assert number and chosen_by_hand(games.plays) == () and len(games.to_play_again) == number
    assert "kept by an earlier version: who chose it was not noted" in own_board(games)
    assert not read_course(course).games
    run_cell("lay_out(1, tp=2, dp=2, stage=1)")
    games = read_games(course / "work")
    assert (
        len(games.plays) == number + 1 and len(chosen_by_hand(games.plays)) == 1 and len(games.to_play_again) == number
    )


def test_predictions_of_format_1_are_read(course: Path) -> None:
    run_all(course, "11_zero")
    commit(course, "11_zero", 3)
    note_work(course)
    kept = course / "work" / "progress" / "predictions.json"
    lessons = json.loads(kept.read_text())["lessons"]
    kept.write_text(json.dumps({"format": 1, "lessons": {name: list(each) for name, each in lessons.items()}}))
    run_all(course, "11_zero")
    assert lesson_of(course, "11_zero").evidence.predictions == [CommittedPrediction()] * 3
    commit(course, "11_zero", 3)
    assert note_work(course) == "" and json.loads(kept.read_text()) == {"format": 2, "lessons": lessons}


def test_the_picture_of_a_game_that_a_given_cell_played_is_left_out() -> None:
    cell = {"cell_type": "code", "source": "x", "outputs": [drawn(b"\x89PNG\r\n\x1a\nx", alt="Level 1: 9 points.")]}
    assert best_picture({"cells": [cell]}, {"cells": [cell]}) is None
    assert best_picture({"cells": []}, {"cells": [cell]})


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

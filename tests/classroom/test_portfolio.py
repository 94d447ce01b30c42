"""`distlib report`: what is on the page, and that nothing on it can run or load."""

from __future__ import annotations

import base64
import html
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.my_course.course_reading import read_course
from distlib.classroom.my_course.last_check import keep_check
from distlib.classroom.my_course.own_course import OwnCourse
from distlib.classroom.my_course.portfolio import REPORT, portfolio
from distlib.classroom.my_course.run_pictures import best_picture, harmless
from distlib.classroom.self_check.results import FAILS, PASSES
from distlib.classroom.student_copies.notebook_json import Notebook, read_notebook, write_notebook
from distlib.cli import main
from distlib.draw.light_and_dark import on_both_papers
from distlib.draw.predictions.prediction import COMMITTED
from distlib.games import BestPlay
from distlib.games.my_games import keep_best
from tests.classroom.test_my_course import EXERCISE, LESSON, NAME, make_course, results, run, write
from tests.tools.chromium import fresh_page, running_chromium

TODAY = date(2030, 11, 2)
PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9" fill="url(#hatch-D55E00)"/>'
    b"<text>rank 0</text></svg>"
)
PLAY = BestPlay(
    "grid", "Fill the grid", "09_pipeline", 1, "GPipe", 18.5, "points", False, 20, "2030-11-02", {"a": 1}, by="cell"
)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A few lessons and one exercise, as a student has them; the copies are made."""
    return make_course(tmp_path / "course")


def address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def drawn(
    light: bytes, dark: bytes = PNG, alt: str = "A ring. It is round.", kind: str = "image/png"
) -> dict[str, Any]:
    """An output of a cell, as a picture of `distlib.draw` makes it."""
    data = {"text/html": on_both_papers(light, dark, kind, alt, 740), "text/plain": alt}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def with_outputs(path: Path, *outputs: dict[str, Any], own: bool = False) -> None:
    """Put outputs into the first code cell of a notebook; of the student's own, into a new cell."""
    notebook = read_notebook(path)
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    if own:
        cell = {"cell_type": "code", "id": "mine", "source": "timeline(mine.trace)", "metadata": {}}
        notebook["cells"].append(cell)
    cell |= {"outputs": list(outputs), "execution_count": 1}
    write_notebook(path, notebook)


def commit_all(path: Path) -> None:
    """As if a student had committed to every prediction of a lesson."""
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if "= predict(" in "".join(cell["source"]):
            data = {"text/html": f"<p>{COMMITTED}24 bytes.</p>"}
            cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    write_notebook(path, notebook)


def page_of(course: Path, name: str = "", own: OwnCourse | None = None, **options: bool) -> str:
    return portfolio(course, own or read_course(course), name, TODAY, **options)


def words_of(page: str) -> str:
    return " ".join(
        html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page.replace("<wbr>", ""), flags=re.DOTALL)).split()
    )


# ── what is on it ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_done_is_on_it(course: Path) -> None:
    run(course / LESSON)
    commit_all(course / LESSON)
    write(course / EXERCISE, "naive_all_reduce", "ring_all_gather", "ring_all_reduce")
    keep_check(course, results(naive_all_reduce=PASSES, ring_all_gather=FAILS))
    keep_best(course / "work", [replace(PLAY, at="2030-11-02T10:00:00+00:00")])
    page = page_of(course, "Ada  Lovelace")
    words = words_of(page)
    assert words.startswith("Ada Lovelace: Distributed training, from the message up Course report Ada Lovelace")
    assert "1 of 5 lessons done" in words and "1 function that passes the tests" in words
    assert "Follow a ring step by step, and say how many bytes it sends in how many rounds" in words
    assert "Cause a deadlock" not in words  # lesson 01 was not read
    assert "ring_all_gather (not right yet)" in words and "ring_all_reduce (not checked yet)" in words
    assert "barrier" in words and "ring_reduce_scatter" not in words  # of what is written, the code; else nothing
    assert "Fill the grid GPipe 18.5 points 20 points" in words and "2 November 2030" in words
    assert "Pictures of my runs" not in words and "Points are those" not in words


def test_without_a_name_there_is_none(course: Path) -> None:
    run(course / LESSON)
    (course / "work" / "handed_in").mkdir()
    (course / "work" / "handed_in" / "name.txt").write_text("Ada Lovelace\n")
    page = page_of(course)
    assert "Ada" not in page and "<h1>Distributed training, from the message up</h1>" in page
    assert str(course) not in page


def test_marks_and_what_a_function_does(course: Path) -> None:
    write(course / EXERCISE, "ring_all_gather")
    notebook = read_notebook(course / EXERCISE)
    cell = next(cell for cell in notebook["cells"] if cell.get("id") == "ring_all_gather")
    cell["source"] = 'def ring_all_gather(comm, tensor):\n    """Gather it,\n    in a ring. Fast."""\n    pass'
    write_notebook(course / EXERCISE, notebook)
    own = read_course(course)
    (lesson,) = [lesson for lesson in own.lessons if lesson.exercise]
    assert lesson.exercise
    marked = replace(lesson, exercise=replace(lesson.exercise, marks=PointSum(7.25, 20)))
    words = words_of(page_of(course, own=replace(own, lessons=[marked])))
    assert "All-reduce 7.25 of 20 points" in words and "7.25 of 20 points Pictures" not in words
    assert "ring_all_gather Gather it, in a ring. (not checked yet)" in words
    assert "Points are those of the feedback pages that came back." in words


@pytest.mark.parametrize("source", ["def ring_all_gather(comm, tensor:", "x = 1", "%%time\nring = 1", "é\0"])
def test_code_that_says_nothing_about_itself(course: Path, source: str) -> None:
    write(course / EXERCISE, "ring_all_gather")
    notebook = read_notebook(course / EXERCISE)
    next(cell for cell in notebook["cells"] if cell.get("id") == "ring_all_gather")["source"] = source
    write_notebook(course / EXERCISE, notebook)
    assert "ring_all_gather (not checked yet)" in words_of(page_of(course))


def test_unfolded_shows_all_code(course: Path) -> None:
    write(course / EXERCISE, "ring_all_gather", "naive_all_reduce")
    assert page_of(course).count("<details>") == 2
    assert page_of(course, unfolded=True).count("<details open>") == 2


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_picture_of_each_lesson_on_both_papers(course: Path) -> None:
    with_outputs(course / LESSON, drawn(PNG, PNG + b" dark", 'A "ring". It is <round>.'))
    with_outputs(course / "work/lessons/lesson_01_messages.ipynb", drawn(SVG, SVG, kind="image/svg+xml"))
    page = page_of(course)
    assert f'srcset="{address("image/png", PNG + b" dark")}"' in page and page.count("<figure>") == 2
    assert f'<img src="{address("image/png", PNG)}" alt="A &#34;ring&#34;. It is &lt;round&gt;.">' in page
    assert f'<img src="{address("image/svg+xml", SVG)}"' in page
    assert page.index("Lesson 01, Messages") < page.index("Lesson 02, All-reduce")


def test_a_picture_of_the_students_own_comes_first_then_the_one_with_most_in_it(course: Path) -> None:
    original = read_notebook(course / "course" / f"{NAME}.ipynb")
    with_outputs(course / LESSON, drawn(PNG), drawn(PNG + b"many more of them"), drawn(PNG + b"some more"))
    best = best_picture(original, read_notebook(course / LESSON))
    assert best and not best.is_own and best.light == address("image/png", PNG + b"many more of them")
    with_outputs(course / LESSON, drawn(PNG + b"mine"), own=True)
    best = best_picture(original, read_notebook(course / LESSON))
    assert best and best.is_own and best.light == address("image/png", PNG + b"mine")


def test_the_capstone_is_shown_first_and_from_its_exercise(course: Path) -> None:
    for folder, name in (("course", "19_capstone"), ("exercises/19_capstone", "19_capstone")):
        (course / folder).mkdir(exist_ok=True)
        write_notebook(course / folder / f"{name}.ipynb", read_notebook(course / "course" / f"{NAME}.ipynb"))
    for copy in ("lessons/lesson_19_capstone.ipynb", "exercises/19_capstone/19_capstone.ipynb"):
        (course / "work" / copy).parent.mkdir(exist_ok=True)
        write_notebook(course / "work" / copy, read_notebook(course / LESSON))
        with_outputs(course / "work" / copy, drawn(PNG + copy[:3].encode()))
    with_outputs(course / LESSON, drawn(PNG))
    page = page_of(course)
    assert page.index('<figure class="capstone">') < page.index("<figure>")
    assert "<figcaption>Lesson 19, All-reduce</figcaption>" in page  # as the notebook is called here
    assert address("image/png", PNG + b"exe") in page and address("image/png", PNG + b"les") not in page


@pytest.mark.parametrize(
    "outputs",
    [
        [{"output_type": "error", "ename": "DeadlockError"}, drawn(PNG)],
        [{**drawn(PNG), "data": {"text/html": drawn(PNG)["data"]["text/html"] + "<pre>it ended in an error</pre>"}}],
        [{"output_type": "display_data", "data": {"image/png": "no pixels", "text/html": 7}}],
        [{"output_type": "display_data", "data": ["image/png"]}, 7, None],
        [drawn(b"<html>no pixels</html>")],
    ],
)
def test_no_picture_of_a_run_that_failed_or_of_what_is_none(course: Path, outputs: list[Any]) -> None:
    with_outputs(course / LESSON, *outputs)
    assert best_picture({"cells": [], "metadata": {}}, read_notebook(course / LESSON)) is None


def test_pixels_of_any_other_tool(course: Path) -> None:
    data = {"image/png": base64.encodebytes(PNG).decode(), "text/plain": "<Figure size 640x480>"}
    with_outputs(course / LESSON, {"output_type": "display_data", "data": data}, own=True)
    best = best_picture({"cells": [], "metadata": {}}, read_notebook(course / LESSON))
    assert best and (best.light, best.dark, best.alt) == (address("image/png", PNG), "", "A picture of a run")


BAD_SVG = [
    b"<svg><script>alert(1)</script></svg>",
    b"<svg onload='alert(1)'></svg>",
    b"<svg><g ONCLICK='alert(1)'/></svg>",
    b"<svg><foreignObject><p/></foreignObject></svg>",
    b"<svg><image href='https://example.org/x.png'/></svg>",
    b"<svg xmlns:x='http://www.w3.org/1999/xlink'><path x:href='#a'/></svg>",
    b"<svg><rect fill='url(https://example.org/x)'/></svg>",
    b"<svg><rect fill='URL(//example.org/x)'/></svg>",
    b"<svg><rect style='fill:red'/></svg>",
    b"<svg><style>* { fill: red }</style></svg>",
    b"<svg><animate attributeName='x'/></svg>",
    b"<!DOCTYPE svg [<!ENTITY a 'b'>]><svg>&a;</svg>",
    b"<?xml-stylesheet href='x.css'?><svg/>",
    b"<svg>",
    b"<html/>",
    "<svg/>".encode("utf-16"),
]


@pytest.mark.parametrize("svg", BAD_SVG)
def test_a_drawing_that_does_more_than_draw_is_left_out(course: Path, svg: bytes) -> None:
    assert harmless(address("image/svg+xml", svg)) == ""
    with_outputs(course / LESSON, drawn(svg, kind="image/svg+xml"))
    assert "<figure" not in page_of(course)


@pytest.mark.parametrize(
    "source",
    [
        "https://example.org/x.png",
        "data:text/html;base64,PHA+",
        "data:image/png;base64,####",
        "data:image/png;base64,iVBORw0",
        'data:image/png;base64,iVBORw0KGgo=" onerror="alert(1)',
        address("image/png", b"\x89PNG\r\n\x1a\n" + bytes(3 << 20)),
    ],
)
def test_an_address_that_is_not_a_picture(source: str) -> None:
    assert harmless(source) == ""


def test_what_the_players_draw_is_taken(course: Path) -> None:
    from distlib import SimulatedWorld
    from distlib.draw.players.still import still_html
    from distlib.draw.players.timeline_scene import timeline_scene

    world = SimulatedWorld(2)
    world.run(lambda comm: comm.barrier())
    still = still_html(timeline_scene(world.trace, "Two ranks", "round", None))
    with_outputs(course / LESSON, {"output_type": "display_data", "data": {"text/html": still}})
    assert "<figure>" in page_of(course) and "data:image/svg+xml" in page_of(course)


# ── nothing runs ─────────────────────────────────────────────────────────────────────────────────────────────────────

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202eabc"


def test_nothing_that_is_shown_can_run(course: Path) -> None:
    run(course / LESSON)
    notebook = read_notebook(course / EXERCISE)
    for cell in notebook["cells"]:
        if cell.get("id") == "ring_all_gather":
            cell["source"] = f'def ring_all_gather(comm):\n    """{EVIL}."""\n    return "</pre>{EVIL}"'
    write_notebook(course / EXERCISE, notebook)
    with_outputs(course / LESSON, drawn(PNG, alt=EVIL))
    keep_best(course / "work", [replace(PLAY, title=EVIL, unit=EVIL, level_name=EVIL, at="2030-11-02T10:00:00+00:00")])
    page = page_of(course, EVIL)
    assert "<script" not in page and "\u202e" not in page
    assert not re.findall(r"<[^>]*\sonerror", re.sub(r'alt="[^"]*"', "", page))
    assert "script-src" not in page and "default-src 'none'" in page
    assert not re.findall(r'(?:src|href|srcset)="(?!data:image/)', page)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command(course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(course)
    assert main(["report"]) == 1
    said = "There is nothing to show yet: no cell has run, and no function is written. Open lesson 00, Start here.\n"
    assert capsys.readouterr().err == said and not (course / REPORT).exists()
    run(course / LESSON)
    assert main(["report", "--name", "Ada"]) == 0
    assert f"Your report is {course / REPORT}\n" in capsys.readouterr().out
    assert "<h1>Ada</h1>" in (course / REPORT).read_text()
    assert main(["report"]) == 0  # its own page may be replaced
    assert "Ada" not in (course / REPORT).read_text()


def test_a_file_that_is_not_a_report_stays(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(course)
    run(course / LESSON)
    (course / "thesis.html").write_text("years of work")
    assert main(["report", "--to", "thesis.html"]) == 1
    assert "thesis.html is there already and is not a report. Nothing was written." in capsys.readouterr().err
    assert (course / "thesis.html").read_text() == "years of work"
    assert main(["report", "--to", "thesis.html/page.html"]) == 1
    assert "page.html can't be written: " in capsys.readouterr().err
    assert main(["report", "--to", "new/page.html"]) == 0
    assert (course / "new" / "page.html").is_file()


def test_what_can_not_be_read_is_said_and_the_rest_is_shown(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(course)
    run(course / LESSON)
    commit_all(course / LESSON)
    (course / EXERCISE).write_text("torn")
    (course / "work" / "my_games.json").write_text("{")
    assert main(["report"]) == 0
    said = capsys.readouterr().err
    assert f"Remark: {EXERCISE} is not a notebook any more" in said and "Remark: my_games.json is torn" in said
    assert "What I can do" in (course / REPORT).read_text()


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_browser_it_fits_and_follows_the_theme(browser_path: str, course: Path, tmp_path: Path) -> None:
    run(course / LESSON)
    write(course / EXERCISE, "ring_all_gather")
    with_outputs(course / LESSON, drawn(SVG, SVG, kind="image/svg+xml"))
    (tmp_path / "page.html").write_text(page_of(course, "A" * 60), "utf-8")
    happened: list[str] = []
    with running_chromium(browser_path) as browser, fresh_page(browser, 1280, 720, color_scheme="dark") as tab:
        tab.on("request", lambda request: happened.append(request.url.partition(":")[0]))
        tab.goto((tmp_path / "page.html").as_uri())
        for width in (1280, 853, 390):
            tab.set_viewport_size({"width": width, "height": 720})
            assert tab.evaluate("document.documentElement.scrollWidth") == width
        dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        tab.emulate_media(color_scheme="light")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != dark
        assert tab.evaluate("document.querySelector('figure img').naturalWidth") > 0
        tab.emulate_media(media="print", color_scheme="dark")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert set(happened) <= {"file", "data"}


def test_pictures_of_an_empty_notebook() -> None:
    empty: Notebook = {"cells": [], "metadata": {}}
    assert best_picture(empty, empty) is None

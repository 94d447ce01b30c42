"""Slides of a lesson: headings and pictures, each placed by a rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from distlib.authoring import AuthoringError
from distlib.authoring.__main__ import main
from distlib.authoring.lesson_run import run_lesson
from distlib.authoring.slides.lesson_slides import slides_of

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LISTED = "## Two ways\n\nThere are two:\n\n| a | b |\n|---|---|\n| $x^2 < 3$ | d |\n\nSay more."
TITLE = "# Rings\n\nAfter this lesson you will be able to\n\n- say one,\n- say two.\n\n**Time:** about 90 minutes."
SHORT = "## In short\n\n- one,\n- two,\n- three,\n- four,\n- five,\n- six,\n- seven."


@pytest.fixture
def slides_html() -> Callable[..., str]:
    pytest.importorskip("docutils", reason="needs the extra `site`, for formulas")
    from distlib.authoring.slides.slides_page import slides_html

    return slides_html


def code(source: str, *outputs: NotebookNode, folded: bool = False) -> NotebookNode:
    return new_code_cell(source, outputs=list(outputs), metadata={"tags": ["folded"]} if folded else {})


def picture() -> NotebookNode:
    return new_output("display_data", {"image/png": PIXEL, "text/plain": "a picture"})


def a_lesson() -> NotebookNode:
    printed = new_output("stream", name="stdout", text="printed words")
    shown = new_output("display_data", {"text/html": f'<img src="data:image/png;base64,{PIXEL}" alt="a ring">'})
    cells = [
        code("import secret_module"),
        new_markdown_cell(TITLE),
        new_markdown_cell("## The idea\n\nIt is *this*.\n\nMore of it.\n\nAnd more."),
        code("draw_one()", printed, shown),
        code("print('nothing to see')", printed),
        new_markdown_cell("Between the pictures."),
        code("# Checks of the text\ndraw_two()", picture(), folded=True),
        code("draw_three()", picture()),
        new_markdown_cell(LISTED),
        new_markdown_cell(SHORT),
    ]
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "p"}})


def test_each_cell_has_its_place_by_the_rule() -> None:
    slides = slides_of(a_lesson())
    nbformat.validate(slides)
    assert [(cell.metadata.slideshow.slide_type, cell.source) for cell in slides.cells] == [
        ("slide", "# Rings\n\nAfter this lesson you will be able to\n\n- say one,\n\n- say two."),
        ("slide", "## The idea\n\nIt is *this*."),
        ("notes", "More of it.\n\nAnd more."),
        ("subslide", "### The idea"),
        ("-", "draw_one()"),
        ("notes", "Between the pictures."),
        ("subslide", "### The idea"),
        ("-", "draw_three()"),
        ("slide", "## Two ways\n\nThere are two:\n\n| a | b |\n|---|---|\n| $x^2 < 3$ | d |"),
        ("notes", "Say more."),
        ("slide", "## In short\n\n- one,\n\n- two,\n\n- three,"),
        ("subslide", "## In short\n\n- four,\n\n- five,\n\n- six,\n\n- seven."),
    ]


def test_the_page_has_pictures_and_no_code(slides_html: Callable[..., str]) -> None:
    page = slides_html(slides_of(a_lesson()), reveal="reveal")
    assert page.count(PIXEL) == 2 and 'alt="a ring"' in page
    for word in ("draw_one", "draw_three", "secret_module", "printed words", "nothing to see"):
        assert word not in page
    assert page.count("<aside") == 3


def test_the_page_loads_reveal_and_nothing_else(slides_html: Callable[..., str]) -> None:
    page = slides_html(slides_of(a_lesson()), reveal="reveal")
    loaded = re.findall(r'(?:src|href)="([^"#]+)"|@import\s+(\S+)', page)
    assert {one or other for one, other in loaded if not one.startswith("data:")} == {
        "reveal/dist/reveal.css",
        "reveal/dist/theme/white.css",
        "reveal/dist/reveal.js",
        "reveal/plugin/notes/notes.js",
    }
    assert "MathJax" not in page and "require(" not in page
    assert "<msup><mi>x</mi><mn>2</mn></msup><mo>&lt;</mo>" in re.sub(r">\s+<", "><", page)
    assert "unpkg.com/reveal.js" in slides_html(slides_of(a_lesson()))


@pytest.mark.usefixtures("slides_html")
def test_a_lesson_is_run_once_for_its_slides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show = "open('runs', 'a').write('once ')\nfrom IPython.display import HTML\nHTML(f'<img alt=\"{40 + 2}\">')"
    (tmp_path / "course").mkdir()
    (tmp_path / "nbgrader_config.py").touch()
    nbformat.write(
        new_notebook(cells=[new_markdown_cell("# Small"), new_code_cell(show)]), tmp_path / "course" / "01_small.ipynb"
    )
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["slides", "01"]) == 0
        assert capsys.readouterr().out == "wrote slides/01_small.slides.html: 1 pictures\n"
    assert 'alt="42"' in (tmp_path / "slides" / "01_small.slides.html").read_text(encoding="utf-8")
    assert (tmp_path / "course" / "runs").read_text() == "once "


def test_a_lesson_that_fails_is_said(tmp_path: Path) -> None:
    lesson = tmp_path / "01_small.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), lesson)
    with pytest.raises(AuthoringError, match="(?s)01_small fails: .*ZeroDivisionError"):
        run_lesson(lesson)


def test_a_lesson_that_does_not_exist_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nbgrader_config.py").touch()
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "02_ring.ipynb").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["slides", "77"]) == 1
    assert capsys.readouterr().err == "there is no lesson 77; there are 02\n"

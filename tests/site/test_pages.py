"""What the pages of the site say, without Sphinx: from notebooks, the glossary, the syllabus, the docstrings."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from distlib.authoring.repository import name_repository
from distlib.authoring.site import lesson_pages
from distlib.authoring.site.glossary_page import glossary_page, read_words
from distlib.authoring.site.lesson_pages import exercise_page, lesson_page
from distlib.authoring.site.one_click import one_click_links, read_repository
from distlib.authoring.site.page_outputs import PageOutputs
from distlib.authoring.site.reference_pages import reference_pages
from distlib.authoring.site.sphinx_site import as_classic_script
from distlib.authoring.site.syllabus_page import lesson_map, read_lessons, syllabus_page
from distlib.authoring.stored_runs import StoredRuns
from distlib.classroom.uploads.published import NAMED, repository_of
from distlib.draw.live import BROWSER, instead_html
from distlib.draw.players.moving_ring import moving_ring
from distlib.folded_answers import is_answer

VOCABULARY = """rank world_size chunk shard bucket microbatch num_microbatches stage num_stages src dst root next_rank
previous_rank all_reduce reduce_scatter all_gather dp pp tp gpipe interleaved_1f1b zero_bubble 2F0 warmup latency
bandwidth bubble group"""
ROOT = Path(__file__).parents[2]
EXERCISES = sorted(ROOT.glob("exercises/*/[0-9]*.ipynb"))
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$]+?)\$", re.DOTALL)

# Pictures and widgets

PIXEL = base64.b64encode(b"a picture").decode()
PICTURE = f'<style>.x {{}}</style><img alt="two bars" src="data:image/png;base64,{PIXEL}">'
SCENE = {"title": "A ring", "steps": [], "shapes": []}


def widget(model: str, words: str = "<Player>") -> dict[str, Any]:
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": model}, "text/plain": words, "text/html": "<span>"}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def html_output(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/html": text, "text/plain": ""}, "metadata": {}}


def shown(*outputs: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """What a page shows of a cell's outputs, and the pictures that became files."""
    player = {"_anywidget_id": "distlib.draw.players.player.PlayerWidget", "scene": SCENE, "step": 2, "tabbable": None}
    form = {"_anywidget_id": "x.PredictionForm", "question": "</script>?", "kind": "number", "options": [], "hint": "h"}
    models = {
        "player": {"state": player},
        "form": {"state": form},
        "box": {"state": {"children": ["IPY_MODEL_slider", "IPY_MODEL_player"]}},
        "slider": {"state": {"_anywidget_id": "distlib.draw.players.slider.Slider"}},
        "bar": {"state": {}},
    }
    states = {"application/vnd.jupyter.widget-state+json": {"state": models}}
    page = PageOutputs(SimpleNamespace(metadata={"widgets": states}))
    return page.of_cell(SimpleNamespace(outputs=outputs)), page.images


def state_in(output: dict[str, Any]) -> Any:
    (content,) = re.findall(r'<script type="application/json">(.*?)</script>', output["data"]["text/html"])
    return json.loads(content)


def test_a_picture_becomes_a_file_and_keeps_its_description() -> None:
    (output,), images = shown(html_output(PICTURE))
    text = output["data"]["text/html"]
    assert list(images.values()) == [b"a picture"]
    assert f'src="../_static/runs/{next(iter(images))}"' in text and 'alt="two bars"' in text
    assert "base64" not in text and "<style>" not in text


def test_a_player_becomes_a_place_that_is_not_empty() -> None:
    """Its scene, and until a script has drawn it, the image that stands for it in a notebook without a kernel."""
    outputs, images = shown(widget("player"), html_output(instead_html(PICTURE)), html_output("<p>next</p>"))
    assert len(outputs) == 2 and "next" in outputs[1]["data"]["text/html"]
    assert 'data-kind="player"' in outputs[0]["data"]["text/html"] and "<img" in outputs[0]["data"]["text/html"]
    assert state_in(outputs[0]) == {"scene": SCENE, "step": 2}
    assert "slider" not in outputs[0]["data"]["text/html"]


def test_what_a_form_says_does_not_end_its_script() -> None:
    (output,), _ = shown(widget("form"), html_output(instead_html("<p>?</p>")))
    assert state_in(output)["question"] == "</script>?"


def test_a_picture_with_sliders_is_shown_without_them_and_says_so() -> None:
    (output,), _ = shown(widget("box"), html_output(instead_html(PICTURE)))
    assert state_in(output)["scene"] == SCENE
    assert "sliders" in output["data"]["text/html"]


def test_of_a_widget_that_is_not_ours_its_text_is_left() -> None:
    (output,), _ = shown(widget("bar", "100%"))
    assert output["data"] == {"text/plain": "100%"}


def test_a_question_stands_once_above_its_form() -> None:
    ask = nbformat.v4.new_code_cell('guess_1 = predict("How many?")', id="a")
    seen = nbformat.v4.new_output("display_data", {"text/html": "<form>How many?</form>"})
    asked = nbformat.v4.new_code_cell('guess_1 = predict("How many?")', id="b", outputs=[seen])
    run = nbformat.v4.new_code_cell("print(guess_1.compare(3))", id="c", outputs=[seen])
    assert [lesson_pages._folding(cell) for cell in (ask, asked, run)] == [{}, {"tags": ["remove-input"]}, {}]


def test_nobody_was_asked_for_a_prediction() -> None:
    text = "The run says 3. (No prediction was committed.)\n"
    (output,), _ = shown({"output_type": "stream", "name": "stdout", "text": text})
    assert output["text"] == "The run says 3.\n"


def test_an_error_that_a_lesson_shows_is_text_as_the_notebook_has_it() -> None:
    report = ["DeadlockError: cell 1, line 10: deadlock.", "  ← rank 0."]
    (output,), _ = shown({"output_type": "error", "ename": "DeadlockError", "evalue": "", "traceback": report})
    assert (output["output_type"], output["name"], output["text"]) == ("stream", "stderr", "\n".join(report))


# Lessons and exercises


def test_a_lesson_without_a_run_says_so_and_folds_what_is_folded(tmp_path: Path) -> None:
    page = nbformat.reads(lesson_page(StoredRuns(ROOT, tmp_path), "02_all_reduce", "").text, as_version=4)
    assert "No run of this lesson is stored" in page.cells[1].source
    assert "(../exercises/02_all_reduce/02_all_reduce.ipynb)" in page.cells[1].source
    folded = [cell for cell in page.cells if cell.metadata.get("tags")]
    assert folded and all(cell.metadata["mystnb"]["code_prompt_show"] in cell.source for cell in folded)
    assert {cell.metadata["tags"][0] for cell in folded if is_answer(cell.source)} == {"hide-cell"}
    assert {cell.metadata["tags"][0] for cell in folded if not is_answer(cell.source)} == {"hide-input"}


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_an_exercise_is_shown_as_students_get_it(path: Path) -> None:
    released, page = (nbformat.reads(text, as_version=4) for text in (path.read_text(), exercise_page(path).text))
    assert "BEGIN SOLUTION" not in exercise_page(path).text
    del page.cells[1]  # the links below the title
    assert [cell.source for cell in page.cells] == [cell.source for cell in released.cells]


@pytest.fixture
def to_mathml() -> Callable[..., str]:
    pytest.importorskip("docutils", reason="needs the extra `site`")
    from distlib.authoring.mathml import to_mathml

    return to_mathml


def test_every_formula_can_be_written(to_mathml: Callable[..., str]) -> None:
    for path in [*sorted(ROOT.glob("course/*.ipynb")), *EXERCISES]:
        prose = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
        text = re.sub(r"```.*?```|^ {4}.*?$|`[^`]*`", "", "\n\n".join(prose), flags=re.DOTALL | re.MULTILINE)
        for block, inline in FORMULA.findall(text):
            assert to_mathml(block or inline, as_block=bool(block)).startswith("<math")
    with pytest.raises(ValueError, match="unknown"):
        to_mathml(r"\unknown{x}")


def test_a_digit_needs_no_braces(to_mathml: Callable[..., str]) -> None:
    assert to_mathml(r"\frac12") == to_mathml(r"\frac{1}{2}")


# Stored runs


@pytest.fixture
def stored(tmp_path: Path) -> StoredRuns:
    """A course of one lesson and one module, and a run of it, as if it had been made."""
    runs = StoredRuns(tmp_path)
    (tmp_path / "course").mkdir()
    (tmp_path / "distlib" / "authoring").mkdir(parents=True)
    (tmp_path / "distlib" / "world.py").write_text("RANKS = 4\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    nbformat.write(notebook, tmp_path / "course" / "00_start.ipynb")
    stamp = {"text": runs._text_digest("00_start"), "package": runs.package_digest()}
    notebook.metadata["distlib_run"] = stamp
    (tmp_path / ".runs").mkdir()
    nbformat.write(notebook, tmp_path / ".runs" / "00_start.ipynb")
    assert runs.is_current("00_start")
    return runs


def test_a_run_of_another_text_is_not_shown(stored: StoredRuns) -> None:
    lesson = stored.root / "course" / "00_start.ipynb"
    lesson.write_text(lesson.read_text().replace('"1"', '"2"'))
    assert stored.read("00_start") is None


def test_a_run_of_another_package_is_shown_and_out_of_date(stored: StoredRuns) -> None:
    (stored.root / "distlib" / "authoring" / "new.py").write_text("no lesson meets it\n")
    assert stored.is_current("00_start")
    (stored.root / "distlib" / "world.py").write_text("RANKS = 8\n")
    assert stored.read("00_start") is not None and not stored.is_current("00_start")


@pytest.mark.parametrize("content", ["", "{", '{"cells": []}', "[]"])
def test_a_run_that_cannot_be_read_is_none(stored: StoredRuns, content: str) -> None:
    (stored.root / ".runs" / "00_start.ipynb").write_text(content)
    assert stored.read("00_start") is None


# Glossary, syllabus, reference


def test_the_glossary_has_the_vocabulary_in_sentences() -> None:
    words = read_words(ROOT)
    names = {name for word in words for name in word.name.replace("`", "").replace(" ", "_").split(",_")}
    assert {name.replace("all-reduce", "all_reduce") for name in VOCABULARY.split()} - names == set()
    assert [word.name for word in words if not re.fullmatch(r"[^a-z].*\.", word.meaning)] == []
    assert len({word.name for word in words}) == len(words)


def test_each_word_is_taught_in_the_lesson_that_it_leads_to() -> None:
    for word in read_words(ROOT):
        assert word.lessons, f"no lesson has {word.name}"
        for lesson in word.lessons:
            text = " ".join((ROOT / "course" / f"{lesson}.py").read_text().replace("\n#", "\n").lower().split())
            for name in word.name.replace("`", "").split(", "):
                assert name.lower() in text, f"{name} is not in {lesson}"
    assert "(course/02_all_reduce.ipynb)" in glossary_page(ROOT)


def test_the_syllabus_has_each_lesson_below_what_it_builds_on() -> None:
    lessons = read_lessons(ROOT)
    numbers = {lesson.name: place for place, lesson in enumerate(lessons)}
    assert [path.stem for path in sorted(ROOT.glob("course/[0-9]*.py"))] == list(numbers)
    assert [lesson.number for lesson in lessons if lesson.promise.is_optional][:2] == ["01b", "02b"]
    for lesson in lessons:
        assert all(numbers[need] < numbers[lesson.name] for need in lesson.needs)
        assert bool(lesson.needs) == (lesson.number != "00")
    drawn = lesson_map(lessons)
    assert re.findall(r'href="course/(\w+)\.html"', drawn) == list(numbers)
    assert "01_messages.ipynb) |" in syllabus_page(ROOT)
    assert "[the exercise](exercises/16b_launching/16b_launching.ipynb) |" in syllabus_page(ROOT)


def test_an_exercise_without_a_lesson_of_its_name_belongs_to_the_one_with_its_number(tmp_path: Path) -> None:
    for name in ("course/16_environments.ipynb", "exercises/16b_launching/16b_launching.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    lesson = nbformat.reads(lesson_page(StoredRuns(tmp_path), "16_environments", "").text, as_version=4)
    assert "[exercise 16b](../exercises/16b_launching/16b_launching.ipynb) · " in lesson.cells[1].source
    exercise = nbformat.reads(
        exercise_page(tmp_path / "exercises/16b_launching/16b_launching.ipynb").text, as_version=4
    )
    assert "[the lesson](../../course/16_environments.ipynb) · " in exercise.cells[1].source


def test_boxes_of_the_map_do_not_overlap() -> None:
    corners = re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)"', lesson_map(read_lessons(ROOT)))
    boxes = sorted((int(y), int(x), int(x) + int(width)) for x, y, width in corners)
    for (row, _, right), (next_row, left, _) in zip(boxes, boxes[1:], strict=False):
        assert row != next_row or right < left


def test_the_reference_has_what_can_be_imported() -> None:
    import distlib
    import distlib.collectives

    pages = reference_pages(ROOT / "distlib")
    for page, module in (("names", distlib), ("collectives", distlib.collectives)):
        named = set(re.findall(r"^::::\{py:\w+\} [\w.]+\.(\w+)", pages[page], re.MULTILINE))
        functions_and_classes = {name for name in module.__all__ if hasattr(getattr(module, name), "__qualname__")}
        assert functions_and_classes - named == set()
    assert "- `dst`: the receiving rank, not this one." in pages["names"]


# What opens the course elsewhere, and scripts


def test_links_that_open_the_course_need_a_repository() -> None:
    assert one_click_links("", "02_all_reduce") == []
    links = one_click_links("ada/course", "02_all_reduce")
    assert all("ada/course" in link for link in links)
    assert "labpath=work/lessons/lesson_02_all_reduce.ipynb" in links[0]


@pytest.mark.parametrize(
    ("address", "repository"),
    [
        ("https://github.com/ada/course", "ada/course"),
        ("https://github.com/ada/course.git", "ada/course"),
        ("https://github.com/ACCOUNT/REPOSITORY", ""),
        ("https://example.org/course", ""),
    ],
)
def test_the_repository_is_read_from_one_place(tmp_path: Path, address: str, repository: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\n[project.urls]\nRepository = "{address}"\n')
    assert read_repository(tmp_path) == repository


def test_every_link_to_the_repository_has_its_name() -> None:
    """Colab, Binder, Codespaces, and the site itself."""
    name = repository_of((ROOT / "pyproject.toml").read_text())
    account, repository = name.split("/")
    text = "".join((ROOT / document).read_text() for document in NAMED)
    hosts = r"colab\.research\.google\.com/github|mybinder\.org/v2/gh|codespaces\.new|https://github\.com"
    assert len(re.findall(hosts, text)) >= 5
    assert set(re.findall(rf"(?:{hosts})/([\w.-]+/[\w.-]+)", text)) == {name}
    assert set(re.findall(r"https://([\w-]+)\.github\.io/([\w.-]+)", text)) == {(account, repository)}


def test_no_reader_can_click_on_a_link_that_leads_nowhere() -> None:
    """Until there is a repository, what would lead to it stands in a comment, or in code."""
    readme = re.sub(r"<!--.*?-->", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert read_repository(ROOT) or not re.search(r"ACCOUNT|REPOSITORY", readme)
    clicked = [line for line in (ROOT / "ANYWHERE.md").read_text().splitlines() if not line.startswith("    ")]
    assert read_repository(ROOT) or not re.search(r"\]\([^)]*ACCOUNT", "\n".join(clicked))


def test_a_repository_is_named_everywhere_at_once(tmp_path: Path) -> None:
    for document in NAMED:
        (tmp_path / document).write_text((ROOT / document).read_text())
    old = repository_of((ROOT / "pyproject.toml").read_text())
    assert name_repository(tmp_path, "ada/rings") == list(NAMED)
    text = "".join((tmp_path / document).read_text() for document in NAMED)
    assert "](https://mybinder.org" in text and "<!-- shown once" not in text
    assert old not in text and "https://ada.github.io/rings/" in text and read_repository(tmp_path) == "ada/rings"
    assert name_repository(tmp_path, "ada/rings") == []
    with pytest.raises(ValueError, match="a name such as ada/course"):
        name_repository(tmp_path, "rings")


@pytest.mark.parametrize("part", ["player", "form"])
def test_a_part_of_a_page_needs_no_module(part: str) -> None:
    script = as_classic_script(part, (BROWSER / f"{part}.js").read_text())
    assert "export " not in script and f'["{part}"] = {{' in script
    with pytest.raises(ValueError, match="one 'export default"):
        as_classic_script(part, "export const x = 1;")


def test_the_moving_picture_is_small() -> None:
    assert len(moving_ring().encode()) < 300_000


def test_the_map_leads_from_all_that_a_lesson_says_it_needs() -> None:
    lessons = read_lessons(ROOT)
    by_name = {lesson.name: lesson for lesson in lessons}
    drawn = lesson_map(lessons)

    def below(name: str) -> set[str]:
        return set().union(*({need} | below(need) for need in by_name[name].needs))

    for lesson in lessons:
        assert set(lesson.needs) <= by_name.keys(), lesson.name
        assert lesson.name not in below(lesson.name)
    direct = [need for lesson in lessons for need in lesson.needs if not any(need in below(n) for n in lesson.needs)]
    assert drawn.count('marker-end="url(#tip)"') == len(direct)
    core = {f"{number:02}" for number in range(5, 13)} - {by_name["08_decentralized"].number}  # 08 is a side road
    assert core <= {by_name[need].number for need in by_name["19_capstone"].needs}

"""The whole site, built of a course with one stored run: a page with each kind of picture, looked at in a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

from distlib.authoring.cells import AuthoringError
from distlib.authoring.site.__main__ import LARGEST
from distlib.authoring.site.site_links import find_faults
from distlib.authoring.site.sphinx_site import Site
from distlib.authoring.stored_runs import StoredRuns
from tests.tools.chromium import fresh_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LESSON = "01_messages"
CELLS = (
    "import torch\n"
    "from distlib import SimulatedWorld, all_reduce\n"
    "from distlib.draw import explore_race, play_chunks, play_timeline, predict, timeline, watch_chunks\n"
    "world = SimulatedWorld(4)\n"
    "_ = world.run(all_reduce, torch.ones(40))",
    "guess_1 = predict('How many rounds?', choices=['3', '6'])",
    "print(guess_1.compare('6'))",
    "play_timeline(world.trace)",
    "play_chunks(watch_chunks(world, all_reduce))",
    "explore_race()",
    "timeline(world.trace)",
)
PARTS = ("README.md", "ANYWHERE.md", "LICENSE", "LICENSE-prose", "pyproject.toml", "course", "exercises", "docker")


@pytest.fixture(scope="module")
def runs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredRuns:
    """A copy of the course in which one lesson has our cells below its text, and was run."""
    folder = tmp_path_factory.mktemp("course")
    for name in PARTS:
        (shutil.copytree if (root / name).is_dir() else shutil.copy)(root / name, folder / name)
    (folder / "distlib").symlink_to(root / "distlib")
    path = folder / "course" / f"{LESSON}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    prose = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    notebook.cells = [*prose, *(nbformat.v4.new_code_cell(cell) for cell in CELLS)]
    nbformat.write(notebook, path)
    made = StoredRuns(folder)
    made.make(LESSON)
    return made


@pytest.fixture(scope="module")
def site(runs: StoredRuns) -> Site:
    pytest.importorskip("furo", reason="needs the extra `site`")
    made = Site(runs.root, runs, runs.root / "build" / "pages", runs.root / "build" / "site")
    made.write_pages()
    made.build()
    return made


def test_a_run_is_stored_with_its_outputs(runs: StoredRuns) -> None:
    assert runs.is_current(LESSON)
    outputs = [cell.outputs for cell in runs.read(LESSON).cells if cell.cell_type == "code"]  # type: ignore[union-attr]
    assert outputs[2][0].text == "The run says 6. (No prediction was committed.)\n"


def test_a_lesson_that_fails_is_not_stored(runs: StoredRuns) -> None:
    path = runs.root / "course" / "02_all_reduce.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    with pytest.raises(AuthoringError, match="(?s)02_all_reduce fails: .*ZeroDivisionError"):
        runs.make("02_all_reduce")
    assert runs.read("02_all_reduce") is None
    shutil.copy(Path(__file__).parents[2] / "course" / path.name, path)


def test_no_link_is_broken_and_nothing_comes_from_elsewhere(site: Site) -> None:
    assert find_faults(site.target) == []


def test_no_page_is_large(site: Site) -> None:
    sizes = {path.name: path.stat().st_size for path in site.target.rglob("*.html")}
    assert max(sizes.values()) <= LARGEST


def test_every_lesson_and_exercise_has_a_page_and_no_solution(site: Site, root: Path) -> None:
    pages = {path.relative_to(site.target).with_suffix("").as_posix() for path in site.target.rglob("*.html")}
    released = [*root.glob("course/*.ipynb"), *root.glob("exercises/*/*.ipynb")]
    assert {path.relative_to(root).with_suffix("").as_posix() for path in released} - pages == set()
    told = [path for path in site.target.rglob("*") if path.is_file() and b"BEGIN SOLUTION" in path.read_bytes()]
    assert told == []


def test_a_word_is_found(site: Site) -> None:
    index = (site.target / "searchindex.js").read_text()
    assert re.search(r'"?ring"?:\[', index)
    assert "ring_all_reduce" in index


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, site: Site, browser: Browser) -> Iterator[Page]:
    """The page of the lesson, on a small screen, in each color scheme; it must not ask for anything outside."""
    with fresh_page(browser, 390, 844, color_scheme=request.param) as page:
        asked: list[str] = []
        page.on("request", lambda sent: asked.append(sent.url))
        page.on("pageerror", lambda error: asked.append(f"an error: {error}"))
        page.goto((site.target / "course" / f"{LESSON}.html").as_uri())
        yield page
        assert [url for url in asked if not url.startswith("file:")] == []


@pytest.mark.browser
def test_players_and_forms_live_without_a_kernel(page: Page) -> None:
    assert page.locator(".distlib-player").count() == 3
    player = page.locator(".distlib-player").nth(1)
    assert player.locator(".distlib-place").text_content() == "round 3 of 6", "it does not open in the midst of the run"
    player.get_by_label("First step (Home)").click()
    player.get_by_label("One step on (→)").click()
    assert player.locator(".distlib-place").text_content() == "round 1 of 6"
    player.press("End")
    assert player.locator(".distlib-place").text_content() == "round 6 of 6"
    form = page.locator(".distlib-form")
    form.locator(".distlib-commit").click()
    assert "Not yet" in str(form.locator(".distlib-state").text_content())
    form.get_by_label("6").check()
    form.locator(".distlib-commit").click()
    assert form.locator(".distlib-state").text_content() == "✓ Committed: 6."
    form.get_by_text("Change it").click()
    assert form.get_by_label("3").is_enabled()


@pytest.mark.browser
def test_nothing_is_wider_than_a_phone_and_one_paper_is_seen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    seen, hidden = (".distlib-dark", ".distlib-light") if dark else (".distlib-light", ".distlib-dark")
    papers = page.locator(".distlib-papers").last
    papers.scroll_into_view_if_needed()
    papers.locator(seen).wait_for(state="visible")  # it is loaded when it comes into view
    assert not papers.locator(hidden).is_visible()

"""What a student does, in a real browser: open a lesson, run it, write the exercise, validate it."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import psutil
import pytest

from distlib.folded_answers import NOT_RUN, TITLE
from tests.tools.chromium import PATIENCE, fresh_page
from tests.tools.lab_process import running_lab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1200)]

# All lessons run in test_lessons.py; in a browser the first one. What is played: tests/draw/test_player_browser.py.
LESSONS = ("lessons/lesson_00_start_here.ipynb",)
EXERCISE = "exercises/02_all_reduce/02_all_reduce.ipynb"
LONG_LESSON = "lessons/lesson_08_decentralized.ipynb"
UNWRITTEN = "exercises/01_messages/01_messages.ipynb"
IN_VIEW = """element => {
    const [seen, of] = [element, element.closest(".jp-WindowedPanel-outer")].map(each => each.getBoundingClientRect());
    return seen.height > 0 && seen.top >= of.top - 5 && seen.bottom <= of.bottom + 5;
}"""


@pytest.fixture(scope="module")
def course(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course, as students have it."""
    folder = tmp_path_factory.mktemp("student")
    for name in ("course", "exercises"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(root / "nbgrader_config.py", folder)
    return folder


@pytest.fixture(scope="module")
def address(course: Path) -> Iterator[str]:
    """JupyterLab on that copy; afterwards nothing that it started is alive."""
    with running_lab(course) as (process, address):
        yield address
        below = psutil.Process(process.pid).children(recursive=True)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert alive == []


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with fresh_page(browser, 1400, 1000) as page:
        yield page


def go_to(page: Page, address: str, notebook: str) -> None:
    workspace = re.sub(r"\W", "-", notebook)
    page.goto(address.replace("/lab/tree/", f"/lab/workspaces/{workspace}/tree/").replace(LESSONS[0], notebook))


def open_notebook(page: Page, address: str, notebook: str) -> None:
    """Opens a notebook in a workspace of its own, so that no other tab is in the way."""
    go_to(page, address, notebook)
    page.wait_for_selector(".jp-Notebook .jp-Cell >> visible=true")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # what runs before the kernel is ready is dropped


def saved_when_executed(page: Page, path: Path) -> list[nbformat.NotebookNode]:
    """Saves the notebook until its last code cell has been executed; returns its code cells."""
    deadline = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < deadline:
        page.keyboard.press("Control+s")
        time.sleep(1)
        with contextlib.suppress(ValueError):  # half of it, if it is being written
            cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
            if cells[-1].execution_count:
                return cells
    raise AssertionError(f"not executed: {[cell.source for cell in cells if not cell.execution_count][0]}")


def complaints(cells: list[nbformat.NotebookNode]) -> list[str]:
    """The errors of cells that have to work, and the stderr output of all."""
    outputs = [output for cell in cells for output in cell.outputs]
    working = [cell for cell in cells if "raises-exception" not in cell.metadata.get("tags", [])]
    errors = [str(each.evalue) for cell in working for each in cell.outputs if each.output_type == "error"]
    return errors + [str(output.text) for output in outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_student_runs_a_lesson(page: Page, address: str, course: Path, lesson: str) -> None:
    open_notebook(page, address, lesson)
    run_all(page)
    cells = saved_when_executed(page, course / "work" / lesson)
    assert [cell.source for cell in cells if not cell.execution_count] == []
    assert complaints(cells) == []
    assert page.locator(".jp-Notebook img").count() > 0  # the pictures of the run
    assert page.get_by_text("Would you like to get notified").count() == 0


def test_a_folded_answer_opens_and_runs_only_when_it_is_asked_for(page: Page, address: str) -> None:
    open_notebook(page, address, LESSONS[0])
    page.locator(".jp-Notebook .jp-Cell").first.click()
    page.keyboard.press("Escape")
    passed_over = page.locator(".jp-CodeCell", has=page.get_by_text(NOT_RUN)).first
    while not passed_over.count():
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(100)  # it goes on to the next cell
    passed_over.locator(
        ".jp-InputPlaceholder, .jp-Placeholder", has_text=re.compile(rf"^\s*{re.escape(TITLE)}\s*$")
    ).first.wait_for()
    assert page.get_by_text("def swap_in_order").count() == 0
    passed_over.locator(".jp-Placeholder-contentContainer").first.click()
    answer = page.locator(".jp-CodeCell", has_text="def swap_in_order").first
    answer.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Control+Enter")
    answer.locator(".jp-OutputArea", has_text="[1.0, 0.0] [1.0, 0.0]").wait_for()


def test_preformatted_text_keeps_its_columns_in_a_narrow_window(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 1100, "height": 1000})
    open_notebook(page, address, "lessons/lesson_10b_whole_transformer.ipynb")
    drawing = page.locator(".jp-RenderedMarkdown pre", has_text="8 query heads           4 KV heads").first
    drawing.wait_for()
    assert drawing.evaluate("pre => pre.scrollWidth > pre.clientWidth"), "it wraps, or the window is wide enough"


def test_the_table_of_contents_jumps_to_the_last_part_of_a_long_lesson(page: Page, address: str) -> None:
    open_notebook(page, address, LONG_LESSON)
    page.keyboard.press("Control+Shift+k")
    page.locator(".jp-tocItem-content").last.click()
    heading = page.locator(".jp-Notebook h2").last
    page.wait_for_function(IN_VIEW, arg=heading.element_handle())
    assert page.locator(".jp-Notebook .jp-Cell").count() > 100  # all are laid out, so that none moves what is in view


def test_a_lesson_opens_where_one_was(page: Page, address: str, browser: Browser) -> None:
    open_notebook(page, address, LONG_LESSON)
    page.keyboard.press("Control+Shift+k")
    heading = page.locator(".jp-tocItem-content", has_text="In short")
    title = heading.inner_text().strip()
    with page.expect_response(lambda answer: "/distlib/places" in answer.url and answer.status == 204):
        heading.click()
    with fresh_page(browser, 1400, 1000) as next_day:
        open_notebook(next_day, address, LONG_LESSON)
        next_day.get_by_text("Opened where you were.").wait_for()
        there = next_day.locator(".jp-Notebook h2", has_text=title)
        next_day.wait_for_function(IN_VIEW, arg=there.element_handle())
        next_day.get_by_role("button", name="To the top").click()
        first = next_day.locator(".jp-Notebook h1").first
        next_day.wait_for_function(IN_VIEW, arg=first.element_handle())


def run_all(page: Page) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu-item", has_text="Run All Cells").first.click()


def test_cells_wait_for_their_kernel_and_a_half_done_exercise_runs_to_its_end(page: Page, address: str) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        """The first request for a kernel."""
        if route.request.method == "POST" and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/sessions*", hold)
    go_to(page, address, UNWRITTEN)
    page.wait_for_selector(".jp-Notebook .jp-Cell >> visible=true")
    run_all(page)
    page.get_by_text("The kernel is not there yet.").wait_for()
    cells = page.locator(".jp-Notebook .jp-CodeCell").count()
    assert page.locator(".jp-InputPrompt", has_text="[*]").count() == cells
    held[0].continue_()
    page.get_by_text("All others have run, too.").wait_for()
    ran = page.locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]"))
    assert ran.count() == cells
    page.get_by_role("button", name="Show the first").click()
    error = page.locator(".jp-CodeCell", has=page.locator("[data-mime-type='application/vnd.jupyter.stderr']")).first
    assert "jp-mod-active" in str(error.get_attribute("class"))


def test_an_interrupt_ends_all_cells_of_an_exercise(page: Page, address: str, course: Path) -> None:
    open_notebook(page, address, UNWRITTEN)
    write_answer(page, "shift", "import time\nprint('begun')\ntime.sleep(10_000)")
    run_all(page)
    page.locator(".jp-OutputArea", has_text="begun").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    page.keyboard.press("i")
    page.locator(".jp-OutputArea", has_text="KeyboardInterrupt").first.wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    assert page.locator(".jp-InputPrompt", has_text="[*]").count() == 0
    assert page.locator(".jp-CodeCell .jp-InputPrompt").last.inner_text() == "[ ]:"


def answers(root: Path) -> dict[str, str]:
    """The text of each solution cell as a student would have written it."""
    notebook = nbformat.read(root / "solutions" / "02_all_reduce" / "02_all_reduce.ipynb", as_version=4)
    solutions = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return {cell.id: re.sub(r" *### (BEGIN|END) SOLUTION\n?", "", cell.source) for cell in solutions}


def definition_of(name: str) -> re.Pattern[str]:
    """The beginning of a function or class."""
    return re.compile(rf"\b(def|class) {name}[(:]")


def write_answer(page: Page, name: str, answer: str) -> None:
    """Replaces what stands in the solution cell of a function or class, by keyboard."""
    editor = page.locator(".jp-CodeCell .cm-content", has_text=definition_of(name)).first
    editor.scroll_into_view_if_needed()
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(answer)


def validate(page: Page) -> str:
    """Presses nbgrader's Validate and returns what its dialog says. Once more if the kernel's port was just taken."""
    text = _validate_once(page)
    return _validate_once(page) if "Cannot validate" in text else text


def _validate_once(page: Page) -> str:
    page.get_by_text("Validate", exact=True).first.click()  # it saves; saving at the same moment would be a conflict
    dialog = page.locator(".jp-Dialog")
    dialog.wait_for(timeout=300_000)  # it runs the whole notebook
    text = dialog.inner_text()
    dialog.get_by_role("button").last.click()
    return text


def test_a_student_writes_and_validates_the_exercise(page: Page, address: str, root: Path, course: Path) -> None:
    open_notebook(page, address, EXERCISE)
    before = validate(page)
    assert "Success" not in before
    assert "failed" in before
    for name, answer in answers(root).items():
        write_answer(page, name, answer)
    assert "Success! Your notebook passes all the tests." in validate(page)
    handed_in = {cell.id: cell for cell in nbformat.read(course / "work" / EXERCISE, as_version=4).cells}
    for name, answer in answers(root).items():
        assert handed_in[name].source.strip() == answer.strip()
        assert handed_in[name].metadata.nbgrader.grade_id == name


def test_the_page_of_ones_own_course_leads_to_notebooks(page: Page, address: str) -> None:
    page.goto(address.replace("/lab/tree/", "/lab/workspaces/own-course/tree/").replace(LESSONS[0], "my_course.md"))
    page.locator(".jp-RenderedMarkdown table").wait_for()  # as a table, and not as its text
    page.get_by_role("link", name="Trees", exact=True).click()
    page.wait_for_selector(".jp-Notebook .jp-Cell >> visible=true")
    assert page.title().startswith("lesson_03")

"""Pictures and predictions in a real JupyterLab: alt text, answers by key and by mouse, and without a kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distlib.cli import lab
from tests.draw.test_player_browser import end_kernels
from tests.notebooks.test_browser import LESSONS, open_notebook
from tests.tools.chromium import PATIENCE, fresh_page
from tests.tools.lab_process import running_dark_lab, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

CELLS = (
    "from distlib.draw import predict, timeline\n"
    "from distlib.trace import CallSite, Message, Trace\n"
    "site = CallSite('cell 1', 'f', 'f', 1)\n"
    "trace = Trace(2, [Message(0, 1, 0, 8, 'float32', (2,), 0.0, 0.1, 0.3, 1, site, site)])",
    "by_key = predict('How many bytes?', unit='B')",
    "by_button = predict('How many rounds?', unit='rounds')",
    "timeline(trace)",
    "by_key.compare(trace.bytes_sent[0])",
    "choice = predict('Which is fastest?', choices=['master', 'ring', 'tree'])",
    "order = predict('Order them, fastest first.', order=['master', 'ring', 'tree'])",
    "print(choice.compare('tree'), order.compare(['tree', 'master', 'ring']))",
    "from distlib.draw import play_cluster\nplay_cluster(2)",
)
TITLES = "Messages of 2 ranks. Timeline of 2 ranks over seconds: 1 message of 8 B in 1 round."
AGAIN = "lessons/again.ipynb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `distlib lab` opens in the dark theme, with our cells as the first lesson, and once more."""
    folder = tmp_path_factory.mktemp("pictures")
    for path in (folder / lab.FIRST_LESSON, folder / "work" / AGAIN):
        write_notebook(path, CELLS)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with running_dark_lab(folder) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with fresh_page(browser, 1280, 1600) as page:
        yield page


def test_a_student_predicts_and_looks(page: Page, address: str) -> None:
    open_notebook(page, address, LESSONS[0])
    run_all(page)
    page.locator(".jp-OutputArea p", has_text="The run says 8 B. (No prediction was committed.)").wait_for()
    _commit_by_key(page.locator(".jp-Cell").nth(1))
    _commit_by_button(page.locator(".jp-Cell").nth(2))
    _choose_by_key(page.locator(".jp-Cell").nth(5))
    _order_by_key_and_mouse(page.locator(".jp-Cell").nth(6))
    _change_it(page.locator(".jp-Cell").nth(6))
    for number in (4, 7):
        page.locator(".jp-Cell").nth(number).locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
    page.get_by_text("the run says tree, master, ring. Only ring and master are swapped.").wait_for()
    picture = page.locator(".jp-OutputArea img >> visible=true")
    picture.wait_for()
    assert (picture.get_attribute("alt") or "").startswith(TITLES)
    assert picture.get_attribute("class") == "distlib-dark", "the theme is dark"
    box = picture.bounding_box()
    assert box is not None and 600 < box["width"] <= 900
    _run_again_and_on(page.locator(".jp-Cell").nth(2))
    answer = "You said 2*4 B, which is 8 B, the run says 8 B. That is right."
    page.locator(".jp-OutputArea p", has_text=answer).wait_for()
    assert page.locator("body").get_attribute("data-jp-theme-light") == "false"


def _commit_by_key(cell: Locator) -> None:
    field = cell.get_by_label("Your prediction:")
    field.fill("lots")
    field.press("Enter")
    cell.get_by_text("Not yet: expected a number of B").wait_for()
    assert field.is_enabled() and field.get_attribute("aria-invalid") == "true"
    field.fill("")
    field.page.keyboard.type("2*4 B\n")  # as fast as it can be typed; Enter comes at once
    said = cell.get_by_text("✓ Committed: 2*4 B, which is 8 B, after the run.")  # which has told the answer above
    said.wait_for()
    assert not field.is_enabled()
    assert said.evaluate("(one) => one === document.activeElement"), "the focus stays in the form"


def _commit_by_button(cell: Locator) -> None:
    field, button = cell.get_by_label("Your prediction:"), cell.get_by_role("button", name="Commit")
    box = button.bounding_box()
    assert box is not None
    field.focus()
    field.page.keyboard.type("7*16")
    field.page.mouse.click(box["x"] + 9, box["y"] + 9)  # at once: no wait as click() of a locator has
    cell.get_by_text("✓ Committed: 7*16, which is 112 rounds.").wait_for()
    assert not field.is_enabled()
    assert not cell.get_by_role("button", name="Committed").is_enabled()


def _choose_by_key(cell: Locator) -> None:
    keyboard = cell.page.keyboard
    cell.get_by_role("radio", name="master").focus()
    keyboard.press("Enter")
    cell.get_by_text("Not yet: expected one of master, ring, tree, got nothing.").wait_for()
    keyboard.press(" ")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowDown")
    assert cell.get_by_role("radio", name="tree").is_checked()
    keyboard.press("Enter")
    cell.get_by_text("✓ Committed: tree, after the run.").wait_for()


def _order_by_key_and_mouse(cell: Locator) -> None:
    cell.get_by_role("button", name="tree, no place yet").focus()
    cell.page.keyboard.press("Enter")
    cell.get_by_role("button", name="master, no place yet").click()
    cell.get_by_role("button", name="Commit").click()
    cell.get_by_text("Not yet: expected each of master, ring, tree once, in an order, got tree, master.").wait_for()
    cell.get_by_role("button", name="master, place 2").click()
    cell.get_by_role("button", name="ring, no place yet").click()
    cell.get_by_role("button", name="master, no place yet").focus()
    cell.page.keyboard.press(" ")
    cell.get_by_text("Your order so far: tree, ring, master.").wait_for()
    cell.get_by_role("button", name="Commit").press("Enter")
    cell.get_by_text("✓ Committed: tree, ring, master, after the run.").wait_for()


def _change_it(cell: Locator) -> None:
    cell.get_by_role("button", name="Change it").click()
    commit = cell.get_by_role("button", name="Commit", exact=True)
    commit.wait_for()
    assert cell.get_by_role("button", name="tree, place 1").is_enabled(), "it stands as it was committed"
    commit.click()
    cell.get_by_text("✓ Committed: tree, ring, master, after the run.").wait_for()


def _run_again_and_on(cell: Locator) -> None:
    """Shift+Enter, as lessons say: in the cell that was clicked into last, the question's, and then in the next one."""
    cell.get_by_text("✓ Committed").click()
    cell.page.keyboard.press("Shift+Enter")
    cell.get_by_text("✓ Committed: 7*16, which is 112 rounds.").wait_for()
    assert not cell.get_by_label("Your prediction:").is_enabled()


def _restart(page: Page) -> None:
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.locator(".lm-Menu-item", has_text="Restart Kernel…").first.click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()


def test_after_a_restart_and_on_the_next_day_the_form_says_what_to_do(page: Page, address: str, folder: Path) -> None:
    open_notebook(page, address, AGAIN)
    run_all(page)
    page.locator(".jp-OutputArea p", has_text="The run says 8 B. (No prediction was committed.)").wait_for()
    _commit_by_button(page.locator(".jp-Cell").nth(2))
    _restart(page)
    cell = page.locator(".jp-Cell").nth(1)
    cell.get_by_text("The kernel does not know this form any more. Run this cell again, then commit.").wait_for()
    assert not cell.get_by_label("Your prediction:").is_enabled()
    assert not cell.get_by_role("button", name="Commit").is_enabled()
    committed = page.locator(".jp-Cell").nth(2)
    committed.get_by_text("✓ Committed: 7*16, which is 112 rounds.").wait_for()
    assert not committed.get_by_role("button", name="Change it").is_visible()
    board = page.locator(".jp-Cell").nth(8)
    lost = board.get_by_text("Not connected to the kernel any more: to go on, run this cell again.")
    lost.first.wait_for()
    assert lost.locator("visible=true").count() == 1, "of several sliders, the first one says so"
    sliders = board.get_by_role("slider").all() + board.get_by_role("radio").all()
    assert len(sliders) > 4 and not any(each.is_enabled() for each in sliders)
    board.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    page.locator(".jp-Cell").nth(8).get_by_role("slider").first.wait_for()
    page.wait_for_function("() => [...document.querySelectorAll('input[type=range]')].every((one) => !one.disabled)")
    page.locator(".jp-Cell").nth(4).locator(".cm-content").click()
    page.keyboard.press("Control+s")
    page.locator(".jp-Cell").nth(4).locator(".cm-content").click()
    saved_when(page, folder / "work" / AGAIN, "You committed: 7*16, which is 112 rounds.")
    end_kernels(address)
    page.route("**/api/sessions*", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    page.goto(address.replace("/lab/tree/", "/lab/workspaces/again/tree/").replace(LESSONS[0], AGAIN))
    page.get_by_text("You committed: 7*16, which is 112 rounds. To make a prediction, run this cell").wait_for()
    page.get_by_text("(master, ring, tree) To make a prediction, run this cell").first.wait_for()
    for words in ("Loading widget", "Error displaying widget", "model not found"):
        assert not page.get_by_text(words).locator("visible=true").count()


def run_all(page: Page) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu-item", has_text="Run All Cells").first.click()


def saved_when(page: Page, path: Path, words: str) -> None:
    """Saves the notebook until these words are in its file."""
    deadline = time.monotonic() + PATIENCE / 1000
    while words.encode() not in path.read_bytes():  # half a file, if it is being written
        assert time.monotonic() < deadline, f"not saved: {words}"
        page.keyboard.press("Control+s")
        time.sleep(1)

"""Pictures and predictions in a real JupyterLab: shown with alt text, committed by key and by button."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

from distlib.cli import lab
from tests.lab_process import running_lab
from tests.test_browser import FLAGS, PATIENCE, open_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

CELLS = (
    "from distlib.draw import predict, timeline\n"
    "from distlib.trace import CallSite, Message, Trace\n"
    "site = CallSite('cell 1', 'f', 'f', 1)\n"
    "trace = Trace(2, [Message(0, 1, 0, 8, 'float32', (2,), 0.0, 0.1, 0.3, 1, site, site)])",
    "by_key = predict('How many bytes?', unit='B')",
    "by_button = predict('How many rounds?', unit='rounds')",
    "timeline(trace)",
    "by_key.compare(trace.bytes_sent[0])",
)
TITLES = "Messages of 2 ranks. Timeline of 2 ranks over seconds: 1 message of 8 B in 1 round."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that `distlib lab` opens, with our cells instead of the first lesson."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / lab.FIRST_LESSON
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    return tmp_path


@pytest.fixture
def page(browser_path: str) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1600})
        page.set_default_timeout(PATIENCE)
        yield page
        browser.close()


def test_a_student_predicts_and_looks(page: Page, folder: Path) -> None:
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": "JupyterLab Dark"}))
    with running_lab(folder, JUPYTERLAB_SETTINGS_DIR=str(folder / "settings")) as (_, address):
        open_notebook(page, address, str(lab.FIRST_LESSON))
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.locator(".lm-Menu-item", has_text="Run All Cells").first.click()
        page.locator(".jp-OutputArea p", has_text="The run says 8 B. (No prediction was committed.)").wait_for()
        _commit_by_key(page.locator(".jp-Cell").nth(1))
        _commit_by_button(page.locator(".jp-Cell").nth(2))
        page.locator(".jp-Cell").nth(4).locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        picture = page.locator(".jp-OutputArea img")
        picture.wait_for()
        assert (picture.get_attribute("alt") or "").startswith(TITLES)
        box = picture.bounding_box()
        assert box is not None and 600 < box["width"] <= 900
        answer = "You said 2*4 B, which is 8 B, the run says 8 B. That is right."
        page.locator(".jp-OutputArea p", has_text=answer).wait_for()
        assert page.locator("body").get_attribute("data-jp-theme-light") == "false"


def _commit_by_key(cell: Locator) -> None:
    field = cell.locator("input")
    field.fill("lots")
    field.press("Enter")
    cell.get_by_text("Not yet: expected a number of B").wait_for()
    assert field.is_enabled()
    field.fill("2*4 B")
    field.press("Enter")
    cell.get_by_text("Committed: 2*4 B, which is 8 B.").wait_for()
    assert not field.is_enabled()


def _commit_by_button(cell: Locator) -> None:
    cell.locator("input").fill("6")
    cell.get_by_role("button", name="Commit").click()
    cell.get_by_text("Committed: 6 rounds.").wait_for()
    assert not cell.locator("input").is_enabled()
    assert not cell.get_by_role("button", name="Committed").is_enabled()

"""Every kind of picture in a real JupyterLab, on a small screen and at 150 %, in both themes, by mouse and by keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import nbformat
import pytest

from distlib.cli import lab
from tests.notebooks.test_browser import LESSONS, open_notebook
from tests.tools.chromium import fresh_page
from tests.tools.first_sight import faults
from tests.tools.lab_process import running_lab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

CELLS = (
    "import torch\n"
    "from distlib import Cluster, Link, SimulatedWorld\n"
    "from distlib.collectives import ring_all_reduce\n"
    "from distlib.draw import *\n"
    "from distlib.training.schedules import one_forward_one_backward, time_schedule\n"
    "world = SimulatedWorld(4, Cluster.flat(4, Link(1e-3, 1e6)))\n"
    "_ = world.run(ring_all_reduce, torch.ones(40))",
    "play_timeline(world.trace)",
    "play_timeline(world.trace, by='time')",
    "play_chunks(watch_chunks(SimulatedWorld(8), ring_all_reduce))",
    "play_pipeline(time_schedule(one_forward_one_backward(4, 8)))",
    "explore_race()",
    "play_cluster(2)",
    "play_golf(1)",
    "number = predict('How many bytes?', unit='B')",
    "choice = predict('Which is fastest?', choices=['master', 'ring', 'tree'])",
    "order = predict('Order them, fastest first.', order=['master', 'ring', 'tree'])",
    "timeline(world.trace)",
)
PLAYERS = 7
ROOMS = {"100 %": (1280, 720), "150 %": (853, 480)}
"""CSS pixels of a screen of 1280 × 720."""

JUPYTERS_KEYS = ("d", "d", "a", "b", "x", "m", "ArrowUp", "ArrowDown", "Enter")
"""In the mode in which cells are chosen they delete, add, cut, change, leave and open a cell."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `distlib lab` opens, with our cells instead of the first lesson."""
    folder = tmp_path_factory.mktemp("kinds")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (folder / lab.FIRST_LESSON).parent.mkdir()
    nbformat.write(notebook, folder / lab.FIRST_LESSON)
    return folder


@pytest.fixture(scope="module")
def page(folder: Path, browser: Browser) -> Iterator[Page]:
    """The notebook when it has run. All outputs are in the page: else JupyterLab has only those in sight."""
    settings = folder / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    with (
        running_lab(folder, JUPYTERLAB_SETTINGS_DIR=str(folder / "settings")) as (_, address),
        fresh_page(browser, 1280, 720) as page,
    ):
        open_notebook(page, address, LESSONS[0])
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.locator(".lm-Menu-item", has_text="Run All Cells").first.click()
        page.locator(".distlib-player").nth(PLAYERS - 1).wait_for()
        page.locator(".distlib-form").nth(2).wait_for()
        page.locator(".distlib-papers img >> visible=true").wait_for()
        yield page


def test_players_open_in_the_midst_of_the_run(page: Page) -> None:
    places = page.locator(".distlib-controls:visible .distlib-place").all_inner_texts()
    assert places == ["round 3 of 6", "arrival 3 of 6", "round 7 of 14", "moment 16 of 31"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_small_pale_or_cut(page: Page, theme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=theme)  # JupyterLab follows, since nobody has chosen a theme here
    page.locator(f'body[data-jp-theme-light="{str(theme == "light").lower()}"]').wait_for(state="attached")
    for width, height in ROOMS.values():
        page.set_viewport_size({"width": width, "height": height})
        assert page.locator(".jp-FileBrowser").is_visible()
        for key in ("Home", "End", "ArrowLeft"):
            for player in page.locator(".distlib-player[tabindex]").all():
                player.press(key)
            assert faults(page) == [], (width, key)


@pytest.mark.parametrize("room", ROOMS)
def test_sliders_and_picture_of_a_game_are_on_one_screen(page: Page, room: str) -> None:
    """At 150 % when the list of files is folded away, which leaves the notebook the screen."""
    page.set_viewport_size(dict(zip(("width", "height"), ROOMS[room], strict=True)))  # type: ignore[arg-type]
    if room == "150 %":
        page.keyboard.press("Control+b")
        page.locator(".jp-FileBrowser").wait_for(state="hidden")
    for board in page.locator(".distlib-board.distlib-at-left").all():
        page.wait_for_function(_ON_ONE_SCREEN, arg=board.element_handle())
    if room == "150 %":
        page.keyboard.press("Control+b")
        page.locator(".jp-FileBrowser").wait_for()


_ON_ONE_SCREEN = """(board) => {
  const parts = [...board.querySelectorAll(".distlib-slider, svg")].map((one) => one.getBoundingClientRect());
  const height = Math.max(...parts.map((one) => one.bottom)) - Math.min(...parts.map((one) => one.top));
  const picture = board.querySelector(".distlib-picture");
  const room = board.closest(".jp-NotebookPanel-notebook").clientHeight;
  return height <= room && picture.scrollWidth <= picture.clientWidth;
}"""


def test_with_little_room_the_step_and_the_names_of_lanes_stay_in_sight(page: Page) -> None:
    page.set_viewport_size({"width": 853, "height": 480})
    player = page.locator(".distlib-player").first
    picture = player.locator(".distlib-picture")
    assert picture.evaluate("(one) => one.scrollWidth > one.clientWidth"), "there is room for all of it"
    for key, place in (("End", "round 6 of 6"), ("Home", "start"), ("ArrowRight", "round 1 of 6")):
        player.press(key)
        player.locator(".distlib-place", has_text=place).wait_for()
        page.wait_for_function(_IN_SIGHT, arg=picture.element_handle())


_IN_SIGHT = """(picture) => {
  const frame = picture.getBoundingClientRect();
  const inside = (one) => {
    const box = one.getBoundingClientRect();
    return frame.left - 1 <= box.left && box.right <= frame.right + 1;
  };
  const now = [...picture.querySelectorAll("path[data-tip]:not(.distlib-gone, .distlib-past, .distlib-wide)")];
  return [...now, ...picture.querySelectorAll(".distlib-stuck")].every(inside);
}"""


def test_played_it_begins_at_the_start_and_is_read_where_it_stops(page: Page) -> None:
    player = page.locator(".distlib-player").nth(2)
    player.evaluate("(one) => (window.places = [])")
    player.locator(".distlib-place").evaluate(
        "(place) => new MutationObserver(() => places.push(place.textContent)).observe(place, {childList: true})"
    )
    player.press("End")
    player.press("Enter")
    words = player.locator(".distlib-words")
    assert words.get_attribute("aria-live") == "off", "each step would be read when the next ones are long past"
    player.locator(".distlib-place", has_text="round 14 of 14").wait_for()
    player.get_by_role("button", name="Play (space)").wait_for()
    assert words.get_attribute("aria-live") == "polite"
    assert page.evaluate("places.indexOf('start') < places.indexOf('round 1 of 14')")


def test_the_tab_key_reaches_each_control_and_it_is_seen_where_it_is(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    player = page.locator(".distlib-player").first
    player.focus()
    reached = []
    while player.evaluate("(one) => one.contains(document.activeElement)"):
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        reached.append(page.evaluate("document.activeElement.ariaLabel"))
        assert outline == "solid", reached
        page.keyboard.press("Tab")
    buttons = ["First step (Home)", "One step back (←)", "Play (space)", "One step on (→)", "Last step (End)"]
    assert reached == ["Messages of 4 ranks", *buttons, "Step", "This step in words"]


@pytest.mark.parametrize(
    ("kind", "control"),
    [
        ("player", ".distlib-player[tabindex]"),
        ("button of a player", ".distlib-player .distlib-play"),
        ("scrubber", ".distlib-player input"),
        ("list of a player", ".distlib-details"),
        ("picture of a player, scrolled", ".distlib-picture"),
        ("picture, scrolled", ".jp-OutputArea-output > .distlib-papers:visible"),
        ("slider", ".distlib-slider input"),
        ("choice", ".distlib-slider input[type=radio]"),
        ("field", ".distlib-form input[type=text]"),
        ("choice of a form", ".distlib-form input[type=radio]"),
        ("order of a form", ".distlib-form button.distlib-option"),
    ],
    ids=lambda words: words if "." not in words else "",
)
def test_keys_in_a_picture_are_not_jupyterlabs(page: Page, kind: str, control: str) -> None:
    page.set_viewport_size({"width": 853, "height": 480})
    focused = page.locator(control).first
    focused.focus()
    assert focused.evaluate("(one) => one === document.activeElement"), kind
    before = _cells(page)
    for key in JUPYTERS_KEYS:
        page.keyboard.press(key)
        assert _cells(page) == before, key


def _cells(page: Page) -> list[str]:
    """Each cell with its kind, whether it is chosen, and whether it is being edited; and where the focus is."""
    cells: list[str] = page.locator(".jp-Notebook .jp-Cell").evaluate_all(
        """cells => {
          const told = (name) => /Cell|active|selected|editMode/.test(name);
          const looks = (one) => [...one.classList].filter(told).join(" ");
          return [...cells, document.activeElement.closest(".jp-Cell")].map((one) => one && looks(one));
        }"""
    )
    return cells


def test_escape_leads_back_to_the_cell(page: Page) -> None:
    for control in (".distlib-player[tabindex]", ".distlib-slider input", ".distlib-form input[type=text]"):
        page.locator(control).first.press("Escape")
        assert page.evaluate("document.activeElement.classList.contains('jp-Cell')")

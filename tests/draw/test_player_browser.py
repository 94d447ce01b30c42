"""Players in a real JupyterLab: played, stepped by keys, pointed at; in the dark; opened again without a kernel."""

from __future__ import annotations

import io
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from PIL import Image

from distlib.cli import lab
from tests.notebooks.test_browser import LESSONS, open_notebook, saved_when_executed
from tests.tools.chromium import fresh_page
from tests.tools.lab_process import running_dark_lab, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Request

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

CELLS = (
    "import torch\n"
    "from distlib import SimulatedWorld\n"
    "from distlib.draw import explore_race, play_chunks, play_cluster, play_timeline, watch_chunks\n"
    "def counts_again(comm, tensor):\n"
    "    size, rank = comm.world_size, comm.rank\n"
    "    chunks = tensor.tensor_split(size)\n"
    "    for step in range(2 * (size - 1)):\n"
    "        incoming = torch.empty_like(chunks[0])\n"
    "        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)\n"
    "        chunks[(rank - step - 1) % size].add_(incoming)\n"
    "world = SimulatedWorld(4)\n"
    "_ = world.run(counts_again, torch.ones(40))",
    "play_timeline(world.trace)",
    "play_chunks(watch_chunks(world, counts_again))",
    "explore_race()",
    "play_cluster(2)",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `distlib lab` opens, with our cells instead of the first lesson, in the dark theme."""
    folder = tmp_path_factory.mktemp("players")
    write_notebook(folder / lab.FIRST_LESSON, CELLS)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with running_dark_lab(folder) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """It must reach nothing but this machine."""
    elsewhere: list[str] = []

    def note(request: Request) -> None:
        if not re.match(r"data:|blob:|\w+://(localhost|127\.0\.0\.1)\b", request.url):
            elsewhere.append(request.url)

    with fresh_page(browser, 1280, 1400) as page:
        page.on("request", note)
        yield page
    assert elsewhere == []


def place(player: Locator, expected: str) -> None:
    """Waits until the player says that it is at this step."""
    player.locator(".distlib-place", has_text=re.compile(f"^{expected}$")).wait_for()


def test_a_student_plays_steps_and_points(page: Page, address: str, folder: Path) -> None:
    open_notebook(page, address, LESSONS[0])
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator(".lm-Menu-item", has_text="Run All Cells").first.click()
    messages, chunks, race, board = (page.locator(".distlib-player").nth(number) for number in range(4))
    board.wait_for()
    steps_by_keys(page, messages)
    points_at_an_arrow(page, messages)
    plays_to_the_end(chunks)
    shows_whole_lines(messages, 4)
    shows_whole_lines(chunks, 8)
    moves_a_slider(page, race)
    lays_out_a_cluster(page, board)
    stands_out_in_the_dark(messages)
    has_ids_of_its_own(page)
    is_scrolled_where_there_is_little_room(page, messages)
    saved_when_executed(page, folder / "work" / LESSONS[0])
    assert not page.locator(".distlib-still >> visible=true").count(), "no image beside a widget"


def steps_by_keys(page: Page, player: Locator) -> None:
    player.focus()
    cell = page.locator(".jp-Notebook .jp-Cell.jp-mod-active", has=player)
    cell.wait_for()
    for keys, expected in (
        (["Home", "ArrowRight", "ArrowRight"], "round 2 of 6"),
        (["ArrowLeft"], "round 1 of 6"),
        (["End"], "round 6 of 6"),
        (["Home"], "start"),
    ):
        for key in keys:
            page.keyboard.press(key)
        place(player, expected)
    assert cell.is_visible(), "the keys moved no cell: they were not JupyterLab's"
    page.keyboard.press(" ")
    player.get_by_role("button", name="Pause (space)").wait_for()
    page.keyboard.press(" ")
    player.get_by_role("button", name="Play (space)").wait_for()
    keeps_letters_to_itself(page, player.get_by_role("button", name="Last step (End)"))
    player.get_by_role("slider").fill("1")
    place(player, "round 1 of 6")
    assert "Round 1 of 6: 4 messages, 160 B." in (player.locator("svg").get_attribute("aria-label") or "")
    assert player.locator("[aria-live]").inner_text().startswith("Round 1 of 6: 4 messages")
    told = player.get_by_role("list", name="This step in words").get_by_role("listitem").all_inner_texts()
    assert len(told) == 4 and told[0].startswith("rank 0 → rank 1: 40 B")


def keeps_letters_to_itself(page: Page, focused: Locator) -> None:
    """For JupyterLab X cuts the cell and D D deletes it: not while something in a widget has the focus."""
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    focused.focus()
    for key in "xdd":
        page.keyboard.press(key)
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.classList.contains('jp-Cell')"), "Escape leads back to the cell"


def points_at_an_arrow(page: Page, player: Locator) -> None:
    wide = player.locator(".distlib-wide:not(.distlib-gone)").first  # lies over the arrow itself
    arrow = wide.evaluate("(wide) => wide.previousSibling.getBoundingClientRect().toJSON()")
    page.mouse.move(arrow["x"] + arrow["width"] / 2, arrow["y"] + arrow["height"] / 2)
    tip = player.get_by_role("tooltip")
    tip.wait_for()
    assert tip.inner_text() == "rank 0 → rank 1: 40 B (10 elements of float32), round 1, sent by cell 1, line 9"
    box = tip.bounding_box()
    assert box is not None and not overlap(arrow, box), "a tip does not cover what it explains"
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")


def overlap(one: Any, other: Any) -> bool:
    apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
    return not apart and one["y"] < other["y"] + other["height"] and other["y"] < one["y"] + one["height"]


def plays_to_the_end(player: Locator) -> None:
    assert player.locator(".distlib-warning").inner_text() == ""
    player.get_by_role("button", name="Play (space)").click()
    place(player, "round 6 of 6")
    player.get_by_role("button", name="Play (space)").wait_for()
    assert "chunk 0 on rank 0 holds rank 0's contribution twice" in player.locator(".distlib-warning").inner_text()
    assert player.locator("text:not(.distlib-gone)", has_text="×2").count() > 0


def shows_whole_lines(player: Locator, expected: int) -> None:
    """The list has room for the lines of a step: none is cut through its middle."""
    details = player.get_by_role("list", name="This step in words")
    lines = details.evaluate("(list) => list.clientHeight / parseFloat(getComputedStyle(list).lineHeight)")
    assert lines == pytest.approx(expected, abs=0.05)


def moves_a_slider(page: Page, race: Locator) -> None:
    assert "on 128 ranks" in (race.get_attribute("aria-label") or "")
    assert not race.locator(".distlib-controls").is_visible()
    names = ["size", "nodes", "ranks per node", "latency between nodes", "bandwidth between nodes"]
    sliders = [page.get_by_role("slider", name=name, exact=True) for name in names]
    assert all(slider.evaluate("(one) => one.previousSibling.offsetHeight < 30") for slider in sliders), "on one line"
    assert sliders[0].get_attribute("aria-valuetext") == "1 MiB", "the value is read, not its place"
    sliders[1].press("ArrowRight")
    page.locator('.distlib-player[aria-label*="on 256 ranks"]').wait_for()
    page.get_by_role("group", name="draw the times").get_by_role("radio", name="over the ranks").press(" ")
    page.locator('.distlib-player[aria-label^="All-reduces of 1 MiB"]').wait_for()
    keeps_letters_to_itself(page, sliders[1])


def lays_out_a_cluster(page: Page, board: Locator) -> None:
    """Each move is seen in the slider's words, and then on the board, before the next one is made."""
    shared, stages = "ranks sharing a layer (tp)", "pipeline stages (pp)"
    for ranks in (2, 4, 8):
        moves_right(page, shared, f"{ranks} ranks")
        board.locator(f'svg[aria-label*="dp {8 // ranks} × pp 1 × tp {ranks}"]').wait_for()
    moves_right(page, stages, "2 stages")
    board.get_by_text("pp 2 × tp 8 does not divide the 8 ranks", exact=True).wait_for()


def moves_right(page: Page, name: str, words: str) -> None:
    page.get_by_role("slider", name=name, exact=True).press("ArrowRight")
    page.locator(f'[aria-label="{name}"][aria-valuetext="{words}"]').wait_for()


def stands_out_in_the_dark(player: Locator) -> None:
    """The paper is dark, and there is ink on it."""
    pixels = Image.open(io.BytesIO(player.screenshot())).convert("L")
    shades = pixels.histogram()
    assert sum(shades[:64]) > 0.7 * sum(shades)
    assert sum(shades[180:]) > 500


def test_opened_again_without_a_kernel_the_images_are_seen(page: Page, address: str, folder: Path) -> None:
    saved = nbformat.read(folder / "work" / LESSONS[0], as_version=4)
    assert "application/vnd.jupyter.widget-view+json" in saved.cells[1].outputs[0].data, "the test above has saved it"
    end_kernels(address)
    page.route("**/api/sessions*", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    page.goto(address.replace("/lab/tree/", "/lab/workspaces/again/tree/"))
    images = page.locator(".distlib-still img >> visible=true")
    for number in range(3):
        images.nth(number).wait_for()
    assert page.locator(".distlib-player").count() == 0
    told = [images.nth(number).get_attribute("alt") or "" for number in range(3)]
    starts = (
        "Messages of 4 ranks. Timeline",
        "Whose contributions are in which chunk. Grids",
        "All-reduces on 128 ranks",
    )
    assert [alt.startswith(start) for alt, start in zip(told, starts, strict=True)] == [True] * 3
    for words in ("Loading widget", "Error displaying widget"):
        assert not page.get_by_text(words).locator("visible=true").count()


def has_ids_of_its_own(page: Page) -> None:
    """Else a hatching of one player would be looked for in another, which may be hidden."""
    names = page.locator(".distlib-player pattern").evaluate_all("patterns => patterns.map((one) => one.id)")
    assert len(names) >= 4 and len(set(names)) == len(names)


def is_scrolled_where_there_is_little_room(page: Page, player: Locator) -> None:
    """By the keys as well: the Tab key leads to it, and the arrows are not JupyterLab's there, nor steps."""
    page.set_viewport_size({"width": 800, "height": 1400})
    box = player.locator("svg").bounding_box()
    assert box is not None and box["width"] >= 740
    assert player.locator(".distlib-picture").evaluate("(one) => one.scrollWidth > one.clientWidth")
    player.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")
    page.set_viewport_size({"width": 1280, "height": 1400})


def end_kernels(address: str) -> None:
    root, _, token = address.partition("/lab/tree/")[0], *address.partition("token=")[1:]

    def ask(method: str, path: str) -> Any:
        request = urllib.request.Request(root + path, method=method, headers={"Authorization": f"token {token}"})
        with urllib.request.urlopen(request, timeout=100) as reply:
            return json.loads(reply.read() or "null")

    for session in ask("GET", "/api/sessions"):
        ask("DELETE", f"/api/sessions/{session['id']}")

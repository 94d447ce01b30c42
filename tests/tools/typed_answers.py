"""Types answers into an exercise in a real JupyterLab, as a student does, and shows the message below each check cell.

    python -m tests.tools.typed_answers tests/answers 01_messages                       every answer of an exercise
    python -m tests.tools.typed_answers /tmp/mistakes 01_messages shift                 those to one function
    python -m tests.tools.typed_answers /tmp/mistakes 01_messages shift/wrong_syntax    one of them

The folder holds EXERCISE/FUNCTION/NAME.py, as tests/answers does. The header of an answer is not typed, but printed
with the message. What `make answers ARGS=--fast` shows in seconds, this shows as students meet it: with the errors of
their own cell, on a kernel that has run their earlier attempts, and with the seconds that they wait.

The status is 1 if the visible test passes an answer that loses all marks, or fails one that does not.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.answer_files import Answer
from tests.answers_fast import select, without_header
from tests.conftest import _browser
from tests.notebooks.test_browser import definition_of, open_notebook, write_answer
from tests.tools.chromium import PATIENCE, fresh_page, running_chromium
from tests.tools.lab_process import running_lab

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ROOT = Path(__file__).parents[2]
ERRORS = ".jp-OutputArea-output[data-mime-type*='stderr'], .jp-OutputArea-output[data-mime-type*='error']"


@dataclass(frozen=True)
class Typed:
    """What a student saw: what their own cell and the visible test show, and whether that test passed."""

    answer: Answer
    own_cell: str
    test_cell: str
    passed: bool
    seconds: float

    @property
    def is_as_it_should_be(self) -> bool:
        """Whether the visible test passed if and only if the answer deserves its marks."""
        return self.passed == ("visible" not in self.answer.loses)

    def __str__(self) -> str:
        mark = "" if self.is_as_it_should_be else "  ← not what it deserves"
        lines = [f"══ {self.answer}  ({self.seconds:.0f} s){mark}", self.answer.text.splitlines()[0]]
        if self.own_cell:
            lines += ["── its own cell", self.own_cell]
        return "\n".join([*lines, "── the visible test", self.test_cell, ""])


def type_all(answers: Sequence[Answer], tests: Mapping[str, str], setups: Sequence[str], page: Page) -> Iterator[Typed]:
    """Type each answer into the open notebook, run it and the visible test of its function, and yield what is shown.

    tests: words that only the visible test's cell has, by the name of its function.
    setups: words of each cell that the tests need, and that no cell above it has.
    """
    for words in setups:
        run(_cell(page, words))
    for answer in answers:
        write_answer(page, answer.function, without_header(answer.text).rstrip())
        start, test = time.monotonic(), _cell(page, tests[answer.function])
        own_cell, test_cell = run(_cell(page, definition_of(answer.function))), run(test)
        passed = test.locator(ERRORS).count() == 0 and "⏳" not in test_cell
        yield Typed(answer, own_cell, test_cell, passed, time.monotonic() - start)


def run(cell: Locator, seconds: float = PATIENCE / 1000) -> str:
    """Run a cell by keyboard, wait for it, and return what stands below it; it is interrupted when time is over."""
    prompt = cell.locator(".jp-InputPrompt")
    before, deadline = prompt.inner_text(), time.monotonic() + seconds
    cell.locator(".cm-content").click()
    cell.page.keyboard.press("Control+Enter")
    while prompt.inner_text() == before or "*" in prompt.inner_text():
        if time.monotonic() > deadline:
            for key in ("Escape", "i", "i"):
                cell.page.keyboard.press(key)
            return f"⏳ It did not end within {seconds:g} s."
        time.sleep(0.1)
    cell.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    return "\n".join(output.inner_text() for output in cell.locator(".jp-OutputArea-output").all())


def _cell(page: Page, words: str | re.Pattern[str]) -> Locator:
    return page.locator(".jp-CodeCell", has=page.locator(".cm-content", has_text=words)).first


def calls_of_tests(exercise: str) -> dict[str, str]:
    """By function, the beginning of the call of its check, which only its visible test has."""
    sources = {cell["id"].removesuffix("_visible"): "".join(cell["source"]) for cell in _cells_of(exercise)}
    calls = {name: re.search(r"report = check_\w+\(", source) for name, source in sources.items()}
    return {name: call[0] for name, call in calls.items() if call}


def setups_of(exercise: str) -> list[str]:
    """The first line of each locked code cell without points: of what is imported, and of functions that tests call."""
    found = []
    for cell in _cells_of(exercise):
        told = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "code" and told.get("locked") and not told["grade"]:
            found.append("".join(cell["source"]).partition("\n")[0])
    return found


def _cells_of(exercise: str) -> list[dict[str, Any]]:
    path = ROOT / "exercises" / exercise / f"{exercise}.ipynb"
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


@contextmanager
def opened(exercise: str) -> Iterator[Page]:
    """A tab with a student's copy of this exercise, in the JupyterLab that `distlib lab` starts."""
    path = _browser()
    assert path is not None, "there is no Chromium"
    with tempfile.TemporaryDirectory() as name:
        for part in ("course", "exercises"):
            shutil.copytree(ROOT / part, Path(name) / part, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        shutil.copy(ROOT / "nbgrader_config.py", name)
        with (
            running_lab(Path(name)) as (_, address),
            running_chromium(path) as browser,
            fresh_page(browser, 1400, 8000) as page,  # an editor has only the lines in view
        ):
            open_notebook(page, address, f"exercises/{exercise}/{exercise}.ipynb")
            yield page


def main(arguments: Sequence[str] | None = None) -> int:
    """Type the answers and print what is shown. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.tools.typed_answers", description="Type answers into JupyterLab.")
    parser.add_argument("folder", type=Path, help="has EXERCISE/FUNCTION/NAME.py, as tests/answers does")
    parser.add_argument("exercise")
    parser.add_argument("names", nargs="*", help="functions or answers; without them: all")
    options = parser.parse_args(arguments)
    answers = select([options.exercise, *options.names], options.folder)
    wrong = 0
    with opened(options.exercise) as page:
        for typed in type_all(answers, calls_of_tests(options.exercise), setups_of(options.exercise), page):
            print(typed, flush=True)
            wrong += not typed.is_as_it_should_be
    print(f"{len(answers) - wrong} of {len(answers)} answers are judged as they should be.")
    return 1 if wrong or not answers else 0


if __name__ == "__main__":
    sys.exit(main())

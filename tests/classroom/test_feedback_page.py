"""The page that a student gets, from made-up notebooks; and that nothing in it runs, or stops nbgrader."""

from __future__ import annotations

import html
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from markupsafe import escape
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from pygments.lexers import PythonLexer
from pygments.styles import get_style_by_name
from pygments.token import Whitespace

from distlib.checks.remark import CheckFailed, Remark
from distlib.classroom.excerpts import excerpts
from distlib.classroom.grader.check_message import parts_of
from distlib.classroom.grader.feedback import SafeFeedback, harmless_outputs, harmless_text
from distlib.classroom.grader.feedback_page import feedback_page, mend, parts_of_notebook
from distlib.classroom.grader.notebook_page import notebook_html, text_html
from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.my_course.marks_back import FEEDBACK, marks_back
from distlib.draw.style import contrast
from tests.classroom.test_transplant import PNG
from tests.tools.chromium import fresh_page, running_chromium

SHIFT = "def shift(comm, tensor):\n    if comm.rank:\n        buffer = torch.zeros(3)\n        comm.recv(buffer, 0)"
MISTAKE = CheckFailed(
    "shift on 2 ranks",
    Remark(
        "a message does not fit.",
        (
            "cell 1, line 4: rank 0 sends 6 float64 (cell 1, line 4), but rank 1 receives into 6 float32 "
            "(cell 1, line 4).",
        ),
        "torch.zeros(n) makes float32.",
    ),
    "2 cases",
)
NOT_WRITTEN = CheckFailed("gather on 1 rank", Remark("it is not written yet: it raises NotImplementedError."))


def solution(name: str, source: str, number: int, comment: str = "") -> NotebookNode:
    mark = {"grade_id": name, "solution": True, "grade": False, "comment": comment}
    return new_code_cell(source, execution_count=number, metadata={"nbgrader": mark})


def test_cell(name: str, number: int, score: float, error: Exception | None = None) -> NotebookNode:
    mark = {"grade_id": name, "solution": False, "grade": True, "points": 3, "score": score}
    lines = str(error).splitlines()
    outputs = [new_output("error", ename="CheckFailed", evalue=str(error), traceback=lines)] if error else []
    source = "# What this tests: other dtypes." if name.endswith("hidden") else "check()"
    return new_code_cell(source, execution_count=number, metadata={"nbgrader": mark}, outputs=outputs)


test_cell.__test__ = False  # type: ignore[attr-defined]


def graded(**changes: Any) -> NotebookNode:
    """broadcast is right; of shift the hidden test fails; gather is not written; an answer in words."""
    answer = {"grade_id": "why", "solution": True, "grade": True, "points": 2, "score": 1, "comment": "Say more."}
    return new_notebook(
        cells=[
            new_markdown_cell("# Exercise 09: `things`\n\nRead [the lesson](../course/x.ipynb)."),
            solution("shift", SHIFT, 1),
            test_cell("shift_visible", 2, 3),
            test_cell("shift_hidden", 3, 0, MISTAKE),
            solution("gather", "def gather(comm): raise NotImplementedError()", 4),
            test_cell("gather_visible", 5, 0, NOT_WRITTEN),
            solution("broadcast", "def broadcast(comm): pass", 6),
            test_cell("broadcast_visible", 7, 3),
            new_markdown_cell(changes.get("words", "Because."), metadata={"nbgrader": answer}),
        ]
    )


def page_of(notebook: NotebookNode) -> str:
    about = {"student": "<ada>", "assignment": "09_things", "score": 7.0, "max_score": 14, "late_penalty": 0}
    return feedback_page(notebook, about)


def rows(page: str) -> list[str]:
    """The text of each row of the table on top."""
    table = page.split("<tbody>")[1].split("</tbody>")[0]
    return [
        " ".join(html.unescape(re.sub(r"<[^>]+>", " ", row.replace("<wbr>", ""))).split())
        for row in table.split("</tr>")[:-1]
    ]


def test_the_marks_at_a_glance() -> None:
    page = page_of(graded())
    assert "<h1>Exercise 09: things: 7 of 14 points</h1>" in page and "&lt;ada&gt;" in page
    assert rows(page) == [
        "◐ shift 3 / 6 on 2 ranks: a message does not fit.",
        "○ gather 0 / 3 not written yet",
        "✓ broadcast 3 / 3 all tests pass",
        "◐ why 1 / 2 marked by hand",
    ]
    assert page.index("</tbody>") < page.index("Usual cause") < page.index('<details id="notebook">')
    assert "1 of 4 parts has full marks." in page and 'Begin with <a href="#part-shift">' in page
    for target in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{target}"' in page, target


def test_an_answer_in_words_waits_for_its_mark() -> None:
    notebook = graded()
    answer = notebook.cells[-1].metadata.nbgrader
    answer.update(score=0, open=True, by_hand=False, comment="")
    page = page_of(notebook)
    assert "<h1>Exercise 09: things: 7 of 12 points, 2 open</h1>" in page
    assert rows(page)[3] == "○ why – / 2 waits for a mark by hand"
    assert 'aria-label="waits for a mark by hand"' in page and 'id="part-why"' not in page
    assert "1 of 3 functions has full marks. <code>why</code> waits for a mark by hand." in page
    assert 'content="09_things 7 12 2"' in page


def test_no_points_by_hand_and_no_answer_are_told_apart() -> None:
    notebook = graded()
    answer = notebook.cells[-1].metadata.nbgrader
    answer.update(score=0, open=False, by_hand=True)
    assert rows(page_of(notebook))[3] == "✗ why 0 / 2 marked by hand"
    answer.update(by_hand=False)
    assert rows(page_of(notebook))[3] == "○ why 0 / 2 not written yet"


def test_the_students_own_course_reads_the_marks(tmp_path: Path) -> None:
    (tmp_path / FEEDBACK).mkdir(parents=True)
    (tmp_path / FEEDBACK / "page.html").write_text(page_of(graded()), "utf-8")
    assert marks_back(tmp_path) == {"09_things": PointSum(7, 14)}


def test_which_of_two_cells_was_graded_is_told_and_nbgraders_comment_is_not() -> None:
    notebook = graded()
    notebook.cells[1].metadata["distlib"] = {"note": "shift is defined in two cells."}
    notebook.cells[4].metadata.nbgrader["comment"] = "No response."
    page = page_of(notebook)
    assert "<p>In the notebook that you handed in, shift is defined in two cells.</p>" in page
    assert "No response" not in page and page.count("<h3>Comment</h3>") == 1, "the instructor's own comment stays"


def test_what_was_wrong_in_which_line_and_what_to_do_next() -> None:
    page = page_of(graded())
    section = html.unescape(page.split('id="part-shift"')[1].split("</section>")[0])
    assert "Visible test passes, 3 of 3 points; hidden test fails, 0 of 3 points." in section
    assert "rank 1 receives into 6 float32 (cell 1, line 4)." in section  # not broken where a terminal breaks it
    assert "<mark>---->   4     comm.recv(buffer, 0)</mark>" in section
    assert "torch.zeros(n) makes float32." in section
    assert "What this tests: other dtypes." in section
    assert page.count("<section") == 3  # shift, the comment on why, and what is not written
    assert "Say more." in page.split('id="part-why"')[1]


def test_a_part_whose_cell_stops_says_so_first() -> None:
    notebook = graded()
    notebook.cells[1].outputs = [
        new_output("error", ename="NameError", evalue="", traceback=["NameError: x (cell 1, line 2)"])
    ]
    section = page_of(notebook).split('id="part-shift"')[1]
    assert section.index("The cell of shift stops: NameError: x") < section.index("a message does not fit")


def test_all_right_is_short() -> None:
    notebook = new_notebook(cells=[solution("shift", SHIFT, 1), test_cell("shift_visible", 2, 3)])
    page = page_of(notebook)
    assert "<section" not in page and "<p>The function has full marks. </p>" in page and "distlib check" not in page
    assert [part.sign for part in parts_of_notebook(notebook)] == ["✓"]


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = page_of(graded())
    assert "default-src 'none'" in page and '<meta name="viewport"' in page and "prefers-color-scheme: dark" in page
    assert "<script" not in page and "http:" not in page and "https:" not in page


EVIL = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](  JaVaScRiPt:alert(1) 'title')",
    "[x](java&#115;cript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "[x][y]\n\n[y]:\n  <vbscript:alert(1)>",
    "<javascript:alert(1)>",
    "![x](javascript:alert(1))",
    "![x](https://example.org/seen.png)",
    "![x](attachment:missing.svg)",
    '<a href="javascript:alert(1)" style="position:fixed">x</a>',
    "<svg onload=alert(1)><animate onbegin=alert(1)></svg>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>body { display: none }</style>",
    "<form action=/there><input></form>",
    "$<img src=x onerror=alert(1)>$ $$<script>alert(1)</script>$$",
    "```html\n<script>alert(1)</script>\n```\n\n~~~mermaid\n<img src=x onerror=alert(1)>\n~~~",
    "> " * 3_000 + "deep",
    "*" * 5_000 + "a" * 5_000,
    "x" * 300_000,
    "\udcff \x1b[2J \x00",
]


@pytest.mark.parametrize("text", EVIL, ids=lambda text: repr(text[:30]))
def test_a_text_of_anybodys_is_harmless(text: str) -> None:
    for shown in (text_html(text), text_html(harmless_text(text))):
        tags = re.findall(r"<[^>]*>", shown)
        assert {tag.split()[0].strip("</>") for tag in tags} <= {
            "p",
            "a",
            "img",
            "pre",
            "div",
            "blockquote",
            "code",
            "em",
            "strong",
        }
        attributes = " ".join(tags)
        assert not re.search(r"\bon\w+=|script:|style=|data:text|example\.org", attributes), attributes
    assert page_of(graded(words=text)).encode()


def test_links_and_pictures_that_are_harmless_stay() -> None:
    text = "[a](https://pytorch.org) and [b][c], a list[int](3), ![d](attachment:d.png)\n\n[c]: http://example.org/c"
    pictures = {"d.png": {"image/png": PNG}, "e.svg": {"image/svg+xml": PNG}}
    for shown in (text_html(text, pictures), text_html(harmless_text(text, pictures), pictures)):
        assert '<a href="https://pytorch.org">a</a>' in shown and '<a href="http://example.org/c">b</a>' in shown
        assert f'<img alt="d" src="data:image/png;base64,{PNG}">' in shown
    assert harmless_text(harmless_text(text + EVIL[2])) == harmless_text(text + EVIL[2])


def test_outputs_are_shown_as_text_and_pictures() -> None:
    outputs = [
        new_output("stream", name="stdout", text="<b>\x1b[31mred\x1b[0m\x07"),
        new_output("display_data", data={"image/png": PNG, "text/html": "<script>"}),
        new_output("display_data", data={"image/png": '"><script>', "text/plain": "<i>"}),
        new_output("display_data", data={"image/svg+xml": "<svg onload=alert(1)>"}),
    ]
    shown = notebook_html(
        new_notebook(cells=[new_code_cell("a = '</pre><b>\x1b'", execution_count=1, outputs=outputs)])
    )
    assert "&lt;b&gt;red\\x07" in shown and f"data:image/png;base64,{PNG}" in shown and "&lt;i&gt;" in shown
    assert "<script" not in shown and "svg" not in shown and "\x1b" not in shown and "</pre><b>" not in shown
    assert 'id="cell-1-line-1"' in shown
    assert '<img alt="a picture" src="data:' in shown


def test_a_picture_keeps_its_description() -> None:
    told = 'Timeline of 2 ranks\n"><script>: 1 message'
    for words, alt in ((told, escape(" ".join(told.split()))), ("<Figure size 640x480>", "a picture")):
        outputs = [new_output("display_data", data={"image/png": PNG, "text/plain": words})]
        shown = notebook_html(new_notebook(cells=[new_code_cell("1", execution_count=1, outputs=outputs)]))
        assert f'<img alt="{alt}" src="data:image/png;base64,{PNG}">' in shown and "<script" not in shown


def test_half_a_character_is_no_reason_to_fail() -> None:
    outputs = [
        new_output("stream", name="stdout", text="a\udcffb"),
        new_output("error", ename="E", evalue="\ud800", traceback=["E: \ud800"]),
        new_output("display_data", data={"text/plain": "\udfff"}),
    ]
    harmless = harmless_outputs(outputs)
    assert harmless[0].text == "a\\udcffb"
    assert (harmless[1].traceback, harmless[2].data) == (["E: \\ud800"], {"text/plain": "\\udfff"})
    assert nbformat.writes(new_notebook(cells=[new_code_cell("1", outputs=harmless)])).encode()


def test_instructors_may_format_their_texts() -> None:
    shown = text_html("<details><summary>Hint</summary>a<br>b</details>\n\n| a |\n|---|\n| `b<c` |")
    assert "<details><summary>Hint</summary>a<br>b</details>" in shown and "<td><code>b&lt;c</code></td>" in shown


def test_a_message_in_parts() -> None:
    parts = parts_of(str(MISTAKE))
    assert (parts.seen, parts.cause, parts.passed) == (
        "shift on 2 ranks: a message does not fit.", "torch.zeros(n) makes float32.", "2 cases.",
    )  # fmt: skip
    assert parts.details == MISTAKE.remark.details[0]
    table = parts_of("a is wrong. Both are.\n  expected [1, 2]\n  found    [3, 4]\n\nPrinted by a:\n  x")
    assert (table.details, table.first_sentence) == (
        "expected [1, 2]\nfound    [3, 4]",
        "a is wrong.",
    )
    assert table.rest == "Printed by a:\n  x"
    assert parts_of("AssertionError: no").seen == "AssertionError: no"


def test_lines_that_a_message_names() -> None:
    found = excerpts("cell 1, line 3 and cell\n 1, line 3, cell 9, line 1, cell 2, line 1, cell 1, line 99", graded())
    assert [str(each) for each in found] == [
        "cell 1, line 3\n        1 def shift(comm, tensor):\n        2     if comm.rank:\n"
        "---->   3         buffer = torch.zeros(3)\n        4         comm.recv(buffer, 0)"
    ]  # cell 2 is a test


def test_hidden_tests_are_hidden_before_the_page_is_made() -> None:
    notebook = graded()
    notebook.cells[3].source = "### BEGIN HIDDEN TESTS\n### What this tests: more.\nsecret = 1\n### END HIDDEN TESTS"
    SafeFeedback().preprocess(notebook, {})
    assert "secret" not in page_of(notebook) and "What this tests: more." in page_of(notebook)


def test_names_that_nbgrader_takes_for_patterns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for student in ("z", "[z]", "*", "a\nb"):
        folder = tmp_path / student / "x"
        folder.mkdir(parents=True)
        (folder / "x.ipynb").touch()
    folders = {str(tmp_path / student / "x"): ["wrong"] for student in ("z", "[z]", "*", "a\nb")}
    logger = logging.getLogger("some nbgrader")
    converter = SimpleNamespace(assignments=folders, log=logger, coursedir=SimpleNamespace(notebook_id="*"))
    mend(converter)
    assert folders == {
        str(tmp_path / student / "x"): [str(tmp_path / student / "x" / "x.ipynb")] for student in ("z", "[z]", "*")
    }
    assert r"rename the folder a\nb" in caplog.text
    logger.error("Writing %s", "a\x1b[2J")
    assert "\x1b" not in caplog.text and r"Writing a\x1b[2J" in caplog.text


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_browser_nothing_runs_and_a_phone_needs_no_scrolling_sideways(browser_path: str, tmp_path: Path) -> None:
    long = "\n".join(text for text in EVIL if len(text) < 1_000) + "\n\n" + "`" + "x" * 500 + "`"
    notebook = graded(words=long)
    notebook.cells[1].source += f"\nprint({'long' * 100!r}, '<script>alert(1)</script>')"
    page = re.sub("<meta http-equiv[^>]*>", "", page_of(notebook))  # it must not be needed
    (tmp_path / "page.html").write_text(
        page.replace('<details id="notebook">', '<details id="notebook" open>'), "utf-8"
    )
    happened: list[str] = []
    with running_chromium(browser_path) as browser, fresh_page(browser, 390, 800, color_scheme="dark") as tab:
        tab.on("dialog", lambda dialog: (happened.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: happened.append(request.url))
        tab.goto((tmp_path / "page.html").as_uri())
        assert tab.title() == "Exercise 09: things: feedback"
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        tab.emulate_media(color_scheme="light")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != dark
        tab.get_by_role("link", name="Your cell 1, line 4").click()
        assert tab.evaluate("location.hash") == "#cell-1"
        links = tab.evaluate("[...document.querySelectorAll('a')].map(a => a.protocol)")
    assert happened == [(tmp_path / "page.html").as_uri()]
    assert set(links) <= {"file:", ":"}


@pytest.mark.parametrize(("name", "paper"), [("default", "#ffffff"), ("github-dark", "#14181d")])
def test_the_colors_of_code_stand_out_from_the_page(name: str, paper: str) -> None:
    assert f"--page: {paper}" in page_of(graded()) and ".code { background: var(--page)" in page_of(graded())
    for word in "# a comment", "@property", "def f(): return 1.5 + 'text'", "raise ValueError(f'{x}\\n')", "None":
        for kind, _ in PythonLexer().get_tokens(word):
            color = get_style_by_name(name).style_for_token(kind)["color"]
            assert color is None or kind is Whitespace or contrast(f"#{color}", paper) >= 4.5, kind

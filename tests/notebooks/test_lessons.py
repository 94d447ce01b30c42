"""The lessons: each runs from top to bottom in a fresh kernel, and has the form that a lesson has.

Running one means: no cell fails, nothing is written to stderr, every `assert` in the text is reached, and no rank
process outlives the kernel. The time it took is printed; nothing depends on it but a generous limit.
"""

from __future__ import annotations

import ast
import re
import symtable
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from distlib import draw
from distlib.authoring.lesson_run import kernel_without_ports
from distlib.classroom.my_course.lesson_promise import opening_of
from distlib.classroom.student_copies.copy_paths import lesson_for
from distlib.draw.players.moving_hang import CELL
from distlib.folded_answers import NOT_RUN, TITLE, is_answer
from distlib.frameworks.optional import is_there
from tests.tools.descriptions import undescribed_in

COURSE = Path(__file__).parents[2] / "course"
LESSONS = sorted(COURSE.glob("[0-9]*.ipynb"))
CELL_LIMIT = 400  # seconds; lessons take a fraction of it

each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def test_there_are_lessons() -> None:
    assert [path.stem for path in LESSONS[:6]] == [
        "00_start_here",
        "01_messages",
        "01b_messages_closer",
        "02_all_reduce",
        "02b_rings_closer",
        "03_trees_and_grids",
    ]


def test_a_busy_machine_does_not_change_the_picture_of_how_long_a_run_takes() -> None:
    """The text of the first lesson says "about 300 ms" of a run that it draws: here two of three runs are disturbed."""
    cells = nbformat.read(LESSONS[0], as_version=4).cells
    (source,) = [cell.source for cell in cells if "shortest = " in cell.source]
    titles: list[str] = []
    world = DisturbedWorld([0.61, 0.31, 0.47])
    exec(source, {"world": world, "pass_it_on": None, "timeline": lambda trace, title: titles.append(title)})
    assert titles == ["A number visits 4 ranks, in 310 ms"]


class DisturbedWorld:
    """Its runs take the times that are given, one after the other; then they take the last."""

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = seconds

    def run(self, function: None) -> list[int]:
        self.trace = SimpleNamespace(elapsed=self._seconds[0])
        self._seconds = self._seconds[1:] or self._seconds
        return [0, 1, 3, 6]


# Running a lesson


@each_lesson
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_lesson_runs_from_top_to_bottom(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    if missing := [name for name in frameworks_of(notebook) if not is_there(name)]:
        pytest.skip(f"this Python has no {' and no '.join(missing)}")
    expected = mark_assertions(notebook)
    started = time.perf_counter()
    reached, family = execute(notebook, path.parent)
    print(f"\n{path.stem}: {time.perf_counter() - started:.1f} s, {len(expected)} assertions")

    assert complaints_of(notebook) == []
    assert expected, "a lesson holds its numbers with assertions; this one has none"
    assert sorted(expected - reached) == [], "these assertions (cell, line) never ran in the kernel"
    assert undescribed_in(notebook) == [], "a screen reader finds nothing to say"
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


def frameworks_of(notebook: nbformat.NotebookNode) -> list[str]:
    """The frameworks without which a lesson says that it needs them, and ends."""
    return re.findall(r'\brequire\("(\w+)"\)', "\n".join(cell.source for cell in notebook.cells))


def mark_assertions(notebook: nbformat.NotebookNode) -> set[tuple[int, int]]:
    """Make every assertion of the notebook report that it held. Returns them all, as (cell, line)."""
    marked = set()
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.source, lines = report_after_assertions(cell.source, number)
            marked |= {(number, line) for line in lines}
    return marked


def report_after_assertions(source: str, cell_number: int) -> tuple[str, list[int]]:
    """Write a report behind each assertion, on the same line, so that line numbers stay what they are."""
    lines = source.encode().split(b"\n")
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)]
    for node in found:
        assert node.end_lineno is not None
        line, column = lines[node.end_lineno - 1], node.end_col_offset
        report = f"; __reached__.add(({cell_number}, {node.lineno}))".encode()
        lines[node.end_lineno - 1] = line[:column] + report + line[column:]
    return b"\n".join(lines).decode(), [node.lineno for node in found]


def execute(notebook: nbformat.NotebookNode, folder: Path) -> tuple[set[tuple[int, int]], list[psutil.Process]]:
    """Run all cells in a fresh kernel. Returns the reached assertions and the kernel's last known child processes."""
    before = nbformat.v4.new_code_cell("__reached__ = set()")
    after = nbformat.v4.new_code_cell("__reached__")
    family: set[psutil.Process] = set()
    with kernel_without_ports() as settings:
        client = NotebookClient(
            nbformat.v4.new_notebook(cells=[before, *notebook.cells, after]),
            timeout=CELL_LIMIT,
            interrupt_on_timeout=True,  # so that a world says what each rank was doing
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            **settings,
        )
        with client.setup_kernel():
            kernel = psutil.Process(client.km.provisioner.pid)  # type: ignore[union-attr]
            for index, cell in enumerate(client.nb.cells):
                if is_answer(cell.source):  # it runs when it is asked for: the second time in a row
                    client.execute_cell(cell, index)
                    assert "".join(output.get("text", "no text") for output in cell.outputs) == f"{NOT_RUN}\n"
                client.execute_cell(cell, index, execution_count=index or 1)
                family |= set(kernel.children(recursive=True))
    client.set_widgets_metadata()
    notebook.metadata |= client.nb.metadata
    return ast.literal_eval(client.nb.cells[-1].outputs[0].data["text/plain"]), [kernel, *family]


def outputs_of(notebook: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def complaints_of(notebook: nbformat.NotebookNode) -> list[str]:
    """What is printed to stderr, errors of cells that have to work, and cells that work and are there to fail."""
    found = [output.text for output in outputs_of(notebook) if output.get("name") == "stderr"]
    for cell in notebook.cells:
        errors = [output.evalue for output in cell.get("outputs", []) if output.output_type == "error"]
        has_to_fail = "raises-exception" in cell.metadata.get("tags", [])
        found += [f"no error in {cell.source!r}"] if has_to_fail and not errors else [] if has_to_fail else errors
    return found


def test_reports_are_written_behind_assertions() -> None:
    source = "for x in [1]:\n    assert (\n        x\n    ), 'µ'  # why\nassert True"
    marked, lines = report_after_assertions(source, 7)
    reached: set[tuple[int, int]] = set()
    exec(marked, {"__reached__": reached})
    assert sorted(lines) == [2, 5]
    assert reached == {(7, 2), (7, 5)}


def test_a_failing_lesson_is_noticed(tmp_path: Path) -> None:
    sources = ["import sys; print('oops', file=sys.stderr)", "if False:\n    assert 1 == 2", "assert 1 == 1"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    expected = mark_assertions(notebook)
    reached, _ = execute(notebook, tmp_path)
    assert complaints_of(notebook) == ["oops\n"]
    assert expected - reached == {(1, 2)}


def test_a_cell_that_has_to_fail_is_not_complained_of(tmp_path: Path) -> None:
    sources = ["1 / 0", "1 / 1", "assert True"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    for cell in notebook.cells[:2]:
        cell.metadata.tags = ["raises-exception"]
    execute(notebook, tmp_path)
    assert complaints_of(notebook) == ["no error in '1 / 1'"]


# The form of a lesson


@each_lesson
def test_a_lesson_opens_with_a_title_and_a_promise(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    first, opening = notebook.cells[0].source, opening_of(notebook)
    assert first.startswith("# ")
    assert [line for line in prose(path).splitlines() if line.startswith("# ")] == [first.splitlines()[0]]
    assert "you will be able to" in opening
    assert re.search(r"\*\*Time:\*\* about \d+ minutes", opening)
    assert "**You need:**" in opening


def test_the_first_lesson_opens_with_a_hang_and_its_picture() -> None:
    """No cell is needed before it: a reader who runs only this cell gets the report."""
    cells = nbformat.read(LESSONS[0], as_version=4).cells
    scene, hang, explained = cells[:3]
    assert len(scene.source.split()) < 80
    assert hang.source.startswith(CELL) and hang.metadata.tags == ["raises-exception"]
    assert "](images/hang.svg)" in explained.source
    assert explained.source.index("**deadlock**") < explained.source.index("](images/hang.svg)")
    (line,) = [number for number, text in enumerate(CELL.splitlines(), 1) if "comm.recv" in text]
    assert f"waits in line {line} " in explained.source


LONGEST_CELL = 40  # lines, of code that is not folded
LONGEST_LESSON = 130  # minutes


@each_lesson
def test_a_lesson_takes_as_long_as_it_says(path: Path) -> None:
    said = int(re.search(r"\*\*Time:\*\* about (\d+) minutes", prose(path))[1])  # type: ignore[index]
    computed = reading_minutes(path)
    assert abs(said - computed) <= 0.1 * computed, f"it says {said} minutes; by its words and lines {computed:.0f}"
    assert said <= LONGEST_LESSON, "split it, or leave something out"


def reading_minutes(path: Path) -> float:
    """150 words a minute, 8 lines of visible code, 3 minutes to try something, 1 to predict.

    At these rates a lesson of 4,300 words and 900 lines takes two and a half hours, which is what a critical reading of
    three such lessons found, code included. What is folded is left out: nobody has to read it.
    """
    words = len(re.sub(r"<details>.*?</details>", "", prose(path), flags=re.DOTALL).split())
    lines = sum(1 for source in visible_code(path) for line in source.splitlines() if line.strip())
    predictions = sum("= predict(" in source for source in visible_code(path))
    return words / 150 + lines / 8 + 3 * prose(path).count("**Try it") + predictions


@each_lesson
def test_no_cell_is_a_wall_of_code(path: Path) -> None:
    too_long = [source for source in visible_code(path) if len(source.splitlines()) > LONGEST_CELL]
    assert too_long == [], f"more than {LONGEST_CELL} lines: split the cell, fold it, or move it into the package"


def visible_code(path: Path) -> list[str]:
    """The sources of the code cells that are not folded."""
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code" and "folded" not in cell.metadata.get("tags", [])]


@each_lesson
def test_a_lesson_has_its_parts(path: Path) -> None:
    headings = [line.lstrip("# ") for line in prose(path).splitlines() if line.startswith("## ")]
    assert headings[-1] == "Further reading"
    if path != LESSONS[0]:  # whose functions the second lesson compares with torch's
        assert "In real frameworks" in headings
        assert "torch_distributed(comm" in code(path)
    sources = prose(path).split("## Further reading")[1]
    assert len(re.findall(r"^- .*(?:\n  .*)*https://", sources, re.MULTILINE)) >= 3


@each_lesson
def test_predictions_are_made_before_the_run_that_answers_them(path: Path) -> None:
    """`guess_1 = predict(…)` stands alone in its cell, and a later cell compares this very guess with the run.

    Each has a number of its own: a student who goes back and runs a comparison again compares what belongs together.
    And a question of its own: the same one again would be the same prediction.
    """
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    asking = [number for number, source in enumerate(cells) if "predict(" in source]
    assert asking
    for count, number in enumerate(asking, start=1):
        assert re.fullmatch(rf"guess_{count} = predict\(.*\)", cells[number], re.DOTALL), cells[number]
        following = next(source for source in cells[number + 1 :] if "guess_" in source)
        assert f"guess_{count}.compare(" in following
    assert len({cells[number].partition("=")[2] for number in asking}) == len(asking)


TELLING = {  # what the title of a folded cell must not hold: JupyterLab shows it, right below the task
    "code": re.compile(r"`|==|[<>%*/=]|\w\(|\w\.\w|\w_\w"),
    "a number": re.compile(r"(?<!lesson )(?<!lesson \d)(?<!float)(?<!float\d)(?<!rank )\d"),
    "what comes out": re.compile(r"^# (A )?[Cc]heck.*[:;.]"),
}


@each_lesson
def test_no_folded_cell_tells_its_answer(path: Path) -> None:
    """Answers are called alike. The titles of other folded cells hold no code, no number, and no word of an answer."""
    cells = nbformat.read(path, as_version=4).cells
    folded = [cell.source for cell in cells if "folded" in cell.metadata.get("tags", [])]
    assert [source for source in folded if "One way to do it" in source and source.splitlines()[0] != TITLE] == []
    assert [
        said for source in folded if not is_answer(source) and (said := told_by_title(source.splitlines()[0]))
    ] == []


def told_by_title(title: str) -> str:
    """Why a title tells too much; empty if it does not."""
    what = next((what for what, pattern in TELLING.items() if pattern.search(title)), "")
    return (
        f"{title!r} holds {what}: whoever reads on sees it before he has tried. Say it inside the cell" if what else ""
    )


@pytest.mark.parametrize(
    "title",
    ['# "< 2" instead of 2', "# comm.rank", "# only_rank_0", "# For 4 ranks", "# Checks. The tree gains nothing"],
)
def test_a_title_that_tells_too_much_is_noticed(title: str) -> None:
    assert "before he has tried" in told_by_title(title)


def test_a_title_that_says_what_is_checked_tells_nothing() -> None:
    assert told_by_title("# Checks of the numbers above, with the model of lesson 07b in float32") == ""


@each_lesson
def test_no_text_below_a_task_tells_a_number_of_its_answer(path: Path) -> None:
    """What follows from an answer is folded, too, up to the next heading or task: `<details>`."""
    cells = nbformat.read(path, as_version=4).cells
    below = [(answer.source, text.source) for answer, text in pairwise(cells) if is_answer(answer.source)]
    assert [text for answer, text in below if numbers_in(answer) & numbers_in(open_text(text))] == []


def open_text(text: str) -> str:
    """What is on screen of a text cell before its first heading or task."""
    return re.split(r"(?m)^#|\*\*Try it", re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL))[0]


def numbers_in(text: str) -> set[str]:
    """Numbers of at least two digits, without the commas and underscores between them."""
    return set(re.findall(r"\d{2,}(?:\.\d+)?|\d\.\d+", re.sub(r"(?<=\d)[_,](?=\d)", "", text)))


def test_a_text_that_tells_the_answer_is_noticed() -> None:
    told = "With `isend` it takes 2.54 ms.\n\n## Next\n\n3.78 ms"
    assert numbers_in(open_text(told)) == {"2.54"} == numbers_in("assert took == [2.54, 1e3]")
    assert numbers_in(open_text("<details><summary>What follows</summary>\n\n2.54 ms\n\n</details>")) == set()


@each_lesson
def test_answers_lie_folded_and_no_other_cell_needs_them(path: Path) -> None:
    """A student who has not asked for an answer goes on without it. Two in a row would count as asking."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if is_answer(cell.source) and not cell.metadata.jupyter.source_hidden] == []
    assert not any(is_answer(one.source) and is_answer(next_one.source) for one, next_one in pairwise(cells))
    answered: set[str] = set()
    defined: set[str] = set()
    for cell in cells:
        if is_answer(cell.source):
            answered |= names_made(cell.source)
        else:
            defined |= names_made(cell.source)
            assert names_used(cell.source) & (answered - defined) == set(), cell.source


@each_lesson
def test_no_check_of_the_text_ends_with_a_picture(path: Path) -> None:
    """What such a cell draws or says is folded away with its code."""
    cells = nbformat.read(path, as_version=4).cells
    hidden = [cell.source for cell in cells if cell.metadata.get("jupyter", {}).get("outputs_hidden")]
    lasts = [ast.unparse(ast.parse(source).body[-1]) for source in hidden]
    shown = {last.partition("(")[0] for last in lasts}
    assert shown & {*draw.__all__} == set()


def names_made(source: str) -> set[str]:
    """The names that a cell gives a value in the notebook."""
    symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def names_used(source: str) -> set[str]:
    """The names of the notebook, and of Python, that a cell uses, in its functions too."""
    tables, used = [symtable.symtable(source, "cell", "exec")], set()
    while tables:
        table = tables.pop()
        is_top = table.get_type() == "module"
        used |= {
            name.get_name() for name in table.get_symbols() if name.is_referenced() and (is_top or name.is_global())
        }
        tables += table.get_children()
    return used


@each_lesson
def test_links_inside_the_course_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(((?!https?:)[^)#]+)", prose(path)):
        assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"


def test_the_first_lesson_links_every_other() -> None:
    """It says which lessons are the main road, and which are side roads."""
    for path in LESSONS[1:]:
        assert f"]({path.name})" in prose(LESSONS[0])


def test_a_word_of_the_glossary_is_used_in_the_lesson_that_it_is_listed_under() -> None:
    """The glossary of the first lesson groups its words by the lessons in which they are first used."""
    glossary = prose(LESSONS[0]).split("## Glossary")[1].split("\n## ")[0]
    places = re.findall(r"^In (.*):\n\n((?:- .*\n(?:  .*\n)*)+)", glossary, re.MULTILINE)
    words = {
        word: place for place, entries in places for word in re.findall(r"^- \*\*(.*?)\*\*", entries, re.MULTILINE)
    }
    assert {"rank", "round", "step", "chunk", "shard", "bucket", "part"} <= set(words)
    for word, place in words.items():
        linked = [COURSE / name for name in re.findall(r"\]\((.*?)\)", place)]
        text = (
            "".join(prose(path) + code(path) for path in linked)
            if linked
            else prose(LESSONS[0]).split("## Glossary")[0]
        )
        assert word in " ".join(text.lower().split()), f"{word} is not used in {place}"


@each_lesson
def test_its_exercises_are_linked(path: Path) -> None:
    exercises = [each.stem for each in COURSE.parent.glob("exercises/*/*.ipynb")]
    for name in [each for each in exercises if lesson_for(each, COURSE.parent) == path.stem]:
        assert f"](../exercises/{name}/{name}.ipynb)" in prose(path)


@each_lesson
def test_the_prose_is_calm(path: Path) -> None:
    text = re.sub(r"`[^`]*`|!\[", "", prose(path))
    assert "!" not in text
    assert re.findall("[\U0001f300-\U0001faff☀-➿]", text) == []


@each_lesson
def test_no_line_break_is_spelled_out(path: Path) -> None:
    """A backslash and an n, where a line of the text source was meant to end."""
    assert re.findall(r".*\\n#.*", prose(path)) == []


@each_lesson
def test_no_line_begins_with_a_year(path: Path) -> None:
    """JupyterLab takes a line that begins with "2009. " for an entry of a numbered list."""
    assert re.findall(r"^\s*\d{3,}[.)] .*", prose(path), re.MULTILINE) == []


@each_lesson
def test_code_is_written_to_be_read(path: Path) -> None:
    """Signatures are annotated, lines fit on a screen, and there is no magic that plain Python does not know."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        assert max(map(len, cell.source.splitlines()), default=0) <= 120
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                arguments = [argument for argument in arguments if argument.arg != "self"]
                assert all(argument.annotation for argument in arguments) and node.returns, f"annotate {node.name}"


def prose(path: Path) -> str:
    return "\n\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown")


def code(path: Path) -> str:
    return "\n\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code")

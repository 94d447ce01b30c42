"""From text to notebooks to what students get, on a small made-up assignment and on the real ones.

The made-up course is built once by the real pipeline and the real nbgrader. Each of the traps that were met while
the pipeline was designed has a test, and beside it what happens without our precaution, so that the test can fail.
"""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jupytext
import nbformat
import pytest
from traitlets.config import Config

from distlib.authoring import AuthoringError, Project, notebook_from_text
from distlib.authoring.__main__ import main
from distlib.authoring.release import check_release, edited_cells
from distlib.classroom.grader.source import make_source
from distlib.classroom.grader.starting_text import SOLUTION_MARKERS, START_MARKER
from tests.tools.nbgrader_process import nbgrader

ASSIGNMENT = "01_double"
LESSON = """\
# %% [markdown]
# # A lesson

# %%
print("hello")
"""
SOLUTION = '''\
# %% [markdown]
# # Doubling

# %% readonly="setup"
import math

# %% solution="double"
def double(number: int) -> int:
    """Returns twice the number."""
    ### BEGIN SOLUTION
    secret_product = 2 * number
    return secret_product
    ### END SOLUTION

# %% test="double_visible" points=1
assert double(2) == 4

# %% test="double_hidden" points=2
# Hidden tests stand here when your work is graded.
### BEGIN HIDDEN TESTS
secret_case = 21
assert double(secret_case) == 42
### END HIDDEN TESTS

# %% [markdown] answer="why" points=1
# The secret reason.

# %% tags=["raises-exception"]
math.sqrt(-1)
'''
SECRETS = ("secret_product", "secret_case", "secret reason", *SOLUTION_MARKERS, "HIDDEN TESTS\n")


def new_course(folder: Path, root: Path) -> Project:
    """A course with one lesson and one assignment, as an author has written them, nothing built."""
    (folder / "course").mkdir(parents=True)
    (folder / "solutions" / ASSIGNMENT).mkdir(parents=True)
    shutil.copy(root / "nbgrader_config.py", folder)
    shutil.copy(root / "pyproject.toml", folder)
    (folder / "course" / "00_lesson.py").write_text(LESSON)
    (folder / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.py").write_text(SOLUTION)
    (folder / "solutions" / ASSIGNMENT / "table.csv").write_text("a,b\n1,2\n")
    return Project(folder)


@pytest.fixture(scope="module")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The made-up course after `make exercises`; tests only read it."""
    project = new_course(tmp_path_factory.mktemp("course"), root)
    project.write_notebooks()
    project.write_exercises()
    return project


@pytest.fixture
def course(built: Project, tmp_path: Path) -> Project:
    """A copy of the built course for a test that changes it."""
    shutil.copytree(built.root, tmp_path / "copy")
    return Project(tmp_path / "copy")


def released(project: Project) -> Path:
    """The notebook that students of the made-up course get."""
    return project.root / "exercises" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"


def solved(project: Project) -> Path:
    """The notebook with the solutions."""
    return project.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def graded_cells(path: Path) -> dict[str, dict[str, object]]:
    """nbgrader's metadata in a notebook, by cell id."""
    notebook = nbformat.read(path, as_version=4)
    return {cell.id: dict(cell.metadata.nbgrader) for cell in notebook.cells if "nbgrader" in cell.metadata}


# Trap 1: nbgrader's cell metadata lost on the way.


def test_nbgrader_metadata_reach_the_student(built: Project) -> None:
    for path in (solved(built), released(built)):
        cells = graded_cells(path)
        assert {name: cell["points"] for name, cell in cells.items() if cell["grade"]} == {
            "double_visible": 1,
            "double_hidden": 2,
            "why": 1,
        }
        assert [name for name, cell in cells.items() if cell["solution"]] == ["double", "why"]
        assert [name for name, cell in cells.items() if cell["locked"]] == ["setup", "double_visible", "double_hidden"]


def convert(folder: Path, *arguments: str) -> str:
    """Runs jupytext by hand on the notebook nb.ipynb of a folder and returns the text source it writes."""
    command = [sys.executable, "-m", "jupytext", "--to", "py:percent", *arguments, "nb.ipynb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=100)
    return (folder / "nb.py").read_text()


def test_a_folded_cell_shows_its_first_line_and_what_it_draws_or_says() -> None:
    begin = '# %% tags=["folded"]\n'
    text = f"{begin}# The picture\nx = 1\n\n{begin}# Checks of the numbers above\nx = 1\n\n# %%\nx = 2\n"
    folded, check, open_ = nbformat.reads(notebook_from_text(text, "demo.py", graded=False), as_version=4).cells
    assert folded.metadata.jupyter == {"source_hidden": True, "outputs_hidden": False}
    assert check.metadata.jupyter == {"source_hidden": True, "outputs_hidden": True}
    assert "jupyter" not in open_.metadata


def test_a_text_that_every_exercise_has_stands_in_one_place() -> None:
    text = SOLUTION + '\n# %% [markdown] text="hand_in"\n\n# %%\nmath.pi\n'
    cells = json.loads(notebook_from_text(text, "solutions/x/01_double.py", graded=True))["cells"]
    assert "".join(cells[-2]["source"]).startswith("## Hand it in\n") and cells[-2]["metadata"] == {}
    assert "`distlib hand-in 01_double` does the same" in "".join(cells[-2]["source"])
    for wrong in (
        '# %% [markdown] text="hand_on"\n',
        '# %% [markdown] text="hand_in"\n# More.',
        '# %% text="hand_in"\n',
    ):
        with pytest.raises(AuthoringError, match="belongs to an empty markdown cell; texts are hand_in"):
            notebook_from_text(f"{SOLUTION}\n{wrong}\n\n# %%\nmath.pi\n", "x.py", graded=True)


def test_jupytext_by_hand_keeps_nbgrader_metadata(built: Project, tmp_path: Path) -> None:
    shutil.copy(solved(built), tmp_path / "nb.ipynb")
    (tmp_path / "jupytext.toml").write_text('cell_metadata_filter = "-all"\n')
    assert "grade_id" not in convert(tmp_path)  # the trap
    (tmp_path / "jupytext.toml").unlink()
    shutil.copy(built.root / "pyproject.toml", tmp_path)
    text = convert(tmp_path)
    for name in graded_cells(solved(built)):
        assert f'"grade_id": "{name}"' in text
    assert 'tags=["raises-exception"]' in text


def test_saving_a_text_source_in_jupyter_keeps_the_marks(root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "pyproject.toml", tmp_path)
    configuration = jupytext.config.load_jupytext_configuration_file(str(tmp_path / "pyproject.toml"))
    notebook = jupytext.reads(SOLUTION, fmt="py:percent")
    text = jupytext.writes(notebook, fmt="py:percent", config=configuration)
    marks = [line for line in SOLUTION.splitlines() if line.startswith("# %%")]
    assert [line for line in text.splitlines() if line.startswith("# %%")] == marks


# Trap 2: the text source, with the solutions in it, copied beside the released notebook.


def test_no_solution_reaches_the_student(built: Project) -> None:
    files = contents(built.root / "exercises")
    assert sorted(files) == [f"{ASSIGNMENT}/{ASSIGNMENT}.ipynb", f"{ASSIGNMENT}/table.csv"]
    for content in files.values():
        assert not [secret for secret in SECRETS if secret in content.decode()]
    assert b"raise NotImplementedError()" in released(built).read_bytes()


@pytest.mark.slow
def test_without_our_ignore_list_the_solutions_are_released_and_refused(course: Project) -> None:
    config = course.root / "nbgrader_config.py"
    config.write_text(config.read_text().replace('"*.py", ', ""))
    before = contents(course.root / "exercises")
    released(course).unlink()
    with pytest.raises(AuthoringError, match="01_double.py: a text source"):
        course.write_exercises()
    assert len(contents(course.root / "exercises")) == len(before) - 1


@pytest.mark.parametrize("text", [*SOLUTION_MARKERS, START_MARKER])
def test_a_release_with_a_solution_marker_is_refused(built: Project, tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.txt").write_text(text)
    with pytest.raises(AuthoringError, match="was released"):
        check_release(tmp_path)


# A program to mend, in the place of a stub.

TO_MEND = """\
# %% solution="double"
def double(number: int) -> int:
    ### BEGIN SOLUTION
    return 2 * number
    ### STUDENTS GET
    # if number > 0:
    #     return number
    #
    # return 0
    ### END SOLUTION


# %% test="double_visible" points=1
assert double(2) == 4

# %% test="double_hidden" points=2
### BEGIN HIDDEN TESTS
assert double(21) == 42
### END HIDDEN TESTS
"""


def test_one_exercise_can_be_made_without_the_others(built: Project, course: Project, root: Path) -> None:
    other = course.root / "solutions" / "99_other" / "99_other.py"
    other.parent.mkdir()
    other.write_text((course.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.py").read_text())
    assert course.write_exercises(["99"]) == [course.root / "exercises" / "99_other" / "99_other.ipynb"]
    with pytest.raises(AuthoringError, match="there is no exercise 98; there are .*99_other"):
        course.exercises(["98"])


SICK = "def double(number: int) -> int:\n    if number > 0:\n        return number\n\n    return 0"


def test_students_get_the_program_that_they_mend(built: Project, course: Project, root: Path) -> None:
    (course.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.py").write_text(TO_MEND)
    course.write_notebooks()
    course.write_exercises()
    (cell,) = [cell for cell in nbformat.read(released(course), as_version=4).cells if cell.id == "double"]
    assert cell.source == SICK and edited_cells(released(course)) == []
    graded = make_source(nbformat.read(solved(course), as_version=4), Config())
    assert graded.released[0] == graded.notebook.cells[0].source == SICK


@pytest.mark.parametrize(
    ("line", "instead", "words"),
    [
        ("    ### STUDENTS GET\n", "    ### STUDENTS GET\n    ### STUDENTS GET\n", "once in each solution, or in none"),
        ("    ### BEGIN SOLUTION\n", "    ### STUDENTS GET\n    ### BEGIN SOLUTION\n", "once in each solution"),
        ("    # return 0\n", "    return 0\n", "stand comments, and nothing else"),
        ("    # return 0\n", "    # return (0\n", "was never closed"),
    ],
)
def test_a_program_to_mend_that_students_would_not_get_is_refused(line: str, instead: str, words: str) -> None:
    with pytest.raises(AuthoringError, match=rf"demo.py:1: .*{words}"):
        notebook_from_text(TO_MEND.replace(line, instead), "demo.py", graded=True)


# Trap 3: jupytext metadata in a released notebook, from which a sync restores the solutions.


def test_no_jupytext_metadata_in_any_notebook(built: Project) -> None:
    for name, content in contents(built.root).items():
        if name.endswith(".ipynb"):
            assert sorted(json.loads(content)["metadata"]) == ["kernelspec", "language_info"]


def test_a_release_with_jupytext_metadata_is_refused(built: Project, tmp_path: Path) -> None:
    notebook = nbformat.read(released(built), as_version=4)
    notebook.metadata["jupytext"] = {"formats": "ipynb,py:percent"}
    nbformat.write(notebook, tmp_path / "nb.ipynb")
    with pytest.raises(AuthoringError, match="jupytext metadata"):
        check_release(tmp_path)


# Trap 4: cell ids that are random at each build.


def test_two_builds_are_the_same_bytes(built: Project, root: Path, tmp_path: Path) -> None:
    again = new_course(tmp_path / "again", root)
    again.write_notebooks()
    again.write_exercises()
    assert contents(again.root) == contents(built.root)


def test_cell_ids_are_the_grade_ids_and_else_a_counter(built: Project) -> None:
    expected = ["cell-0", "setup", "double", "double_visible", "double_hidden", "why", "cell-6"]
    for path in (solved(built), released(built)):
        assert [cell.id for cell in nbformat.read(path, as_version=4).cells] == expected


# Trap 5: the version of jupytext, which changes with every upgrade.


def test_no_version_of_jupytext_is_written(built: Project, tmp_path: Path) -> None:
    shutil.copy(solved(built), tmp_path / "nb.ipynb")
    assert "jupytext_version" in convert(tmp_path)  # the trap
    shutil.copy(built.root / "pyproject.toml", tmp_path)
    assert "jupytext" not in convert(tmp_path)
    header = f"# ---\n# jupyter:\n#   jupytext:\n#     jupytext_version: {jupytext.__version__}\n# ---\n\n"
    assert notebook_from_text(header + LESSON, "x.py", graded=False) == notebook_from_text(LESSON, "x.py", graded=False)


# Trap 6: a release without a gradebook is asked for on the command line; in the configuration it fails.


def test_a_release_writes_no_gradebook(built: Project) -> None:
    assert not list(built.root.rglob("*.db"))
    assert not (built.root / "classroom").exists()


@pytest.mark.slow
def test_nbgrader_itself_makes_the_same_release(course: Project) -> None:
    before = contents(course.root / "exercises")
    nbgrader(course.root, "generate_assignment", ASSIGNMENT, "--force")
    assert contents(course.root / "exercises") == before
    assert [path.relative_to(course.root) for path in course.root.rglob("*.db")] == [Path("classroom/gradebook.db")]


# What the commands do.


def test_built_course_is_up_to_date(built: Project) -> None:
    assert built.stale() == []


def test_check_names_every_stale_file(
    course: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lesson = course.root / "course" / "00_lesson.py"
    lesson.write_text(lesson.read_text().replace("hello", "good morning"))
    released(course).unlink()
    (course.root / "course" / "99_gone.ipynb").write_text("{}")
    monkeypatch.chdir(course.root)
    assert main(["check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "course/00_lesson.ipynb: differs from its source; run make notebooks",
        f"exercises/{ASSIGNMENT}/{ASSIGNMENT}.ipynb: is missing; run make exercises",
        "course/99_gone.ipynb: has no source; delete it",
    ]


@pytest.mark.slow
def test_a_second_build_has_nothing_to_do(
    course: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(course.root)
    assert main(["exercises"]) == 0
    assert capsys.readouterr().out == "nothing to do: every file is up to date\n"


def test_an_executed_notebook_is_stale_and_is_cleared(course: Project) -> None:
    path = course.root / "course" / "00_lesson.ipynb"
    before = path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="hello\n")]
    notebook.cells[1].execution_count = 1
    nbformat.write(notebook, path)
    assert course.stale() == ["course/00_lesson.ipynb: differs from its source; run make notebooks"]
    assert course.write_notebooks() == [path]
    assert path.read_bytes() == before


@pytest.mark.slow
def test_answers_in_exercises_are_not_overwritten(course: Project) -> None:
    assert edited_cells(released(course)) == []
    notebook = nbformat.read(released(course), as_version=4)
    notebook.cells[2].source = "def double(number): return number + number"
    nbformat.write(notebook, released(course))
    with_answer = released(course).read_bytes()
    with pytest.raises(AuthoringError, match=r"exercises/.*holds answers \(double\)"):
        course.write_exercises()
    assert released(course).read_bytes() == with_answer
    assert course.write_exercises(force=True) == [released(course)]
    assert edited_cells(released(course)) == []


def test_commands_outside_the_course_say_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["notebooks"])
    assert "nbgrader_config.py" in capsys.readouterr().err


# What an author is told.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('solution="double"', 'solutoin="double"', r"demo.py:7: unknown cell key 'solutoin'"),
        ('test="double_visible" points=1', 'test="double_visible"', r"demo.py:15: a test cell needs points=NUMBER"),
        ("points=2", 'points="2"', r"demo.py:18: a test cell needs points=NUMBER"),
        ("points=2", "points=-2", r"demo.py:18: a test cell needs points=NUMBER"),
        ('readonly="setup"', 'readonly="setup" points=1', r"demo.py:4: a readonly cell has no points"),
        ('tags=["raises-exception"]', "points=1", r"demo.py:28: points belong to a cell"),
        (
            'tags=["raises-exception"]',
            'tags=["folded"]',
            r"demo.py:28: a folded cell is a code cell whose first line is",
        ),
        ('readonly="setup"', 'readonly="set up"', r"demo.py:4: a cell's name is .*'set up'"),
        ('readonly="setup"', 'readonly="double"', r"demo.py: two cells are named 'double'"),
        ('readonly="setup"', 'readonly="setup" answer="x"', r"demo.py:4: a cell is marked both"),
        ('[markdown] answer="why"', 'answer="why"', r"demo.py:25: a cell marked answer must be a markdown cell"),
        ('test="double_hidden"', 'test="double_secret"', r"demo.py: solution=\"double\" needs two tests"),
        ("points=1\nassert", "points=3\nassert", r"demo.py: double: the hidden test gives 2 of 5 points"),
        ("### BEGIN SOLUTION", "", r"demo.py:7: '### BEGIN SOLUTION' and '### END SOLUTION' must alternate"),
        ("### END HIDDEN TESTS", "", r"demo.py:18: '### BEGIN HIDDEN TESTS'"),
        ("### BEGIN HIDDEN TESTS\n", "### END HIDDEN TESTS\n", r"demo.py:18: '### BEGIN HIDDEN TESTS'"),
        (
            "def double",
            "def twice",
            r"demo.py:7: the solution cell 'double' must define double; it defines \['twice'\]",
        ),
        ("import math\n", "### BEGIN SOLUTION\n### END SOLUTION\n", r"demo.py:4: .* outside a solution cell"),
        ("import math\n", "### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS\n", r"demo.py:4: .* outside a test cell"),
        ("# %% [markdown]\n# # Doubling", "x = 1\n\n# %%", r"demo.py:1: the first cell must begin with"),
    ],
)
def test_authors_mistakes_are_errors_that_name_the_line(old: str, new: str, message: str) -> None:
    assert old in SOLUTION
    with pytest.raises(AuthoringError, match=message):
        notebook_from_text(SOLUTION.replace(old, new, 1), "demo.py", graded=True)


def test_a_hidden_test_without_its_markers_is_an_error() -> None:
    text = SOLUTION.replace("### BEGIN HIDDEN TESTS\n", "").replace("### END HIDDEN TESTS\n", "")
    with pytest.raises(AuthoringError, match=r"demo.py:18: a hidden test has no '### BEGIN HIDDEN TESTS'"):
        notebook_from_text(text, "demo.py", graded=True)


def test_a_lesson_has_no_graded_cells() -> None:
    with pytest.raises(AuthoringError, match=r"lesson.py:4: a lesson has no graded cells"):
        notebook_from_text(SOLUTION, "lesson.py", graded=False)


def test_a_failing_build_names_the_file_and_exits_1(
    course: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (course.root / "course" / "00_lesson.py").write_text('# %% colour="red"\n')
    monkeypatch.chdir(course.root)
    assert main(["notebooks"]) == 1
    assert capsys.readouterr().err.startswith("course/00_lesson.py:1: unknown cell key 'colour'")


# nbgrader with the shipped configuration.


def hand_in(project: Project, student: str, answer: str | None, without: Sequence[str] = ()) -> None:
    """Puts a student's notebook where nbgrader looks for it. answer: the source of the solution cell, None for the
    stub; without: the ids of cells that the student deleted."""
    notebook = nbformat.read(released(project), as_version=4)
    for cell in notebook.cells:
        if cell.id == "double" and answer is not None:
            cell.source = answer
    notebook.cells = [cell for cell in notebook.cells if cell.id not in without]
    folder = project.root / "classroom" / "submitted" / student / ASSIGNMENT
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{ASSIGNMENT}.ipynb")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nbgrader_grades_a_class_from_the_root(course: Project) -> None:
    outside = {name for name in contents(course.root)}
    nbgrader(course.root, "generate_assignment", ASSIGNMENT, "--force")
    hand_in(course, "right", "def double(number):\n    return number + number")
    hand_in(course, "partly", "def double(number):\n    return 4")
    hand_in(course, "empty", None)
    hand_in(course, "deleted", "def double(number):\n    return 4", without=["double_hidden"])
    nbgrader(course.root, "autograde", ASSIGNMENT)
    nbgrader(course.root, "generate_feedback", ASSIGNMENT)
    nbgrader(course.root, "export")
    with open(course.root / "classroom" / "grades.csv", newline="") as file:
        marks = {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(file)}
    assert marks == {"right": 3.0, "partly": 1.0, "empty": 0.0, "deleted": 1.0}
    feedback = course.root / "classroom" / "feedback" / "right" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    page = feedback.read_text()
    assert '<code>double</code></th><td class="number">3 / 3</td>' in page
    assert '<code>why</code></th><td class="number">0 / 1</td><td class="what">not written yet</td>' in page
    added = {name for name in contents(course.root)} - outside
    assert {name for name in added if not name.startswith("classroom/")} == set()


# The real lessons and exercises.


def secret_lines(text: str) -> set[str]:
    """The lines of a text source that stand only in its solutions and hidden tests, and say something of their own."""
    shown, secret, inside = [], set(), False
    for line in text.splitlines():
        if line.strip().startswith(("### BEGIN", "### END", START_MARKER)):
            inside = line.strip().startswith("### BEGIN")
        elif inside and len(line.strip()) > 20:
            secret.add(line.strip())
        elif not inside:
            shown.append(line)
    return {line for line in secret if line not in "\n".join(shown)}


def test_no_line_of_a_real_solution_is_in_exercises(root: Path) -> None:
    project = Project(root)
    assert project.assignments()
    shown = {name: content.decode(errors="replace") for name, content in contents(root / "exercises").items()}
    for assignment in project.assignments():
        text = (root / "solutions" / assignment / f"{assignment}.py").read_text()
        secrets = secret_lines(text)
        assert len(secrets) >= 20
        own = {name: content for name, content in shown.items() if name.startswith(f"{assignment}/")}
        assert own
        for name, content in own.items():  # what is secret in one exercise may be an everyday line of another
            assert not [secret for secret in secrets if secret in content.replace('\\"', '"')], name

"""Right answers in notebooks as students leave them, graded as a class: prints, plots, slow cells, failed experiments.

Nothing that a student does beside the answers may cost a mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from distlib.classroom.class_folder import Classroom, open_classroom
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.course import open_course
from distlib.judge.remote.judge import Judges
from distlib.judge.sandbox import Limits
from distlib.judge.sandbox.limits import CUT
from tests.tools.any_sandbox import any_sandbox
from tests.tools.hostile_submissions import Work
from tests.tools.judged_seed import judged_seed
from tests.tools.nbgrader_process import QuickClassroom
from tests.tools.short_course import FEWER_CASES, FEWER_TRAININGS, short_course

RING, DDP = "02_all_reduce", "05_ddp"
# What students leave behind stands around the answers and in each of them: two functions tell as much as four.
KEPT = {RING: ("naive_all_reduce", "ring_all_reduce"), DDP: ("average_gradients", "OverlappedDDP")}
FEWER = {RING: FEWER_CASES, DDP: FEWER_TRAININGS}
LIMITS = Limits(cells_seconds=12)  # so that a statement that never ends costs 6 s
JOBS = 3  # some of them only wait

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

Habit = Callable[[Work], None]


def graded_names(work: Work) -> list[str]:
    marks = [cell.metadata.get("nbgrader", {}) for cell in work.notebook.cells]
    return [mark["grade_id"] for mark in marks if mark.get("solution") and not mark.get("grade")]


def first_test(work: Work) -> str:
    return f"{graded_names(work)[0]}_visible"


def last_name(work: Work) -> str:
    return graded_names(work)[-1]


def at_the_top_of_each_call(work: Work, lines: str) -> None:
    """Put lines at the beginning of every function and method in the answers."""
    for name in graded_names(work):
        cell = work.cell(name)
        body = r"^(?P<head>(?P<indent> *)def [^\n]*?\)(?: -> [^\n]*)?:\n)(?P<doc> +\"{3}(?:[^\"]|\"(?!\"\"))*\"{3}\n)?"

        def with_lines(found: re.Match[str]) -> str:
            indented = "".join(f"{found['indent']}    {line}\n" for line in lines.splitlines())
            return found["head"] + (found["doc"] or "") + indented

        cell.source, changed = re.subn(body, with_lines, cell.source, flags=re.MULTILINE)
        assert changed, name


# What students leave behind


def prints_in_every_call(work: Work) -> None:
    at_the_top_of_each_call(work, 'print("here I am, with", locals())\nfor i in range(60): print("step", i, "." * 60)')


def prints_at_the_end_of_the_last_function(work: Work) -> None:
    work.cell(last_name(work)).source += '\n    print("done")\n'


def prints_500_lines_in_a_cell(work: Work) -> None:
    work.insert("for line in range(500):\n    print(line, 'x' * 42)", before=first_test(work))


def prints_600_lines_below_an_answer(work: Work) -> None:
    for name in graded_names(work):
        work.cell(name).source += "\n\nfor line in range(600):\n    print('trying', line)\n"


def shows_progress_and_is_warned(work: Work) -> None:
    work.insert(
        "from tqdm.auto import tqdm\nimport sys, time, warnings\n"
        "for step in tqdm(range(300), mininterval=0):\n    pass\n"
        "warnings.warn('this is only a warning')\nsys.stderr.write('x' * 300_000)",
        before=first_test(work),
    )
    at_the_top_of_each_call(work, "import warnings, tqdm\nwarnings.warn('again')\nlist(tqdm.tqdm(range(9)))")


def plots(work: Work) -> None:
    work.insert(
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2, 3])\n"
        "plt.title('loss')\nplt.show()\ndisplay(figure)\nfigure",
        before=first_test(work),
    )


def trains_for_seconds(work: Work) -> None:
    """Not many: every rank of every check does so again, which adds up to a minute and shows nothing more."""
    work.insert("import time\ntime.sleep(1.5)", before=first_test(work))
    work.cell(last_name(work)).source += "\n\nimport time\ntime.sleep(1.5)\nlosses = [1.0, 0.5]\n"


def leaves_experiments_half_finished(work: Work) -> None:
    for text in (
        "1 / 0",
        "for x in range(3)\n    print(x)",
        "undefined.name(3)\nraise SystemExit",
        "assert False, 'why?'",
        "exit()",
        "import os\nos._exit(0)",
        "!pip list\n%timeit 1 + 1\n!ls",
        "import no_such_module",
        "def recursive(): recursive()\nrecursive()",
    ):
        work.insert(text, before=first_test(work))
    work.cell(last_name(work)).source = "%%time\n" + work.cell(last_name(work)).source + "\n\nundefined + 1\n"


def never_ends_below_an_answer(work: Work) -> None:
    work.cell(last_name(work)).source += "\n\nwhile True:\n    print('and again')\n"


def has_broken_characters(work: Work) -> None:
    work.insert('print("\\udcff")', before=first_test(work))
    work.insert('raise ValueError("caf\\udce9.txt")', before=first_test(work))
    at_the_top_of_each_call(work, 'print("caf\\udce9.txt")')


def ends_the_process_in_60_cells(work: Work) -> None:
    for _ in range(60):
        work.insert("import os; os._exit(0)", before=first_test(work))


def has_600_shell_lines_and_3_million_characters(work: Work) -> None:
    work.insert("!ls\n" * 600, before=first_test(work))
    work.insert("%time 1\n" * 400 + "x = 1\n" * 3_000, before=first_test(work))
    for _ in range(12):
        work.insert(f"text = '{'y' * 300_000}'", before=first_test(work))


def floods_the_judge_while_cells_run(work: Work) -> None:
    """Not honest: it goes around `print`, to what is behind it."""
    flood = "import sys\nwire = sys.stdout._wire\nwhile True:\n    wire.send({'what': 'print', 'text': ''})"
    work.insert(flood, before=first_test(work))


def does_much_at_once(work: Work) -> None:
    """In the first class each of these has a student of its own; here are methods, and checks of a whole training."""
    for habit in (
        leaves_experiments_half_finished,
        prints_in_every_call,
        prints_600_lines_below_an_answer,
        shows_progress_and_is_warned,
        trains_for_seconds,
        has_broken_characters,
    ):
        habit(work)


HABITS: dict[str, tuple[Habit, ...]] = {
    RING: (
        prints_in_every_call,
        prints_at_the_end_of_the_last_function,
        prints_500_lines_in_a_cell,
        prints_600_lines_below_an_answer,
        shows_progress_and_is_warned,
        plots,
        trains_for_seconds,
        leaves_experiments_half_finished,
        never_ends_below_an_answer,
        has_broken_characters,
        ends_the_process_in_60_cells,
        has_600_shell_lines_and_3_million_characters,
        floods_the_judge_while_cells_run,
    ),
    DDP: (does_much_at_once,),
}
CASES = [(assignment, habit.__name__) for assignment, habits in HABITS.items() for habit in habits]
Graded = dict[str, tuple[Classroom, ClassRun]]


def tidy(work: Work) -> None:
    """A neighbor who leaves nothing behind."""


def hand_in(classroom: Classroom, habit: Habit) -> None:
    path = classroom.folder / "exercises" / classroom.assignment / f"{classroom.assignment}.ipynb"
    folder = classroom.folder / "classroom" / "submitted" / habit.__name__ / classroom.assignment
    folder.mkdir(parents=True)
    work = Work(folder, nbformat.read(path, as_version=4), f"{classroom.assignment}.ipynb")
    for name, text in classroom.solutions().items():
        work.answer(name, re.sub(r"^ *### (?:BEGIN|END) SOLUTION\n?", "", text, flags=re.MULTILINE))
    habit(work)
    work.write()


@pytest.fixture(scope="module")
def graded(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graded]:
    """Both classes after their grading."""
    classes = {}
    with Judges(any_sandbox(), LIMITS) as open_judge:
        for assignment, habits in HABITS.items():
            folder = tmp_path_factory.mktemp("course")
            course = short_course(root, folder, assignment, KEPT[assignment], FEWER[assignment])
            classroom = open_classroom(course, tmp_path_factory.mktemp("honest"), assignment, QuickClassroom)
            for habit in (tidy, *habits):
                hand_in(classroom, habit)
            run = grade_class(open_course(classroom.folder), assignment, open_judge, jobs=JOBS, seed=judged_seed())
            classes[assignment] = classroom, run
    yield classes


def code_of(classroom: Classroom, habit: Habit, words: str) -> NotebookNode:
    """The first code cell of the graded notebook with these words."""
    cells = classroom.graded_notebook(habit.__name__).cells
    return next(cell for cell in cells if cell.cell_type == "code" and words in cell.source)


@pytest.mark.parametrize(("assignment", "student"), [*CASES, (RING, "tidy"), (DDP, "tidy")])
def test_right_answers_get_full_marks(graded: Graded, assignment: str, student: str) -> None:
    classroom, run = graded[assignment]
    record = run.records[student]
    assert not record.problem
    marks = {cell: mark.score for cell, mark in run.marks[student].items()}
    assert marks == classroom.full_marks(), (record.remarks, record.told)


def test_a_tidy_neighbor_gets_no_remarks(graded: Graded) -> None:
    assert [run.records["tidy"].remarks for _, run in graded.values()] == [[], []]


def test_what_is_printed_is_cut_and_that_is_said(graded: Graded) -> None:
    cell = code_of(graded[RING][0], prints_500_lines_in_a_cell, "range(500)")
    assert cell.outputs[0].text.startswith("0 xxx") and cell.outputs[0].text.endswith(CUT)
    assert "costs no marks" in CUT
    test = code_of(graded[RING][0], prints_in_every_call, "check_naive_all_reduce(")
    shown = test.outputs[0].text
    assert "here I am, with" in shown and re.search(r"… and (at least )?[\d,]+ characters more", shown)


def test_what_was_left_out_is_said(graded: Graded) -> None:
    classroom, run = graded[RING]
    remarks = run.records["leaves_experiments_half_finished"].remarks
    assert [re.sub(r"\d+", "N", remark) for remark in remarks] == [
        "cell N: line N ended its process; the rest was graded without it"
    ]
    cell = code_of(classroom, leaves_experiments_half_finished, "os._exit(0)")
    assert cell.outputs[0].evalue == "line 2 ended its process. It was left out; all else was run and graded."
    (remark,) = run.records["never_ends_below_an_answer"].remarks
    assert "did not come to an end; the rest was graded without it" in remark
    cell = code_of(classroom, never_ends_below_an_answer, "and again")
    assert cell.outputs[0].text.endswith(CUT) and "did not come to an end" in cell.outputs[1].evalue


def test_experiments_show_their_errors(graded: Graded) -> None:
    cell = code_of(graded[RING][0], leaves_experiments_half_finished, "1 / 0")
    assert cell.outputs[0].ename == "ZeroDivisionError"
    cell = code_of(graded[RING][0], has_broken_characters, "raise ValueError")
    assert cell.outputs[0].evalue == "caf\\udce9.txt (cell 5, line 1)"


def test_a_flood_ends(graded: Graded) -> None:
    remark, _ = graded[RING][1].records["floods_the_judge_while_cells_run"].remarks  # and that it reaches inside
    assert remark.endswith("line 3 did not come to an end; the rest was graded without it")

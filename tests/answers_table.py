"""Every answer of an exercise put into its notebook and graded for real, as a table: `make answers`.

    make answers                                all exercises, as `distlib grade` grades them
    make answers ARGS="02_all_reduce"           one of them
    make answers ARGS="--fast"                  all of them within minutes, on simulated ranks: see answers_fast
    make answers ARGS="--nbgrader"              by plain `nbgrader autograde`
    make answers ARGS="--show shift/wrong_adds" the whole program of an answer, or of all answers to a function
    make answers ARGS="--folder PATH"           an instructor's own exercises, in PATH as they are here:
                                                PATH/solutions/NAME/NAME.ipynb, PATH/tests/answers/NAME/FUNCTION/…

The status is 0 if every answer has the marks that it deserves, and every wrong one is told what its file says.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

from tqdm import tqdm

from distlib.classroom.class_folder import Classroom, open_classroom
from distlib.classroom.grader.class_run import grade_class
from distlib.classroom.grader.course import CourseError, open_course
from distlib.classroom.grader.examine import OpenJudge
from distlib.cli.grade import sandboxed_judges
from tests.answer_changes import ChangesError
from tests.answer_files import Answer, read_answers, submissions
from tests.answer_verdicts import KINDS, Verdict, table

ROOT = Path(__file__).parents[1]
Tell = Callable[[str, int], None]  # called with a student's name and how many there are


def hand_in_all(classroom: Classroom, answers: Sequence[Answer]) -> None:
    """Hand in every answer, beside answers to the other functions; and the solutions, and the empty notebook."""
    for student, row in submissions(answers).items():
        classroom.hand_in(student, {answer.function: answer.text for answer in row}, only_graded=True)
    classroom.hand_in("left-solutions", classroom.solutions())
    classroom.hand_in("right-empty", {})


def grade_with_the_judge(
    classroom: Classroom,
    open_judge: OpenJudge,
    jobs: int = 2,
    tell: Tell = lambda student, total: None,
    seed: str = "",
) -> None:
    """Grade everybody in the class as `distlib grade` does. Without a seed, inputs are drawn anew each time.

    Raises:
        RuntimeError: somebody could not be graded.
    """
    run = grade_class(
        open_course(classroom.folder),
        classroom.assignment,
        open_judge,
        jobs=jobs,
        seed=seed,
        tell=lambda record, total: tell(record.student, total),
    )
    problems = [f"{record.student}: {record.problem}" for record in run.records.values() if record.problem]
    if problems:
        raise RuntimeError(f"could not be graded: {'; '.join(problems)}")


def verdicts(classroom: Classroom, answers: Sequence[Answer], *, by_the_judge: bool) -> list[Verdict]:
    """What each answer of a graded class got."""
    full = classroom.full_marks()
    found = []
    for student, row in submissions(answers).items():
        marks, said = classroom.marks(student), told_in(classroom, student)
        for answer in row:
            cells = {kind: f"{answer.function}_{kind}" for kind in KINDS}
            errors = [said[cell] for cell in cells.values() if cell in said]
            found.append(
                Verdict(
                    answer,
                    {kind: 0 if kind in answer.loses else full[cell] for kind, cell in cells.items()},
                    {kind: marks[cell] for kind, cell in cells.items()},
                    {answer.told, answer.told_by_the_judge} if by_the_judge else {answer.told},
                    errors[0] if errors else "",
                )
            )
    return sorted(found, key=lambda verdict: str(verdict.answer))


def told_in(classroom: Classroom, student: str) -> dict[str, str]:
    """The error that each failed test cell of a student shows, on one line, by the cell's name."""
    told = {}
    for cell in classroom.graded_notebook(student).cells:
        errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
        if errors and cell.metadata.get("nbgrader", {}).get("grade"):
            told[cell.metadata.nbgrader.grade_id] = " ".join("\n".join(errors[0].traceback).split())
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade answers and print the tables. Returns the exit status."""
    options = _options(arguments)
    answers = options.folder / "tests" / "answers"
    assignments = options.assignment or sorted(path.name for path in answers.glob("*") if path.is_dir())
    try:
        found = {name: read_answers(name, answers) for name in assignments}
        missing = [name for name in found if not _notebook(options.folder, name).is_file() or not found[name]]
        if missing or not found:
            name = (missing or ["NAME"])[0]
            expected = f"expected {_notebook(options.folder, name)} and {answers / name}/FUNCTION/right_….py"
            print(expected, file=sys.stderr)
            return 1
        if options.show:
            return _show(options.show, [answer for some in found.values() for answer in some])
        return max(_grade(name, some, options) for name, some in found.items())
    except (RuntimeError, CourseError, ChangesError) as error:
        print(error, file=sys.stderr)
        return 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make answers", description="Grade every answer for real.")
    parser.add_argument("assignment", nargs="*", help="such as 02_all_reduce; without it: all")
    parser.add_argument("--folder", type=Path, default=ROOT, help="where solutions/ and tests/answers/ are")
    parser.add_argument("--show", metavar="FUNCTION[/NAME]", help="print the whole programs of answers; grade nothing")
    parser.add_argument("--nbgrader", action="store_true", help="with plain nbgrader instead of distlib grade")
    parser.add_argument("--jobs", type=int, default=2, help="how many submissions at a time")
    parser.add_argument("--seed", default="", help="of the inputs that the judge draws; without it others each time")
    parser.add_argument("--sandbox", choices=("auto", "bubblewrap", "docker", "none"), default="auto")
    return parser.parse_args(arguments)


def _notebook(folder: Path, assignment: str) -> Path:
    return folder / "solutions" / assignment / f"{assignment}.ipynb"


def _show(wanted: str, answers: Sequence[Answer]) -> int:
    found = [answer for answer in answers if wanted in (str(answer), answer.function)]
    if not found:
        near = get_close_matches(wanted, map(str, answers), n=5, cutoff=0.5)
        print(f"there is no answer {wanted}; near it: {', '.join(near) or 'none'}", file=sys.stderr)
        return 1
    print("\n".join(f"# {answer.assignment}/{answer}\n{answer.text}" for answer in found), end="")
    return 0


def _grade(assignment: str, answers: Sequence[Answer], options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "project"
        shutil.copytree(options.folder / "solutions" / assignment, project / "solutions" / assignment)
        shutil.copy(ROOT / "nbgrader_config.py", project)
        classroom = open_classroom(project, Path(name) / "class", assignment)
        hand_in_all(classroom, answers)
        if options.nbgrader:
            classroom.autograde("left-*", "right-*")
        else:
            bars = tqdm(desc=assignment, unit="submission", disable=None, leave=False)
            with sandboxed_judges(options.sandbox) as open_judge, bars as bar:

                def tell(student: str, total: int) -> None:
                    bar.total = total
                    bar.update()

                grade_with_the_judge(classroom, open_judge, options.jobs, tell, options.seed)
        found = verdicts(classroom, answers, by_the_judge=not options.nbgrader)
    print(f"{assignment}\n\n{table(found)}\n", flush=True)
    return 0 if all(verdict.is_as_it_should_be for verdict in found) else 1


if __name__ == "__main__":
    sys.exit(main())

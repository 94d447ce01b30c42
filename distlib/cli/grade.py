"""`distlib grade`: the submissions of an assignment, from nbgrader's submitted/ folder to its gradebook."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tqdm import tqdm

from distlib.grading.grader.class_report import text_table, write_report
from distlib.grading.grader.class_run import ClassRun, Record, grade_class
from distlib.grading.grader.course import Course, CourseError, open_course
from distlib.grading.grader.examine import Judge
from distlib.grading.grader.submission import printable


def grade_submissions(options: argparse.Namespace, make_judge: Callable[[str], Judge] | None = None) -> int:
    """Grade, and print what came of it. Returns 0 if everybody could be graded, else 1.

    Args:
        options: assignment, student, jobs, sandbox, course, again; see `distlib grade --help`.
        make_judge: from the kind of sandbox to what runs a notebook.
    """
    try:
        course = open_course(options.course or _course_above(Path.cwd()))
        judge = (make_judge or sandboxed_judge)(options.sandbox)
        run = _grade_with_bar(course, options, judge)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from here.", file=sys.stderr)
        return 130
    print(text_table(run))
    if run.unchanged:
        print(f"\n{len(run.unchanged)} had been graded before and have not changed; --again grades them, too.")
    problems = sum(bool(record.problem) for record in run.records.values())
    return 1 if _report(course, run) or problems else 0


def sandboxed_judge(kind: str) -> Judge:
    """The judge that runs the students' code in a sandbox. Prints a warning if it is none.

    Raises:
        CourseError: there is no such sandbox on this machine.
    """
    from distlib.grading.remote.judge import judge
    from distlib.grading.sandbox import Limits, choose_sandbox

    try:
        sandbox = choose_sandbox(kind)
    except RuntimeError as error:
        raise CourseError(str(error)) from None
    if sandbox.warning:
        print(sandbox.warning, file=sys.stderr)
    return partial(judge, sandbox=sandbox, limits=Limits())


def _grade_with_bar(course: Course, options: argparse.Namespace, judge: Judge) -> ClassRun:
    with tqdm(unit="student", disable=None, leave=False) as bar:

        def tell(record: Record, total: int) -> None:
            bar.total = total
            bar.update()
            bar.set_postfix_str(f"{printable(record.student)}: {record.state}")

        return grade_class(
            course,
            options.assignment,
            judge,
            students=options.student,
            jobs=options.jobs,
            again=options.again,
            tell=tell,
        )


def _report(course: Course, run: ClassRun) -> bool:
    """Write the report and say how to open it. Returns whether that failed."""
    folder = course.records(run.assignment)
    try:
        page = write_report(run, folder)
    except OSError as error:
        print(f"{course.name(folder)}/report.html can't be written: {error.strerror}", file=sys.stderr)
        return True
    print(f"\nreport, to open in a browser:  {page.as_uri()}")
    print(f"as a table:                    {course.name(folder)}/marks.csv")
    return False


def _course_above(start: Path) -> Path:
    """The nearest folder with an nbgrader_config.py."""
    return next((folder for folder in [start, *start.parents] if (folder / "nbgrader_config.py").exists()), start)

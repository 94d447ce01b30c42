"""`distlib grade`: the submissions of an assignment, from nbgrader's submitted/ folder to its gradebook."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from distlib.classroom.grader.alike import alike, answers_in, known_texts
from distlib.classroom.grader.class_report import text_table, write_report
from distlib.classroom.grader.class_run import ClassRun, grade_class
from distlib.classroom.grader.class_share import grade_share
from distlib.classroom.grader.course import Course, CourseError, course_above, open_course
from distlib.classroom.grader.examine import OpenJudge
from distlib.classroom.grader.marks import notes
from distlib.classroom.grader.mistakes import graded
from distlib.classroom.words import count, have, joined
from distlib.cli.progress import Progress
from distlib.cli.saying import say
from distlib.printable import printable

if TYPE_CHECKING:
    from distlib.judge.remote.judge import Judges


def grade_submissions(
    options: argparse.Namespace, open_judges: Callable[[str], AbstractContextManager[OpenJudge]] | None = None
) -> int:
    """Grade, and print the outcome. Returns 0 if everybody could be graded, else 1.

    Args:
        options: assignment, student, jobs, sandbox, course, again, share; see `distlib grade --help`.
        open_judges: takes the kind of sandbox, and returns a factory of judges, one for each submission.
    """
    try:
        course = open_course(options.course or course_above(Path.cwd()))
        with (open_judges or sandboxed_judges)(options.sandbox) as open_judge:
            if options.share:
                return _judge_share(course, options, open_judge)
            run = _grade_with_bar(course, options, open_judge)
    except CourseError as error:
        say(str(error), sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("\nStopped. The same command goes on from here.", sys.stderr)
        return 130
    page, trouble = _write(course, run)  # before anything is printed: whoever reads may stop reading
    say("\n\n".join(filter(None, [text_table(run), "\n".join(notes(run)), _unchanged(run), _shares(run), page])))
    if trouble:
        say(trouble, sys.stderr)
    return 1 if trouble or any(record.problem for record in run.records.values()) else 0


def sandboxed_judges(kind: str) -> Judges:
    """The judges that run the students' code in a sandbox. Prints a warning if it is none.

    Raises:
        CourseError: there is no such sandbox on this machine.
    """
    from distlib.judge.remote.judge import Judges
    from distlib.judge.sandbox import Limits, choose_sandbox

    try:
        sandbox = choose_sandbox(kind)
    except RuntimeError as error:
        raise CourseError(str(error)) from None
    if sandbox.warning:
        say(sandbox.warning, sys.stderr)
    return Judges(sandbox, Limits())


def _grade_with_bar(course: Course, options: argparse.Namespace, open_judge: OpenJudge) -> ClassRun:
    with Progress(sys.stderr) as progress:
        return grade_class(
            course,
            course.full_name(options.assignment),
            open_judge,
            students=options.student,
            jobs=options.jobs,
            again=options.again,
            times=dict(options.time_for),
            tell=progress.tell,
        )


def _judge_share(course: Course, options: argparse.Namespace, open_judge: OpenJudge) -> int:
    """Judge a share of the class, and print how far it is. Returns 0 if everybody in it could be judged, else 1."""
    with Progress(sys.stderr) as progress:
        run = grade_share(
            course,
            course.full_name(options.assignment),
            open_judge,
            options.share,
            students=options.student,
            jobs=options.jobs,
            again=options.again,
            times=dict(options.time_for),
            tell=progress.tell,
        )
    failed = [printable(f"{record.student}: {record.problem}") for record in run.records.values() if record.problem]
    judged = f"{len(run.records) - len(failed)} judged"
    judged += f", {len(run.noted)} at an earlier start" * bool(run.noted)
    judged += f", {len(run.unchanged)} graded before" * bool(run.unchanged)
    lines = [f"Share {options.share}: {len(run.students)} of {count(run.size, 'student')}: {judged}."]
    lines += ["Could not be judged, and are left to the last run:", *failed] * bool(failed)
    say("\n".join([*lines, f"When all shares have ended: distlib grade {options.assignment}"]))
    return 1 if failed else 0


def _shares(run: ClassRun) -> str:
    """What shares of the class had judged, and what had to be judged again."""
    number = len(run.taken_over)
    lines = [f"{count(number, 'submission')} had been judged by shares."] * bool(number)
    if run.not_taken_over:
        who = joined([f"{student} ({why})" for student, why in sorted(run.not_taken_over.items())])
        lines.append(f"Judged again, though a share had judged it: {printable(who)}.")
    return "\n".join(lines)


def _unchanged(run: ClassRun) -> str:
    number = len(run.unchanged)
    which = f"{count(number, 'submission')} had been graded before and {have(number)} not changed"
    return f"{which}; --again grades {'it' if number == 1 else 'them'}, too." if number else ""


def _write(course: Course, run: ClassRun) -> tuple[str, str]:
    """Write the report. Returns how to open it, and why it could not be written; one of them is empty."""
    folder = course.records(run.assignment)
    try:
        copies = {student for team in run.teams for student in team.students}
        texts = answers_in(course, run.assignment, [student for student in graded(run) if student not in copies])
        page = write_report(run, folder, alike(texts, known_texts(course, run.assignment)))
    except OSError as error:
        return "", f"{course.name(folder)}/report.html can't be written: {error.strerror}"
    table = f"as a table:                    {course.name(folder)}/marks.csv"
    return f"report, to open in a browser:  {page.as_uri()}\n{table}", ""

"""A share of a class, judged here while others are judged elsewhere: `distlib grade 02_all_reduce --share 2/4`.

    share 1/4, 2/4, …    on any machine with the course's folder: judge some students, write a file for each of these
    the last run         `distlib grade` without --share: all marks, files and pages; judges what no share has

A share runs students' code and notes what came of it. It reads no gradebook and takes no lock, which are unsafe over a
network file system, and writes nothing but files of its own students, see `share_results`. All else is done by the last
run, in the same way as if it had judged everybody itself. So shares can be started twice, overlap, be killed or be
forgotten: that costs time, and no mark.

Who is in a share depends on who has handed in, and on the teams: of all names in their order, share 2/4 has the second
of every four. A team is in one share, since its notebook is judged once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.examine import PATIENCE, Examined, OpenJudge, examine_all
from distlib.classroom.grader.examinees import Examinees, JudgedFrom, problem_of_name
from distlib.classroom.grader.share_results import ShareResults
from distlib.classroom.grader.student_record import Record
from distlib.classroom.grader.which_share import ClassShare


@dataclass(frozen=True)
class ShareRun:
    """A share after it has run.

    Attributes:
        students: who is in it.
        records: what came of those who were judged now, by student; marks and version are left to the last run.
        noted: students whom this share has judged at an earlier start.
        unchanged: students who were graded before.
        size: how many students the class has.
    """

    students: list[str]
    records: dict[str, Record] = field(default_factory=dict)
    noted: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    size: int = 0


def grade_share(
    course: Course,
    assignment: str,
    open_judge: OpenJudge,
    share: ClassShare,
    *,
    students: Sequence[str] = (),
    jobs: int = 1,
    again: bool = False,
    patience: float = PATIENCE,
    times: Mapping[str, float] | None = None,
    tell: Callable[[Record, int], None] = lambda record, total: None,
) -> ShareRun:
    """Judge a share of the submissions of an assignment, and note what came of each.

    Args:
        course: the course.
        assignment: its name.
        open_judge: gives a judge for each submission, see `examine_all`.
        share: which.
        students: of these only; of everybody without it.
        jobs, again, patience, times, tell: see `grade_class`.

    Raises:
        CourseError: nothing can be judged.
    """
    examinees, results = Examinees(course, assignment, times or {}), ShareResults(course, assignment)
    there = course.students(assignment)
    chosen = list(dict.fromkeys(students)) or there
    examinees.check(chosen, there, times or {})
    seed, who = results.drawn_seed(), share.of(_units(chosen, examinees))
    bases = {student: examinees.basis(student, seed) for student in who if not problem_of_name(student)}
    done = [student for student, basis in bases.items() if not again and examinees.is_done(student, basis, None)]
    mates = examinees.judged_with([student for student in bases if student not in done], bases)
    befores = {} if again else {student: examinees.before(student, bases[student], None) for student in mates}
    tasks = {student: examinees.task(student, bases[student], befores.get(student)) for student in mates}
    wanted = {student: examinees.judged_from(task, bases[student], again) for student, task in tasks.items()}
    noted = results.taken_over(mates, wanted).examined
    missing = {student: task for student, task in tasks.items() if student not in noted}
    run = ShareRun(who, noted=sorted(noted), unchanged=done, size=len(chosen))
    for student, examined in examine_all(missing, open_judge, jobs, patience):
        run.records[student] = _noted(results, student, examined, wanted[student])
        tell(run.records[student], len(missing))
    return run


def _units(students: Sequence[str], examinees: Examinees) -> list[list[str]]:
    """Students who stay together: those of a team, else each alone."""
    units: dict[tuple[bool, str], list[str]] = {}
    for student in students:
        team = examinees.register.team_of(student)
        units.setdefault((bool(team), team or student), []).append(student)
    return list(units.values())


def _noted(results: ShareResults, student: str, examined: Examined, judged_from: JudgedFrom) -> Record:
    """Write down what came of a student. Of one that could not be judged nothing is: the last run tries again."""
    problem = examined.problem
    if not problem:
        try:
            results.note(student, examined, judged_from)
        except OSError as error:
            problem = f"its result can't be written: {error.strerror or error}"
    return Record(student, problem, examined.remarks, seconds=examined.seconds, took=examined.seconds)

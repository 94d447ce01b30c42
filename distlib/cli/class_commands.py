"""`distlib class`: due dates, extensions, teams and pseudonyms, in place of Python for nbgrader's gradebook."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path

from distlib.classroom.course_report.answer_pairs import write_side_by_side
from distlib.classroom.course_report.course_page import said_about, write_course_report
from distlib.classroom.course_report.graded_course import read_course
from distlib.classroom.grader.course import Course, CourseError, course_above, open_course
from distlib.classroom.grader.gradebook import GradebookError, MarksBook, late_costs_points
from distlib.classroom.grader.handed_in_time import OddTime, any_time
from distlib.classroom.grader.student_record import read_records
from distlib.classroom.register.aliases import read_aliases, typed_alias, write_aliases
from distlib.classroom.register.class_register import ClassRegister, change_register, classroom_of, read_register
from distlib.classroom.register.due_dates import dates_of_term, due_dates, extend, in_words
from distlib.classroom.register.known_students import known_students, the_student
from distlib.classroom.register.late_rule import LateRule, duration
from distlib.classroom.register.merge_students import merge_students
from distlib.classroom.register.pseudonym_list import give_pseudonyms, write_for_second_marker, write_who_is_who
from distlib.classroom.register.roster import read_roster
from distlib.classroom.register.term_dates import publish_dates
from distlib.classroom.uploads.upload_names import student_name
from distlib.classroom.words import count, have, joined
from distlib.cli.saying import say
from distlib.printable import printable


def change_class(options: argparse.Namespace) -> int:
    """Do what was asked for, and print what holds now. Returns 0, or 1 if nothing was done.

    options: action, and what belongs to it; see `distlib class --help`.
    """
    try:
        say(_ACTIONS[options.action](open_course(options.course or course_above(Path.cwd())), options))
    except (CourseError, GradebookError, OddTime) as error:
        say(printable(str(error)), sys.stderr)
        return 1
    except OSError as error:
        say(printable(f"{error.filename}: {error.strerror}"), sys.stderr)
        return 1
    return 0


@dataclass(frozen=True)
class _OfExercise:
    """An exercise of the course, its gradebook, and the full names of the class by student."""

    name: str
    book: MarksBook
    names: dict[str, str]


def _exercise(course: Course, name: str) -> _OfExercise:
    name = course.full_name(name)
    book = MarksBook(course, name, course.source(name))
    return _OfExercise(name, book, known_students(course, name, book))


# ── due dates and extensions ─────────────────────────────────────────────────────────────────────────────────────────


def _set_due(course: Course, options: argparse.Namespace) -> str:
    exercise = _exercise(course, options.assignment)
    if options.date:
        try:
            exercise.book.set_due_date(any_time(options.date))
        except OddTime as error:
            raise CourseError(f"{options.date!r} {error}; write it like 2030-11-02 23:59 Europe/Berlin") from None
    elif options.none:
        exercise.book.set_due_date(None)
    if options.date or options.none:
        publish_dates(dates_of_term(course))
    return _when(course, exercise)


def _set_late(course: Course, options: argparse.Namespace) -> str:
    if options.per_day is None and (options.grace or options.slip_days or options.at_most < 1):
        raise CourseError("what does a day cost? Add --per-day 10%, or --per-day 100% for all points at once")
    if options.none or options.per_day is not None:
        late = {} if options.none else asdict(_late_rule(options))
        change_register(course, lambda register: replace(register, late=late))
        publish_dates(dates_of_term(course))
    rule = read_register(course).late_rule
    if rule:
        return f"Being late costs {rule.words}.\nNext, for each exercise that is graded: distlib grade"
    others = " what nbgrader_config.py says" if late_costs_points(course) else " no points"
    return f"Being late costs{others}."


def _late_rule(options: argparse.Namespace) -> LateRule:
    try:
        grace = duration(options.grace).total_seconds() if options.grace else 0.0
        return LateRule(options.per_day, grace, options.slip_days, options.at_most)
    except ValueError as error:
        raise CourseError(str(error)) from None


def _extend(course: Course, options: argparse.Namespace) -> str:
    exercise = _exercise(course, options.assignment)
    teams, more = read_register(course).teams, timedelta(days=options.days, hours=options.hours)
    students = teams.get(options.name) or [the_student(options.name, exercise.names | dict.fromkeys(teams, ""))]
    if not more and not options.none:
        raise CourseError("how much more time? Add --days 3 or --hours 12, or --none to take it back")
    extend(course, exercise.name, exercise.book, students, None if options.none else more)
    given = f"{in_words(more)} more" if not options.none else "no more time than others"
    return f"{joined(students)} {have(len(students))} {given} for {exercise.name}.\n{_when(course, exercise)}"


def _when(course: Course, exercise: _OfExercise) -> str:
    """When an exercise is due, for whom later, and what that means."""
    due = due_dates(course, exercise.name, exercise.book)
    lines = [
        f"{exercise.name} is due {due.date:%Y-%m-%d %H:%M} UTC" if due.date else f"{exercise.name} has no due date"
    ]
    for student, more in due.extensions.items():
        until = f"  until {due.date + more:%Y-%m-%d %H:%M} UTC" if due.date else ""
        lines.append(f"  {student}  + {in_words(more)}{until}")
    costs = late_costs_points(course)
    lines += ["Being late costs no points: distlib class late says what it costs."] * bool(due.date and not costs)
    lines += [f"Next: distlib grade {exercise.name}"] * bool(due.date and costs)
    return "\n".join(lines)


# ── teams ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _set_team(course: Course, options: argparse.Namespace) -> str:
    if not options.name:
        return _teams(read_register(course))
    if not options.none and not options.students:
        raise CourseError("who is in it? Add the students, or --none to end the team")
    known = _everybody(course)
    students = list(dict.fromkeys(the_student(name, known) for name in options.students))
    if len(students) == 1 and not options.none:
        raise CourseError("a team has at least two students")
    return _teams(change_register(course, lambda register: _with_team(register, options.name, students)))


def _with_team(register: ClassRegister, team: str, students: list[str]) -> ClassRegister:
    """The register with a team as it is now, and ended if nobody is in it."""
    if not students and team not in register.teams:
        raise CourseError(f"there is no team {team!r}; there are {joined(list(register.teams))}")
    others = {name: members for name, members in register.teams.items() if name != team}
    for name, members in others.items():
        if both := [student for student in students if student in members]:
            raise CourseError(f"{joined(both)} {have(len(both))} a team, {name}; end it with --none first")
    return replace(register, teams={**others, **({team: students} if students else {})})


def _teams(register: ClassRegister) -> str:
    lines = [f"{name}: {joined(students, len(students))}" for name, students in sorted(register.teams.items())]
    return "\n".join([*lines, f"{count(len(lines), 'team')}. A team hands in once."])


def _everybody(course: Course) -> dict[str, str]:
    """The full names of the class, as the exercises that the gradebook knows have them."""
    found: dict[str, str] = {}
    problems = []
    for name in course.assignments():
        try:
            exercise = _exercise(course, name)
        except CourseError as error:
            problems.append(error)
            continue
        found |= {student: full or found.get(student, "") for student, full in exercise.names.items()}
    if problems and not found:
        raise problems[0]
    return found


# ── who is who in uploads ────────────────────────────────────────────────────────────────────────────────────────────


def _set_alias(course: Course, options: argparse.Namespace) -> str:
    aliases = read_aliases(course)
    if not options.written:
        return _aliases(aliases)
    key = typed_alias(options.written)
    if options.none and key not in aliases:
        raise CourseError(f"nothing was said about {key}; {_aliases(aliases)}")
    if not options.none and not options.student:
        raise CourseError("who is it? Add the student, or --none to take back what was said")
    said = {} if options.none else {key: _student_of_the_class(course, options.student)}
    if said and (others := read_roster(course).named(options.written) - {said[key]}):
        raise CourseError(f"{key} is the name of {joined(sorted(others))}: rename the file after its student instead")
    aliases = {written: student for written, student in aliases.items() if written != key} | said
    write_aliases(course, aliases)
    return f"{_aliases(aliases)}\nNext: distlib collect, as before" if said else _aliases(aliases)


def _student_of_the_class(course: Course, name: str) -> str:
    """The folder of a student in students.csv; without that table anybody may be meant."""
    roster = read_roster(course)
    if not any(map(str.isalnum, name)):
        raise CourseError(f"{name!r} is no name of a student; nothing was changed")
    return the_student(name, roster.names()) if roster.is_closed else student_name(name)


def _make_one(course: Course, options: argparse.Namespace) -> str:
    new = _student_of_the_class(course, options.new)
    plan = merge_students(course, options.old, new, options.keep)
    done = f"{plan.old} is {plan.new} now, in {joined(list(plan.kept))}."
    return f"{done}\nNext: distlib grade and nbgrader generate_feedback for these, and distlib export"


def _aliases(aliases: Mapping[str, str]) -> str:
    lines = [f"{written} is {student}" for written, student in sorted(aliases.items())]
    return "\n".join([*lines, f"{count(len(lines), 'name')} in classroom/aliases.csv."])


# ── pseudonyms ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _give_pseudonyms(course: Course, options: argparse.Namespace) -> str:
    names = _everybody(course)
    pseudonyms = give_pseudonyms(course, names)
    path = write_who_is_who(course, pseudonyms, names)
    return f"{count(len(pseudonyms), 'student')}. Who is who, for you alone: {course.name(path)}"


def _for_second_marker(course: Course, options: argparse.Namespace) -> str:
    exercise = _exercise(course, options.assignment)
    pseudonyms = give_pseudonyms(course, exercise.names)
    write_who_is_who(course, pseudonyms, exercise.names)
    marks = {s: each for s, each in exercise.book.marks().items() if any(m.auto is not None for m in each.values())}
    done = write_for_second_marker(course, exercise.name, options.folder, marks, pseudonyms, exercise.names)
    return (
        f"{options.folder}: marks.csv and {count(len(done), 'notebook')} without names. "
        "What a student writes about themselves in an answer is still there: look before you send it."
    )


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(course: Course, options: argparse.Namespace) -> str:
    graded = read_course(course)
    return said_about(graded, write_course_report(graded, classroom_of(course) / "report"))


def _side_by_side(course: Course, options: argparse.Namespace) -> str:
    name = course.full_name(options.assignment)
    if not read_records(course, name):
        names = [run.assignment for run in read_course(course).exercises]
        raise CourseError(f"{name} is not graded yet; graded are {joined(names)}")
    graded = read_course(course, [name])
    page, number = write_side_by_side(course, graded.exercises[0], graded.teams, classroom_of(course) / "report")
    return f"{count(number, 'pair')} to read, for you to judge:  {page.as_uri()}"


_ACTIONS: dict[str, Callable[[Course, argparse.Namespace], str]] = {
    "due": _set_due,
    "late": _set_late,
    "extend": _extend,
    "team": _set_team,
    "alias": _set_alias,
    "same": _make_one,
    "report": _report,
    "side-by-side": _side_by_side,
    "pseudonyms": _give_pseudonyms,
    "second-marker": _for_second_marker,
}

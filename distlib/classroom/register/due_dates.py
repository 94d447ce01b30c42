"""When an exercise is due, and who has more time.

nbgrader keeps an extension with what a student has handed in. Here a student can be granted one before that, too: it
stands in classroom/class.json, and `distlib grade` enters it into the gradebook with the submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.gradebook import MarksBook, all_due_dates
from distlib.classroom.register.class_register import ClassRegister, change_register, read_register
from distlib.classroom.register.term_dates import TermDates


@dataclass(frozen=True)
class DueDates:
    """When an exercise is due.

    Attributes:
        date: in UTC and without a time zone, as nbgrader has it; None without one.
        extensions: how much later it is for some students.
    """

    date: datetime | None = None
    extensions: dict[str, timedelta] = field(default_factory=dict)


def due_dates(course: Course, assignment: str, book: MarksBook) -> DueDates:
    """When an exercise is due, as gradebook and class.json say.

    Raises:
        CourseError: class.json can't be read.
        GradebookError: the gradebook can't be read.
    """
    waiting = read_register(course).extensions.get(assignment, {})
    noted = {student: timedelta(seconds=seconds) for student, seconds in waiting.items()}
    return DueDates(book.due_date(), dict(sorted({**noted, **book.extensions()}.items())))


def dates_of_term(course: Course) -> TermDates:
    """When all exercises are due, and what being late costs, as students may know it.

    Raises:
        CourseError: class.json can't be read.
        GradebookError: the gradebook can't be read.
    """
    due = {name: date.replace(tzinfo=UTC) for name, date in all_due_dates(course).items()}
    return TermDates(due, read_register(course).late_rule)


def extend(course: Course, assignment: str, book: MarksBook, students: Sequence[str], more: timedelta | None) -> None:
    """Give students more time for an exercise, instead of what they had; None takes it back.

    Raises:
        CourseError: class.json can't be read or written.
        GradebookError: the gradebook can't be written.
    """

    def change(register: ClassRegister) -> ClassRegister:
        theirs = {s: seconds for s, seconds in register.extensions.get(assignment, {}).items() if s not in students}
        theirs |= {student: more.total_seconds() for student in students} if more else {}
        return replace(register, extensions={**register.extensions, assignment: theirs})

    change_register(course, change)
    book.set_extensions(students, more)


def in_words(more: timedelta) -> str:
    """ "3 days", "1 day 12 h", "30 min"."""
    hours, minutes = divmod(more.seconds // 60, 60)
    days = f"{more.days} day{'s' * (more.days != 1)}" * bool(more.days)
    return " ".join(filter(None, [days, f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)])) or "no time"

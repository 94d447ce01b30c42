"""The roster: who is in the class, and by what a student is found.

    classroom/students.csv      id, first_name, last_name, email, lms_user_id

With this table the class is closed: nobody becomes a student by uploading something. Without it the class is who has a
folder in submitted/, and a new name is a new student.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from distlib.classroom.grader.course import Course
from distlib.classroom.register.known_students import full_name_in, students_in_table, ways_of_writing
from distlib.classroom.uploads.upload_names import key_of, student_name


@dataclass(frozen=True)
class Student:
    """Somebody of the class.

    Attributes:
        id: the name of the folder.
        name: the full name, "" where none is known.
        ways: in which the name may be written, besides the id.
        email, lms_user_id: "" where none is known.
    """

    id: str
    name: str = ""
    ways: tuple[str, ...] = ()
    email: str = ""
    lms_user_id: str = ""

    def __str__(self) -> str:
        about = ", ".join(filter(None, [self.name, self.email]))
        return f"{self.id} ({about})" if about else self.id


class Roster:
    """The students of a class.

    Args:
        students: all.
        is_closed: whether nobody else is a student.
    """

    def __init__(self, students: Iterable[Student] = (), *, is_closed: bool = False) -> None:
        self.students, self.is_closed = {student.id: student for student in students}, is_closed
        self._named: dict[str, set[str]] = defaultdict(set)
        self._numbered: dict[str, set[str]] = defaultdict(set)
        for student in self.students.values():
            for way in filter(None, (student.id, *student.ways, student.email)):
                self._named[key_of(way)].add(student.id)
            if student.lms_user_id:
                self._numbered[student.lms_user_id].add(student.id)

    def named(self, name: str) -> set[str]:
        """The students whose id, name or address is written like this."""
        return self._named.get(key_of(name), set())

    def numbered(self, number: str) -> set[str]:
        """The students who have this number at the learning platform."""
        return self._numbered.get(number, set())

    def shown(self, students: Iterable[str]) -> list[str]:
        """Students with their names."""
        return [str(self.students[student]) for student in sorted(students)]

    def strangers(self, students: Iterable[str]) -> list[str]:
        """Those of some students who are not in the table, where there is one."""
        return sorted({*students} - self.students.keys()) if self.is_closed else []

    def names(self) -> dict[str, str]:
        """The full names, by student."""
        return {student.id: student.name for student in self.students.values()}


def read_roster(course: Course, folders: Iterable[str] = ()) -> Roster:
    """The roster of a class.

    Args:
        course: the course.
        folders: names of students' folders, which count where there is no table.

    Raises:
        CourseError: the table can't be used.
    """
    rows = students_in_table(course)
    if rows is None:
        return Roster(Student(folder) for folder in folders)
    return Roster((_student(known, row) for known, row in rows.items()), is_closed=True)


def _student(known: str, row: Mapping[str, str]) -> Student:
    folder = known if "/" not in known else student_name(known)
    ways = tuple(ways_of_writing(row))
    return Student(folder, full_name_in(row), ways, row.get("email", ""), row.get("lms_user_id", ""))

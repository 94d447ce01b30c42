"""Which student of the class has handed something in: found in one way, or asked about. Nobody is made up.

In this order: what the instructor has said about this number; the platform's number, where that is the student's own;
what the instructor has said about this name; the name, if exactly one student is called so. Moodle puts a group's name
and a dash in front, so what follows each dash is a name, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from distlib.classroom.register.aliases import alias_key
from distlib.classroom.register.known_students import near_names
from distlib.classroom.register.roster import Roster
from distlib.classroom.uploads.owners import CANVAS, MOODLE, Owner
from distlib.classroom.uploads.upload_names import student_name
from distlib.classroom.words import joined


@dataclass(frozen=True)
class Identity:
    """Whose it is.

    Attributes:
        student: the name of the folder; "" if that has to be asked.
        is_sure: whether it is known by a number, or the instructor has said so; else by a name, which two may have.
        question: what the instructor has to decide, and how; "" for nothing.
    """

    student: str
    is_sure: bool = False
    question: str = ""


@dataclass(frozen=True)
class Identities:
    """Finds students.

    Attributes:
        roster: the class.
        aliases: what the instructor has said, see `register.aliases`.
        numbers: students by the numbers of Moodle in this exercise, as its own table of the exercise has them.
    """

    roster: Roster
    aliases: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)

    def is_student(self, name: str) -> bool:
        """Whether somebody is known by a name."""
        return alias_key(name) in self.aliases or bool(self.roster.named(name))

    def of(self, owner: Owner) -> Identity:
        """Whose an upload is."""
        if question := self._of_two_students(owner):
            return Identity("", question=question)
        if student := self._said_of_number(owner):
            return self._checked(student, owner)
        if owner.other:
            return Identity("", question=_two_readings(owner))
        if owner.within and not self.roster.is_closed:
            return Identity("", question=_in_a_folder(owner))
        if own := self._own_number(owner):
            return self._by_number(own, owner)
        if student := self._said_of_name(owner):
            return replace(self._checked(student, owner), is_sure=not owner.source[1])
        return self._by_name(owner)

    def _of_two_students(self, owner: Owner) -> str:
        """What to ask where a name has Canvas's numbers of several students: no alias can tell such names apart."""
        meant = {who for number in (owner.number, *owner.other_numbers) for who in self.roster.numbered(number)}
        if owner.source[0] != CANVAS or not owner.other_numbers or len(meant) < 2:
            return ""
        who = joined(self.roster.shown(meant))
        remedy = "Rename the file: Canvas shows whose it is, and only that number may stay"
        return f"its name has Canvas's numbers of {who}. {remedy}"

    def _said_of_number(self, owner: Owner) -> str:
        """What the instructor has said about a name with its number."""
        _, number = owner.source
        return self.aliases.get(alias_key(owner.name, number), "") if number else ""

    def _said_of_name(self, owner: Owner) -> str:
        """What the instructor has said about a name: nothing that can be said, if it is the name of somebody else."""
        student = self.aliases.get(alias_key(owner.name), "")
        return student if self.roster.named(owner.name) <= {student} else ""

    def _checked(self, student: str, owner: Owner) -> Identity:
        if self.roster.is_closed and student not in self.roster.students:
            why = f"classroom/aliases.csv says that {shown_name(owner)} is {student}, who is not in students.csv"
            return Identity("", question=f"{why}. {settled(owner)}")
        return Identity(student, is_sure=True)

    def _own_number(self, owner: Owner) -> set[str]:
        """The students who have the platform's number."""
        platform, number = owner.source
        if platform == MOODLE:
            return {self.numbers[number]} if number in self.numbers else set()
        return self.roster.numbered(number) if platform == CANVAS else set()

    def _by_number(self, own: set[str], owner: Owner) -> Identity:
        """The student of a number, unless the name is that of somebody else."""
        named = self._called(owner)
        if len(own) == 1 and (not named or named & own):
            return Identity(next(iter(own)), is_sure=True)
        said = f"{owner.platform}'s number {owner.number} is that of {joined(self.roster.shown(own))}"
        but = f", but the name is that of {joined(self.roster.shown(named))}" if named and len(own) == 1 else ""
        return Identity("", question=f"{said}{but}. {settled(owner, with_number=True)}")

    def _called(self, owner: Owner) -> set[str]:
        """Who may be meant by a name: also by what follows a group's name."""
        parts = owner.name.split("-") if owner.platform == MOODLE else [owner.name]
        return {student for start in range(len(parts)) for student in self.roster.named("-".join(parts[start:]))}

    def _by_name(self, owner: Owner) -> Identity:
        called = self._called(owner)
        if len(called) == 1 and (self.roster.is_closed or self.roster.named(owner.name)):
            return self._with_that_number(next(iter(called)), owner)
        if called or self.roster.is_closed:
            return Identity("", question=self._unclear(called, owner))
        return Identity(student_name(owner.name))

    def _with_that_number(self, student: str, owner: Owner) -> Identity:
        """The student of a name, unless Canvas has another number for that student."""
        number = self.roster.students[student].lms_user_id
        if owner.source[0] == CANVAS and number and number != owner.number:
            who = self.roster.shown([student])[0]
            why = f"{who} has Canvas's number {number}, and this is of {owner.number}"
            return Identity("", question=f"{why}. {settled(owner, with_number=True)}")
        return Identity(student)

    def _unclear(self, called: set[str], owner: Owner) -> str:
        if called:
            why = f"{shown_name(owner)} may be {' or '.join(self.roster.shown(called))}"
            return f"{why}. {settled(owner, with_number=len(called) > 1)}"
        names = self.roster.names()
        near = near_names(owner.name, names) or near_names(owner.name.rsplit("-", 1)[-1], names)
        like = f", but there is {' and '.join(self.roster.shown(near))}" if near else ""
        return f"{shown_name(owner)} is not in students.csv{like}. {settled(owner)}"


def shown_name(owner: Owner) -> str:
    """A name as the uploads have it, in quotation marks, with the number behind it."""
    return f'"{owner.name}" ({owner.number})' if owner.number else f'"{owner.name}"'


def settled(owner: Owner, *, with_number: bool = False) -> str:
    """What the instructor does, and then collects again. with_number: the name alone says too little."""
    _, number = owner.source
    if with_number and not number:
        return "Rename the file after the student it is of, such as STUDENT.ipynb"
    return f"Say who it is: distlib class alias {alias_key(owner.name, number if with_number else '')} STUDENT"


def _two_readings(owner: Owner) -> str:
    return f'its name can be read as "{owner.other}" and as "{owner.name}". {settled(owner, with_number=True)}'


def _in_a_folder(owner: Owner) -> str:
    """Without a roster nobody knows whether a folder is a student's, who has put work of others into it."""
    mine = alias_key(owner.within)
    return (
        f'it lies in "{owner.within}". If that is a student: distlib class alias {mine} {mine}; if students have '
        "folders or files in it, name that folder instead of the one around it"
    )

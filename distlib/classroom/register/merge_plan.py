"""What `distlib class same OLD NEW` is about to do, in classroom/same.json until all of it is done.

So a command that was stopped in the middle goes on with what was decided before, and no other command works on a class
that is half one thing and half another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.register.class_register import classroom_of
from distlib.whole_file import write_file


@dataclass(frozen=True)
class MergePlan:
    """Two names of one student.

    Attributes:
        old: the name that goes.
        new: the name that stays.
        kept: of each exercise the name whose work counts.
    """

    old: str
    new: str
    kept: Mapping[str, str]

    @property
    def command(self) -> str:
        """What the instructor has typed."""
        return f"distlib class same {self.old} {self.new}"


def read_plan(course: Course) -> MergePlan | None:
    """The plan that is not done yet; None without one.

    Raises:
        CourseError: the file can't be read.
    """
    path = plan_path(course)
    try:
        return MergePlan(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise CourseError(f"{course.name(path)} can't be read: {error}") from None


def write_plan(course: Course, plan: MergePlan) -> None:
    """Note what is about to be done.

    Raises:
        OSError: it can't be written.
    """
    write_file(plan_path(course), json.dumps(asdict(plan), indent=1).encode())


def plan_path(course: Course) -> Path:
    """Where the plan is."""
    return classroom_of(course) / "same.json"


def check_nothing_is_half_done(course: Course) -> None:
    """Stop while two names of a student are half one.

    Raises:
        CourseError: `distlib class same` was stopped in the middle.
    """
    if plan := read_plan(course):
        raise CourseError(f"{plan.command} was stopped in the middle: run it again first")

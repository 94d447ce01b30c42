"""What instructors and students call: marks for a class, and a look at one's own exercise.

grader          `distlib grade`: every submission of a class, judged and entered into the gradebook
self_check      `distlib check` and check_exercise: what passes, and what to do next
student_copies  the notebooks that a student works in, and newer versions of them
class_folder    a class in a folder, with nbgrader's own commands
demo            `make grade-demo`: a class of three
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distlib.classroom.self_check.table import Table

__all__ = ["check_exercise"]


def check_exercise(name: str) -> Table:
    """Run the tests of an exercise on the functions of this notebook; see `self_check.running`."""
    from distlib.classroom.self_check import running  # takes torch along, which `distlib lab` does without

    return running.check_exercise(name)

"""What instructors and students call: marks for a class, and a look at one's own exercise.

grader          `distlib grade`: every submission of a class, judged and entered into the gradebook
register        `distlib class`: due dates, extensions, teams, pseudonyms
course_report   `distlib class report`: a whole course, for its instructor
exports         `distlib export`: marks as Canvas and Moodle import them
self_check      `distlib check` and check_exercise: what passes, and what to do next
excerpts        the lines of a notebook that a message names
student_copies  the notebooks that a student works in, and newer versions of them
my_course       `distlib progress`, `distlib report`: where a student is, and a page about it to show
uploads         `distlib hand-in`, `distlib collect`, `distlib release`: between students and instructor
rounding        how marks are rounded
words           sentences about counts and points
class_folder    a class in a folder, with nbgrader's own commands
demo            `make grade-demo`: a class of three
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distlib.classroom.self_check.hints import Hints
    from distlib.classroom.self_check.table import Table
    from distlib.classroom.uploads.receipt import Receipt

__all__ = ["check_exercise", "hand_in", "hint"]


def check_exercise(name: str) -> Table:
    """Run the tests of an exercise on the functions of this notebook; see `self_check.running`."""
    _check_that_nbgrader_is_there()
    from distlib.classroom.self_check import running  # takes torch along, which `distlib lab` does without

    return running.check_exercise(name)


def hint(function: str, number: int = 1, exercise: str = "") -> Hints:
    """Three hints for a graded function, to be opened one by one; see `self_check.hints`. They cost nothing.

    Args:
        function: its name, such as "shift".
        number: of the hint that is shown where there is no HTML: 1, 2 or 3.
        exercise: its number, where functions of two exercises have the same name.

    Raises:
        NoHint: there is none; the message says why.
    """
    from distlib.classroom.self_check import hints

    return hints.hint(function, number, exercise)


def hand_in(name: str, student: str = "", *, sure: bool = False) -> Receipt | None:
    """Hand in this notebook, as it is saved. Save it first. In a terminal: `distlib hand-in 02_all_reduce`.

    It looks at the text only and runs nothing. Where there is an exchange of nbgrader's, the notebook is submitted.
    Elsewhere a file is made, which you upload where your course collects it. A notebook that has not changed since it
    was handed in is not handed in again, and one that has changed only if you say so: running all cells is no reason.

    Args:
        name: the exercise, such as "02_all_reduce".
        student: your name or student number; without it you are asked once.
        sure: hand in also if nothing is answered.

    Returns:
        A receipt: time, checksum, what is answered. It is also kept as a file. None if you answered no.

    Raises:
        HandInError: nothing was handed in; the message says why.
    """
    _check_that_nbgrader_is_there()
    from distlib.classroom.uploads.hand_in import Declined, hand_in_notebook  # takes nbgrader along; test cells do not

    try:
        return hand_in_notebook(name, student=student, sure=sure, asks_again=True)
    except Declined as answer:
        print(answer)
        return None


def _check_that_nbgrader_is_there() -> None:
    """A Jupyter that somebody else has set up, such as Colab's, runs the exercises without it."""
    if find_spec("nbgrader") is None:
        raise ImportError(
            "This needs nbgrader, which is not installed here. Save and download the notebook. Where the course is "
            "installed by `make lab`, run `distlib check 02 --notebook FILE`, or `distlib hand-in 02 --notebook FILE`.",
            name="nbgrader",
        )

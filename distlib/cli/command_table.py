"""The commands of `distlib`: a row each. A command is imported when it is called."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from distlib.cli import class_arguments as of_class, command_arguments as of

DAILY, NOW_AND_THEN, INSTRUCTORS = "every day", "now and then", "for instructors"  # the headings of the list
LAUNCHES = "On several machines: torchrun … -m distlib.cli launch train.py:main, or srun … distlib launch train.py:main"


@dataclass(frozen=True)
class Command:
    """One of them.

    Attributes:
        name: as it is typed.
        what: it does, in a sentence without its end.
        heading: under which `distlib` lists it.
        entry_point: its module in distlib.cli, and the function there that returns the exit status.
        add_arguments: to its parser.
        call: the function, with what was typed.
        more: below its help.
        passes_on: whether what it does not know goes to a program that it starts, as `options.rest`.
        needs_course: whether it only says NO_COURSE where there is no course.
    """

    name: str
    what: str
    heading: str
    entry_point: str
    add_arguments: Callable[[ArgumentParser], None] = of.add_nothing
    call: Callable[[Callable[..., int], Namespace], int] = lambda function, options: function(options)
    more: str = ""
    passes_on: bool = False
    needs_course: bool = False

    def function(self) -> Callable[..., int]:
        """The function that it calls, imported only now."""
        module, _, function = self.entry_point.partition(":")
        function_of_command: Callable[..., int] = getattr(import_module(f"distlib.cli.{module}"), function)
        return function_of_command


def _alone(function: Callable[..., int], _: Namespace) -> int:
    return function()


def _lab(open_lab: Callable[..., int], options: Namespace) -> int:
    return open_lab(options.rest, instructor=options.instructor, from_start=options.from_start)


def _hint(show_hint: Callable[..., int], options: Namespace) -> int:
    return show_hint(options.function, options.number, options.exercise)


def _fetch(fetch_framework: Callable[..., int], options: Namespace) -> int:
    return fetch_framework(options.framework)


def _doctor(doctor: Callable[..., int], options: Namespace) -> int:
    return doctor(options.for_a_notebook)


def _check(check: Callable[..., int], options: Namespace) -> int:
    return check(options.assignment, options.notebook)


COMMANDS: tuple[Command, ...] = (
    Command(
        "lab",
        "open JupyterLab on your copies of the lessons and exercises; other options go to `jupyter lab`",
        DAILY,
        "lab:open_lab",
        of.add_lab_arguments,
        _lab,
        more="Without a screen: distlib lab --no-browser --port=8899",
        passes_on=True,
        needs_course=True,
    ),
    Command(
        "check",
        "show which functions of an exercise pass their tests, and what to do next; it gives no marks. Without the "
        "name of an exercise it is `distlib progress`",
        DAILY,
        "check:check",
        of.add_check_arguments,
        _check,
    ),
    Command(
        "hint",
        "show a hint for a graded function: 1 a nudge, 2 the idea, 3 the shape of the code; it costs nothing",
        DAILY,
        "hint:show_hint",
        of.add_hint_arguments,
        _hint,
    ),
    Command(
        "hand-in",
        "hand in an exercise: look at the saved notebook, make the file to upload or submit it, print a receipt",
        DAILY,
        "hand_in:hand_in_from_terminal",
        of.add_hand_in_arguments,
    ),
    Command(
        "progress",
        "show where you are: what ran, what passes, what is handed in, marks, hours, and the next step",
        DAILY,
        "where_am_i:show_progress",
        call=_alone,
        needs_course=True,
    ),
    Command(
        "update",
        "get a newer version of the course; what you have written stays",
        DAILY,
        "update:update",
        call=_alone,
        needs_course=True,
    ),
    Command(
        "doctor",
        "check this machine: Python, torch, ranks, GPUs, Jupyter, nbgrader; say what to do about a problem",
        DAILY,
        "doctor:doctor",
        of.add_doctor_arguments,
        _doctor,
    ),
    Command(
        "report",
        "write one page about what you did, to show to others: your code, pictures of your runs, marks",
        NOW_AND_THEN,
        "show_report:write_report",
        of.add_report_arguments,
        needs_course=True,
    ),
    Command(
        "board",
        "show your best plays of the games; where a class hands in, make its board, too",
        NOW_AND_THEN,
        "board:board",
        of.add_board_arguments,
    ),
    Command(
        "fetch",
        "install what a later lesson needs, unless it is there: tensorflow for lesson 13, jax for lesson 14",
        NOW_AND_THEN,
        "fetch:fetch_framework",
        of.add_fetch_arguments,
        _fetch,
    ),
    Command(
        "launch",
        "run a function of a script on ranks: on this machine, or where torchrun or srun has started it",
        NOW_AND_THEN,
        "launch:launch_script",
        of.add_launch_arguments,
        more=LAUNCHES,
    ),
    Command(
        "release",
        "write the course for students, a zip file or a folder: lessons, exercises, the package, no solutions",
        INSTRUCTORS,
        "release:release_course",
        of.add_release_arguments,
    ),
    Command(
        "collect",
        "collect what students have uploaded: a folder, or the zip file of a learning platform",
        INSTRUCTORS,
        "collect:collect_uploads",
        of.add_collect_arguments,
    ),
    Command(
        "grade",
        "grade what students have handed in: their code in a sandbox, its marks into nbgrader's gradebook",
        INSTRUCTORS,
        "grade:grade_submissions",
        of.add_grade_arguments,
    ),
    Command(
        "class",
        "due dates, extensions, teams that hand in once, pseudonyms for a second marker",
        INSTRUCTORS,
        "class_commands:change_class",
        of_class.add_class_arguments,
    ),
    Command(
        "export",
        "write everybody's marks as Canvas or Moodle imports them",
        INSTRUCTORS,
        "export:export_marks",
        of_class.add_export_arguments,
    ),
    Command(
        "questions",
        "print questions for practice or an exam, with computed answers; another variant, other numbers",
        INSTRUCTORS,
        "questions_command:print_questions",
        of_class.add_questions_arguments,
    ),
)

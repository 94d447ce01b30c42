"""Where a student is: as text for a terminal, and as the page `work/my_course.md` next to the notebooks.

The page is Markdown: JupyterLab shows it in its own colors, light or dark, its links open notebooks in the same window,
and it needs no kernel and no extension. It is made anew when JupyterLab starts, and whenever something is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from distlib.classroom.my_course.own_course import NOT_WRITTEN, OwnCourse, OwnExercise, OwnLesson
from distlib.classroom.self_check.results import PASSES
from distlib.classroom.student_copies.copy_paths import FOLDER, exercise_copy, lesson_copy
from distlib.classroom.words import aligned, count, points
from distlib.games import BestPlay
from distlib.printable import printable
from distlib.whole_file import write_file

PAGE = f"{FOLDER}/my_course.md"
_LEAST_TITLE = 20  # letters of a title that are shown in any case
_HEADS = ("", "lesson", "ran", "predicted", "exercise", "due", "hand-in", "marks", "hours")


def progress_text(own: OwnCourse, width: int | None = None) -> str:
    """The table, what is done in numbers, and the next step, for a terminal.

    Args:
        own: what is shown.
        width: letters of a line of the terminal. Titles are cut if a row has no room for them; None: they never are.
    """
    lines = aligned(_rows(own))
    if width is not None and (excess := max(map(len, lines)) - width) > 0:
        room = max(_LEAST_TITLE, max(len(_title(lesson)) for lesson in own.lessons) - excess)
        lines = aligned(_rows(own, room))
    remarks = [f"Remark: {remark}" for remark in own.remarks]
    games = ["\n".join(["Games, your best:", *(f"  {game_words(play)}" for play in own.games)])] if own.games else []
    return "\n\n".join(["\n".join(lines), *games, *remarks, f"{in_numbers(own)}\nNext: {own.next_step}"])


def write_page(course: Path, own: OwnCourse) -> None:
    """Write the page into the student's folder, if there is one. A folder that can't be written has no page.

    Args:
        course: the course's folder.
        own: what is shown.
    """
    if (course / FOLDER).is_dir():
        try:
            write_file(course / PAGE, _page(own).encode())
        except OSError:
            return


def in_numbers(own: OwnCourse) -> str:
    """What has run, what is done, the hours that this stands for, and what is to come.

    "Run: 3 of 19 lessons. To come: about 50 hours.
    Done: 2 of 19 lessons, 9 of 110 predictions, 9 of 80 functions, 2 of 17 hand-ins made; about 4.2 hours."
    """
    lessons, exercises = own.counted_lessons, [lesson.exercise for lesson in own.counted if lesson.exercise]
    functions = sum(len(each.functions) for each in exercises)
    passing = sum(len(each.names(PASSES)) for each in exercises)
    ran, done = (
        f"{number} of {count(len(lessons), 'lesson')}"
        for number in (sum(lesson.has_run for lesson in lessons), sum(lesson.is_done for lesson in lessons))
    )
    asked = sum(len(lesson.predictions.asked) for lesson in lessons)
    predicted = f"{sum(lesson.predictions.number for lesson in lessons)} of {count(asked, 'prediction')}"
    handed = f"{sum(each.handed_in is not None for each in exercises)} of {count(len(exercises), 'hand-in')} made"
    return (
        f"Run: {ran}. To come: about {hours(own.minutes_to_come)}.\n"
        f"Done: {done}, {predicted}, {passing} of {count(functions, 'function')}, {handed}; "
        f"about {hours(own.minutes_done)}."
    )


def game_words(play: BestPlay) -> str:
    """ "09 Fill the grid, level 1: 20 points (par 18)"."""
    number = play.lesson.partition("_")[0]
    score, par = f"{play.score:,.6g} {play.unit}", f"{play.par:,.6g}"
    return f"{number} {play.title}, {play.level_name or f'level {play.level}'}: {score} (par {par})"


def hours(minutes: float) -> str:
    """ "1.5 hours", "44 hours": never more exact than it is."""
    number = minutes / 60
    shown = f"{number:.0f}" if number >= 10 else points(round(number, 1))
    return f"{shown} hour{'' if shown == '1' else 's'}"


def _rows(own: OwnCourse, room: int | None = None) -> list[tuple[str, ...]]:
    """Heads and rows. The due dates have a column where any is known."""
    return _with_due([_HEADS, *(_texts(lesson, room) for lesson in own.lessons)])


def _with_due(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    place = _HEADS.index("due")
    if any(row[place] for row in rows[1:]):
        return rows
    return [row[:place] + row[place + 1 :] for row in rows]


def _texts(lesson: OwnLesson, room: int | None = None) -> tuple[str, ...]:
    """The cells of a row, its title cut to some letters."""
    own = lesson.exercise
    return (
        lesson.number,
        _title(lesson, room),
        _ran(lesson),
        _predicted(lesson),
        _passing(own) if own else "",
        _due(own.due) if own and own.due else "",
        f"made {own.handed_in.astimezone():%d %b}" if own and own.handed_in else "",
        own.marks.words(" of ") if own and own.marks else "",
        f"{lesson.minutes / 60:.1f}" if lesson.minutes else "",
    )


def _due(due: datetime) -> str:
    return f"{due.astimezone():%d %b %H:%M}"


def _title(lesson: OwnLesson, room: int | None = None) -> str:
    """ "Grids, two trees, many nodes, optional": cut if there is room for less."""
    title, optional = lesson.promise.short_title, ", optional" if lesson.promise.is_optional else ""
    optional += " exercise" if lesson.is_exercise else ""
    if room is not None and len(title) + len(optional) > room:
        title = title[: room - len(optional) - 1].rstrip(" ,") + "…"
    return title + optional


def _ran(lesson: OwnLesson) -> str:
    if lesson.is_exercise:
        return ""
    if lesson.has_run:
        return "✓"
    return f"◐ {lesson.seen.ran} of {lesson.seen.cells}" if lesson.seen.ran else "–"


def _predicted(lesson: OwnLesson) -> str:
    """ "4 of 6": how many predictions were committed."""
    made = lesson.predictions
    return f"{made.number} of {len(made.asked)}" if made.number else "–" if made.asked else ""


def _passing(own: OwnExercise) -> str:
    """ "✓ 4 of 4 pass", "◐ 1 of 4 passes", "○ 2 of 4 written": the most that one knows."""
    number, passing, missing = len(own.functions), len(own.names(PASSES)), len(own.names(NOT_WRITTEN))
    if passing:
        return f"{'✓' if own.passes else '◐'} {passing} of {number} pass{'' if passing > 1 else 'es'}"
    return f"○ {number - missing} of {number} written" if missing < number else "–"


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _page(own: OwnCourse) -> str:
    here = f"You were in [{own.last.rpartition('/')[2].removesuffix('.ipynb')}]({own.last}).\n" if own.last else ""
    remarks = [f"*{_harmless(remark)}*\n" for remark in own.remarks]
    games = [f"- {_harmless(game_words(play))}" for play in own.games]
    games = ["**Games, my best:**\n", *games, ""] if games else []
    heads, *rows = _with_due([_HEADS, *(tuple(_linked(lesson)) for lesson in own.lessons)])
    table = [_row(heads), _row(["---"] * len(heads)), *map(_row, rows)]
    return "\n".join(
        [
            "# My course\n",
            f"**Next:** {_harmless(own.next_step)}\n",
            here,
            *remarks,
            f"{in_numbers(own)}\n",
            *table,
            "",
            *games,
            "Hours are those of the lesson with its exercise; optional ones count once you have begun them. A lesson "
            "has run when nine of ten of its cells have. It is done when, besides, you have committed most of its "
            "predictions, or all functions of its exercise pass; a function does when it passed the last check "
            "(`distlib check`) as it stands now. Hours of a lesson count by its predictions, those of an exercise by "
            "its functions or its points. `distlib report` makes a page of it all to show to others.\n",
            "This page is made anew when JupyterLab starts, and with every check. In a terminal: `distlib progress`.",
            "",
        ]
    )


def _linked(lesson: OwnLesson) -> list[str]:
    number, title, ran, predicted, passing, *others = map(_harmless, _texts(lesson))
    lesson_file = lesson_copy(lesson.name).removeprefix(f"{FOLDER}/")
    exercise_file = exercise_copy(lesson.name).removeprefix(f"{FOLDER}/")
    exercise = f"[{passing.replace('–', 'to do')}]({exercise_file})" if lesson.exercise else ""
    return [
        number,
        f"[{title}]({exercise_file if lesson.is_exercise else lesson_file})",
        ran,
        predicted,
        exercise,
        *others,
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _harmless(text: str) -> str:
    """A text that Markdown shows as it is: names in it come from files."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#~$" else sign for sign in printable(text))

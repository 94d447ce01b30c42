"""`distlib report`: one page about what somebody has done in this course, to show to others. It loads and runs nothing.

What he or she can do now, by what the lessons promise that are done; pictures of own runs; functions and answers in
words; games; marks. Nothing is claimed without evidence, see `evidence`, and a click on each claim shows it: what was
committed, the code that passed and when, the choices of a play, what the hours are made of.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from markupsafe import Markup

from distlib.classroom.grader.notebook_page import COLORS, code_html, text_html
from distlib.classroom.my_course.evidence import FAILED_BEFORE, PASSED_BEFORE
from distlib.classroom.my_course.own_course import OwnCourse, OwnExercise, OwnLesson
from distlib.classroom.my_course.progress_table import hours
from distlib.classroom.my_course.run_pictures import RunPicture, best_picture
from distlib.classroom.my_course.written_functions import WrittenFunction
from distlib.classroom.pages import render
from distlib.classroom.self_check.results import FAILS, PASSES
from distlib.classroom.student_copies.copy_paths import FOLDER, exercise_copy, lesson_copy
from distlib.classroom.student_copies.notebook_json import read_notebook
from distlib.classroom.uploads.receipt import moment
from distlib.classroom.words import count, points
from distlib.draw.style import DARK_PAPER, LIGHT_PAPER

REPORT = f"{FOLDER}/my_report.html"
MARK = '<meta name="distlib-report" content="1">'
_CAPSTONE = ("19", "19b")  # the last lesson, and the exercise that goes on with it
_MOST_LETTERS = 160  # of what a function does, in a sentence
_REMARKS = {
    PASSES: "passes the tests",
    FAILS: "not right yet",
    PASSED_BEFORE: "changed since it passed",
    FAILED_BEFORE: "changed since it failed",
}
_CHOSEN = {"cell": "in a cell", "widget": "with sliders", "function": "by a function of one's own"}
_TITLE = "Distributed training, from the message up"


@dataclass(frozen=True)
class ShownPicture:
    """A picture on the page, and the lesson that it is from."""

    picture: RunPicture
    lesson: OwnLesson

    @property
    def is_capstone(self) -> bool:
        """Whether it is the last work of the course, shown large."""
        return self.lesson.number in _CAPSTONE


@dataclass(frozen=True)
class ShownFunction:
    """A function on the page.

    Attributes:
        name: its name.
        state: what is known of it, see `OwnExercise.state`.
        purpose: what it does, in its own words; "" if it does not say.
        code: as HTML.
        checked: when it was checked last; None if it never was.
    """

    name: str
    state: str
    purpose: str
    code: Markup
    checked: datetime | None = None

    @property
    def remark(self) -> str:
        """What a reader should know about its tests."""
        return _REMARKS.get(self.state, "not checked yet")

    @property
    def proof(self) -> str:
        """What is known of the code below; "" if it does not pass."""
        passes = self.state == PASSES and self.checked
        return f"This code passed the tests at {moment(self.checked)}." if passes and self.checked else ""


def is_empty(own: OwnCourse) -> bool:
    """Whether there is nothing to show."""
    return not any(lesson.is_begun for lesson in own.lessons)


def portfolio(course: Path, own: OwnCourse, name: str, today: date, *, unfolded: bool = False) -> str:
    """The page.

    Args:
        course: the course's folder, for the pictures.
        own: what is shown.
        name: of the student; "" for none.
        today: when it was made.
        unfolded: whether the code is open, as for printing it.
    """
    done = [lesson for lesson in own.counted_lessons if lesson.is_done]
    written = [each for each in own.exercises if each.is_begun]
    return render(
        "portfolio.html",
        title=_TITLE,
        name=" ".join(name.split()),
        today=f"{today.day} {today:%B %Y}",
        tiles=_tiles(own, done),
        done=[(lesson, [_phrase(phrase) for phrase in lesson.promise.able], _proofs(lesson)) for lesson in done],
        pictures=_pictures(course, own),
        exercises=[
            (each, _code(each), [(text.name, text_html(text.text)) for text in each.evidence.written])
            for each in written
        ],
        has_marks=any(each.marks for each in own.exercises),
        games=[(play, json.dumps(play.choices, ensure_ascii=False), _CHOSEN.get(play.by, "")) for play in own.games],
        bears=[(each, each.evidence.in_words(), hours(each.minutes_done)) for each in own.counted if each.minutes_done],
        unfolded=unfolded,
        colors=COLORS,
        papers=(LIGHT_PAPER, DARK_PAPER),
    )


def _tiles(own: OwnCourse, done: Sequence[OwnLesson]) -> list[tuple[str, str]]:
    """Numbers, and what they count."""
    passing = sum(len(each.names(PASSES)) for each in own.exercises)
    marks = [each.marks for each in own.exercises if each.marks]
    lessons = own.counted_lessons
    ran, predicted = sum(lesson.has_run for lesson in lessons), sum(each.predictions.number for each in lessons)
    tiles = [(str(len(done)), f"of {count(len(lessons), 'lesson')} done")] if done else []
    tiles += [(str(ran), f"of {count(len(lessons), 'lesson')} run")] if ran > len(done) else []
    texts = sum(len(each.evidence.written) for each in own.exercises)
    tiles += [(str(texts), f"answer{'' if texts == 1 else 's'} in words")] if texts else []
    tiles += [(str(predicted), f"prediction{'' if predicted == 1 else 's'} before a run")] if predicted else []
    tiles += [
        (str(passing), f"function{'' if passing == 1 else 's'} that pass{'es' if passing == 1 else ''} the tests")
    ]
    amount, unit = hours(own.minutes_done).split(" ")
    tiles += [(amount, f"{unit} of work, as the course counts them")] if own.minutes_done else []
    if marks:
        tiles.append((points(sum(each.got for each in marks)), f"of {points(sum(each.full for each in marks))} points"))
    return tiles


def _phrase(phrase: str) -> Markup:
    """A phrase of a lesson's promise, which may have Markdown in it."""
    return Markup(str(text_html(phrase[:1].upper() + phrase[1:])).strip().removeprefix("<p>").removesuffix("</p>"))


def _code(exercise: OwnExercise) -> list[ShownFunction]:
    """The functions that are written."""
    return [
        ShownFunction(
            each.name,
            exercise.state(each),
            _purpose(each),
            code_html(each.source, f"{exercise.name}-{each.name}"),
            exercise.last.checked,
        )
        for each in exercise.functions
        if each.source
    ]


def _proofs(lesson: OwnLesson) -> list[str]:
    """The evidence of a lesson that is done, one by one."""
    evidence = lesson.evidence
    said = [f"{made.question} – {made.said}" for made in evidence.predictions if made.question]
    unknown = len(evidence.predictions) - len(said)
    earlier = [f"{count(unknown, 'prediction')} kept by an earlier version, without words"] if unknown else []
    code = [f"{name}: its code stands below, under What I wrote" for name in evidence.passing]
    return [*said, *earlier, *code]


def _purpose(function: WrittenFunction) -> str:
    """The first sentence of its docstring; "" if it has none, or is not Python."""
    try:
        nodes = ast.walk(ast.parse(function.source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    kinds = (ast.FunctionDef, ast.ClassDef)
    texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds) and node.name == function.name]
    sentence = re.split(r"(?<=[.!?])\s|\n\n", texts[0].strip(), maxsplit=1)[0] if texts else ""
    return " ".join(sentence.split())[:_MOST_LETTERS]


def _pictures(course: Path, own: OwnCourse) -> list[ShownPicture]:
    """A picture from each lesson that has one; the capstone's first."""
    found = [ShownPicture(best, lesson) for lesson in own.lessons if (best := _best(course, lesson))]
    return sorted(found, key=lambda shown: not shown.is_capstone)


def _best(course: Path, lesson: OwnLesson) -> RunPicture | None:
    """The best picture of a lesson; of the capstone, that of its exercise before that of its lesson."""
    pairs = [
        (f"course/{lesson.name}.ipynb", lesson_copy(lesson.name)),
        (f"exercises/{lesson.name}/{lesson.name}.ipynb", exercise_copy(lesson.name)),
    ]
    if lesson.number in _CAPSTONE:
        pairs.reverse()
    for original, mine in pairs:
        try:
            best = best_picture(read_notebook(course / original), read_notebook(course / mine))
        except (OSError, ValueError):  # the reading of the course has named it
            continue
        if best:
            return best
    return None

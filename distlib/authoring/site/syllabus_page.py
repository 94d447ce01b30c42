"""The syllabus: which lesson builds on which, as a map and as a table, read from what each lesson says of itself."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from distlib.authoring.site.lesson_pages import exercise_links
from distlib.classroom.my_course.lesson_promise import LessonPromise, opening_of, promise_of
from distlib.classroom.student_copies.notebook_json import read_notebook

_BOX, _ACROSS, _DOWN = (118, 40), 148, 84  # a box's width and height, and how far the next one is, in pixels
_NEEDS = re.compile(r"\*\*You need:\*\*(.*?\.)(?=\s|$)(?![^\[]*\])", re.DOTALL)
_LINK = re.compile(r"\]\((\d\w*)\.ipynb\)")
_ROW = re.compile(r"^\| \[.*?\]\(course/(\w+)\.ipynb\)(?:, side road)? \| ([^|]+?) \|", re.MULTILINE)


@dataclass(frozen=True)
class LessonFacts:
    """What a lesson says of itself.

    Attributes:
        name: such as "03b_networks".
        promise: its title, how long it takes, and whether the course can be done without it.
        needs: the names of the lessons that it builds on.
        ability: what its reader will be able to do, from the README.
    """

    name: str
    promise: LessonPromise
    needs: tuple[str, ...]
    ability: str

    @property
    def number(self) -> str:
        """What its name begins with, such as "03b"."""
        return self.name.partition("_")[0]


def read_lessons(root: Path) -> list[LessonFacts]:
    """The lessons in order. root: the course's folder."""
    abilities = dict(_ROW.findall((root / "README.md").read_text(encoding="utf-8")))
    facts = []
    for path in sorted(root.glob("course/[0-9]*.ipynb")):
        notebook = read_notebook(path)
        promise, needs = promise_of(notebook), _NEEDS.search(opening_of(notebook))
        if not (promise.minutes and needs and path.stem in abilities):
            raise ValueError(f"{path.name} does not say how long it takes, or what it needs, or the README lacks it")
        linked = tuple(name for name in _LINK.findall(needs[1]) if name != path.stem)
        facts.append(LessonFacts(path.stem, promise, linked, abilities[path.stem]))
    return facts


def syllabus_page(root: Path) -> str:
    """The page, in MyST's Markdown."""
    lessons = read_lessons(root)
    rows = [
        f"| [{lesson.number} {lesson.promise.title}](course/{lesson.name}.ipynb)"
        f"| {lesson.ability} | {lesson.promise.minutes} min | {_numbers(lesson)} | {_exercises(root, lesson)} |"
        for lesson in lessons
    ]
    table = ["| lesson | afterwards you can | reading | builds on | exercise |", "|---|---|--:|---|---|", *rows]
    top = (
        "# Syllabus\n\nAn arrow leads from a lesson to one that builds on it. A dashed box is optional.\n\n"
        f'<div class="distlib-map">\n{lesson_map(lessons)}\n</div>\n'
    )
    return "\n".join([top, *table]) + "\n"


def lesson_map(lessons: list[LessonFacts]) -> str:
    """The map as SVG: a row for each number of steps from the first lesson. A box is a link to its lesson."""
    corners = _corners(lessons)
    width = max(x for x, _ in corners.values()) + _BOX[0] + 10
    height = max(y for _, y in corners.values()) + _BOX[1] + 10
    words = f"{len(lessons)} lessons, and which builds on which. The table below says the same."
    arrows = [_arrow(corners[need], corners[lesson.name]) for lesson in lessons for need in _direct(lesson, lessons)]
    boxes = [_box(lesson, corners[lesson.name]) for lesson in lessons]
    head = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8" /></marker></defs>'
    )
    size = f'viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{html.escape(words)}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', head, *arrows, *boxes, "</svg>"])


def _corners(lessons: list[LessonFacts]) -> dict[str, tuple[int, int]]:
    """The top left corner of each box: a row below all that it builds on, and below the middle of these if it can."""
    depth: dict[str, int] = {}
    for lesson in lessons:
        depth[lesson.name] = 1 + max((depth[need] for need in lesson.needs), default=-1)
    widest = max(Counter(depth.values()).values())
    corners: dict[str, tuple[int, int]] = {}
    for row in range(max(depth.values()) + 1):
        middles = {
            lesson.name: mean([corners[need][0] for need in _direct(lesson, lessons)] or [0])
            for lesson in lessons
            if depth[lesson.name] == row
        }
        names = sorted(middles, key=middles.__getitem__)  # equal ones in the order of their numbers
        for column, name in enumerate(names):
            corners[name] = (10 + round((column + (widest - len(names)) / 2) * _ACROSS), 10 + row * _DOWN)
    return corners


def _direct(lesson: LessonFacts, lessons: list[LessonFacts]) -> list[str]:
    """What a lesson builds on, without what that builds on already."""
    by_name = {each.name: each for each in lessons}
    return [need for need in lesson.needs if not any(need in _below(other, by_name) for other in lesson.needs)]


def _below(name: str, by_name: Mapping[str, LessonFacts]) -> set[str]:
    needs = by_name[name].needs
    return set(needs).union(*(_below(need, by_name) for need in needs))


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """From a box to one below it. One that skips a row begins at the side, and passes between the boxes of that row."""
    (x, y), (to_x, to_y) = (start[0] + _BOX[0] // 2, start[1] + _BOX[1]), (end[0] + _BOX[0] // 2, end[1] - 2)
    way = f"M{x} {y}"
    if to_y - y > _DOWN:
        x, y = start[0] + (_ACROSS + _BOX[0]) // 2, to_y - _DOWN + _BOX[1]
        way = f"M{start[0] + _BOX[0]} {start[1] + _BOX[1] // 2} H{x} V{y}"
    bend = (to_y - y) // 2
    return f'<path d="{way} C{x} {y + bend} {to_x} {to_y - bend} {to_x} {to_y}" marker-end="url(#tip)" />'


def _box(lesson: LessonFacts, corner: tuple[int, int]) -> str:
    x, y = corner
    middle = x + _BOX[0] // 2
    name = html.escape(lesson.name.partition("_")[2].replace("_", " "))
    look = ' class="optional"' if lesson.promise.is_optional else ""
    return (
        f'<a href="course/{lesson.name}.html"{look}><title>{html.escape(lesson.promise.title)}</title>'
        f'<rect x="{x}" y="{y}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6" />'
        f'<text x="{middle}" y="{y + 16}" text-anchor="middle" font-weight="bold">{lesson.number}</text>'
        f'<text x="{middle}" y="{y + 32}" text-anchor="middle">{name}</text></a>'
    )


def _numbers(lesson: LessonFacts) -> str:
    return ", ".join(f"[{need.partition('_')[0]}](course/{need}.ipynb)" for need in lesson.needs) or "–"


def _exercises(root: Path, lesson: LessonFacts) -> str:
    return ", ".join(exercise_links(root, lesson.name)) or "–"

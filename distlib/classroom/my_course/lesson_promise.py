"""What a notebook promises in its opening: its title, how long it takes, and what one can do afterwards.

The opening is all text above the first section. Code may stand in it, and the promise may be a quotation, with ">".

# # Trees: few messages in a row
# After this lesson you will be able to
# - choose an all-reduce for a size and a network,
# **Time:** about 75 minutes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from distlib.classroom.student_copies.notebook_json import Notebook, text_of

_TITLE = re.compile(r"^# (?:Exercise \w+: )?(.+)$", re.MULTILINE)
_TIME = re.compile(r"\*\*Time:\*\*\s+about\s+(\d+)\s+minutes")
_ABLE = re.compile(r"you will be able to\s*\n\s*\n((?:(?:- |  ).*\n)+)")
_POINT = re.compile(r"^- (.+(?:\n  .+)*)", re.MULTILINE)
_QUOTED = re.compile(r"^> ?", re.MULTILINE)
_SECTION = re.compile(r"^## ", re.MULTILINE)
_OPTIONAL = "**This lesson is optional.**"


@dataclass(frozen=True)
class LessonPromise:
    """What a lesson or an exercise promises.

    Attributes:
        title: without "Exercise 02: " before it.
        minutes: how long it takes; 0 if it does not say.
        able: what one can do afterwards, a phrase each, without the comma behind it.
        is_optional: whether no later lesson needs it.
    """

    title: str
    minutes: int
    able: tuple[str, ...]
    is_optional: bool

    @property
    def short_title(self) -> str:
        """As a table has room for it: what stands before a colon."""
        return self.title.partition(":")[0]


def opening_of(notebook: Notebook) -> str:
    """The text above the first section of a notebook, without the marks of quotations."""
    text = "\n\n".join(text_of(cell) for cell in notebook["cells"] if cell.get("cell_type") == "markdown")
    return _QUOTED.sub("", _SECTION.split(text, maxsplit=1)[0])


def promise_of(notebook: Notebook) -> LessonPromise:
    """What the opening of a notebook says."""
    opening = opening_of(notebook)
    title, time, able = _TITLE.search(opening), _TIME.search(opening), _ABLE.search(f"{opening}\n")
    points = _POINT.findall(able[1]) if able else []
    phrases = tuple(" ".join(point.split()).rstrip(",.") for point in points)
    heading = title[1].strip() if title else "without a title"
    return LessonPromise(heading, int(time[1]) if time else 0, phrases, _OPTIONAL in opening)

"""Marks that came back: the feedback pages in a student's folder. Each page says whose marks it has, for programs, too.

work/feedback/                              where a student puts a page that a learning platform, or a mail, brought
work/exercises/02_all_reduce/feedback/      where nbgrader's Fetch Feedback puts it
"""

from __future__ import annotations

import re
from pathlib import Path

from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.student_copies.copy_paths import EXERCISES, FOLDER
from distlib.ordinary_file import read_ordinary

FEEDBACK = f"{FOLDER}/feedback"
_NUMBER = rb"(\d+(?:\.\d+)?)"
_SAYS = re.compile(rb'<meta name="distlib-marks" content="([\w-]+) %b %b(?: %b)?">' % (_NUMBER, _NUMBER, _NUMBER))
_HEAD = 4_096  # bytes: it stands in the first few hundred
_MOST_PAGES = 1_000


def marks_back(course: Path) -> dict[str, PointSum]:
    """The marks by exercise; of several pages about one, those of the newest. course: the course's folder."""
    folders = [course / FEEDBACK, *sorted((course / EXERCISES).glob("*/feedback"))]
    pages = [page for folder in folders for page in sorted(folder.rglob("*.html"))][:_MOST_PAGES]
    found: dict[str, tuple[float, PointSum]] = {}
    for page in pages:
        try:
            time = page.stat().st_mtime
            said = _SAYS.search(read_ordinary(page, _HEAD))
        except OSError:
            continue
        if said and time >= found.get(said[1].decode(), (0.0, None))[0]:
            found[said[1].decode()] = (time, PointSum(float(said[2]), float(said[3]), float(said[4] or 0)))
    return {exercise: marks for exercise, (_, marks) in found.items()}

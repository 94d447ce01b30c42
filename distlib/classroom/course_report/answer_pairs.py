"""Answers that resemble each other more than two strangers of the class usually do, next to each other.

    left out                     what everybody has in front of them, and pieces that many students have
    how alike two answers are    the share of what is left that both have, of the shorter one: `grader.alike`
    what is usual                of all pairs the third quartile, and three times the middle half above it;
                                 at least a half, at most nine tenths
    what is shown                pairs above that

Names of variables, comments and texts make no difference. Where the right answer is short, strangers share nearly all
of it: nothing is left then, and nothing is shown. The fence is Tukey's for values that are far out (Exploratory Data
Analysis, 1977). It says nothing about why two answers are alike: a person reads both, and asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import quantiles

from distlib.classroom.grader.alike import (
    LEAST_PIECES,
    answers_in,
    known_texts,
    pieces,
    placed_pieces,
    rare_pieces,
)
from distlib.classroom.grader.class_run import ClassRun
from distlib.classroom.grader.course import Course
from distlib.classroom.grader.mistakes import graded
from distlib.classroom.pages import render
from distlib.classroom.words import count
from distlib.whole_file import write_file

LEAST_STUDENTS = 5  # in a smaller class nothing is usual
LEAST_SHARE, MOST_USUAL = 0.5, 0.9
_FENCE = 3
_MOST_SHOWN = 60


@dataclass(frozen=True)
class UnusualPair:
    """Two answers to one function.

    Attributes:
        function: its name.
        students: both.
        share: that both have, from 0 to 1.
        usual: the share up to which a pair of this class is usual.
    """

    function: str
    students: tuple[str, str]
    share: float
    usual: float


def unusual_pairs(
    answers: Mapping[str, Mapping[str, str]], known: Iterable[str] = (), teams: Mapping[str, str] | None = None
) -> list[UnusualPair]:
    """Pairs of answers that are more alike than is usual in this class, the most alike first.

    Args:
        answers: the text of each function, by student.
        known: texts that everybody has in front of them.
        teams: by student. Two of one team are no pair.
    """
    common = {piece for text in known for piece in pieces(text)}
    functions = dict.fromkeys(function for texts in answers.values() for function in texts)
    found = [pair for function in functions for pair in _of_function(function, answers, common, teams or {})]
    return sorted(found, key=lambda pair: (-pair.share, pair.function, pair.students))


def _of_function(
    function: str, answers: Mapping[str, Mapping[str, str]], common: set[str], teams: Mapping[str, str]
) -> list[UnusualPair]:
    written = {student: pieces(texts[function]) - common for student, texts in answers.items() if function in texts}
    rare = rare_pieces(written)
    left = {student: found & rare for student, found in written.items() if len(found & rare) >= LEAST_PIECES}
    shares = {pair: _share(left[pair[0]], left[pair[1]]) for pair in combinations(left, 2) if _strangers(pair, teams)}
    if len(written) < LEAST_STUDENTS or len(shares) < 2:
        return []
    usual = min(MOST_USUAL, max(LEAST_SHARE, _fence(list(shares.values()))))
    return [UnusualPair(function, pair, share, usual) for pair, share in shares.items() if share > usual]


def _strangers(pair: tuple[str, str], teams: Mapping[str, str]) -> bool:
    return not teams.get(pair[0]) or teams.get(pair[0]) != teams.get(pair[1])


def _share(one: set[str], other: set[str]) -> float:
    return len(one & other) / min(len(one), len(other))


def _fence(shares: list[float]) -> float:
    """Above it a share is far out."""
    first, _, third = quantiles(shares, n=4, method="inclusive")
    return third + _FENCE * (third - first)


def marked_lines(text: str, other: str) -> list[tuple[str, bool]]:
    """The lines of a text, each with whether it is part of what the other text has, too."""
    shared = pieces(other)
    marked = {line for piece, lines in placed_pieces(text).items() if piece in shared for line in lines}
    return [(line, number in marked) for number, line in enumerate(text.splitlines(), 1)]


def write_side_by_side(course: Course, run: ClassRun, teams: Mapping[str, str], folder: Path) -> tuple[Path, int]:
    """Write the page about an exercise into a folder. Returns its path, and how many pairs there are.

    Raises:
        OSError: it can't be written.
    """
    answers = answers_in(course, run.assignment, graded(run))
    pairs = unusual_pairs(answers, known_texts(course, run.assignment), teams)
    page = folder / f"side_by_side_{run.assignment}.html"
    write_file(page, side_by_side_html(run.assignment, pairs, answers).encode())
    return page.resolve(), len(pairs)


def side_by_side_html(assignment: str, pairs: list[UnusualPair], answers: Mapping[str, Mapping[str, str]]) -> str:
    """The page: each pair with both texts."""
    shown = [(pair, [_column(pair, answers, index) for index in (0, 1)]) for pair in pairs[:_MOST_SHOWN]]
    more = len(pairs) - len(shown)
    return render(
        "side_by_side.html",
        title=f"{assignment}: answers next to each other",
        summary=f"{count(len(pairs), 'pair')} of {count(len(answers), 'student')}.",
        pairs=shown,
        more=f"{count(more, 'more pair')}, less alike than these." if more > 0 else "",
    )


def _column(
    pair: UnusualPair, answers: Mapping[str, Mapping[str, str]], index: int
) -> tuple[str, list[tuple[str, bool]]]:
    """A student, and the marked lines of their answer."""
    one, other = pair.students[index], pair.students[1 - index]
    return one, marked_lines(answers[one][pair.function], answers[other][pair.function])

"""Answers that resemble each other more than they need to.

    an answer's tokens           def f ( v , v ) : if v . rank : v . send ( v , 0 ) …     names of variables become v
    its pieces                   every 8 tokens in a row
    left out                     pieces of the instructor's notebook and lesson, and those that many students have
    how alike two answers are    the share of what is left that both have, of the shorter one

Comments, texts and the names of variables make no difference; attributes do (`comm.send`). Short functions leave too
little to compare. Right answers to a small exercise are bound to resemble each other: this finds pairs that are worth a
look, and proves nothing. The pieces are the n-grams of Schleimer, Wilkerson and Aiken, "Winnowing" (SIGMOD 2003).
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from distlib.classroom.grader.course import Course
from distlib.classroom.student_copies.copy_paths import lesson_for

LENGTH = 8  # tokens of a piece
LEAST_PIECES = 16  # that an answer must have left to be compared
LEAST_SHARE = 0.7
MOST_CHARACTERS = 100_000  # of an answer; a longer one is cut
_MOST_PAIRS = 40
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Pair:
    """Two answers to one function.

    Attributes:
        function: its name.
        students: both.
        share: from 0 to 1.
        pieces: that both have, after what is common was left out.
    """

    function: str
    students: tuple[str, str]
    share: float
    pieces: int


def alike(answers: Mapping[str, Mapping[str, str]], known: Iterable[str] = ()) -> list[Pair]:
    """Pairs of answers that are alike, the most alike first.

    Args:
        answers: the text of each function, by student.
        known: texts that everybody has: the cells of the instructor's notebook and of the lesson.
    """
    common = {piece for text in known for piece in pieces(text)}
    by_function: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for student, texts in answers.items():
        for function, text in texts.items():
            by_function[function][student] = pieces(text) - common
    found = [pair for function, students in by_function.items() for pair in _pairs(function, students)]
    return sorted(found, key=lambda pair: (-pair.share, -pair.pieces, pair.students))[:_MOST_PAIRS]


def answers_in(course: Course, assignment: str, students: Iterable[str]) -> dict[str, dict[str, str]]:
    """The text of each function, by student, as it was graded."""
    found = {}
    for student in students:
        path = course.folder("autograded", student, assignment) / f"{assignment}.ipynb"
        found[student] = {
            cell.metadata.nbgrader.grade_id: cell.source
            for cell in _code_cells(path)
            if cell.metadata.get("nbgrader", {}).get("solution")
        }
    return found


def known_texts(course: Course, assignment: str) -> list[str]:
    """The code that all students have in front of them, and the instructor's solution."""
    exercise = Path(assignment) / f"{assignment}.ipynb"
    folders = [course.source_folder(".") / exercise, course.root / "exercises" / exercise]
    paths = [*folders, course.root / "course" / f"{lesson_for(assignment, course.root)}.ipynb"]
    return [cell.source for path in paths for cell in _code_cells(path)]


def _code_cells(path: Path) -> list[NotebookNode]:
    """The code cells of a notebook; none if it can't be read."""
    try:
        return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    except (OSError, ValueError):
        return []


def pieces(text: str) -> set[str]:
    """Every few tokens in a row."""
    return set(placed_pieces(text))


def placed_pieces(text: str) -> dict[str, set[int]]:
    """Every few tokens in a row, with the numbers of the lines, from 1, on which one of its tokens begins."""
    tokens = _tokens(text[:MOST_CHARACTERS])
    found: dict[str, set[int]] = defaultdict(set)
    for start in range(len(tokens) - LENGTH + 1):
        piece = tokens[start : start + LENGTH]
        found[" ".join(token for token, _ in piece)] |= {line for _, line in piece}
    return found


def rare_pieces(students: Mapping[str, set[str]]) -> set[str]:
    """The pieces that at most five students have, or at most a fifth of them. students: the pieces of each."""
    counts = Counter(piece for found in students.values() for piece in found)
    many = max(5, len(students) // 5)
    return {piece for piece, number in counts.items() if number <= many}


def _pairs(function: str, students: Mapping[str, set[str]]) -> Iterable[Pair]:
    """The pairs of one function. A piece that many have is the usual way to write it, and left out."""
    rare = rare_pieces(students)
    left = {student: found & rare for student, found in students.items() if len(found & rare) >= LEAST_PIECES}
    who: dict[str, list[str]] = defaultdict(list)
    for student, found in left.items():
        for piece in found:
            who[piece].append(student)
    shared = Counter(pair for having in who.values() for pair in combinations(having, 2))
    for (one, other), number in shared.items():
        share = number / min(len(left[one]), len(left[other]))
        if share >= LEAST_SHARE:
            yield Pair(function, (one, other), share, number)


def _tokens(text: str) -> list[tuple[str, int]]:
    """Python's tokens, without comments and texts, each with its line, up to where it is no Python."""
    found: list[tuple[str, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.STRING:
                found.append(("text", token.start[0]))
            elif (
                token.type == tokenize.NAME
                and not keyword.iskeyword(token.string)
                and [name for name, _ in found[-1:]] != ["."]
            ):
                found.append(("v", token.start[0]))
            elif token.type not in _SKIPPED:
                found.append((token.string, token.start[0]))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return found

"""Hints: three for each graded function, to be opened one by one.

    hint("shift")            in a notebook: three, each closed until it is clicked on; as text, the first
    hint("shift", 2)         the second
    distlib hint shift 2     likewise, in a terminal

An exercise's notebook has them below each function's cell. They stand in `hints.txt` in the exercise's folder, as
shift_1, shift_2 and shift_3. Where two exercises share the folder, a line `# Exercise 03b` begins the hints of the
second. Nothing is noted of who opens which, and they cost no marks.
"""

from __future__ import annotations

import difflib
import html
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from distlib.checks.sentences import read_entries

EXERCISES = Path(__file__).parents[2] / "exercises"  # a folder each, with its hints
KINDS = ("a nudge", "the idea", "the shape of the code")
FREE = "It costs nothing, and nobody notes it."
_CLOSEST = 0.5  # how alike a name must be that may have been meant, from 0 to 1


class NoHint(LookupError):
    """There is no such hint. The message says which there are."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]  # IPython shows this instead of a traceback


@dataclass(frozen=True)
class Hints:
    """The hints of one function: in a notebook as HTML, else as text.

    Attributes:
        exercise: its number, such as "02" or "12d".
        function: its name.
        texts: from the nudge to the shape of the code.
        shown: the number of the one that is shown as text, from 1.
    """

    exercise: str
    function: str
    texts: tuple[str, ...]
    shown: int = 1

    def __str__(self) -> str:
        text = f"{self.function}, {KINDS[self.shown - 1]}: {self.texts[self.shown - 1]}"
        more = f"The next one: {self.command(self.shown + 1)}. {FREE}" if self.shown < len(self.texts) else ""
        return "\n".join(filter(None, [text, more]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.folded()

    def command(self, number: int = 1) -> str:
        """What shows a hint in a terminal."""
        several = sum(each.function == self.function for each in all_hints()) > 1
        number_given = f" {number}" if number > 1 else ""
        return f"distlib hint {self.function}{number_given}{f' --exercise {self.exercise}' if several else ''}"

    def folded(self) -> str:
        """All of them as HTML without an empty line, each inside of the one before, so that it opens after that."""
        first = f"Stuck? A first hint for <code>{self.function}</code>. {FREE}"
        titles = [first, *(f"Another one: {kind}" for kind in KINDS[1:])]
        pairs = zip(titles, self.texts, strict=True)
        opened = (f"<details><summary>{title}</summary><p>{_as_html(text)}</p>" for title, text in pairs)
        return "\n".join(opened) + "</details>" * len(self.texts)


@cache
def all_hints() -> tuple[Hints, ...]:
    """The hints of every function that has some, in the order of the exercises' folders."""
    return tuple(hints for folder in sorted(EXERCISES.iterdir()) for hints in hints_in(folder))


def hints_in(folder: Path) -> list[Hints]:
    """The hints of an exercise, or of those that share a folder, in the order of its `hints.txt`; none if it has no
    such file.

    Raises:
        ValueError: the file is no list of entries, or a function has other hints than three.
    """
    file = folder / "hints.txt"
    entries = read_entries(file) if file.is_file() else {}
    functions = dict.fromkeys(name.rpartition("_")[0] for name in entries)
    if list(entries) != [f"{name}_{number}" for name in functions for number in range(1, len(KINDS) + 1)]:
        raise ValueError(f"{folder.name}/hints.txt: a function NAME has NAME_1, NAME_2 and NAME_3, in this order")
    exercises = _exercises_of(folder) if entries else {}
    return [Hints(exercises[name], name, tuple(entries[f"{name}_{k}"] for k in (1, 2, 3))) for name in functions]


def _exercises_of(folder: Path) -> dict[str, str]:
    """By function, the number of its exercise: of the heading above its hints, else of the package's docstring."""
    label = re.match(r'"""Exercise (\w+):', (folder / "__init__.py").read_text(encoding="utf-8"))
    exercise, exercises = label[1] if label else "", {}
    for line in (folder / "hints.txt").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"# Exercise (\w+)", line):
            exercise = heading[1]
        elif name := re.match(r"(\w+)_1:", line):
            exercises[name[1]] = exercise
    return exercises


def hint(function: str, number: int = 1, exercise: str = "") -> Hints:
    """The hints of a graded function.

    Args:
        function: its name, such as "shift".
        number: of the hint that is shown as text: 1, 2 or 3.
        exercise: its number, where functions of two exercises have the same name: "02", or "02_all_reduce".

    Raises:
        NoHint: there is no such function, it has no such hint, or several exercises have such a function.
    """
    label = exercise.partition("_")[0]
    found = [each for each in all_hints() if each.function == function and (not label or each.exercise == label)]
    if not found:
        raise NoHint(_unknown(function, exercise))
    if len(found) > 1:
        choice = " or ".join(f'hint("{function}", exercise="{each.exercise}")' for each in found)
        raise NoHint(f"Several exercises have a function {function}. Say which one you mean: {choice}.")
    (hints,) = found
    if number not in range(1, len(KINDS) + 1):
        raise NoHint(f"{function} has hints 1, 2 and 3, and no hint {number}.")
    return replace(hints, shown=number)


def _unknown(function: str, exercise: str) -> str:
    """The sentence about a name without hints, with those that may have been meant."""
    of_exercise = [each.function for each in all_hints() if each.exercise == (exercise or function).partition("_")[0]]
    if of_exercise and not exercise:
        return f"Hints belong to functions. Those of exercise {function} are {', '.join(of_exercise)}."
    names = of_exercise or [each.function for each in all_hints()]
    near = difflib.get_close_matches(function, dict.fromkeys(names), cutoff=_CLOSEST)
    where = f" in exercise {exercise}" if exercise else ""
    listed = " or ".join(filter(None, [", ".join(near[:-1]), *near[-1:]]))
    meant = f" Did you mean {listed}?" if near else " Graded functions of the exercises have hints."
    return f"There is no hint for {function!r}{where}.{meant}"


def _as_html(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text, quote=False))

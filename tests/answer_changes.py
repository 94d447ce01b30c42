"""Answers that stand as changes to another one, in a list beside it: tests/answers/ASSIGNMENT/FUNCTION/changes.diff.

    --- right_loop

    # wrong_average: averages instead of summing. Loses all marks.
    # Told: this is the average
     for src in range(1, comm.world_size):
    -    total += incoming
    +    total += incoming / comm.world_size
    @@
    -return total
    +return total.clone()

`---` names the answer that the following ones change: a whole file, right_loop.py. An answer is a paragraph. Its first
line is that of a whole file with the answer's name instead of "Wrong" or "Right"; the other lines that begin with # are
as there. Then come the changes, `@@` between them: lines marked - or by a space stand together in the file, once, and
lines marked + or by a space take their place. An empty line ends the answer; an empty line to add is a lone +.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

CHANGES = "changes.diff"
KINDS = {"right": "Right", "wrong": "Wrong"}


class ChangesError(ValueError):
    """A list of changes that cannot be read: where, what was expected and what came."""


@dataclass(frozen=True)
class Change:
    """An answer that stands as a change.

    Attributes:
        where: file and line of its first line, for errors.
        name: as a file with the whole answer would be called, "wrong_average".
        base: the answer that it changes.
        header: the lines above the program.
        places: the lines of each place that changes, each line with its mark.
    """

    where: str
    name: str
    base: str
    header: Sequence[str]
    places: Sequence[Sequence[str]]

    def text(self, whole: str) -> str:
        """The whole answer, made from the text of the one that it changes.

        Raises:
            ChangesError: a place does not occur there exactly once.
        """
        _, program = split_header(whole)
        for place in self.places:
            old = "".join(f"{line[1:]}\n" for line in place if line[0] in " -")
            new = "".join(f"{line[1:]}\n" for line in place if line[0] in " +")
            count = f"\n{program}".count(f"\n{old}") if old else 0
            if count != 1:
                raise ChangesError(
                    f"{self.where}: {self.name}: expected lines that {self.base} has exactly once, beginning at the "
                    f"same column; it has them {count} times:\n{old or '(lines with + only: which line is above?)'}"
                )
            before, _, after = f"\n{program}".partition(f"\n{old}")
            program = f"{before}\n{new}{after}".removeprefix("\n")
        return "".join(f"{line}\n" for line in self.header) + program


def read_changes(path: Path) -> dict[str, str]:
    """The whole text of each answer in a list of changes, by the answer's name; nothing if there is no list.

    Raises:
        ChangesError: a line that is none of those above, a name that is there twice, or a change that does not fit.
    """
    texts: dict[str, str] = {}
    for change in _changes(path) if path.is_file() else ():
        base = path.with_name(f"{change.base}.py")
        if change.name in texts or path.with_name(f"{change.name}.py").exists():
            raise ChangesError(f"{change.where}: {change.name} is there twice: one name, one answer")
        if not base.is_file():
            raise ChangesError(f"{change.where}: {change.name} is a change to {base.name}, which is not there")
        texts[change.name] = change.text(base.read_text(encoding="utf-8"))
    return texts


def split_header(text: str) -> tuple[list[str], str]:
    """The lines above an answer's program that begin with #, and the program."""
    lines = text.splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return [line.rstrip("\n") for line in lines[:end]], "".join(lines[end:])


def _changes(path: Path) -> Iterator[Change]:
    base = ""
    for number, paragraph in _paragraphs(path.read_text(encoding="utf-8")):
        where = f"{path}:{number}"
        if paragraph[0].startswith("--- "):
            base, *paragraph = paragraph[0].removeprefix("--- "), *paragraph[1:]
        if not paragraph:
            continue
        if not base:
            raise ChangesError(f"{where}: expected first the answer that is changed, as in: --- right_loop")
        yield _change(where, base, paragraph)


def _paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    numbered = enumerate(text.splitlines(), 1)
    for has_text, lines in groupby(numbered, key=lambda line: bool(line[1])):
        if has_text:
            paragraph = list(lines)
            yield paragraph[0][0], [line for _, line in paragraph]


def _change(where: str, base: str, paragraph: Sequence[str]) -> Change:
    header, changed = split_header("".join(f"{line}\n" for line in paragraph))
    name, _, description = header[0].removeprefix("# ").partition(": ") if header else ("", "", "")
    kind = KINDS.get(name.partition("_")[0])
    if not kind or not description:
        raise ChangesError(f"{where}: expected '# wrong_name: what is wrong. Loses all marks.', not {paragraph[0]!r}")
    lines = changed.splitlines()
    strange = [line for line in lines if line[0] not in " +-" and line != "@@"]
    if strange or not any(line[0] in "+-" for line in lines):
        found = repr(strange[0]) if strange else "none"
        raise ChangesError(f"{where}: {name}: expected lines marked by -, + or a space, or @@; found {found}")
    places = [list(group) for is_place, group in groupby(lines, key=lambda line: line != "@@") if is_place]
    return Change(where, name, base, [f"# {kind}: {description}", *header[1:]], places)

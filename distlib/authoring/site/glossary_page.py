"""The glossary: the words of lesson 00, and those of more_words.txt, each with the lesson that teaches it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_MORE_WORDS = Path(__file__).parent / "more_words.txt"
_GROUP = re.compile(r"^In (.*):\n\n((?:- .*\n(?:  .*\n)*)+)", re.MULTILINE)
_ENTRY = re.compile(r"^- \*\*(.+?)\*\*(.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((\w+)\.ipynb\)")
_HOME = "00_start_here"


@dataclass(frozen=True)
class Word:
    """A word of the course.

    Attributes:
        name: as it is written; a name in code with its backticks.
        lessons: the names of the lessons that teach it.
        meaning: a sentence or two, in Markdown.
    """

    name: str
    lessons: tuple[str, ...]
    meaning: str


def read_words(root: Path) -> list[Word]:
    """All words, in alphabetical order. root: the course's folder."""
    return sorted([*_prose_words(root), *_more_words()], key=lambda word: word.name.strip("`").lower())


def glossary_page(root: Path) -> str:
    """The page, in MyST's Markdown: in which each word has an address of its own."""
    entries = []
    for word in read_words(root):
        where = ", ".join(f"[lesson {name.partition('_')[0]}](course/{name}.ipynb)" for name in word.lessons)
        entries.append(f"{word.name}\n  {word.meaning} ({where})")
    top = "# Glossary\n\nThe words of the course, and the names that its code has for them. Each leads to its lesson.\n"
    return "\n\n".join([top + "\n```{glossary}", *entries, "```"]) + "\n"


def _prose_words(root: Path) -> list[Word]:
    """Those of the glossary that lesson 00 ends with."""
    source = (root / "course" / f"{_HOME}.py").read_text(encoding="utf-8")
    prose = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
    glossary = prose.split("\n## Glossary\n")[1].split("\n## ")[0]
    words = []
    for heading, entries in _GROUP.findall(glossary):
        lessons = tuple(_LINK.findall(heading)) or (_HOME,)
        for name, meaning in _ENTRY.findall(entries):
            words.append(Word(name, _that_use(root, name, lessons), _sentence(meaning)))
    return words


def _that_use(root: Path, name: str, lessons: tuple[str, ...]) -> tuple[str, ...]:
    """Where words of two lessons are listed together: the lessons that have this one."""
    return tuple(each for each in lessons if name in (root / "course" / f"{each}.py").read_text("utf-8").lower())


def _sentence(meaning: str) -> str:
    """ ": one process" becomes "One process"; a note in brackets behind the word stays in front."""
    text = " ".join(meaning.split())
    note, _, rest = text.partition(": ")
    note, rest = note.strip(), rest[:1].upper() + rest[1:]
    return f"{note} {rest}" if note else rest


def _more_words() -> list[Word]:
    """Those of more_words.txt: blocks of a line NAME, NAME  LESSON, and indented sentences."""
    words = []
    for block in _MORE_WORDS.read_text(encoding="utf-8").strip().split("\n\n"):
        head, *lines = block.splitlines()
        name, lesson = re.split(r"\s{2,}", head)
        words.append(Word(name, (lesson,), " ".join(line.strip() for line in lines)))
    return words

"""Whose a pseudonym is: who had it first has it for the whole course, also after leaving the board.

    classroom/pseudonyms.json    {"ada-lovelace": ["Night Owl"]}    who has had which; an instructor may edit it

Only who has something that counts is asked about: nobody keeps a pseudonym without playing. A pseudonym is refused that
belongs to somebody else, looks like one that does, or is the name of another student. If two students ask for a new one
at once, it goes to the one who is known to have handed in first; where that is not known, to nobody: an instructor
writes one of them into the file, or they choose again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from distlib.classroom.board.class_plays import StudentPlays
from distlib.games.pseudonyms import PseudonymError, check_pseudonym, pseudonym_key
from distlib.whole_file import write_file

Names = Mapping[str, Sequence[str]]
"""Of each student, the ways in which the name is written."""


def award(students: Sequence[StudentPlays], held: Names, names: Names) -> tuple[dict[str, str], dict[str, str]]:
    """Who appears under which pseudonym, and why others do not: both by student.

    Args:
        students: with what they ask for; "" for nothing.
        held: which pseudonyms each student has had.
        names: of all students of the class.
    """
    problems: dict[str, str] = {}
    claims: dict[str, list[tuple[StudentPlays, str]]] = defaultdict(list)
    holders = {pseudonym_key(name): student for student, had in held.items() for name in had}
    for each in students:
        if not each.pseudonym:
            continue
        try:
            name = check_pseudonym(each.pseudonym)
        except PseudonymError as error:
            problems[each.student] = str(error)
            continue
        if why := _why_not(each.student, name, holders, names):
            problems[each.student] = why
        else:
            claims[pseudonym_key(name)].append((each, name))
    awarded: dict[str, str] = {}
    for claimed in claims.values():
        first = _first(claimed)
        for each, name in claimed:
            if each is first:
                awarded[each.student] = name
            else:
                others = ", ".join(other.student for other, _ in claimed if other is not each)
                problems[each.student] = f"the pseudonym {name} is also asked for by {others}" + (
                    ", who was first" if first else "; nobody has it until one of them is in classroom/pseudonyms.json"
                )
    return awarded, problems


def _why_not(student: str, name: str, holders: Mapping[str, str], names: Names) -> str:
    key = pseudonym_key(name)
    if holders.get(key, student) != student:
        return f"the pseudonym {name} is that of {holders[key]}, who had it first"
    for other, ways in names.items():
        if other != student and key in {pseudonym_key(way) for way in (other, *ways)}:
            return f"the pseudonym {name} is the name of {other}"
    return ""


def _first(claimed: Sequence[tuple[StudentPlays, str]]) -> StudentPlays | None:
    """The only one, or the one who is known to have handed in before all others."""
    if len(claimed) == 1:
        return claimed[0][0]
    times = [each.time for each, _ in claimed]
    if None in times or times.count(min(time for time in times if time)) > 1:
        return None
    return min((each for each, _ in claimed), key=lambda each: (each.time, each.student))


def read_held(path: Path) -> dict[str, list[str]]:
    """The pseudonyms that each student has had.

    Raises:
        ValueError, OSError: the file can't be read, or holds something else.
    """
    if not path.exists():
        return {}
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        held = {str(student): [str(name) for name in had] for student, had in data.items()}
    except (ValueError, AttributeError, TypeError):
        raise ValueError('expected JSON such as {"ada-lovelace": ["Night Owl"]}') from None
    return held


def keep_held(path: Path, held: Names, awarded: Mapping[str, str]) -> None:
    """Keep who has which pseudonym, those of earlier boards included.

    Raises:
        OSError: the file can't be written.
    """
    kept = {student: list(had) for student, had in held.items()}
    for student, name in awarded.items():
        had = kept.setdefault(student, [])
        if name not in had:
            had.append(name)
    write_file(path, (json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode())

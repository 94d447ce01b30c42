"""Names: a student's as a folder can have it, and that of a file to upload, which the collector reads again.

02_all_reduce--ada-lovelace.ipynb
└ exercise ─┘  └─ student ─┘
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

_MOST_BYTES = 120  # of a name; a file's name may have 255
_UPLOAD = re.compile(r"(?P<assignment>.+?)--(?P<student>.+)")
_COPY = re.compile(r" ?\((\d+)\)$")  # of a browser that has saved a name twice


def student_name(text: str) -> str:
    """A name that is safe as a folder, in a shell and in a pattern: "Ada Lovelace" becomes "ada-lovelace".

    Letters and digits of every script stay. Where other signs were replaced, or the name was cut, four digits made of
    the whole name follow, so that two names never become one.

    Args:
        text: as a student or a learning platform writes it; "" and signs of any kind are allowed.
    """
    plain = unicodedata.normalize("NFC", text).lower()
    kept = "".join(sign if unicodedata.category(sign)[0] in "LMN" or sign == "@" else _dash(sign) for sign in plain)
    kept = re.sub("-+", "-", kept).strip("-")
    name = kept.encode()[:_MOST_BYTES].decode(errors="ignore") if "�" not in kept else ""
    if name == kept and name:
        return name
    digits = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:4]
    name = kept.replace("�", "-").encode()[: _MOST_BYTES - 5].decode(errors="ignore")
    return f"{re.sub('-+', '-', name).strip('-') or 'student'}-{digits}"


def _dash(sign: str) -> str:
    """A dash for what separates words, a mark for what is not part of names."""
    return "-" if sign in " .,_-'’\u00a0" else "�"


def key_of(text: str) -> str:
    """What is the same for two ways of writing a name: "Ada Lovelace", "ada-lovelace", "adalovelace"."""
    return student_name(text).replace("-", "")


def upload_name(assignment: str, student: str) -> str:
    """The name of the file to upload."""
    return f"{assignment}--{student_name(student)}.ipynb"


def read_upload_name(stem: str) -> tuple[str, str] | None:
    """The exercise and the student that a file's name, without its ending, speaks of; None for other names."""
    found = _UPLOAD.fullmatch(without_copy(stem)[0])
    return (found["assignment"], found["student"]) if found else None


def without_copy(stem: str) -> tuple[str, int]:
    """A file's name without the number that a browser adds, "work (2)", and that number, 0 without one."""
    found = _COPY.search(stem)
    return (stem[: found.start()], int(found[1][:9])) if found else (stem, 0)


def full_name(name: str, known: Iterable[str]) -> str:
    """The exercise that "2", "02" or "02_all" stands for among those that are known; the name itself if unclear.

    "2" stands for 02_all_reduce although there is a 02b_rings.
    """
    names, begin = set(known), name.zfill(2) if name.isdecimal() else name
    found = [other for other in names if begin and other.startswith(begin)]
    found = [other for other in found if other.startswith(f"{begin}_")] or found
    return found[0] if name not in names and len(found) == 1 else name


def lesson_alone(name: str, folders: Iterable[Path]) -> str:
    """For "00", which is no exercise: "lesson 00_start_here has no exercise"; "" if it is no lesson either.

    folders: where to look for course/.
    """
    lessons = {path.stem for folder in folders for path in folder.glob("course/[0-9]*.ipynb")}
    lesson = full_name(name, lessons)
    return f"lesson {lesson} has no exercise" if lesson in lessons else ""

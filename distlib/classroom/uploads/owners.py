"""Whose upload it is, as names of files and folders say. A name that the learning platform gave counts before any name
that a student can choose.

    Moodle   Ada Lovelace_1204_assignsubmission_file/work.ipynb     a folder per student; or the same in front of a file
             Section 3-Ada Lovelace_1204_assignsubmission_file/…    of a group
    Canvas   lovelaceada_LATE_1204_77_work.ipynb                    a file per student: name, user, upload
    ours     02_all_reduce--ada-lovelace.ipynb                      from `distlib hand-in`
    others   ada/work.ipynb, ada.ipynb                              a folder or a file named after the student

Canvas's number is the student's, in every exercise. Moodle's is that of one student in one exercise. Which student of
the class somebody with such a name is, `identities` finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from distlib.classroom.uploads.files import Upload, stem_of
from distlib.classroom.uploads.upload_names import read_upload_name, without_copy

MOODLE, CANVAS = "Moodle", "Canvas"
_MOODLE = re.compile(r"_(?P<number>\d+)_assignsubmission_[a-z]+(?=_|$)")
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<number>\d+)_(?P<upload>\d+)_.+", re.DOTALL)
_CANVAS_NUMBER = re.compile(r"(?=_(?:LATE_)?(\d+)_\d+_.)", re.DOTALL)


@dataclass(frozen=True)
class Owner:
    """Somebody, as a name of a file or folder says.

    Attributes:
        name: as it is written there.
        number: that the learning platform has added, "" without one.
        upload: a number that grows with each upload, 0 without one.
        platform: which one has given the name, "" for none.
        is_late: whether the platform says that it was handed in late.
        other: how else the name can be read: a student may have chosen it such that it seems to be somebody else's.
        other_numbers: what else in it may be Canvas's number. In front of that stands a name that a student may choose,
            behind it that of the file; both may have numbers.
        within: the folder around it that was taken for no student's; "" for none.
        is_claim: whether it is called as a platform would call it, among files that no platform has given a name.
    """

    name: str
    number: str = ""
    upload: int = 0
    platform: str = ""
    is_late: bool = False
    other: str = ""
    other_numbers: tuple[str, ...] = ()
    within: str = ""
    is_claim: bool = False

    @property
    def source(self) -> tuple[str, str]:
        """What is the same for uploads of one person: platform and number; both "" where no platform says it."""
        return ("", "") if self.is_claim else (self.platform, self.number)


def owners(
    uploads: Sequence[Upload],
    assignment: str,
    zip_name: str = "",
    is_student: Callable[[str], bool] = lambda name: False,
) -> list[Owner | None]:
    """The owner of each upload of one folder or zip file; None where no name says it.

    Args:
        uploads: all that the folder or zip file holds.
        assignment: such as "02_all_reduce".
        zip_name: of the zip file, without its ending; "" for a folder.
        is_student: whether somebody of the class is known by a name. What lies in such a folder is that student's.
    """
    paths = [upload.parts for upload in uploads]
    if zip_name and is_student(zip_name):
        return [Owner(zip_name) for _ in paths]
    within = ""
    while _is_wrapped(paths, assignment, is_student):
        within = "" if paths[0][0] == zip_name else paths[0][0]  # a folder that was made a zip file is in one
        paths = [path[1:] for path in paths]
    found = [_owner(path, assignment) for path in paths]
    is_mixed = any(upload.copy and not (owner and owner.platform) for upload, owner in zip(uploads, found, strict=True))
    return [
        replace(owner, within=within, is_claim=bool(owner.platform) and is_mixed) if owner else None for owner in found
    ]


def _owner(path: Sequence[str], assignment: str) -> Owner | None:
    first = stem_of(path[0])
    if platform := _of_platform(path[0]):
        return platform
    if claimed := read_upload_name(first):
        return Owner(claimed[1])
    stem = without_copy(first)[0]
    return Owner(stem) if stem != assignment else None


def _of_platform(name: str) -> Owner | None:
    """The owner in a name of a platform's. Of several readings that with the longest name, the first other with it."""
    found = list(_readings(name))
    if not found:
        return None
    return replace(found[0], other=found[-1].name) if len(found) > 1 else found[0]


def _readings(name: str) -> Iterator[Owner]:
    for each in reversed([*_MOODLE.finditer(name)]):
        if each.start():
            yield Owner(name[: each.start()], each["number"], platform=MOODLE)
    if found := _CANVAS.fullmatch(name):
        numbers = dict.fromkeys(each[1] for each in _CANVAS_NUMBER.finditer(name))
        others = tuple(number for number in numbers if number != found["number"])
        upload, is_late = int(found["upload"][:18]), bool(found["late"])
        yield Owner(found["name"], found["number"], upload, CANVAS, is_late, other_numbers=others)


def _is_wrapped(paths: Sequence[Sequence[str]], assignment: str, is_student: Callable[[str], bool]) -> bool:
    """Whether all lie in one folder that is not a student's: then what stands for students is inside of it."""
    if len({path[0] for path in paths}) != 1 or any(len(path) == 1 for path in paths):
        return False
    if _of_platform(paths[0][0]) or read_upload_name(paths[0][0]) or is_student(paths[0][0]):
        return False
    inside = {path[1] for path in paths}
    named = [name for name in inside if _of_platform(name) or read_upload_name(stem_of(name))]
    return bool(named) or (len(inside) > 1 and all(_owner([name], assignment) for name in inside))

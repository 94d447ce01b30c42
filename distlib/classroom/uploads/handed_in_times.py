"""When each upload was handed in: as its file says, or as a table says.

    id,time                                        written by hand, or from a program
    s1001,2026-11-02 21:50 UTC

    Identifier,…,Email address,…,Last modified (submission)      Moodle's grading worksheet
    user_id,…,submitted_at                                       Canvas

A table says, too, whose a number of Moodle is: that number is new in each exercise, and two students of one name differ
by nothing else. Files all of one time were packed then, and say nothing about when they were handed in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from distlib.classroom.grader.handed_in_time import OddTime, implausible, quoted, time_in_zone
from distlib.classroom.register.roster import Roster
from distlib.classroom.register.table_file import TableError, table_rows
from distlib.classroom.uploads.files import Upload
from distlib.classroom.uploads.upload_names import student_name

_TIME = ("time", "last_modified_(submission)", "submitted_at", "submission_time", "submission_date")
_IDS = ("id", "student_id", "id_number", "username", "sis_login_id", "login_id", "login", "sis_user_id", "sis_id")
_NUMBERS = ("user_id", "lms_user_id", "canvas_user_id", "canvas_id", "id")
_NAMES = ("email", "email_address", "full_name", "name", "student", "student_name", "user_name")
_PARTICIPANT = re.compile(r"\D*(\d+)")
_NOTHING = {"", "-", "–"}


@dataclass(frozen=True)
class TimesTable:
    """What a table says.

    Attributes:
        times: as they are written, by student.
        numbers: students by the number that Moodle gives them in this exercise.
        strangers: rows with a time that are nobody's, as text.
    """

    times: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    strangers: Sequence[str] = ()


def read_times(path: Path, roster: Roster) -> TimesTable:
    """Read a table of times.

    Raises:
        OSError, TableError: it can't be used.
    """
    rows = table_rows(path)
    heads = [*rows[0]] if rows else []
    column = next((name for name in _TIME if name in heads), "")
    if not column or not {*_IDS, *_NUMBERS, *_NAMES} & {*heads}:
        raise TableError(
            "it needs a column time and one that says whose: id, email or user_id; or it is Moodle's grading "
            f"worksheet. It has {', '.join(heads) or 'nothing'}"
        )
    named = [(_whose(row, roster), row) for row in rows]
    once = {student for student, number in Counter(student for student, _ in named).items() if student and number == 1}
    participants = [(_PARTICIPANT.fullmatch(row.get("identifier", "")), student) for student, row in named]
    return TimesTable(
        {student: row[column] for student, row in named if student in once and _has(row, column)},
        {found[1]: student for found, student in participants if found and student in once and roster.is_closed},
        [" ".join(filter(None, row.values())) for student, row in named if student not in once and _has(row, column)],
    )


def _has(row: Mapping[str, str], column: str) -> bool:
    """Whether a row has a time."""
    return row[column] not in _NOTHING


def _whose(row: Mapping[str, str], roster: Roster) -> str:
    """The one student whom a row names; "" if there is none, or if it is not clear."""
    if not roster.is_closed:
        return next((student_name(row[name]) for name in (*_IDS, *_NAMES) if row.get(name)), "")
    named = {name: roster.named(row[name]) for name in (*_IDS, *_NAMES) if row.get(name)}
    numbered = [roster.numbered(row[name]) for name in _NUMBERS if row.get(name) and not named.get(name)]
    found = [*named.values(), *numbered]
    clear = [students for students in found if len(students) == 1]
    agreed = set.intersection(*clear) if clear else set()
    return next(iter(agreed), "")


class HandedInTimes:
    """Tells when something was handed in.

    Args:
        zone: the time zone of times without one; None if files say nothing.
        table: instead of the times of files.
        alike: a sentence if the times of files are all alike, and not believed.
    """

    def __init__(self, zone: ZoneInfo | None, table: TimesTable | None = None, alike: str = "") -> None:
        self._zone, self._table, self.alike = zone, table, alike

    def of(self, upload: Upload, student: str) -> tuple[datetime | None, str]:
        """In UTC and without a time zone, as nbgrader has it; None if it is not known, and why, if it should be."""
        if self._table:
            return self._in_table(self._table, student)
        if self._zone is None:
            return None, ""
        if self.alike:
            return None, self.alike
        if upload.time is None:
            return None, "the uploads have none for it"
        time = upload.time.replace(tzinfo=self._zone).astimezone(UTC).replace(tzinfo=None)
        why = implausible(time)
        return (None, f"the one in the uploads, {upload.time:%Y-%m-%d %H:%M}, {why}") if why else (time, "")

    def _in_table(self, table: TimesTable, student: str) -> tuple[datetime | None, str]:
        text = table.times.get(student, "")
        if not text:
            return None, "the table has none for it"
        try:
            return time_in_zone(text, self._zone), ""
        except OddTime as error:
            return None, f"the one in the table, {quoted(text)!r}, {error}"


def alike(times: Sequence[datetime]) -> str:
    """Why times of several students' files are not believed: they lie together as if one program had written them."""
    span = timedelta(seconds=max(60, len(times)))
    if len(times) < 2 or max(times) - min(times) > span:
        return ""
    return f"all {len(times)} uploads have the same one, {min(times):%Y-%m-%d %H:%M}, when they were packed, it seems"


def without_zone(table: TimesTable) -> str:
    """Why the times of a table can't be used without a time zone being given; "" if they can."""
    odd = []
    for text in table.times.values():
        try:
            time_in_zone(text, None)
        except OddTime as error:
            odd += [quoted(text)] if "names no time zone" in str(error) else []
    return f"its times, such as {odd[0]!r}, name no time zone: add --times-in Europe/Berlin" if odd else ""

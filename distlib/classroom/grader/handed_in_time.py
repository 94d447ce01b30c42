"""When something was handed in, as a file says it: believed only if it can be read in one way, and can be true.

03.11.2026 is 3 November for one reader and 11 March for another one; 1980-01-01 is what zip files say of a file whose
time nobody knows. A wrong time costs a student points, or saves them. So such a time is not used, and that is said.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil.parser import parse  # type: ignore[import-untyped]

from distlib.printable import printable

FIRST = datetime(2024, 1, 1)  # before this nobody had the course
_SLACK = timedelta(days=1)  # a clock or a time zone may be wrong
_YEAR_FIRST = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)")
_WEEKDAY = re.compile(r"^[^\W\d]+, ")  # in front of Moodle's times, in any language
_MOST_SHOWN = 40  # characters
EXAMPLE = "2026-11-02 21:50 UTC"
_NO_TIME = datetime(1980, 1, 1)  # in zip files, whatever the time zone


class OddTime(ValueError):
    """A time that can't be used. The message goes on after "it": "may be 3 November or 11 March 2026"."""


def utc_of(text: str) -> datetime:
    """The time that a text such as "2026-11-02 21:50 UTC" stands for, in UTC and without a time zone.

    Without a time zone in the text it is taken as UTC, as nbgrader does.

    Raises:
        OddTime: it can't be read, or in several ways, or it can't be true.
    """
    time = any_time(text)
    if why := implausible(time):
        raise OddTime(why)
    return time


def any_time(text: str) -> datetime:
    """The same for a time that may be in the future, such as a due date.

    Raises:
        OddTime: it can't be read, or in several ways.
    """
    try:
        return _utc(*_only_reading(text.strip()))
    except (ValueError, OverflowError, TypeError) as error:
        raise error if isinstance(error, OddTime) else OddTime("can't be read as a time") from None


def time_in_zone(text: str, zone: ZoneInfo | None) -> datetime:
    """As `utc_of`, for a text of another program: without a time zone in it, it is in `zone`, and not in UTC.

    Raises:
        OddTime: it can't be read, or in several ways, or it can't be true; or neither text nor `zone` says which zone.
    """
    try:
        time, named = _only_reading(_WEEKDAY.sub("", text.strip()))
        if not named and not time.tzinfo:
            if zone is None:
                raise OddTime("names no time zone")
            time = time.replace(tzinfo=zone)
        time = _utc(time, named)
    except (ValueError, OverflowError, TypeError) as error:
        raise error if isinstance(error, OddTime) else OddTime("can't be read as a time") from None
    if why := implausible(time):
        raise OddTime(why)
    return time


def implausible(time: datetime, now: datetime | None = None) -> str:
    """Why nothing can have been handed in at a time (UTC, without a zone): "is in the future"; "" if it can."""
    now = now or datetime.now(UTC).replace(tzinfo=None)
    if abs(time - _NO_TIME) <= _SLACK:
        return "is what zip files say of a file whose time is not known"
    if time < FIRST:
        return f"is before this course existed ({FIRST:%Y})"
    return "is in the future" if time > now + _SLACK else ""


def quoted(text: str) -> str:
    """The text of a file in a message."""
    return printable(text.strip()[:_MOST_SHOWN])


def names_zone(text: str) -> bool:
    """Whether a time that `utc_of` can read says in which time zone it is."""
    time, zone = _only_reading(text.strip())
    return bool(zone or time.tzinfo)


def advice(file: str) -> str:
    """What to do where no time is known. file: the one to write."""
    return f"if you know it, write it into {file}, such as {EXAMPLE}"


def _only_reading(text: str) -> tuple[datetime, str]:
    """The time in a text, and what stands for its zone."""
    zone = ""
    if found := re.fullmatch(r"(.*\d) (?![AaPp][Mm]$)([A-Za-z][\w/+-]*)", text):
        text, zone = found[1], found[2]
    orders = [False] if _YEAR_FIRST.match(text) else [False, True]
    first, *others = (
        parse(text, dayfirst=order, default=default)
        for order in orders
        for default in (datetime(2000, 1, 1), datetime(2004, 2, 2))
    )
    if not re.search(r"(?<!\d)\d{4}(?!\d)", text):
        raise OddTime("has no year with four digits")
    if any(other != first for other in others):
        days = dict.fromkeys(f"{each.day} {each:%B %Y}" for each in sorted((first, *others[1::2])))
        raise OddTime(f"may be {' or '.join(days)}" if len(days) > 1 else "does not name a day")
    if not re.search(r"\d[:T.h]\d\d", text[8:]):
        raise OddTime("has no time of day")
    return first, zone


def _utc(time: datetime, zone: str) -> datetime:
    try:
        known = ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        raise OddTime(f"names a time zone that is not known, {zone}") from None
    aware = time if time.tzinfo else time.replace(tzinfo=known)
    return aware.astimezone(UTC).replace(tzinfo=None)

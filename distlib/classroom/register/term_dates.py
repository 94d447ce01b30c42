"""What students know of due dates: a file in their course, from `distlib release`, or next to the exchange of a server.

    {"version": 1, "due": {"02_all_reduce": "2030-11-02T22:59:00+00:00"}, "late": {"per_day": 0.1, …}}

Extensions of single students do not stand in it: everybody can read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from distlib.classroom.register.late_rule import LateRule, percent
from distlib.classroom.words import count, points
from distlib.whole_file import write_file

DUE_DATES = "due_dates.json"  # in the course's folder
PLACE = "DISTLIB_DUE_DATES"  # the environment variable with another path, on the server of a class
_VERSION = 1


@dataclass(frozen=True)
class TermDates:
    """When exercises are due, and what being late costs.

    Attributes:
        due: with a time zone, by exercise.
        late: None where being late costs no points, or where nobody knows what.
    """

    due: Mapping[str, datetime] = field(default_factory=dict)
    late: LateRule | None = None


def text_of(dates: TermDates) -> str:
    """Write due dates and rule as the text of that file."""
    due = {name: date.isoformat() for name, date in sorted(dates.due.items())}
    late = asdict(dates.late) if dates.late else None
    return json.dumps({"version": _VERSION, "due": due, "late": late}, indent=1) + "\n"


def term_dates(course: Path) -> TermDates:
    """What a student's course, or the server of the class, says; nothing where no file can be read.

    Args:
        course: the course's folder.
    """
    try:
        values = json.loads(_path(course).read_text(encoding="utf-8"))
        due = {str(name): datetime.fromisoformat(date) for name, date in values["due"].items()}
        late = LateRule(**values["late"]) if values["late"] else None
        return TermDates({name: date for name, date in due.items() if date.tzinfo}, late)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return TermDates()


def publish_dates(dates: TermDates) -> None:
    """Let the students of a server know. Elsewhere they get to know by the next `distlib release`.

    Raises:
        OSError: the file can't be written.
    """
    if path := os.environ.get(PLACE):
        write_file(Path(path), text_of(dates).encode())
        Path(path).chmod(0o644)


def _path(course: Path) -> Path:
    return Path(os.environ.get(PLACE) or course / DUE_DATES)


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def due_in_words(dates: TermDates, exercise: str, time: datetime, full: float = 0.0) -> str:
    """What a due date means for what is handed in at a time; "" without one.

    Args:
        dates: of the term.
        exercise: such as "02_all_reduce".
        time: of handing in, with a time zone.
        full: the points that can be had; 0 where they are not known.
    """
    due = dates.due.get(exercise)
    if due is None:
        return ""
    when = f"{due.astimezone():%Y-%m-%d %H:%M %Z}"
    if time <= due:
        return f"{when}, {about(due - time)} after this"
    return f"{when}, {about(time - due)} before this: {_cost(dates.late, (time - due).total_seconds(), full)}"


def _cost(rule: LateRule | None, seconds: float, full: float) -> str:
    if rule is None:
        return "late"
    days = rule.days(seconds)
    if not days:
        return "late, and within the time that costs nothing"
    share = rule.share_lost(days)
    most = f", at most {points(share * full)} of {points(full)}" if full else ""
    slip = f" {count(rule.slip_days, 'slip day')} in the term count first." if rule.slip_days else ""
    return f"late, which costs {percent(share)} of your points{most}, unless you have more time.{slip}"


def about(time: timedelta) -> str:
    """ "3 days", "2 h", "5 min": the largest unit that fits."""
    minutes = int(time.total_seconds() // 60)
    if minutes >= 2 * 24 * 60:
        return count(minutes // (24 * 60), "day")
    return f"{minutes // 60} h" if minutes >= 120 else f"{minutes} min"

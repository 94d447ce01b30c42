"""What a student keeps of handing in: when, which bytes, and what was answered in them. It proves nothing alone; with
the file whose SHA-256 it names it shows what was handed in.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from distlib.classroom.pages import render
from distlib.classroom.uploads.answers import ANSWERED, Answer

_WIDTH = 10  # of the first column


@dataclass(frozen=True)
class Receipt:
    """Shows itself as text, and in a notebook with a link to the file.

    Attributes:
        assignment: such as "02_all_reduce".
        time: of handing in, with a time zone.
        notebook: the student's notebook.
        saved: when that was saved, with a time zone.
        sha256: of its bytes.
        answers: which functions are answered.
        file: what is to be uploaded; None if it was submitted to an exchange.
        course: of the exchange.
        remarks: sentences.
        looked: what was looked at besides, by a word for each line: given cells, the last check, Python.
        due: when it is due, and what that means for this hand-in; "" if nobody knows.
        same: when the notebook was saved that is the same as what was handed in before: then nothing new was handed in,
            and the receipt is about that time. None for something new.
    """

    assignment: str
    time: datetime
    notebook: Path
    saved: datetime
    sha256: str
    answers: Sequence[Answer]
    file: Path | None
    course: str = ""
    remarks: Sequence[str] = ()
    same: datetime | None = None
    due: str = ""
    looked: Sequence[tuple[str, str]] = ()

    @property
    def is_new(self) -> bool:
        """Whether something was handed in now."""
        return self.same is None

    @property
    def headline(self) -> str:
        """What has happened, and what is still to be done."""
        if self.same is not None:
            now = datetime.now(UTC)
            saved = f"The saved notebook ({clock(self.same, now)}) is what you"
            rest = "Anything changed since is not saved. Nothing new was"
            if self.file is None:
                handed = f"{saved} handed in at {clock(self.time, now)}. {rest} handed in."
                return f"{handed} It is in the exchange of the course {self.course}."
            made = f"{saved} made a file of at {clock(self.time, now)}. {rest} made."
            return f"{made} If you have not uploaded it yet, this is the file:"
        if self.file is None:
            return f"{self.assignment} is handed in, to the exchange of the course {self.course}."
        return f"{self.assignment} is ready. Upload this file where your course collects it; only then it is handed in:"

    def rows(self) -> list[tuple[str, str]]:
        """What it says, by a word for each line."""
        time = f"{self.time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, here {self.time.astimezone():%H:%M:%S %Z}"
        saved = ago(self.saved, self.time) if self.is_new else f"at {moment(self.saved)}"
        answered = [answer.function for answer in self.answers if answer.state == ANSWERED]
        others = [(answer.function, answer.state) for answer in self.answers if answer.state != ANSWERED]
        return [
            ("time", time),
            *([("due", self.due)] if self.due else []),
            ("notebook", f"{_shown(self.notebook)}, saved {saved}"),
            ("SHA-256", self.sha256),
            ("answered", f"{', '.join(answered) or 'none'} ({len(answered)} of {len(self.answers)})"),
            *self.looked,
            *(("look at", f"{function}: {state}") for function, state in others),
            *(("remark", remark) for remark in self.remarks),
        ]

    def __str__(self) -> str:
        file = [f"\n    {_shown(self.file)}\n"] if self.file else [""]
        return "\n".join([self.headline, *file, *(f"{word:<{_WIDTH}}{text}" for word, text in self.rows())])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        address = Path(os.path.relpath(self.file)).as_posix() if self.file else ""
        return render("receipt.html", receipt=self, address=address)


def moment(time: datetime) -> str:
    """A time as a student reads it: "21:47:02 on 2030-11-02"."""
    return f"{time.astimezone():%H:%M:%S on %Y-%m-%d}"


def clock(time: datetime, now: datetime) -> str:
    """A time of day; with its date if that is not today's."""
    is_today = time.astimezone().date() == now.astimezone().date()
    return f"{time.astimezone():%H:%M:%S}" if is_today else moment(time)


def ago(moment: datetime, now: datetime) -> str:
    """How long before now something was, and when: "3 minutes ago, at 21:47:02"."""
    seconds = max(0, int((now - moment).total_seconds()))
    amounts = [(seconds // size, word) for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute"))]
    number, word = next(((number, word) for number, word in amounts if number), (seconds, "second"))
    day = "" if now.astimezone().date() == moment.astimezone().date() else f"on {moment.astimezone():%Y-%m-%d} "
    return f"{number} {word}{'' if number == 1 else 's'} ago, {day}at {moment.astimezone():%H:%M:%S}"


def _shown(path: Path) -> str:
    """A path from the current folder, where it is inside."""
    folder = Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)

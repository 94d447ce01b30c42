"""`distlib collect`: what students have uploaded, into the folder that is graded."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from distlib.checks.formatting import count
from distlib.classroom.grader.course import CourseError, course_above, open_course
from distlib.classroom.uploads.collect import COLLECTED, LEFT_OUT, PROBLEM, UNCHANGED, UploadOutcome, collect
from distlib.cli.saying import say
from distlib.games.handed_plays import ASSIGNMENT as GAMES
from distlib.printable import printable


def collect_uploads(options: argparse.Namespace) -> int:
    """Collect, and print what became of each file. Returns 0; 1 if a file should be looked at.

    options: assignment, uploads, times_in, times, believe_times, course; see `distlib collect --help`.
    """
    try:
        course = open_course(options.course or course_above(Path.cwd()))
        assignment = course.full_name(options.assignment)
        if assignment != GAMES:
            course.source(assignment)  # an assignment that does not exist is named
        zone = _zone(options.times_in)
        done = collect(
            course,
            assignment,
            options.uploads,
            time_zone=zone,
            table=options.times,
            believe_times=options.believe_times,
        )
    except (CourseError, ValueError, OSError) as error:
        say(printable(str(error)), sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("\nStopped. The same command goes on from here.", sys.stderr)
        return 130
    outcomes = done.outcomes
    say("\n".join(filter(None, [f"{_table(outcomes)}\n\n{_summary(outcomes)}", printable(done.question)])))
    if any(outcome.state in (COLLECTED, UNCHANGED) for outcome in outcomes):
        say("Next: distlib board" if assignment == GAMES else f"Next: distlib grade {assignment}")
    return 1 if done.question or any(outcome.state == PROBLEM for outcome in outcomes) else 0


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"there is no time zone {name!r}; one is Europe/Berlin") from None


def _table(outcomes: Sequence[UploadOutcome]) -> str:
    """A line for each file, those to look at last."""
    ordered = sorted(outcomes, key=lambda outcome: (outcome.state == PROBLEM, outcome.student, outcome.file))
    width = max((len(printable(outcome.student)) for outcome in outcomes), default=0)
    return "\n".join(
        f"{printable(outcome.student) or '?':<{width}}  {outcome.state:<13}  {printable(outcome.file)}"
        + (f"\n{'':<{width}}    {printable(outcome.why)}" if outcome.why else "")
        for outcome in ordered
    )


def _summary(outcomes: Sequence[UploadOutcome]) -> str:
    if not outcomes:
        return "There is no file."
    found = Counter(outcome.state for outcome in outcomes)
    states = (state for state in (COLLECTED, UNCHANGED, LEFT_OUT, PROBLEM) if found[state])
    summary = f"{count(len(outcomes), 'file')}: {', '.join(f'{found[state]} {state}' for state in states)}."
    timeless, late = sum(each.has_no_time for each in outcomes), sum(each.is_late for each in outcomes)
    summary += f" Of {timeless} no time of handing in is known." * bool(timeless)
    return summary + f" Of {late} a platform says that it is late, and not how late: --times TABLE says when." * bool(
        late
    )

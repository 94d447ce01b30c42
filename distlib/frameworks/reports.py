"""What is reported of each process; if it went wrong, one short message that begins with the student's own line."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distlib.trace import CallSite
from distlib.worlds.diagnosis import source_excerpt

_CAUSES: dict[int, str] = {
    signal.SIGABRT: "a library gave up",
    signal.SIGKILL: "by hand, or because the machine ran out of memory",
    signal.SIGSEGV: "a library crashed",
}
_SHORT = 3  # lines of a message that is shown as it is


@dataclass
class Outcome:
    """What became of one process.

    Attributes:
        value: what its function returned; None if it did not return.
        exit_status: its exit code, or minus the signal that ended it.
        lines: what it printed, in order, without the ends of the lines.
        error: what went wrong; None if nothing did, or if it was ended on purpose.
        seconds: from the start of the demonstration to its end.
        peak_bytes: the most memory that it used.
    """

    value: Any = None
    exit_status: int | None = None
    lines: list[str] = field(default_factory=list)
    error: ProcessError | None = None
    seconds: float = 0.0
    peak_bytes: int = 0


class ProcessError(Exception):
    """A process of a demonstration raised an exception, or did not do what it was to do.

    Attributes:
        name: the process.
        kind: the name of the exception's class, such as "ValueError"; "" if it was not an exception.
        site: the student's line it is about, or None.
        stack: every frame, as text.
        outcomes: of all processes, up to there; empty until `run_processes` raises the error.
    """

    def __init__(self, name: str, message: str, kind: str = "", site: CallSite | None = None, stack: str = "") -> None:
        super().__init__(message)
        self.name, self.kind, self.site, self.stack = name, kind, site, stack
        self.outcomes: Mapping[str, Outcome] = {}

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the frames of the framework: the message and the student's lines."""
        shown = [f"{type(self).__name__}: {self}"]
        if self.site is not None:
            shown += ["", *source_excerpt(self.site)]
        if self.stack:
            shown += ["", "The whole stack: import sys; print(sys.last_value.stack)"]
        return shown


class ProcessDied(ProcessError):
    """A process ended without returning: a signal, an abort inside a library, sys.exit."""


class ProcessTimeout(ProcessError):
    """A process had not finished when the time was up."""


def raised(name: str, kind: str, message: str, site: CallSite | None, stack: str) -> ProcessError:
    """The error of a process that raised an exception."""
    where = f"{site.place}: " if site else ""
    told = f": {gist(message)}" if message else ""
    return ProcessError(name, f"{where}{name} raised {kind}{told}", kind, site, stack)


def gist(message: str) -> str:
    """The line of a long message that says what went wrong.

    TensorFlow's begin with "Graph execution error" and the lines that built the graph, and come to the point after.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) <= _SHORT:
        return message.strip()
    after_files = max((number for number, line in enumerate(lines, 1) if line.startswith('File "')), default=0)
    return f"{lines[after_files % len(lines)]} […]"


def died(name: str, status: int, last_line: str) -> ProcessDied:
    """The error of a process that ended without returning. status: its exit code, or minus the signal."""
    how = f"exited with code {status}"
    if status < 0:
        cause = _CAUSES.get(-status)
        how = f"was killed by signal {-status}{f' ({cause})' if cause else ''}"
    return ProcessDied(name, f"{name} {how} before its function returned. {_last_words(last_line)}")


def late(name: str, seconds: float, site: CallSite | None, last_line: str) -> ProcessTimeout:
    """The error of a process that had to be ended after `seconds`."""
    where = f" It was at {site.place}." if site else ""
    text = f"{name} had not finished after {seconds:g} s and was ended.{where} {_last_words(last_line)}"
    return ProcessTimeout(name, text, site=site)


def together(errors: Sequence[ProcessError]) -> ProcessError:
    """One error with the messages of all; what else it has is the first one's."""
    first = errors[0]
    message = " ".join(str(error) for error in errors)
    return type(first)(first.name, message, first.kind, first.site, first.stack)


def never_printed(name: str, speaker: str, text: str) -> ProcessError:
    """The error of a process that was to be killed when a line was printed that never came."""
    return ProcessError(name, f"{name} was to be killed when {speaker} printed {text!r}, and that was never printed")


def _last_words(line: str) -> str:
    return f"The last that it printed: {line}" if line else "It had printed nothing."

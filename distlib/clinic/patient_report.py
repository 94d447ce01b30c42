"""What became of a patient, rank by rank, in the words that torch printed."""

from __future__ import annotations

import re
import signal
import textwrap
from dataclasses import dataclass, field

from distlib.clinic.patient import CRASHES, HANGS, SILENT

WAITS, ENDED, RAISED, DIED = "waits", "ended", "raised", "died"
_WIDTH = 106  # characters of a line that a notebook shows in a window of 1280 pixels
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')  # innermost first
_PASS_ON = ("wrapper", "<module>", "_wrapped_call_impl", "_call_impl")  # functions that say nothing


@dataclass(frozen=True)
class RankEnding:
    """How one rank of a patient ended.

    Attributes:
        rank: which process.
        kind: WAITS: it would wait forever; ENDED: with status 0; RAISED: an exception, status 1; DIED: by a signal.
        how: the same, in words, with the line where it waits.
        lines: what it printed, folded.
        seen: what a tool has seen of it from outside.
    """

    rank: int
    kind: str
    how: str
    lines: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it on one line."""
        return " ".join([self.how, *self.lines, *self.seen])

    def __str__(self) -> str:
        shown = _wrapped(f"rank {self.rank}  {self.how}", _WIDTH)
        for mark, lines in (("    │ ", self.lines), ("    ┊ ", self.seen)):
            for line in lines:
                shown += [mark + part for part in _wrapped(line, _WIDTH - len(mark))]
        return "\n".join(shown)


@dataclass
class PatientReport:
    """What became of a patient; printed, it shows all ranks.

    Attributes:
        name: the patient.
        tool: what was used, None for nothing.
        torch: its version.
        endings: by rank.
        recorded: what was seen with the version in which the course was written, if that is a different one.
        change: what the tool has changed in the program, as lines marked + and -.
    """

    name: str
    tool: str | None
    torch: str
    endings: list[RankEnding]
    recorded: str = ""
    change: str = ""

    @property
    def outcome(self) -> str:
        """HANGS, CRASHES or SILENT, as in `Patient`."""
        kinds = {ending.kind for ending in self.endings}
        return HANGS if WAITS in kinds else CRASHES if kinds & {RAISED, DIED} else SILENT

    @property
    def kinds(self) -> list[str]:
        """How each rank ended."""
        return [ending.kind for ending in self.endings]

    @property
    def text(self) -> str:
        """All that the ranks show, each on one line, to look for words in."""
        return "\n".join(ending.text for ending in self.endings)

    @property
    def shown(self) -> str:
        """What all ranks show, one after the other, in lines that are short enough to be read."""
        return "\n".join(str(ending) for ending in self.endings)

    def __str__(self) -> str:
        return f"{self.shown}\n\n{self.recorded}" if self.recorded else self.shown


def where_it_waits(rank: int, stack: str, file: str, program: str, seconds: float) -> str:
    """ "still waiting after 2 s, in all_reduce, line 12: dist.all_reduce(loss)".

    Args:
        stack: as faulthandler writes it.
        file: the program's.
        program: its text.
        seconds: for how long all ranks slept, at least.
    """
    inner = ""
    for path, line, function in _FRAME.findall(stack):
        if path == file:
            text = program.splitlines()[int(line) - 1].strip()
            within = f", in {inner}" if inner else ""
            return f"still waiting after {seconds:g} s{within}, line {line}: {text}"
        inner = inner if function in _PASS_ON else function
    return f"still waiting after {seconds:g} s; its stack could not be read"


def how_it_died(number: int) -> str:
    """ "died of signal 6, SIGABRT"."""
    return f"died of signal {number}, {signal.Signals(number).name}"


def _wrapped(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line, width, subsequent_indent=f"{indent}  ", break_on_hyphens=False)

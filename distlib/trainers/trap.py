"""`Trap`: what people lose days to with a framework, as a program that shows it; run now, or as it was recorded.

recorded/traps/fabric_fsdp.json      written by `python -m distlib.trainers`, and by nothing else
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from distlib.frameworks import ProcessError
from distlib.trainers.environment_of_frameworks import has
from distlib.trainers.output import shorter
from distlib.trainers.report_origin import ReportOrigin, keep, kept
from distlib.trainers.run_command import run_text
from distlib.trainers.run_or_recording import TrainerError, versions
from distlib.trainers.trap_table import TRAPS, Trap

FOLDER = Path(__file__).parent / "recorded" / "traps"


@dataclass(frozen=True)
class TrapReport(ReportOrigin):
    """What a trap's program has shown. Printed, it is where that comes from, and what was printed.

    Attributes:
        status: the exit status; not 0 if the program failed.
        lines: what was printed, shorter.
        printed: how many lines there were.
        note: why this is the recording, or how its versions differ from those of today; "" if neither.
    """

    status: int
    lines: Sequence[str] = field(default_factory=list)
    printed: int = 0
    note: str = ""

    def __str__(self) -> str:
        lines = [f"$ {self.command}    # {self.origin}", *(f"    │ {line}" for line in self.lines)]
        return "\n".join([*lines, f"exit status {self.status}", *([self.note] if self.note else [])])


def run_trap(name: str) -> TrapReport:
    """Run a trap's program if its package is here; else the recording that comes with the package.

    Raises:
        ValueError: there is no such trap.
        KeyboardInterrupt: the kernel was interrupted. All processes are gone.
    """
    trap = trap_of(name)
    if not trap_is_there(name):
        return replace(recorded_trap(name), note=f"{trap.package} is not installed here (make frameworks)")
    try:
        return trap_now(name)
    except TrainerError as error:
        return replace(recorded_trap(name), note=f"{error} This is the recording")


def trap_now(name: str) -> TrapReport:
    """Run a trap's program. Its failure may be the point.

    Raises:
        TrainerError: it did not end.
    """
    trap = trap_of(name)
    try:
        ran = run_text(trap.program, trap.command, env=trap.env, warnings=trap.warnings)
    except ProcessError as error:
        raise TrainerError(f"{trap.title} It did not come to its end: {error}.") from None
    made = versions(trap.package)
    lines = shorter(ran.lines)
    return TrapReport(name, False, made, date.today().isoformat(), trap.command, ran.status, lines, len(ran.lines))


def recorded_trap(name: str, folder: Path = FOLDER) -> TrapReport:
    """The recording of a trap.

    Raises:
        ValueError: there is no such trap.
    """
    return TrapReport(**kept(trap_of(name).name, folder))


def record_trap(name: str, folder: Path = FOLDER) -> TrapReport:
    """Run a trap's program, and keep what it showed in the folder.

    Raises:
        TrainerError: it did not end. The older recording stays.
    """
    made = trap_now(name)
    keep(made, folder)
    return made


def trap_is_there(name: str) -> bool:
    """Whether a trap's program can run here."""
    return has(trap_of(name).package)


def trap_of(name: str) -> Trap:
    """A trap by its name.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in TRAPS:
        raise ValueError(f"there is no trap {name!r}; there are {', '.join(TRAPS)}")
    return TRAPS[name]

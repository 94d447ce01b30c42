"""`Patient`: one broken program, what people say of it, and what is the matter with it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("patients")
HANGS, CRASHES, SILENT = "hangs", "crashes", "silent"


@dataclass(frozen=True)
class Patient:
    """One broken program: `patients/NAME.py`, a whole program for torchrun.

    Attributes:
        name: of its file.
        ranks: how many processes it is run with.
        outcome: HANGS: some rank waits forever; CRASHES: none does, and some rank fails; SILENT: all end well.
        cause: one sentence.
        cure: what is to be changed: text of the program → what stands there instead.
        cured: how, in one sentence.
        shows: for each rank, how it ends, as `RankEnding.kind`, and words that its report has.
        served_by: tools that bring it to light, with words that some rank's report has then.
        probe: the line before which `monitored_barrier` goes, "" if it does not serve.
        any_order: which rank shows what depends on who comes first.
        seconds: how long all ranks must sleep before that is a hang; 0: as `run_patient` has it.
    """

    name: str
    ranks: int
    outcome: str
    cause: str
    cured: str
    cure: Mapping[str, str]
    shows: Sequence[tuple[str, str]]
    served_by: Mapping[str, str]
    probe: str = ""
    any_order: bool = False
    seconds: float = 0.0

    @property
    def file(self) -> str:
        """The name of the program's file."""
        return f"{self.name}.py"

    @property
    def program(self) -> str:
        """The text of the program that hangs, fails or trains wrongly."""
        return (FOLDER / self.file).read_text(encoding="utf-8")

    @property
    def symptom(self) -> str:
        """What people post about it: the first line of the program."""
        return self.program.partition("\n")[0].strip('"')

    @property
    def healed(self) -> str:
        """The program without the fault.

        Raises:
            ValueError: a text that is to be changed stands in the program never, or more than once.
        """
        program = self.program
        for ill, well in self.cure.items():
            if program.count(ill) != 1:
                raise ValueError(f"{self.file} has {ill!r} {program.count(ill)} times, and the cure expects it once")
            program = program.replace(ill, well)
        return program

    @property
    def change(self) -> str:
        """The cure: lines of the program that go, marked -, and that come, marked +."""
        return changed_lines(self.program, self.healed)

    def numbered(self) -> str:
        """The program with the numbers of its lines, without the first, which is the symptom."""
        lines = list(enumerate(self.program.splitlines(), 1))[2:]
        return "\n".join(f"{number:2} │ {line}".rstrip() for number, line in lines)


def changed_lines(before: str, after: str) -> str:
    """Lines that go, marked -, and that come, marked +; empty ones are left out."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return "\n".join(line for line in lines if line.startswith(("- ", "+ ")) and line.strip("+- "))

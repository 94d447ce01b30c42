"""Where a report comes from, a program's or a trap's; and the file in which the recording of one is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ReportOrigin:
    """What every report says of itself.

    Attributes:
        name: of the program, or of the trap.
        recorded: whether it comes with the package, and was not made now.
        versions: of Python, torch and the framework, by name.
        day: as "2026-12-01".
        command: that a student types.
    """

    name: str
    recorded: bool
    versions: Mapping[str, str]
    day: str
    command: str

    @property
    def origin(self) -> str:
        """ "recorded on 2026-12-01, with torch 2.13.0", or "run now, with …"."""
        made = f"recorded on {self.day}" if self.recorded else "run now"
        return f"{made}, with {', '.join(f'{name} {version}' for name, version in self.versions.items())}"


def keep(made: ReportOrigin, folder: Path) -> None:
    """Write a report to a folder, as a recording, in place of an older one."""
    folder.mkdir(exist_ok=True, parents=True)
    text = json.dumps({**asdict(made), "recorded": True}, indent=1, ensure_ascii=False)
    (folder / f"{made.name}.json").write_text(text + "\n", encoding="utf-8")


def kept(name: str, folder: Path) -> dict[str, Any]:
    """A recording's fields, by name."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return {**found, "recorded": True}

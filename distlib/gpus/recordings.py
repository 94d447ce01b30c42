"""Measurements on a GPU, run now or shown as they were recorded: with card, versions, date and command. Never invented.

    show("copies")

    Recorded on a NVIDIA H100, torch 2.13.0, CUDA 13.0, 2026-12-01, by `python -m distlib.gpus`:
    memory       non_blocking  returned ms  there ms     GB/s
    …

On a machine with as many GPUs as a measurement needs, it runs there and then. Elsewhere the recording that comes with
the package is shown; where there is none yet, that is all that is said. `find` gives the same rows for a picture.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import torch

from distlib.gpus.measurements import MEASUREMENTS, Measurement, Row

FOLDER = Path(__file__).parent / "recorded"
COMMAND = "python -m distlib.gpus"
HERE = "a cell of this notebook"
NOT_YET = "not run yet on a GPU"


@dataclass(frozen=True)
class Recording:
    """A measurement, and where it was made.

    Attributes:
        name: of the measurement.
        card: its GPU's name, as CUDA has it.
        versions: of torch, and what it uses.
        day: as "2026-12-01".
        command: that made it.
        rows: for a table.
    """

    name: str
    card: str
    versions: str
    day: str
    command: str
    rows: Sequence[Row]

    def __str__(self) -> str:
        return f"{self.card}, {self.versions}, {self.day}, by `{self.command}`:\n{table(self.rows)}"

    @property
    def source(self) -> str:
        """For the line below a picture's title: "Recorded on a NVIDIA H100, torch 2.13.0, …"."""
        how = "Measured now" if self.command == HERE else "Recorded"
        return f"{how} on {self.card}, {self.versions}, {self.day}, by `{self.command}`"


def gpus_here() -> int:
    """How many GPUs torch can use on this machine."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def show(name: str, folder: Path = FOLDER) -> None:
    """Print a measurement: run now, if there are GPUs enough; else as recorded; else that it was not run yet.

    Args:
        name: one of `MEASUREMENTS`.
        folder: of the recordings.

    Raises:
        ValueError: there is no such measurement.
    """
    needed = _measurement(name).gpus
    if (found := find(name, folder)) is not None:
        print(f"{found.source}:\n{table(found.rows)}")
    else:
        print(NOT_YET if needed == 1 else f"not run yet on {needed} GPUs")


def find(name: str, folder: Path = FOLDER) -> Recording | None:
    """A measurement for a picture: run now, if there are GPUs enough; else as recorded; None if it was not run yet.

    Args:
        name: one of `MEASUREMENTS`.
        folder: of the recordings.

    Raises:
        ValueError: there is no such measurement.
    """
    if gpus_here() >= _measurement(name).gpus:
        return measure(name)
    file = _file(name, folder)
    return Recording(**json.loads(file.read_text())) if file.exists() else None


def measure(name: str, command: str = HERE) -> Recording:
    """Run a measurement on this machine's first GPU, or on as many as it needs.

    Raises:
        ValueError: there is no such measurement.
        RuntimeError: there are not GPUs enough.
    """
    measurement = _measurement(name)
    if gpus_here() < measurement.gpus:
        raise RuntimeError(f"the measurement {name!r} needs GPUs: {measurement.gpus}, this machine has {gpus_here()}")
    rows = measurement.rows(torch.device("cuda", 0), False)
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    versions = f"torch {torch.__version__}, CUDA {torch.version.cuda}, NCCL {nccl}"
    return Recording(name, torch.cuda.get_device_name(0), versions, date.today().isoformat(), command, rows)


def record(name: str, folder: Path = FOLDER) -> Recording:
    """Run a measurement and keep it in the folder, in place of an older one."""
    made = measure(name, COMMAND)
    folder.mkdir(exist_ok=True)
    _file(name, folder).write_text(json.dumps(asdict(made), indent=1, ensure_ascii=False) + "\n")
    return made


def table(rows: Sequence[Row]) -> str:
    """Rows as text, a column for each key; numbers with three digits."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *([_cell(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in cells)


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _measurement(name: str) -> Measurement:
    if name not in MEASUREMENTS:
        raise ValueError(f"expected one of the measurements {', '.join(MEASUREMENTS)}, got {name!r}")
    return MEASUREMENTS[name]


def _file(name: str, folder: Path) -> Path:
    return folder / f"{name}.json"

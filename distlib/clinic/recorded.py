"""What torch printed when the course was written, in `patients/NAME.txt`: shown next to today's where versions differ.

What py-spy showed of a patient is in `patients/NAME.py-spy.txt`: shown where it is not installed, or may not look.

python -m tests.tools.record_patients      runs all patients, and writes what they show with the torch that is there
"""

from __future__ import annotations

import torch

from distlib.clinic.observer import NO_DUMP
from distlib.clinic.patient import FOLDER


def recorded(name: str) -> tuple[str, str]:
    """The version of torch, and what the patient showed with it."""
    first, _, text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").partition("\n")
    return first.removeprefix("torch "), text.strip("\n")


def next_to_today(name: str) -> str:
    """What is to be shown next to today's run: the recorded text; nothing if it comes from the torch that is here."""
    version, text = recorded(name)
    return "" if version == public_version() else f"When the course was written, with torch {version}:\n{text}"


def in_place_of_py_spy(name: str, seen: str) -> str:
    """What py-spy showed of the patient once; nothing if it shows something here, or if that was never recorded.

    Args:
        name: of the patient.
        seen: all that the report of today's run says.
    """
    path = FOLDER / f"{name}.py-spy.txt"
    if NO_DUMP not in seen or not path.exists():
        return ""
    versions, _, text = path.read_text(encoding="utf-8").partition("\n")
    return f"Recorded, with {versions}:\n{text.strip()}"


def public_version() -> str:
    """torch's version, without what follows the +: "2.13.0"."""
    return torch.__version__.partition("+")[0]

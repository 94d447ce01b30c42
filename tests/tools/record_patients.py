"""Run all patients of the hang clinic, and write down what they show with the torch that is installed.

And what py-spy shows of one of them, if it is installed and may look: pip install py-spy.
"""

from __future__ import annotations

import platform
from importlib import metadata

from distlib.clinic import PATIENTS, run_patient
from distlib.clinic.observer import NO_DUMP
from distlib.clinic.patient import FOLDER
from distlib.clinic.recorded import public_version

LOOKED_INTO = "slow_rank"  # by lesson 17


def main() -> None:
    """One file for each patient, next to its program."""
    for name in PATIENTS:
        (FOLDER / f"{name}.txt").write_text(
            f"torch {public_version()}\n\n{run_patient(name).shown}\n", encoding="utf-8"
        )
        print(name)
    record_py_spy()


def record_py_spy() -> None:
    """The same, with py-spy. Without it, the file stays as it is."""
    seen = run_patient(LOOKED_INTO, "py-spy").shown
    if NO_DUMP in seen:
        print(seen)
        return
    versions = f"py-spy {metadata.version('py-spy')}, Python {platform.python_version()} and torch {public_version()}"
    (FOLDER / f"{LOOKED_INTO}.py-spy.txt").write_text(f"{versions}\n\n{seen}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Run all patients of the hang clinic, and write down what they show with the torch that is installed."""

from __future__ import annotations

from distlib.clinic import PATIENTS, run_patient
from distlib.clinic.patient import FOLDER
from distlib.clinic.recorded import public_version


def main() -> None:
    """One file for each patient, next to its program."""
    for name in PATIENTS:
        (FOLDER / f"{name}.txt").write_text(f"torch {public_version()}\n\n{run_patient(name).text}\n", encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()

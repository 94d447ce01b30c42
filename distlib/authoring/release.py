"""A notebook with solutions to the notebook that students get, by nbgrader with the shipped configuration."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.utils import compute_checksum, is_solution

from distlib.authoring.cells import HIDDEN_MARKERS, AuthoringError
from distlib.classroom.grader.starting_text import SOLUTION_MARKERS, START_MARKER

TIMEOUT = 300  # seconds; nbgrader needs about two, and many more on a busy machine


def generate_release(root: Path, assignment: str) -> Path:
    """Runs `nbgrader generate_assignment` on root/solutions/<assignment>. Returns the folder it made in root/exercises.

    root: a folder with nbgrader_config.py. No gradebook is written. Raises AuthoringError with nbgrader's own output
    when it fails, and when what it made could show a student a solution.
    """
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", assignment, "--no-db", "--force"]
    done = subprocess.run(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT
    )
    released = root / "exercises" / assignment
    if done.returncode or not released.is_dir():
        raise AuthoringError(f"nbgrader generate_assignment {assignment} failed:\n{done.stdout.strip()}")
    check_release(released)
    return released


def check_release(folder: Path) -> None:
    """Raises AuthoringError when a released file could show a student a solution or a hidden test."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".py":
            raise AuthoringError(f"{path}: a text source, with the solutions in it, was released")
        text = path.read_bytes().decode(errors="replace")
        for marker in (*SOLUTION_MARKERS, START_MARKER, *HIDDEN_MARKERS):
            if marker in text:
                raise AuthoringError(f"{path}: '{marker}' was released")
        if path.suffix == ".ipynb" and "jupytext" in json.loads(text)["metadata"]:
            raise AuthoringError(f"{path}: jupytext metadata were released; a sync would restore the solutions")


def edited_cells(path: Path) -> list[str]:
    """The names of the solution cells in a released notebook that somebody has changed since nbgrader made it.

    An unreadable notebook counts as changed as a whole: it may be a student's work.
    """
    try:
        cells: list[Any] = nbformat.read(path, as_version=4).cells
    except (ValueError, AttributeError, KeyError, OSError):
        return ["unreadable"]
    return [
        cell.metadata.nbgrader.grade_id
        for cell in cells
        if is_solution(cell) and cell.metadata.nbgrader.get("checksum") != compute_checksum(cell)
    ]

"""Code fits its cell on a screen of 1280 pixels, where JupyterLab shows about 100 columns and wraps no line."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
WIDEST = 96  # columns, of what students get in an exercise: they write below it, and compare
WIDEST_IN_LESSONS = 100
NOTEBOOKS = sorted([*ROOT.glob("exercises/*/*.ipynb"), *ROOT.glob("course/[0-9]*.ipynb")])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_code_fits_its_cell(path: Path) -> None:
    limit = WIDEST_IN_LESSONS if path.parent.name == "course" else WIDEST
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [line for cell in cells for line in cell.source.splitlines() if len(line) > limit] == []


def test_there_are_exercises_and_lessons() -> None:
    assert {path.parent.name for path in NOTEBOOKS} > {"course", "02_all_reduce", "19_capstone"}

"""The cells of an exercise that are not the student's: were they deleted, changed, or made text? Nothing runs.

Whoever grades puts them back, so none of it costs marks. But what no test here has looked at is not known to be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.uploads.recognize import is_given, normal


def faults_of_given(cells: Sequence[HandedCell], expected: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with the given cells of a notebook, by their names: "was deleted".

    Args:
        cells: of the notebook.
        expected: the names that must be there, each with the text that it was given out with; "" if that is not known.
    """
    return {name: fault for name, text in expected.items() if (fault := _fault(cells, name, text))}


def expected_cells(given: Mapping[str, str], cells: Sequence[HandedCell], functions: Sequence[str]) -> dict[str, str]:
    """The given cells that a notebook must have, and their texts; "" for a text that is not known.

    Args:
        given: those of its exercise, as far as that is at hand.
        cells: of the student's notebook.
        functions: those that tests ask for; each has a visible test.
    """
    own = {cell.grade_id for cell in cells if is_given(cell)}
    return dict.fromkeys([*map(visible_test, functions), *sorted(own)], "") | dict(given)


def visible_test(function: str) -> str:
    """The name of the cell with a function's visible test."""
    return f"{function}_visible"


def _fault(cells: Sequence[HandedCell], name: str, text: str) -> str:
    """What is wrong with one cell; "" if nothing is."""
    found = [cell for cell in cells if cell.grade_id == name] or [cell for cell in cells if cell.cell_id == name]
    found = found or [cell for cell in cells if text and normal(cell.source) == text]
    if not found:
        return "was deleted"
    if any(cell.kind == "code" and not _is_changed(cell, text) for cell in found):
        return ""
    kinds = {cell.kind for cell in found}
    return "was changed" if "code" in kinds else f"was made {'text (Markdown)' if 'markdown' in kinds else 'raw text'}"


def _is_changed(cell: HandedCell, text: str) -> bool:
    """Whether a cell differs from what was given out, by nbgrader's checksum, else by that text."""
    if "checksum" in cell.mark:
        return not cell.is_as_released
    return bool(text) and normal(cell.source) != text

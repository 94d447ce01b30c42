"""What students start with where that is not `raise NotImplementedError()`: a program to mend, below the solution.

    ### BEGIN SOLUTION
    mean = loss.clone()
    all_reduce(comm, mean)
    ### STUDENTS GET
    # if comm.rank == 0:
    #     all_reduce(comm, loss)
    ### END SOLUTION

Its lines are comments, so that the solution runs as it stands. Students get them as code in the place of the region.
"""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import ClearSolutions

SOLUTION_MARKERS = ("### BEGIN SOLUTION", "### END SOLUTION")
START_MARKER = "### STUDENTS GET"


class ClearSolutionsToStart(ClearSolutions):
    """nbgrader's preprocessor that takes solutions out; in a cell with `### STUDENTS GET` it leaves what stands there.

    `nbgrader_config.py` puts it in the place of nbgrader's own.
    """

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """One cell, changed in place."""
        if START_MARKER not in cell.source:
            cleared: tuple[Any, Any] = super().preprocess_cell(cell, resources, cell_index)
            return cleared
        cell.source = starting_text(cell.source)
        return cell, resources


def starting_text(source: str) -> str:
    """A solution cell as students get it, if below each solution in it stands what they start with."""
    kept, region = [], ""
    for line in source.splitlines():
        words = line.strip()
        if words in (*SOLUTION_MARKERS, START_MARKER):
            region = "" if words == SOLUTION_MARKERS[1] else words
        elif region != SOLUTION_MARKERS[0]:
            kept.append(_as_code(line) if region else line)
    return "\n".join(kept)


def _as_code(line: str) -> str:
    """A line without the mark of a comment at its beginning."""
    words = line.lstrip()
    code = words.removeprefix("# ") if words.startswith("# ") else words.removeprefix("#")
    return f"{line[: len(line) - len(words)]}{code}".rstrip()

"""The folded answers of a lesson, in a notebook: they run when they are asked for, and not on the way.

A folded answer is a cell whose first line is `# One way to do it`. Shift+Enter and "Run All Cells" come past it when
the student has not tried yet. To run there would show what follows, and replace what the student has defined. So a
kernel runs such a cell only if the cell that ran just before was a folded answer, too: whoever wants it runs it twice.
"""

from __future__ import annotations

import sys
from typing import Any

TITLE = "# One way to do it"
NOT_RUN = (
    "Try it yourself first. Then click the three dots to see one way to do it, "
    "and run this cell twice to see what it prints."
)


def run_only_when_asked() -> None:
    """From now on the notebook of this process runs folded answers only when they are asked for."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return

    def passed_over(lines: list[str]) -> list[str]:
        asked = is_answer(shell.history_manager.input_hist_raw[-1])  # this cell is not in it yet
        return lines if asked or not is_answer("".join(lines)) else [f"print({NOT_RUN!r})\n"]

    shell.input_transformers_cleanup.append(passed_over)


def is_answer(source: str) -> bool:
    """Whether the text of a cell is that of a folded answer."""
    return source.lstrip().startswith(TITLE)

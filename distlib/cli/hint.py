"""`distlib hint`: a hint for a graded function, as text."""

from __future__ import annotations

import sys
import textwrap

from distlib.classroom.self_check.hints import NoHint, hint
from distlib.cli.saying import say

_WIDTH = 100  # of a line


def show_hint(function: str, number: int, exercise: str) -> int:
    """Print one hint. Returns 0, or 1 if there is none; then it says why.

    function, number, exercise: see `distlib hint --help`.
    """
    try:
        lines = str(hint(function, number, exercise)).splitlines()
    except NoHint as error:
        say(str(error), sys.stderr)
        return 1
    say("\n".join(textwrap.fill(line, _WIDTH) for line in lines))
    return 0

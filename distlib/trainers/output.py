"""What the programs print, shorter: times, paths and process numbers folded, lines that are alike counted."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from distlib.clinic.output_folding import fold

_MOST, _LONGEST = 60, 200  # lines, and characters of one
_SHORTER = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),  # colors
    (re.compile(r"\b([WIE])\d{4} [\d:.]+ \d+ "), r"\1 "),
    (re.compile(r"\[?\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d[,.\d]*\]? *"), ""),  # times
    (re.compile(r"/\S*?/site-packages/"), ""),
    (re.compile(r"/[^\s\"]*/(?=distlib/)"), ""),
    (re.compile(r"/\S*/distlib-processes-\w+/"), ""),
    (re.compile("|".join(re.escape(f"{each}/") for each in (sys.prefix, sys.base_prefix, Path.home()))), "…/"),
    (re.compile(r"\b(pid=|pid: |pid )\d+"), r"\1…"),
    (re.compile(r"\d+(\.\d+)? seconds"), "… seconds"),
)


def shorter(lines: Iterable[str]) -> list[str]:
    """Lines without what differs from run to run. Of those that are alike the first one stands there, with how many."""
    folded = (_shorter(line) for line in fold(lines, "train.py"))
    times = Counter(line for line in folded if line.strip("-*= "))
    found = [f"{line}  (× {count})" if count > 1 else line for line, count in times.items()]
    return found if len(found) <= _MOST else [*found[: _MOST // 2], "(…)", *found[-_MOST // 2 :]]


def _shorter(line: str) -> str:
    for pattern, instead in _SHORTER:
        line = pattern.sub(instead, line)
    return line.rstrip() if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"

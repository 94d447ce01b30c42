"""What the programs print, shorter: times, paths and process numbers folded, repeated lines counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from distlib.clinic.output_folding import fold

_MOST = 40  # lines
_SHORTER = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),  # colors
    (re.compile(r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.\d]*\]? *"), ""),  # times
    (re.compile(r"/\S*?/site-packages/"), ""),
    (re.compile(r"/\S*/distlib-processes-\w+/"), ""),
    (re.compile(r"\b(pid=|pid: |pid )\d+"), r"\1…"),
    (re.compile(r"\d+(\.\d+)? seconds"), "… seconds"),
)


def shorter(lines: Iterable[str]) -> list[str]:
    """Lines without what differs from run to run. Lines that follow each other and are alike stand there once."""
    folded = [_shorter(line) for line in fold(lines, "train.py")]
    found = []
    for line, group in groupby(line for line in folded if line.strip("-*= ")):
        times = len(list(group))
        found.append(f"{line}  (× {times})" if times > 1 else line)
    return found if len(found) <= _MOST else [*found[: _MOST // 2], "(…)", *found[-_MOST // 2 :]]


def _shorter(line: str) -> str:
    for pattern, instead in _SHORTER:
        line = pattern.sub(instead, line)
    return line.rstrip()

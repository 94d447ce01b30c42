"""The syntax of the package's files, for tests that look at how they are written."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@cache
def tree_of(path: Path) -> ast.Module:
    """A file of Python's, parsed: several tests look at each."""
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path: Path) -> str:
    """The full name of a file's module."""
    return ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")

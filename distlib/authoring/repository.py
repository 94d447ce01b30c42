"""make repository NAME=ada/course: names the repository on GitHub, in all files that link to it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from distlib.classroom.uploads.published import NAMED, renamed, repository_of


def name_repository(root: Path, new: str) -> list[str]:
    """Writes the repository's name into every file that has it. Returns the names of those that changed.

    Args:
        root: the course's folder.
        new: "ACCOUNT/REPOSITORY".

    Raises:
        ValueError: it is no such name, or pyproject.toml has none to replace.
    """
    if not re.fullmatch(r"[\w-]+/[\w.-]+", new):
        raise ValueError(f"expected a name such as ada/course, got {new!r}")
    old = repository_of((root / "pyproject.toml").read_text(encoding="utf-8"))
    if not old:
        raise ValueError("pyproject.toml has no Repository on GitHub in [project.urls]")
    changed = []
    for name in NAMED:
        text = (root / name).read_text(encoding="utf-8")
        if renamed(text, old, new) != text:
            (root / name).write_text(renamed(text, old, new), encoding="utf-8")
            changed.append(name)
    return changed


if __name__ == "__main__":
    try:
        print("wrote", ", ".join(name_repository(Path.cwd(), "".join(sys.argv[1:]))) or "nothing")
    except ValueError as error:
        sys.exit(str(error))

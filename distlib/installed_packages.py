"""What is installed in this Python, and what pip must know to leave it as it is. Needs no package but pip."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Collection, Mapping
from pathlib import Path

_COURSES_VERSIONS = Path(__file__).parents[1] / "constraints.txt"
_PINNED = re.compile(r"\d[\w.+!]*")


def canonical(name: str) -> str:
    """A distribution's name as pip compares it: "tf-keras" for "tf_keras"."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def distributions_here() -> dict[str, importlib.metadata.Distribution]:
    """The installed distributions by canonical name; of two with one name, that which is imported."""
    found = [each for each in importlib.metadata.distributions() if each.metadata and each.metadata["Name"]]
    return {canonical(str(each.metadata["Name"])): each for each in reversed(found)}


def versions_here() -> dict[str, str]:
    """The versions of the installed distributions, by canonical name."""
    return {name: each.version for name, each in distributions_here().items()}


def constraints(installed: Mapping[str, str], coming: Collection[str], free: Collection[str] = ()) -> list[str]:
    """Lines for pip: what is here stays as it is, and what comes has the course's versions, if their file is here.

    Args:
        installed: versions by canonical name.
        coming: canonical names of what pip shall install, or replace.
        free: those of them whose version pip may choose.
    """
    kept = {name: version for name, version in installed.items() if name not in coming}
    lines = [f"{name}=={version}" for name, version in kept.items() if _PINNED.fullmatch(version)]
    ours = _COURSES_VERSIONS.read_text(encoding="utf-8").splitlines() if _COURSES_VERSIONS.is_file() else []
    silent = {*kept, *free}
    return lines + [line for line in ours if "==" in line and canonical(line.partition("==")[0]) not in silent]

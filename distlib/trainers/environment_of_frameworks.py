"""Where the frameworks are: an environment of their own, `.venv-frameworks`, next to the course's (`make frameworks`).

It sees what the course's environment has, torch for instance, and holds only what the frameworks add.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

_NAME = ".venv-frameworks"
_EXTRAS = {"ray": ("train",)}  # of Ray, the part for training
_FORBIDDEN = ("distlib", "virtualenv", "torch", "numpy")  # the first two: another package is imported as distlib


def folder() -> Path:
    """The environment's folder, which may not be there."""
    return Path(sys.prefix).with_name(_NAME)


def python() -> str:
    """The Python that sees the frameworks; this one where there are none."""
    found = folder() / "bin" / "python"
    return str(found) if found.exists() else sys.executable


@functools.cache
def installed() -> dict[str, metadata.Distribution]:
    """What is in the environment and not in the course's, by name."""
    paths = [str(path) for path in folder().glob("lib/python*/site-packages")]
    return {_plain(each.metadata["Name"]): each for each in metadata.distributions(path=paths)} if paths else {}


def version_of(package: str) -> str | None:
    """The version of a package there; None if it is not there."""
    found = installed().get(_plain(package))
    return found.version if found else None


def has(package: str) -> bool:
    """Whether a package is there. "": the course's environment is enough."""
    return not package or version_of(package) is not None


def megabytes_of(package: str) -> float:
    """What a package has added to the disk, with all that it needs and the course has not got, not compiled."""
    needed = _needed(package, set(), _EXTRAS.get(package, ())) if package else set()
    return sum(_bytes(installed()[name]) for name in needed if name in installed()) / 1e6


def distribution_of(package: str) -> metadata.Distribution | None:
    """A package as a Python of this environment finds it: there, or else in the course's; None if it is in neither."""
    name = _plain(package)
    try:
        return installed().get(name) or metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def faults() -> list[str]:
    """What should not be in the environment, a sentence each."""
    return [
        f"{_NAME} has a {name} of its own ({installed()[name].version}): remove the folder, and make it again"
        for name in _FORBIDDEN
        if name in installed()
    ]


def _needed(package: str, found: set[str], extras: Iterable[str] = ()) -> set[str]:
    """A package and what it needs, by name, also by way of the course's packages. found: is added to."""
    name, distribution = _plain(package), distribution_of(package)
    if distribution is None or name in found and not extras:
        return found
    found.add(name)
    for requirement in map(Requirement, distribution.requires or ()):
        asked = [{"extra": extra} for extra in ("", *extras)]
        if requirement.marker is None or any(map(requirement.marker.evaluate, asked)):
            _needed(requirement.name, found, requirement.extras)
    return found


def _bytes(distribution: metadata.Distribution) -> int:
    files = (Path(str(file.locate())) for file in distribution.files or ())
    return sum(file.stat().st_size for file in files if file.exists())


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

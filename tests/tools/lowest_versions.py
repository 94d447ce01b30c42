"""Prints constraints for pip: each package that pyproject.toml names, at the lowest version that it says.

    python -m tests.tools.lowest_versions > lowest.txt

What a package is capped at, or left out at, by "<" or by a marker, stays as pyproject.toml has it.
"""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
WITHOUT = ("course", "tensorflow", "jax")  # these pin a single minor version of what they are about


def lowest_versions(text: str) -> list[str]:
    """For each requirement of a pyproject.toml "name==version", sorted; those of `WITHOUT` are left out."""
    project = tomllib.loads(text)["project"]
    groups = project["optional-dependencies"]
    chosen = project["dependencies"] + [each for name in groups if name not in WITHOUT for each in groups[name]]
    found = set()
    for requirement in map(Requirement, chosen):
        bounds = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
        if len(bounds) != 1:
            raise ValueError(f"expected one lowest version, as in name>=1.2, got {requirement}")
        found.add(f"{requirement.name}=={bounds[0]}")
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(lowest_versions((ROOT / "pyproject.toml").read_text())))

"""The repository's name, which stands in pyproject.toml alone, and the links that open the course with one click.

Until the course is published it is ACCOUNT/REPOSITORY: then there are no such links.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

NOBODYS = "ACCOUNT/REPOSITORY"
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def read_repository(root: Path) -> str:
    """ "ACCOUNT/REPOSITORY" of the course on GitHub, as [project.urls] in pyproject.toml has it; "" if not yet, or not
    there.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = _GITHUB.fullmatch(project.get("urls", {}).get("Repository", ""))
    return found[1] if found and found[1] != NOBODYS else ""


def one_click_links(repository: str, lesson: str) -> list[str]:
    """Links in Markdown that open a lesson on Binder, and the course on Colab and in Codespaces; none without one."""
    if not repository:
        return []
    return [
        f"[Binder](https://mybinder.org/v2/gh/{repository}/main?labpath=work/lessons/lesson_{lesson}.ipynb)",
        f"[Colab](https://colab.research.google.com/github/{repository}/blob/main/course/anywhere.ipynb)",
        f"[Codespaces](https://codespaces.new/{repository})",
    ]

"""The links that open the course with one click. The repository's name stands in pyproject.toml.

Until the course is published it is ACCOUNT/REPOSITORY: then there are no such links.
"""

from __future__ import annotations

from pathlib import Path

from distlib.classroom.uploads.published import repository_of

NOBODYS = "ACCOUNT/REPOSITORY"


def read_repository(root: Path) -> str:
    """The course's repository on GitHub, "" until it has one. root: the course's folder."""
    repository = repository_of((root / "pyproject.toml").read_text(encoding="utf-8"))
    return "" if repository == NOBODYS else repository


def one_click_links(repository: str, lesson: str) -> list[str]:
    """Links in Markdown that open a lesson on Binder, and the course on Colab and in Codespaces; none without one."""
    if not repository:
        return []
    return [
        f"[Binder](https://mybinder.org/v2/gh/{repository}/main?labpath=work/lessons/lesson_{lesson}.ipynb)",
        f"[Colab](https://colab.research.google.com/github/{repository}/blob/main/course/anywhere.ipynb)",
        f"[Codespaces](https://codespaces.new/{repository})",
    ]

"""A release that knows where it is published: its notebooks for Colab, where each one has a machine of its own.

course/anywhere.ipynb       its cell has the address
colab/lessons/NAME.ipynb    a lesson with that cell below its title; its links lead to others of these
colab/exercises/NAME.ipynb  an exercise, likewise
ANYWHERE.md                 its examples have the address
README.md, pyproject.toml   for a repository on GitHub, its name in their links
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from distlib.classroom.student_copies.notebook_json import text_of

CELL = "course/anywhere.ipynb"
EMPTY = 'COURSE = ""'
COLAB = "https://colab.research.google.com/github"
_RAW = "https://raw.githubusercontent.com"  # where Colab, which has no files of the course at first, finds its pictures
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")
_HIDDEN = re.compile(r"<!-- shown once the course is published\n(.*?)-->\n", re.DOTALL)
NAMED = ("ANYWHERE.md", "README.md", "pyproject.toml")
"""The files in which the repository's name stands. What counts is that of pyproject.toml."""

_LINK = re.compile(r"\]\(([^):\s]*?)(\d\w*\.ipynb)")


class AddressError(ValueError):
    """No course can be had from such an address. The message says what is expected."""


def published(files: Mapping[str, bytes], address: str) -> dict[str, bytes]:
    """The files of a release that are different, or come on top, where it has an address.

    Args:
        files: the release, by path.
        address: as `git clone` wants it. Links to Colab are made for a repository on GitHub.

    Raises:
        AddressError: it has blanks or quotes, or is no address.
    """
    if not re.fullmatch(r"[\w.+-]+(://|@)[^\s\"'\\\\]+", address):
        raise AddressError(f"expected an address such as https://example.org/course.git, got {address!r}")
    github = _GITHUB.fullmatch(address)
    repository = github[1] if github else ""
    filled = files[CELL].decode().replace(json.dumps(EMPTY)[1:-1], json.dumps(f'COURSE = "{address}"')[1:-1], 1)
    guide = files["ANYWHERE.md"].decode().replace("ADDRESS_OF_THE_COURSE", address)
    cell = next(cell for cell in json.loads(filled)["cells"] if cell["cell_type"] == "code")
    made = {CELL: filled.encode(), "ANYWHERE.md": guide.encode()}
    if repository:
        old = repository_of(files["pyproject.toml"].decode())
        made |= {name: renamed((dict(files) | made)[name].decode(), old, repository).encode() for name in NAMED}
    for name, content in files.items():
        if copy := _copy_of(name):
            made[copy] = _with_cell(json.loads(content), {**cell, "id": "anywhere"}, copy, repository)
    return made


def repository_of(pyproject: str) -> str:
    """ "ACCOUNT/REPOSITORY" on GitHub, as a pyproject.toml's text has it in [project.urls]; "" if there is none."""
    urls = tomllib.loads(pyproject)["project"].get("urls", {})
    found = _GITHUB.fullmatch(urls.get("Repository", ""))
    return found[1] if found else ""


def renamed(text: str, old: str, new: str) -> str:
    """A text with a repository's new name in place of its old one, also in the address of its pages.

    Links that lead nowhere before, and stand in a comment for this reason, are shown from now on.

    Args:
        old, new: "ACCOUNT/REPOSITORY".
    """
    shown = _HIDDEN.sub(r"\1", text)
    return shown.replace(old, new).replace(old.replace("/", ".github.io/"), new.replace("/", ".github.io/"))


def _copy_of(name: str) -> str:
    """Where the copy of a notebook for Colab lies; "" if there is none."""
    path = PurePosixPath(name)
    if path.suffix != ".ipynb" or not path.name[0].isdigit():
        return ""
    return f"colab/{'lessons' if path.parts[0] == 'course' else 'exercises'}/{path.name}"


def _with_cell(notebook: dict[str, Any], cell: dict[str, Any], copy: str, repository: str) -> bytes:
    """A notebook with the cell below its title, and links to Colab where there is a repository."""

    def to_colab(link: re.Match[str]) -> str:
        is_exercise = "exercises/" in link[1] or not link[1] and copy.startswith("colab/exercises/")
        folder = "exercises" if is_exercise else "lessons"
        return f"]({COLAB}/{repository}/blob/main/colab/{folder}/{link[2]}"

    first, *others = notebook["cells"]
    for each in notebook["cells"]:
        if repository and each["cell_type"] == "markdown":
            text = text_of(each).replace("](images/", f"]({_RAW}/{repository}/main/course/images/")
            each["source"] = _LINK.sub(to_colab, text).splitlines(keepends=True)
    return (json.dumps({**notebook, "cells": [first, cell, *others]}, indent=1, ensure_ascii=False) + "\n").encode()

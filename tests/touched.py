"""Which slow tests a change touches, the closest first, so that a fault turns the CI red on the commit that brings it.

A test is about files: its own, and where it is about a lesson or an exercise, that one's text, solution and answers.
These import modules, which import others. A change is as far away as the imports that lead to a changed file.

A file that is no module, such as a text of grader sentences, is as close as what could read it: a module next to it, a
module that has its name or its folder's as text (if no other is called so), or a test of its folder, as tests/docker is
of docker/.

    pytest --share=3/16 --touched-since=HEAD~1
"""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from distlib.lazy_names import homes_in
from tests.tools.source_trees import tree_of

ROOT = Path(__file__).parents[1]
SUBJECTS = (
    "course/{0}.py",
    "solutions/{0}/*.py",
    "exercises/{0}/*.ipynb",
    "tests/answers/{0}/**/*.*",
    "distlib/clinic/patients/{0}.*",
)


def changed_files(since: str, root: Path = ROOT) -> list[Path]:
    """The files that differ between `since` and now, committed or not; none, if git knows no such commit."""
    command = ["git", "-C", str(root), "diff", "--name-only", "--no-renames", since, "--"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    return [root / line for line in done.stdout.splitlines()] if done.returncode == 0 else []


def every_part() -> list[str]:
    """All lessons, exercises, patients and files of tests: what a part of `tests.shares` may be called."""
    subjects = ("course/[0-9]*.py", "solutions/*/*.py", "distlib/clinic/patients/*.py")
    stems = {path.stem for pattern in subjects for path in ROOT.glob(pattern)}
    return sorted(stems | {path.name for path in ROOT.glob("tests/**/test_*.py")})


def touched(parts: Iterable[str], changed: Iterable[Path]) -> list[str]:
    """The parts of `tests.shares` that a change touches: the closest first, and of equally close ones those by name."""
    change = Change(frozenset(changed))
    distances = {part: distance(own_files(part), change) for part in parts}
    close = {part: steps for part, steps in distances.items() if steps is not None}
    return sorted(close, key=lambda part: (close[part], part))


def own_files(part: str) -> list[Path]:
    """The files of a lesson and exercise, such as "05_ddp", or of tests, such as "test_hub.py"."""
    if part.endswith(".py"):
        return sorted((ROOT / "tests").rglob(part))
    return [path for pattern in SUBJECTS for path in sorted(ROOT.glob(pattern.format(part)))]


@dataclass(frozen=True)
class Change:
    """The files that a change is of."""

    files: frozenset[Path]

    @cached_property
    def texts(self) -> list[Path]:
        """Those that are no modules."""
        return [path for path in self.files if path.suffix != ".py"]

    @cached_property
    def near(self) -> set[Path]:
        """The folders whose modules could read a changed text: its own, and those of the tests of its folder."""
        tested = {ROOT / "tests" / each.relative_to(ROOT).parts[0] for each in self.texts}
        of_tests = {folder for each in tested for folder in (each, *each.glob("*/"))}
        return ({each.parent for each in self.texts} | of_tests) - {ROOT / "tests"}

    @cached_property
    def names(self) -> set[str]:
        """What a module calls a changed text by: its name or its folder's, where no other is called so."""
        return {name for each in self.texts for name in (each.name, each.parent.name) if _names()[name] == 1}

    def is_in(self, path: Path) -> bool:
        """Whether a file has changed, or is a module that could read a text that has."""
        if path in self.files or path.suffix != ".py":
            return path in self.files
        return path.parent in self.near or bool(self.names and self.names & _words(path))


def distance(own: Iterable[Path], change: Change) -> int | None:
    """The fewest imports from a part's own files to a changed file; None if none leads there."""
    seen, edge, steps = set(own), set(own), 0
    while edge:
        if any(map(change.is_in, edge)):
            return steps
        edge = {found for path in edge for found in imported_files(path)} - seen
        seen |= edge
        steps += 1
    return None


@cache
def _names() -> Counter[str]:
    """How many files and folders have each name: one that several have, such as checks.txt, tells nothing."""
    command = ["git", "-C", str(ROOT), "ls-files"]
    files = subprocess.run(command, capture_output=True, text=True, timeout=100).stdout.splitlines()
    folders = {folder for file in files for folder in Path(file).parents}
    return Counter(Path(each).name for each in [*files, *folders])


@cache
def _words(path: Path) -> frozenset[str]:
    """The last parts of all that a file has as text: the names of files are among them."""
    texts = (node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant))
    return frozenset(text.rpartition("/")[2] for text in texts if isinstance(text, str) and len(text) < 200)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """The files of this project that a Python file imports. A name is followed through a stub to its module."""
    return frozenset(_imported(path)) if path.suffix == ".py" else frozenset()


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            modules = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in modules:
            if module.partition(".")[0] in ("distlib", "tests") and (found := _home(module, name)):
                yield found


def _home(module: str, name: str) -> Path | None:
    """The file that a name of a module is in, or the module itself."""
    folder = ROOT.joinpath(*module.split("."))
    for candidate in (folder / f"{name}.py", folder / name / "__init__.py"):
        if name and candidate.exists():
            return candidate
    if homes := _homes(folder / "__init__.pyi"):
        return _home(f"{module}{homes[name]}", name) if name in homes else folder / "__init__.py"
    return next((path for path in (folder.with_suffix(".py"), folder / "__init__.py") if path.exists()), None)


@cache
def _homes(stub: Path) -> dict[str, str]:
    return homes_in(stub) if stub.exists() else {}

"""Which file is made from which, and whether it is up to date."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from distlib.authoring.cells import AuthoringError
from distlib.authoring.notebook import notebook_from_text
from distlib.authoring.release import edited_cells, generate_release
from distlib.classroom.uploads.upload_names import full_name

LEFTOVERS = (".ipynb_checkpoints", "__pycache__", ".DS_Store")  # what tools leave in a folder: not ours to judge


@dataclass(frozen=True)
class Project:
    """A folder with course/, solutions/, exercises/ and nbgrader_config.py."""

    root: Path

    def sources(self) -> list[Path]:
        """The text sources: every course/*.py and solutions/*/*.py."""
        return sorted(self.root.glob("course/*.py")) + sorted(self.root.glob("solutions/*/*.py"))

    def assignments(self) -> list[str]:
        """The names of the assignments: the folders of solutions/ that hold a text source."""
        return sorted({path.parent.name for path in self.root.glob("solutions/*/*.py")})

    def notebooks(self) -> dict[Path, bytes]:
        """The notebook of every text source, by the path it belongs at."""
        return {source.with_suffix(".ipynb"): self._notebook(source) for source in self.sources()}

    def exercises(self, names: Sequence[str] = ()) -> dict[Path, bytes]:
        """Every file that exercises/ must hold, by the path it belongs at; made in a temporary folder.

        names: of the assignments, or the numbers that they begin with; without any, all.

        Raises AuthoringError where there is no such assignment.
        """
        released = {}
        assignments = [self._assignment_named(name) for name in names] or self.assignments()
        with tempfile.TemporaryDirectory() as folder:
            copy = Project(Path(folder).resolve())
            shutil.copy(self.root / "nbgrader_config.py", copy.root)
            for assignment in assignments:
                ignored = shutil.ignore_patterns("*.ipynb", *LEFTOVERS)
                shutil.copytree(self._assignment(assignment), copy._assignment(assignment), ignore=ignored)
            _write_changed(copy.notebooks())
            for assignment in assignments:
                for path in _files(generate_release(copy.root, assignment)):
                    released[self.root / path.relative_to(copy.root)] = path.read_bytes()
        return released

    def write_notebooks(self) -> list[Path]:
        """Makes the notebook of every text source. Returns those that changed."""
        return _write_changed(self.notebooks())

    def write_exercises(self, names: Sequence[str] = (), *, force: bool = False) -> list[Path]:
        """Makes exercises/, or some of it, from the text sources in solutions/. Returns the files that changed.

        Raises AuthoringError, and writes nothing, when a notebook in the way holds somebody's answers, unless force.
        """
        released = self.exercises(names)
        for path, content in released.items():
            if force or path.suffix != ".ipynb" or _read(path) in (None, content):
                continue
            if cells := edited_cells(path):
                raise AuthoringError(
                    f"{self.name(path)} holds answers ({', '.join(cells)}): "
                    "move it away, or lose them with make exercises ARGS=--force"
                )
        return _write_changed(released)

    def stale(self) -> list[str]:
        """One line for every generated file that is missing, differs from its source, or has no source."""
        notebooks, exercises = self.notebooks(), self.exercises()
        lines = [self._difference(path, content, "make notebooks") for path, content in notebooks.items()]
        lines += [self._difference(path, content, "make exercises") for path, content in exercises.items()]
        without_source = sorted(self._generated() - set(notebooks) - set(exercises))
        lines += [f"{self.name(path)}: has no source; delete it" for path in without_source]
        return [line for line in lines if line]

    def name(self, path: Path) -> str:
        """A path as messages show it: from the root."""
        return path.relative_to(self.root).as_posix()

    def _assignment_named(self, name: str) -> str:
        """The assignment of this name or number."""
        known = self.assignments()
        if (found := full_name(name, known)) not in known:
            raise AuthoringError(f"there is no exercise {name}; there are {', '.join(known)}")
        return found

    def _assignment(self, name: str) -> Path:
        return self.root / "solutions" / name

    def _notebook(self, source: Path) -> bytes:
        graded = source.parent.parent == self.root / "solutions"
        text = source.read_text(encoding="utf-8")
        return notebook_from_text(text, self.name(source), graded=graded).encode()

    def _generated(self) -> set[Path]:
        notebooks = [*self.root.glob("course/*.ipynb"), *self.root.glob("solutions/*/*.ipynb")]
        return {*notebooks, *_files(self.root / "exercises")}

    def _difference(self, path: Path, content: bytes, remedy: str) -> str:
        if _read(path) == content:
            return ""
        return f"{self.name(path)}: {'differs from its source' if path.exists() else 'is missing'}; run {remedy}"


def _files(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if not set(LEFTOVERS) & set(path.relative_to(folder).parts)]


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _write_changed(files: dict[Path, bytes]) -> list[Path]:
    """Writes the files whose content is new, and returns their paths."""
    changed = [path for path, content in files.items() if _read(path) != content]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[path])
    return changed

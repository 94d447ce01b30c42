"""`distlib update` in a clone: what the course has new comes, what the student has written stays, git stays clean."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from distlib.classroom.student_copies.notebook_json import read_notebook, text_of, write_notebook
from distlib.cli import main

NAME = "02_all_reduce"
EXERCISE = f"exercises/{NAME}/{NAME}.ipynb"
LESSON = "course/00_start_here.ipynb"
COPY = f"work/{EXERCISE}"
NEWEST = "You have the newest version of the course."


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout


@pytest.fixture
def upstream(root: Path, tmp_path: Path) -> Path:
    """The course where instructors publish it: one lesson, one exercise."""
    folder = tmp_path / "upstream"
    for name in (LESSON, EXERCISE, ".gitignore", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(folder))
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=a version")


def append(path: Path, text: str) -> None:
    """Write a line below the first answer of an exercise, or the first cell of a lesson."""
    notebook = read_notebook(path)
    cell = next((c for c in notebook["cells"] if c["id"] == "naive_all_reduce"), notebook["cells"][0])
    cell["source"] = text_of(cell).replace("raise NotImplementedError()", "") + f"\n# {text}"
    write_notebook(path, notebook)


def publish(upstream: Path, *names: str) -> None:
    for name in names:
        notebook = read_notebook(upstream / name)
        notebook["cells"].insert(1, {"cell_type": "markdown", "id": "new", "metadata": {}, "source": "Something new."})
        write_notebook(upstream / name, notebook)
    commit(upstream)


@pytest.fixture
def clone(upstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's clone; the tests run in it."""
    git(tmp_path, "clone", "--quiet", str(upstream), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


def text(path: Path) -> str:
    return "\n".join(map(text_of, read_notebook(path)["cells"]))


def test_the_new_version_comes_and_the_work_stays(
    upstream: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["update"]) == 0
    printed = capsys.readouterr().out
    assert printed == f"Your own copies of all lessons and exercises are in {clone / 'work'}.\n{NEWEST}\n"
    append(clone / COPY, "my answer")
    assert git(clone, "status", "--porcelain") == ""
    publish(upstream, EXERCISE, LESSON)
    assert main(["update"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Newer versions of: lesson_00_start_here."
    assert lines[1] == "Newer versions, with everything that you have written in them, of:"
    assert lines[2].startswith(f"    {NAME} (as it was: work/backups/{NAME}_")
    assert "my answer" in text(clone / COPY) and "Something new." in text(clone / COPY)
    assert "my answer" in text(next((clone / "work" / "backups").iterdir()))
    assert git(clone, "status", "--porcelain") == ""
    assert main(["update"]) == 0
    assert capsys.readouterr().out == f"{NEWEST}\n"


def test_work_in_the_courses_own_notebooks_is_no_obstacle(
    upstream: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(clone / EXERCISE, "my answer")
    append(clone / LESSON, "my note")
    publish(upstream, EXERCISE, LESSON)
    assert main(["update"]) == 0
    printed = capsys.readouterr().out
    assert f"{EXERCISE} was changed. It is kept as work/backups/{NAME}_" in printed
    assert "my answer" in text(clone / COPY) and "Something new." in text(clone / COPY)
    assert any("my note" in text(path) for path in (clone / "work" / "backups").iterdir())
    (clone / LESSON).write_text("<<<<<<< HEAD")
    assert main(["update"]) == 0
    assert "notebooks of lesson_00_start_here are broken" in capsys.readouterr().out
    assert "Something new." in text(clone / LESSON)
    assert git(clone, "status", "--porcelain") == ""


def test_other_packages_are_announced(upstream: Path, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (upstream / "pyproject.toml").write_text("[project]\n")
    commit(upstream)
    assert main(["update"]) == 0
    assert capsys.readouterr().out.endswith("It needs other packages. Stop JupyterLab, and start it with: make lab\n")


def test_when_git_cannot_it_says_why_and_nothing_is_lost(
    upstream: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "mine.txt").write_text("mine")
    commit(clone)
    publish(upstream, EXERCISE)
    assert main(["update"]) == 1
    assert "git could not get a newer version:\n" in capsys.readouterr().out
    assert (clone / "mine.txt").exists() and (clone / COPY).exists()


def test_without_git_it_says_what_to_do(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(clone / ".git")
    assert main(["update"]) == 0
    assert f"unpack the newer zip file over {clone}" in capsys.readouterr().out

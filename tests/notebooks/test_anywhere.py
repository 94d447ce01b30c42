"""The course on a borrowed machine: the cell of course/anywhere.ipynb, what it installs, and how Binder starts.

Neither Colab nor Binder can be reached from here. ANYWHERE.md says what was tried by hand instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement

from distlib.cli import anywhere

ROOT = Path(__file__).parents[2]
COPIED = "README.md LICENSE LICENSE-prose pyproject.toml constraints.txt distlib_backend.py distlib course"
ADDRESS = "https://example.org/course"

# Each stands for git: what comes when the cell asks for ADDRESS. Its last argument is the folder to make.
OFFLINE = "echo 'fatal: Could not resolve host: example.org' >&2; exit 128"
SOMETHING_ELSE = 'mkdir "$folder"'
COURSE = """mkdir -p "$folder/distlib/cli"; touch "$folder/distlib/__init__.py"
echo "import os, sys; print('installing', *sys.argv[1:], 'in', os.getcwd()); sys.exit(STATUS)" > \
"$folder/distlib/cli/anywhere.py" """
WHOLE_COURSE = f'mkdir "$folder"; cd {ROOT}; cp -r {COPIED} "$folder"'


def cell_with(address: str) -> str:
    """The cell, with the address in it."""
    notebook = nbformat.read(ROOT / "course" / "anywhere.ipynb", as_version=4)
    [cell] = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert 'COURSE = ""\n' in cell
    return cell.replace('COURSE = ""', f'COURSE = "{address}"', 1)


def git_that(tmp_path: Path, script: str) -> Path:
    """A folder with a command `git` that does this."""
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin" / "git"
    git.write_text(f'#!/bin/sh\nfor folder; do :; done\necho "git $*" >> {tmp_path}/asked\n{script}\n')
    git.chmod(0o755)
    return git.parent


def run_cell(cell: str, folder: Path, path: Path, before: str = "") -> str:
    """What the cell prints in a Python without any package. path: where commands are; before: lines to run before."""
    program = folder / "cell.py"
    program.write_text(f"{before}\n{cell}\nprint('path', sys.path[0])")
    folders = f"{path}{os.pathsep}/usr/bin{os.pathsep}/bin" if path.exists() else str(path)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program)],
        cwd=folder,
        env={"PATH": folders, "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_gets_the_course_and_installs_it_without_a_jupyter(tmp_path: Path) -> None:
    git = git_that(tmp_path, COURSE.replace("STATUS", "0"))
    folder = tmp_path.resolve() / "distributed-training"
    expected = f"installing --leave-jupyter in {folder}\nOpen a lesson, such as course/00_start_here.ipynb.\n"
    assert run_cell(cell_with(ADDRESS), tmp_path, git) == f"{expected}path {folder}\n"
    assert run_cell(cell_with(ADDRESS), tmp_path, git).startswith("installing"), (
        "again, now in the folder that is there"
    )
    assert (tmp_path / "asked").read_text() == f"git clone --quiet --depth=1 {ADDRESS} {folder}\n"


def test_inside_the_course_it_needs_no_address(tmp_path: Path) -> None:
    git = git_that(tmp_path, OFFLINE)
    (tmp_path / "course").mkdir()
    subprocess.run(["sh", "-c", f"folder={tmp_path}\n{COURSE.replace('STATUS', '0')}"], check=True)
    assert f"installing --leave-jupyter in {tmp_path.resolve()}\n" in run_cell(cell_with(""), tmp_path / "course", git)


@pytest.mark.parametrize(
    ("address", "script", "words"),
    [
        ("", OFFLINE, 'Put the address of the course into COURSE = "", and run this cell again.'),
        (ADDRESS, OFFLINE, f"resolve host: example.org\nThe course did not come from {ADDRESS} - the lines above say"),
        (ADDRESS, SOMETHING_ELSE, "That is not this course. Correct COURSE, and delete the folder /"),
        (ADDRESS, COURSE.replace("STATUS", "1"), "installing"),
    ],
)
def test_it_says_what_to_do(tmp_path: Path, address: str, script: str, words: str) -> None:
    said = run_cell(cell_with(address), tmp_path, git_that(tmp_path, script))
    assert words in said and "Open a lesson" not in said
    assert f"path {tmp_path}\n" not in said and "distributed-training" not in said.splitlines()[-1]


def test_without_git(tmp_path: Path) -> None:
    said = run_cell(cell_with(ADDRESS), tmp_path, tmp_path / "nothing")
    assert said.startswith(f"This machine has no command git\nThe course did not come from {ADDRESS}")


def test_python_is_too_old(tmp_path: Path) -> None:
    before = "import sys; sys.version_info, sys.version = (3, 10, 4), '3.10.4 (main)'"
    said = run_cell(cell_with(ADDRESS), tmp_path, git_that(tmp_path, OFFLINE), before)
    assert said.startswith("This is Python 3.10.4 - the course needs 3.11 or newer.\n")


def test_where_the_course_is_installed_there_is_nothing_to_do(tmp_path: Path) -> None:
    before = f"import sys; sys.path.insert(1, {str(ROOT)!r})"
    said = run_cell(cell_with(ADDRESS), tmp_path, git_that(tmp_path, OFFLINE), before)
    assert said.startswith("The course is installed here already: there is nothing to do.")


# ── what it installs ─────────────────────────────────────────────────────────────────────────────────────────────────

WANTED = [Requirement(text) for text in ("torch>=2.6", "greenlet>=3.1", "ipykernel>=6.29", "nbgrader>=0.9.6")]
COLAB = {"torch": "2.8.0+cu126", "numpy": "2.0.2", "ipykernel": "6.17.1", "odd": "unknown"}


def names(missing: list[Requirement]) -> list[str]:
    return [requirement.name for requirement in missing]


def test_what_is_there_and_new_enough_is_kept() -> None:
    assert names(anywhere.missing_of(WANTED, COLAB, leave_jupyter=True)) == ["greenlet"]
    assert names(anywhere.missing_of(WANTED, COLAB, leave_jupyter=False)) == ["greenlet", "ipykernel", "nbgrader"]
    old = {**COLAB, "torch": "2.5.1"}
    assert names(anywhere.missing_of(WANTED, old, leave_jupyter=True)) == ["torch", "greenlet"]
    assert names(anywhere.missing_of(WANTED[2:], {}, leave_jupyter=True)) == ["ipykernel"], "needed, and not there"


def test_what_is_kept_stays_at_its_version_and_the_rest_has_the_courses() -> None:
    lines = anywhere.constraints(COLAB, ["greenlet", "ipykernel"])
    assert {"torch==2.8.0+cu126", "numpy==2.0.2"} <= set(lines)
    pinned = {line.partition("==")[0]: line for line in lines}
    assert pinned["greenlet"].startswith("greenlet==3.") and pinned["ipykernel"] != "ipykernel==6.17.1"
    assert "odd" not in pinned and len([line for line in lines if line.startswith(("torch==", "numpy=="))]) == 2


def test_the_packages_are_those_of_the_project_without_frameworks() -> None:
    found = {requirement.name for requirement in anywhere.requirements(anywhere.FRAMEWORKS)}
    assert {"torch", "anywidget", "nbgrader"} <= found
    assert not {name for name in found if name.startswith(("tensorflow", "jax"))}
    assert {*anywhere.OF_THE_COURSE, *anywhere.OF_JUPYTER} <= found, "no name there is a mistake"


def test_the_other_distlib_is_in_the_way(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(anywhere, "versions_here", lambda: {"distlib": "0.4.0"})
    assert anywhere.main([]) == 1
    assert "pip uninstall --yes distlib" in capsys.readouterr().out


def test_pip_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(anywhere.NotInstalled, match="connected to the internet.\nERROR: Could not find a version"):
        anywhere.pip("distlib-course-needs-no-such-package")


@pytest.mark.slow
def test_the_cell_works_in_a_python_that_has_the_packages(tmp_path: Path) -> None:
    """A new environment that sees those of this one, as Colab's have torch; what it gets is the course alone."""
    git = git_that(tmp_path, WHOLE_COURSE)
    venv.create(tmp_path / "env", with_pip=True)
    site = sysconfig.get_path("purelib", "venv", {"base": str(tmp_path / "env")})
    (Path(site) / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    for old in Path(site).glob("setuptools*"):  # Python 3.11 brings one that is too old to build the course
        shutil.rmtree(old)
    (tmp_path / "cell.py").write_text(cell_with(ADDRESS))
    environment = {**os.environ, "PATH": f"{git}{os.pathsep}{os.environ['PATH']}", "PIP_NO_BUILD_ISOLATION": "0"}
    environment.pop("PYTHONPATH", None)
    command = [str(tmp_path / "env" / "bin" / "python"), "cell.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    assert done.stdout.startswith("25 packages are needed. 0 must be installed: none.\n"), done.stdout + done.stderr
    assert f"ok       distlib    the course's own ({tmp_path.resolve()}/distributed-training/distlib)" in done.stdout
    assert "\nok       ranks " in done.stdout and "nbgrader" not in done.stdout
    assert done.stdout.endswith("No problems.\nOpen a lesson, such as course/00_start_here.ipynb.\n")


# ── Binder ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_binder_starts_jupyter_with_copies_and_settings(tmp_path: Path) -> None:
    (tmp_path / ".binder").mkdir()
    (tmp_path / "course").mkdir()
    for name in (".binder/start", "course/00_start_here.ipynb"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    program = "import os, sys; print(sys.argv[1:], os.environ['JUPYTER_CONFIG_PATH'])"
    done = subprocess.run(
        [sys.executable, str(tmp_path / ".binder" / "start"), sys.executable, "-c", program, "lab", "--ip=0.0.0.0"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.splitlines()[-1].startswith("['lab', '--ip=0.0.0.0'] "), done.stderr
    assert str(ROOT / "distlib" / "cli" / "jupyter" / "student") in done.stdout
    assert (tmp_path / "work" / "lessons" / "lesson_00_start_here.ipynb").exists()


def test_binders_scripts_may_run() -> None:
    for name in ("postBuild", "start"):
        assert os.access(ROOT / ".binder" / name, os.X_OK), name
    assert "-m distlib.cli.anywhere\n" in (ROOT / ".binder" / "postBuild").read_text()
    assert (ROOT / ".binder" / "runtime.txt").read_text() == "python-3.12\n"

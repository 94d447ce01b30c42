"""Commands where only the package is installed, and none of its extras: what is missing, and how it comes."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import distlib.cli
from distlib.cli import main
from distlib.cli.course_folder import NO_COURSE
from distlib.cli.missing_package import BROUGHT_BY, COURSE, how_to_get

ROOT = Path(__file__).parents[2]
EXTRA_OF = {package: extra for extra, packages in BROUGHT_BY.items() for package in packages}
# Runs each command, and prints for each its status and what it has written to standard error.
PROGRAM = """
import contextlib, io, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

lines, packages = json.loads(sys.argv[1])
sys.meta_path.insert(0, Absent())
from distlib.cli import main
for line in lines:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = main(line.split())
    print(json.dumps([status, said.getvalue()]))
"""
LINES = (
    "lab",
    "progress",
    "report",
    "update",
    "check 02",
    "hand-in 02",
    "collect 02 uploads",
    "grade 02 --share 1/2",
    "board",
    "release course.zip",
    "class team",
    "export --format moodle",
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """What became of each of LINES."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([LINES, list(EXTRA_OF)])],
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("nowhere"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return [(status, said) for status, said in map(json.loads, done.stdout.splitlines())]


def test_it_says_what_is_missing_and_what_to_type(outcomes: list[tuple[int, str]]) -> None:
    assert len(outcomes) == len(LINES)
    for line, (status, said) in zip(LINES, outcomes, strict=True):
        package = said.removeprefix(f"distlib {line.split()[0]} needs the package ").split(",")[0]
        assert status == 1 and package in EXTRA_OF, (line, said)
        assert said.endswith(f'pip install "{COURSE}[{EXTRA_OF[package]}]"\n') and said.count("\n") == 1, line


def test_it_asks_for_what_there_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == COURSE and BROUGHT_BY.keys() <= project["optional-dependencies"].keys()
    assert {Requirement(each).name for each in project["dependencies"]}.isdisjoint(EXTRA_OF)


def run_without(package: str, command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs a command whose module asks for a package that is not there."""

    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr("distlib.cli.command_table.import_module", absent)
    return main(command.split())


def test_where_there_is_no_course_it_says_that_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(distlib.cli, "find_course", lambda start: None)
    assert run_without("nbformat.v4", "progress", monkeypatch) == 1
    assert capsys.readouterr().err == f"{NO_COURSE}\n"
    assert run_without("nbformat.v4", "check 02", monkeypatch) == 1
    assert "needs the package nbformat," in capsys.readouterr().err


def test_fetch_needs_a_bar_to_show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fetch(name: str) -> None:
        raise ModuleNotFoundError("No module named 'tqdm'", name="tqdm")

    monkeypatch.setattr("distlib.cli.fetch.fetch", fetch)
    assert main(["fetch", "jax"]) == 1
    assert capsys.readouterr().err.endswith(f'pip install "{COURSE}[lessons]"\n')


def test_what_no_extra_brings_is_an_error_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match="psutil"):
        run_without("psutil", "progress", monkeypatch)
    assert how_to_get(ImportError("pip could not fetch jax", name="tqdm"), "fetch") == ""


def test_what_a_students_code_lacks_is_an_error_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch_script(options: object) -> int:
        raise ModuleNotFoundError("No module named 'nbformat'", name="nbformat")  # as a script at its first line

    monkeypatch.setattr("distlib.cli.launch.launch_script", launch_script)
    with pytest.raises(ModuleNotFoundError, match="nbformat"):
        main(["launch", "train.py:main"])

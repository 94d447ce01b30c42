"""`make env`: what it prints while pip, which is quiet, takes minutes. Python is a stand-in that installs nothing."""

import re
import shutil
import subprocess
from pathlib import Path

from packaging.version import Version

from distlib.classroom.uploads.release import for_students
from distlib.frameworks.on_demand import TELLS_BYTES

STAND_IN = """#!/bin/sh
# `python -m venv FOLDER` makes an environment in which this file is Python, and TensorFlow is installed.
if [ "$2" = venv ]; then
    mkdir -p "$3/bin" "$3/lib/python3/site-packages/tensorflow" && cp "$0" "$3/bin/python"
fi
echo "ran -m $2"
"""


def run_make(root: Path, folder: Path, makefile: str) -> list[str]:
    """The lines that `make env` prints, with this Makefile."""
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(root / name, folder)
    (folder / "Makefile").write_text(makefile, encoding="utf-8")
    (folder / "stand_in").write_text(STAND_IN)
    (folder / "stand_in").chmod(0o755)
    command = ["make", "--no-print-directory", "env", "PYTHON=./stand_in"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


OF_STUDENTS = [
    "  a Python of its own",
    "  pip itself: older ones don't tell how much of a file has come",
    "  pip: torch, JupyterLab and all that they need, the longest step",
]
MORE_FOR_TESTS = ["  pip: TensorFlow, JAX, and what tests need", "  pip: Keras, for TensorFlow", "  compiling it all"]


def test_every_step_is_announced_with_the_time_it_takes(root: Path, tmp_path: Path) -> None:
    lines = run_make(root, tmp_path, (root / "Makefile").read_text(encoding="utf-8"))
    assert "1 to 5 minutes. A step prints nothing until it is done." in lines[0]
    assert lines[1::2] == OF_STUDENTS + MORE_FOR_TESTS
    assert lines[2::2] == ["ran -m venv", *["ran -m pip"] * 4, "ran -m compileall"]


def test_pip_may_be_told_to_install_for_the_user(root: Path) -> None:
    """`pip config set install.user true`, as some machines have it, ends in an environment with an error."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    calls = [line for line in makefile.splitlines() if "-m pip install" in line]
    assert len(calls) == 2 and all("PIP_USER=0" in line for line in calls)


def test_no_warning_of_the_build_is_shown(root: Path) -> None:
    """It speaks of folders that may take precedence, in capital boxes, and nothing is wrong."""
    editable = [line for line in (root / "Makefile").read_text(encoding="utf-8").splitlines() if " -e " in line]
    pip = [line for line in editable if "$(PIP)" in line]
    assert len(pip) == 2 and all('PYTHONWARNINGS="ignore:Editable installation"' in line for line in pip)


def test_pip_is_one_that_tells_how_much_has_come(root: Path) -> None:
    (version,) = re.findall(r'\$\(PIP\) "pip>=([\d.]+)"', (root / "Makefile").read_text(encoding="utf-8"))
    assert Version(version) == TELLS_BYTES


def test_students_get_neither_tensorflow_nor_what_tests_need(root: Path, tmp_path: Path) -> None:
    lines = run_make(root, tmp_path, for_students((root / "Makefile").read_text(encoding="utf-8")))
    assert lines[1::2] == OF_STUDENTS

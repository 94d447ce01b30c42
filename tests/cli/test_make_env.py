"""`make env`: what it prints while pip, which is quiet, takes minutes. Python is a stand-in that installs nothing."""

import shutil
import subprocess
from pathlib import Path

STAND_IN = """#!/bin/sh
# `python -m venv FOLDER` makes an environment in which this file is Python, and TensorFlow is installed.
if [ "$2" = venv ]; then
    mkdir -p "$3/bin" "$3/lib/python3/site-packages/tensorflow" && cp "$0" "$3/bin/python"
fi
echo "ran -m $2"
"""


def test_every_step_is_announced_with_the_time_it_takes(root: Path, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(root / name, tmp_path)
    (tmp_path / "stand_in").write_text(STAND_IN)
    (tmp_path / "stand_in").chmod(0o755)
    command = ["make", "--no-print-directory", "env", "PYTHON=./stand_in"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "3 to 10 minutes. A step prints nothing until it is done." in lines[0]
    assert lines[1::2] == [
        "  a Python of its own",
        "  pip: torch, JupyterLab and all that they need, the longest step",
        "  pip: Keras, for TensorFlow",
        "  compiling it all",
    ]
    assert lines[2::2] == ["ran -m venv", "ran -m pip", "ran -m pip", "ran -m compileall"]

"""A terminal of JupyterLab: its `python` is the course's, whatever the reader's own settings put in front."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distlib.cli.terminal_shell import terminal_command


@pytest.mark.parametrize(("shell", "settings"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_the_course_s_python_is_in_front(tmp_path: Path, shell: str, settings: str) -> None:
    found = shutil.which(shell)
    if not found:
        pytest.skip(f"there is no {shell} here")
    other = tmp_path / "conda"
    other.mkdir()
    (other / "python").write_text("#!/bin/sh\necho another Python")
    (other / "python").chmod(0o755)
    (tmp_path / settings).write_text(f'PATH="{other}:$PATH"\nexport MINE=yes\n')
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    command = [*terminal_command({"SHELL": found}), "-i", "-c", "command -v python; echo mine: $MINE"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, start_new_session=True)
    assert done.stdout.split("\n")[:2] == [str(Path(sys.executable).parent / "python"), "mine: yes"]


def test_another_shell_is_run_as_it_is() -> None:
    assert terminal_command({"SHELL": "/usr/bin/fish"}) == ["/usr/bin/fish"]

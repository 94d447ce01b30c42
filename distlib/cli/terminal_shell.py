"""The shell that JupyterLab's terminals run, with the course's Python in front.

A login shell would forget the PATH on which `distlib` is found. A plain one reads the reader's own settings, and there
conda or pyenv put their Python in front of the course's, so `python script.py` would not find distlib. So the course's
folder of commands is put in front after these.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

_OWN = Path(__file__).with_name("terminal")


def terminal_command(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The command of a terminal. environment: of this process, whose SHELL is taken."""
    shell = environment.get("SHELL") or shutil.which("bash") or "sh"
    put = ["env", f"DISTLIB_BIN={Path(sys.executable).parent}"]
    match Path(shell).name:
        case "bash":
            return [*put, shell, "--rcfile", str(_OWN / "bashrc")]
        case "zsh":
            return [*put, f"ZDOTDIR={_OWN}", shell]
        case _:
            return [shell]

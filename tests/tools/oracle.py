"""Runs `make answers ARGS=--fast`. It forks; so it gets a process that has no threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def oracle(*arguments: str | Path) -> tuple[int, list[str]]:
    """Status and lines of the command."""
    command = [sys.executable, "-m", "tests.answers_fast", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3_590)
    assert done.stderr == ""
    return done.returncode, [" ".join(line.split()) for line in done.stdout.splitlines()]

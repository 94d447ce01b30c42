"""What .ci/run makes, and what it does about Docker: with programs that only write down that they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

PROGRAMS = {
    "id": "echo 0",
    "make": "echo make $1 >> calls; test $1 != test-lowest",
    "docker": "test $1 != info || test -e ready",
    "docker-compose": "true",
    "bwrap": "true",
    "chromium": "true",
    "tini": "true",
    "apt-get": "echo apt-get $* >> calls",
}
STARTS = "echo $$ > pid; touch ready; exec sleep 1000"
FAILS = "echo no room for a service >&2; exit 1"


def run(root: Path, folder: Path, dockerd: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of .ci/run in `folder`, where these programs come first."""
    (folder / ".ci").mkdir()
    script = folder / ".ci" / "run"
    script.write_text((root / ".ci" / "run").read_text())
    (folder / "bin").mkdir()
    for name, text in {**PROGRAMS, "dockerd": dockerd}.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bin" / name).chmod(0o755)
    variables = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(folder)}
    return subprocess.run(["bash", str(script), *arguments], capture_output=True, text=True, env=variables, timeout=200)


@pytest.mark.parametrize("dockerd", [STARTS, FAILS])
def test_a_docker_service_is_started_and_ended_and_not_needed(root: Path, tmp_path: Path, dockerd: str) -> None:
    done = run(root, tmp_path, dockerd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "calls").read_text() == "make env\nmake check\nmake test-ci\n"
    assert ("no room for a service" in done.stdout) == (dockerd == FAILS)
    if dockerd == STARTS:
        assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert list(tmp_path.glob("tmp.*")) == []


def test_a_service_that_is_there_is_left_alone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "ready").touch()
    assert run(root, tmp_path, "touch started").returncode == 0
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(("target", "status"), [("test-newest", 0), ("test-lowest", 1)])
def test_it_makes_what_it_is_asked_for(target: str, status: int, root: Path, tmp_path: Path) -> None:
    (tmp_path / "ready").touch()
    assert run(root, tmp_path, STARTS, target).returncode == status
    assert (tmp_path / "calls").read_text() == f"make {target}\n"

"""Tests that need what a machine may lack are skipped, and the reason says what is missing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import conftest
from tests.conftest import _FilesAndLessons


def test_every_marker_but_slow_can_be_missing(root: Path) -> None:
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    names = {marker.split(":")[0].split("(")[0] for marker in options["markers"]}
    assert names - {"slow"} == set(conftest.MISSING)


def test_reasons_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest.shutil, "which", lambda name: None)
    monkeypatch.setattr(conftest, "_browser", lambda: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    reasons = {name: missing.__wrapped__() for name, missing in conftest.MISSING.items()}  # type: ignore[attr-defined]
    assert reasons == {
        "gpu": "needs 1 GPU(s); this machine has 0",
        "browser": "needs Chromium",
        "docker": "needs docker",
        "slurm": "needs Slurm (sbatch)",
    }


def test_a_worker_takes_a_file_but_a_lesson_at_a_time() -> None:
    scheduler = object.__new__(_FilesAndLessons)
    lesson = "tests/notebooks/test_lessons.py::test_a_lesson_runs_from_top_to_bottom[05_ddp]"
    assert scheduler._split_scope(lesson) == lesson
    assert scheduler._split_scope("tests/test_answers.py::test_one[a/b]") == "tests/test_answers.py"


def test_a_marked_test_is_skipped_with_its_reason(root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("import pytest\n@pytest.mark.gpu(99)\ndef test_x(): raise SystemExit\n")
    command = [sys.executable, "-m", "pytest", "-c", str(root / "pyproject.toml"), "-p", "tests.conftest"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=100
    )
    assert "needs 99 GPU(s)" in done.stdout, done.stdout + done.stderr
    assert "1 skipped" in done.stdout.splitlines()[-1]

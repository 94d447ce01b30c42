"""What the tests of a class share."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from tests.tools.tiny_course import TinyCourse, make_tiny_course


@pytest.fixture(scope="session")
def tiny_course(tmp_path_factory: pytest.TempPathFactory) -> TinyCourse:
    """A small course, released once, for all workers. Copy it: whatever is changed in it is changed for all tests."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # each of pytest-xdist's workers has its own in it
    made = shared / "tiny" / "course"
    with (shared / "tiny.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make_whole(made)
    return TinyCourse(made)


def _make_whole(folder: Path) -> None:
    """If it fails, there is no folder of this name, and the next worker tries again."""
    begun = folder.with_name("begun")
    shutil.rmtree(begun, ignore_errors=True)
    make_tiny_course(begun)
    begun.rename(folder)

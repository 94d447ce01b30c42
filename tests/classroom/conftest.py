"""What the tests of a class share."""

from __future__ import annotations

import pytest

from tests.tools.tiny_course import TinyCourse, make_tiny_course


@pytest.fixture(scope="session")
def tiny_course(tmp_path_factory: pytest.TempPathFactory) -> TinyCourse:
    """A small course, released once. Copy it: whatever is changed in it is changed for all tests."""
    return make_tiny_course(tmp_path_factory.mktemp("tiny") / "course")

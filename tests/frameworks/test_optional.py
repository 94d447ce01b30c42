import sys
from pathlib import Path

import pytest

from distlib.frameworks import require
from distlib.frameworks.optional import is_there


def test_a_framework_that_is_there_is_imported() -> None:
    assert require("json").dumps([1]) == "[1]"


def test_one_that_is_not_there_is_one_sentence() -> None:
    assert not is_there("no_such_framework")
    with pytest.raises(
        ImportError,
        match="^no_such_framework is not installed. `distlib fetch .* there is one for Python .*don't need it.$",
    ):
        require("no_such_framework")


def test_one_that_is_broken_sends_to_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_framework.py").write_text("raise TypeError('Descriptors cannot be created directly')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ImportError, match="can't be imported .TypeError: Descriptors .*: run `distlib doctor`"):
        require("broken_framework")

"""The plain edition: of each method one file to read first, short enough for it. Tests of each method hold it right."""

import ast
import re
from pathlib import Path

import pytest

import distlib

TRAINING = Path(distlib.__file__).parent / "training"
NO_METHODS = {"plain_transformer.py"}  # a model
FILES = {
    path.relative_to(TRAINING).as_posix(): path for path in TRAINING.rglob("plain*.py") if path.name not in NO_METHODS
}


def test_there_are_files() -> None:
    assert {"ddp/plain.py", "pipeline/plain.py", "tensor_parallel/plain.py"} < set(FILES)
    assert {"zero/plain_stage1.py", "zero/plain_stage3.py"} < set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_it_is_a_page_long(name: str) -> None:
    assert len(FILES[name].read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.parametrize("name", FILES)
def test_it_says_what_it_is_and_whence(name: str) -> None:
    text = ast.get_docstring(ast.parse(FILES[name].read_text(encoding="utf-8"))) or ""
    assert "to read first" in text.splitlines()[0]
    assert "add" in text
    assert "Source" in text


@pytest.mark.parametrize("name", FILES)
def test_its_package_sends_the_reader_to_it(name: str) -> None:
    text = ast.get_docstring(ast.parse((FILES[name].parent / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert FILES[name].stem in text
    assert re.search(r"\bread .* first\b", text, re.IGNORECASE)

"""Private names of other packages stand in one module each: here is which, and whether they are still there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import torch
from IPython.core.compilerop import CachingCompiler
from nbgrader.preprocessors import AssignLatePenalties

import distlib

PACKAGE = Path(distlib.__file__).parent
PRIVATE = {
    r"torch\.(?:\w+\.)*_[a-zA-Z]|from torch\._": ["worlds/private_torch.py"],
    r"_filename_map": ["worlds/call_site.py"],  # of IPython: which cell a file name belongs to
    r"_check_late_penalty": ["classroom/grader/gradebook.py"],  # of nbgrader
}
# In a sandbox a module of torch is emptied by its path, which is no private name.


@pytest.mark.parametrize(("pattern", "owners"), PRIVATE.items())
def test_a_private_name_stands_in_one_module(pattern: str, owners: list[str]) -> None:
    users = [path for path in PACKAGE.rglob("*.py") if re.search(pattern, path.read_text(encoding="utf-8"))]
    assert [path.relative_to(PACKAGE).as_posix() for path in users] == owners


def test_torch_has_the_private_names() -> None:
    """Each line of the module that takes a name, by itself, so that all that are gone are named at once."""
    text = (PACKAGE / "worlds/private_torch.py").read_text(encoding="utf-8")
    names = re.findall(r"^\w+ = torch\.([\w.]+)$", text, re.MULTILINE)
    assert len(names) == 10
    assert [name for name in names if not _is_there(name)] == []
    options = torch.distributed.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    assert [name for name in ("_devices", "_threads", "_timeout") if not hasattr(options, name)] == []
    for name in importlib.import_module("distlib.worlds.private_torch").IMPORTED_LATE:
        assert importlib.util.find_spec(name)


def _is_there(name: str) -> bool:
    found: object = torch
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


def test_ipython_and_nbgrader_have_theirs() -> None:
    assert "_filename_map" in vars(CachingCompiler())
    assert hasattr(AssignLatePenalties, "_check_late_penalty")

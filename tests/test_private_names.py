"""Private names of other packages stand in one module each: here is which, and whether they are still there.

A name is private if it begins with one underscore, or is found below one that does. It is another package's if nothing
in ours is called so.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from IPython.core.compilerop import CachingCompiler
from nbgrader.converters.generate_feedback import GenerateFeedback
from nbgrader.preprocessors import AssignLatePenalties

import distlib
from tests.tools.source_trees import tree_of

PACKAGE = Path(distlib.__file__).parent
TORCH = "worlds/private_torch.py"
OWNERS = {  # a private name and where it is used, but for those of torch, which are all in one module
    "_filename_map": "worlds/call_site.py",  # of IPython: which cell a file name belongs to
    "_check_late_penalty": "classroom/grader/gradebook.py",  # of nbgrader, as the next two
    "_format_source": "classroom/grader/feedback_page.py",
    "_format_dest": "classroom/grader/feedback_page.py",
    "_is_function": "frameworks/tensorflow_graphs.py",  # of TensorFlow: the graph of a function that a graph calls
    "_get_function": "frameworks/tensorflow_graphs.py",
    "_vendor": "cli/anywhere.py",  # of pip: where nothing but pip is installed
}
# Python's own, which its documentation describes, or which are types and are there in every version that we run on.
OF_PYTHON = {
    "_exit": os,
    "_getframe": sys,
    "_current_frames": sys,
    "_run_exitfuncs": atexit,
    "_data": os.environ,
    "_SubParsersAction": argparse,
    "_ParameterKind": inspect,
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def given(tree: ast.Module) -> Iterator[str]:
    """The names that a module gives to something of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            if node.value.id in ("self", "cls"):
                yield node.attr


def used(tree: ast.Module) -> Iterator[str]:
    """The names that a module asks others for, as an attribute, by an import, or as the text that getattr takes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import):
            yield from (part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            yield from (str(word.value) for word in node.args[1:2] if isinstance(word, ast.Constant))


def test_a_private_name_stands_in_one_module() -> None:
    trees = {path.relative_to(PACKAGE).as_posix(): tree_of(path) for path in sorted(PACKAGE.rglob("*.py"))}
    ours = {name for tree in trees.values() for name in given(tree)}
    found: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for name in {name for name in used(tree) if is_private(name)} - ours - OF_PYTHON.keys():
            found.setdefault(name, []).append(path)
    elsewhere = {name: paths for name, paths in found.items() if paths != [TORCH]}
    assert elsewhere == {name: [path] for name, path in OWNERS.items()}


@pytest.mark.parametrize(
    "line",
    [
        "x = torch._C",
        "Variable._execution_engine.queue_callback(f)",
        "import torch._dynamo",
        "from torch.distributed import _functional_collectives",
        "from torch._utils import x",
        "getattr(shell, '_filename_map', {})",
        "options._timeout = 3",
    ],
)
def test_it_is_seen_however_it_is_written(line: str) -> None:
    tree = ast.parse(line)
    assert [name for name in used(tree) if is_private(name) and name not in set(given(tree))]


def test_torch_has_the_private_names() -> None:
    """Each line of the module that takes a name, by itself, so that all that are gone are named at once."""
    text = (PACKAGE / TORCH).read_text(encoding="utf-8")
    names = re.findall(r"^\w+ = torch\.([\w.]+)$", text, re.MULTILINE)
    assert len(names) == 12
    assert [name for name in names if not _is_there(name)] == []
    options = torch.distributed.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    assert [name for name in ("_devices", "_threads", "_timeout") if not hasattr(options, name)] == []
    assert hasattr(torch.ones(1), "_backward_hooks")
    for name in importlib.import_module("distlib.worlds.private_torch").IMPORTED_LATE:
        assert importlib.util.find_spec(name)


def _is_there(name: str) -> bool:
    found: object = torch
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


def test_others_have_theirs() -> None:
    assert "_filename_map" in vars(CachingCompiler())
    assert hasattr(AssignLatePenalties, "_check_late_penalty")
    assert hasattr(GenerateFeedback, "_format_source") and hasattr(GenerateFeedback, "_format_dest")
    assert all(hasattr(owner, name) for name, owner in OF_PYTHON.items())
    assert importlib.util.find_spec("pip._vendor")

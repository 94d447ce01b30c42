"""Private names of other packages stand in one module each: here is which, and whether they are still there.

A name is private if it begins with one underscore, or is found below one that does. It is ours if the module that uses
it gives it, or another one of ours that it imports. What a class overrides is the other package's all the same.
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
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from IPython.core.compilerop import CachingCompiler
from nbgrader.converters.generate_feedback import GenerateFeedback
from nbgrader.preprocessors import AssignLatePenalties

import distlib
from tests.tools.source_trees import module_of, tree_of

PACKAGE = Path(distlib.__file__).parent
TORCH = "worlds/private_torch.py"
NBGRADER = "classroom/grader/private_nbgrader.py"
OWNERS = {  # a private name and where it is used, but for those of torch and nbgrader
    "_filename_map": "worlds/call_site.py",  # of IPython: which cell a file name belongs to
    "_is_function": "frameworks/tensorflow_graphs.py",  # of TensorFlow: the graph of a function that a graph calls
    "_get_function": "frameworks/tensorflow_graphs.py",
    "_vendor": "cli/anywhere.py",  # of pip: where nothing but pip is installed
    "_venue": "checks/task.py",  # ours: the judge's stand-ins for functions have it, and checks know no judge
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
    "_fields": inspect.FullArgSpec,  # and every other named tuple
}


BY_TEXT = ("getattr", "setattr", "hasattr", "delattr")


def is_private(name: str) -> bool:
    """Not so `_repr_html_`: names with an underscore at both ends are those that IPython's documentation describes."""
    return name.startswith("_") and not name.startswith("__") and not name.endswith("_")


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
    """The names that a module asks others for, as an attribute, by an import, or as text: getattr(x, "_y"), x["_y"]."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import):
            yield from (part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BY_TEXT:
            yield from (str(word.value) for word in node.args[1:2] if isinstance(word, ast.Constant))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield str(node.slice.value)


def imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """What a module imports: what it calls that, the other module, and the name there; "" is the other one itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name, "") for alias in node.names)
            tops = {alias.name.partition(".")[0] for alias in node.names if not alias.asname}
            yield from ((top, top, "") for top in tops)


def not_given(modules: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """The private names that modules use and neither give nor find in one of them that they import, and who uses each.

    modules: by their full names.
    """
    gives = {module: set(given(tree)) for module, tree in modules.items()}
    found: dict[str, list[str]] = {}
    for module, tree in modules.items():
        others = {place for _, other, name in imported(tree) for place in (other, f"{other}.{name}")}
        ours = gives[module].union(*(gives.get(other, ()) for other in others))
        for name in {name for name in used(tree) if is_private(name)} - ours:
            found.setdefault(name, []).append(module)
    return found


def overridden(tree: ast.Module) -> Iterator[str]:
    """The private names of other packages' classes that classes of a module have, too."""
    places = {ours: (module, name) for ours, module, name in imported(tree) if not module.startswith("distlib")}
    for node in [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]:
        if names := {name for name in given(ast.Module(node.body, [])) if is_private(name)}:
            for base in map(ast.unparse, node.bases):
                first, _, rest = base.partition("[")[0].partition(".")
                if first in places:
                    of_base = dir(_found(*places[first], *filter(None, rest.split("."))))
                    yield from names.intersection(of_base)


def _found(module: str, *names: str) -> object:
    found: object = importlib.import_module(module)
    for name in filter(None, names):
        found = getattr(found, name)
    return found


def test_a_private_name_stands_in_one_module() -> None:
    trees = {path: tree_of(path) for path in sorted(PACKAGE.rglob("*.py"))}
    paths = {module_of(path): path.relative_to(PACKAGE).as_posix() for path in trees}
    found = not_given({module_of(path): tree for path, tree in trees.items()})
    for path, tree in trees.items():
        for name in overridden(tree):
            found.setdefault(name, []).append(module_of(path))
    where = {name: {paths[each] for each in found[name]} for name in found.keys() - OF_PYTHON.keys()}
    elsewhere = {name: files for name, files in where.items() if files not in ({TORCH}, {NBGRADER})}
    assert elsewhere == {name: {path} for name, path in OWNERS.items()}


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
        "vars(model)['_modules']",
        "hasattr(tensor, '_version')",
    ],
)
def test_it_is_seen_however_it_is_written(line: str) -> None:
    assert not_given({"distlib.here": ast.parse(line)})


def test_a_name_is_ours_only_where_it_is_known() -> None:
    sparse = ast.parse("class Rows:\n    def __init__(self):\n        self._version = 0")
    shards = ast.parse("def changed(tensor):\n    return tensor._version")
    knows = ast.parse("from distlib.sparse import Rows\ndef changed(rows):\n    return rows._version")
    modules = {"distlib.sparse": sparse, "distlib.shards": shards, "distlib.knows": knows}
    assert not_given(modules) == {"_version": ["distlib.shards"]}


@pytest.mark.parametrize("line", ["import torch.nn", "from torch import nn", "from torch.nn import Module as Model"])
def test_an_overridden_name_is_seen(line: str) -> None:
    base = {"import torch.nn": "torch.nn.Module", "from torch import nn": "nn.Module"}.get(line, "Model")
    tree = ast.parse(f"{line}\nclass Fixed({base}):\n    def _apply(self): ...\n    def _own(self): ...")
    assert list(overridden(tree)) == ["_apply"]


def test_torch_has_the_private_names() -> None:
    """Each line of the module that takes a name, by itself, so that all that are gone are named at once."""
    text = (PACKAGE / TORCH).read_text(encoding="utf-8")
    names = re.findall(r"^\w+ = torch\.([\w.]+)$", text, re.MULTILINE)
    assert len(names) == 14
    assert [name for name in names if not _is_there(name)] == []
    options = torch.distributed.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    assert [name for name in ("_devices", "_threads", "_timeout") if not hasattr(options, name)] == []
    assert hasattr(torch.ones(1), "_backward_hooks") and hasattr(torch.ones(1), "_version")
    assert hasattr(torch.nn.Module, "_apply")
    private = importlib.import_module("distlib.worlds.private_torch")
    for name in private.IMPORTED_LATE:
        assert importlib.util.find_spec(name)
    assert callable(importlib.import_module(private.RULES_OF_COMPILER).add)


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

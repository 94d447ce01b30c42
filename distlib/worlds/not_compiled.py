"""torch.compile leaves the library's own files to Python: a collective is a break in the graph.

Else it traces into sockets and locks, warns of each, and fails somewhere in them. torch has a list of files that it
does not compile. It is there as soon as somebody imports the compiler, which takes seconds, so this waits until then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from distlib.worlds import private_torch

_PASSES_ON = True  # it runs in the import of something else, and is no help to an answer
_PARTS = ("arguments", "collectives", "communicator", "network", "partition", "tensor_kinds", "trace", "worlds")


def leave_to_python() -> None:
    """Have torch.compile of this process leave the parts of the library alone that pass messages."""
    if private_torch.RULES_OF_COMPILER in sys.modules:
        _tell()
    elif not any(isinstance(each, _WhenImported) for each in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())


@cache  # torch's list takes every entry twice, and makes one pattern of them all each time
def _tell() -> None:
    for part in _PARTS:
        private_torch.leave_to_python(f"distlib.{part}")


class _WhenImported(MetaPathFinder):
    """Has the compiler told right after its rules are imported, by whoever imports them."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != private_torch.RULES_OF_COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_tell(module: ModuleType) -> None:
                run(module)
                _tell()

            spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec

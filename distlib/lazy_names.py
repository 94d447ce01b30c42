"""Names of a package that are loaded when they are first used. `__init__.pyi`, which mypy reads, says where each is.

    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)          # in its __init__.py

    from .worlds.real.world import World as World                           # in its __init__.pyi
    from . import launch as launch                                          # a module

It needs nothing but Python, so that `import distlib` works, and can say what is missing, before anything is installed.
"""

import ast
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path


def lazy_names(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package. No name may be called as a module next to the stub.

    Args: package: its `__name__`; file: its `__file__`, next to which `__init__.pyi` is.

    `__getattr__` raises
        AttributeError: there is no such name; names like it are given.
        ImportError: its module can't be imported; says so where a file next to the script has the name of a library.
    """
    homes = homes_in(Path(file).with_suffix(".pyi"))

    def get(name: str) -> object:
        if name not in homes:
            alike = " or ".join(get_close_matches(name, homes, n=3, cutoff=0.7))
            raise AttributeError(
                f"{package} has no {name!r}" + (f"; did you mean {alike}?" if alike else ""), name=name
            )
        try:
            module = import_module(homes[name], package)
        except Exception as error:
            from distlib.shadowing import error_of_import

            raise error_of_import(error) from error
        is_module = module.__name__ == f"{package}.{name}"
        found = module if is_module else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted(homes), sorted(homes)


def homes_in(stub: Path) -> dict[str, str]:
    """By the names of a stub, the module that each is in, or that it is, relative to the package: ".ddp.checks"."""
    homes: dict[str, str] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            homes |= {each.name: f".{node.module or each.name}" for each in node.names}
    return homes

"""What stands in a sandbox where the library has something that a rank must not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

supplied_now: dict[str, Callable[..., Any]] = {}  # what a check supplies while it runs, by name


def absent_function(name: str) -> Callable[..., Any]:
    """A function that raises RuntimeError when it is called: the library's `name` is not there.

    Only while a check supplies a function of this name, it is that one.

    Raises:
        AttributeError: `name` is one of Python's own, such as __path__.
    """
    if name.startswith("__"):
        raise AttributeError(name)

    def function(*args: object, **kwargs: object) -> Any:
        if name in supplied_now:
            return supplied_now[name](*args, **kwargs)
        raise RuntimeError(f"the library's {name} is not there while your own function is graded")

    function.__name__ = function.__qualname__ = name
    return function


def absent_class(name: str) -> type:
    """A class that raises RuntimeError when an object of it is made, or when one of its methods is called."""

    def refuse(self: object, *args: object, **kwargs: object) -> Any:
        raise RuntimeError(f"torch's {name} is not there while your own function is graded")

    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), dict.fromkeys(("__init__", "__iter__", "__len__", "set_epoch"), refuse))


class Nothing:
    """Takes every call and every attribute, and does nothing. Stands for figures and checks."""

    def __call__(self, *args: object, **kwargs: object) -> Nothing:
        return self

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return "(not shown while your work is graded)"


class AbsentModules(MetaPathFinder, Loader):
    """Lets modules be imported that have no file, for sys.meta_path.

    Args:
        names: their full names; one that ends with a dot is a package, and so is all that is below it.
        attribute: gives what stands for an attribute of them, by its name.
    """

    def __init__(self, names: Sequence[str], attribute: Callable[[str], object]) -> None:
        self._names, self._attribute = names, attribute
        self._packages = tuple(name for name in names if name.endswith("."))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_package = f"{fullname}.".startswith(self._packages)
        is_known = is_package or fullname in self._names
        return spec_from_loader(fullname, self, is_package=is_package) if is_known else None

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__getattr__"] = self._attribute

"""How functions with a cache travel, which can't be pickled: as the function inside, with an empty cache over there.

@lru_cache, @cache          the same limit, nothing in it yet
@singledispatch             with all that is registered
@cached_property            of a class that travels by value; what an object has cached, travels with the object
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

_Cached = type(functools.lru_cache(lambda: None))


def reduce_cached(value: object) -> Any:
    """What a pickler's `reducer_override` returns for `value`; NotImplemented for what is none of these."""
    if isinstance(value, functools.cached_property):
        return _property_again, (value.func, value.attrname)
    if isinstance(value, _Cached) and not _can_be_imported(value):
        parameters = value.cache_parameters()
        return _cached_again, (value.__wrapped__, parameters["maxsize"], parameters["typed"])
    if isinstance(value, FunctionType) and _dispatches(value) and not _can_be_imported(value):
        return _dispatching_again, (value.__wrapped__, list(value.registry.items()))  # type: ignore[attr-defined]
    return NotImplemented


def _dispatches(function: FunctionType) -> bool:
    return function.__code__ is _DISPATCHES and hasattr(function, "registry")


def _can_be_imported(function: Any) -> bool:
    """Whether a module has it under its own name, so that the other end has it, too."""
    found: Any = None if function.__module__ == "__main__" else sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _cached_again(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


def _property_again(function: Callable[[Any], Any], name: str | None) -> Any:
    made = functools.cached_property(function)
    if name is not None:
        made.__set_name__(object, name)
    return made


def _dispatching_again(function: Callable[..., Any], registered: list[tuple[type, Callable[..., Any]]]) -> Any:
    made = functools.singledispatch(function)
    for kind, implementation in registered:
        if kind is not object:
            made.register(kind, implementation)
    return made


_DISPATCHES = functools.singledispatch(lambda value: value).__code__  # type: ignore[attr-defined]  # of every one of them

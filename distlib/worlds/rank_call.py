"""The call of a rank's function: what comes of one that is a generator, and of one that is a coroutine.

def f(comm): …; yield x        the result is the list of what it yields
async def f(comm): …           refused: nobody would wait for it; asyncio.run(f(comm)) inside a plain function does
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from distlib.arguments import short

_ADVICE = "write a plain function, def, and call asyncio.run(…) inside it where it has to wait for coroutines"


def check_is_plain(function: Callable[..., Any]) -> None:
    """Check that a rank's function is no `async def`. Raises TypeError."""
    inner = inspect.unwrap(function) if inspect.isfunction(function) else function
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        name = getattr(function, "__name__", short(function))
        raise TypeError(f"run expects a function of (comm, …), got {name}, which is async def: {_ADVICE}")


def result_of(value: object) -> object:
    """The result of a rank's function that has returned `value`.

    Raises:
        TypeError: a coroutine, or another thing that somebody would have to await.
    """
    if isinstance(value, types.GeneratorType):
        return list(value)
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()  # else Python warns, of a line of the library, that nobody has awaited it
        raise TypeError(f"the function of a rank returned a {type(value).__name__}, which nobody awaits: {_ADVICE}")
    return value

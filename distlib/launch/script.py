"""What is to run: a function of a script, and its arguments, from the command line."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distlib.launch.environment import LaunchError

if TYPE_CHECKING:
    from distlib.communicator import Communicator  # with torch, which takes seconds to import

_MODULE = "distlib_script"  # the name under which ranks import it; not __main__, so that what stands below that is left


@dataclass(frozen=True)
class Target:
    """A function of a script, with the arguments that it is given after the communicator.

    Attributes:
        path: the script.
        function: its name.
        args, kwargs: Python values; none where the words have options.
        words: all that stands behind it on the command line: sys.argv of the script.
    """

    path: Path
    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    words: tuple[str, ...] = ()


def read_target(text: str, words: Sequence[str]) -> Target:
    """What `distlib launch script.py:function 100 rate=0.1 digits` means.

    Args:
        text: such as "script.py:function".
        words: arguments; what Python reads as a value (100, 0.1, [1, 2], None) is that value, all else is text.
            name=value is an argument with that name. If one of them is an option (--lr, -v), all of them are for the
            script itself, which finds them in sys.argv, as under torchrun; the function gets the communicator alone.

    Raises:
        LaunchError: it does not look like this, or there is no such script.
    """
    file, _, function = text.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise LaunchError(f"expected what to run as script.py:function, got {text!r}.")
    path = Path(file).absolute()
    if not path.is_file():
        raise LaunchError(f"there is no script {path}.")
    if any(map(_is_option, words)):
        return Target(path, function, (), {}, tuple(words))
    named = [word.partition("=") for word in words if _is_named(word)]
    positional = tuple(_value(word) for word in words if not _is_named(word))
    return Target(path, function, positional, {name: _value(value) for name, _, value in named}, tuple(words))


def call_target(comm: Communicator, target: Target) -> int:
    """On a rank: load the script, and call its function with the communicator. The script has its words in sys.argv.

    Returns REQUEUE if the function does (see notice), else 0: all else that it returns is dropped.

    Raises:
        AttributeError: the script has no such function.
        TypeError: the function does not take these arguments.
        whatever the script or the function raises.
    """
    sys.argv[:] = [str(target.path), *target.words]
    module = _load(target.path)
    function = getattr(module, target.function, None)
    if not callable(function):
        functions = [each for each in vars(module).values() if isinstance(each, types.FunctionType)]
        names = [function.__name__ for function in functions if function.__module__ == _MODULE]
        raise AttributeError(
            f"{target.path.name} has no function {target.function}; it has {', '.join(names) or 'none'}"
        )
    _check_call(function, target)
    from distlib.launch.notice import status_of  # with torch, too

    result = function(comm, *target.args, **target.kwargs)
    if isinstance(result, types.GeneratorType):
        for _ in result:
            pass
    return status_of([result])


def _load(path: Path) -> types.ModuleType:
    sys.path.insert(0, str(path.parent))  # as for `python script.py`
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[_MODULE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_call(function: Callable[..., Any], target: Target) -> None:
    """Say how arguments are given, where they don't fit; a function that can't be asked is left to complain itself."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, *target.args, **target.kwargs)
    except TypeError as error:
        text = f"{target.function}{signature} can't be called with what stands behind it on the command line: {error}."
        if any(map(_is_option, target.words)):
            text += (
                " Options are for the script, which finds all words in sys.argv; the function gets the communicator "
                f"alone. For arguments of the function, write {_as_named(target.words)}."
            )
        raise TypeError(text) from None


def _as_named(words: Sequence[str]) -> str:
    """ "lr=0.1 fast=True" for ["--lr", "0.1", "--fast"]."""
    told = []
    for word, following in zip(words, [*words[1:], "-"], strict=True):
        name, equals, value = word.lstrip("-").replace("-", "_").partition("=")
        if _is_option(word):
            told.append(f"{name}={value if equals else 'True' if following.startswith('-') else following}")
    return " ".join(told)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and isinstance(_value(word), str)


def _is_named(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text

"""Helpers: functions that a check brings itself, so that one wrong part of an exercise does not spoil the next.

A student's `ring_all_reduce` may call their own `ring_reduce_scatter`, which may be wrong. While it is checked, that
name leads to our function. Messages that this sends count as the student's, because the check has supplied it.

    @helper(in_place="tensor")
    def ring_reduce_scatter(comm: Communicator, tensor: torch.Tensor) -> None: …

    @task("comm", "tensor", helpers=[ring_reduce_scatter])

A helper that only computes is declared with `@helper()`. It gets plain values, and returns some. When a class is
graded, helpers run at the judge's side, where only those of the task that is played can be called: what they are given
is data from a stranger then, and they say so in a ValueError or TypeError if it makes no sense.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec, TypeVar

from distlib.checks.helper_form import ITSELF, HelperForm
from distlib.checks.student_communicator import noted
from distlib.communicator import Communicator, Work

__decorated__ = "called"  # so that a call site names the helper, and not `Helper.__call__`

P = ParamSpec("P")
R = TypeVar("R")
_MISSING = object()


class Helper(Generic[P, R]):
    """A function that a check supplies. A student calls it as it is written. Made by `helper`.

    Attributes:
        name: as a student's code calls it.
        form: what a rank in a sandbox knows of it.
        origin: how a message that it sent is marked in a trace: the `via` of its call site.
        origins: these marks, also that of the library's function which does the same.
    """

    def __init__(self, code: Callable[P, R], form: HelperForm, same_as: Callable[..., object] | None) -> None:
        functools.update_wrapper(self, code)
        self.name, self.form, self._code, self._signature = form.name, form, code, inspect.signature(code)
        self.origin = _full_name(code)
        self.origins = (self.origin, *([_full_name(same_as)] if same_as else []))

    def __call__(called, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = called._signature.bind(*args, **kwargs).arguments
        except TypeError:
            return called._code(*args, **kwargs)  # Python says what is wrong
        comm = given.pop("comm", None)
        inside = called.form.communicator(comm) if called.form.takes_comm else None
        made: Any = called.on_tensors(inside, called.form.with_tensors(given))
        if isinstance(made, Work):
            made = noted(comm, made, called.name)
        return made

    def on_tensors(self, comm: Communicator | None, given: Mapping[str, Any]) -> Any:
        """Call it with arguments by name, with tensors in the place of a model."""
        code: Callable[..., Any] = self._code
        return code(**{**given, "comm": comm}) if self.form.takes_comm else code(**given)

    def __reduce__(self) -> str:
        return self.name  # ranks import it

    def __repr__(self) -> str:
        return f"<helper {self.origin}>"


def helper(
    *, in_place: str = "", tensors: str = ITSELF, same_as: Callable[..., object] | None = None
) -> Callable[[Callable[P, R]], Helper[P, R]]:
    """Make a function one that a check may supply. The name of its first parameter says if it communicates: "comm".

    It may return the handle of what goes on in the background. When that is waited for, `in_place` is changed.

    Args:
        in_place: the parameter that it changes.
        tensors: what of that: `helper_form.ITSELF`, or of a model its PARAMETERS_AND_BUFFERS, or its GRADIENTS. The
            function is handed the list of these tensors in the model's place.
        same_as: the library's function that does the same. A student may call that as well.

    Raises:
        TypeError: "comm" is not the first parameter, there is none that is called `in_place`, or one is not called by
            its name (`*args`, `**kwargs`, or what stands before a `/`).
    """

    def declare(code: Callable[P, R]) -> Helper[P, R]:
        parameters = list(inspect.signature(code).parameters.values())
        names = [each.name for each in parameters]
        if any(each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in parameters):
            raise TypeError(
                f"helper {code.__name__}: expected parameters that each have a name, got {', '.join(names)}"
            )
        if "comm" in names[1:] or (in_place and in_place not in names):
            wanted = ["comm first", *([in_place] if in_place else [])]
            raise TypeError(f"helper {code.__name__}: expected {' and '.join(wanted)}, got {', '.join(names)}")
        return Helper(code, HelperForm(code.__name__, _as_written(parameters), in_place, tensors), same_as)

    return declare


def _as_written(parameters: Sequence[inspect.Parameter]) -> tuple[str, ...]:
    """Names, with "=" for a default and a "*" before those that are only given by name."""
    texts = [each.name + ("" if each.default is each.empty else "=") for each in parameters]
    by_name = next((k for k, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY), None)
    return tuple(texts if by_name is None else [*texts[:by_name], "*", *texts[by_name:]])


def _full_name(code: Callable[..., object]) -> str:
    return f"{code.__module__}.{code.__qualname__}"


def checked_helpers(helpers: Sequence[Helper[..., Any]]) -> tuple[Helper[..., Any], ...]:
    """The helpers of a task.

    Raises:
        TypeError: one of them is not declared as such, or two have the same name.
    """
    for each in helpers:
        if not isinstance(each, Helper):
            raise TypeError(f"helpers: expected functions with @helper(…) above them, got {each!r}")
    names = [each.name for each in helpers]
    if len(set(names)) < len(names):
        raise TypeError(f"helpers: expected one of each name, got {', '.join(names)}")
    return tuple(helpers)


@contextmanager
def supplied(answer: Callable[..., object], helpers: Sequence[Helper[..., Any]]) -> Iterator[None]:
    """For one block, let names in the module (or notebook) of a student's function lead to our helpers.

    Not replaced: a copy under another name (`scatter = ring_reduce_scatter`), and what a function uses that was
    imported from a file, because the ranks import that file themselves.
    """
    scope = scope_of(answer)
    before = {each.name: scope.get(each.name, _MISSING) for each in helpers}
    scope.update({each.name: each for each in helpers})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _MISSING:
                del scope[name]
            else:
                scope[name] = value


def scope_of(answer: object) -> dict[str, Any]:
    """The names of the module or notebook in which a function was written, or the methods of a class.

    A decorator of a library's, such as torch.no_grad, is looked through.
    """
    if not isinstance(answer, type):
        return getattr(inspect.unwrap(answer), "__globals__", {}) if callable(answer) else {}
    methods = (getattr(value, "__func__", value) for value in vars(answer).values())
    scopes = (scope_of(method) for method in methods if inspect.isroutine(method))
    return next((scope for scope in scopes if scope), {})

"""The rule for functions that only compute: called with arguments, they return a value, which must be the right one.

    yield called(0, 0.1, facts=0.05)                                   a case: function(0, 0.1)
    yield returns(seen, seen.facts, {"that is the full rate.": 0.1})   in its judge: the right value, and usual mistakes

Numbers are compared to nine digits, tensors to the rounding of their dtype, all else exactly. A tuple is as good as a
list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.plays.calls import call
from distlib.checks.remark import Remark
from distlib.checks.rules.values import Mistakes, explain_form
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences

say = Sentences(__file__)
_LONGEST = 60  # characters of an argument in a title
LIVES_ON = say("lives_on")


def called(*args: Any, facts: Any = None, title: str = "", **kwargs: Any) -> Case:
    """A case: the student's function is called with these arguments, once, on one rank.

    Args:
        args, kwargs: plain values and tensors.
        facts: whatever the judge wants to remember, such as the right value.
        title: as of `Case`; by default the arguments as they are written in a call.
    """
    given = [shown(value) for value in args] + [f"{name}={shown(value)}" for name, value in kwargs.items()]
    cut = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …" for text in given]
    return Case(title or f"({', '.join(cut)})", call, [{"args": list(args), "kwargs": kwargs}], facts)


def returns(
    seen: Seen, right: Any, mistakes: Mistakes | Callable[[], Mistakes] | None = None, otherwise: str = ""
) -> Remark | None:
    """The function must have returned `right`.

    Args:
        mistakes: from the words for a usual mistake to the value that it gives; or a function that computes them.
        otherwise: the cause where none of them fits.
    """
    found = seen[0]
    if same(found, right):
        return None
    if found is None:
        return say.remark("none", right=shown(right))
    table = (mistakes() if callable(mistakes) else mistakes) or {}
    if isinstance(right, bool) and not isinstance(found, bool):
        otherwise = say("true_or_false")
    known = (words for words, value in table.items() if same(found, value))
    cause = next(known, "") or explain_form(found, right) or otherwise
    return say.remark("wrong_value", f"expected {shown(right)}", f"found    {shown(found)}", cause=cause)


def nobody_returned(found: Sequence[Any], wanted: str, cause: str = "") -> Remark | None:
    """At least one of several ranks must have returned something: `found` by rank. One rank alone is not looked at.

    Args:
        wanted: what was expected: "a tensor from each".
        cause: goes on after "the function ends without a return".
    """
    if len(found) < 2 or any(each is not None for each in found):
        return None
    return say.remark("nobody", wanted=wanted, cause=cause)


def not_a_number(what: str, found: Any) -> Remark | None:
    """What an annotation calls a float or an int must be a number of Python's: a tensor that holds one is none.

    Where a text says "number", or there is no annotation, both are as good, and this is not asked.
    """
    if not isinstance(found, torch.Tensor):
        return None
    kind = "a float" if found.is_floating_point() else "an int"
    return say.remark("tensor_for_number", what=what, kind=kind)


def every_call(found: Any, judge: Callable[[Any], Iterable[Remark | None]]) -> Iterator[Remark | None]:
    """What `plays.calls.call_twice` has found: each call must return what `judge` finds right, not only the first."""
    is_both = isinstance(found, dict) and found.keys() == {"first", "again"}
    yield from judge(found["first"] if is_both else found)
    for remark in judge(found["again"]) if is_both else ():
        if remark is not None:
            yield say.remark("once_more", *remark.details, seen=remark.seen, lives_on=LIVES_ON)


def same(found: Any, expected: Any) -> bool:
    """Whether a value is the expected one."""
    if isinstance(expected, torch.Tensor):
        is_alike = isinstance(found, torch.Tensor) and found.shape == expected.shape and found.dtype == expected.dtype
        return is_alike and torch.allclose(found, expected)
    if isinstance(found, torch.Tensor):
        return False
    if isinstance(expected, list | tuple):
        is_list = isinstance(found, list | tuple) and len(found) == len(expected)
        return is_list and all(map(same, found, expected))
    if isinstance(expected, dict):
        is_dict = isinstance(found, dict) and found.keys() == expected.keys()
        return is_dict and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, bool) or isinstance(found, bool):
        return found is expected
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == expected)


def shown(value: Any) -> str:
    """A value as a student reads it, of limited length."""
    if isinstance(value, dict) and list(value) == ["type"]:
        return f"a value of type {value['type']}"
    text = f"{value:.10g}" if isinstance(value, float) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 4 * _LONGEST else f"{text[: 4 * _LONGEST]} …"


def type_of(value: Any) -> str:
    """The type of what a play returned, by name: "int", "tuple", "Tensor"."""
    is_other = isinstance(value, dict) and list(value) == ["type"]
    return str(value["type"]) if is_other else type(value).__name__

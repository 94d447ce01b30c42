"""Rules about values: is it the right one, the one that a usual mistake gives, or still what it was before?

    holds("on rank 1 the part", found, right, {"this is the whole batch. Return only …": batch, …})

How both are shown to a student:

expected [0.5, -1.25, 3], shape [3], float32
found    [1, -2.5, 6], shape [3], float32
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from distlib.checks.formatting import dtype_name
from distlib.checks.remark import Remark
from distlib.checks.sentences import Sentences

say = Sentences(__file__)
SHOWN = 6  # numbers of a tensor that are written out
Mistakes = Mapping[str, Any]  # from the words for a mistake to the value that it gives, or to a list of such values


def holds(
    what: str,
    found: Any,
    right: Any,
    mistakes: Mistakes | Callable[[], Mistakes] | None = None,
    *,
    otherwise: str = "",
    is_wrong: str = " is wrong.",
    same: Callable[[Any, Any], bool] | None = None,
) -> Remark | None:
    """A value must be the right one.

    Args:
        what: names it: "on rank 1 the part".
        mistakes: the values that usual mistakes give, or a function that computes them (only if `found` is wrong).
        otherwise: the cause where none of them fits.
        is_wrong: goes on after `what`.
        same: how values are compared, those of mistakes, too; by default exactly (see `is_equal`), those of mistakes
            closely.
    """
    if (same or is_equal)(found, right):
        return None
    table = (mistakes() if callable(mistakes) else mistakes) or {}
    cause = explain_dtype(found, right) or known(found, table, same) or explain_form(found, right) or otherwise
    return Remark(what + is_wrong, compared(right, found), cause)


def untouched(what: str, found: Any, before: Any, cause: str) -> Remark | None:
    """A value must be what it was before."""
    return None if is_equal(found, before) else say.remark("changed", *compared(before, found), what=what, cause=cause)


def known(found: Any, mistakes: Mistakes, same: Callable[[Any, Any], bool] | None = None) -> str:
    """The words of the first mistake that gives this value; empty if none does."""
    same = same or partial(is_close, absolute=1e-8, any_dtype=True)
    for words, value in mistakes.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None and same(found, each):
                return words
    return ""


def explain_dtype(found: Any, right: Any) -> str:
    """That only the dtype is wrong; empty if it is right, or if the numbers are wrong, too."""
    if not isinstance(found, torch.Tensor) or not isinstance(right, torch.Tensor) or found.dtype == right.dtype:
        return ""
    is_right = is_close(found, right, relative=1e-2, absolute=1e-6, any_dtype=True)
    return say("only_dtype", right=dtype_name(right.dtype), found=dtype_name(found.dtype)) if is_right else ""


def explain_form(found: Any, right: Any) -> str:
    """What is wrong with type, dtype or shape; empty if nothing is, or if one of both is None."""
    if isinstance(right, int | float):
        return explain_item(found)
    if found is None or not isinstance(right, torch.Tensor):
        return ""
    if isinstance(found, list | tuple) and all(isinstance(part, torch.Tensor) for part in found):
        return say("list")
    if not isinstance(found, torch.Tensor):
        return say("sender_taken" if type(found) is int else "no_tensor")
    if found.shape != right.shape:
        return say("shape", right=list(right.shape), found=list(found.shape))
    if found.dtype != right.dtype:
        return say("dtype", dtype=right.dtype)
    return ""


def explain_item(found: Any) -> str:
    """What to say of a tensor where a Python number is due; empty if it is none.

    One rule for all exercises: a function whose text asks for a float returns a Python number. Where it asks for a
    number or a share, a tensor with one number is as good.
    """
    return say("item") if isinstance(found, torch.Tensor) and found.numel() == 1 else ""


def explain_average(found: object, right: torch.Tensor) -> str:
    """What is wrong with the numbers of an average: rounded, or divided by another number; empty if neither is."""
    if not isinstance(found, torch.Tensor) or (found.shape, found.dtype) != (right.shape, right.dtype):
        return ""
    if not right.any() or not found.any():
        return ""
    if torch.equal(found, found.round()):
        return say("whole_numbers")
    if (found - right).abs().max() < 0.01 * right.abs().max():
        return say("nearly_average")
    found = found.to(right.dtype)
    factor = float((found * right).sum() / right.square().sum())
    if right.numel() > 1 and torch.allclose(found, factor * right, rtol=1e-4):
        return say("times_the_average", factor=factor)
    return ""


def explain_factor(found: object, right: torch.Tensor, then: str = "") -> str:
    """ "this is 3 times what it should be. ", if it is; empty if not, or if there is only one number to go by.

    Where all numbers are nearly right, that is a rounding, and called so. `then`: what goes on after it, as a sentence
    of its own, or stands alone.
    """
    factor = _factor_of(found, right)
    return factor + then[:1].upper() + then[1:] if factor else then


def _factor_of(found: object, right: torch.Tensor) -> str:
    if not isinstance(found, torch.Tensor) or found.shape != right.shape or right.numel() < 2 or not right.any():
        return ""
    found = found.to(right.dtype)
    factor = float((found * right).sum() / right.square().sum())
    is_multiple = factor and torch.allclose(found, factor * right, rtol=1e-5)
    if is_multiple and math.isclose(factor, 1, rel_tol=1e-3):
        return f"{say('almost_right')} "
    return f"{say('times', factor=factor)} " if is_multiple else ""


def is_equal(found: object, expected: object) -> bool:
    """Whether both are tensors of one shape and dtype with the same numbers, or both are None."""
    if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return found is None and expected is None
    return found.dtype == expected.dtype and torch.equal(found, expected)


def is_close(
    found: object, expected: object, *, relative: float = 1e-9, absolute: float = 1e-12, any_dtype: bool = False
) -> bool:
    """Whether both are tensors of one shape whose numbers differ by rounding at most, or both are None.

    Args:
        relative, absolute: how far a number may be from the expected one: absolute + relative * |expected|.
        any_dtype: whether the dtypes may differ.
    """
    if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return found is None and expected is None
    if found.shape != expected.shape or (found.dtype != expected.dtype and not any_dtype):
        return False
    return torch.allclose(found.double(), expected.double(), rtol=relative, atol=absolute, equal_nan=True)


def is_same_number(one: object, other: object) -> bool:
    """Whether both are floats that differ by rounding at most, or both are the same object, such as None."""
    return one is other or (isinstance(one, float) and isinstance(other, float) and math.isclose(one, other))


def first_numbers(values: torch.Tensor, digits: int = 6) -> str:
    """The first numbers of a tensor, to this many digits: "[0.5, -1.25, …]"."""
    flat = values.flatten()
    texts = [str(number) if isinstance(number, int) else f"{number:.{digits}g}" for number in flat[:SHOWN].tolist()]
    return f"[{', '.join(texts)}{', …' if len(flat) > SHOWN else ''}]"


def in_a_line(value: Any, digits: int = 5) -> str:
    """A value in a line: "[0.5, -1.25, …], shape [4, 2], float32" for a tensor, "a list" for a list."""
    if isinstance(value, torch.Tensor):
        return f"{first_numbers(value, digits)}, shape {list(value.shape)}, {dtype_name(value.dtype)}"
    return f"a {type(value).__name__}" if isinstance(value, dict | list | tuple) else str(value)


def compared(expected: Any, found: Any) -> tuple[str, str]:
    """The two lines of a remark that show both; of tensors that begin alike, the elements from where they differ.

    Both lines differ: numbers that are nearly equal everywhere are written out with more digits.
    """
    start, digits = _same_up_to(expected, found)
    if start < SHOWN:
        return f"expected {in_a_line(expected, digits)}", f"found    {in_a_line(found, digits)}"
    late = [first_numbers(value.flatten()[start:], digits) for value in (expected, found)]
    return f"expected {late[0]}   from element {start} on", f"found    {late[1]}"


def _same_up_to(expected: Any, found: Any) -> tuple[int, int]:
    """The first element that differs, or 0 if that says nothing; and the digits that show it."""
    if not (isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor) and expected.shape == found.shape):
        return 0, 5
    if expected.dtype != found.dtype or not len(differ := (expected != found).flatten().nonzero()):
        return 0, 5
    far = (~torch.isclose(found, expected, rtol=1e-4, atol=0, equal_nan=True)).flatten().nonzero()
    return (int(far[0]), 5) if len(far) else (int(differ[0]), 12)

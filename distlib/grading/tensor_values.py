"""How checks compare tensors with what is expected, and how they show both to a student.

expected [0.5, -1.25, 3], shape [3], float32
found    [1, -2.5, 6], shape [3], float32
"""

from __future__ import annotations

from typing import Any

import torch

from distlib.grading.case import dtype_name

SHOWN = 6  # numbers of a tensor that are written out


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
    return torch.allclose(found.double(), expected.double(), rtol=relative, atol=absolute)


def first_numbers(values: torch.Tensor, digits: int = 6) -> str:
    """The first numbers of a tensor, to this many digits: "[0.5, -1.25, …]"."""
    flat = values.flatten()
    texts = [str(number) if isinstance(number, int) else f"{number:.{digits}g}" for number in flat[:SHOWN].tolist()]
    return f"[{', '.join(texts)}{', …' if len(flat) > SHOWN else ''}]"


def shown(value: Any) -> str:
    """A value in a line: "[0.5, -1.25, …], shape [4, 2], float32" for a tensor, "a list" for a list."""
    if isinstance(value, torch.Tensor):
        return f"{first_numbers(value, digits=5)}, shape {list(value.shape)}, {dtype_name(value.dtype)}"
    return f"a {type(value).__name__}" if isinstance(value, dict | list | tuple) else str(value)


def compared(expected: Any, found: Any) -> tuple[str, str]:
    """The two lines of a remark that show both."""
    return f"expected {shown(expected)}", f"found    {shown(found)}"

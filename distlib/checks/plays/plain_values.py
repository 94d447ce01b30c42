"""What a play returns, as values that travel between processes; and which of its inputs are not as they were."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch


def plain(value: object) -> object:
    """Numbers, text, lists, tuples, dicts and tensors as they are, tensors as copies without their history.

    Numbers and truth values of numpy's become Python's: a comparison of its numbers gives one.

    Anything else becomes {"type": the name of its type}, which is a dict that no function returns by chance.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # of a subclass, too
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict | Mapping):  # a dict needs no look into Mapping, which takes long
        return {plain_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):  # numpy's
        return int(value)
    return float(value) if isinstance(value, Real) else {"type": type(value).__name__}


def plain_key(key: object) -> int | str:
    """A key of a dict, as a number or text."""
    if type(key) in (int, str):
        return key  # type: ignore[return-value]
    return int(key) if isinstance(key, Integral) else str(key)


def changed_inputs(before: Any, after: Any) -> dict[str, object]:
    """What inputs hold now that are not as they were, by name; of those in "args" by number, in "kwargs" by name."""
    if not isinstance(before, Mapping):
        return {}
    old, new = _flat(before), _flat(after)
    return {name: plain(new.get(name)) for name in old if not is_same(old[name], new.get(name))}


def _flat(inputs: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in inputs.items() if name not in ("args", "kwargs")}
    return {**others, **{str(k): value for k, value in enumerate(inputs.get("args", ()))}, **inputs.get("kwargs", {})}


def is_same(one: Any, other: Any) -> bool:
    """Whether two values of inputs are equal in type and content; NaN is the same as NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        is_alike = (one.shape, one.dtype, one.requires_grad) == (other.shape, other.dtype, other.requires_grad)
        return is_alike and bool(torch.all((one == other) | ((one != one) & (other != other))))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    return bool(one == other) or one != one

"""What a play returns, as values that travel between processes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
import torch


def plain(value: object) -> object:
    """Numbers, text, lists, tuples, dicts and tensors as they are, tensors as copies without their history.

    Numbers and truth values of numpy's become Python's: a comparison of its numbers gives one.

    Anything else becomes {"type": the name of its type}, which is a dict that no function returns by chance.
    """
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # of a subclass, too
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        return {plain_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):  # numpy's
        return int(value)
    return float(value) if isinstance(value, Real) else {"type": type(value).__name__}


def plain_key(key: object) -> int | str:
    """A key of a dict, as a number or text."""
    return int(key) if isinstance(key, Integral) else str(key)

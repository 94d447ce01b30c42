"""The tensors in what a module, or an operation of torch, is given or returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value: in lists, tuples, dicts, and attributes of objects, however deep."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif hasattr(value, "__dict__"):
        yield from tensors_in(vars(value))

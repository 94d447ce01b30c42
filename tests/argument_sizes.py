"""Sizes of what a function is called with, noted while it runs: numbers, lengths of lists, dimensions of tensors."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch

GIVEN: dict[str, set[float]] = defaultdict(set)  # to the answer that runs in this process: by size, its values
_DEPTH = 4


def given(method: str, arguments: Mapping[str, Any]) -> None:
    """Note the sizes of what a function is called with. `method`: what their names begin with."""
    for name, value in [each for each in arguments.items() if each[0] != "self"]:
        for size, number in sizes_of(name, value):
            GIVEN[f"{method}{size}"].add(number)


def sizes_of(name: str, value: Any, depth: int = _DEPTH) -> Iterator[tuple[str, float]]:
    """Names and values of the sizes of an argument."""
    if isinstance(value, torch.nn.Module):
        value = list(value.parameters())
    if isinstance(value, bool) or depth == 0:
        return
    if isinstance(value, int | float):
        yield name, value
    elif isinstance(getattr(value, "shape", None), tuple | list) and hasattr(value, "dtype"):
        yield f"{name}.ndim", len(value.shape)
        yield from ((f"{name}.shape[{i}]", number) for i, number in enumerate(value.shape) if type(number) is int)
    elif isinstance(value, Mapping | list | tuple | set):
        yield f"len({name})", len(value)
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from sizes_of(f"{name}[]", each, depth - 1)
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield from sizes_of(f"{name}.{each.name}", getattr(value, each.name), depth - 1)
    elif hasattr(value, "world_size"):  # not of a cluster, which is a dataclass: an answer may not ask that
        yield f"{name}.world_size", value.world_size

"""What a rank keeps for the backward pass, measured from the tensors themselves.

    forward of microbatch 3 ──► autograd saves tensors ──► the meter holds each of them for autograd, and counts it
    backward                ──► autograd lets go of them ──► they are gone, and the meter has noticed

Counted are bytes, once per tensor however often it is saved; parameters do not count, since they are there anyway.
How torch hands saved tensors over: https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch.autograd.graph import saved_tensors_hooks

Key = tuple[int, int]
"""A stage, and a microbatch."""


class ActivationMeter:
    """Counts the tensors that are kept for the backward pass, by stage and microbatch.

    Args:
        parameters: tensors that do not count.

    Attributes:
        peak_bytes: the most bytes that were kept at the same time.
    """

    def __init__(self, parameters: Iterable[torch.Tensor] = ()) -> None:
        self._ignored = {parameter.data_ptr() for parameter in parameters}
        self._times_held: Counter[tuple[Key, int]] = Counter()
        self._bytes: Counter[Key] = Counter()
        self.peak_bytes = 0

    @property
    def kept(self) -> dict[Key, int]:
        """By stage and microbatch, the bytes that are kept now; those that keep nothing are left out."""
        return dict(self._bytes)

    def watch(self, key: Key) -> AbstractContextManager[object]:
        """Count what autograd saves inside the block, for as long as autograd keeps it."""
        return saved_tensors_hooks(partial(Held, self, key), Held.get)

    def hold(self, key: Key, tensor: torch.Tensor) -> Held:
        """Count a tensor for as long as the result lives; `result.tensor` is the tensor."""
        return Held(self, key, tensor)

    def _begin(self, key: Key, address: int, nbytes: int) -> None:
        self._times_held[key, address] += 1
        if self._times_held[key, address] == 1 and address not in self._ignored:
            self._bytes[key] += nbytes
            self.peak_bytes = max(self.peak_bytes, self._bytes.total())

    def _end(self, key: Key, address: int, nbytes: int) -> None:
        self._times_held[key, address] -= 1
        if not self._times_held[key, address]:
            del self._times_held[key, address]
            if address not in self._ignored:
                self._bytes[key] -= nbytes
                if not self._bytes[key]:
                    del self._bytes[key]


class Held:
    """A tensor that is kept, for as long as this lives."""

    __slots__ = ("_address", "_key", "_meter", "_nbytes", "tensor")

    def __init__(self, meter: ActivationMeter, key: Key, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._meter, self._key = meter, key
        self._address, self._nbytes = tensor.data_ptr(), tensor.nbytes
        meter._begin(key, self._address, self._nbytes)

    def get(self) -> torch.Tensor:
        return self.tensor

    def __del__(self) -> None:
        self._meter._end(self._key, self._address, self._nbytes)

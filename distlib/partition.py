"""How a buffer is cut into chunks. Pure functions: no communication, no state.

A buffer of 10 elements over 4 ranks, as `torch.tensor_split` cuts it: the first 10 mod 4 chunks get one more.

    index   0  1  2 | 3  4  5 | 6  7 | 8  9
    chunk     0     |    1    |   2  |  3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch

from distlib.arguments import check_integer, check_number, check_tensor


def chunk_lengths(length: int, parts: int) -> list[int]:
    """The lengths of the `parts` chunks that `torch.tensor_split` cuts `length` elements into. They sum to `length`.

    Raises:
        ValueError: `length` is negative or `parts` is less than 1.
    """
    if type(length) is not int or type(parts) is not int:  # the usual case, quickly
        check_number("chunk_lengths", "length", length)
        check_integer("chunk_lengths", "parts", parts, None)
    if length < 0 or parts < 1:
        raise ValueError(f"expected a length of at least 0 and at least 1 part, got length={length}, parts={parts}")
    short, longer = divmod(length, parts)
    return [short + 1 if index < longer else short for index in range(parts)]


def chunk_start(length: int, parts: int, index: int) -> int:
    """Where chunk `index` begins: the sum of the lengths before it. For `index` = `parts` that is `length`."""
    short, longer = divmod(length, parts)
    return index * short + min(index, longer)


def parts_of(flat: torch.Tensor) -> Callable[[int, int], torch.Tensor]:
    """A function that gives elements `start` to `stop` of the one-dimensional `flat`: a view.

    On the meta device, where there is nothing to view, all parts of a length are one tensor: thousands of simulated
    ranks would take longer to make views than to send them.
    """
    if flat.is_meta:
        dtype = flat.dtype
        return lambda start, stop: without_contents(stop - start, dtype)
    return lambda start, stop: flat[start:stop]


@lru_cache(maxsize=1024)
def without_contents(length: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor that has a length and no contents, on the meta device; the same one for whoever asks."""
    return torch.empty(length, dtype=dtype, device="meta")


def flat_view(tensor: torch.Tensor) -> torch.Tensor:
    """A one-dimensional view of `tensor` if its memory allows one, else a flattened copy. See `write_back`."""
    return tensor if tensor.ndim == 1 else tensor.reshape(-1)


def write_back(tensor: torch.Tensor, flat: torch.Tensor) -> None:
    """Write `flat` (from `flat_view`) back into `tensor`, in place. Costs nothing where `flat` was a view."""
    if flat is not tensor and flat.data_ptr() != tensor.data_ptr():
        tensor.copy_(flat.view(tensor.shape))


def chunks_of(flat: torch.Tensor, parts: int) -> Chunks:
    """`parts` views that cover the one-dimensional `flat` in order; sizes as in `chunk_lengths`.

    Raises:
        TypeError: not a tensor.
        ValueError: a tensor of more dimensions, or less than 1 part.
    """
    check_tensor("chunks_of", flat)
    if flat.ndim != 1:
        raise ValueError(f"chunks_of expected one dimension, got shape {tuple(flat.shape)}: see flat_view")
    check_integer("chunks_of", "parts", parts, 1)
    return Chunks(flat, parts)


class Chunks(Sequence[torch.Tensor]):
    """The chunks of a buffer. Each view is made when it is asked for: a thousand take more memory than a buffer."""

    def __init__(self, flat: torch.Tensor, parts: int) -> None:
        short, longer = divmod(flat.numel(), parts)
        cut = longer * (short + 1)
        self._flat, self._parts, self._short, self._longer = flat, parts, short, longer
        self._is_meta = flat.is_meta
        self._first = flat[:cut].view(longer, short + 1)  # taking a row is faster than taking a slice
        self._others = flat[cut:].view(parts - longer, short)
        self._latest: tuple[int, torch.Tensor] = (-1, flat)  # a ring sends the chunk it took last: one view for both

    def __len__(self) -> int:
        return self._parts

    def __getitem__(self, index: int) -> torch.Tensor:  # type: ignore[override]
        if not 0 <= index < self._parts:
            raise IndexError(f"expected a chunk from 0 to {self._parts - 1}, got {index}")
        if index != self._latest[0]:
            self._latest = (index, self._chunk(index))
        return self._latest[1]

    def _chunk(self, index: int) -> torch.Tensor:
        if self._is_meta:
            return without_contents(self._short + (index < self._longer), self._flat.dtype)
        return self._first[index] if index < self._longer else self._others[index - self._longer]

"""A tensor as bytes: how it is written, read back, and called in a message.

Every dtype travels as bytes, so none needs the backend's support: bool, bfloat16 and complex go like float32.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import torch


def dtype_name(tensor: torch.Tensor) -> str:
    """ "float32" for torch.float32."""
    return _DTYPE_NAMES.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.")


_DTYPE_NAMES = {d: str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}


@lru_cache(maxsize=1024)  # a rank that waits says each time for what
def describe_tensor(shape: tuple[int, ...], dtype: str) -> str:
    """ "4 float32" for one dimension, "2×3 float32" for more."""
    return f"{'×'.join(str(length) for length in shape) or '1'} {dtype}"


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if its elements lie side by side as they are, else a copy in which they do."""
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor  # the usual case, quickly
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor as a flat uint8 tensor: a view."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def to_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor in main memory, in row order. A copy."""
    source = dense(tensor)
    return ctypes.string_at(source.data_ptr(), source.nbytes)


def from_bytes(payload: bytes, tensor: torch.Tensor) -> None:
    """Fill `tensor` with what `to_bytes` made of one with as many elements of the same dtype. In place."""
    landing = landing_of(tensor)
    ctypes.memmove(landing.data_ptr(), payload, len(payload))
    if landing is not tensor:
        tensor.detach().copy_(landing)


def landing_of(tensor: torch.Tensor) -> torch.Tensor:
    """Where bytes for `tensor` can be written in row order: itself, or as much memory if it has gaps."""
    if tensor.is_contiguous():
        return tensor
    return torch.empty_like(tensor, memory_format=torch.contiguous_format).detach()

"""A tensor as bytes: how it is written, read back, and called in a message.

Every dtype travels as bytes, so none needs the backend's support: bool, bfloat16 and complex go like float32.
"""

from __future__ import annotations

import ctypes

import torch

from distlib.arguments import describe_tensor, dtype_name_of

__all__ = ["as_bytes", "dense", "describe_tensor", "dtype_name_of", "from_bytes", "landing_of", "to_bytes"]


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if its elements lie side by side as they are, else a copy in which they do."""
    if _lies_in_order(tensor):
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
    """Where bytes for `tensor` can be written in row order: itself, or as much memory if it lies in another way."""
    if _lies_in_order(tensor):
        return tensor
    return torch.empty_like(tensor, memory_format=torch.contiguous_format).detach()


def _lies_in_order(tensor: torch.Tensor) -> bool:
    """Whether its memory holds its elements, side by side. That of `x.conj()` holds those of x."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()

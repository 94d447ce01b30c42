"""How functions, arguments and results travel between the notebook and its ranks: cloudpickle, and tensors as bytes.

torch's own way of pickling a tensor takes along all the memory that the tensor is a view of, does not know the newer
dtypes (uint16, float8 …). Here a tensor travels as it looks: elements, dtype and shape.
"""

from __future__ import annotations

import io
from typing import Any

import cloudpickle
import torch

from distlib.transport import from_bytes, to_bytes


def dumps(value: Any) -> bytes:
    """Anything as bytes; functions and classes of a notebook by value. Tensors that share memory arrive as separate.

    Raises:
        Exception: whatever the part that can't be pickled raises (TypeError, PicklingError, …).
    """
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """What `dumps` made, here."""
    return cloudpickle.loads(data)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is torch.Tensor and _is_plain(value):
            return _rebuild, (to_bytes(value), value.dtype, tuple(value.shape), value.requires_grad)
        return super().reducer_override(value)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether dtype, shape and elements are all there is to a tensor."""
    dense = tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_quantized
    return dense and not tensor.__dict__ and not tensor._backward_hooks


def _rebuild(payload: bytes, dtype: torch.dtype, shape: tuple[int, ...], requires_grad: bool) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=dtype)
    from_bytes(payload, tensor)
    return tensor.requires_grad_(requires_grad)

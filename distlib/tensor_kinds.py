"""Which tensors may be sent: those whose numbers lie in this process's memory, and nothing else belongs to them.

works in every world                                     gets a sentence in every world
any dtype, 0 dimensions, no elements, no_grad or not     sparse, mkldnn, nested, masked, quantized
non-contiguous, conjugate and negative views             DTensor, AsyncCollectiveTensor, FakeTensor
nn.Parameter, subclasses that only add methods           subclasses that keep their numbers in other tensors
inference tensors, inside the mode and outside           inside torch.func's grad, vmap, jvp; with a tangent
on the meta device, in a simulated world                 a lazy layer's parameters; memory that has been freed
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd import forward_ad

from distlib.arguments import check_tensor

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_USUAL_DISPATCH = torch.Tensor.__torch_dispatch__  # of a subclass whose numbers are its own

# By the name of the class, so that none has to be imported: what it is, and what to hand over instead.
_CLASSES = {
    "DTensor": (
        "a DTensor, whose parts lie on several ranks",
        "hand over this rank's own part, tensor.to_local(), or the whole, tensor.full_tensor()",
    ),
    "AsyncCollectiveTensor": (
        "a tensor that a collective of torch's own is still bringing",
        "wait for it first, with tensor.wait()",
    ),
    "FakeTensor": (
        "a FakeTensor, which has a shape and no numbers",
        'make it outside FakeTensorMode, or on device="meta" in a SimulatedWorld',
    ),
    "NestedTensor": (
        "a nested tensor, whose parts have different shapes",
        "make one call for each of tensor.unbind(), or fill it up with torch.nested.to_padded_tensor(tensor, 0.0)",
    ),
    "MaskedTensor": (
        "a MaskedTensor, whose mask would stay behind",
        "hand over tensor.get_data(), and the mask, tensor.get_mask(), in a call of its own",
    ),
    "UninitializedTensorMixin": (
        "a parameter of a lazy layer, which has no shape yet",
        "call the model on a batch first, on every rank",
    ),
}
_FUNC = (
    "a tensor inside torch.func (grad, vmap or jvp), which follows one process only",
    "call it on the result, outside the function that torch.func transforms",
)
_TANGENT = (
    "a tensor with a tangent (of torch.autograd.forward_ad), which would stay this rank's own",
    "hand over the two parts that forward_ad.unpack_dual(tensor) gives, one after the other",
)
_QUANTIZED = (
    "a quantized tensor, whose scale would stay behind",
    "hand over tensor.dequantize(), or the integers, tensor.int_repr()",
)
_NAMED = ("a tensor with named dimensions", "take the names off first, with tensor.rename(None)")
_FREED = (
    "a tensor whose memory has been freed, as FSDP frees a parameter between its uses",
    "hand over one that holds its elements",
)
_KINDS: list[tuple[Callable[[torch.Tensor], bool], tuple[str, str]]] = [
    (lambda tensor: tensor.is_nested, _CLASSES["NestedTensor"]),
    (lambda tensor: tensor.is_quantized, _QUANTIZED),
    (lambda tensor: _is_wrapped(tensor), _FUNC),
    (lambda tensor: forward_ad.unpack_dual(tensor).tangent is not None, _TANGENT),
    (lambda tensor: _is_freed(tensor), _FREED),
]
if hasattr(torch.Tensor, "has_names"):  # until torch 2.12
    _KINDS.append((lambda tensor: bool(getattr(tensor, "has_names")()), _NAMED))  # noqa: B009


def check_sendable(who: str, value: object, argument: str = "", *, written: bool = False) -> None:
    """Check that `value` is a tensor that can go into a message as it is, or be filled from one.

    Args:
        who: the function that was called, "all_reduce".
        argument: which of its arguments it is, " as inputs[2]", where that is not clear.
        written: whether the function writes into it.

    Raises:
        TypeError: it is not a tensor.
        ValueError: its numbers are not all there is to it, or lie elsewhere; or it is written and some of its elements
            share memory.
    """
    unusual = _kind_of(value) if isinstance(value, torch.Tensor) else None
    if unusual is not None:
        what, instead = unusual
        raise ValueError(f"{who} expected a dense tensor{argument}, got {what}: {instead}")
    check_tensor(who, value, argument, written=written)


def is_sendable(tensor: torch.Tensor) -> bool:
    """Whether a tensor is of the usual kind, which needs no further look."""
    return type(tensor) in _PLAIN and tensor.layout is torch.strided and _kind_of(tensor) is None


def _kind_of(tensor: torch.Tensor) -> tuple[str, str] | None:
    """What is unusual about a tensor, and what to hand over instead; None if nothing is."""
    if type(tensor) not in _PLAIN:
        known = next((each.__name__ for each in type(tensor).__mro__ if each.__name__ in _CLASSES), None)
        if known is not None:
            return _CLASSES[known]
        if type(tensor).__torch_dispatch__ is not _USUAL_DISPATCH:
            name = type(tensor).__name__
            return f"a {name}, which keeps its numbers in other tensors", "hand over those, one after the other"
    return next((said for applies, said in _KINDS if applies(tensor)), None)


def _is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether torch.func has put something around a tensor, which has a shape then, and no memory of its own."""
    if tensor.layout is not torch.strided:
        return False
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return True
    return False


def _is_freed(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.is_meta:
        return False
    return tensor.untyped_storage().nbytes() == 0 and tensor.numel() > 0

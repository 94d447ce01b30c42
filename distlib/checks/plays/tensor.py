"""A function on one tensor: make the tensor, call the student's function, look at the tensor's memory.

    values ──► memory ──► view ──► function(comm, view, **options) ──► memory again, and what the function returned

The memory is read through a view of our own, so a function that points its tensor elsewhere is seen not to write it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

LAYOUTS = {
    "contiguous": "",
    "scalar": ", a scalar (a tensor without dimensions)",
    "block": ", in three dimensions",
    "matrix": ", as a matrix",
    "transposed": ", a transposed matrix (its memory is not contiguous)",
    "strided": ", every second element of a longer tensor (its memory is not contiguous)",
}


def one_tensor(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, tensor, **options)`.

    Args:
        inputs: "values": shape [length]; "layout": how they lie in memory, a key of `LAYOUTS`; "options".

    Returns:
        "values": the elements of the tensor's memory afterwards, shape [length].
        "returned": what the function returned: a tensor, a list of tensors, None; else {"type": its type's name}.
        "is_other": whether it returned a tensor whose memory is not that of the tensor it was given.
        "moved": what the student's tensor object shows, flattened, if it was pointed at other memory; else None.
        "reformed": the student's tensor object as it is, if its shape or dtype has changed; else None.
        "strayed": whether memory next to the tensor was written.
        "changed": the names of those options, tensors, that are not as they were.
    """
    memory, view = lay_out(inputs["values"], inputs["layout"])
    ours, before = memory.as_strided(view.shape, view.stride(), view.storage_offset()), memory.clone()
    form = view.shape, view.dtype
    kept = {name: value.clone() for name, value in inputs["options"].items() if isinstance(value, torch.Tensor)}
    returned = function(comm, view, **inputs["options"])
    return {
        "values": ours.flatten().clone(),
        "returned": returned,
        "is_other": is_other(returned, ours),
        "moved": view.detach().flatten().clone() if is_other(view, ours) else None,
        "reformed": view.detach().clone() if (view.shape, view.dtype) != form else None,
        "strayed": strayed(memory, before, ours),
        "changed": [name for name, value in kept.items() if not torch.equal(inputs["options"][name], value)],
    }


def is_other(value: object, ours: torch.Tensor) -> bool:
    """Whether a value is a tensor that lies elsewhere than `ours`."""
    return isinstance(value, torch.Tensor) and value.data_ptr() != ours.data_ptr()


def strayed(memory: torch.Tensor, before: torch.Tensor, ours: torch.Tensor) -> bool:
    """Whether memory that is not in the view `ours` has changed."""
    inside = torch.zeros(memory.shape, dtype=torch.bool)
    inside.as_strided(ours.shape, ours.stride(), ours.storage_offset()).fill_(True)
    return not torch.equal(memory[~inside], before[~inside])


def lay_out(values: torch.Tensor, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Put `values` (shape [length]) into memory the way `layout` says.

    Returns:
        The whole memory as a tensor of one dimension, and the view of it that holds the values in order.
    """
    length = values.numel()
    memory = torch.full((2 * length + 1 if layout == "strided" else length,), 1, dtype=values.dtype)
    view = _VIEWS[layout](memory, length)
    view.copy_(values.view(view.shape))
    return memory.detach(), view  # two objects: whoever has the view may resize it


def _rows(length: int) -> int:
    """The number of rows of the squarest matrix with `length` elements."""
    return max((rows for rows in range(1, length + 1) if length % rows == 0 and rows * rows <= length), default=1)


def _matrix(memory: torch.Tensor, length: int) -> torch.Tensor:
    rows = _rows(length)
    return memory.view(rows, length // rows)


def _block(memory: torch.Tensor, length: int) -> torch.Tensor:
    matrix = _matrix(memory, length)
    return matrix.view(len(matrix), *_matrix(matrix[0], matrix.shape[1]).shape)


_VIEWS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "contiguous": lambda memory, length: memory,
    "scalar": lambda memory, length: memory.view(()),
    "block": _block,
    "matrix": _matrix,
    "transposed": lambda memory, length: _matrix(memory, length).t(),
    "strided": lambda memory, length: memory[1 : 2 * length + 1 : 2],
}

"""Gradients that travel together: one flat buffer, with a place for each parameter.

    parameters    w₂ [3, 2]      b₂ [2]    w₁ [2, 2]
    flat          x x x x x x    y y       z z z z

Not every parameter gets a gradient in every training step. Where ranks may differ in that, the buffer has one more
number for each parameter: how many ranks had a gradient for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from distlib.training.buckets import assign_buckets
from distlib.training.same_parameters import check_dense


def make_buckets(
    parameters: Mapping[str, nn.Parameter],
    bucket_bytes: int,
    first_bucket_bytes: int | None = None,
    count_users: bool = False,
) -> list[Bucket]:
    """The buckets of a model, in the order in which they are sent; see `assign_buckets` and `Bucket`."""
    named = list(parameters.items())
    sizes, dtypes = [p.nbytes for p in parameters.values()], [p.dtype for p in parameters.values()]
    assigned = assign_buckets(sizes, bucket_bytes, first_bucket_bytes, kinds=dtypes)
    return [Bucket(dict(named[index] for index in indices), count_users) for indices in assigned]


class Bucket:
    """A flat buffer for the gradients of `parameters`, which have one dtype and lie on one device.

    Args:
        parameters: at least one, by name, in the order in which they stand in the buffer.
        count_users: whether to count how many ranks have a gradient for each parameter.

    Attributes:
        parameters: as given; the names are for messages.
        flat: one-dimensional: the gradients one after the other, then the counts if there are any.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], count_users: bool = False) -> None:
        self.parameters = dict(parameters)
        first = next(iter(self.parameters.values()))
        lengths = [parameter.numel() for parameter in self.parameters.values()]
        counts = len(lengths) if count_users else 0
        self.flat = torch.zeros(sum(lengths) + counts, dtype=first.dtype, device=first.device)
        *slots, self._users = self.flat.split([*lengths, counts])
        self._slots = dict(zip(self.parameters.values(), slots, strict=True))
        self._filled: set[nn.Parameter] = set()

    @torch.no_grad()
    def fill(self, parameter: nn.Parameter) -> None:
        """Copy a parameter's gradient into its slot. How it lies in memory doesn't matter, but it is not sparse."""
        check_dense(self.parameters, parameter)
        assert parameter.grad is not None
        self._slots[parameter].view(parameter.shape).copy_(parameter.grad)
        self._filled.add(parameter)

    def name_of(self, parameter: nn.Parameter) -> str:
        """The name of one of its parameters."""
        return next(name for name, each in self.parameters.items() if each is parameter)

    @property
    def is_full(self) -> bool:
        """Whether every parameter has filled in its gradient."""
        return len(self._filled) == len(self.parameters)

    @property
    def counts_users(self) -> bool:
        """Whether it counts how many ranks have a gradient for each parameter."""
        return len(self._users) > 0

    def missing(self) -> dict[str, nn.Parameter]:
        """The parameters that have not filled in a gradient, by name."""
        return {name: parameter for name, parameter in self.parameters.items() if parameter not in self._filled}

    @torch.no_grad()
    def get_ready(self) -> None:
        """Zero the slots whose gradient is missing. Call before sending."""
        for parameter in self.missing().values():
            self._slots[parameter].zero_()
        if self.counts_users:
            self._users.copy_(torch.tensor([parameter in self._filled for parameter in self.parameters.values()]))

    @torch.no_grad()
    def write_back(self, divide_by: int) -> None:
        """Divide the buffer and copy it into the gradients of the parameters, in place; then empty it.

        Args:
            divide_by: the number of ranks that have been summed up.
        """
        for parameter in self.used():
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            torch.div(self._slots[parameter].view(parameter.shape), divide_by, out=parameter.grad)
        self.empty()

    def empty(self) -> None:
        """Forget which gradients have arrived."""
        self._filled.clear()

    def used(self) -> list[nn.Parameter]:
        """The parameters for which some rank has a gradient, if that was counted; else all."""
        parameters = list(self.parameters.values())
        if not self.counts_users:
            return parameters
        return [parameter for parameter, users in zip(parameters, self._users.tolist(), strict=True) if users]

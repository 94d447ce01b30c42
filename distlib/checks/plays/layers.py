"""Layers of the models of several plays, made from tensors that a check has drawn."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def linear(weight: torch.Tensor, bias: torch.Tensor | None) -> torch.nn.Linear:
    """A linear layer with copies of `weight` [outputs, inputs] and of `bias` [outputs], if there is one."""
    made = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    made.weight.data.copy_(weight)
    if bias is not None:
        made.bias.data.copy_(bias)
    return made


class RunningMean(torch.nn.Module):
    """Subtracts its buffer `mean` from the input, then moves it half-way to the mean of the input.

    Args:
        start: of the mean, [features].
        count: of the forward passes so far, int64 []: a second buffer. None: there is none.
        more: further buffers, of any shape; each forward pass adds the mean of its input to all their numbers.
    """

    def __init__(
        self, start: torch.Tensor, count: torch.Tensor | None = None, more: Sequence[torch.Tensor] = ()
    ) -> None:
        super().__init__()
        self.mean: torch.Tensor
        self.count: torch.Tensor | None
        self.register_buffer("mean", start.clone())
        self.register_buffer("count", None if count is None else count.clone())
        for number, buffer in enumerate(more):
            self.register_buffer(f"more_{number}", buffer.clone())

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """`values` minus the buffer; shape [samples, features]."""
        shifted = values - self.mean
        self.mean.copy_((self.mean + values.detach().mean(0)) / 2)
        if self.count is not None:
            self.count += 1
        for name, buffer in self.named_buffers():
            if name.startswith("more_"):
                buffer += values.detach().mean()
        return shifted

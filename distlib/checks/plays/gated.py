"""Gates in a model: places that the gradient can't pass without asking, at a moment that is known.

    forward     layer 0 ──► gate 1 ──► layer 1 ──► gate 0 ──► loss
    backward    layer 0 ◄── gate 1 ◄── layer 1 ◄── gate 0 ◄── loss
                  ▲            │ 2. seconds pass; the gradient is multiplied by a factor that only the judge knows
                  └ 3. the gradients of layer 0 can't exist earlier

Gates are counted as backward meets them: gate 0 stands behind the last layer. Passing a gate takes the virtual time
that computing the gradients of the layer before it takes: `seconds_of` in the file of the play says how much.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch


class PassGate(Protocol):
    """`gate(k, values)` of a play: lets time pass, notes when gate k was passed and with what, returns a factor."""

    def __call__(self, k: int, values: torch.Tensor | None = None) -> float: ...


def open_gate(k: int, values: torch.Tensor | None = None) -> float:
    """A gate that lets everything pass as it is: no time, and the factor 1."""
    return 1.0


class Gate(torch.nn.Module):
    """A layer without parameters: forward hands its input on, backward passes gate k and multiplies by its factor.

    Args:
        gate: what the play was handed.
        k: the gate's number.

    Attributes:
        k: the number that the next forward pass takes along.
    """

    def __init__(self, gate: PassGate, k: int) -> None:
        super().__init__()
        self._pass, self.k = gate, k

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """`values`, behind this gate."""
        passed: torch.Tensor = _Passing.apply(values, self._pass, self.k)
        return passed

    def __deepcopy__(self, memo: dict[int, Any]) -> Gate:
        return self  # a copy of the model has the same gates

    def extra_repr(self) -> str:
        return str(self.k)


class _Passing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, gate: PassGate, k: int) -> torch.Tensor:
        ctx.pass_gate = lambda: gate(k)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0] * ctx.pass_gate(), None, None

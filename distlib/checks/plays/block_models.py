"""A model of equal blocks, as transformers are, with a layer before them and one behind: for programs of torch's.

first ──► blocks[0] ──► … ──► blocks[n - 1] ──► last        a block: values + down(tanh(up(norm(values))))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

SPEAKS = (f"{__name__}.BlockModel.forward",)  # below it torch gathers a block; so in a file of plays, see `plays`


class ResidualBlock(torch.nn.Module):
    """Adds an MLP of what comes in. `width` features, `hidden` in between."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, hidden)
        self.down = torch.nn.Linear(hidden, width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Of [samples, width], of the same shape."""
        added: torch.Tensor = self.down(torch.tanh(self.up(self.norm(values))))
        return values + added


class BlockModel(torch.nn.Module):
    """A layer, equal blocks, a layer.

    Args:
        widths: inputs, width, hidden, outputs.
        number: of blocks.
    """

    def __init__(self, widths: tuple[int, int, int, int], number: int) -> None:
        super().__init__()
        inputs, width, hidden, outputs = widths
        self.first = torch.nn.Linear(inputs, width)
        self.blocks = torch.nn.ModuleList(ResidualBlock(width, hidden) for _ in range(number))
        self.last = torch.nn.Linear(width, outputs)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Outputs [samples, outputs] of inputs [samples, inputs]."""
        values = self.first(values)
        for block in self.blocks:
            values = block(values)
        outputs: torch.Tensor = self.last(values)
        return outputs


def block_model(widths: tuple[int, int, int, int], state: Mapping[str, torch.Tensor]) -> BlockModel:
    """A model with these parameters, copies of them, by name. It has as many blocks as they have.

    Built on "meta", so that no random number is drawn.
    """
    number = len({name.split(".")[1] for name in state if name.startswith("blocks.")})
    with torch.device("meta"):
        model = BlockModel(widths, number)
    model.load_state_dict({name: each.clone() for name, each in state.items()}, assign=True)
    return model


def local_parts(model: torch.nn.Module) -> dict[str, dict[str, object]]:
    """Of each parameter, by name: what this rank has of it ("local"), and whether it is a DTensor ("is_cut")."""
    from torch.distributed.tensor import DTensor

    return {name: _part(each, isinstance(each, DTensor)) for name, each in model.named_parameters()}


def _part(parameter: Any, is_cut: bool) -> dict[str, object]:
    local = parameter.to_local() if is_cut else parameter
    return {"local": local.detach().clone(), "is_cut": is_cut}


def told(values: object) -> object:
    """What a function has returned, with the words "a DTensor" in the place of one, since none leaves its ranks."""
    from torch.distributed.tensor import DTensor

    if isinstance(values, list | tuple):
        return [told(each) for each in values]
    return "a DTensor" if isinstance(values, DTensor) else values

"""A model of equal blocks, as transformers are, with a layer before them and one behind: for programs of torch's.

first ──► blocks[0] ──► … ──► blocks[n - 1] ──► last        a block: values + down(tanh(up(norm(values))))
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

SPEAKS = (f"{__name__}.BlockModel.forward",)  # below it torch gathers a block; so in a file of plays, see `plays`


class ResidualBlock(torch.nn.Module):
    """Adds an MLP of what comes in. `width` features, `hidden` in between."""

    def __init__(self, width: int, hidden: int, bias: bool = True) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, hidden, bias)
        self.down = torch.nn.Linear(hidden, width, bias)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Of [samples, width], of the same shape."""
        added: torch.Tensor = self.down(torch.tanh(self.up(self.norm(values))))
        return values + added


class BlockModel(torch.nn.Module):
    """A layer, equal blocks, a layer.

    Args:
        widths: inputs, width, hidden, outputs.
        number: of blocks.
        bias: whether the linear layers have one.
    """

    def __init__(self, widths: tuple[int, int, int, int], number: int, bias: bool = True) -> None:
        super().__init__()
        inputs, width, hidden, outputs = widths
        self.first = torch.nn.Linear(inputs, width, bias)
        self.blocks = torch.nn.ModuleList(ResidualBlock(width, hidden, bias) for _ in range(number))
        self.last = torch.nn.Linear(width, outputs, bias)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Outputs [samples, outputs] of inputs [samples, inputs]."""
        values = self.first(values)
        for block in self.blocks:
            values = block(values)
        outputs: torch.Tensor = self.last(values)
        return outputs


def block_model(widths: tuple[int, int, int, int], state: Mapping[str, torch.Tensor]) -> BlockModel:
    """A model with these parameters, copies of them, by name. Blocks and biases are those that they tell of.

    Built on "meta", so that no random number is drawn.
    """
    number = len({name.split(".")[1] for name in state if name.startswith("blocks.")})
    with torch.device("meta"):
        model = BlockModel(widths, number, bias="first.bias" in state)
    model.load_state_dict({name: each.clone() for name, each in state.items()}, assign=True)
    return model


def local_parts(model: torch.nn.Module) -> dict[str, object]:
    """What this rank has of each parameter, by name, see `part_of`."""
    return {name: part_of(each) for name, each in model.named_parameters()}


def part_of(value: object) -> object:
    """What this rank has of a tensor ("local"), and whether it is a DTensor ("is_cut"). Anything else as it is."""
    from torch.distributed.tensor import DTensor

    if not isinstance(value, torch.Tensor):
        return value
    local = value.to_local() if isinstance(value, DTensor) else value
    return {"local": local.detach().clone(), "is_cut": isinstance(value, DTensor)}


def told(values: object) -> object:
    """What a function has returned, with the words "a DTensor" in the place of one, since none leaves its ranks."""
    from torch.distributed.tensor import DTensor

    if isinstance(values, Mapping):
        return {key: told(each) for key, each in values.items()}
    if isinstance(values, list | tuple):
        return [told(each) for each in values]
    return "a DTensor" if isinstance(values, DTensor) else values

"""A transformer in plain torch that a student's `parallelize` cuts over the ranks; then a pass through it.

    model.embed ──► model.blocks[0] ──► model.blocks[1] ──► … ──► model.head

Nothing in it knows of ranks. Attention takes as many heads as the features that it is handed are enough for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.torch_program import process_group
from distlib.communicator import Communicator

RUNS_TORCH = True  # the student's function is a program of torch's
IMPORTED_LATE = ("torch.distributed.tensor.parallel",)  # takes seconds
SPEAKS = ("one_pass",)  # the pass through the model that the student's function has cut

# An error in a pass is told in our words. This logger would write torch's own stack on top of it.
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)


class PlainAttention(nn.Module):
    """Self-attention. q, k and v: linear layers that share one input; out: a linear layer that mixes the heads."""

    def __init__(self, width: int, head_size: int, bias: bool) -> None:
        super().__init__()
        self.head_size = head_size
        self.q, self.k, self.v, self.out = (_linear(width, width, bias) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, width] → the same shape."""
        heads = (layer(x).unflatten(-1, (-1, self.head_size)) for layer in (self.q, self.k, self.v))
        q, k, v = (each.transpose(1, 2) for each in heads)
        scores = q @ k.transpose(-1, -2) / self.head_size**0.5
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class PlainMLP(nn.Module):
    """up, then GELU, then down. If it is gated: SiLU of gate times up, then down. up and gate share one input."""

    def __init__(self, width: int, hidden: int, gated: bool, bias: bool) -> None:
        super().__init__()
        self.up, self.down = _linear(width, hidden, bias), _linear(hidden, width, bias)
        self.gate = _linear(width, hidden, bias) if gated else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, width] → the same shape."""
        if self.gate is None:
            return self.down(nn.functional.gelu(self.up(x)))
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class PlainBlock(nn.Module):
    """Attention and MLP, each behind a norm, and each added to what goes into it."""

    def __init__(self, width: int, head_size: int, hidden: int, gated: bool, bias: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, dtype=torch.float64) for _ in range(2))
        self.attention, self.mlp = PlainAttention(width, head_size, bias), PlainMLP(width, hidden, gated, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, length, width] → the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """An embedding of tokens, blocks, and a head that gives a score for each token. All float64.

    Args:
        tokens: how many there are.
        blocks: how many there are.
        heads: of each attention; each has `head_size` features, so that the width is heads * head_size.
        hidden: features between up and down.
        gated: whether each MLP has a gate.
        bias: whether the linear layers of the blocks have a bias.
    """

    def __init__(
        self, tokens: int, blocks: int, heads: int, head_size: int, hidden: int, gated: bool = False, bias: bool = True
    ) -> None:
        super().__init__()
        width = heads * head_size
        self.embed = nn.Embedding(tokens, width, dtype=torch.float64)
        self.blocks = nn.ModuleList(PlainBlock(width, head_size, hidden, gated, bias) for _ in range(blocks))
        self.head = nn.Linear(width, tokens, dtype=torch.float64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [batch, length] → scores [batch, length, tokens]."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=bias, dtype=torch.float64)


def made(sizes: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> Transformer:
    """The transformer of these sizes with copies of these weights, by the names of its parameters."""
    model = Transformer(**sizes)
    model.load_state_dict(dict(weights))
    return model


def one_pass(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(model)`, then the model.

    Args:
        inputs: "sizes" and "weights" of the model; "batch": tokens; "arriving": the gradient of the output, or None
            where there is no backward pass.

    Returns:
        "shapes" of what this rank has of each parameter; the "output"; "gradients": what it has of each. "failed": the
        text of an error that torch has raised in the pass, or None. What comes after it is missing then.
    """
    with process_group(comm):
        model = made(inputs["sizes"], inputs["weights"])
        function(model)
        told: dict[str, Any] = {"shapes": {name: list(_own(each).shape) for name, each in model.named_parameters()}}
        try:
            return {**told, "failed": None, **_passed(model, inputs["batch"], inputs["arriving"])}
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            if type(error).__module__ != "builtins":  # not torch's: ranks that wait in a circle, for example
                raise
            return {**told, "failed": f"{type(error).__name__}: {error}"}


def _passed(model: Transformer, batch: torch.Tensor, arriving: torch.Tensor | None) -> dict[str, Any]:
    if arriving is None:
        with torch.no_grad():
            return {"output": _own(model(batch)).clone(), "gradients": {}}
    output = _own(model(batch))
    if output.shape == arriving.shape:
        output.backward(arriving)
    gradients = {name: None if each.grad is None else _own(each.grad).clone() for name, each in _parameters(model)}
    return {"output": output, "gradients": gradients}


def _parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(model.named_parameters())


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of a tensor that is cut."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor

"""A model of Llama 3's shapes in plain torch, to be priced: no rotary embedding, which takes no matrix product."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Shapes:
    """The sizes of a model. Those of Llama-3-8B unless others are given."""

    layers: int = 32
    width: int = 4096
    heads: int = 32
    kv_heads: int = 8
    hidden: int = 14336
    vocabulary: int = 128256

    @property
    def kv_width(self) -> int:
        """Of the keys, and of the values."""
        return self.width // self.heads * self.kv_heads

    @property
    def layer_matrices(self) -> int:
        """The parameters of a layer that stand in matrices."""
        return 2 * self.width * (self.width + self.kv_width) + 3 * self.width * self.hidden

    @property
    def layer_parameters(self) -> int:
        """All parameters of a layer."""
        return self.layer_matrices + 2 * self.width

    @property
    def root_parameters(self) -> int:
        """The parameters outside of the layers."""
        return 2 * self.vocabulary * self.width + self.width

    def layer_flops(self, tokens: int) -> int:
        """Forward, of one sequence: matrices, and attention's two products, which torch on "meta" makes in full."""
        return 2 * tokens * self.layer_matrices + 4 * tokens**2 * self.width

    def head_flops(self, tokens: int) -> int:
        """Forward, of the output matrix."""
        return 2 * tokens * self.vocabulary * self.width


class Layer(nn.Module):
    """Attention with fewer keys and values than queries, then a gated MLP."""

    def __init__(self, shapes: Shapes) -> None:
        super().__init__()
        self.shapes = shapes
        width, hidden = shapes.width, shapes.hidden
        self.before_attention, self.before_mlp = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, shapes.kv_width, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.before_attention(x))
        y = self.before_mlp(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Causal attention of all heads."""
        shapes, (batch, tokens, width) = self.shapes, x.shape
        q = self.q(x).view(batch, tokens, shapes.heads, -1).transpose(1, 2)
        k = self.k(x).view(batch, tokens, shapes.kv_heads, -1).transpose(1, 2)
        v = self.v(x).view(batch, tokens, shapes.kv_heads, -1).transpose(1, 2)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(attended.transpose(1, 2).reshape(batch, tokens, width))


class Llama(nn.Module):
    """Tokens to logits."""

    def __init__(self, shapes: Shapes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shapes.vocabulary, shapes.width)
        self.layers = nn.ModuleList([Layer(shapes) for _ in range(shapes.layers)])
        self.norm = nn.RMSNorm(shapes.width)
        self.head = nn.Linear(shapes.width, shapes.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))
